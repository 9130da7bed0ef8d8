package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/orchestrator/events"
)

// scancel runs scancel with arguments, in which JOB stands for the job.
func scancel(args ...string) func(*rig) {
	return func(r *rig) {
		call := []string{"scancel"}
		for _, a := range args {
			call = append(call, strings.ReplaceAll(a, "JOB", r.Job()))
		}
		r.Want(r.Run(call...), 0)
	}
}

// stubborn makes the decode worker ignore TERM; the grace then is long.
const (
	stubborn  = "ignore-term:role=decode"
	longGrace = "timeouts: {grace: 40s}\n"
)

// interrupts presses Ctrl-C at the terminal of a disagg run in salloc, so many
// times, with a pause between.
func interrupts(times int, between time.Duration) trial {
	return trial{
		recipe: longGrace, faulty: stubborn,
		start: func(r *rig) func() world.Said {
			r.term = r.atTerminal("salloc", "--nodes=2", "--gres=gpu:8", "--exclusive", "--time=5", r.Bin, "run", "recipe.yaml")
			return r.term.wait
		},
		do: func(r *rig) {
			for i := range times {
				if i > 0 {
					time.Sleep(between)
				}
				r.Must(r.term.press(ctrlC))
			}
		},
	}
}

func endTrials() map[string]trial {
	once := interrupts(1, 0)
	once.recipe, once.faulty = "", ""
	thrice := interrupts(3, 100*time.Millisecond)
	thrice.check = func(r *rig, s world.Said) {
		if want := "disagg cleanup " + r.RunPath(); !strings.Contains(s.Out, "next: "+want) {
			r.T.Errorf("it does not say how to clean up:\n%s\n%s", s.Out, s.Err)
		}
	}
	twice := trial{recipe: longGrace, faulty: stubborn, do: func(r *rig) {
		for range 2 {
			r.Want(r.Run("scancel", "--batch", "--signal=TERM", r.Job()), 0)
			time.Sleep(time.Second)
		}
	}}
	terminal := trial{
		start: func(r *rig) func() world.Said {
			job, _ := r.allocate(2)
			term := r.atTerminal(r.Bin, "run", "recipe.yaml", "--jobid", job)
			r.heal = func(r *rig) { r.Want(r.Run("scancel", job), 0) }
			r.do = func(r *rig) {
				r.Must(term.keys.Close()) // the kernel sends HUP to the foreground
				time.Sleep(2 * time.Second)
				r.letGo()
			}
			return func() world.Said {
				term.wait() // it cannot print how it ended
				return r.Disagg("wait", r.RunPath())
			}
		},
	}
	return map[string]trial{
		"scancel-job":              {do: scancel("JOB")},
		"scancel-step":             {do: scancel("JOB.0")},
		"scancel-batch-term":       {do: scancel("--batch", "--signal=TERM", "JOB")},
		"scancel-twice":            {do: after(scancel("JOB"), scancel("JOB"))},
		"scancel-batch-term-twice": twice,
		"cancel":                   {do: func(r *rig) { r.Want(r.Disagg("cancel", r.RunPath()), 0) }},
		"cancel-now":               {do: func(r *rig) { r.Want(r.Disagg("cancel", "--now", r.RunPath()), 0) }},
		"interrupt":                once,
		"interrupt-twice":          interrupts(2, time.Second),
		"interrupt-three-times":    thrice,
		"terminal-closed":          terminal,
		"salloc-closed":            sallocClosed(),
		"time-limit": {recipe: "time_limit: 2m\ntimeouts: {grace: 5s, client: 10m}\n", set: func(r *rig) {
			// Slurm may signal up to a minute early; the run itself knows the time.
			site := filepath.Join(r.Dir, "site.yaml")
			text, err := os.ReadFile(site)
			r.Must(err)
			r.Must(os.WriteFile(site, []byte(strings.Replace(string(text), "time_limit: 10m", "time_limit: 10m, signal_lead: 20s", 1)), 0o644))
		}, do: func(*rig) {}},
		"node-set-down": {
			do: func(r *rig) {
				r.MustRun(r.T, "scontrol", "update", "nodename="+r.decode, "state=down", "reason=fault")
			},
			heal: func(r *rig) {
				if r.decode != "" {
					r.resume(r.decode)
				}
			},
		},
		"preempted": {do: func(r *rig) {
			s := r.Run("sbatch", "--parsable", "--partition=urgent", "--nodelist="+strings.Join(r.own(), ","), fmt.Sprintf("--nodes=%d", len(r.own())),
				"--exclusive", "--time=1", "--output=/dev/null", "--wrap", "sleep 1")
			r.Want(s, 0)
		}},
		"requeue": {do: func(r *rig) {
			if s := r.Run("scontrol", "requeue", r.Job()); s.Code == 0 {
				r.T.Errorf("the job lets itself be requeued: %s%s", s.Out, s.Err)
			}
			r.letGo()
		}},
		"second-start": {do: func(r *rig) {
			before := r.File("logs/controller.err")
			s := r.Run("sbatch", "--parsable", "--wait", filepath.Join(r.RunPath(), "job.slurm"))
			r.Want(s, 3)
			if text := r.File("logs/controller.err"); !strings.HasPrefix(text, before) || !strings.Contains(text, "run was started already") {
				r.T.Errorf("the log of the controller is %q", text)
			}
			r.letGo()
		}},
	}
}

