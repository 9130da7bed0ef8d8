package slurm_test

import (
	"testing"
	"time"

	"github.com/disagg/disagg/slurm/slurmtest"
)

func TestKillWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, out string
		want      time.Duration
	}{
		{"as printed", "JobRequeue              = 1\nKillOnBadExit           = 0\nKillWait                = 30 sec\nLaunchParameters        = (null)\n", 30 * time.Second},
		{"another key that ends so", "XKillWait = 7 sec\nKillWait = 5 sec\n", 5 * time.Second},
		{"none", "JobRequeue = 1\n", 0},
		{"another unit", "KillWait = 5 min\n", 0},
		{"no number", "KillWait = soon\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cl, _ := onFake(t, slurmtest.Call{Program: "scontrol", Args: []string{"show", "config"}, Stdout: c.out})
			got, err := cl.KillWait(t.Context())
			if got != c.want || (err == nil) != (c.want > 0) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}
