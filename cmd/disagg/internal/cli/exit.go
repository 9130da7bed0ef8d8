package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
)

// usageError is a mistake in flags or arguments; only it shows the usage hint.
type usageError struct{ err error }

func (e usageError) Error() string                   { return e.err.Error() }
func (e usageError) Unwrap() error                   { return e.err }
func (e usageError) ExitCode() orchestrator.ExitCode { return orchestrator.ExitUsage }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// silentError carries an exit code whose reason has been printed already.
type silentError struct{ code orchestrator.ExitCode }

func (e silentError) Error() string                   { return e.code.String() }
func (e silentError) ExitCode() orchestrator.ExitCode { return e.code }

// exitWith ends a verb with a code after it has printed its own result.
func exitWith(code orchestrator.ExitCode) error {
	if code == orchestrator.ExitOK {
		return nil
	}
	return silentError{code}
}

// exitCode ends a verb with the exit code of a program that it stood for.
func exitCode(code int) error { return exitWith(orchestrator.ExitCode(code)) }

// codeOf is the one map from errors to exit codes.
func codeOf(err error) orchestrator.ExitCode {
	if err == nil {
		return orchestrator.ExitOK
	}
	if c, ok := errors.AsType[orchestrator.Coded](err); ok {
		return c.ExitCode()
	}
	if _, ok := errors.AsType[models.FieldErrors](err); ok {
		return orchestrator.ExitConfig
	}
	if errors.Is(err, context.Canceled) {
		return orchestrator.ExitInterrupted
	}
	return orchestrator.ExitInternal
}

// mistake is one mistake in a file, in JSON.
type mistake struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
	Path string `json:"path,omitempty"` // of the key: prefill.tp
	Msg  string `json:"message"`
	Hint string `json:"hint,omitempty"`
}

func mistakes(err error) []mistake {
	fe, _ := errors.AsType[models.FieldErrors](err)
	var out []mistake
	for _, f := range fe {
		out = append(out, mistake{f.File, f.Line, f.Col, f.Path, f.Msg, f.Hint})
	}
	return out
}

// report prints a failure once, for people or as one JSON object.
func (a *app) report(err error) orchestrator.ExitCode {
	code := codeOf(err)
	if _, ok := errors.AsType[silentError](err); err == nil || ok {
		return code
	}
	if a.json() {
		obj := struct {
			Error    string    `json:"error"`
			Exit     string    `json:"exit"`
			ExitCode int       `json:"exit_code"`
			Mistakes []mistake `json:"mistakes,omitempty"`
		}{err.Error(), code.String(), int(code), mistakes(err)}
		enc := json.NewEncoder(a.Err)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(obj)
		return code
	}
	fmt.Fprintf(a.Err, "disagg: %s\n", err)
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(a.Err, "Run '%s --help' for usage.\n", a.typed)
	}
	return code
}
