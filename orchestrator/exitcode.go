package orchestrator

import "strconv"

// ExitCode is the process exit status of every disagg command. The numbers are
// part of the interface (docs/exit-codes.md): scripts decide on them.
type ExitCode int

// The exit codes. A cancelled or failed run is never ExitOK.
const (
	ExitOK          ExitCode = 0   // everything asked for was done and seen
	ExitInternal    ExitCode = 1   // a fault of the tool itself, or of its machine
	ExitUsage       ExitCode = 2   // wrong flags or arguments
	ExitConfig      ExitCode = 3   // recipe, site, catalog or plan refused
	ExitPreflight   ExitCode = 4   // a node is not fit, or could not be checked
	ExitScheduler   ExitCode = 5   // Slurm refused, lost or could not be asked
	ExitLaunch      ExitCode = 6   // something did not start or did not become ready
	ExitWorkload    ExitCode = 7   // a worker, the router, the client or an eval failed
	ExitCollect     ExitCode = 8   // the run was fine but logs or results are incomplete
	ExitLeftovers   ExitCode = 9   // something of the run is still on a node, or could not be looked for
	ExitInterrupted ExitCode = 130 // SIGINT
	ExitTerminated  ExitCode = 143 // SIGTERM, scancel, wall time, preemption
)

// String is the stable word for the code, as in JSON output.
func (c ExitCode) String() string {
	switch c {
	case ExitOK:
		return "ok"
	case ExitInternal:
		return "internal"
	case ExitUsage:
		return "usage"
	case ExitConfig:
		return "config"
	case ExitPreflight:
		return "preflight"
	case ExitScheduler:
		return "scheduler"
	case ExitLaunch:
		return "launch"
	case ExitWorkload:
		return "workload"
	case ExitCollect:
		return "collect"
	case ExitLeftovers:
		return "leftovers"
	case ExitInterrupted:
		return "interrupted"
	case ExitTerminated:
		return "terminated"
	}
	return "exit " + strconv.Itoa(int(c))
}

// Coded is an error that knows which exit code it means.
type Coded interface {
	error
	ExitCode() ExitCode
}

// codedError attaches a code to an error.
type codedError struct {
	code ExitCode
	err  error
}

func (e codedError) Error() string      { return e.err.Error() }
func (e codedError) Unwrap() error      { return e.err }
func (e codedError) ExitCode() ExitCode { return e.code }

// WithCode gives err a code; nil stays nil.
func WithCode(code ExitCode, err error) error {
	if err == nil {
		return nil
	}
	return codedError{code: code, err: err}
}
