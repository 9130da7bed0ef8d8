package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// during runs f some time after the first client point has started.
func (s *scenario) during(after time.Duration, f func()) {
	id := s.plan.Client.Points[0].ID
	run := s.c.programs[id]
	s.c.programs[id] = func(ctx context.Context, p *fakeProc) deploy.Exit {
		go func() {
			if pause(ctx, after) {
				f()
			}
		}()
		return run(ctx, p)
	}
}

// statuses are the points' states.
func statuses(res result.Result) []string {
	var out []string
	for _, p := range res.Points {
		out = append(out, p.Name+" "+string(p.Status))
	}
	return out
}

func TestFaultsWhileServing(t *testing.T) {
	t.Parallel()
	missing := []string{"c8 missing", "c16 missing"}
	for _, tc := range []struct {
		name        string
		fault       func(*scenario)
		code        ExitCode
		cause       string
		points      []string
		least, most time.Duration // after the client's start, which is at about 3 s
	}{
		{"a worker is killed", func(s *scenario) { s.during(5*time.Second, func() { s.c.kill("decode-0.0") }) },
			ExitWorkload, "decode-0.0 on gpu-03 was killed by SIGKILL", missing, 5 * time.Second, 6 * time.Second},
		{"a worker exits with 0", func(s *scenario) {
			run := s.c.programs["prefill-0.0"]
			s.c.programs["prefill-0.0"] = func(ctx context.Context, p *fakeProc) deploy.Exit {
				ctx, cancel := context.WithTimeout(ctx, 13*time.Second)
				defer cancel()
				run(ctx, p)
				return deploy.Exit{}
			}
		}, ExitWorkload, "prefill-0.0 on gpu-01 exited with code 0, although it should run until the end", missing, 9 * time.Second, 11 * time.Second},
		{"the router dies", func(s *scenario) { s.during(5*time.Second, func() { s.c.kill("router") }) },
			ExitWorkload, "router on gpu-01 was killed by SIGKILL", missing, 5 * time.Second, 6 * time.Second},
		{"a container is removed from outside", func(s *scenario) {
			s.during(5*time.Second, func() { s.c.vanish("decode-0.0") })
		}, ExitWorkload, "decode-0.0 on gpu-03 is gone, and nobody said how it ended", missing, 5 * time.Second, 6 * time.Second},
		{"a worker turns deaf", func(s *scenario) {
			s.slow()
			s.during(5*time.Second, func() { s.engines["prefill-1"].deaf.Store(true) })
		}, ExitWorkload, "worker prefill-1 on gpu-02 is alive but deaf: no good answer for 1m", missing, 65 * time.Second, 85 * time.Second},
		{"the router turns deaf", func(s *scenario) {
			at := time.Now().Add(8 * time.Second)
			s.router.before = func(w http.ResponseWriter, r *http.Request) bool {
				if time.Now().After(at) {
					<-r.Context().Done()
				}
				return time.Now().After(at)
			}
			s.slow()
		}, ExitWorkload, "alive but deaf", missing, 60 * time.Second, 90 * time.Second},
		{"the router drops a worker", func(s *scenario) {
			all := s.router.members
			at := time.Now().Add(10 * time.Second)
			s.router.members = func() string {
				if time.Now().After(at) {
					return strings.Replace(all(), `"worker_type":"decode","is_healthy":true`, `"worker_type":"decode","is_healthy":false`, 1)
				}
				return all()
			}
			s.slow()
		}, ExitWorkload, "the router does not use the planned workers for 1m", missing, 65 * time.Second, 85 * time.Second},
		{"requests stall", func(s *scenario) {
			s.slow()
			id := s.plan.Client.Points[0].ID
			s.c.programs[id] = func(ctx context.Context, p *fakeProc) deploy.Exit { // no tokens any more
				s.engines["decode-0"].inFlight.Store(64)
				<-ctx.Done()
				return deploy.Exit{Code: 143}
			}
		}, ExitWorkload, "worker decode-0 on gpu-03 has 64 requests in flight and generated no token for 3m", missing, 180 * time.Second, 200 * time.Second},
		{"answers that end late stall", func(s *scenario) { // tokens come for four minutes, then none
			s.slow()
			id := s.plan.Client.Points[0].ID
			s.c.programs[id] = func(ctx context.Context, p *fakeProc) deploy.Exit {
				e := s.engines["decode-0"]
				e.inFlight.Store(64)
				for range 24 {
					pause(ctx, 10*time.Second)
					e.steps.Add(1000)
				}
				<-ctx.Done()
				return deploy.Exit{Code: 143}
			}
		}, ExitWorkload, "worker decode-0 on gpu-03 has 64 requests in flight and generated no token for 3m", missing, 420 * time.Second, 440 * time.Second},
		{"KV transfers stall", func(s *scenario) { // nothing runs any more, everything waits
			s.slow()
			id := s.plan.Client.Points[0].ID
			s.c.programs[id] = func(ctx context.Context, p *fakeProc) deploy.Exit {
				s.engines["decode-0"].awaiting.Store(64)
				<-ctx.Done()
				return deploy.Exit{Code: 143}
			}
		}, ExitWorkload, "worker decode-0 on gpu-03 has 64 requests in flight and generated no token for 3m", missing, 180 * time.Second, 200 * time.Second},
		{"a node is lost", func(s *scenario) {
			s.during(5*time.Second, func() { s.c.nodes["gpu-02"].lose(errors.New("no sign of life for 30s")) })
		}, ExitWorkload, "node gpu-02 is lost: no sign of life for 30s", missing, 5 * time.Second, 6 * time.Second},
		{"the client fails once", func(s *scenario) {
			s.c.programs["client.c8"] = func(ctx context.Context, p *fakeProc) deploy.Exit {
				p.log("ModuleNotFoundError: No module named 'tqdm'")
				return deploy.Exit{Code: 1}
			}
		}, ExitWorkload, "client.c8 on gpu-01 exited with code 1 (1 of 2 points failed: c8)", []string{"c8 failed", "c16 ok"}, 19 * time.Second, 23 * time.Second},
		{"the client hangs", func(s *scenario) {
			s.c.programs["client.c8"] = func(ctx context.Context, p *fakeProc) deploy.Exit {
				for pause(ctx, 5*time.Second) {
					s.engines["decode-0"].served.Add(1)
				}
				return deploy.Exit{Code: 143}
			}
		}, ExitWorkload, "client.c8 on gpu-01 did not end within 30m0s", []string{"c8 failed", "c16 ok"}, 1820 * time.Second, 1825 * time.Second},
		{"the client leaves nothing", func(s *scenario) {
			s.c.programs["client.c8"] = s.loaded(func(ctx context.Context, p *fakeProc) deploy.Exit { pause(ctx, 10*time.Second); return deploy.Exit{} })
		}, ExitCollect, "client.c8 on gpu-01 exited with code 0, but it left no result file that is not empty", []string{"c8 failed", "c16 ok"}, 30 * time.Second, 40 * time.Second},
		{"the client leaves an empty file", func(s *scenario) { s.c.programs["client.c16"] = s.loaded(client(20*time.Second, "")) },
			ExitCollect, "client.c16 on gpu-01 exited with code 0, but it left no result file that is not empty", []string{"c8 ok", "c16 failed"}, 40 * time.Second, 50 * time.Second},
		{"a planned result is missing", func(s *scenario) { s.plan.Client.Points[1].Results = []string{"*.json", "summary-*.csv"} },
			ExitCollect, `it left no file that matches "summary-*.csv"`, []string{"c8 ok", "c16 failed"}, 40 * time.Second, 50 * time.Second},
		{"every request failed", func(s *scenario) {
			s.c.programs["client.c8"] = s.loaded(client(20*time.Second, `{"completed":0,"num_prompts":512,"mean_latency_ms":3}`))
		}, ExitCollect, "its result out.json says that no request was completed", []string{"c8 failed", "c16 ok"}, 40 * time.Second, 50 * time.Second},
		{"some requests failed", func(s *scenario) {
			s.c.programs["client.c8"] = s.loaded(client(20*time.Second, `{"completed":500,"num_prompts":512,"total_output_tokens":9}`))
		}, ExitCollect, "its result out.json says that only 500 of 512 requests were completed", []string{"c8 failed", "c16 ok"}, 40 * time.Second, 50 * time.Second},
		{"no token was generated", func(s *scenario) { s.c.programs["client.c8"] = client(20*time.Second, goodResult) },
			ExitWorkload, "exited with code 0, but no decode worker generated a token meanwhile", []string{"c8 failed", "c16 ok"}, 40 * time.Second, 50 * time.Second},
		{"the servers die with the client", func(s *scenario) {
			s.c.programs["client.c8"] = func(context.Context, *fakeProc) deploy.Exit {
				s.router.broken.Store(true)
				return deploy.Exit{Code: 1}
			}
		}, ExitWorkload, "still waiting for a completion through router (POST http://10.0.0.1:30000/v1/chat/completions: the answer is an error", []string{"c8 failed", "c16 missing"}, 120 * time.Second, 130 * time.Second},
		{"the answers go wrong", func(s *scenario) {
			at, banana := time.Now().Add(4*time.Second), answerChat(`{"choices":[{"message":{"content":"banana"}}],"usage":{"completion_tokens":1}}`)
			s.router.before = func(w http.ResponseWriter, r *http.Request) bool { return time.Now().After(at) && banana(w, r) }
		}, ExitWorkload, `the answers went wrong under load: "What is 2 + 2? Answer with the number only." was answered with "4" before and "banana" after`, []string{"c8 ok", "c16 ok"}, 40 * time.Second, 42 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 2, 1)
				tc.fault(s)
				res := s.start()
				s.verdict(res, tc.code, tc.cause)
				s.took(res, tc.least+3*time.Second, tc.most+4*time.Second)
				if diff := cmp.Diff(tc.points, statuses(res)); diff != "" {
					t.Errorf("points (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// slow makes the client run longer than any fault needs to be noticed.
func (s *scenario) slow() {
	for _, pt := range s.plan.Client.Points {
		s.c.programs[pt.ID] = s.loaded(client(20*time.Minute, goodResult))
	}
}

func TestDeafWorkerIsOnlyWarnedOfWhereTheSiteSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 2, 1)
		s.plan.Deaf = "warn"
		for _, pt := range s.plan.Client.Points {
			s.c.programs[pt.ID] = s.loaded(client(200*time.Second, goodResult))
		}
		s.during(5*time.Second, func() { s.engines["prefill-1"].deaf.Store(true) })
		res := s.start()
		if res.Outcome != result.OK {
			t.Fatalf("cause: %+v", res.Cause)
		}
		n := 0
		for _, w := range res.Warnings {
			if strings.HasPrefix(w, "worker prefill-1 on gpu-02 is alive but deaf") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("warned %d times: %q", n, res.Warnings)
		}
	})
}

