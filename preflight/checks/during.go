package checks

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// Ids of what is found while a run is on. They are no checks of a node's fitness,
// and nothing waives them: they explain a run.
const (
	RunCounters = "run.counters"
	RunSockets  = "run.sockets"
	RunStuck    = "run.stuck"
)

// Files that say how many sockets there are, and may be.
const (
	Sockstat  = "/proc/net/sockstat"
	PortRange = "/proc/sys/net/ipv4/ip_local_port_range"
)

// Span is one node at two moments. Without a Before nothing is compared.
type Span struct{ Before, After *View }

// Growth is by how much the counters of one rail grew between two moments. Those
// that stood still are left out.
type Growth struct {
	Node     string           `json:"node"`
	Rail     string           `json:"rail"`
	Counters map[string]int64 `json:"counters"`
}

const (
	// standsOut is how many times the median of all rails a counter must grow that
	// grows on every busy fabric; notable is the least growth that is looked at.
	standsOut = 10
	notable   = 1000
	// crowded is the share, in percent, of all ports for outgoing connections that
	// may wait in TIME_WAIT.
	crowded = 80
)

// During judges what happened on nodes between two moments of a run: what their
// NICs counted, and what holds their sockets and processes up.
func During(spans []Span) ([]Growth, []Finding) {
	var grown []Growth
	var out []Finding
	for _, s := range spans {
		f := append(named(RunSockets, judgeSockets(s.After)), named(RunStuck, bad(judgeStuck(s.After)))...)
		if s.Before != nil && s.After.noRDMA() == "" {
			g, problems := s.growth()
			grown = append(grown, g...)
			f = append(f, named(RunCounters, append(problems, s.judgePauses(g)...))...)
		}
		for i := range f {
			f[i].Node = s.After.Facts.Node
		}
		out = append(out, f...)
	}
	out = append(out, named(RunCounters, judgeGrowth(grown))...)
	return slices.DeleteFunc(grown, func(g Growth) bool { return len(g.Counters) == 0 }), out
}

func named(id string, fs []Finding) []Finding {
	for i := range fs {
		fs[i].CheckID = id
	}
	return fs
}

// bad leaves out what is no news.
func bad(fs []Finding) []Finding {
	return slices.DeleteFunc(fs, func(f Finding) bool { return f.Verdict == Pass || f.Verdict == Skip })
}

// growth compares the counters of each rail. What could not be compared is said: a
// rail that stopped to count has not stood still.
func (s Span) growth() (out []Growth, problems []Finding) {
	before, after := s.Before.railCounters(), s.After.railCounters()
	const byHand = "look at them by hand: rdma statistic show, ethtool -S"
	if len(before) == 0 {
		return nil, []Finding{unknown("", "no counters of the NICs could be read before the run", byHand)}
	}
	there := names(s.After.NICs())
	blind := map[string][]string{} // what is not known → rails
	for _, n := range s.Before.Rails() {
		rail := n.Name
		old, now := before[rail], after[rail]
		switch {
		case old == nil:
			problems = append(problems, unknown(rail, "no counters of it could be read before the run", byHand))
			continue
		case s.After.gathered(sysIB) && !slices.Contains(there, rail):
			problems = append(problems, warn(rail, "it was there before the run and is gone", "the same NICs all the time", "look at the kernel log for its driver; the node needs a reboot or its card a reseat"))
			continue
		}
		if missing := notCompared(old, now); len(missing) > 0 {
			blind[most(missing)] = append(blind[most(missing)], rail)
		}
		g := Growth{Node: s.After.Facts.Node, Rail: rail, Counters: map[string]int64{}}
		for name, value := range now {
			if was, ok := old[name]; ok && value > was {
				g.Counters[name] = value - was
			}
		}
		if why := wasReset(old, now); why != "" {
			problems = append(problems, warn(rail, why+": card or driver were reset during the run", "counters that only grow", "look at the kernel log for the driver of this NIC"))
		}
		if n := g.Counters[carrierChanges]; n > 0 {
			problems = append(problems, warn(rail, fmt.Sprintf("the link went down or came up %d times during the run", n), "a link that stays up", "look for link messages in the kernel log and on the switch; reseat or replace the cable"))
		}
		out = append(out, g)
	}
	for _, missing := range sortedKeys(blind) {
		problems = append(problems, unknown(most(blind[missing]), "what was counted during the run is not known for "+missing, byHand))
	}
	return out, problems
}

