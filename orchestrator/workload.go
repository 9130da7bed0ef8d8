package orchestrator

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
)

// workload resolves a process for its node: nothing in it is left open.
func (r *run) workload(p *proc) (deploy.Workload, error) {
	f := r.factsFor(p)
	argv, dropped, err := f.argv(p.Argv)
	if err != nil {
		return deploy.Workload{}, fmt.Errorf("resolve the arguments of %s: %w", p.ID, err)
	}
	if len(dropped) > 0 {
		r.warn(p.warning(fmt.Sprintf("%s is started without %s: node %s does not say", p.ID, strings.Join(dropped, ", "), p.node.where())))
	}
	env, err := r.environment(p, f)
	if err != nil {
		return deploy.Workload{}, err
	}
	return deploy.Workload{
		RunID: r.id, ID: p.ID, Role: p.Scope, Runtime: r.plan.Runtime, Image: p.Image, Shell: p.Shell, Dir: p.Dir,
		Argv: argv, Env: env, Mounts: r.mounts(p), Own: r.own(p), Accelerated: p.Accelerated, LogPath: p.logPath(),
		Grace: r.plan.Budgets.Grace.D(), ReceiptKey: r.key, Redact: r.othersSecrets(env),
	}, nil
}

func (p *proc) warning(msg string) events.Event { return p.event(events.Warning, msg) }

// factsFor collects what the placeholders of one process stand for.
func (r *run) factsFor(p *proc) *facts {
	f := &facts{}
	for _, n := range r.place {
		f.nodes = append(f.nodes, nodeFacts{addr: n.info.Addr, name: cmp.Or(n.info.Host, n.name)})
	}
	n := p.node
	rdma := r.rdmaOf(n)
	f.self = nodeFacts{
		addr: n.info.Addr, name: cmp.Or(n.info.Host, n.name), iface: n.info.Interface, rdma: rdma.Devices,
		tc: number(rdma.TrafficClass), sl: number(rdma.ServiceLevel),
	}
	if pt := r.pointOf(p); pt != nil {
		f.resultDir = path.Join(n.dir, pt.dir)
	}
	return f
}

// rdmaOf is what is in force on a node: its profile's, else the site's, else
// what the node itself says.
func (r *run) rdmaOf(n *node) models.RDMASite {
	var layers []models.RDMASite
	if p := r.profile(n); p != nil {
		layers = append(layers, p.RDMA)
	}
	seen := r.fabric[n.name]
	layers = append(layers, r.plan.RDMA,
		models.RDMASite{Devices: seen.Devices, TrafficClass: seen.TrafficClass, ServiceLevel: seen.ServiceLevel},
		models.RDMASite{Devices: n.info.RDMA})
	var out models.RDMASite
	for _, l := range layers {
		if len(out.Devices) == 0 {
			out.Devices = l.Devices
		}
		if out.TrafficClass == nil {
			out.TrafficClass = l.TrafficClass
		}
		if out.ServiceLevel == nil {
			out.ServiceLevel = l.ServiceLevel
		}
	}
	return out
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// own are the directories of a process whose files are the user's: a client's
// results.
func (r *run) own(p *proc) []string {
	if pt := r.pointOf(p); pt != nil {
		return []string{path.Join(p.node.dir, pt.dir)}
	}
	return nil
}

// mounts are what a process needs beside the runtime's own: the model, and for a
// client its result directory, under the name it has on the node.
func (r *run) mounts(p *proc) []string {
	var out []string
	if r.modelDir != "" && p.Scope != "router" && p.Scope != "service" {
		out = append(out, r.modelDir+":"+r.plan.Model.Path+":ro")
	}
	if pt := r.pointOf(p); pt != nil {
		dir := path.Join(p.node.dir, pt.dir)
		out = append(out, dir+":"+dir)
	}
	return out
}
