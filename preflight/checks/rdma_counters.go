package checks

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// errorCounters are the counters that a healthy rail does not raise. Counters of
// retransmission and sequence rise on every busy fabric and tell only by
// comparison.
func errorCounter(name string) bool {
	switch name {
	case "req_tx_retry_excd_err", "req_rx_rnr_retry_err", "tx_rdma_ack_timeout", "max_retry_exceeded", "rdma_rx_mtu_discard", "rx_rdma_mtu_discard_pkts",
		"local_ack_timeout_err", "req_tx_loc_oper_err", "resp_tx_loc_sgl_inv_err", "roce_adp_retrans_to", "to_retransmits":
		return true
	}
	return false
}

// rdmaCounters: a rail whose error counters stand out from the others has a bad
// cable, card or switch port. Absolute values mean little: they count since boot.
func rdmaCounters() Check { return rdma("rdma.counters", false, judgeCounters) }

func judgeCounters(v *View) []Finding {
	const fix = "watch the counter while traffic runs; if it grows, reseat or replace cable and transceiver of this rail"
	var out []Finding
	seen := 0
	devices := v.counters()
	seen += len(devices)
	for _, name := range counterNames(devices) {
		var with []string
		var worst int64
		for _, d := range devices {
			if d.Values[name] > 0 {
				with = append(with, fmt.Sprintf("%s %d", d.Device, d.Values[name]))
				worst = max(worst, d.Values[name])
			}
		}
		if len(with) > 0 && (2*len(with) <= len(devices) || len(devices) == 1) {
			out = append(out, warn(strings.Fields(with[0])[0], name+": "+strings.Join(with, ", "), fmt.Sprintf("0, as on the other %d rails", len(devices)-len(with)), fix, evidence("rdma -j statistic show", with...)))
		}
	}
	if c, ok := v.command(facts.NicctlStats); ok {
		for _, s := range parse.NicctlStats(c.Stdout) {
			seen++
			for _, k := range []string{"frames_rx_bad_fcs", "frames_rx_stomped_crc"} {
				if n, err := strconv.ParseInt(s.Values[k], 10, 64); err == nil && n > 0 {
					out = append(out, warn(s.NIC, fmt.Sprintf("%s %d since the card started", k, n), "0", fix, evidence(typed(c), k+": "+s.Values[k])))
				}
			}
		}
	}
	lossless := v.lossless()
	for _, net := range v.commandsOf(facts.EthtoolStat) {
		c := v.Facts.Commands[facts.Of(facts.EthtoolStat, net)]
		dev := v.deviceBehind(net)
		stats := parse.EthtoolStat(c.Stdout)
		if len(stats) == 0 || dev != "" && !v.isRail(dev) {
			continue
		}
		seen++
		for p := range parse.Priorities {
			if len(lossless) == 0 || lossless[p] {
				continue
			}
			for _, k := range pauseCounters(p) {
				if stats[k] > 0 {
					out = append(out, warn(label(net, dev), fmt.Sprintf("%s %d: the switch pauses priority %d, which is not lossless here", k, stats[k], p), "pauses on the lossless priority only",
						"NIC and switch disagree about the lossless priority: compare both", evidence(typed(c), fmt.Sprintf("%s: %d", k, stats[k]))))
				}
			}
		}
		if n := stats["frames_rx_bad_fcs"]; n > 0 {
			out = append(out, warn(label(net, dev), fmt.Sprintf("frames_rx_bad_fcs %d since boot", n), "0", fix, evidence(typed(c), fmt.Sprintf("frames_rx_bad_fcs: %d", n))))
		}
	}
	if seen == 0 {
		return []Finding{skip("no source of counters was read")}
	}
	return orPass(out, "no rail stands out")
}

// lossless are the priorities that are lossless on some NIC of the node.
func (v *View) lossless() map[int]bool {
	out := map[int]bool{}
	for _, q := range v.QoS() {
		for _, p := range q.Lossless() {
			out[p] = true
		}
	}
	return out
}

// pauseCounters are the names NIC drivers give received pauses of one priority.
func pauseCounters(p int) []string {
	return []string{fmt.Sprintf("rx_pripause_%d_1us_count", p), fmt.Sprintf("rx_prio%d_pause", p), fmt.Sprintf("rx_pfc_ena_frames_pri%d", p)}
}

