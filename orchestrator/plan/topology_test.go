package plan

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
)

// rows writes a topology, one rank a line: node, worker, rank, GPUs.
func rows(p *models.Plan) string {
	var b strings.Builder
	for _, r := range p.Topology.Table {
		fmt.Fprintf(&b, "%d %s.%d %s\n", r.Node, r.Worker, r.Rank, ranges(r.GPUs))
	}
	return b.String()
}

func TestTopology(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		gpus            int
		prefill, decode models.Role
		launcher        string
		zero            string // role whose nodes: 0 is written out
		want            string
		nodes           int
		warn            string
	}{
		{
			name: "one of each", gpus: 8,
			prefill: models.Role{Workers: 1, TP: 8}, decode: models.Role{Workers: 1, TP: 8},
			want: "0 prefill-0.0 0-7\n1 decode-0.0 0-7\n", nodes: 2,
		}, {
			name: "a worker over four small nodes", gpus: 4,
			prefill: models.Role{Workers: 1, TP: 16}, decode: models.Role{Workers: 1, TP: 4},
			want:  "0 prefill-0.0 0-3\n1 prefill-0.1 0-3\n2 prefill-0.2 0-3\n3 prefill-0.3 0-3\n4 decode-0.0 0-3\n",
			nodes: 5,
		}, {
			name: "two decode workers of two nodes", gpus: 8,
			prefill: models.Role{Workers: 1, TP: 8, Nodes: 1}, decode: models.Role{Workers: 2, TP: 16, Nodes: 4},
			want:  "0 prefill-0.0 0-7\n1 decode-0.0 0-7\n2 decode-0.1 0-7\n3 decode-1.0 0-7\n4 decode-1.1 0-7\n",
			nodes: 5,
		}, {
			name: "small workers share the nodes of their role", gpus: 8,
			prefill: models.Role{Workers: 3, TP: 2}, decode: models.Role{Workers: 2, TP: 4},
			want:  "0 prefill-0.0 0-1\n0 prefill-1.0 2-3\n0 prefill-2.0 4-5\n1 decode-0.0 0-3\n1 decode-1.0 4-7\n",
			nodes: 2, warn: "prefill has 1 node with 8 GPUs and leaves 2 idle",
		}, {
			name: "nodes spread small workers", gpus: 8,
			prefill: models.Role{Workers: 1, TP: 8}, decode: models.Role{Workers: 2, TP: 4, Nodes: 2},
			want:  "0 prefill-0.0 0-7\n1 decode-0.0 0-3\n2 decode-1.0 0-3\n",
			nodes: 3, warn: "decode has 2 nodes with 16 GPUs and leaves 8 idle",
		}, {
			name: "pipeline stages count", gpus: 8,
			prefill: models.Role{Workers: 1, TP: 8, PP: 2}, decode: models.Role{Workers: 1, TP: 4, PP: 2},
			want: "0 prefill-0.0 0-7\n1 prefill-0.1 0-7\n2 decode-0.0 0-7\n", nodes: 3,
		}, {
			name: "decode on what prefill leaves free", gpus: 8, zero: "decode",
			prefill: models.Role{Workers: 1, TP: 4, Nodes: 1}, decode: models.Role{Workers: 2, TP: 2},
			want: "0 prefill-0.0 0-3\n0 decode-0.0 4-5\n0 decode-1.0 6-7\n", nodes: 1,
		}, {
			name: "prefill on what decode leaves free", gpus: 8, zero: "prefill",
			prefill: models.Role{Workers: 1, TP: 4}, decode: models.Role{Workers: 1, TP: 4},
			want: "0 prefill-0.0 4-7\n0 decode-0.0 0-3\n", nodes: 1,
		}, {
			name: "local packs everything on one host", gpus: 8, launcher: models.LauncherLocal,
			prefill: models.Role{Workers: 2, TP: 2}, decode: models.Role{Workers: 1, TP: 4},
			want: "0 prefill-0.0 0-1\n0 prefill-1.0 2-3\n0 decode-0.0 4-7\n", nodes: 1,
		}, {
			name: "local does not use nodes", gpus: 8, launcher: models.LauncherLocal,
			prefill: models.Role{Workers: 1, TP: 4, Nodes: 1}, decode: models.Role{Workers: 1, TP: 4},
			want: "0 prefill-0.0 0-3\n0 decode-0.0 4-7\n", nodes: 1,
			warn: "launcher local has one host: prefill.nodes 1 is not used",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := inputs(t)
			in.Site.GPUsPerNode = c.gpus
			in.Recipe.Prefill, in.Recipe.Decode = &c.prefill, &c.decode
			in.Launcher = or(c.launcher, models.LauncherSlurm)
			if c.zero != "" {
				in.RecipePos = lines("r.yaml", map[string]int{c.zero + ".nodes": 9})
			}
			p := build(t, in).Plan
			if d := cmp.Diff(c.want, rows(p)); d != "" {
				t.Error(d)
			}
			if p.Topology.Nodes != c.nodes || p.Slurm.Nodes != c.nodes {
				t.Errorf("%d nodes, %d asked of Slurm, want %d", p.Topology.Nodes, p.Slurm.Nodes, c.nodes)
			}
			if got := strings.Join(p.Warnings, "\n"); got != c.warn {
				t.Errorf("warnings %q, want %q", got, c.warn)
			}
		})
	}
}

