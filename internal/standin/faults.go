package standin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// faults are the faults in force at one place. They can be changed while the
// program runs.
type faults struct {
	place place
	log   *logger

	mu  sync.Mutex
	all []Fault
}

// newFaults reads STANDIN_FAULT.
func newFaults(p place, log *logger) (*faults, error) {
	all, err := ParseFaults(os.Getenv("STANDIN_FAULT"))
	if err != nil {
		return nil, err
	}
	return &faults{place: p, log: log, all: all}, nil
}

// find is the first fault of a kind that is meant for this place.
func (f *faults) find(kind string) (Fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.all {
		if x.Kind == kind && x.here(f.place) {
			return x, true
		}
	}
	return Fault{}, false
}

func (f *faults) has(kind string) bool {
	_, ok := f.find(kind)
	return ok
}

// crash ends the process if a crash of this phase is asked for. It waits the
// fault's time first, in the background unless the phase itself must wait.
func (f *faults) crash(phase string) {
	x, ok := f.find("crash")
	if !ok || x.text("phase", "load") != phase {
		return
	}
	if wait := x.seconds("after", 0); wait > 0 {
		go func() {
			time.Sleep(wait)
			f.end(x)
		}()
		return
	}
	f.end(x)
}

// end ends the process as the fault says.
func (f *faults) end(x Fault) {
	if text := x.text("text", ""); text != "" {
		f.log.raw(text)
	}
	if name := x.text("signal", ""); name != "" {
		sig := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "SEGV": syscall.SIGSEGV, "ABRT": syscall.SIGABRT, "TERM": syscall.SIGTERM}[name]
		if sig != 0 {
			_ = syscall.Kill(os.Getpid(), sig)
			select {}
		}
		f.log.raw("standin: unknown signal " + name)
	}
	os.Exit(x.number("code", 1))
}

// ServeHTTP is the control endpoint: GET shows the faults, POST replaces them.
func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		text, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		all, err := ParseFaults(string(text))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.mu.Lock()
		f.all = all
		f.mu.Unlock()
		f.crash("now")
		f.background()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.all {
		fmt.Fprintln(w, x.Kind, x.Args)
	}
}

// background starts the faults that work beside serving.
func (f *faults) background() {
	if x, ok := f.find("grow"); ok {
		go grow(x.number("mb", 64), x.number("max", 512))
	}
	if x, ok := f.find("flood"); ok {
		go f.flood(x.number("lines", 1000))
	}
	if x, ok := f.find("noise"); ok {
		f.log.raw("\xff\xfe clang: \x1b[31mERROR\x1b[0m: No available pre\x1b[0mfill workers")
		f.log.raw(string(make([]byte, x.number("mb", 8)<<20)))
	}
	if x, ok := f.find("echo"); ok {
		go f.echo(os.Getenv(x.text("env", "HF_TOKEN")))
	}
}

// echo logs a value once in a line, once as JSON, and once in two writes.
func (f *faults) echo(value string) {
	f.log.line("using token " + value)
	quoted, err := json.Marshal(map[string]string{"token": value})
	if err == nil {
		f.log.line(string(quoted))
	}
	f.log.inTwo("again "+value[:len(value)/2], value[len(value)/2:]+"\n")
}

// grow keeps touching new memory.
func grow(mbPerSecond, most int) {
	var held [][]byte
	for len(held)*mbPerSecond < most {
		b := make([]byte, mbPerSecond<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		held = append(held, b)
		time.Sleep(time.Second)
	}
	select {} // the memory stays held
}

func (f *faults) flood(linesPerSecond int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; {
		<-tick.C
		for range max(1, linesPerSecond/100) {
			n++
			f.log.line(fmt.Sprintf("flood %d: Decode batch, #running-req: 1, #token: 128, token usage: 0.00, gen throughput (token/s): 99.9", n))
		}
	}
}