func TestBusyWorkerThatLogsIsNotDeaf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		for _, pt := range s.plan.Client.Points {
			s.c.programs[pt.ID] = s.loaded(client(200*time.Second, goodResult))
		}
		run := s.c.programs["decode-0.0"]
		s.c.programs["decode-0.0"] = func(ctx context.Context, p *fakeProc) deploy.Exit {
			go func() {
				for pause(ctx, 10*time.Second) {
					p.log("Decode batch. #running-req: 64")
				}
			}()
			return run(ctx, p)
		}
		s.during(5*time.Second, func() { s.engines["decode-0"].deaf.Store(true) })
		s.during(150*time.Second, func() { s.engines["decode-0"].deaf.Store(false) })
		if res := s.start(); res.Outcome != result.OK {
			t.Fatalf("cause: %+v", res.Cause)
		}
	})
}

func TestFirstCauseAndItsConsequences(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 2, 1)
		s.during(5*time.Second, func() {
			// The other rank speaks first, with a line that blames its peer.
			die := func(id, node, line string, code int) {
				s.c.send(deploy.Event{Node: node, Workload: id, Kind: deploy.EventExited, Exit: &deploy.Exit{Code: code}, Log: []string{line}})
			}
			die("decode-0.0", "gpu-03", "NCCL WARN Net : Connection closed by remote peer gpu-02<41234>", 1)
			die("prefill-1.0", "gpu-02", "Memory access fault by GPU node-2 on address 0x7f21. Reason: Unknown.", 134)
			die("prefill-0.0", "gpu-01", "", 1)
		})
		res := s.start()
		s.verdict(res, ExitWorkload, "prefill-1.0 on gpu-02 exited with code 134")
		if res.Cause.Diagnosis == nil || res.Cause.Diagnosis.Signature != "gpu.fault" {
			t.Errorf("diagnosis: %+v", res.Cause.Diagnosis)
		}
		var rest []string
		for _, f := range res.Consequences {
			rest = append(rest, f.What)
		}
		if len(rest) == 0 || rest[0] != "decode-0.0 on gpu-03 exited with code 1" {
			t.Errorf("consequences: %q", rest)
		}
	})
}

