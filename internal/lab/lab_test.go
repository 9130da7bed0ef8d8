package lab

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var cluster = Lazy{Nodes: 4}

func TestSrunReachesEveryNode(t *testing.T) {
	l := cluster.Get(t)
	out := l.MustRun(t, "srun", "-N4", "--gres=gpu:8", "sh", "-c", `echo "$(hostname) $ROCR_VISIBLE_DEVICES $(docker info -f '{{.Driver}}')"`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	want := []string{}
	for _, n := range l.Nodes() {
		want = append(want, n+" 0,1,2,3,4,5,6,7 overlay2")
	}
	if !slices.Equal(lines, want) {
		t.Errorf("srun said %q, want %q", lines, want)
	}
	l.MustBeClean(t, 5*time.Second)
}