// telling says that the growth of a counter says something of a rail.
func telling(name string) bool {
	return failing(name) || retransmission(name) || name == carrierChanges || strings.Contains(name, "pripause") || strings.Contains(name, "_prio") && strings.HasSuffix(name, "_pause")
}

// notCompared are the telling counters of a rail that were read before and not after,
// or have counted something and were not read before.
func notCompared(before, after map[string]int64) []string {
	out := map[string]bool{}
	for name := range before {
		if _, ok := after[name]; !ok && telling(name) {
			out[name] = true
		}
	}
	for name, value := range after {
		if _, ok := before[name]; !ok && value > 0 && telling(name) {
			out[name] = true
		}
	}
	return sortedKeys(out)
}

// most joins a few names and counts the rest.
func most(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:2], ", "), len(names)-2)
}

// counts says that a counter only grows while its card lives. Drivers list gauges
// among their counters: open queue pairs, states.
func counts(name string) bool {
	if strings.HasPrefix(name, "active_") || strings.HasPrefix(name, "watermark_") || strings.HasSuffix(name, "_state") {
		return false
	}
	return failing(name) || retransmission(name) || strings.HasSuffix(name, "_pkts") || strings.HasSuffix(name, "_bytes") || strings.HasSuffix(name, "_us_count")
}

// wasReset says that most of what had counted went back: with one alone it may be a
// counter that wrapped around.
func wasReset(before, after map[string]int64) string {
	had, back := 0, 0
	first := ""
	for _, name := range sortedKeys(before) {
		now, ok := after[name]
		if was := before[name]; ok && was > 0 && counts(name) {
			had++
			if now < was {
				back++
				first = or(first, fmt.Sprintf("%s went back from %d to %d", name, was, now))
			}
		}
	}
	if 2*back > had {
		return first
	}
	return ""
}

const carrierChanges = "carrier_changes"

// railCounters are the counters that tell something of a rail's traffic: those of
// RDMA, pauses, broken frames, and changes of the link.
func (v *View) railCounters() map[string]map[string]int64 {
	out := map[string]map[string]int64{}
	for _, c := range v.counters() {
		out[c.Device] = maps.Clone(c.Values)
	}
	for _, n := range v.Rails() {
		if n.Netdev == "" {
			continue
		}
		add := func(name string, value int64) {
			if out[n.Name] == nil {
				out[n.Name] = map[string]int64{}
			}
			out[n.Name][name] = value
		}
		if c := v.int(sysNet + "/" + n.Netdev + "/" + carrierChanges); c != nil {
			add(carrierChanges, *c)
		}
		c, ok := v.command(facts.Of(facts.EthtoolStat, n.Netdev))
		if !ok {
			continue
		}
		for name, value := range parse.EthtoolStat(c.Stdout) {
			if strings.Contains(name, "pause") || strings.Contains(name, "pfc") || name == badFCS {
				add(name, value)
			}
		}
	}
	return out
}

const badFCS = "frames_rx_bad_fcs"

// failing says that a counter does not grow on a rail that works.
func failing(name string) bool { return errorCounter(name) || name == badFCS }

// retransmission says that a counter grows on every busy fabric, and tells by
// comparison.
func retransmission(name string) bool {
	switch name {
	case "tx_rdma_retx_pkts", "roce_adp_retrans", "out_of_sequence", "packet_seq_err", "req_rx_pkt_seq_err", "resp_rx_outouf_seq", "seq_err_naks_rcvd",
		"rnr_naks_rcvd", "rnr_nak_retry_err", "resp_rx_outof_buf", "out_of_buffer", "rx_roce_discard_pkts":
		return true
	}
	return false
}