func TestLostNodeExplainsWhatItsPeersSay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 2, 1)
		s.during(5*time.Second, func() {
			s.c.send(deploy.Event{Node: "gpu-03", Workload: "decode-0.0", Kind: deploy.EventExited, Exit: &deploy.Exit{Code: 1}, Log: []string{"NCCL WARN Net : Connection closed by remote peer"}})
			time.Sleep(100 * time.Millisecond)
			s.c.nodes["gpu-02"].lose(errors.New("no sign of life for 30s"))
		})
		s.plan.Launcher = models.LauncherSlurm
		s.c.nodes["gpu-03"].onStop = func(ctx context.Context, id string) error { pause(ctx, time.Second); return nil }
		res := s.start()
		if res.Cause == nil || res.Cause.What != "node gpu-02 is lost: no sign of life for 30s" {
			t.Errorf("cause: %+v", res.Cause)
		}
		if len(res.Next) == 0 || res.Next[0] != "scontrol show node gpu-02" {
			t.Errorf("next: %q", res.Next)
		}
		found := false
		for _, l := range res.Leftovers {
			found = found || l.Node == "gpu-02" && len(l.Unverified) == 1 && strings.Contains(l.Unverified[0], "disagg cleanup "+s.dir.Path()+" --nodes gpu-02")
		}
		if !found {
			t.Errorf("leftovers: %+v", res.Leftovers)
		}
	})
}

// TestContainerThatComesUpLate: a daemon may go on with a creation that nobody waits
// for any more. Only a container that never ran is taken away unasked.
func TestContainerThatComesUpLate(t *testing.T) {
	t.Parallel()
	for state, removed := range map[string]bool{"Created": true, "Up 2 minutes": false} {
		t.Run(state, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				n := s.c.nodes["gpu-02"]
				gone := false
				n.look = func() (deploy.Leftovers, error) {
					if gone {
						return deploy.Leftovers{}, nil
					}
					return deploy.Leftovers{Containers: []string{"f44617d62f2f disagg-decode-0.0 " + state}}, nil
				}
				n.reap = func() (deploy.Reaped, error) {
					gone = true
					return deploy.Reaped{Runs: []deploy.Remains{{RunID: s.dir.ID(), Containers: []string{"f44617d62f2f disagg-decode-0.0"}, Removed: true}}}, nil
				}
				res := s.start()
				if clean := len(res.Leftovers) == 0; clean != removed {
					t.Errorf("leftovers: %+v", res.Leftovers)
				}
				if slices.Contains(res.Warnings, "on node gpu-02 something came up after its end, and was removed: f44617d62f2f disagg-decode-0.0") != removed {
					t.Errorf("warnings: %q", res.Warnings)
				}
			})
		})
	}
}

