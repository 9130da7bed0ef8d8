package preflight_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/checks"
)

var update = flag.Bool("update", false, "write generated files")

// TestDocs keeps the documentation and the checks in step.
func TestDocs(t *testing.T) {
	t.Parallel()
	ids, docs := append(preflight.IDs(), checks.RunCounters, checks.RunSockets, checks.RunStuck), append(checks.Docs(), checks.RunDocs()...)
	if len(ids) != len(docs) {
		t.Errorf("%d checks, %d documented", len(ids), len(docs))
	}
	for i, d := range docs {
		if i < len(ids) && d.ID != ids[i] {
			t.Fatalf("document %d is of %s, the check is %s: keep the order", i, d.ID, ids[i])
		}
		for _, s := range []string{d.What, d.Why, d.Fix} {
			if len(s) < 10 {
				t.Errorf("%s: %q says too little", d.ID, s)
			}
		}
	}
	path := filepath.Join("..", "docs", "preflight.md")
	want := checks.Markdown()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the checks say; run go test ./preflight -update", path)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	s, err := preflight.Explain("rdma.pfc")
	if err != nil || !strings.Contains(s, "Without PFC the fabric drops packets") {
		t.Errorf("explain rdma.pfc: %q, %v", s, err)
	}
	_, err = preflight.Explain("rdma.pcf")
	if err == nil || err.Error() != `there is no check "rdma.pcf"; did you mean rdma.pfc?` {
		t.Errorf("explain of a misspelt id: %v", err)
	}
}

func TestMatching(t *testing.T) {
	t.Parallel()
	area := func(a string) (out []string) {
		for _, d := range append(checks.Docs(), checks.RunDocs()...) {
			if strings.HasPrefix(d.ID, a+".") {
				out = append(out, d.ID)
			}
		}
		return out
	}
	for in, want := range map[string][]string{
		"rdma": area("rdma"), "rdma.": area("rdma"), "rdma.*": area("rdma"), "run": area("run"), "image": area("image"),
		"host.mem": {"host.memlock", "host.memory"}, "rdma.pfc": {"rdma.pfc"}, "rdma.pcf": nil, "": nil, "*": nil,
	} {
		if got := preflight.Matching(in); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
