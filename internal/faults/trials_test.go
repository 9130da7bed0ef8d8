package faults

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/orchestrator/events"
)

// trials says how each fault of the matrix is brought about.
func trials() map[string]trial {
	out := map[string]trial{}
	for _, part := range []map[string]trial{killTrials(), stopTrials(), placeTrials(), endTrials(), programTrials(), twoTrials()} {
		maps.Copy(out, part)
	}
	return out
}

// signals sends a signal to a process of a node.
func signals(sig string, where func(*rig) (node string, pid int)) func(*rig) {
	return func(r *rig) {
		node, pid := where(r)
		r.Signal(node, pid, sig)
	}
}

func controller(r *rig) (string, int) { return r.controllers, r.controllerPID() }
func srun(r *rig) (string, int)       { return r.controllers, r.srunPID() }
func agent(r *rig) (string, int)      { return r.decode, r.agentPID(r.decode) }
func shim(r *rig) (string, int)       { return r.decode, r.shimPID() }
func engine(r *rig) (string, int)     { return r.decode, r.enginePID }
func containerdShim(r *rig) (string, int) {
	return r.decode, r.containerdShimPID()
}

// daemon sends a signal to a daemon of the decode worker's node, which other
// runs keep away from until it is healed.
func daemon(name string, sig syscall.Signal) func(*rig) {
	return func(r *rig) {
		r.drain(r.decode)
		r.Must(r.SignalDaemon(r.decode, name, sig))
	}
}

// restarted starts such a daemon again, continued lets it go on.
func restarted(name string) func(*rig) {
	return func(r *rig) {
		if r.decode != "" {
			r.Must(r.StartDaemon(r.decode, name))
			r.resume(r.decode)
		}
	}
}

func continued(name string) func(*rig) {
	return func(r *rig) {
		if r.decode != "" {
			r.Must(r.SignalDaemon(r.decode, name, syscall.SIGCONT))
			r.resume(r.decode)
		}
	}
}

// withSSH lets commands of the run's user reach the nodes when its agents are gone.
func withSSH(r *rig) {
	ssh := r.SSH()
	r.Site(fmt.Sprintf("ssh: {identity: [%s], known_hosts: [%s]}", ssh.Identity, ssh.KnownHosts))
}

// cleansUp makes a trial do, when its node is well again, what the run said that is
// left to do.
func cleansUp(t trial) trial {
	heal := t.heal
	t.set, t.blind = withSSH, true
	if heal != nil {
		t.heal = func(r *rig) { heal(r); r.cleanUp() }
		return t
	}
	do := t.do
	t.do = func(r *rig) {
		do(r) // it says how to heal
		heal := r.heal
		r.heal = func(r *rig) { heal(r); r.cleanUp() }
	}
	return t
}

// cleanUp calls for what is left until nothing is: an agent that is still at work
// keeps its directory, and may be ended with it by the end of its job.
func (r *rig) cleanUp() {
	r.T.Helper()
	var s world.Said
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		s = r.Disagg("cleanup", r.RunPath(), "--yes")
		if left, err := r.LookFor(r.own()...); s.Code == 0 && err == nil && len(left) == 0 {
			return
		}
	}
	r.T.Errorf("cleanup ends with %d, and left is %q\n%s%s", s.Code, r.Left(r.own()...), s.Out, s.Err)
}

// after does several things one after the other.
func after(steps ...func(*rig)) func(*rig) {
	return func(r *rig) {
		for _, s := range steps {
			s(r)
		}
	}
}

func pause(d time.Duration) func(*rig) { return func(*rig) { time.Sleep(d) } }

func letGo(r *rig) { r.letGo() }

// dockerTool puts a program in the place of docker on every node that does
// something of its own when the decode worker is started.
func dockerTool(script string) func(*rig) {
	return func(r *rig) {
		text := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\n*%s*workload=decode-0.0*) %s ;;\n*) exec /usr/bin/docker \"$@\" ;;\nesac\n", "run*--detach", script)
		r.Write("tools/docker", text)
		r.Must(os.Chmod(filepath.Join(r.Dir, "tools/docker"), 0o755))
	}
}