// sallocClosed closes the terminal of salloc itself, which gives the allocation
// back.
func sallocClosed() trial {
	return trial{
		start: func(r *rig) func() world.Said {
			term := r.atTerminal("salloc", "--nodes=2", "--gres=gpu:8", "--exclusive", "--time=5", r.Bin, "run", "recipe.yaml")
			r.do = func(r *rig) { r.Must(term.keys.Close()) }
			return func() world.Said {
				term.wait()
				return r.Disagg("wait", r.RunPath())
			}
		},
	}
}

func programTrials() map[string]trial {
	var stranger string
	return map[string]trial{
		"exits-with-0":  {faulty: "crash:phase=load,code=0,role=prefill"},
		"out-of-memory": {faulty: "crash:phase=load,code=3,text=torch.OutOfMemoryError:+HIP+out+of+memory,role=decode", check: explained("oom.load")},
		"never-healthy": {faulty: "hang-health:role=decode", recipe: "timeouts: {grace: 5s, worker: 6s, worker_max: 12s}\n"},
		"rank-dies": {decodeRole: "{workers: 1, tp: 16}", do: func(r *rig) {
			p := r.rank("decode-0.1")
			r.Signal(p.node, p.pid, "KILL")
		}},
		"restart-decode":  restartDecode(),
		"launcher-leaves": {faulty: "reparent:role=decode;orphan:role=decode"},
		"ignores-term":    {faulty: stubborn, do: letGo},
		"frozen": {blind: true, do: func(r *rig) {
			r.freeze("FROZEN")
		}, heal: func(r *rig) {
			if r.decode != "" {
				r.freeze("THAWED")
			}
		}},
		"no-kv": {faulty: "stall-kv:role=prefill", recipe: "timeouts: {grace: 5s, canary: 12s}\n"},
		"kv-stalls": {
			recipe: "timeouts: {grace: 5s, stall: 10s}\n",
			do: func(r *rig) {
				r.MustExec(r.T, r.prefill, "bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/8000 && printf 'POST /_standin/fault HTTP/1.0\r\nContent-Length: 8\r\n\r\nstall-kv' >&3 && grep -q ' 20[0-9] ' <&3`)
			},
			check: func(r *rig, _ world.Said) {
				c := r.Result().Cause
				if c == nil || !slices.ContainsFunc(c.State, func(s string) bool {
					return strings.HasPrefix(s, "decode-0: ") && strings.Contains(s, "waiting for their KV")
				}) {
					r.T.Errorf("the state of things does not tell where requests wait: %+v", c)
				}
			},
		},
		"port-taken": {
			early: func(r *rig) {
				for _, n := range r.Nodes() {
					_, err := r.Foreign(n, "stranger-"+filepath.Base(r.Dir), lab.EngineImage, "standin", "engine", "--model-path", "x", "--host", "0.0.0.0", "--port", "8000")
					r.Must(err)
				}
				stranger = "stranger-" + filepath.Base(r.Dir)
			},
			alone: true,
			heal: func(r *rig) {
				for _, n := range r.Nodes() {
					r.Must(r.RemoveContainer(n, stranger))
				}
			},
		},
		"second-run": {
			start: func(r *rig) func() world.Said {
				job, _ := r.allocate(2)
				_, wait := r.Start(r.Bin, "run", "recipe.yaml", "--jobid", job)
				r.ClientRuns()
				first := r.Newest()
				r.heal = func(r *rig) {
					dirs, _ := filepath.Glob(filepath.Join(first, "results", "*"))
					r.Must(os.WriteFile(filepath.Join(dirs[0], "go"), nil, 0o644))
					r.Want(wait(), 0)
					r.Want(r.Run("scancel", job), 0)
				}
				return func() world.Said {
					time.Sleep(1100 * time.Millisecond) // the later run must be the newest by its name
					return r.Disagg("run", "recipe.yaml", "--jobid", job)
				}
			},
			blind: true,
		},
		"peers-apart": {alone: true, preflight: "enforce", prefillRole: "{workers: 2, tp: 8}", early: func(r *rig) {
			r.only(r.lastThree()...)
			r.route("add")
		}, heal: func(r *rig) { r.route("del") }},
		"runs-dir-not-shared": {
			set: func(r *rig) {
				dir, err := os.MkdirTemp("", "disagg-local-runs-")
				r.Must(err)
				r.RunsDir = dir
				r.Site("")
			},
			heal: func(r *rig) { r.Must(os.RemoveAll(r.RunsDir)) },
			check: func(r *rig, s world.Said) {
				if !strings.Contains(s.Err, "runs_dir") {
					r.T.Errorf("it does not name the setting:\n%s", s.Err)
				}
			},
		},
	}
}

// explained wants the cause to have been recognised.
func explained(signature string) func(*rig, world.Said) {
	return func(r *rig, _ world.Said) {
		if c := r.Result().Cause; c == nil || c.Diagnosis == nil || c.Diagnosis.Signature != signature {
			r.T.Errorf("cause %+v, want signature %s", c, signature)
		}
	}
}

func twoTrials() map[string]trial {
	cutPrefill := cut(prefillNode, 0)
	hung := daemon(lab.Dockerd, syscall.SIGSTOP)
	return map[string]trial{
		"kill-engine-and-cut": {do: after(cutPrefill.do, signals("KILL", engine)), heal: cutPrefill.heal},
		"kill-agent-and-shim": {do: func(r *rig) {
			r.MustExec(r.T, r.decode, "kill", "-KILL", fmt.Sprint(r.agentPID(r.decode)), fmt.Sprint(r.shimPID()))
		}},
		"kill-engine-stop-dockerd": cleansUp(trial{do: after(hung, signals("KILL", engine)), heal: continued(lab.Dockerd)}),
		"kill-controller-in-teardown": {faulty: "ignore-term:role=prefill", recipe: longGrace, do: func(r *rig) {
			r.Signal(r.decode, r.enginePID, "KILL")
			r.Until("the stop", 10*time.Second, func(e events.Event) bool { return e.Kind == events.StageStarted && e.Stage == "stop" })
			time.Sleep(time.Second)
			r.Signal(r.controllers, r.controllerPID(), "KILL")
		}},
		"kill-controller-and-srun": {
			set: withSSH,
			do: func(r *rig) {
				a, b := r.controllerPID(), r.srunPID()
				r.MustExec(r.T, r.controllers, "kill", "-KILL", fmt.Sprint(a), fmt.Sprint(b))
			},
			blind: true, // the agents die with srun, and cannot remove their directories
			heal: func(r *rig) {
				if s := r.Disagg("cleanup", r.RunPath()); s.Code != 9 && s.Code != 0 {
					r.T.Errorf("cleanup without --yes ended with %d\n%s%s", s.Code, s.Out, s.Err)
				}
				r.cleanUp()
			},
		},
	}
}

// place is a process on a node.
type place struct {
	node string
	pid  int
}
