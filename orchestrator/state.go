package orchestrator

import (
	"fmt"
	"path"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// node is one node of the allocation.
type node struct {
	name string
	conn Node // nil until it joined
	info deploy.NodeInfo
	err  error // why it did not join, or how it was lost

	lost     bool
	again    bool // lost, and then reached by a second agent
	detached bool // not heard of at present
	ended    bool // its agent was told to end by somebody else
	closing  bool // this run closes the connection
	unfit    string
	plan     []int

	// dir is the run directory as this node sees it; shared says that this is the
	// same directory as the controller's.
	dir    string
	shared bool
}

// usable says that work can be given to the node.
func (n *node) usable() bool { return n.conn != nil && !n.lost && n.unfit == "" }

// where names a node for messages, with the host name when that differs.
func (n *node) where() string {
	if n.info.Host != "" && n.info.Host != n.name {
		return fmt.Sprintf("%s (%s)", n.name, n.info.Host)
	}
	return n.name
}

// phase is how far a process has come.
type phase int

const (
	planned phase = iota
	creating
	held    // created, environment compared, program not running
	running // released
	exited
	gone // nothing of it is left
)

// proc is one process of the plan.
type proc struct {
	*models.Process
	worker *models.Worker // nil for the router, services, client and eval
	node   *node
	phase  phase

	origins map[string]string // variable → who planned it, on this node
	unset   []models.EnvVar   // variables that this node leaves without a value

	logName  string // relative to the run directory
	released time.Time
	moved    time.Time // last sign of progress
	said     time.Time // last progress event
	lastLine string
	logBytes int64
	rss      int64

	exit    *deploy.Exit
	exitLog []string
	endedAt time.Time // when its end was heard of
	life    int       // how often it was started before
	logFrom int64     // where this life begins in its log
	// asked says that this run asked for its end.
	asked bool
	// mayEnd says that its end is not a failure by itself: clients and evals.
	mayEnd bool
	lost   bool // went with its node
	probe  *probe

	inCall   bool // a call to create it is under way
	stops    int  // stop calls under way
	stopping bool
	stopErr  error
}

// alive says that there may be something of the process on its node.
func (p *proc) alive() bool {
	return p.node != nil && p.phase != planned && p.phase != gone && !p.lost
}

// ended says that its program has ended, one way or another.
func (p *proc) ended() bool { return p.exit != nil || p.lost || p.phase == gone }

// where names the process and its node.
func (p *proc) where() string {
	if p.node == nil {
		return p.ID
	}
	return p.ID + " on " + p.node.name
}

// logPath is the log as the process's node sees it.
func (p *proc) logPath() string { return path.Join(p.node.dir, p.logName) }

// addProcesses takes the processes out of the plan, in the order of launching.
func (r *run) addProcesses() {
	add := func(p *models.Process, w *models.Worker, mayEnd bool) {
		q := &proc{Process: p, worker: w, mayEnd: mayEnd}
		r.procs[p.ID] = q
		r.order = append(r.order, q)
	}
	for i := range r.plan.Services {
		add(&r.plan.Services[i], nil, false)
	}
	for i := range r.plan.Workers {
		w := &r.plan.Workers[i]
		for j := range w.Ranks {
			add(&w.Ranks[j], w, false)
		}
	}
	if r.plan.Router != nil {
		add(&r.plan.Router.Process, nil, false)
	}
	if r.plan.Client != nil {
		for i := range r.plan.Client.Points {
			add(&r.plan.Client.Points[i].Process, nil, true)
		}
	}
	if r.plan.Eval != nil {
		add(&r.plan.Eval.Process, nil, true)
	}
}

// settle gives every process its node, once the placement is known.
func (r *run) settle() {
	for _, p := range r.order {
		p.node = r.place[p.Node]
		p.logName = rundir.LogName(p.ID, p.node.name)
	}
}

// workerProcs are the processes of all workers.
func (r *run) workerProcs() []*proc {
	var out []*proc
	for _, p := range r.order {
		if p.worker != nil {
			out = append(out, p)
		}
	}
	return out
}

// workers are all workers of the plan.
func (r *run) workers() []*models.Worker {
	out := make([]*models.Worker, len(r.plan.Workers))
	for i := range r.plan.Workers {
		out[i] = &r.plan.Workers[i]
	}
	return out
}

// ranks are the processes of one worker.
func (r *run) ranks(w *models.Worker) []*proc {
	out := make([]*proc, len(w.Ranks))
	for i := range w.Ranks {
		out[i] = r.procs[w.Ranks[i].ID]
	}
	return out
}

// used are the nodes that the plan's nodes were placed on, each once.
func (r *run) used() []*node {
	var out []*node
	for _, n := range r.nodes {
		if len(n.plan) > 0 && n.unfit == "" {
			out = append(out, n)
		}
	}
	return out
}

// workerURL is the base URL of a worker's HTTP endpoint.
func (r *run) workerURL(w *models.Worker) string { return baseURL(r.place[w.Node].info.Addr, w.Port) }

// frontURL is where clients reach the run: the router, or the only worker.
func (r *run) frontURL() string {
	if rt := r.plan.Router; rt != nil {
		return baseURL(r.place[rt.Node].info.Addr, rt.Port)
	}
	return r.workerURL(&r.plan.Workers[0])
}
