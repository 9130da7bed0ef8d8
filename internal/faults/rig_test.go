package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

// rig is one run on the lab to which one fault is done.
type rig struct {
	*world.World
	f Fault
	trial

	prefill, decode string // their nodes, once they run
	controllers     string // the controller's node
	enginePID       int    // of decode-0.0, in its node's table
	at              time.Time
	healed          bool
	hung            string    // node whose slurmd hangs
	frozen          string    // container
	term            *terminal // that the run is at, if it is at one
}

// trial is how a fault is brought about.
type trial struct {
	// alone: nothing else may run on the lab meanwhile.
	alone bool
	// single: it may not be done twice at once, because it harms a place of its own.
	single bool
	// recipe are further keys of the recipe; faulty what the stand-ins do wrong.
	recipe, faulty string
	// prefill and decode are the roles; empty: one worker over one node each.
	prefillRole, decodeRole string
	// preflight is its mode; empty: off.
	preflight string
	// realRouter uses the router itself in place of a stand-in.
	realRouter bool
	// set prepares the world before the recipe is written; early does the fault
	// before the run is started, do while its client runs.
	set, early, do func(*rig)
	// start starts the run and returns how its end is waited for; nil: submit.
	start func(*rig) (wait func() world.Said)
	// heal undoes what would harm other runs; it is called in any case.
	heal func(*rig)
	// blind: the node cannot be looked at before it is healed.
	blind bool
	// check looks at what is particular.
	check func(*rig, world.Said)
}

// paced goes on with small loads until the file go is in its result directory.
const paced = `client:
  command: [sh, -c, "while :; do standin load --url $0 --model $1 --concurrency 2 --requests 4 --timeout 60 --output $2/load.json || exit 1; [ -e $2/go ] && break; sleep 0.2; done; rm $2/go", "{url}", "{model}", "{result_dir}"]
  concurrency: 2
  results: [load.json]
`

// patient is such a client whose last load alone must succeed.
const patient = `client:
  command: [sh, -c, "until [ -e $2/go ]; do standin load --url $0 --model $1 --concurrency 2 --requests 4 --timeout 60 --output $2/load.json; sleep 0.2; done; rm $2/go; standin load --url $0 --model $1 --concurrency 2 --requests 4 --timeout 60 --output $2/load.json", "{url}", "{model}", "{result_dir}"]
  concurrency: 2
  results: [load.json]
`

const recipeText = `apiVersion: disagg/v1
kind: Recipe
name: fault
model: DeepSeek-R1-0528
engine: sglang
image: %s
prefill: %s
decode: %s
metrics: true
preflight: {mode: %q}
router: {%s}
%s%s`

// write writes the recipe.
func (r *rig) write() string {
	or := func(s, def string) string {
		if s == "" {
			return def
		}
		return s
	}
	router := "command: [standin, router]"
	if r.realRouter {
		router = "image: " + lab.RouterImage + ", command: [python3, -m, sglang_router.launch_router]"
	}
	more := r.recipe
	if !strings.Contains(more, "timeouts:") {
		more += "timeouts: {grace: 5s}\n"
	}
	if !strings.Contains("\n"+more, "\nclient:") {
		more += paced
	}
	faulty := ""
	if r.faulty != "" {
		faulty = world.Fault(r.faulty)
	}
	return r.Write("recipe.yaml", fmt.Sprintf(recipeText, lab.EngineImage,
		or(r.prefillRole, "{workers: 1, tp: 8}"), or(r.decodeRole, "{workers: 1, tp: 8}"), or(r.preflight, "off"), router, more, faulty))
}

// submit hands the run to Slurm.
func (r *rig) submit() func() world.Said {
	r.T.Helper()
	r.Want(r.Disagg("submit", "recipe.yaml"), 0)
	return func() world.Said { return r.Disagg("wait", r.RunPath()) }
}

// allocate gets an allocation of the user's own, and says which nodes it has.
func (r *rig) allocate(count int) (job string, nodes []string) {
	r.T.Helper()
	s := r.Run("sbatch", "--parsable", fmt.Sprintf("--nodes=%d", count), "--gres=gpu:8", "--exclusive", "--time=6", "--output=/dev/null", "--wrap", "sleep 360")
	r.Want(s, 0)
	job = strings.TrimSpace(s.Out)
	for range 600 {
		if strings.TrimSpace(r.MustRun(r.T, "squeue", "--noheader", "--jobs="+job, "--format=%T")) == "RUNNING" {
			list := strings.TrimSpace(r.MustRun(r.T, "squeue", "--noheader", "--jobs="+job, "--format=%N"))
			return job, strings.Fields(r.MustRun(r.T, "scontrol", "show", "hostnames", list))
		}
		time.Sleep(200 * time.Millisecond)
	}
	r.T.Fatalf("job %s does not start", job)
	return "", nil
}

