package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/runtime"
)

const (
	// reapWait is how long killed processes may take to disappear.
	reapWait = 5 * time.Second
	// reapPause is the time between looks at them.
	reapPause = 20 * time.Millisecond
)

// remains is what is found of one run, with what is needed to remove it.
type remains struct {
	deploy.Remains
	ids  []string // of containers
	pids []runtime.Marked
}

// reap finds what runs of this user have left here and, if asked, removes it.
func (a *agent) reap(ctx context.Context, r deploy.ReapRequest) deploy.Reaped {
	var out deploy.Reaped
	runs := map[string]*remains{}
	of := func(id string) *remains {
		if runs[id] == nil {
			runs[id] = &remains{Remains: deploy.Remains{RunID: id}}
		}
		return runs[id]
	}
	a.reapContainers(ctx, r.RunID, of, &out)
	reapProcesses(r.RunID, of)
	a.reapScratch(r.RunID, of, &out)
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		x := runs[id]
		if x.Empty() {
			continue
		}
		if r.Remove && (x.Led == 0 || r.Leads) {
			a.takeAway(ctx, x)
		}
		out.Runs = append(out.Runs, x.Remains)
	}
	return out
}

// reapContainers finds containers by label. One of another user's is none of
// ours, whatever its run is called.
func (a *agent) reapContainers(ctx context.Context, runID string, of func(string) *remains, out *deploy.Reaped) {
	kind := a.boot.Runtime.Kind
	if kind != "docker" && kind != "podman" {
		return
	}
	err := a.containersErr
	var found []runtime.Found
	if a.containers != nil {
		found, err = a.containers.List(ctx, runID, "")
	}
	if err != nil {
		out.Unverified = append(out.Unverified, fmt.Sprintf("containers: %v", err))
		return
	}
	for _, f := range found {
		if f.Owner != strconv.Itoa(os.Getuid()) {
			continue
		}
		x := of(f.Run)
		x.Containers, x.ids = append(x.Containers, f.String()), append(x.ids, f.ID)
	}
}

// reapProcesses finds processes by their environment.
func reapProcesses(runID string, of func(string) *remains) {
	for _, m := range runtime.AllMarked("/") {
		if runID != "" && m.Run != runID || m.UID != os.Getuid() {
			continue
		}
		x := of(m.Run)
		x.Processes, x.pids = append(x.Processes, fmt.Sprintf("%d %s", m.PID, m.Command)), append(x.pids, m)
	}
}

// reapScratch finds scratch directories by their markers, and with them the
// agents that are still alive.
func (a *agent) reapScratch(runID string, of func(string) *remains, out *deploy.Reaped) {
	base := cmp.Or(a.boot.Scratch, "/tmp")
	dirs, err := filepath.Glob(filepath.Join(base, scratchPrefix+"*"))
	if err != nil {
		out.Unverified = append(out.Unverified, fmt.Sprintf("scratch directories: %v", err))
		return
	}
	for _, dir := range dirs {
		m, ok := readMarker(dir)
		if !ok || m.UID != os.Getuid() || runID != "" && m.RunID != runID || a.scratch != nil && dir == a.scratch.dir {
			continue
		}
		x := of(m.RunID)
		if startTime(m.PID) == m.Start {
			x.Led = m.PID
			continue
		}
		x.Files = append(x.Files, dir)
	}
}

// takeAway removes what a run has left, and says what stays.
func (a *agent) takeAway(ctx context.Context, x *remains) {
	for _, id := range x.ids {
		if err := a.containers.Remove(ctx, id); err != nil {
			x.Stuck = append(x.Stuck, err.Error())
		}
	}
	for _, m := range killAll(ctx, x.pids) {
		x.Stuck = append(x.Stuck, "still there after SIGKILL: "+m.String())
	}
	if len(x.Stuck) == 0 { // the marker stays as long as anything does
		for _, dir := range x.Files {
			if m, ok := readMarker(dir); !ok || m.RunID != x.RunID || !strings.HasPrefix(filepath.Base(dir), scratchPrefix) {
				x.Stuck = append(x.Stuck, dir+": it does not carry the run's marker any more")
			} else if err := os.RemoveAll(dir); err != nil {
				x.Stuck = append(x.Stuck, err.Error())
			}
		}
	}
	x.Removed = len(x.Stuck) == 0
}

// killAll kills processes and returns those that stay. What they start meanwhile
// carries the same marks and is found the next time.
func killAll(ctx context.Context, all []runtime.Marked) []runtime.Marked {
	ctx, cancel := context.WithTimeout(ctx, reapWait)
	defer cancel()
	for len(all) > 0 {
		for _, m := range all {
			m.Kill()
		}
		t := time.NewTimer(reapPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return all
		}
		run := all[0].Run
		all = slices.DeleteFunc(runtime.FindMarked("/", run, ""), func(m runtime.Marked) bool { return m.UID != os.Getuid() })
	}
	return nil
}
