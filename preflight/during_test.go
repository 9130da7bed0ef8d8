package preflight_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/checks"
	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/nodetest"
)

// gatheredAgain are facts of the healthy node while a run is on.
func gatheredAgain(t *testing.T) preflight.Facts {
	t.Helper()
	again.Do(func() {
		s := specOf(t, nodetest.Healthy(), "n1").During()
		again.facts, again.err = gatherThrough(s)
	})
	if again.err != nil {
		t.Fatal(again.err)
	}
	return again.facts
}

var again struct {
	sync.Once
	facts preflight.Facts
	err   error
}

// all rails count the same.
func everyRail(name string, value int) map[int]map[string]int {
	out := map[int]map[string]int{}
	for i := range 8 {
		out[i] = map[string]int{name: value}
	}
	return out
}

// noRDMATool leaves the counters of the kernel's own files.
func noRDMATool(f *preflight.Facts) {
	f.Commands[facts.RDMAStat] = facts.Command{Argv: []string{"rdma"}, Missing: true}
}

func TestDuring(t *testing.T) {
	t.Parallel()
	const pauses = "ethtool -S benic3p1"
	for _, tc := range []struct {
		name   string
		before func(*nodetest.Node)
		after  func(*nodetest.Node)
		facts  func(*preflight.Facts) // of after
		// earlier are those of before.
		earlier func(*preflight.Facts)
		// unchecked: the run had no preflight.
		unchecked bool
		want      []string
	}{
		{name: "nothing"},
		{name: "traffic", after: func(n *nodetest.Node) { n.Counts(everyRail("rx_rdma_cnp_pkts", 123456)) }},
		{name: "it had counted before", before: func(n *nodetest.Node) { n.Counts(map[int]map[string]int{2: {"tx_rdma_ack_timeout": 5}}) },
			after: func(n *nodetest.Node) { n.Counts(map[int]map[string]int{2: {"tx_rdma_ack_timeout": 5}}) }},
		{name: "one rail has no answers", before: func(n *nodetest.Node) { n.Counts(map[int]map[string]int{2: {"tx_rdma_ack_timeout": 5}}) },
			after: func(n *nodetest.Node) { n.Counts(map[int]map[string]int{2: {"tx_rdma_ack_timeout": 17}}) },
			want:  []string{"n1 warn : tx_rdma_ack_timeout grew during the run: ionic_2 +12 (as on the other 7 rails)"}},
		{name: "two rails give up", after: func(n *nodetest.Node) {
			n.Counts(map[int]map[string]int{2: {"req_tx_retry_excd_err": 1}, 6: {"req_tx_retry_excd_err": 3}})
		}, want: []string{"n1 warn : req_tx_retry_excd_err grew during the run: ionic_2 +1, ionic_6 +3 (as on the other 6 rails)"}},
		{name: "all rails give up", after: func(n *nodetest.Node) {
			c := everyRail("req_tx_retry_excd_err", 4)
			c[5]["req_tx_retry_excd_err"] = 9
			n.Counts(c)
		}, want: []string{" warn : req_tx_retry_excd_err grew on 8 of 8 rails during the run, the most on ionic_5 of n1: +9 (no growth)"}},
		{name: "retransmission as everywhere", after: func(n *nodetest.Node) { n.Counts(everyRail("tx_rdma_retx_pkts", 50000)) }},
		{name: "little retransmission", after: func(n *nodetest.Node) { n.Counts(map[int]map[string]int{7: {"tx_rdma_retx_pkts": 999}}) }},
		{name: "retransmission on one rail", after: func(n *nodetest.Node) {
			c := everyRail("tx_rdma_retx_pkts", 200)
			c[7]["tx_rdma_retx_pkts"] = 48122
			n.Counts(c)
		}, want: []string{"n1 warn : tx_rdma_retx_pkts grew during the run: ionic_7 +48122 (as on the other 7 rails)"}},
		{name: "a card is reset", before: func(n *nodetest.Node) { n.Counts(everyRail("tx_rdma_cnp_pkts", 100)) }, after: func(n *nodetest.Node) {
			c := everyRail("tx_rdma_cnp_pkts", 200)
			c[1]["tx_rdma_cnp_pkts"] = 3
			n.Counts(c)
		}, want: []string{"n1 warn ionic_1: tx_rdma_cnp_pkts went back from 100 to 3: card or driver were reset during the run (counters that only grow)"}},
		{name: "a gauge falls", before: func(n *nodetest.Node) { n.Files[nodetest.Rail(1)+"/ports/1/hw_counters/active_qps"] = "12\n" },
			after: func(n *nodetest.Node) { n.Files[nodetest.Rail(1)+"/ports/1/hw_counters/active_qps"] = "1\n" },
			facts: noRDMATool, earlier: noRDMATool},
		{name: "a reset hides no failure", before: func(n *nodetest.Node) { n.Counts(everyRail("tx_rdma_cnp_pkts", 100)) }, after: func(n *nodetest.Node) {
			c := everyRail("tx_rdma_cnp_pkts", 200)
			c[1] = map[string]int{"tx_rdma_cnp_pkts": 3, "tx_rdma_ack_timeout": 50}
			n.Counts(c)
		}, want: []string{"n1 warn ionic_1: tx_rdma_cnp_pkts went back from 100 to 3: card or driver were reset during the run (counters that only grow)",
			"n1 warn : tx_rdma_ack_timeout grew during the run: ionic_1 +50 (as on the other 7 rails)"}},
		{name: "the rdma tool hangs at the end", facts: func(f *preflight.Facts) {
			f.Commands[facts.RDMAStat] = facts.Command{Argv: []string{"rdma"}, Exit: -1, TimedOut: true}
			maps.DeleteFunc(f.Files, func(p string, _ facts.File) bool { return strings.Contains(p, "/hw_counters/") })
		}, want: []string{"n1 unknown ionic_0, ionic_1 and 6 more: what was counted during the run is not known for req_tx_retry_excd_err, tx_rdma_ack_timeout, tx_rdma_retx_pkts ()"}},
		{name: "one rail is counted at the end", after: func(n *nodetest.Node) {
			n.Tools["rdma -j statistic show"] = nodetest.Answer{Stdout: `[{"ifname":"ionic_0","port":1,"req_tx_retry_excd_err":0,"tx_rdma_ack_timeout":0,"tx_rdma_retx_pkts":0}]`}
		}, want: []string{"n1 unknown ionic_1, ionic_2 and 5 more: what was counted during the run is not known for req_tx_retry_excd_err, tx_rdma_ack_timeout, tx_rdma_retx_pkts ()"}},
		{name: "a counter is new and has counted", after: func(n *nodetest.Node) {
			n.Tools["rdma -j statistic show"] = nodetest.Answer{Stdout: strings.ReplaceAll(n.Tools["rdma -j statistic show"].Stdout, `"ionic_2","port":1`, `"ionic_2","port":1,"local_ack_timeout_err":50000`)}
		}, want: []string{"n1 unknown ionic_2: what was counted during the run is not known for local_ack_timeout_err ()"}},
		{name: "ethtool hangs for one rail", facts: func(f *preflight.Facts) {
			f.Commands[facts.Of(facts.EthtoolStat, "benic3p1")] = facts.Command{Argv: []string{"ethtool"}, Exit: -1, TimedOut: true}
		}, want: []string{"n1 unknown ionic_2: what was counted during the run is not known for frames_rx_bad_fcs, rx_pripause_0_1us_count, rx_pripause_3_1us_count ()"}},
		{name: "a rail is gone", earlier: noRDMATool, facts: func(f *preflight.Facts) {
			maps.DeleteFunc(f.Files, func(p string, _ facts.File) bool { return strings.HasPrefix(p, "/sys/class/infiniband/ionic_4/") })
			d := f.Dirs["/sys/class/infiniband"]
			d.Entries = []string{"ionic_0", "ionic_1", "ionic_2", "ionic_3", "ionic_5", "ionic_6", "ionic_7"}
			f.Dirs["/sys/class/infiniband"] = d
			f.Commands[facts.RDMAStat] = facts.Command{Argv: []string{"rdma"}, Missing: true}
		}, want: []string{"n1 warn ionic_4: it was there before the run and is gone (the same NICs all the time)"}},
		{name: "a link went down", after: func(n *nodetest.Node) { n.Files["/sys/class/net/benic3p1/carrier_changes"] = "4\n" },
			want: []string{"n1 warn ionic_2: the link went down or came up 2 times during the run (a link that stays up)"}},
		{name: "pauses where they belong", after: func(n *nodetest.Node) {
			n.Tools[pauses] = nodetest.Answer{Stdout: "NIC statistics:\n     frames_rx_bad_fcs: 0\n     rx_pripause_0_1us_count: 0\n     rx_pripause_3_1us_count: 99999\n"}
		}},
		{name: "pauses elsewhere", after: func(n *nodetest.Node) {
			n.Tools[pauses] = nodetest.Answer{Stdout: "NIC statistics:\n     frames_rx_bad_fcs: 0\n     rx_pripause_0_1us_count: 77\n     rx_pripause_3_1us_count: 12\n"}
		}, want: []string{"n1 warn ionic_2: rx_pripause_0_1us_count +77: the switch paused priority 0 during the run, which is not lossless here (pauses on the lossless priority only)"}},
		{name: "broken frames", after: func(n *nodetest.Node) {
			n.Tools[pauses] = nodetest.Answer{Stdout: "NIC statistics:\n     frames_rx_bad_fcs: 2\n     rx_pripause_0_1us_count: 0\n     rx_pripause_3_1us_count: 12\n"}
		}, want: []string{"n1 warn : frames_rx_bad_fcs grew during the run: ionic_2 +2 (as on the other 7 rails)"}},
		{name: "without the rdma tool", earlier: noRDMATool, facts: func(f *preflight.Facts) {
			noRDMATool(f)
			f.Files["/sys/class/infiniband/ionic_3/ports/1/hw_counters/req_tx_retry_excd_err"] = facts.File{Data: "2\n"}
		}, want: []string{"n1 warn : req_tx_retry_excd_err grew during the run: ionic_3 +2 (as on the other 7 rails)"}},
		{name: "no ports for connections", facts: func(f *preflight.Facts) {
			f.Files[checks.Sockstat] = facts.File{Data: "sockets: used 300\nTCP: inuse 20 orphan 0 tw 28000 alloc 31 mem 4\nUDP: inuse 2 mem 0\n"}
			f.Files[checks.PortRange] = facts.File{Data: "32768\t60999\n"}
		}, want: []string{"n1 warn : 28000 sockets are in TIME_WAIT, and there are 28232 ports for outgoing connections (below 80 %)"}},
		{name: "many sockets", facts: func(f *preflight.Facts) {
			f.Files[checks.Sockstat] = facts.File{Data: "TCP: inuse 20 orphan 0 tw 20000 alloc 31 mem 4\n"}
			f.Files[checks.PortRange] = facts.File{Data: "32768\t60999\n"}
		}},
		{name: "a process hangs in the kernel", facts: func(f *preflight.Facts) {
			f.Files["/proc/4711/stat"] = facts.File{Data: "4711 (python3) D 1 4711 4711 0 -1 4194560\n"}
		}, want: []string{"n1 warn pid 4711: python3 is in uninterruptible sleep (no process stuck in the kernel)"}},
		{name: "no answer", facts: func(f *preflight.Facts) { *f = preflight.Unreached("n1", "no answer within 6s") },
			want: []string{"n1 unknown : it could not be looked at again: no answer within 6s ()"}},
		{name: "nothing is readable", facts: func(f *preflight.Facts) { *f = preflight.Facts{Node: "n1", Context: preflight.ContextRun} },
			want: []string{"n1 unknown ionic_0, ionic_1 and 6 more: what was counted during the run is not known for carrier_changes, frames_rx_bad_fcs and 5 more ()"}},
		{name: "another node", facts: func(f *preflight.Facts) { f.Node = "n2" },
			want: []string{"n2 unknown : there is nothing from before the run to compare with ()"}},
		{name: "no preflight", unchecked: true, after: func(n *nodetest.Node) { n.Counts(everyRail("tx_rdma_ack_timeout", 9)) }},
		{name: "no preflight, and a process hangs", unchecked: true, facts: func(f *preflight.Facts) {
			f.Files["/proc/4711/stat"] = facts.File{Data: "4711 (python3) D 1 4711 4711 0 -1 4194560\n"}
		}, want: []string{"n1 warn pid 4711: python3 is in uninterruptible sleep (no process stuck in the kernel)"}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			before, s := gatheredOnce(t)
			after := gatheredAgain(t)
			apply := func(f preflight.Facts, change func(*nodetest.Node)) preflight.Facts {
				n := nodetest.Healthy()
				if change != nil {
					change(n)
				}
				return changed(f, n)
			}
			before, after = apply(before, tc.before), apply(after, tc.after)
			before.Node = "n1"
			if tc.earlier != nil {
				tc.earlier(&before)
			}
			if tc.facts != nil {
				tc.facts(&after)
			}
			known := []preflight.Facts{before}
			if tc.unchecked {
				known = nil
			}
			var got []string
			for _, f := range preflight.During(known, []preflight.Facts{after}, s).Findings {
				got = append(got, fmt.Sprintf("%s %s %s: %s (%s)", f.Node, f.Verdict, f.Object, f.Observed, f.Expected))
				if f.Remedy == "" || !strings.HasPrefix(f.CheckID, "run.") {
					t.Errorf("%s without a remedy: %s", f.CheckID, f.Observed)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDuringIsQuick: while a run ends nobody waits for tools that have nothing to
// do with it, and not for ones that hang.
func TestDuringIsQuick(t *testing.T) {
	t.Parallel()
	n := nodetest.Healthy()
	for words, a := range n.Tools {
		a.Hang = a.Hang || !strings.HasPrefix(words, "ethtool")
		n.Tools[words] = a
	}
	s := specOf(t, n, "n1").During()
	started := time.Now()
	f := gathered(t, s)
	if d := time.Since(started); d > 15*time.Second {
		t.Errorf("it took %s", d)
	}
	if !f.Commands[facts.RDMAStat].TimedOut || f.Commands[facts.Of(facts.EthtoolStat, "benic1p1")].Stdout == "" {
		t.Errorf("commands: %+v", f.Commands)
	}
	for id := range f.Commands {
		if id != facts.RDMAStat && !strings.HasPrefix(id, facts.EthtoolStat) {
			t.Errorf("%s was run", id)
		}
	}
}