// serving waits until the client runs and learns where everything is.
func (r *rig) serving() {
	r.T.Helper()
	r.ClientRuns()
	if own := r.own(); len(own) > 0 {
		r.controllers = own[0]
	}
	r.Until("the workers", time.Second, func(e events.Event) bool {
		switch {
		case e.Kind == events.ProcessStarted && e.Process == "prefill-0.0":
			r.prefill = e.Node
		case e.Kind == events.ProcessStarted && e.Process == "decode-0.0":
			r.decode = e.Node
			pid, _ := e.Detail["pid"].(float64)
			r.enginePID = int(pid)
		}
		return r.prefill != "" && r.decode != ""
	})
}

// letGo lets the client end.
func (r *rig) letGo() {
	r.T.Helper()
	dirs, err := filepath.Glob(filepath.Join(r.Newest(), "results", "*"))
	if err != nil || len(dirs) == 0 {
		r.T.Fatalf("no result directory: %v", err)
	}
	r.Must(os.WriteFile(filepath.Join(dirs[0], "go"), nil, 0o644))
}

// own are the nodes of the run; none before its controller has started.
func (r *rig) own() []string {
	log, err := events.ReadAll(filepath.Join(r.Newest(), "events.jsonl"))
	if err != nil || len(log.Events) == 0 {
		return nil
	}
	var out []string
	list, _ := log.Events[0].Detail["nodes"].([]any)
	for _, n := range list {
		out = append(out, fmt.Sprint(n))
	}
	return out
}

// index is a node's number.
func (r *rig) index(node string) int { return slices.Index(r.Nodes(), node) }

// drain keeps other runs away from nodes that are harmed; resume lets them back.
func (r *rig) drain(nodes ...string) {
	r.MustRun(r.T, "scontrol", "update", "nodename="+strings.Join(nodes, ","), "state=drain", "reason=fault")
}

func (r *rig) resume(nodes ...string) {
	// A node that has come back by itself meanwhile refuses it.
	_, _ = r.Lab.Run("scontrol", "update", "nodename="+strings.Join(nodes, ","), "state=resume")
}

// only has the run on these nodes and no others.
func (r *rig) only(nodes ...string) {
	others := slices.DeleteFunc(r.Nodes(), func(n string) bool { return slices.Contains(nodes, n) })
	r.Site(`exclude: [{nodes: "` + strings.Join(others, ",") + `", reason: "the fault is on the others", since: 2026-01-01}]`)
}

// process is the one process on a node that matches; it fails the test if there
// is none.
func (r *rig) process(node, what string, match func(lab.Process) bool) lab.Process {
	r.T.Helper()
	all, err := r.Processes(node)
	r.Must(err)
	for _, p := range all {
		if p.State != "Z" && match(p) {
			return p
		}
	}
	r.T.Fatalf("there is no %s on %s: %v", what, node, all)
	return lab.Process{}
}

// verb matches a process of this run's binary with the verb as its first word.
func (r *rig) verb(name string) func(lab.Process) bool {
	bin := filepath.Join(r.RunPath(), "bin/disagg")
	return func(p lab.Process) bool { return len(p.Argv) > 1 && p.Argv[0] == bin && p.Argv[1] == name }
}

func (r *rig) controllerPID() int {
	return r.process(r.controllers, "controller", r.verb("controller")).PID
}

func (r *rig) agentPID(node string) int { return r.process(node, "agent", r.verb("agent")).PID }

func (r *rig) srunPID() int {
	leader := r.controllerPID()
	return r.process(r.controllers, "srun", func(p lab.Process) bool { return p.Name == "srun" && p.PPID == leader }).PID
}

func (r *rig) shimPID() int {
	return r.process(r.decode, "engine", func(p lab.Process) bool { return p.PID == r.enginePID }).PPID
}

// containerID is the container of decode-0.0.
func (r *rig) containerID() string {
	r.T.Helper()
	list, err := r.Containers(r.decode)
	r.Must(err)
	run := filepath.Base(r.Newest())
	for _, c := range list {
		if c.Labels["disagg.run"] == run && c.Labels["disagg.workload"] == "decode-0.0" {
			return c.ID
		}
	}
	r.T.Fatalf("decode-0.0 has no container on %s: %v", r.decode, list)
	return ""
}

func (r *rig) containerdShimPID() int {
	id := r.containerID()
	return r.process(r.decode, "containerd-shim", func(p lab.Process) bool {
		return strings.HasPrefix(p.Name, "containerd-shim") && slices.Contains(p.Argv, id)
	}).PID
}

