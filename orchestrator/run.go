package orchestrator

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/internal/redact"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/receipts"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// run is all state of one run. Only the goroutine in Run touches it, except for
// mail, which others send functions to, and the event writer.
type run struct {
	Options
	pace  Pace
	plan  *models.Plan
	id    string
	began time.Time
	out   *events.Writer
	web   *http.Client

	bg   context.Context // ends with the run; everything in the background ends with it
	mail chan func()
	wire chan deploy.Event
	tick *time.Ticker
	wg   sync.WaitGroup

	secrets  map[string][]byte
	red      *redact.Redactor
	key      []byte // receipt key
	receipts *receipts.Writer
	extras   []string // variables nobody planned that were warned of, as "scope name"

	nodes []*node          // in the allocation's order
	place []*node          // plan node → node
	procs map[string]*proc // by process id
	order []*proc          // as created

	stage      *stage
	stages     []result.Stage
	points     []*point
	clients    bool // clients run, or an evaluation
	restarts   []*restart
	images     map[string]string
	imageEnv   map[string][]string // image → names of the variables it sets
	modelDir   string              // the model's directory on the nodes; empty: none was looked for
	fabric     map[string]Fabric
	failures   []*failure
	diagnosing int  // logs being read
	counting   bool // nodes are asked what they counted
	states     int  // how many directories with the state of things there are
	asking     int  // questions to the scheduler that matter for the cause
	stop       stopState
	unproven   []string
	warnings   []string
	looked     []string
	left       []deploy.Leftovers

	answerBefore string // what the canary said before the client
	lastWaiting  string
	waitingSince time.Time
	lastAlive    time.Time
	unwritable   since // since when events cannot be written
	scheduler    schedulerWatch
	watch        watcher
}

// closePatience bounds the last writes of a run, when the file server hangs.
const closePatience = 5 * time.Second

// Run carries out a plan and returns how it ended, which is also what result.json
// says. The error is for what kept the run from being recorded, or from starting
// at all; then the Result may be partial.
func Run(ctx context.Context, o Options) (result.Result, error) {
	r, err := newRun(o)
	if err != nil {
		return result.Result{}, err
	}
	bg, end := context.WithCancel(context.WithoutCancel(ctx))
	r.bg = bg
	defer end()
	r.emit(events.Event{Kind: events.RunStarted, Msg: fmt.Sprintf("run %s: %s, launcher %s, engine %s, model %s", r.id, plural(len(o.Nodes), "node"), r.plan.Launcher, r.plan.Engine, r.plan.Model.Name), Detail: map[string]any{"tool": o.Version, "job": o.Job, "nodes": o.Nodes}})
	r.watchCaller(ctx)
	r.watchScheduler()

	r.runStages()
	r.teardown()

	res := r.conclude()
	end()
	r.drain()
	err = r.save(&res)
	return r.shown(res), err
}

// shown is a result without secrets, as result.json has it: the last lines of a
// program, or the answer of a server, can hold one.
func (r *run) shown(res result.Result) result.Result {
	data, err := res.Encode()
	var out result.Result
	if err != nil || json.Unmarshal(r.red.Bytes(data), &out) != nil {
		return result.Result{Run: res.Run, Outcome: res.Outcome, ExitCode: res.ExitCode, Exit: res.Exit}
	}
	return out
}

func newRun(o Options) (*run, error) {
	if o.Dir == nil || o.Plan == nil || o.Launcher == nil {
		return nil, WithCode(ExitInternal, fmt.Errorf("start run: run directory, plan and launcher are needed"))
	}
	secrets, err := o.Dir.Secrets()
	if err != nil {
		return nil, WithCode(ExitConfig, err)
	}
	host, _ := os.Hostname() // for the record only
	if err := o.Dir.Claim(rundir.Claim{Host: host, PID: os.Getpid(), Job: o.Job, Time: time.Now()}); err != nil {
		return nil, WithCode(ExitConfig, err)
	}
	// They are in memory now and the run is taken: nobody needs the file again.
	kept := o.Dir.RemoveSecrets()
	red := redact.New(secrets)
	o.Dir.Redact(red)
	w, err := events.NewWriter(o.Dir.Join(rundir.EventsFile), time.Now, red)
	if err != nil {
		return nil, WithCode(ExitInternal, err)
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // documented never to fail
	r := &run{
		Options: o, pace: o.Pace.filled(), plan: o.Plan, id: o.Dir.ID(), began: time.Now(), out: w,
		mail: make(chan func()), wire: make(chan deploy.Event, 256), tick: time.NewTicker(time.Second),
		secrets: secrets, key: key, red: red, receipts: &receipts.Writer{Path: o.Dir.Join(rundir.ReceiptsFile), Redact: red},
		procs: map[string]*proc{}, images: map[string]string{}, imageEnv: map[string][]string{}, fabric: map[string]Fabric{},
		lastAlive: time.Now(),
	}
	r.web = &http.Client{Transport: transport(o.HTTP), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r.addProcesses()
	r.addPoints()
	if kept != nil {
		r.warn(events.Event{Msg: fmt.Sprintf("the file with the secrets is still there: %v", kept)})
	}
	return r, nil
}

// emit writes an event of the current stage.
func (r *run) emit(e events.Event) {
	if e.Stage == "" {
		e.Stage = r.stageName()
	}
	r.out.Emit(e)
}

func (r *run) warn(e events.Event) {
	e.Kind = events.Warning
	r.warnings = append(r.warnings, e.Msg)
	r.emit(e)
}

// drain waits for background work to end, but not for work that does not.
func (r *run) drain() {
	r.tick.Stop()
	r.web.CloseIdleConnections()
	done := make(chan struct{})
	go func() {
		r.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(closePatience)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-r.wire: // a node may still be reporting
		case <-timer.C:
			return
		}
	}
}

// save writes the result and closes the event log.
func (r *run) save(res *result.Result) error {
	data, err := res.Encode()
	if err == nil {
		err = r.Dir.Put(rundir.ResultFile, data, 0o600)
	}
	if err == nil {
		// It has been overtaken; where it cannot be removed, the result goes first.
		_ = os.Remove(r.Dir.Join(rundir.InterimFile))
	}
	r.out.Emit(events.Event{Kind: events.RunFinished, Msg: ending(res), Detail: map[string]any{"outcome": res.Outcome, "exit_code": res.ExitCode}})
	if cerr := r.out.Close(closePatience); err == nil {
		err = cerr
	}
	r.Dir.FreeReserve()
	if err != nil {
		return WithCode(ExitInternal, fmt.Errorf("record the end of run %s: %w", r.id, err))
	}
	return nil
}

// ending is the last line of a run.
func ending(res *result.Result) string {
	s := fmt.Sprintf("%s, exit code %d (%s)", res.Outcome, res.ExitCode, res.Exit)
	if res.Cause != nil {
		s += ": " + res.Cause.What
	}
	return s
}