// judgeGrowth compares all rails of all nodes. A counter that grew on most of them
// says something of the fabric, on few of them of these.
func judgeGrowth(grown []Growth) []Finding {
	names := map[string]bool{}
	for _, g := range grown {
		for name := range g.Counters {
			names[name] = true
		}
	}
	var out []Finding
	for _, name := range sortedKeys(names) {
		var least int64 = 1
		switch {
		case failing(name):
		case retransmission(name):
			least = max(notable, standsOut*medianOf(grown, name)+1)
		default:
			continue
		}
		var with []Growth
		for _, g := range grown {
			if g.Counters[name] >= least {
				with = append(with, g)
			}
		}
		if len(with) == 0 {
			continue
		}
		if len(grown) > 2 && 2*len(with) > len(grown) {
			most := slices.MaxFunc(with, func(a, b Growth) int { return int(a.Counters[name] - b.Counters[name]) })
			out = append(out, warn("", fmt.Sprintf("%s grew on %d of %d rails during the run, the most on %s of %s: +%d", name, len(with), len(grown), most.Rail, most.Node, most.Counters[name]), "no growth",
				"so many rails at once speak of switches, PFC or ECN rather than of a cable: compare the QoS of switches and NICs"))
			continue
		}
		out = append(out, fewRails(name, with, len(grown))...)
	}
	return out
}

// fewRails is a finding for each node with such rails.
func fewRails(name string, with []Growth, rails int) []Finding {
	lines := map[string][]string{}
	var nodes []string
	for _, g := range with {
		if lines[g.Node] == nil {
			nodes = append(nodes, g.Node)
		}
		lines[g.Node] = append(lines[g.Node], fmt.Sprintf("%s +%d", g.Rail, g.Counters[name]))
	}
	var out []Finding
	for _, n := range nodes {
		f := warn("", fmt.Sprintf("%s grew during the run: %s", name, strings.Join(lines[n], ", ")), fmt.Sprintf("as on the other %d rails", rails-len(with)),
			"reseat or replace cable and transceiver of this rail, and look at its switch port", evidence("rdma -j statistic show", lines[n]...))
		f.Node = n
		out = append(out, f)
	}
	return out
}

// medianOf is the median growth of a counter over all rails.
func medianOf(grown []Growth, name string) int64 {
	var all []int64
	for _, g := range grown {
		all = append(all, g.Counters[name])
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// judgePauses finds priorities that the switch pauses although they are not
// lossless on this node.
func (s Span) judgePauses(grown []Growth) []Finding {
	lossless := s.Before.lossless()
	if len(lossless) == 0 {
		return nil
	}
	var out []Finding
	for _, g := range grown {
		for p := range parse.Priorities {
			if lossless[p] {
				continue
			}
			for _, k := range pauseCounters(p) {
				if n := g.Counters[k]; n > 0 {
					out = append(out, warn(g.Rail, fmt.Sprintf("%s +%d: the switch paused priority %d during the run, which is not lossless here", k, n, p), "pauses on the lossless priority only",
						"NIC and switch disagree about the lossless priority: compare both"))
				}
			}
		}
	}
	return out
}

// judgeSockets finds a node that runs out of ports for outgoing connections.
func judgeSockets(v *View) []Finding {
	waiting, ok := parse.TimeWait(v.text(Sockstat))
	ends := strings.Fields(v.text(PortRange))
	if !ok || len(ends) != 2 {
		return nil
	}
	first, err1 := strconv.Atoi(ends[0])
	last, err2 := strconv.Atoi(ends[1])
	ports := last - first + 1
	if err1 != nil || err2 != nil || ports < 1 || waiting*100 < ports*crowded {
		return nil
	}
	return []Finding{warn("", fmt.Sprintf("%d sockets are in TIME_WAIT, and there are %d ports for outgoing connections", waiting, ports), fmt.Sprintf("below %d %%", crowded),
		"something opens a connection for each request or transfer: see ss -tan state time-wait, and widen net.ipv4.ip_local_port_range", evidence("cat "+Sockstat, v.text(Sockstat)))}
}
