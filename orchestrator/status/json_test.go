package status

import (
	"encoding/json"
	"testing"
	"time"
)

func TestTimesAreSecondsInJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(Summary{
		Run: "r", State: Running, Stage: "workers", InStage: 1500 * time.Millisecond, Elapsed: time.Minute,
		Processes: []Process{{ID: "router", Node: "n", State: "ready", Since: 250 * time.Millisecond}},
	})
	want := `{"run":"r","state":"running","stage":"workers","processes":[{"id":"router","node":"n","state":"ready","since_seconds":0.25}],"in_stage_seconds":1.5,"elapsed_seconds":60}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}