func TestSecondLookAtALostNode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		stays    bool // something the second agent cannot remove
		code     ExitCode
		warnings []string
	}{
		{"what was left is removed", false, ExitWorkload, []string{"node gpu-02 was reached again, and what its lost agent left was removed: /tmp/dsg-1"}},
		{"something stays", true, ExitWorkload, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				again := newCluster("gpu-02").nodes["gpu-02"]
				again.reap = func() (deploy.Reaped, error) {
					return deploy.Reaped{Runs: []deploy.Remains{{RunID: s.dir.ID(), Files: []string{"/tmp/dsg-1"}, Removed: !tc.stays}}}, nil
				}
				if tc.stays {
					again.look = func() (deploy.Leftovers, error) {
						return deploy.Leftovers{Processes: []string{"812 python3"}}, nil
					}
				}
				s.c.nodes["gpu-02"].again = again
				s.during(5*time.Second, func() { s.c.nodes["gpu-02"].lose(errors.New("the agent was killed")) })
				res := s.start()
				s.verdict(res, tc.code, "node gpu-02 is lost: the agent was killed; the node itself was reached again, so it is its agent that is gone")
				if diff := cmp.Diff(tc.warnings, res.Warnings); diff != "" {
					t.Errorf("warnings (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{"gpu-01", "gpu-02"}, res.Looked); diff != "" {
					t.Errorf("looked at (-want +got):\n%s", diff)
				}
				if left := len(res.Leftovers) > 0; left != tc.stays {
					t.Errorf("leftovers: %+v", res.Leftovers)
				}
				select {
				case <-again.Done():
				default:
					t.Error("the second agent was not closed")
				}
			})
		})
	}
}

// TestSilenceIsToldBeforeItCounts: whoever looks at a run sees that a worker does not
// answer, before that ends the run, and that it answers again.
func TestSilenceIsToldBeforeItCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		for _, pt := range s.plan.Client.Points {
			s.c.programs[pt.ID] = s.loaded(client(100*time.Second, goodResult))
		}
		s.during(5*time.Second, func() {
			s.engines["decode-0"].deaf.Store(true)
			time.Sleep(40 * time.Second)
			s.engines["decode-0"].deaf.Store(false)
		})
		if res := s.start(); res.Outcome != result.OK || len(res.Warnings) > 0 {
			t.Fatalf("cause %+v, warnings %q", res.Cause, res.Warnings)
		}
		log, err := events.ReadAll(s.dir.Join(rundir.EventsFile))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range log.Events {
			if e.Kind == events.Warning && e.Process == "decode-0.0" {
				got = append(got, e.Msg)
			}
		}
		if len(got) != 2 || !strings.HasPrefix(got[0], "worker decode-0 on gpu-02 has not answered for 2") || got[1] != "worker decode-0 on gpu-02 answers again" {
			t.Errorf("%q", got)
		}
	})
}

// TestPartialResultsAreListed: what a client had written when its time was over, or
// the run was ended, is in the record.
func TestPartialResultsAreListed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		writes := func(ctx context.Context, p *fakeProc) deploy.Exit {
			if err := os.WriteFile(filepath.Join(p.w.Argv[len(p.w.Argv)-1], "part.json"), []byte("{}"), 0o600); err != nil {
				s.t.Error(err)
			}
			<-ctx.Done()
			return deploy.Exit{Code: 143}
		}
		s.c.programs["client.c8"], s.c.programs["client.c16"] = writes, writes
		s.plan.Budgets.Client = models.Duration(time.Minute)
		go func() {
			time.Sleep(90 * time.Second) // in the second point
			s.signals <- os.Interrupt
		}()
		res := s.start()
		var got []string
		for _, p := range res.Points {
			for _, f := range p.Files {
				got = append(got, fmt.Sprintf("%s %s %d", p.Status, f.Path, f.Bytes))
			}
		}
		if diff := cmp.Diff([]string{"failed results/c8/part.json 2", "missing results/c16/part.json 2"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestTheDiskIsFull: a run whose directory takes nothing any more ends.
func TestTheDiskIsFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.slow()
		var room func()
		s.during(5*time.Second, func() { room = diskFull(t, s.dir.Join(rundir.EventsFile)) })
		var once sync.Once // what is kept for the record is free by now
		s.c.nodes["gpu-02"].onStop = func(context.Context, string) error { once.Do(room); return nil }
		res := s.start()
		s.verdict(res, ExitCollect, "the run directory cannot be written to for 30s, so results would be lost: write event log: ")
		s.took(res, 35*time.Second, 75*time.Second)
	})
}

// TestTheDiskIsFullForAMoment: one whose disk has room again in time goes on.
func TestTheDiskIsFullForAMoment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.during(5*time.Second, func() {
			room := diskFull(t, s.dir.Join(rundir.EventsFile))
			time.Sleep(14 * time.Second)
			room()
		})
		if res := s.start(); res.Outcome != result.OK {
			t.Errorf("cause: %+v", res.Cause)
		}
	})
}

