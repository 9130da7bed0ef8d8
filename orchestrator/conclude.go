package orchestrator

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// conclude decides how the run ended.
func (r *run) conclude() result.Result {
	r.awaitDiagnoses()
	if r.stop.leave {
		r.leaveBehind()
	}
	return r.summary(r.left)
}

// interim writes down what is known when a run begins to end. It is what stays if
// this process is ended before it has written the last word.
func (r *run) interim() {
	left := slices.Clone(r.left)
	for _, n := range r.nodes {
		if n.conn != nil && len(n.plan) > 0 {
			left = append(left, deploy.Leftovers{Node: n.name, Unverified: []string{"the controller was ended before it looked; look with: " + r.cleanupOn(n)}})
		}
	}
	res := r.summary(left)
	res.Interim = true
	if res.Outcome == result.OK {
		res.Outcome, res.ExitCode, res.Exit = result.Failed, int(ExitLeftovers), ExitLeftovers.String()
		res.Cause = &result.Failure{Time: time.Now().UTC(), Stage: r.stageName(), What: "the controller was ended while it stopped the run; the work was done, but nobody looked at the nodes"}
	}
	data, err := res.Encode()
	if err != nil {
		return // the last word will say so
	}
	// A file server that hangs must not hold up the stop.
	r.wg.Go(func() { _ = r.Dir.Put(rundir.InterimFile, data, 0o600) })
}

// summary is the record as far as everything is known.
func (r *run) summary(left []deploy.Leftovers) result.Result {
	res := result.Result{
		Run: r.id, Name: r.plan.Name, Tool: r.Version, Job: r.Job, PlanHash: r.Dir.PlanSHA256(),
		Started: r.began.UTC(), Finished: time.Now().UTC(),
		Stages: r.stages, Config: result.ConfigOf(r.plan), Topology: r.plan.Topology, Images: r.images,
		Looked: r.looked, Leftovers: left, Unproven: r.unproven,
		Waivers: r.plan.Preflight.Waive, Allowed: r.plan.Allowed, Warnings: slices.Concat(r.plan.Warnings, r.warnings),
	}
	if len(r.images) == 0 {
		res.Images = nil
	}
	for _, pt := range r.points {
		res.Points = append(res.Points, pt.rec)
	}
	for _, rs := range r.restarts {
		res.Restarts = append(res.Restarts, rs.record())
	}
	for _, n := range r.nodes {
		res.Nodes = append(res.Nodes, n.record())
	}
	outcome, code := r.verdict(&res)
	res.Outcome, res.ExitCode, res.Exit = outcome, int(code), code.String()
	// Paths, not ids: they work without the site file, for whoever is on call.
	if res.Cause != nil && res.Cause.LogFile != "" {
		res.Next = append(res.Next, fmt.Sprintf("disagg logs %s %s", r.Dir.Path(), res.Cause.Process))
	}
	if n := r.lostBy(res.Cause); n != nil && !n.again && r.plan.Launcher == models.LauncherSlurm {
		res.Next = append(res.Next, "scontrol show node "+n.name)
	}
	if code == ExitPreflight && hasDir(r.Dir.Join(rundir.PreflightDir)) {
		res.Next = append(res.Next, "disagg preflight --from "+r.Dir.Join(rundir.PreflightDir))
	}
	if len(left) > 0 {
		res.Next = append(res.Next, "disagg cleanup "+r.Dir.Path())
	}
	return res
}

// lostBy is the lost node that a cause is about; nil: it is about none.
func (r *run) lostBy(cause *result.Failure) *node {
	if cause == nil || cause.Process != "" {
		return nil
	}
	for _, n := range r.nodes {
		if n.lost && n.name == cause.Node {
			return n
		}
	}
	return nil
}

func hasDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// verdict names outcome and cause. A run that was asked to end was cancelled,
// unless something had failed by itself before.
func (r *run) verdict(res *result.Result) (result.Outcome, ExitCode) {
	cause, rest := elect(r.failures)
	for _, f := range rest {
		res.Consequences = append(res.Consequences, f.record())
	}
	switch {
	case r.stop.asked() && !r.stop.after:
		if cause != nil {
			res.Consequences = append([]result.Failure{cause.record()}, res.Consequences...)
		}
		res.Cause = &result.Failure{Time: r.stop.at.UTC(), Stage: r.stop.stage, What: "asked to end by " + r.stop.why}
		if r.stop.waited != "" {
			res.Cause.What += fmt.Sprintf(", while stage %s waited for %s", r.stop.stage, r.stop.waited)
		}
		return result.Cancelled, r.stop.code
	case cause == nil:
		return result.OK, ExitOK
	}
	rec := cause.record()
	res.Cause = &rec
	if n := r.lostBy(res.Cause); n != nil && n.again {
		res.Cause.What += "; the node itself was reached again, so it is its agent that is gone"
	}
	if cause.ended {
		return result.Cancelled, ExitTerminated
	}
	return result.Failed, cause.code
}

// awaitDiagnoses gives the readers of logs, and the scheduler, the time they have.
func (r *run) awaitDiagnoses() {
	ctx, cancel := context.WithTimeout(r.bg, r.allowed(closePatience))
	defer cancel()
	// What is not explained by then stays so.
	_ = r.await(ctx, waiting{done: func() bool { return r.diagnosing+r.asking == 0 }, what: func() string { return "logs to be read" }, through: true})
}

// leaveBehind lists what the third signal left: nobody looked.
func (r *run) leaveBehind() {
	for _, n := range r.nodes {
		if n.conn == nil || len(n.plan) == 0 {
			continue
		}
		r.left = append(r.left, deploy.Leftovers{Node: n.name, Unverified: []string{"left at once, on request; the lease ends what ran there; look with: " + r.cleanupOn(n)}})
	}
}

func (n *node) record() result.Node {
	out := result.Node{Name: n.name, Host: n.info.Host, Addr: n.info.Addr, Plan: n.plan}
	switch {
	case n.unfit != "":
		out.Note = "unfit: " + n.unfit
	case n.lost:
		out.Note = fmt.Sprintf("lost: %v", n.err)
	case n.conn == nil:
		out.Note = n.why()
	case len(n.plan) == 0:
		out.Note = "spare, not needed"
	}
	return out
}
