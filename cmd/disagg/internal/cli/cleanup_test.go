package cli

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/plan"
	"github.com/disagg/disagg/orchestrator/rundir"
)

// TestWhereCleanupLooks: at the nodes that a run was given, also where none of them
// could take part, and then not by what may have kept them away.
func TestWhereCleanupLooks(t *testing.T) {
	t.Parallel()
	given := events.Event{Kind: events.RunStarted, Detail: map[string]any{"nodes": []string{"node1", "node2"}}}
	joined := func(node string) events.Event { return events.Event{Kind: events.NodeJoined, Node: node} }
	for _, tt := range []struct {
		name  string
		log   []events.Event
		nodes []string // nil: refused
		iface string
	}{
		{"all took part", []events.Event{given, joined("node2"), joined("node1")}, []string{"node1", "node2"}, "eth7"},
		{"one took part", []events.Event{given, joined("node2")}, []string{"node1", "node2"}, ""},
		{"none took part", []events.Event{given}, []string{"node1", "node2"}, ""},
		{"a log without the nodes that were given", []events.Event{{Kind: events.RunStarted}, joined("node1")}, []string{"node1"}, "eth7"},
		{"no log", nil, nil, "eth7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, err := rundir.Create(t.TempDir(), "x", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			data, err := plan.Encode(&models.Plan{APIVersion: models.APIVersion, Launcher: models.LauncherSlurm, Network: models.NetworkSite{Interface: "eth7"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(dir.WritePlan(data), dir.Seal()); err != nil {
				t.Fatal(err)
			}
			var log []byte
			for _, e := range tt.log {
				line, err := json.Marshal(e)
				if err != nil {
					t.Fatal(err)
				}
				log = append(append(log, line...), '\n')
			}
			if err := os.WriteFile(dir.Join(rundir.EventsFile), log, 0o600); err != nil {
				t.Fatal(err)
			}
			a := &app{Streams: Streams{Now: time.Now}}
			got, err := a.toClean(t.Context(), &cleanupFlags{}, []string{dir.Path()})
			if tt.nodes == nil {
				if want := "the log of run " + dir.ID() + " names no node; name the nodes to look at with --nodes"; err == nil || err.Error() != want || codeOf(err) != orchestrator.ExitConfig {
					t.Errorf("error %v, want %s", err, want)
				}
				return
			}
			if diff := cmp.Diff(tt.nodes, got.nodes); err != nil || diff != "" || got.setup.Interface != tt.iface {
				t.Errorf("error %v, interface %q, (-want +got):\n%s", err, got.setup.Interface, diff)
			}
		})
	}
}