// diskFull makes every write to an open file fail as on a full disk, until room is
// called.
func diskFull(t *testing.T, path string) (room func()) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
		return func() {}
	}
	defer full.Close()
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range fds {
		if at, err := os.Readlink(name); err != nil || at != path {
			continue
		}
		fd, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			t.Error(err)
			continue
		}
		kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			err = unix.Dup3(int(full.Fd()), fd, unix.O_CLOEXEC)
		}
		if err != nil {
			t.Error(err)
		}
		return func() {
			if err := errors.Join(unix.Dup3(kept, fd, unix.O_CLOEXEC), unix.Close(kept)); err != nil {
				t.Error(err)
			}
		}
	}
	t.Errorf("nobody has %s open", path)
	return func() {}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		send  func(*scenario)
		code  ExitCode
		cause string
		most  time.Duration
		left  bool // something may be left, and the result says so
	}{
		{"Ctrl-C", func(s *scenario) { s.signals <- os.Interrupt }, ExitInterrupted, `asked to end by Ctrl-C`, 2 * time.Second, false},
		{"scancel", func(s *scenario) { s.signals <- syscall.SIGTERM }, ExitTerminated, `asked to end by SIGTERM`, 2 * time.Second, false},
		{"disagg cancel", func(s *scenario) {
			if err := s.dir.NoteCancel(rundir.Cancel{User: "ana", Host: "login1"}); err != nil {
				s.t.Error(err)
			}
			s.signals <- syscall.SIGTERM
		}, ExitTerminated, `asked to end by disagg cancel (ana on login1)`, 2 * time.Second, false},
		{"scancel that reaches the agents first", func(s *scenario) {
			s.c.send(deploy.Event{Node: "gpu-02", Kind: deploy.EventTerminating})
			s.c.nodes["gpu-02"].lose(errors.New("connection closed"))
			time.Sleep(20 * time.Millisecond)
			s.signals <- syscall.SIGTERM
		}, ExitTerminated, `asked to end by SIGTERM`, 2 * time.Second, true},
		{"scancel that reaches an engine first", func(s *scenario) {
			s.c.send(deploy.Event{Node: "gpu-02", Workload: "prefill-1.0", Kind: deploy.EventExited, Exit: &deploy.Exit{Code: -1, Signal: "SIGTERM"}})
			time.Sleep(20 * time.Millisecond)
			s.signals <- syscall.SIGTERM
		}, ExitTerminated, `asked to end by SIGTERM`, 2 * time.Second, false},
		{"the agents' step is cancelled alone", func(s *scenario) {
			s.c.send(deploy.Event{Node: "gpu-02", Kind: deploy.EventTerminating})
		}, ExitTerminated, "the agent on node gpu-02 was told to end by somebody else", 2 * time.Second, false},
		{"a signal after a crash", func(s *scenario) {
			s.c.nodes["gpu-01"].onStop = func(ctx context.Context, _ string) error { pause(ctx, time.Second); return nil }
			s.c.kill("prefill-1.0")
			time.Sleep(20 * time.Millisecond)
			s.signals <- os.Interrupt
		}, ExitWorkload, "prefill-1.0 on gpu-02 was killed by SIGKILL", 2 * time.Second, false},
		{"a worker ignores TERM", func(s *scenario) {
			s.stubborn("decode-0.0")
			s.signals <- os.Interrupt
		}, ExitInterrupted, "asked to end by", 11 * time.Second, false},
		{"everybody ignores TERM", func(s *scenario) {
			for _, id := range []string{"router", "prefill-0.0", "prefill-1.0", "decode-0.0", "client.c8"} {
				s.stubborn(id)
			}
			s.signals <- os.Interrupt
		}, ExitInterrupted, "asked to end by", 11 * time.Second, false},
		{"Ctrl-C twice", func(s *scenario) {
			s.stubborn("decode-0.0")
			s.signals <- os.Interrupt
			time.Sleep(2 * time.Second)
			s.signals <- os.Interrupt
		}, ExitInterrupted, "asked to end by", 3 * time.Second, false},
		{"Ctrl-C twice at once", func(s *scenario) {
			s.stubborn("decode-0.0")
			s.signals <- os.Interrupt
			s.signals <- os.Interrupt
		}, ExitInterrupted, "asked to end by", time.Second, false},
		{"Ctrl-C three times", func(s *scenario) {
			s.stubborn("decode-0.0")
			s.c.nodes["gpu-03"].onStop = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
			for i := range 3 {
				time.Sleep(time.Duration(i) * time.Second)
				s.signals <- os.Interrupt
			}
		}, ExitInterrupted, "asked to end by", 4 * time.Second, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 2, 1)
				var at time.Time
				s.during(5*time.Second, func() {
					at = time.Now()
					tc.send(s)
				})
				res := s.start()
				if res.ExitCode != int(tc.code) || res.Cause == nil || !strings.Contains(res.Cause.What, tc.cause) {
					t.Errorf("exit code %d, cause %+v\nwant %d, %q", res.ExitCode, res.Cause, tc.code, tc.cause)
				}
				if want := tc.code == ExitInterrupted || tc.code == ExitTerminated; want != (res.Outcome == result.Cancelled) {
					t.Errorf("outcome %s", res.Outcome)
				}
				if took := res.Finished.Sub(at); took > tc.most {
					t.Errorf("ended %s after the signal, want %s at most", took, tc.most)
				}
				if (len(res.Leftovers) > 0) != tc.left {
					t.Errorf("leftovers: %+v", res.Leftovers)
				}
				if left := s.stillRunning(); len(left) > 0 && !tc.left {
					t.Errorf("left running: %v", left)
				}
				if diff := cmp.Diff([]string{"c8 missing", "c16 missing"}, statuses(res)); diff != "" {
					t.Errorf("points (-want +got):\n%s", diff)
				}
				for _, id := range s.stillRunning() {
					s.c.kill(strings.Fields(id)[1])
				}
			})
		})
	}
}

// stubborn makes a running process ignore TERM.
func (s *scenario) stubborn(id string) {
	if p := s.c.find(id); p != nil {
		p.mu.Lock()
		p.stubborn = true
		p.mu.Unlock()
	}
}

func TestLeftoversEndAGoodRunBadly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.c.nodes["gpu-02"].look = func() (deploy.Leftovers, error) {
			if s.c.nodes["gpu-02"].looks < 2 {
				return deploy.Leftovers{}, nil
			}
			return deploy.Leftovers{Containers: []string{"3f2a disagg-decode-0.0 running"}}, nil
		}
		res := s.start()
		s.verdict(res, ExitLeftovers, "not everything is known to be gone: gpu-02: 3f2a disagg-decode-0.0 running")
		if diff := cmp.Diff([]string{"disagg cleanup " + s.dir.Path()}, res.Next); diff != "" {
			t.Errorf("next (-want +got):\n%s", diff)
		}
		if s.find(events.Leftover, "") == nil {
			t.Error("no event of it")
		}
	})
}

func TestLeftoversThatGoAwayAreNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.c.nodes["gpu-02"].look = func() (deploy.Leftovers, error) {
			if n := s.c.nodes["gpu-02"].looks; n >= 2 && n < 10 {
				return deploy.Leftovers{Ports: []string{"8000 held by 1 x"}}, nil
			}
			return deploy.Leftovers{}, nil
		}
		if res := s.start(); res.Outcome != result.OK {
			t.Errorf("cause: %+v", res.Cause)
		}
	})
}

func TestNodesThatDoNotSeeTheRunDirectory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		private := t.TempDir()
		s.plan.SSH.Dir = private
		for _, n := range s.c.nodes {
			n.blind, n.private = true, private
		}
		res := s.start()
		if res.Outcome != result.OK {
			t.Fatalf("cause: %+v", res.Cause)
		}
		data, err := os.ReadFile(s.dir.Join("results/c16/out.json"))
		if err != nil || string(data) != goodResult {
			t.Errorf("result: %q, %v", data, err)
		}
		log, err := os.ReadFile(s.dir.Join("logs/decode-0.0.gpu-02.log"))
		if err != nil || !strings.Contains(string(log), "loading weights") {
			t.Errorf("log: %q, %v", log, err)
		}
		if left, err := os.ReadDir(filepath.Join(private, "runs")); err != nil || len(left) != 0 {
			t.Errorf("left on the nodes: %v, %v", left, err)
		}
	})
}

func TestDirectoriesOfOthersAreNotRemoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		private := t.TempDir()
		s.plan.SSH.Dir = private
		for _, n := range s.c.nodes {
			n.blind, n.private = true, private
		}
		s.during(time.Second, func() {
			if err := os.WriteFile(filepath.Join(private, "runs", s.dir.ID(), rundir.MarkerFile), []byte("another's"), 0o600); err != nil {
				t.Error(err)
			}
		})
		res := s.start()
		s.verdict(res, ExitLeftovers, "does not carry this run's marker")
		if _, err := os.Stat(filepath.Join(private, "runs", s.dir.ID(), "logs")); err != nil {
			t.Errorf("it was removed: %v", err)
		}
	})
}

func TestLinesNobodyReadsAreWarnedOf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		run := s.c.programs["decode-0.0"]
		s.c.programs["decode-0.0"] = func(ctx context.Context, p *fakeProc) deploy.Exit {
			go func() {
				p.log("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. (a line from the start)")
				if !pause(ctx, 20*time.Second) {
					return
				}
				for i := range 37 {
					p.log(fmt.Sprintf("Error fetching prefill parallel info from bootstrap: HTTPConnectionPool(host='10.0.0.1', port=8998): Max retries exceeded with url: /route?engine_rank=%d (Caused by ConnectTimeoutError)", i))
					p.log("Decode transfer failed for request rank=1 with exception KVTransferError(bootstrap_room=16): Request 16 timed out after 600s in KVPoll.WaitingForInput")
				}
			}()
			return run(ctx, p)
		}
		res := s.start()
		if res.Outcome != result.OK {
			t.Fatalf("cause: %+v", res.Cause)
		}
		want := []string{`decode-0.0 on gpu-02 logs while it serves: Decode and prefill did not find each other: the bootstrap server of the prefill worker was not reached, or the other side never took the request. (they name prefill-0.0 on gpu-01, on 37 of 37 lines; the first: "Error fetching prefill parallel info from bootstrap: HTTPConnectionPool(host='10.0.0.1', port=8998): Max retries exceeded with url: /route?engine_rank=0 (Caused by ConnectTimeoutError)")`,
			`decode-0.0 on gpu-02 logs while it serves: A KV cache transfer between prefill and decode did not complete. (37 lines; the first: "Decode transfer failed for request rank=1 with exception KVTransferError(bootstrap_room=16): Request 16 timed out after 600s in KVPoll.WaitingForInput")`}
		if diff := cmp.Diff(want, res.Warnings); diff != "" {
			t.Errorf("warnings (-want +got):\n%s", diff)
		}
	})
}

func TestLogsThatCannotBeCollected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.c.programs["client.c16"] = s.loaded(func(ctx context.Context, p *fakeProc) deploy.Exit {
			exit := client(20*time.Second, goodResult)(ctx, p)
			_ = os.Remove(s.dir.Join("logs/decode-0.0.gpu-02.log"))
			return exit
		})
		s.verdict(s.start(), ExitCollect, "logs are missing: logs/decode-0.0.gpu-02.log")
	})
}

type fakeScheduler func() (JobView, error)

func (f fakeScheduler) Job(context.Context) (JobView, error) { return f() }

func (f fakeScheduler) BadNodes(context.Context) string { return "gpu-02: down: psu broken" }