func TestTopologyRefuses(t *testing.T) {
	t.Parallel()
	one := models.Role{Workers: 1, TP: 8}
	for _, c := range []struct {
		name            string
		gpus            int
		prefill, decode models.Role
		launcher        string
		zero            string
		want            []string
	}{
		{"three nodes for two workers", 8, models.Role{Workers: 2, TP: 8, Nodes: 3}, one, "", "",
			[]string{"3 nodes x 8 GPUs cannot be split into 2 equal prefill workers"}},
		{"twelve GPUs on nodes of eight", 8, one, models.Role{Workers: 1, TP: 12}, "", "",
			[]string{"a decode worker of 12 GPUs (tp 12) does not fill whole nodes of 8 GPUs: it would need 1 and a part of another"}},
		{"three GPUs on nodes of eight", 8, one, models.Role{Workers: 1, TP: 3}, "", "",
			[]string{"a decode worker of 3 GPUs (tp 3) does not divide a node of 8 GPUs evenly"}},
		{"twelve by pipeline stages", 8, one, models.Role{Workers: 1, TP: 4, PP: 3}, "", "",
			[]string{"a decode worker of 12 GPUs (tp 4 x pp 3) does not fill whole nodes of 8 GPUs: it would need 1 and a part of another"}},
		{"tp meant a node", 8, one, models.Role{Workers: 1, TP: 8, Nodes: 2}, "", "",
			[]string{"2 nodes x 8 GPUs give each of 1 decode workers 16 GPUs, but one decode worker has 8 GPUs (tp 8)"}},
		{"too few nodes", 8, models.Role{Workers: 2, TP: 16, Nodes: 2}, one, "", "",
			[]string{"2 prefill workers of 16 GPUs (tp 16) need 4 nodes of 8 GPUs, not 2"}},
		{"too many workers a node", 8, models.Role{Workers: 2, TP: 8, Nodes: 1}, one, "", "",
			[]string{"2 prefill workers of 8 GPUs (tp 8) on 1 node need 16 GPUs a node, but a node has 8"}},
		{"experts do not divide", 8, one, models.Role{Workers: 1, TP: 8, EP: 3}, "", "",
			[]string{"decode.ep 3 does not divide decode.tp 8"}},
		{"no workers", 8, models.Role{Workers: 0, TP: 8}, models.Role{Workers: 1, TP: -1}, "", "",
			[]string{"decode.tp is -1, it must be at least 1", "prefill.workers is 0, it must be at least 1"}},
		{"negative nodes", 8, one, models.Role{Workers: 1, TP: 8, Nodes: -1}, "", "",
			[]string{"decode.nodes is -1, it must be at least 0"}},
		{"a slip of the finger", 8, models.Role{Workers: 1 << 40, TP: 8}, models.Role{Workers: 1 << 14, TP: 1 << 14}, "", "",
			[]string{"16384 decode workers of 16384 GPUs (tp 16384) are 268435456 GPUs, more than any cluster has", "prefill.workers is 1099511627776, more than any cluster has"}},
		{"no room to share", 8, models.Role{Workers: 1, TP: 4, Nodes: 1}, models.Role{Workers: 1, TP: 8}, "", "decode",
			[]string{"decode.nodes is 0, so 1 worker of 8 GPUs (tp 8) must fit on what the other role leaves free: 4 GPUs on 1 node"}},
		{"local host too small", 8, one, one, models.LauncherLocal, "",
			[]string{"launcher local has one host with 8 GPUs, but the recipe needs 16"}},
		{"unknown launcher", 8, one, one, "pigeon", "",
			[]string{`there is no launcher "pigeon"`}},
		{"no GPUs", 0, one, one, "", "",
			[]string{"gpus_per_node is 0, it must be at least 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := inputs(t)
			in.Site.GPUsPerNode = c.gpus
			in.Recipe.Prefill, in.Recipe.Decode = &c.prefill, &c.decode
			in.Launcher = or(c.launcher, models.LauncherSlurm)
			if c.zero != "" {
				in.RecipePos = lines("r.yaml", map[string]int{c.zero + ".nodes": 9})
			}
			_, err := Build(in)
			if d := cmp.Diff(c.want, messages(err)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRolesMakeARun(t *testing.T) {
	t.Parallel()
	one := &models.Role{Workers: 1, TP: 8}
	for _, c := range []struct {
		name                       string
		prefill, decode, aggregate *models.Role
		want                       string
	}{
		{"nothing", nil, nil, nil, "the recipe has no workers"},
		{"prefill alone", one, nil, nil, "there are prefill workers but no decode workers"},
		{"decode alone", nil, one, nil, "there are decode workers but no prefill workers"},
		{"everything", one, one, one, "a recipe has either aggregate workers or prefill and decode workers, not both"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := inputs(t)
			in.Recipe.Prefill, in.Recipe.Decode, in.Recipe.Aggregate = c.prefill, c.decode, c.aggregate
			_, err := Build(in)
			if got := messages(err); len(got) != 1 || got[0] != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestSweepIsNoPlan: the axes of a sweep are not ignored.
func TestSweepIsNoPlan(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Recipe.Sweep = []models.SweepAxis{{Key: "prefill.tp", Values: []models.Scalar{"4", "8"}}}
	_, err := Build(in)
	if d := cmp.Diff([]string{"the recipe is a sweep over 1 key, and a plan is one run"}, messages(err)); d != "" {
		t.Error(d)
	}
}

// TestLocalNodesAllowed: the rule that a local run fits on its host can be
// broken knowingly, and that stays visible.
func TestLocalNodesAllowed(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Launcher = models.LauncherLocal
	in.Recipe.Decode.TP = 16
	in.Recipe.Allow = map[string]string{"local-nodes": "no GPUs here"}
	p := build(t, in).Plan
	if want := "0 prefill-0.0 0-7\n1 decode-0.0 0-7\n2 decode-0.1 0-7\n"; rows(p) != want {
		t.Errorf("got\n%s", rows(p))
	}
	if p.Allowed["local-nodes"] != "no GPUs here" {
		t.Errorf("allowed: %v", p.Allowed)
	}
	if want := "launcher local has one host: the 3 plan nodes are all this host, and GPU numbers repeat"; !contains(p.Warnings, want) {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// TestZeroNodesFromFile: a role whose file says nodes: 0 shares, one whose file
// says nothing does not.
func TestZeroNodesFromFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"decode: {workers: 1, tp: 4, nodes: 0}": "0 prefill-0.0 0-3\n0 decode-0.0 4-7\n",
		"decode: {workers: 1, tp: 4}":           "0 prefill-0.0 0-3\n1 decode-0.0 0-3\n",
	} {
		in := inputs(t)
		parse(t, &in, strings.NewReplacer("decode: {workers: 1, tp: 8}", text, "prefill: {workers: 1, tp: 8}", "prefill: {workers: 1, tp: 4}").Replace(recipeText), siteText)
		p := build(t, in).Plan
		if rows(p) != want {
			t.Errorf("%s: got\n%s", text, rows(p))
		}
		if want := len(p.Topology.Table) - strings.Count(text, "nodes: 0"); p.Slurm.Nodes != want {
			t.Errorf("%s: %d nodes", text, p.Slurm.Nodes)
		}
	}
}

func contains(list []string, part string) bool {
	return strings.Contains(strings.Join(list, "\n"), part)
}

// TestPlacementProperties: whatever is planned, no port is used twice on a host,
// every GPU at most once, every worker has exactly its GPUs, spread evenly, and
// no planned port is one that Linux hands out for outgoing connections.
func TestPlacementProperties(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	base := inputs(t)
	planned := 0
	for range 500 {
		in := base
		in.Recipe, in.Site = recipe(), site()
		in.Site.GPUsPerNode = []int{1, 2, 4, 8, 16}[rnd.IntN(5)]
		in.Launcher = []string{models.LauncherSlurm, models.LauncherSSH, models.LauncherLocal}[rnd.IntN(3)]
		in.Recipe.Allow = map[string]string{"local-nodes": "test", "tensor-parallel-differs": "test"}
		role := func() *models.Role {
			return &models.Role{Workers: 1 + rnd.IntN(5), TP: 1 << rnd.IntN(6), PP: rnd.IntN(3), Nodes: rnd.IntN(4) * rnd.IntN(3)}
		}
		in.Recipe.Prefill, in.Recipe.Decode = role(), role()
		if rnd.IntN(4) == 0 {
			in.RecipePos = lines("r.yaml", map[string]int{"decode.nodes": 3})
			in.Recipe.Decode.Nodes = 0
		}
		r, err := Build(in)
		if err != nil {
			if len(messages(err)) == 0 || messages(err)[0] == "" {
				t.Fatalf("an error that says nothing: %v", err)
			}
			continue
		}
		planned++
		checkPlacement(t, r.Plan)
	}
	if planned < 100 {
		t.Errorf("only %d of the recipes could be planned; the test looks at too little", planned)
	}
}

func checkPlacement(t *testing.T, p *models.Plan) {
	t.Helper()
	local := p.Launcher == models.LauncherLocal
	ports := map[[2]int]string{}
	gpusUsed := map[[2]int]string{}
	b := &builder{plan: p}
	for _, x := range b.plan.Processes() {
		host := x.Node
		if local {
			host = 0
		}
		for _, q := range x.Ports {
			k := [2]int{host, q.Number}
			if other := ports[k]; other != "" {
				t.Fatalf("port %d of host %d: %s and %s", q.Number, host, other, x.ID)
			}
			ports[k] = x.ID
			if planned := q.Name == portHTTP || q.Name == portBootstrap || q.Name == portDistInit; planned && q.Number > lastPort {
				t.Fatalf("%s has port %d", x.ID, q.Number)
			}
		}
		for _, g := range x.GPUs {
			k := [2]int{x.Node, g}
			if other := gpusUsed[k]; other != "" {
				t.Fatalf("GPU %d of node %d: %s and %s", g, x.Node, other, x.ID)
			}
			if g < 0 || g >= p.Topology.GPUsPerNode {
				t.Fatalf("%s has GPU %d of %d", x.ID, g, p.Topology.GPUsPerNode)
			}
			gpusUsed[k] = x.ID
		}
		if x.Node < 0 || x.Node >= p.Topology.Nodes {
			t.Fatalf("%s is on node %d of %d", x.ID, x.Node, p.Topology.Nodes)
		}
	}
	for _, w := range p.Workers {
		n := 0
		for _, r := range w.Ranks {
			n += len(r.GPUs)
			if len(r.GPUs) != len(w.Ranks[0].GPUs) {
				t.Fatalf("%s has %d GPUs on one node and %d on another", w.ID, len(w.Ranks[0].GPUs), len(r.GPUs))
			}
		}
		if n != w.TP*w.PP {
			t.Fatalf("%s has %d GPUs, tp %d x pp %d", w.ID, n, w.TP, w.PP)
		}
	}
}
