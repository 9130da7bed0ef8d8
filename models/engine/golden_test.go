package engine_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The golden records are the commands that the scripts which disagg replaces
// composed for some 1,800 configurations. They lie beside the checkout, not in
// it; without them TestParity is skipped and the files in testdata stand alone.
var goldenDir = flag.String("golden", "", "directory of the golden records (default: ../shared/golden beside the module)")

// record is one golden record.
type record struct {
	ID     string
	Engine string
	Layer  string
	Tags   struct {
		Group, Case, Override, Platform string
		Config, Key                     string
		// Row is the row of the sweep's matrix that the record was made of.
		Row json.RawMessage `json:"matrix_entry"`
	}
	Inputs struct {
		Env     map[string]string
		Ranks   []int
		Fixture fixture
		HiCache string `json:"hicache_mc_env"`
		Script  string
		Args    []string
	}
	Outputs map[string]json.RawMessage
}

// fixture is the faked cluster of a record.
type fixture struct {
	Nodes []struct {
		Name, IP string
		ExtraIPs []string `json:"extra_ips"`
		NICCtl   *bool    `json:"nicctl"`
	}
	IfName string   `json:"ifname"`
	NICCtl *bool    `json:"nicctl"`
	QoS    *string  `json:"nicctl_qos"`
	IBV    []string `json:"ibv"`
	// NoRoute nodes have no route, so no address was found.
	NoRoute bool `json:"no_route"`
}

// process is a command that a record holds, with the variables that the old
// scripts set for it.
type process struct {
	role string
	argv []string
	// env is what the old scripts set for it, given what the container began
	// with, of which only names that a program in the worker reads count.
	env   map[string]string
	given map[string]bool
	// live commands were recorded where they ran, with the program's base name.
	live bool
}

// goldenPath finds the records of an engine.
func goldenPath(t *testing.T, engine string) string {
	t.Helper()
	dir := *goldenDir
	if dir == "" {
		at, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
				break
			}
			if at == filepath.Dir(at) {
				t.Fatal("no go.mod above the test")
			}
			at = filepath.Dir(at)
		}
		dir = filepath.Join(filepath.Dir(at), "shared", "golden")
	}
	path := filepath.Join(dir, engine+".jsonl")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no golden records at %s: the commands are compared with testdata only", path)
	}
	return path
}

// goldenRecords calls f for each record of a file.
func goldenRecords(t *testing.T, path string, f func(*record)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		f(&r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

var (
	commandKey = regexp.MustCompile(`^rank([0-9]+)_(prefill|decode)_cmd$`)
	liveKey    = regexp.MustCompile(`^rank([0-9]+)_(prefill|decode)$`)
)

// processes returns the commands of a record by name: rank0, rank1, …, router,
// mooncake. Records of failed launches have none.
func (r *record) processes(t *testing.T) map[string]process {
	t.Helper()
	type command struct {
		Env   map[string]string
		Argv  []string
		Delta struct {
			Set   map[string]string
			Unset []string
		} `json:"process_env_delta"`
	}
	decode := func(raw json.RawMessage, into any) {
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatalf("%s: %v", r.ID, err)
		}
	}
	out := map[string]process{}
	for key, raw := range r.Outputs {
		m := commandKey.FindStringSubmatch(key)
		name, role := "", ""
		switch {
		case m != nil:
			name, role = "rank"+m[1], m[2]
		case key == "router_cmd":
			name = "router"
		case key == "mooncake_master_cmd":
			name = "mooncake"
		default:
			continue
		}
		var c command
		decode(raw, &c)
		env := map[string]string{}
		if m != nil {
			decode(r.Outputs["rank"+m[1]+"_env_delta"], &c.Delta)
			env = r.containerEnv(t)
		}
		out[name] = newProcess(role, c.Argv, env, c.Delta.Set, c.Delta.Unset, c.Env)
	}
	var live map[string]json.RawMessage
	if raw, ok := r.Outputs["live"]; ok {
		decode(raw, &live)
	}
	for key, raw := range live {
		m := liveKey.FindStringSubmatch(key)
		name, role := "", ""
		switch {
		case m != nil:
			name, role = "rank"+m[1], m[2]
		case key == "router":
			name = "router"
		case key == "mooncake_master":
			name = "mooncake"
		default:
			continue
		}
		var c command
		decode(raw, &c)
		env := map[string]string{}
		if m != nil {
			env = r.containerEnv(t)
		}
		p := newProcess(role, c.Argv, env, c.Delta.Set, c.Delta.Unset, nil)
		p.live = true
		out[name] = p
	}
	return out
}

// newProcess puts the environment of a process together: the container's, then
// what the scripts exported, then what stands before the command.
func newProcess(role string, argv []string, container, set map[string]string, unset []string, prefix map[string]string) process {
	p := process{role: role, argv: argv, env: container, given: map[string]bool{}}
	for n := range container {
		p.given[n] = true
	}
	for _, vars := range []map[string]string{set, prefix} {
		for n, v := range vars {
			p.env[n] = v
			delete(p.given, n)
		}
	}
	for _, n := range unset {
		delete(p.env, n)
	}
	return p
}

// containerEnv returns the environment that the container of a record began
// with.
func (r *record) containerEnv(t *testing.T) map[string]string {
	t.Helper()
	if r.Layer == "server" {
		return maps.Clone(r.Inputs.Env)
	}
	var run struct{ Options [][]*string }
	if raw, ok := r.Outputs["docker_run_rank0"]; ok {
		if err := json.Unmarshal(raw, &run); err != nil {
			t.Fatalf("%s: %v", r.ID, err)
		}
	}
	env := map[string]string{}
	for _, o := range run.Options {
		if len(o) == 2 && *o[0] == "-e" && o[1] != nil {
			name, value, _ := strings.Cut(*o[1], "=")
			env[name] = value
		}
	}
	return env
}

// word is one flag of a command, for comparing.
type word struct {
	name string
	args []string
}

var flagForm = regexp.MustCompile(`^--?[A-Za-z]`)

// flagsOf cuts argv into the program with its positional words and the flags.
// A flag's value after '=' is its first argument.
func flagsOf(argv []string) (program []string, list []word) {
	for i, a := range argv {
		switch {
		// "-m module" belongs to the program.
		case flagForm.MatchString(a) && (a != "-m" || len(list) > 0):
			name, value, joined := strings.Cut(a, "=")
			w := word{name: name}
			if joined {
				w.args = []string{value}
			}
			list = append(list, w)
		case len(list) == 0:
			program = append(program, argv[i])
		default:
			last := &list[len(list)-1]
			last.args = append(last.args, a)
		}
	}
	return program, list
}

// byName groups the values of flags, in order.
func byName(list []word) map[string][]string {
	out := map[string][]string{}
	for _, w := range list {
		out[w.name] = append(out[w.name], strings.Join(w.args, " "))
	}
	return out
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