func TestSchedulersView(t *testing.T) {
	t.Parallel()
	t.Run("it says that the job has ended", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newScenario(t, 1, 1)
			at := time.Now().Add(10 * time.Second)
			s.opt.Scheduler = fakeScheduler(func() (JobView, error) {
				if time.Now().After(at) {
					return JobView{State: JobEnded, Word: "CANCELLED by 1001"}, nil
				}
				return JobView{State: JobRunning, Word: "RUNNING"}, nil
			})
			s.verdict(s.start(), ExitScheduler, "the scheduler says that job 42 has ended: CANCELLED by 1001")
		})
	})
	t.Run("it does not answer", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newScenario(t, 1, 1)
			for _, pt := range s.plan.Client.Points {
				s.c.programs[pt.ID] = s.loaded(client(100*time.Second, goodResult))
			}
			s.opt.Scheduler = fakeScheduler(func() (JobView, error) { return JobView{}, errors.New("socket timed out") })
			res := s.start()
			if res.Outcome != result.OK {
				t.Errorf("cause: %+v", res.Cause)
			}
			if diff := cmp.Diff([]string{"the scheduler does not answer for job 42 (socket timed out); the run goes on"}, res.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	})
}

func TestTimeLimitEndsTheRunInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.slow()
		s.opt.Deadline = time.Now().Add(10 * time.Minute)
		res := s.start()
		s.verdict(res, ExitTerminated, "asked to end by the time limit: the allocation ends at 2000-01-01T00:10:00Z")
		if res.Finished.After(s.opt.Deadline) || res.Finished.Before(s.opt.Deadline.Add(-time.Minute)) {
			t.Errorf("ended at %s", res.Finished)
		}
	})
}

func TestCallersContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.seal()
		ctx, cancel := context.WithCancelCause(t.Context())
		s.during(time.Second, func() { cancel(errors.New("the terminal is gone")) })
		res, err := Run(ctx, s.opt)
		if err != nil {
			t.Fatal(err)
		}
		s.verdict(res, ExitInterrupted, "asked to end by the caller: the terminal is gone")
	})
}

func TestDetachedNodeIsAWarning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.during(time.Second, func() {
			s.c.send(deploy.Event{Node: "gpu-02", Kind: deploy.EventDetached, Detail: "no beat for 10s"})
			time.Sleep(2 * time.Second)
			s.c.send(deploy.Event{Node: "gpu-02", Kind: deploy.EventAttached})
		})
		res := s.start()
		if res.Outcome != result.OK {
			t.Errorf("cause: %+v", res.Cause)
		}
		if diff := cmp.Diff([]string{"node gpu-02 is not heard of (no beat for 10s); its processes run on until its lease ends"}, res.Warnings); diff != "" {
			t.Errorf("warnings (-want +got):\n%s", diff)
		}
	})
}

func TestEvalOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.plan.Eval = &models.Eval{Only: true, ClientPoint: evalPoint()}
		s.c.programs["eval"] = s.loaded(client(20*time.Second, `{"results":{"gsm8k":0.95}}`))
		res := s.start()
		if diff := cmp.Diff([]string{"eval ok"}, statuses(res)); diff != "" || res.Outcome != result.OK {
			t.Errorf("cause %+v, points (-want +got):\n%s", res.Cause, diff)
		}
	})
}

func TestEvalThatFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.plan.Eval = &models.Eval{ClientPoint: evalPoint()}
		s.c.programs["eval"] = func(ctx context.Context, p *fakeProc) deploy.Exit { return deploy.Exit{Code: 3} }
		res := s.start()
		s.verdict(res, ExitWorkload, "eval on gpu-01 exited with code 3")
		if diff := cmp.Diff([]string{"c8 ok", "c16 ok", "eval failed"}, statuses(res)); diff != "" {
			t.Errorf("points (-want +got):\n%s", diff)
		}
	})
}

func evalPoint() models.ClientPoint {
	return models.ClientPoint{Concurrency: 32, Process: models.Process{ID: "eval", Scope: "eval", Image: "engine:1", Argv: []string{"lm_eval", "@{result.dir}"}}}
}

func TestCountersProveWorkersOfOtherRouters(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) *scenario {
		s := newScenario(t, 2, 2)
		s.plan.Router.Kind = "vllm"
		return s
	}
	t.Run("all take part", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := setup(t)
			if res := s.start(); res.Outcome != result.OK {
				t.Fatalf("cause: %+v", res.Cause)
			}
			if e := s.find(events.Canary, ""); e == nil || e.Msg != "the counters of all 4 workers moved after 8 completions" {
				t.Errorf("event: %+v", e)
			}
		})
	})
	t.Run("one is never used", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := setup(t)
			s.router.pairs = s.router.pairs[:2] // only the first prefill worker
			s.verdict(s.start(), ExitLaunch, "after 64 completions through the router these workers are not proven to take part: the counters of prefill-1 did not move")
		})
	})
	t.Run("the router counts for workers that do not", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := setup(t)
			for _, e := range s.engines {
				e.metrics = false
			}
			s.plan.Router.Ports = append(s.plan.Router.Ports, models.Port{Name: "metrics", Number: 29100})
			if res := s.start(); res.Outcome != result.OK {
				t.Fatalf("cause: %+v", res.Cause)
			}
		})
	})
	t.Run("one cannot be counted", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := setup(t)
			s.engines["decode-1"].metrics = false
			s.verdict(s.start(), ExitLaunch, "these workers are not proven to take part: the counters of decode-1 cannot be read: GET http://10.0.0.4:8000/metrics: HTTP 404")
		})
	})
}

type fakePreflight struct {
	host, image PreflightReport
	during      RunReport
	err         error
	asked       []string
	again       []string      // who was asked for During
	bundle      func() string // the directory to make for what was gathered; nil: none
}

func (f *fakePreflight) Host(_ context.Context, nodes []PreflightNode) (PreflightReport, error) {
	for _, n := range nodes {
		f.asked = append(f.asked, fmt.Sprintf("%s %v", n.Name, n.Plan))
	}
	if f.bundle != nil {
		if err := os.Mkdir(f.bundle(), 0o700); err != nil {
			return PreflightReport{}, err
		}
	}
	return f.host, f.err
}