// withTools submits with the test's tools first on the PATH.
func withTools(r *rig) func() world.Said {
	r.Env = append(r.Env, "PATH="+filepath.Join(r.Dir, "tools")+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	return r.submit()
}

func killTrials() map[string]trial {
	kill := func(where func(*rig) (string, int)) trial { return trial{do: signals("KILL", where)} }
	return map[string]trial{
		"kill-controller": kill(controller),
		"kill-srun":       kill(srun),
		"kill-agent":      kill(agent),
		"kill-shim":       kill(shim),
		"kill-engine":     kill(engine),
		"kill-router": {realRouter: true, do: func(r *rig) {
			// The real router takes this name in place of its command line.
			p := r.process(r.prefill, "router", func(p lab.Process) bool {
				return strings.HasPrefix(strings.Join(p.Argv, " "), "sglang::router")
			})
			r.Signal(r.prefill, p.PID, "KILL")
		}},
		"kill-docker-cli": {
			set: dockerTool(`/usr/bin/docker "$@" >/dev/null & sleep 0.1; kill -9 $! 2>/dev/null; kill -9 $$`), start: withTools,
		},
		"kill-containerd-shim": kill(containerdShim),
		"remove-container":     {do: func(r *rig) { r.Must(r.RemoveContainer(r.decode, r.containerID())) }},
		"kill-dockerd":         cleansUp(trial{do: after(daemon(lab.Dockerd, syscall.SIGKILL), letGo), heal: restarted(lab.Dockerd)}),
		"kill-slurmd":          {do: after(daemon(lab.Slurmd, syscall.SIGKILL), pause(2*time.Second), letGo), heal: restarted(lab.Slurmd)},
		"kill-slurmctld": {
			alone: true,
			do: func(r *rig) {
				r.Must(r.SignalDaemon("", lab.Slurmctld, syscall.SIGKILL))
				r.letGo()
			},
			heal: func(r *rig) { r.Must(r.StartDaemon("", lab.Slurmctld)) },
		},
	}
}

func stopTrials() map[string]trial {
	stop := func(where func(*rig) (string, int)) trial {
		return trial{do: func(r *rig) {
			node, pid := where(r)
			r.Signal(node, pid, "STOP")
			r.heal = func(r *rig) {
				// It may have been killed meanwhile: then there is nothing to continue.
				_, _ = r.Exec(node, "kill", "-CONT", fmt.Sprint(pid))
			}
		}}
	}
	lasting := func(t trial) trial {
		do := t.do
		t.do = after(do, letGo)
		return t
	}
	return map[string]trial{
		"stop-controller": {do: func(r *rig) {
			node, pid := controller(r)
			r.Signal(node, pid, "STOP")
			// Everything but the stopped controller and what it started by itself.
			for deadline := r.at.Add(r.f.Bound); ; time.Sleep(500 * time.Millisecond) {
				left := r.Left(r.own()...)
				if !strings.Contains(strings.Join(left, "\n"), ": container ") {
					break
				}
				if time.Now().After(deadline) {
					r.T.Errorf("containers are left while the controller is stopped: %q", left)
					break
				}
			}
			r.Signal(node, pid, "CONT")
		}},
		"stop-srun":   lasting(stop(srun)),
		"stop-agent":  stop(agent),
		"stop-shim":   stop(shim),
		"stop-engine": stop(engine),
		"stop-docker-cli": {
			recipe: "timeouts: {grace: 5s, launch: 10s}\n",
			set:    dockerTool("kill -STOP $$"), start: withTools,
		},
		"stop-containerd-shim": cleansUp(lasting(stop(containerdShim))),
		"stop-dockerd":         cleansUp(trial{do: after(daemon(lab.Dockerd, syscall.SIGSTOP), letGo), heal: continued(lab.Dockerd)}),
		"stop-slurmd":          {do: after(daemon(lab.Slurmd, syscall.SIGSTOP), letGo), heal: continued(lab.Slurmd)},
		"stop-slurmd-before":   stopSlurmdBefore(),
		"stop-slurmctld": {
			alone: true,
			do: func(r *rig) {
				r.Must(r.SignalDaemon("", lab.Slurmctld, syscall.SIGSTOP))
				r.letGo()
			},
			heal: func(r *rig) { r.Must(r.SignalDaemon("", lab.Slurmctld, syscall.SIGCONT)) },
		},
	}
}

// stopSlurmdBefore has the slurmd of an allocation's last node hang before the run
// starts its agents.
func stopSlurmdBefore() trial {
	return trial{
		recipe: "spares: 1\n",
		start: func(r *rig) func() world.Said {
			job, nodes := r.allocate(3)
			r.hung = nodes[len(nodes)-1]
			r.Must(r.SignalDaemon(r.hung, lab.Slurmd, syscall.SIGSTOP))
			r.heal = func(r *rig) {
				r.Must(r.SignalDaemon(r.hung, lab.Slurmd, syscall.SIGCONT))
				r.Want(r.Run("scancel", job), 0)
			}
			_, wait := r.Start(r.Bin, "run", "recipe.yaml", "--jobid", job)
			r.Until("the client", 4*time.Minute, func(e events.Event) bool {
				return e.Kind == events.ProcessStarted && strings.HasPrefix(e.Process, "client.")
			})
			r.letGo()
			return wait
		},
		blind: true,
		check: func(r *rig, _ world.Said) {
			res := r.Result()
			for _, n := range res.Nodes {
				if used := len(n.Plan) > 0; used != (n.Name != r.hung) {
					r.T.Errorf("%s: used %v, %s", n.Name, used, n.Note)
				}
			}
			want := regexp.MustCompile("node " + r.hung + ` was not reached \(.*no step with it works .*\); the run goes on without it`)
			if !slices.ContainsFunc(res.Warnings, want.MatchString) {
				r.T.Errorf("warnings: %q", res.Warnings)
			}
		},
	}
}

// cut takes a node's network away, and gives it back after some time unless
// that is zero.
func cut(node func(*rig) string, d time.Duration) trial {
	t := trial{
		do: func(r *rig) {
			r.drain(node(r))
			r.Must(r.CutNetwork(r.index(node(r))))
			if d > 0 {
				time.Sleep(d)
				r.Must(r.Heal(r.index(node(r))))
				r.letGo()
			}
		},
		heal: func(r *rig) {
			if n := node(r); n != "" {
				r.Must(r.Heal(r.index(n)))
				r.resume(n)
			}
		},
	}
	return t
}

// cutBriefly is a cut that only requests suffer from.
func cutBriefly() trial {
	t := cut(decodeNode, 5*time.Second)
	t.recipe = patient
	return t
}

// powerOff powers a node off.
func powerOff(node func(*rig) string) trial {
	return trial{
		do: func(r *rig) { r.Must(r.KillNode(r.index(node(r)))) },
		heal: func(r *rig) {
			if n := node(r); n != "" {
				r.Must(r.StartNode(r.index(n)))
			}
		},
	}
}

func decodeNode(r *rig) string      { return r.decode }
func prefillNode(r *rig) string     { return r.prefill }
func controllersNode(r *rig) string { return r.controllers }

// fill leaves no byte of a small disk.
func fill(r *rig) {
	f, err := os.Create(filepath.Join(r.HostPath(r.RunsDir), "..", "filler"))
	r.Must(err)
	defer f.Close()
	chunk := make([]byte, 64<<10)
	for len(chunk) > 0 {
		if _, err := f.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
}

// onSmallDisk puts runs on a small disk.
func onSmallDisk(name string) func(*rig) {
	return func(r *rig) {
		r.RunsDir = filepath.Join(r.SmallDir(name), fmt.Sprintf("runs-%d", time.Now().UnixNano()))
		path := r.HostPath(r.RunsDir)
		r.Must(os.MkdirAll(path, 0o755))
		r.T.Cleanup(func() { r.Must(os.RemoveAll(path)) }) // the next trial needs the room
		r.Site("")
	}
}

func emptied(r *rig) {
	if r.RunsDir != "" {
		_ = os.Remove(filepath.Join(r.HostPath(r.RunsDir), "..", "filler")) // it may not have been made
	}
}

func placeTrials() map[string]trial {
	return map[string]trial{
		"cut-5s":                     cutBriefly(),
		"cut-40s":                    cut(decodeNode, 40*time.Second),
		"cut-for-ever":               cut(decodeNode, 0),
		"cut-controllers-node":       cut(controllersNode, 0),
		"power-off-worker":           powerOff(decodeNode),
		"power-off-controllers-node": powerOff(controllersNode),
		"run-disk-full": {
			single: true, set: onSmallDisk("full"), do: after(fill, pause(3*time.Second)), heal: emptied,
		},
		"run-disk-full-at-start": {
			single: true, set: onSmallDisk("full-at-start"), early: fill, heal: emptied,
			start: func(r *rig) func() world.Said {
				return func() world.Said { return r.Disagg("submit", "recipe.yaml") }
			},
			check: func(r *rig, _ world.Said) {
				if list := r.Runs(); len(list) != 0 {
					r.T.Errorf("half a run directory is left: %q", list)
				}
			},
		},
		"store-full": storeFull(),
	}
}

// storeFull gives the last node of an allocation of its own a container store without
// room for one container more.
func storeFull() trial {
	return trial{start: func(r *rig) func() world.Said {
		job, nodes := r.allocate(2)
		last := nodes[len(nodes)-1]
		store := filepath.Join(r.Dir, "..", "..", "nodes", last, "docker", "containers")
		r.MustExec(r.T, last, "mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=8", "tmpfs", store)
		r.heal = func(r *rig) {
			r.MustExec(r.T, last, "umount", store)
			r.Want(r.Run("scancel", job), 0)
		}
		_, wait := r.Start(r.Bin, "run", "recipe.yaml", "--jobid", job)
		return wait
	}}
}
