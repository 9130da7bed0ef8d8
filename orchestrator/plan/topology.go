package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
)

// size is what a role asks for.
type size struct {
	role    string
	workers int
	nodes   int // 0: follows from workers and GPUs
	// shares says that the role runs on GPUs that the other role leaves free.
	shares     bool
	tp, pp, ep int
	dp         bool
	restarts   int // of one worker
}

// mostGPUs bounds a run, so that a typing error is a message and not a full
// memory.
const mostGPUs = 1 << 15

// gpus is the number of GPUs of one worker.
func (s size) gpus() int { return s.tp * s.pp }

// recipeSizes reads the roles of a recipe in plan order, defaults put in.
func (b *builder) recipeSizes() []size {
	r := b.in.Recipe
	var out []size
	for _, of := range []struct {
		name string
		role *models.Role
	}{{models.RolePrefill, r.Prefill}, {models.RoleDecode, r.Decode}, {models.RoleAggregate, r.Aggregate}} {
		if of.role == nil {
			continue
		}
		s := size{role: of.name, workers: of.role.Workers, nodes: of.role.Nodes,
			tp: of.role.TP, pp: max(1, of.role.PP), ep: max(1, of.role.EP), dp: bool(of.role.DPAttention), restarts: of.role.Restarts}
		// Zero nodes written out means: no nodes of its own.
		s.shares = s.nodes == 0 && b.in.RecipePos.Has(of.name+".nodes")
		out = append(out, s)
	}
	return out
}

// topology places every worker of the recipe. It returns false when the
// recipe cannot be placed; the errors say why.
func (b *builder) topology() bool {
	before := len(b.errs)
	sizes := b.recipeSizes()
	b.checkRoles(sizes)
	if len(b.errs) > before {
		return false
	}
	l := layout{gpusPerNode: b.in.Site.GPUsPerNode, launcher: b.in.Launcher}
	for _, s := range sizes {
		b.checkSize(s)
	}
	if len(b.errs) > before {
		return false
	}
	if b.in.Launcher == models.LauncherLocal {
		b.placeLocal(&l, sizes)
	} else {
		b.placeNodes(&l, sizes)
	}
	if len(b.errs) > before {
		return false
	}
	for _, s := range sizes {
		l.number(s)
	}
	b.ports(l.workers)
	b.workers = l.workers
	b.plan.Topology = models.Topology{
		Disaggregated: b.in.Recipe.Aggregate == nil,
		Nodes:         l.nodes(),
		Spares:        b.in.Recipe.Spares,
		GPUsPerNode:   b.in.Site.GPUsPerNode,
		Table:         tableOf(l.workers),
	}
	b.idle(l, sizes)
	return len(b.errs) == before
}

// checkRoles refuses recipes whose roles do not make a run.
func (b *builder) checkRoles(sizes []size) {
	r := b.in.Recipe
	switch {
	case r.Aggregate != nil && (r.Prefill != nil || r.Decode != nil):
		b.fail("aggregate", "a recipe has either aggregate workers or prefill and decode workers, not both", "remove one of them")
	case r.Aggregate == nil && r.Prefill == nil && r.Decode == nil:
		b.fail("", "the recipe has no workers", "add prefill and decode, or aggregate")
	case r.Aggregate == nil && r.Prefill == nil:
		b.fail("decode", "there are decode workers but no prefill workers", "add prefill, or use aggregate")
	case r.Aggregate == nil && r.Decode == nil:
		b.fail("prefill", "there are prefill workers but no decode workers", "add decode, or use aggregate")
	}
	if b.in.Site.GPUsPerNode < 1 {
		b.failSite("gpus_per_node", fmt.Sprintf("gpus_per_node is %d, it must be at least 1", b.in.Site.GPUsPerNode), "write how many GPUs a node of this site has")
	}
	if len(sizes) == 2 && sizes[0].shares && sizes[1].shares {
		b.fail("decode.nodes", "prefill.nodes and decode.nodes are both 0, so neither role has nodes", "give one of them nodes, or leave nodes out")
	}
	if r.Spares < 0 {
		b.fail("spares", fmt.Sprintf("spares is %d, it cannot be negative", r.Spares), "")
	}
}