func (f *fakePreflight) InImage(context.Context, []PreflightNode) (PreflightReport, error) {
	return f.image, nil
}

func (f *fakePreflight) During(_ context.Context, nodes []PreflightNode, file string) (RunReport, error) {
	for _, n := range nodes {
		f.again = append(f.again, file+" "+n.Name)
	}
	return f.during, nil
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	unfit := PreflightReport{Unfit: map[string]string{"gpu-02": "gpu.vram-free: GPU 3 has 12 GB in use"}}
	for _, tc := range []struct {
		name  string
		set   func(*scenario, *fakePreflight)
		code  ExitCode
		cause string
	}{
		{"all fit", func(*scenario, *fakePreflight) {}, ExitOK, ""},
		{"one unfit, no spare", func(s *scenario, f *fakePreflight) {
			f.host, f.bundle = unfit, func() string { return s.dir.Join(rundir.PreflightDir) }
		}, ExitPreflight, "preflight found 1 node unfit and there is no spare: gpu-02: gpu.vram-free: GPU 3 has 12 GB in use"},
		{"one unfit, only warned of", func(s *scenario, f *fakePreflight) { f.host = unfit; s.plan.Preflight.Mode = "warn" }, ExitOK, ""},
		{"no way between nodes, only warned of", func(s *scenario, _ *fakePreflight) {
			s.plan.Preflight.Mode, s.c.nodes["gpu-02"].wall = "warn", "gpu-01"
		}, ExitOK, ""},
		{"unfit inside the image", func(_ *scenario, f *fakePreflight) { f.image = unfit }, ExitPreflight, "preflight found 1 node unfit: gpu-02"},
		{"cannot be made", func(_ *scenario, f *fakePreflight) { f.err = errors.New("facts: protocol error") }, ExitPreflight, "the checks of the hosts could not be made: facts: protocol error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScenario(t, 1, 1)
				f := &fakePreflight{}
				s.opt.Preflight = f
				tc.set(s, f)
				res := s.start()
				if tc.code == ExitOK {
					if res.Outcome != result.OK {
						t.Errorf("cause: %+v", res.Cause)
					}
				} else {
					s.verdict(res, tc.code, tc.cause)
				}
				var next []string
				if f.bundle != nil {
					next = []string{"disagg preflight --from " + f.bundle()}
				}
				if diff := cmp.Diff(next, res.Next); diff != "" {
					t.Errorf("next (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{"gpu-01 [0]", "gpu-02 [1]"}, f.asked); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
			})
		})
	}
	t.Run("a spare takes over", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newScenario(t, 1, 1)
			c := newCluster("gpu-01", "gpu-02", "gpu-03")
			s.replaceCluster(c)
			s.opt.Nodes = c.order
			c.nodes["gpu-03"].info.Addr, c.nodes["gpu-02"].info.Addr = "10.0.0.2", "10.0.0.9"
			s.opt.Preflight = &fakePreflight{host: unfit}
			res := s.start()
			if res.Outcome != result.OK {
				t.Fatalf("cause: %+v", res.Cause)
			}
			want := []result.Node{
				{Name: "gpu-01", Host: "gpu-01", Addr: "10.0.0.1", Plan: []int{0}},
				{Name: "gpu-02", Host: "gpu-02", Addr: "10.0.0.9", Note: "unfit: gpu.vram-free: GPU 3 has 12 GB in use"},
				{Name: "gpu-03", Host: "gpu-03", Addr: "10.0.0.2", Plan: []int{1}},
			}
			if diff := cmp.Diff(want, res.Nodes); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("off is not a pass", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newScenario(t, 1, 1)
			s.plan.Preflight.Mode = "off"
			s.opt.Preflight = &fakePreflight{}
			res := s.start()
			want := []string{"the checks of the hosts: preflight is off in the recipe", "that the nodes reach one another: preflight is off in the recipe",
				"the checks inside the images: preflight is off in the recipe"}
			if diff := cmp.Diff(want, res.Unproven); diff != "" || res.Outcome != result.OK {
				t.Errorf("cause %+v, unproven (-want +got):\n%s", res.Cause, diff)
			}
		})
	})
}

func TestServicesComeFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 1, 1)
		s.plan.Services = []models.Process{{ID: "mooncake", Scope: "service", Argv: []string{"mooncake_master"}}}
		s.c.programs["mooncake"] = func(ctx context.Context, p *fakeProc) deploy.Exit { <-ctx.Done(); return deploy.Exit{Code: 143} }
		// The order in which stops are asked for: ends are told in any order.
		var mu sync.Mutex
		var order []string
		for _, n := range s.c.nodes {
			n.onStop = func(_ context.Context, id string) error {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, id)
				return nil
			}
		}
		res := s.start()
		if res.Outcome != result.OK {
			t.Fatalf("cause: %+v", res.Cause)
		}
		first, worker := s.find(events.ProcessReady, "mooncake"), s.find(events.ProcessCreated, "prefill-0.0")
		if first == nil || worker == nil || first.Seq > worker.Seq {
			t.Errorf("service ready: %+v, worker created: %+v", first, worker)
		}
		order = slices.DeleteFunc(order, func(id string) bool { return strings.HasPrefix(id, "client") })
		if len(order) != 4 || order[0] != "router" || order[3] != "mooncake" {
			t.Errorf("stopped in order %v", order)
		}
	})
}
