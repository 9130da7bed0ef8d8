package orchestrator

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/slurm/hostlist"
)

// stagePlacement gives each plan node its host, in the allocation's order, and
// finds out where the run directory is on each.
func (r *run) stagePlacement(ctx context.Context) error {
	if err := r.placeNodes(); err != nil {
		return err
	}
	return r.findDirs(ctx)
}

// placeNodes puts plan node i on the i-th usable node.
func (r *run) placeNodes() error {
	for _, n := range r.nodes {
		n.plan = nil
	}
	var usable []*node
	for _, n := range r.nodes {
		if n.usable() {
			usable = append(usable, n)
		}
	}
	if len(usable) < r.needed() {
		return failf("the plan needs %s, and only %d are left: %s", plural(r.needed(), "node"), len(usable), r.whyUnfit())
	}
	r.place = make([]*node, r.plan.Topology.Nodes)
	for i := range r.place {
		n := usable[i%len(usable)] // only on one host are there fewer than plan nodes
		r.place[i] = n
		n.plan = append(n.plan, i)
	}
	if err := r.checkAddresses(); err != nil {
		return err
	}
	r.settle()
	var rows []string
	for i, n := range r.place {
		rows = append(rows, fmt.Sprintf("%d=%s(%s)", i, n.name, n.info.Addr))
	}
	r.emit(events.Event{Kind: events.Placed, Msg: "plan nodes placed: " + strings.Join(rows, " ")})
	return nil
}

func (r *run) whyUnfit() string {
	var parts []string
	for _, n := range r.nodes {
		switch {
		case n.unfit != "":
			parts = append(parts, n.name+" is unfit: "+n.unfit)
		case !n.usable():
			parts = append(parts, n.name+": "+n.why())
		}
	}
	return strings.Join(parts, "; ")
}

// checkAddresses makes sure that peers can tell the nodes apart: each has an
// address of its own that is not loopback, and none is here under two names.
func (r *run) checkAddresses() error {
	byAddr, byBoot := map[string]*node{}, map[string]*node{}
	for _, n := range r.used() {
		if p := r.profile(n); p != nil && p.Interface != "" {
			name, addr, ok := firstInterface(p.Interface, n.info.Addrs)
			if !ok {
				return failf("node %s has no address on interface %s, which its profile %q asks for; it has %s", n.where(), p.Interface, p.Nodes, showAddrs(n.info.Addrs))
			}
			n.info.Interface, n.info.Addr = name, addr
		}
		a, err := netip.ParseAddr(n.info.Addr)
		if err != nil {
			return failf("node %s gave no usable address (%q on interface %q); it has %s", n.where(), n.info.Addr, n.info.Interface, showAddrs(n.info.Addrs))
		}
		if r.oneHost() {
			continue
		}
		if len(r.used()) > 1 && (a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified()) {
			return failf("node %s gave address %s, which other nodes cannot reach; set network.interface of the site to an interface with a routable address", n.where(), a)
		}
		if o := byAddr[n.info.Addr]; o != nil {
			return failf("nodes %s and %s have the same address %s on interface %s; set network.interface of the site to one that tells them apart", o.name, n.name, n.info.Addr, n.info.Interface)
		}
		if o := byBoot[n.info.BootID]; o != nil && n.info.BootID != "" && o.info.Host == n.info.Host {
			return failf("nodes %s and %s are the same machine (host %s)", o.name, n.name, n.info.Host)
		}
		byAddr[n.info.Addr], byBoot[n.info.BootID] = n, n
	}
	return nil
}

// profile is the first site rule that holds for a node; nil: none.
func (r *run) profile(n *node) *models.NodeProfile {
	for i := range r.plan.Profiles {
		p := &r.plan.Profiles[i]
		if matchesNode(p.Nodes, n.name) || n.info.Host != "" && matchesNode(p.Nodes, n.info.Host) {
			return p
		}
	}
	return nil
}

// matchesNode says whether a host list or a glob holds a name.
func matchesNode(pattern, name string) bool {
	if ok, err := path.Match(pattern, name); err == nil && ok {
		return true
	}
	hosts, err := hostlist.Expand(pattern)
	if err != nil {
		return false // planning has checked it: it is a glob that does not match
	}
	for _, h := range hosts {
		if h == name {
			return true
		}
	}
	return false
}

// firstInterface is the first of a comma-separated list that has an address.
func firstInterface(list string, addrs map[string]string) (name, addr string, ok bool) {
	for name := range strings.SplitSeq(list, ",") {
		if a := addrs[strings.TrimSpace(name)]; a != "" {
			return strings.TrimSpace(name), a, true
		}
	}
	return "", "", false
}

// findDirs learns, by looking, whether each node sees the run directory. One that
// does not gets its own, whose contents are fetched at the end.
func (r *run) findDirs(ctx context.Context) error {
	marker, err := r.markerBytes()
	if err != nil {
		return err
	}
	var nodes []*node
	for _, n := range r.nodes {
		if n.usable() {
			nodes = append(nodes, n)
		}
	}
	a, err := each(ctx, r, nodes, "the run directory", false, func(ctx context.Context, n *node) (bool, error) {
		if r.privateDir(n) == r.Dir.Path() {
			return true, nil // there is no other place, and it must not be taken for one
		}
		data, _, err := n.conn.ReadFile(ctx, r.Dir.Join(rundir.MarkerFile), 0, len(marker)+1)
		if err == nil && bytes.Equal(data, marker) {
			return true, nil
		}
		return false, n.conn.WriteFile(ctx, path.Join(r.privateDir(n), rundir.MarkerFile), 0o600, marker)
	})
	if err != nil {
		return err
	}
	if len(a.bad) > 0 {
		return failf("the run directory %s is not visible, and no directory can be made in its place, on %s", r.Dir.Path(), a.failed())
	}
	for n, shared := range a.ok {
		n.shared, n.dir = shared, r.Dir.Path()
		if !shared {
			n.dir = r.privateDir(n)
		}
	}
	var apart []*node
	for _, n := range nodes {
		if n.apart() {
			apart = append(apart, n)
		}
	}
	if len(apart) > 0 {
		r.emit(events.Event{Kind: events.Warning, Msg: fmt.Sprintf("%s do not see %s; logs and results are fetched from there at the end", nodeNames(apart), r.Dir.Path())})
	}
	return nil
}

// apart says that the node has a directory of its own in place of the run
// directory: only once it was looked at.
func (n *node) apart() bool { return n.dir != "" && !n.shared }

// privateDir is where a node that does not see the run directory keeps its part.
func (r *run) privateDir(n *node) string {
	base := r.plan.SSH.Dir
	if base == "" {
		base = fmt.Sprintf("/tmp/disagg-%d", n.info.UID)
	}
	return path.Join(base, "runs", r.id)
}

func showAddrs(addrs map[string]string) string {
	if len(addrs) == 0 {
		return "no addresses"
	}
	var parts []string
	for _, name := range sortedKeys(addrs) {
		parts = append(parts, name+"="+addrs[name])
	}
	return strings.Join(parts, " ")
}

// markerBytes is what a node must read to prove that it sees the run directory.
func (r *run) markerBytes() ([]byte, error) {
	data, err := os.ReadFile(r.Dir.Join(rundir.MarkerFile))
	if err != nil {
		return nil, failf("read the run directory's marker: %v", err)
	}
	return data, nil
}