// checkSize refuses workers that no number of nodes can hold.
func (b *builder) checkSize(s size) {
	at := func(key string) string { return s.role + "." + key }
	for _, n := range []struct {
		key          string
		value, least int
	}{{"workers", s.workers, 1}, {"tp", s.tp, 1}, {"pp", s.pp, 1}, {"nodes", s.nodes, 0}} {
		switch {
		case n.value < n.least:
			b.fail(at(n.key), fmt.Sprintf("%s.%s is %d, it must be at least %d", s.role, n.key, n.value, n.least), "")
			return
		case n.value > mostGPUs:
			b.fail(at(n.key), fmt.Sprintf("%s.%s is %d, more than any cluster has", s.role, n.key, n.value), "")
			return
		}
	}
	if total := s.workers * s.gpus(); s.gpus() > mostGPUs || total > mostGPUs {
		b.fail(s.role, fmt.Sprintf("%s of %s are %d GPUs, more than any cluster has", plural(s.workers, s.role+" worker"), s.count(), total), "")
		return
	}
	g, per := s.gpus(), b.in.Site.GPUsPerNode
	switch {
	case g <= per && per%g != 0:
		b.fail(at("tp"), fmt.Sprintf("a %s worker of %s does not divide a node of %s evenly", s.role, s.count(), gpus(per)),
			fmt.Sprintf("workers must have %s GPUs on this site, or a multiple of %d", divisors(per), per))
	case g > per && g%per != 0:
		b.fail(at("tp"), fmt.Sprintf("a %s worker of %s does not fill whole nodes of %s: it would need %d and a part of another", s.role, s.count(), gpus(per), g/per),
			fmt.Sprintf("workers must have %s GPUs on this site, or a multiple of %d", divisors(per), per))
	}
	if s.tp%s.ep != 0 {
		b.fail(at("ep"), fmt.Sprintf("%s.ep %d does not divide %s.tp %d", s.role, s.ep, s.role, s.tp), "experts are shared by the tensor parallel ranks")
	}
}

// count writes the GPUs of a worker with the sum behind it.
func (s size) count() string {
	if s.pp == 1 {
		return fmt.Sprintf("%s (tp %d)", gpus(s.gpus()), s.tp)
	}
	return fmt.Sprintf("%s (tp %d x pp %d)", gpus(s.gpus()), s.tp, s.pp)
}

// layout is workers on nodes while they are being placed.
type layout struct {
	gpusPerNode int
	launcher    string
	workers     []models.Worker
	free        []int // by node: the first GPU that is not taken; GPUs are taken in order
}

func (l *layout) nodes() int { return len(l.free) }

// add places one worker on span nodes from node on, with per GPUs of each.
func (l *layout) add(s size, node, span, per int) {
	for len(l.free) < node+span {
		l.free = append(l.free, 0)
	}
	w := models.Worker{Role: s.role, TP: s.tp, PP: s.pp, EP: s.ep, DP: 1, Node: node, Restarts: s.restarts}
	if s.dp {
		w.DP = s.tp
	}
	for i := range span {
		n := node + i
		var devices []int
		for g := range per {
			devices = append(devices, l.free[n]+g)
		}
		l.free[n] += per
		w.Ranks = append(w.Ranks, models.Process{Scope: s.role, Node: n, GPUs: devices})
	}
	l.workers = append(l.workers, w)
}

// number gives the workers of a role their index and names.
func (l *layout) number(s size) {
	i := 0
	for k := range l.workers {
		w := &l.workers[k]
		if w.Role != s.role {
			continue
		}
		w.Index, w.ID = i, fmt.Sprintf("%s-%d", s.role, i)
		for r := range w.Ranks {
			w.Ranks[r].ID = fmt.Sprintf("%s.%d", w.ID, r)
		}
		i++
	}
}

// placeNodes gives each role nodes of its own, in the order of the roles, but
// for a role that shares.
func (b *builder) placeNodes(l *layout, sizes []size) {
	for _, s := range sizes {
		if !s.shares {
			b.placeRole(l, s)
		}
	}
	for _, s := range sizes {
		if s.shares {
			b.placeShared(l, s)
		}
	}
	// Plan order is role order, whoever was placed first.
	slices.SortStableFunc(l.workers, func(x, y models.Worker) int { return cmp.Compare(roleOrder(x.Role), roleOrder(y.Role)) })
}

// placeRole places a role on the nodes after those that are taken.
func (b *builder) placeRole(l *layout, s size) {
	first, g, per := l.nodes(), s.gpus(), l.gpusPerNode
	nodes := s.nodes
	if nodes == 0 {
		nodes = (s.workers*g + per - 1) / per
	}
	at := s.role + ".nodes"
	need := fmt.Sprintf("one %s worker has %s", s.role, s.count())
	switch {
	case nodes%s.workers != 0 && s.workers%nodes != 0 && s.nodes != 0:
		b.fail(at, fmt.Sprintf("%s x %s cannot be split into %d equal %s workers", plural(nodes, "node"), gpus(per), s.workers, s.role),
			fmt.Sprintf("%s, so %s need nodes: %d", need, plural(s.workers, "worker"), (s.workers*g+per-1)/per))
	case nodes >= s.workers && s.nodes != 0: // one node or more a worker
		span := nodes / s.workers
		if span > 1 && g != span*per {
			b.fail(at, fmt.Sprintf("%s x %s give each of %d %s workers %d GPUs, but %s", plural(nodes, "node"), gpus(per), s.workers, s.role, span*per, need),
				fmt.Sprintf("write nodes: %d, or tp: %d, which is the GPUs of one worker over all its nodes", max(1, s.workers*g/per), span*per/s.pp))
			return
		}
		if g > span*per {
			b.fail(at, fmt.Sprintf("%s of %s need %s of %s, not %d", plural(s.workers, s.role+" worker"), s.count(), plural(s.workers*g/per, "node"), gpus(per), nodes),
				fmt.Sprintf("write nodes: %d, or leave nodes out", s.workers*g/per))
			return
		}
		for i := range s.workers {
			l.add(s, first+i*span, span, g/span)
		}
	case s.nodes != 0 && s.workers/nodes*g > per: // several workers a node
		b.fail(at, fmt.Sprintf("%s of %s on %s need %s a node, but a node has %d", plural(s.workers, s.role+" worker"), s.count(), plural(nodes, "node"), gpus(s.workers/nodes*g), per),
			fmt.Sprintf("write nodes: %d, or leave nodes out", (s.workers*g+per-1)/per))
	case g > per:
		for i := range s.workers {
			l.add(s, first+i*(g/per), g/per, per)
		}
	default:
		each := per / g // workers a node
		if s.nodes != 0 {
			each = s.workers / nodes
		}
		for i := range s.workers {
			l.add(s, first+i/each, 1, g)
		}
	}
}

