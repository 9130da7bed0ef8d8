package runtime

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestRunArgsGolden(t *testing.T) {
	t.Parallel()
	full := Spec{
		Dir: "/tmp/dsg-1/0", Binary: "/tmp/dsg-1/disagg",
		Workload: deploy.Workload{
			RunID: "dsv4-20260101T000000Z-0a1b2c", ID: "prefill-0.0", Image: "rocm/sgl-dev:v1",
			Argv: []string{"python3", "-m", "sglang.launch_server"},
			Env:  []deploy.EnvEntry{{Name: "HF_TOKEN", Value: []byte("hf_secret_value"), Secret: true}},
			Runtime: models.Runtime{
				Kind: "docker", Privileged: true, IPC: "host", ShmSize: "32g",
				Mounts:      []string{"/models:/models:ro", "/data:/data"},
				Ulimits:     map[string]string{"memlock": "-1", "nofile": "1048576:1048576"},
				CapAdd:      []string{"SYS_PTRACE", "IPC_LOCK"},
				SecurityOpt: []string{"seccomp=unconfined"},
				User:        "1000:1000",
				ExtraArgs:   []string{"--pids-limit", "-1"},
			},
			Mounts: []string{"/runs/x/results:/results:rw"}, Accelerated: true,
			Labels: map[string]string{"disagg.site": "lab", "a": "b c"},
			Grace:  20 * time.Second,
		},
	}
	plain := full
	plain.Workload.Runtime = models.Runtime{Kind: "podman", IPC: "private", ShmSize: "1g"}
	plain.Workload.Mounts, plain.Workload.Labels = nil, nil
	for name, tt := range map[string]struct {
		s Spec
		f facts
	}{
		"full":  {full, facts{uid: 1000, devices: []string{"/dev/kfd", "/dev/dri", "/dev/infiniband/uverbs0"}, groups: []int{44, 109}}},
		"plain": {plain, facts{uid: 0}},
	} {
		args, err := runArgs(tt.s, tt.f)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(args, "\n") + "\n"
		if strings.Contains(got, "hf_secret") || strings.Contains(got, "HF_TOKEN") || strings.Contains(got, "sglang.launch") {
			t.Errorf("%s: environment or program on the command line", name)
		}
		file := filepath.Join("testdata", name+".args")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestContainerName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 200)
	names := map[string]string{}
	for _, tt := range []struct{ run, workload, want string }{
		{"r1", "prefill-0.0", "disagg-r1-prefill-0.0"},
		{"r1", "client c16", "disagg-r1-client-c16-"},
		{"r1-a", "b", "disagg-r1-a-b"},
		{"r1/a", "b", "disagg-r1-a-b-"},
		{long, "x", "disagg-" + long[:138]},
		{long, "y", "disagg-" + long[:138]},
	} {
		got := ContainerName(tt.run, tt.workload)
		if !strings.HasPrefix(got, tt.want) || len(got) > 160 {
			t.Errorf("%q %q: %q, want %q…", tt.run, tt.workload, got, tt.want)
		}
		if other, taken := names[got]; taken {
			t.Errorf("%q is the name of %s too", got, other)
		}
		names[got] = fmt.Sprint(tt.run, " ", tt.workload)
	}
}

func TestParseMount(t *testing.T) {
	t.Parallel()
	good := map[string]mount{
		"/a:/b":       {"/a", "/b", false},
		"/a:/b:ro":    {"/a", "/b", true},
		"/a b:/c:rw":  {"/a b", "/c", false},
		"/a=b:/c=d,e": {},
	}
	for text, want := range good {
		m, err := parseMount(text)
		if want == (mount{}) {
			if err == nil {
				t.Errorf("%q was accepted", text)
			}
			continue
		}
		if err != nil || m != want {
			t.Errorf("%q = %+v, %v", text, m, err)
		}
	}
	for _, bad := range []string{"", "/a", "a:/b", "/a:b", "/a:/b:rx", "/a:/b:ro:z", "/a\n:/b", `/a":/b`} {
		if m, err := parseMount(bad); err == nil || deploy.ClassOf(err) != deploy.ClassMount {
			t.Errorf("%q = %+v, %v", bad, m, err)
		}
	}
}

