package faults

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/result"
)

// forgiving is paced, but goes on when requests fail, as they do while a worker is
// down.
var forgiving = strings.Replace(paced, " || exit 1", "", 1)

// quickRouter makes the router notice within seconds that a worker is gone, and that
// it is back.
const quickRouter = "router: {flags: [--health-check-interval-secs 1, --health-failure-threshold 2, --cb-timeout-duration-secs 3], "

// restartDecode kills one of two decode workers that may be started again. The load
// goes on until the router uses the worker again.
func restartDecode() trial {
	return trial{
		realRouter: true, decodeRole: "{workers: 2, tp: 8, restarts: 1}",
		recipe: "timeouts: {grace: 5s}\n" + forgiving,
		faulty: "slow-load:seconds=5,role=decode",
		early: func(r *rig) {
			path := filepath.Join(r.Dir, "recipe.yaml")
			text, err := os.ReadFile(path)
			r.Must(err)
			r.Must(os.WriteFile(path, []byte(strings.Replace(string(text), "router: {", quickRouter, 1)), 0o644))
		},
		do: func(r *rig) {
			r.Signal(r.decode, r.enginePID, "KILL")
			r.Until("tokens through the worker again", 90*time.Second, func(e events.Event) bool { return e.Kind == events.Restarted })
			log := "logs/decode-0.0." + r.decode + ".log"
			for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(200 * time.Millisecond) {
				_, life, again := strings.Cut(r.File(log), "[disagg: decode-0.0 is started again at ")
				if again && strings.Count(life, "POST /v1/chat/completions") > 10 { // more than the canary's
					break
				}
				if time.Now().After(deadline) {
					r.T.Fatalf("the router does not use the worker again:\n%s", r.Evidence())
				}
			}
			r.letGo()
		},
		check: func(r *rig, s world.Said) {
			res := r.Result()
			if len(res.Restarts) != 1 {
				r.T.Fatalf("restarts: %+v", res.Restarts)
			}
			x := res.Restarts[0]
			if x.Worker != "decode-0" || x.Point != "c2" || x.Death.Process != "decode-0.0" || x.Death.Exit == nil || x.Death.Exit.Signal != "SIGKILL" || x.Seconds == nil || *x.Seconds < 5 {
				r.T.Errorf("restart %+v", x)
			}
			if len(res.Points) != 1 || res.Points[0].Status != result.PointDisturbed {
				r.T.Errorf("points %+v", res.Points)
			}
			for _, want := range []string{"restart of decode-0, because decode-0.0 on " + r.decode + " was killed by SIGKILL: tokens came out through it again after ", "point c2       disturbed"} {
				if !strings.Contains(s.Out, want) {
					r.T.Errorf("wait does not say %q:\n%s", want, s.Out)
				}
			}
		},
	}
}