// try does the fault and looks at what comes of it.
func (r *rig) try() {
	t := r.T
	defer func() {
		if r.heal != nil && !r.healed {
			r.heal(r)
		}
		if t.Failed() {
			t.Logf("%s", r.Evidence())
		}
		// Whatever became of the test, its jobs do not stay.
		for _, dir := range r.Runs() {
			if id := filepath.Base(dir); id != "" {
				_, _ = r.Lab.Run("sh", "-c", `squeue --noheader --format="%i %k" | while read -r job mark; do [ "$mark" = "$0" ] && scancel "$job"; done; true`, id)
			}
		}
	}()
	if r.set != nil {
		r.set(r)
	}
	r.write()
	r.at = time.Now()
	if r.early != nil {
		r.early(r)
	}
	var wait func() world.Said
	if r.start != nil {
		wait = r.start(r)
	} else {
		wait = r.submit()
	}
	var clean <-chan time.Time
	if r.do != nil {
		r.serving()
		r.at = time.Now()
		r.do(r)
		if r.f.Bound > 0 && !r.blind {
			clean = r.watch()
		}
	}
	said := wait()
	if r.do == nil {
		r.at = r.began() // it may have waited for nodes
	}
	ended := time.Since(r.at)
	if r.heal != nil && (r.blind || r.f.Bound == 0) {
		r.heal(r)
		r.healed = true
	}
	r.judge(said)
	took := ended
	if clean != nil {
		seen := <-clean
		if seen.IsZero() {
			t.Errorf("left on the nodes %s after the fault: %q", r.f.Bound, r.Left(r.own()...))
		}
		took = seen.Sub(r.at)
	}
	r.clean()
	if r.f.Bound > 0 && took > r.f.Bound {
		t.Errorf("nothing was left %s after the fault, want %s", took.Round(time.Millisecond), r.f.Bound)
	}
	if r.heal != nil && !r.healed {
		r.heal(r)
		r.healed = true
		r.clean()
	}
	if r.check != nil {
		r.check(r, said)
	}
	t.Logf("%s: exit %d after %.1f s, nothing left after %.1f s: %s", r.f.ID, said.Code, ended.Seconds(), took.Seconds(), r.says(said))
}

// log is the event log, with its last line where the run has a result: that is
// written first, and whoever waits for the run goes on at once.
func (r *rig) log() events.Log {
	r.T.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		log, err := events.ReadAll(filepath.Join(r.Newest(), "events.jsonl"))
		n := len(log.Events)
		if r.f.Kept.Result && n > 0 && log.Events[n-1].Kind != events.RunFinished && time.Since(begun) < 10*time.Second {
			continue
		}
		if err != nil || log.Bad != 0 || n == 0 {
			r.T.Errorf("events: %v, %d bad lines, %d events", err, log.Bad, n)
		}
		return log
	}
}

// clean wants nothing to be left on the run's nodes.
func (r *rig) clean() {
	r.T.Helper()
	own := r.own()
	if len(own) == 0 {
		return
	}
	// Its job is over, and another trial may have a daemon of these nodes down by
	// now: then they are asked again. Only what was seen counts.
	var looked time.Time
	for begun := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		left, err := r.LookFor(own...)
		switch {
		case err != nil && time.Since(begun) < 2*time.Minute:
		case err != nil:
			r.T.Fatal(err)
		case len(left) == 0:
			return
		case looked.IsZero():
			looked = time.Now()
		case time.Since(looked) > 10*time.Second:
			r.T.Fatalf("left on the nodes: %q\n%s", left, r.Evidence())
		}
	}
}

// began is when the run's controller started; the present time for a run that has
// none.
func (r *rig) began() time.Time {
	log, err := events.ReadAll(filepath.Join(r.Newest(), "events.jsonl"))
	if err != nil || len(log.Events) == 0 {
		return time.Now()
	}
	return log.Events[0].Time
}

