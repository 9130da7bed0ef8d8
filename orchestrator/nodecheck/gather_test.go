package nodecheck

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/preflight"
)

// fakeLauncher hands out what it is given.
type fakeLauncher struct {
	conns  []orchestrator.Connection
	open   bool // more may come: the channel stays open
	err    error
	closed bool
}

func (l *fakeLauncher) Start(_ context.Context, nodes []string, _ chan<- deploy.Event) (<-chan orchestrator.Connection, error) {
	out := make(chan orchestrator.Connection, len(l.conns)+len(nodes))
	for _, c := range l.conns {
		out <- c
	}
	if !l.open {
		close(out)
	}
	return out, l.err
}

func (l *fakeLauncher) Close(context.Context) error { l.closed = true; return nil }

func spec() preflight.Spec {
	return preflight.SpecFrom(plan())
}

func TestGather(t *testing.T) {
	t.Parallel()
	stuck := hung()
	t.Cleanup(func() { close(stuck.closed) })
	l := &fakeLauncher{open: true, conns: []orchestrator.Connection{
		{Name: "n3", Err: errors.New("reach n3: ssh to n3: connection refused")},
		{Name: "n1", Node: answering(t, basic())},
		{Name: "n4", Node: stuck},
		{Name: "stranger", Node: answering(t, basic())},
	}}
	var waited [][]string
	all, end, err := Gather(t.Context(), Request{
		Launcher: l, Nodes: []string{"n1", "n2", "n3", "n4"}, Spec: spec(), Reach: 200 * time.Millisecond,
		Waiting: func(answered []preflight.Facts, open []string) {
			if len(answered)+len(open) != 4 {
				t.Errorf("%d answered, waiting for %q", len(answered), open)
			}
			waited = append(waited, open)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "no answer within 200ms", "connection refused", "no answer within"} {
		if got := all[i].Unreached; (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", all[i].Node, got, want)
		}
	}
	if len(waited) == 0 || waited[len(waited)-1][0] != "n4" {
		t.Errorf("waited for %q", waited)
	}
	began := time.Now()
	end()
	if took := time.Since(began); took > 20*time.Second || !l.closed {
		t.Errorf("the end took %s, launcher closed: %v", took, l.closed)
	}
}

func TestGatherNothing(t *testing.T) {
	t.Parallel()
	if _, _, err := Gather(t.Context(), Request{Launcher: &fakeLauncher{}, Nodes: []string{"a", "a"}, Spec: spec()}); err == nil {
		t.Error("a node that is named twice is asked")
	}
	if _, _, err := Gather(t.Context(), Request{Launcher: &fakeLauncher{err: errors.New("no srun")}, Nodes: []string{"a"}, Spec: spec()}); err == nil {
		t.Error("a launcher that fails is no error")
	}
	all, end, err := Gather(t.Context(), Request{Launcher: &fakeLauncher{}, Nodes: []string{"a"}, Spec: spec()})
	if err != nil || all[0].Unreached != "its agent did not connect" {
		t.Errorf("%+v, %v", all, err)
	}
	end()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("asked to end"))
	all, end, err = Gather(ctx, Request{Launcher: &fakeLauncher{open: true}, Nodes: []string{"a"}, Spec: spec(), Reach: time.Minute})
	if err != nil || !strings.Contains(all[0].Unreached, "asked to end") {
		t.Errorf("%+v, %v", all, err)
	}
	end()
}
