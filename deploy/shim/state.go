package shim

import (
	"errors"
	"sync"
)

// execState remembers whether the program was let go and what came of it.
type execState struct {
	mu      sync.Mutex
	tried   bool
	started bool
	err     error
}

// once lets the program go by means of f, the first time it is asked.
func (e *execState) once(f func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tried {
		return errors.New("the program has been released already")
	}
	e.tried = true
	e.err = f()
	e.started = e.err == nil
	return e.err
}

// fail remembers why the program could never be let go.
func (e *execState) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.tried {
		e.err = err
	}
}

// failure says why the program never ran, or "".
func (e *execState) failure() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.started:
		return ""
	case e.err != nil:
		return e.err.Error()
	}
	return errNeverRan.Error()
}
