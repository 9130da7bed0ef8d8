package orchestrator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testFacts() *facts {
	return &facts{
		nodes:     []nodeFacts{{addr: "10.0.0.1", name: "gpu-01"}, {addr: "10.0.0.2", name: "gpu-02"}, {}},
		self:      nodeFacts{addr: "10.0.0.2", name: "gpu-02", iface: "eno1", rdma: []string{"rdma0", "rdma1"}, tc: "104"},
		resultDir: "/runs/x/results/c16",
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in, want string
		known    bool
		err      string
	}{
		{"plain $HOME {x} @ @@", "plain $HOME {x} @ @@", true, ""},
		{"http://@{node.0.addr}:8000", "http://10.0.0.1:8000", true, ""},
		{"@{node.1.name}", "gpu-02", true, ""},
		{"@{self.addr} @{self.name} @{self.if}", "10.0.0.2 gpu-02 eno1", true, ""},
		{"@{self.rdma}", "rdma0,rdma1", true, ""},
		{"@{self.rdma.1}:1", "rdma1:1", true, ""},
		{"@{self.rdma.2}:1", ":1", false, ""},
		{"@{self.tc}", "104", true, ""},
		{"@{self.sl}", "", false, ""},
		{"@{result.dir}/out.json", "/runs/x/results/c16/out.json", true, ""},
		{"@{node.3.addr}", "", false, "there is no placeholder @{node.3.addr}: the plan has 3 nodes"},
		{"@{node.-1.addr}", "", false, "there is no placeholder"},
		{"@{node.0.port}", "", false, "there is no placeholder @{node.0.port}"},
		{"@{node.2.addr}", "", false, "@{node.2.addr} is not known"},
		{"@{self.rdma.x}", "", false, "there is no placeholder @{self.rdma.x}"},
		{"@{self.gpu}", "", false, "there is no placeholder @{self.gpu}"},
		{"@{nope}", "", false, `"@{nope}": there is no placeholder @{nope}`},
		{"a @{self.addr", "", false, "the placeholder has no end"},
	} {
		got, known, err := testFacts().expand(tc.in)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("expand(%q) = %v, want %q", tc.in, err, tc.err)
			}
			continue
		}
		if err != nil || got != tc.want || known != tc.known {
			t.Errorf("expand(%q) = %q, %v, %v, want %q, %v", tc.in, got, known, err, tc.want, tc.known)
		}
	}
}

func TestArgvLeavesOutWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	f := testFacts()
	f.self.rdma = nil
	got, dropped, err := f.argv([]string{"serve", "--ib-device", "@{self.rdma}", "--host", "@{self.addr}", "--sl=@{self.sl}", "x"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"serve", "--host", "10.0.0.2", "x"}, got); diff != "" {
		t.Errorf("argv (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--ib-device @{self.rdma}", "--sl=@{self.sl}"}, dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if _, _, err := f.argv([]string{"@{bad}"}); err == nil {
		t.Error("a placeholder that does not exist was accepted")
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("a @{self.addr} b")
	f.Add("@{@{}}")
	f.Fuzz(func(t *testing.T, s string) {
		got, known, err := testFacts().expand(s)
		if err == nil && known && !strings.Contains(s, "@{") && got != s {
			t.Errorf("expand(%q) = %q although it holds no placeholder", s, got)
		}
	})
}