// counters are the RDMA counters of the rails, from the tool or from sysfs.
func (v *View) counters() []parse.Counters {
	var out []parse.Counters
	if c, ok := v.command(facts.RDMAStat); ok {
		for _, s := range parse.RDMAStat(c.Stdout) {
			if v.isRail(s.Device) {
				out = append(out, s)
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, n := range v.Rails() {
		dir := sysIB + "/" + n.Name + "/ports/1/hw_counters"
		c := parse.Counters{Device: n.Name, Values: map[string]int64{}}
		for _, k := range v.children(dir) {
			if x := v.int(dir + "/" + k); x != nil {
				c.Values[k] = *x
			}
		}
		if len(c.Values) > 0 {
			out = append(out, c)
		}
	}
	return out
}

func counterNames(devices []parse.Counters) []string {
	seen := map[string]bool{}
	for _, d := range devices {
		for k := range d.Values {
			if errorCounter(k) {
				seen[k] = true
			}
		}
	}
	return sortedKeys(seen)
}

// rdmaFlaps: a link that went down since boot may do it again during the run.
func rdmaFlaps() Check { return rdma("rdma.flaps", false, judgeFlaps) }

// usualCarrierChanges is what bringing a link up once leaves in carrier_changes:
// down at probe, up, and one renegotiation.
const usualCarrierChanges = 4

func judgeFlaps(v *View) []Finding {
	const fix = "look for link messages in the kernel log and on the switch; reseat or replace the cable"
	var out []Finding
	seen := 0
	for _, p := range v.nicctlPorts() {
		if p.Downs == nil {
			continue
		}
		seen++
		if *p.Downs > 0 {
			out = append(out, warn(p.object, fmt.Sprintf("the link went down %d times", *p.Downs), "0", fix, evidence(p.source, p.Lines...)))
		}
	}
	for _, n := range v.Rails() {
		f := sysNet + "/" + n.Netdev + "/carrier_changes"
		if c := v.int(f); n.Netdev != "" && c != nil {
			seen++
			if *c > usualCarrierChanges {
				out = append(out, warn(label(n.Netdev, n.Name), fmt.Sprintf("%d changes of carrier since boot", *c), fmt.Sprintf("%d or fewer", usualCarrierChanges), fix, evidence("cat "+f, fmt.Sprint(*c))))
			}
		}
	}
	if seen == 0 {
		return []Finding{skip("no source counts link changes")}
	}
	return orPass(out, "no link went down")
}

// rdmaIdle: traffic before the run means that somebody else is on the NICs.
func rdmaIdle() Check { return rdma("rdma.idle", false, judgeIdle) }

// idleBps is the rate of a rail in bits a second below which it counts as idle.
const idleBps = 1e9

func judgeIdle(v *View) []Finding {
	var out []Finding
	qps := 0
	for _, l := range v.lifs() {
		if l.QPs != nil && *l.QPs > 0 {
			out = append(out, warn(or(l.device, l.NIC), fmt.Sprintf("%d open queue pairs", *l.QPs), "none before the run", "find the job that uses the NIC: squeue -w on this node", evidence(l.source)))
		}
		if l.QPs != nil {
			qps++
		}
	}
	c, ok := v.command(facts.NicctlRate)
	if !ok && qps > 0 {
		return orPass(out, "no open queue pairs")
	}
	if !ok {
		return []Finding{skip("this NIC family's tool prints no rates")}
	}
	stats := parse.NicctlStats(c.Stdout)
	if len(stats) == 0 {
		_, words := trouble(c, false)
		return append(out, unknown("", words, "run the command by hand", evidence(typed(c))))
	}
	for _, s := range stats {
		for _, k := range []string{"tx_bps", "rx_bps"} {
			if r, ok := parse.Rate(s.Values[k]); ok && r > idleBps {
				out = append(out, warn(s.NIC, k+" "+s.Values[k], "an idle rail", "find the job that uses the NIC: squeue -w on this node", evidence(typed(c), k+": "+s.Values[k])))
			}
		}
	}
	return orPass(out, "all rails idle")
}

// rdmaBandwidth judges bandwidth tests between nodes, where some were run.
func rdmaBandwidth() Check { return rdma("rdma.bandwidth", false, judgeBandwidth) }

func judgeBandwidth(v *View) []Finding {
	devs := v.commandsOf(facts.Perftest)
	if len(devs) == 0 {
		return []Finding{skip("no bandwidth test was run")}
	}
	var out []Finding
	for _, dev := range devs {
		c := v.Facts.Commands[facts.Of(facts.Perftest, dev)]
		r := parse.Perftest(c.Stdout + "\n" + c.Stderr)
		min := float64(v.Expect.Site.RDMA.MinBandwidthGbps)
		if min == 0 {
			min = 0.95 * float64(or(v.Expect.Site.RDMA.RateGbps, 400))
		}
		switch {
		case r.AvgGbps == nil:
			_, words := trouble(c, false)
			out = append(out, fail(or(r.Device, dev), "no result: "+or(r.Error, words), fmt.Sprintf("%g Gb/s or more", min), "the queue pair could not be made or connected: look at memlock, GID index and the rail's route", evidence(typed(c), or(r.Error, words))))
		case *r.AvgGbps < min:
			out = append(out, fail(or(r.Device, dev), fmt.Sprintf("%g Gb/s", *r.AvgGbps), fmt.Sprintf("%g Gb/s or more", min), "compare the other rails; look at PCIe link, MTU, PFC and the switch port of this one", evidence(typed(c), r.Line)))
		}
	}
	return orPass(out, fmt.Sprintf("%d rails reach the bandwidth", len(devs)))
}
