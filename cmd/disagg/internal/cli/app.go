// Package cli holds the commands: flags in, one call, a printed result, an exit
// code. No decision about clusters, engines or nodes is made here.
package cli

import (
	"context"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Streams is the world as a command sees it; tests hand in buffers.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      []string // NAME=value, the submitting environment
	Dir      string   // working directory, absolute
	Terminal bool     // Out is a terminal: colour and live lines are welcome
	Now      func() time.Time
}

// Standard returns the process's own streams.
func Standard() Streams {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	tty := term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), Dir: dir, Terminal: tty, Now: time.Now}
}

// getenv looks a name up in the streams' environment.
func (s Streams) getenv(name string) (string, bool) {
	for i := len(s.Env) - 1; i >= 0; i-- {
		if k, v, ok := cutEnv(s.Env[i]); ok && k == name {
			return v, true
		}
	}
	return "", false
}

func cutEnv(kv string) (name, value string, ok bool) {
	for i := 0; i < len(kv); i++ {
		if kv[i] == '=' {
			return kv[:i], kv[i+1:], true
		}
	}
	return "", "", false
}

// app is what every verb gets.
type app struct {
	Streams
	ctx     context.Context
	output  string // text or json
	verbose bool
	typed   string // the command that was given, such as "disagg sweep status"
	here    bool   // Dir is the process's own directory
}

func (a *app) json() bool { return a.output == "json" }