// placeShared places a role on GPUs that the other role leaves free.
func (b *builder) placeShared(l *layout, s size) {
	g, per := s.gpus(), l.gpusPerNode
	left := 0
	for _, used := range l.free {
		left += per - used
	}
	placed := 0
	for n := 0; n < l.nodes() && placed < s.workers; n++ {
		for placed < s.workers && per-l.free[n] >= g {
			l.add(s, n, 1, g)
			placed++
		}
	}
	if placed < s.workers {
		b.fail(s.role+".nodes", fmt.Sprintf("%s.nodes is 0, so %s of %s must fit on what the other role leaves free: %s on %s",
			s.role, plural(s.workers, "worker"), s.count(), gpus(left), plural(l.nodes(), "node")),
			"give the role nodes of its own, or make the workers smaller")
	}
}

// allowLocalNodes is the rule that a local run fits on the one host there is.
const allowLocalNodes = "local-nodes"

// placeLocal packs all roles on one host, because that is all there is. Only a
// recipe that allows it gets several plan nodes, which are then the same host.
func (b *builder) placeLocal(l *layout, sizes []size) {
	per, total := l.gpusPerNode, 0
	for _, s := range sizes {
		total += s.workers * s.gpus()
		if s.nodes != 0 {
			b.warn("launcher local has one host: %s.nodes %d is not used", s.role, s.nodes)
		}
		for range s.workers {
			n := max(0, l.nodes()-1)
			switch g := s.gpus(); {
			case g > per:
				l.add(s, l.nodes(), g/per, per)
			case l.nodes() > 0 && per-l.free[n] >= g:
				l.add(s, n, 1, g)
			default:
				l.add(s, l.nodes(), 1, g)
			}
		}
	}
	if l.nodes() <= 1 {
		return
	}
	if _, ok := b.in.Recipe.Allow[allowLocalNodes]; ok {
		b.warn("launcher local has one host: the %d plan nodes are all this host, and GPU numbers repeat", l.nodes())
		return
	}
	b.fail(sizes[0].role, fmt.Sprintf("launcher local has one host with %s, but the recipe needs %d", gpus(per), total),
		fmt.Sprintf("make the workers smaller, use another launcher, or, where the GPUs do not matter, write allow: {%s: reason}", allowLocalNodes))
}

// idle warns of GPUs that are allocated and not used.
func (b *builder) idle(l layout, sizes []size) {
	for _, s := range sizes {
		nodes := map[int]bool{}
		for _, w := range l.workers {
			for _, r := range w.Ranks {
				if w.Role == s.role {
					nodes[r.Node] = true
				}
			}
		}
		left := 0
		for n := range nodes {
			left += l.gpusPerNode - l.free[n]
		}
		if left > 0 && !s.shares && b.in.Launcher != models.LauncherLocal {
			b.warn("%s has %s with %s and leaves %d idle", s.role, plural(len(nodes), "node"), gpus(len(nodes)*l.gpusPerNode), left)
		}
	}
}

// tableOf lists where every rank of every worker is, in node order.
func tableOf(workers []models.Worker) []models.TopologyRow {
	rows := []models.TopologyRow{}
	for _, w := range workers {
		for i, r := range w.Ranks {
			rows = append(rows, models.TopologyRow{Node: r.Node, Role: w.Role, Worker: w.ID, Rank: i, GPUs: r.GPUs})
		}
	}
	slices.SortStableFunc(rows, func(x, y models.TopologyRow) int { return cmp.Compare(x.Node, y.Node) })
	return rows
}

func roleOrder(role string) int {
	return slices.Index([]string{models.RolePrefill, models.RoleDecode, models.RoleAggregate}, role)
}

// divisors lists the numbers that divide n.
func divisors(n int) string {
	var out []string
	for d := 1; d <= n; d++ {
		if n%d == 0 {
			out = append(out, fmt.Sprint(d))
		}
	}
	return strings.Join(out, ", ")
}

func gpus(n int) string { return plural(n, "GPU") }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