func TestMountsThatCollide(t *testing.T) {
	t.Parallel()
	s := Spec{Dir: "/d", Binary: "/b", Workload: deploy.Workload{ID: "x", RunID: "r", Mounts: []string{"/one:/same", "/two:/same"}}}
	if _, err := runArgs(s, facts{}); err == nil || !strings.Contains(err.Error(), "/one and /two") {
		t.Errorf("error = %v", err)
	}
	s.Workload.Mounts = []string{"/one:/same", "/one:/same"}
	args, err := runArgs(s, facts{})
	if err != nil || strings.Count(strings.Join(args, " "), "target=/same") != 1 {
		t.Errorf("a mount given twice: %q, %v", args, err)
	}
}

func TestExpandDevices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, n := range []string{"uverbs1", "uverbs0", "rdma_cm"} {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := expandDevices([]string{filepath.Join(dir, "uverbs*"), filepath.Join(dir, "rdma_cm"), filepath.Join(dir, "uverbs0")})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "uverbs0"), filepath.Join(dir, "uverbs1"), filepath.Join(dir, "rdma_cm")}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{filepath.Join(dir, "kfd"), filepath.Join(dir, "umad*"), "[x"} {
		if _, err := expandDevices([]string{bad}); err == nil || deploy.ClassOf(err) != deploy.ClassDevice || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	if id, err := groupID("109"); id != 109 || err != nil {
		t.Errorf("number: %d, %v", id, err)
	}
	if id, err := groupID("root"); id != 0 || err != nil {
		t.Errorf("name: %d, %v", id, err)
	}
	if _, err := groupID("no-such-group"); err == nil || !strings.Contains(err.Error(), "no-such-group") {
		t.Errorf("unknown name: %v", err)
	}
	for _, g := range deviceGroups([]string{"/dev/null", "/dev"}) {
		if g == 0 {
			t.Error("root's group is added")
		}
	}
}

func TestGatherMissingMount(t *testing.T) {
	t.Parallel()
	_, err := gather(Spec{Workload: deploy.Workload{Mounts: []string{"/nonexistent/weights:/models:ro"}}})
	if err == nil || deploy.ClassOf(err) != deploy.ClassMount || !strings.Contains(err.Error(), "/nonexistent/weights") {
		t.Errorf("error = %v", err)
	}
	f, err := gather(Spec{Workload: deploy.Workload{Runtime: models.Runtime{Devices: []string{"/nonexistent"}, GroupAdd: []string{"nosuch"}}}})
	if err != nil || len(f.devices)+len(f.groups) != 0 {
		t.Errorf("a process without accelerators: %+v, %v", f, err)
	}
}

func TestParseImage(t *testing.T) {
	t.Parallel()
	got, err := parseImage([]byte(`{"Id":"sha256:ab","RepoDigests":["b@sha256:2","a@sha256:1"],"Size":123,"Config":{"Entrypoint":["vllm","serve"],"Env":["PATH=/bin","EMPTY=","API_KEY=sentinel"],"User":"1000"}}`))
	want := deploy.ImageInfo{ID: "sha256:ab", RepoDigests: []string{"a@sha256:1", "b@sha256:2"}, Entrypoint: []string{"vllm", "serve"},
		EnvNames: []string{"PATH", "EMPTY", "API_KEY"}, User: "1000", SizeBytes: 123}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for _, bad := range []string{"", "[]", "{}", "Error"} {
		if _, err := parseImage([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestContainerID(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0a", 32)
	if got := containerID("WARNING: something\n" + id + "\n"); got != id {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{"", "abc\n", id + "x\n", strings.ToUpper(id)} {
		if got := containerID(bad); got != "" {
			t.Errorf("%q gave %q", bad, got)
		}
	}
}
