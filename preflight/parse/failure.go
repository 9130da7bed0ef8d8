package parse

import (
	"strings"
)

// FailureKind says why a tool gave no answer.
type FailureKind string

// Kinds of failure.
const (
	// FailSudo: sudo would have asked for a password, or refuses.
	FailSudo FailureKind = "sudo"
	// FailMissing: the program is not there.
	FailMissing FailureKind = "missing"
	// FailTimeout: no end within its deadline.
	FailTimeout FailureKind = "timeout"
	// FailDenied: this user may not.
	FailDenied FailureKind = "denied"
	// FailNoDevice: the tool ran and says there is no device. Many tools exit 0
	// with it.
	FailNoDevice FailureKind = "no-device"
	// FailError: the tool says that it failed, in other words.
	FailError FailureKind = "error"
)

// Failure is why a tool gave no answer, with the line that says so.
type Failure struct {
	Kind FailureKind
	Line string
}

// failures are the words of tools, all lower case. The first that is found
// counts, so what is more exact stands first.
var failures = []struct {
	kind  FailureKind
	words []string
}{
	{FailSudo, []string{"a password is required", "not in the sudoers", "no tty present", "a terminal is required", "not allowed to execute", "may not run sudo"}},
	{FailNoDevice, []string{
		"no amd nics detected", "invalid card handle", "failed to get nic", "no ib devices found", "no nics found", "no device found", "no devices found",
		"failed to get ib device", "failed to get ib devices", "driver not initialized", "no amd gpus found", "unable to detect any gpu", "amdgpu not found", "amdgpu driver not",
		"no supported device", "failed to get amd gpu",
	}},
	{FailDenied, []string{"permission denied", "operation not permitted", "must be root", "you must be root", "requires root", "access denied", "missing render/video groups", "not permitted"}},
	{FailMissing, []string{"command not found", "no such file or directory"}},
	{FailError, []string{"error code:", "can not find a device", "cannot find a device", "traceback (most recent call last)", "not supported on your system", "operation not supported", "no such device"}},
}

// ToolFailure recognises the words with which tools say that they could not do
// it, whatever their exit code was. nil means that no such words were found.
func ToolFailure(stdout, stderr string) *Failure {
	for _, text := range []string{stderr, stdout} {
		lines := Lines(text)
		for _, f := range failures {
			for _, l := range lines {
				low := strings.ToLower(l)
				for _, w := range f.words {
					if strings.Contains(low, w) {
						return &Failure{Kind: f.kind, Line: strings.TrimSpace(l)}
					}
				}
			}
		}
	}
	// A JSON command of some tools answers with one bare word.
	if t := strings.TrimSpace(stdout); strings.EqualFold(t, "error") || strings.EqualFold(t, "failed") {
		return &Failure{Kind: FailError, Line: t}
	}
	return nil
}
