package orchestrator

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/disagg/disagg/deploy/agent"
	"github.com/disagg/disagg/deploy/shim"
	"github.com/disagg/disagg/internal/standin"
	"github.com/disagg/disagg/orchestrator/result"
)

// TestMain lets the test binary be every part of disagg on a node, and the
// programs that are run there.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		goleak.VerifyTestMain(m)
		return
	}
	switch os.Args[1] {
	case "agent":
		err := agent.Run(context.Background(), agent.Options{Stdio: true, Stdin: os.Stdin, Stdout: os.Stdout, Version: "test"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "shim":
		code, err := shim.Run(context.Background(), shim.Options{Dir: os.Args[3], Version: "test"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	case "shim-exec":
		fmt.Fprintln(os.Stderr, shim.Exec(context.Background(), os.Args[3]))
		os.Exit(127)
	case "standin":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		os.Exit(standin.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
	default:
		goleak.VerifyTestMain(m)
	}
}

func TestRunToTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScenario(t, 2, 1)
		res := s.start()
		if res.Outcome != result.OK || res.ExitCode != 0 || res.Cause != nil {
			t.Fatalf("outcome %s, exit code %d, cause %+v", res.Outcome, res.ExitCode, res.Cause)
		}
		var stages []string
		for _, st := range res.Stages {
			stages = append(stages, st.Name+" "+string(st.Status))
		}
		want := []string{
			"agents ok", "placement ok", "preflight skipped", "ports ok", "peers ok", "image ok", "model skipped", "preflight-image skipped", "services skipped",
			"launch ok", "workers ok", "router ok", "canary ok", "client ok", "eval skipped", "after ok", "stop ok", "collect ok", "look ok", "close ok",
		}
		if diff := cmp.Diff(want, stages); diff != "" {
			t.Errorf("stages (-want +got):\n%s", diff)
		}
		zero := 0
		wantPoints := []result.Point{
			{Name: "c8", Concurrency: 8, Status: result.PointOK, ExitCode: &zero, Seconds: 20, Files: []result.File{{Path: "results/c8/out.json", Bytes: int64(len(goodResult))}}},
			{Name: "c16", Concurrency: 16, Status: result.PointOK, ExitCode: &zero, Seconds: 20, Files: []result.File{{Path: "results/c16/out.json", Bytes: int64(len(goodResult))}}},
		}
		if diff := cmp.Diff(wantPoints, res.Points); diff != "" {
			t.Errorf("points (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"engine:1": "sha256:engine:1", "router:1": "sha256:router:1"}, res.Images); diff != "" {
			t.Errorf("images (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"gpu-01", "gpu-02", "gpu-03"}, res.Looked); diff != "" || len(res.Leftovers) != 0 || len(s.stillRunning()) != 0 {
			t.Errorf("leftovers %v, running %v, looked (-want +got):\n%s", res.Leftovers, s.stillRunning(), diff)
		}
		if !s.c.closed.Load() {
			t.Error("the launcher was not closed")
		}
		onDisk, err := result.Read(s.dir.Join("result.json"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&res, onDisk); diff != "" {
			t.Errorf("result.json differs (-returned +read):\n%s", diff)
		}
		if took := res.Finished.Sub(res.Started); took < 43*time.Second || took > 60*time.Second {
			t.Errorf("the run took %s", took)
		}
		s.noSecrets()
	})
}
