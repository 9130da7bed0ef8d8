// Package events is the log of a run: what happened, one JSON object a line,
// appended as it happens. It is the only source that status, logs and wait read,
// so what they say can never differ from what the controller knew.
package events

import "time"

// Kind names what an event is about. The set is closed; readers may rely on it.
type Kind string

// The kinds of event.
const (
	RunStarted  Kind = "run_started"  // a controller took the run
	RunFinished Kind = "run_finished" // the last event; result.json is written
	Alive       Kind = "alive"        // the controller is there; at least every AliveEvery

	StageStarted Kind = "stage_started"
	StageWaiting Kind = "stage_waiting" // Msg says for what
	StageDone    Kind = "stage_done"    // Detail: seconds
	StageFailed  Kind = "stage_failed"  // Detail: seconds
	StageSkipped Kind = "stage_skipped" // Msg says why; never a pass

	NodeJoined Kind = "node_joined" // Detail: host, addr, interface
	NodeLost   Kind = "node_lost"
	Placed     Kind = "placed" // Msg says which node stands for which plan node

	ProcessCreated  Kind = "process_created"  // container or process group up, program held
	ProcessEnv      Kind = "process_env"      // environment inside equals the plan; Detail: variables
	ProcessStarted  Kind = "process_started"  // the program runs; Detail: pid, log
	ProcessProgress Kind = "process_progress" // Detail: log_bytes, rss_bytes, line
	ProcessReady    Kind = "process_ready"    // answers and is who it should be; Detail: seconds
	ProcessExited   Kind = "process_exited"   // Detail: code, signal, asked, oom, log
	ProcessGone     Kind = "process_gone"     // container or process group no longer exists

	Members Kind = "members" // the router's list equals the plan
	Canary  Kind = "canary"  // tokens came out; Detail: through whom
	Point   Kind = "point"   // one client or eval point ended; Detail: name, status

	Restart   Kind = "restart"   // a worker that died while clients run is started again; Detail: worker, why, exit, log, log_file
	Restarted Kind = "restarted" // tokens came out through it again; Detail: worker, seconds

	Warning     Kind = "warning"
	Cause       Kind = "cause"       // why the run fails
	Consequence Kind = "consequence" // what failed because of it
	Diagnosis   Kind = "diagnosis"   // a log line explained; Detail: meaning, remedy
	Signal      Kind = "signal"      // somebody asked the run to end
	Teardown    Kind = "teardown"    // stopping begins
	Leftover    Kind = "leftover"    // something is left, or could not be looked for
)

// AliveEvery is the longest silence of a controller that is there. A reader that
// sees nothing for several of these knows that it is not.
const AliveEvery = 30 * time.Second

// Event is one thing that happened.
type Event struct {
	Time    time.Time      `json:"time"`
	Seq     int64          `json:"seq"` // 1, 2, 3 … without gaps
	Stage   string         `json:"stage,omitempty"`
	Node    string         `json:"node,omitempty"`
	Process string         `json:"process,omitempty"`
	Kind    Kind           `json:"kind"`
	Msg     string         `json:"msg"`
	Detail  map[string]any `json:"detail,omitempty"`
}