// watch looks again and again until nothing of the run is on its nodes.
func (r *rig) watch() <-chan time.Time {
	out := make(chan time.Time, 1)
	limit := r.at.Add(r.f.Bound)
	go func() {
		for {
			if left, err := r.LookFor(r.own()...); err == nil && len(left) == 0 {
				out <- time.Now()
				return
			}
			if time.Now().After(limit) {
				out <- time.Time{}
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
	}()
	return out
}

// says is the line that names the cause: the result's, or the last words of the
// command where there is none.
func (r *rig) says(s world.Said) string {
	for _, name := range []string{"result.json", "result.interim.json"} {
		res, err := result.Read(filepath.Join(r.Newest(), name))
		r.Must(err)
		if res == nil {
			continue
		}
		if res.Cause == nil {
			return ""
		}
		return res.Cause.What
	}
	for line := range strings.Lines(s.Err) {
		if text, ok := strings.CutPrefix(line, "disagg: "); ok {
			return strings.TrimSpace(text)
		}
	}
	return strings.TrimSpace(s.Err)
}

// judge compares the run's end with what is expected of the fault.
func (r *rig) judge(s world.Said) {
	t := r.T
	t.Helper()
	if !slices.Contains(r.f.Codes, s.Code) {
		t.Errorf("exit code %d, want one of %v\n--- stdout\n%s\n--- stderr\n%s", s.Code, r.f.Codes, s.Out, s.Err)
	}
	what := r.says(s)
	switch {
	case s.Code == 0:
		if what != "" {
			t.Errorf("a run that ended well has a cause: %s", what)
		}
	case !regexp.MustCompile(r.f.Cause).MatchString(what):
		t.Errorf("cause %q, want %q", what, r.f.Cause)
	}
	if r.f.Kept.Events {
		log := r.log()
		if n := len(log.Events); r.f.Kept.Result && n > 0 && log.Events[n-1].Kind != events.RunFinished {
			t.Errorf("the last event is %+v", log.Events[n-1])
		}
		if r.f.Kept.Logs {
			r.logs(log.Events)
		}
	}
	if r.f.Kept.Result && r.Result().ExitCode != s.Code {
		t.Errorf("result.json says exit code %d, the command ended with %d", r.Result().ExitCode, s.Code)
	}
	if r.f.Kept.Result && r.start == nil {
		r.slurmsCode(s.Code)
	}
}

// slurmsCode wants the exit code of the run to be that of its job too: whoever looks
// only at Slurm must not take a failed run for a good one.
func (r *rig) slurmsCode(code int) {
	r.T.Helper()
	text, err := r.Lab.Run("scontrol", "show", "job", r.Job())
	if err != nil {
		return // Slurm itself is the fault
	}
	got := regexp.MustCompile(`\bExitCode=(\d+):(\d+)`).FindStringSubmatch(text)
	state := regexp.MustCompile(`\bJobState=(\w+)`).FindStringSubmatch(text)
	switch {
	case got == nil || state == nil:
		r.T.Errorf("Slurm says neither state nor exit code:\n%s", text)
	case state[1] == "COMPLETED" && code != 0:
		r.T.Errorf("Slurm calls the job completed, the run ended with %d", code)
	case state[1] == "FAILED" && got[2] == "0" && got[1] != fmt.Sprint(code):
		r.T.Errorf("Slurm's exit code of the job is %s:%s, the run's %d", got[1], got[2], code)
	}
}

// logs wants the log of every process that was started.
func (r *rig) logs(list []events.Event) {
	r.T.Helper()
	n := 0
	for _, e := range list {
		name, ok := e.Detail["log"].(string)
		if e.Kind != events.ProcessStarted || !ok {
			continue
		}
		n++
		if _, err := os.Stat(filepath.Join(r.Newest(), name)); err != nil {
			r.T.Errorf("log of %s: %v", e.Process, err)
		}
	}
	if n == 0 && r.do != nil {
		r.T.Error("no process was started")
	}
}

func newRig(t *testing.T, f Fault, tr trial) *rig {
	return &rig{World: suite.New(t), f: f, trial: tr}
}

// rank finds a process of the run by its id.
func (r *rig) rank(id string) place {
	r.T.Helper()
	var p place
	r.Until(id, time.Second, func(e events.Event) bool {
		if e.Kind == events.ProcessStarted && e.Process == id {
			pid, _ := e.Detail["pid"].(float64)
			p = place{e.Node, int(pid)}
		}
		return p.pid != 0
	})
	return p
}

// freeze sets the state of the decode worker's control group: what is in a
// frozen one cannot be killed.
func (r *rig) freeze(state string) {
	r.T.Helper()
	const script = `for f in /sys/fs/cgroup/freezer/*/"$0"/freezer.state /sys/fs/cgroup/freezer/docker/"$0"/freezer.state; do [ -e "$f" ] && echo "$1" >"$f" && exit 0; done; [ "$1" = THAWED ]`
	if r.frozen == "" {
		r.frozen = r.containerID()
	}
	r.MustExec(r.T, r.decode, "sh", "-c", script, r.frozen, state)
}

// lastThree are the nodes that Slurm gives out last: nobody else is on them yet
// when trials that need the lab for themselves are done.
func (r *rig) lastThree() []string { return r.Nodes()[len(r.Nodes())-3:] }

// route adds or deletes routes by which the last two nodes do not reach each other.
func (r *rig) route(do string) {
	two := r.lastThree()[1:]
	for i, n := range two {
		r.MustExec(r.T, n, "ip", "route", do, "blackhole", r.NodeIP(r.index(two[1-i]))+"/32")
	}
}
