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

	"go.uber.org/zap"

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

// tidy removes the scratch directories of this user's agents that were killed and
// could not do it themselves. A run that still has anything else here keeps them:
// they say what belongs to it.
func (a *agent) tidy(ctx context.Context) {
	dead := false
	a.reapScratch("", func(string) *remains {
		dead = true
		return &remains{}
	}, &deploy.Reaped{})
	if !dead {
		return // the usual case, which costs nothing
	}
	found := a.reap(ctx, deploy.ReapRequest{})
	if len(found.Unverified) > 0 {
		return
	}
	for _, x := range found.Runs {
		if x.Led == 0 && len(x.Containers)+len(x.Processes) == 0 {
			for _, why := range removeScratch(x.RunID, x.Files) {
				a.opts.Log.Warn("remove a dead agent's directory", zap.String("why", why))
			}
		}
	}
}

// removeScratch removes scratch directories that carry a run's marker, and says
// what stays.
func removeScratch(runID string, dirs []string) (stuck []string) {
	for _, dir := range dirs {
		if m, ok := readMarker(dir); !ok || m.RunID != runID || !strings.HasPrefix(filepath.Base(dir), scratchPrefix) {
			stuck = append(stuck, dir+": it does not carry the run's marker any more")
		} else if err := os.RemoveAll(dir); err != nil {
			stuck = append(stuck, err.Error())
		}
	}
	return stuck
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
	if r.Remove && r.Leads && r.Lost != 0 {
		a.endLost(ctx, r)
	}
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

// endLost kills an agent of the run that its controller has given up, such as one
// that was stopped. Its marker tells it from a later process of the same number.
func (a *agent) endLost(ctx context.Context, r deploy.ReapRequest) {
	ctx, cancel := context.WithTimeout(ctx, reapWait)
	defer cancel()
	for {
		m, ok := a.agentAlive(r)
		if !ok {
			return
		}
		runtime.KillExact(m.PID, m.Start)
		t := time.NewTimer(reapPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// agentAlive finds the lost agent's marker while the agent lives.
func (a *agent) agentAlive(r deploy.ReapRequest) (marker, bool) {
	dirs, err := filepath.Glob(filepath.Join(cmp.Or(a.boot.Scratch, "/tmp"), scratchPrefix+"*"))
	if err != nil {
		return marker{}, false
	}
	for _, dir := range dirs {
		m, ok := readMarker(dir)
		if ok && m.UID == os.Getuid() && m.RunID == r.RunID && m.PID == r.Lost && m.PID != os.Getpid() && startTime(m.PID) == m.Start {
			return m, true
		}
	}
	return marker{}, false
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
		x.Stuck = removeScratch(x.RunID, x.Files)
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
