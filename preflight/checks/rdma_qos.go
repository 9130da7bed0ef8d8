package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

const fixQoS = "program the NIC's QoS again with the site's script (it does not survive a power cycle), on every NIC, and compare with the switch"

// rdmaTools: the tools that speak of QoS and congestion control must answer.
// Without them those checks are blocked, and this one says why.
func rdmaTools() Check { return rdma("rdma.tools", true, judgeTools) }

func judgeTools(v *View) []Finding {
	_, qos := v.readQoS()
	_, cc := v.readCC()
	tried := append(qos, cc...)
	for _, id := range []string{facts.NicctlPort, facts.NicctlCard, facts.NicctlFirmware, facts.NicctlHost} {
		if c, ok := v.command(id); ok {
			tried = append(tried, source{tool: "nicctl", cmd: c, useful: v.nicctlUseful(id, c), about: id})
		}
	}
	if c, ok := v.command(facts.NiccliList); ok {
		tried = append(tried, source{tool: "niccli", cmd: c, useful: len(parse.NiccliList(c.Stdout)) > 0, about: facts.NiccliList})
	}
	if len(tried) == 0 {
		return []Finding{unknown("", "no tool that reads the QoS of the NICs was run", "find out the NIC family: set rdma.nic of the site")}
	}
	// Identity and versions have other sources; alone they make no finding.
	essential := func(s source) bool {
		return s.about == "QoS" || s.about == "congestion control" || s.about == facts.NicctlPort
	}
	if slices.ContainsFunc(tried, essential) {
		tried = slices.DeleteFunc(tried, func(s source) bool { return !essential(s) })
	}
	// dcb is only the second source for NICs that have a tool of their own.
	better := map[string]bool{}
	for _, s := range tried {
		if s.useful {
			better[s.about+s.object] = true
		}
	}
	var out []Finding
	ok := map[string]bool{}
	for _, s := range tried {
		kind, words := trouble(s.cmd, s.useful)
		if words == "" {
			ok[s.tool] = true
			continue
		}
		if better[s.about+s.object] {
			continue
		}
		f := unknown(label(s.tool, s.object), typed(s.cmd)+": "+words, fixFor(kind, s.tool), evidence(typed(s.cmd), append(parse.Lines(s.cmd.Stderr), parse.Lines(s.cmd.Stdout)...)...))
		if kind == parse.FailNoDevice && v.hasCards() {
			f.Verdict = Fail
			f.Expected = "the cards that are in the node"
		}
		out = append(out, f)
	}
	return orPass(dedup(out), strings.Join(sortedKeys(ok), ", ")+" answer")
}

func (v *View) nicctlUseful(id string, c facts.Command) bool {
	switch id {
	case facts.NicctlPort:
		return len(parse.NicctlPort(c.Stdout)) > 0
	case facts.NicctlCard:
		return len(parse.NicctlCard(c.Stdout)) > 0
	case facts.NicctlHost:
		return len(parse.NicctlHost(c.Stdout)) > 0
	}
	return len(parse.NicctlFirmware(c.Stdout)) > 0
}

// hasCards says that the node has, or must have, NICs of the family whose tool
// found none.
func (v *View) hasCards() bool {
	if v.Expect.RDMA.Site.NIC != "" {
		return true
	}
	for _, n := range v.NICs() {
		if n.Family == Ionic {
			return true
		}
	}
	for _, bdf := range v.children(sysPCI) {
		if strings.TrimPrefix(v.text(sysPCI+"/"+bdf+"/vendor"), "0x") == vendorOf(Ionic) {
			return true
		}
	}
	return false
}

// qosCheck makes a check that looks at every source of QoS.
func qosCheck(id string, judge func(*View) []Finding) Check {
	return rdma(id, true, func(v *View) []Finding {
		if b := v.noQoS(); b != nil {
			return b
		}
		return judge(v)
	})
}

// rdmaClass: traffic must be classified by DSCP. RoCE v2 carries no VLAN tag, so
// by 802.1p it never reaches the lossless queue.
func rdmaClass() Check { return qosCheck("rdma.class", judgeClass) }

func judgeClass(v *View) []Finding {
	var out []Finding
	for _, q := range v.QoS() {
		switch {
		case q.Class == "dscp":
		case q.LossyOnly || q.Class == "" && len(q.Lines[parse.LineMap]) == 0 && q.Lines[parse.LineClass] == nil:
			// A source that does not speak of classification.
		case q.Class == "":
			out = append(out, fail(q.object, "no DSCP is mapped: traffic is classified by its VLAN tag, which RoCE v2 has none of", "classification by DSCP", fixQoS, q.ev(parse.LineMap)))
		default:
			out = append(out, fail(q.object, "classification type "+strings.ToUpper(q.Class), "DSCP", fixQoS, q.ev(parse.LineClass)))
		}
	}
	return orPass(out, fmt.Sprintf("DSCP on %d NICs", len(v.QoS())))
}

// rdmaPFC: a lossless priority must exist, and priority flow control must be on
// for it.
func rdmaPFC() Check { return qosCheck("rdma.pfc", judgePFC) }

func judgePFC(v *View) []Finding {
	var out []Finding
	for _, q := range v.QoS() {
		ev := q.ev(parse.LinePFC)
		switch {
		case q.LossyOnly:
			out = append(out, fail(q.object, "every traffic class is lossy", "a lossless traffic class", fixQoS, ev))
			continue
		case q.PFC == nil && !q.NoDropPrinted:
			if len(q.Lines[parse.LinePFC]) > 0 && len(q.Problems) == 0 {
				continue // a source that only lists traffic classes
			}
			out = append(out, unknown(q.object, "the source does not print flow control"+problems(q.Problems), "run the command by hand", ev))
			continue
		case q.NoDropPrinted && len(q.NoDrop) == 0:
			out = append(out, fail(q.object, "no lossless priority is configured"+bitmapText(q.PFC), "one lossless priority with PFC", fixQoS, ev))
			continue
		case q.PFC != nil && *q.PFC == 0:
			out = append(out, fail(q.object, "PFC is off for every priority", "PFC on for the lossless priority", fixQoS, ev))
			continue
		}
		var uncovered []int
		for _, p := range q.NoDrop {
			if q.PFC != nil && *q.PFC&(1<<p) == 0 {
				uncovered = append(uncovered, p)
			}
		}
		if len(uncovered) > 0 {
			out = append(out, fail(q.object, fmt.Sprintf("PFC bitmap %#x does not cover lossless priority %s", *q.PFC, parse.FormatInts(uncovered)), "PFC on for every lossless priority", fixQoS, ev))
			continue
		}
		if q.NoDropPrinted && q.PFC != nil {
			var extra []int
			for _, p := range q.PFCBits() {
				if !slices.Contains(q.NoDrop, p) {
					extra = append(extra, p)
				}
			}
			if len(extra) > 0 {
				out = append(out, warn(q.object, fmt.Sprintf("PFC is on for priority %s, which is not lossless", parse.FormatInts(extra)), "PFC on for lossless priorities only", fixQoS, ev))
			}
		}
		if l := q.Lossless(); len(l) > 1 {
			out = append(out, warn(q.object, "lossless priorities "+parse.FormatInts(l), "one: each further one lets a pause spread", fixQoS, ev))
		}
	}
	l := v.QoS()[0].Lossless()
	return orPass(out, fmt.Sprintf("PFC on for priority %s on %d NICs", parse.FormatInts(l), len(v.QoS())))
}

func bitmapText(bits *uint64) string {
	if bits == nil {
		return ""
	}
	return fmt.Sprintf(" (PFC bitmap %#x)", *bits)
}

func problems(p []string) string {
	if len(p) == 0 {
		return ""
	}
	return ": " + strings.Join(p, "; ")
}

// rdmaMap: the DSCP map must be complete, free of contradictions, and lead some
// DSCP to a lossless priority.
func rdmaMap() Check { return qosCheck("rdma.dscp-map", judgeMap) }

func judgeMap(v *View) []Finding {
	var out []Finding
	judged := 0
	for _, q := range v.QoS() {
		if q.Class != "dscp" && q.Class != "" {
			return blockedBy("rdma.class", "on "+q.object+" traffic is not classified by DSCP")
		}
		if len(q.Map) == 0 && len(q.Lines[parse.LineMap]) == 0 {
			continue
		}
		judged++
		ev := q.ev(parse.LineMap)
		if len(q.Problems) > 0 {
			out = append(out, fail(q.object, "the report contradicts itself: "+strings.Join(q.Problems, "; "), "one priority for each DSCP", "read the map by hand, and "+fixQoS, ev))
			continue
		}
		if !q.DefaultZero {
			var holes []int
			for d := range parse.DSCPs {
				if _, ok := q.Map[d]; !ok {
					holes = append(holes, d)
				}
			}
			if len(holes) > 0 {
				out = append(out, fail(q.object, "DSCP "+parse.FormatInts(holes)+" has no priority", "a priority for all 64", fixQoS, ev))
				continue
			}
		}
		if len(q.Lossless()) == 0 {
			continue // said by rdma.pfc
		}
		var without []int
		for _, p := range q.Lossless() {
			if len(q.DSCPsOf(p)) == 0 {
				without = append(without, p)
			}
		}
		switch {
		case len(without) == len(q.Lossless()):
			out = append(out, fail(q.object, "no DSCP leads to lossless priority "+parse.FormatInts(without), "the DSCP of KV traffic mapped to it", fixQoS, ev, q.ev(parse.LinePFC)))
		case len(without) > 0:
			out = append(out, warn(q.object, "no DSCP leads to lossless priority "+parse.FormatInts(without), "a DSCP, or no PFC for it", fixQoS, ev, q.ev(parse.LinePFC)))
		}
	}
	if judged == 0 {
		return blockedBy("rdma.class", "no source prints a DSCP map")
	}
	return orPass(out, fmt.Sprintf("complete and consistent on %d NICs", judged))
}

// rdmaScheduling: shares must add up, and the lossless priority needs most of the
// bandwidth.
func rdmaScheduling() Check {
	c := qosCheck("rdma.scheduling", judgeScheduling)
	c.Hard = false
	return c
}

// minLosslessShare is the share of a lossless priority below which other traffic
// can starve KV transfers; what the libraries' own environment check asks for.
const minLosslessShare = 90

func judgeScheduling(v *View) []Finding {
	var out []Finding
	judged := 0
	for _, q := range v.QoS() {
		sum, shared := 0, 0
		for p := range parse.Priorities {
			if s, ok := q.Sched[p]; ok && s.Kind == parse.SchedDWRR && s.Percent != nil {
				sum += *s.Percent
				shared++
			}
		}
		if shared == 0 {
			continue
		}
		judged++
		ev := q.ev(parse.LineSched)
		if sum != 100 && sum != 0 {
			out = append(out, warn(q.object, fmt.Sprintf("the DWRR shares add up to %d %%", sum), "100 %", fixQoS, ev))
			continue
		}
		lossless, strict := 0, false
		for _, p := range q.Lossless() {
			s := q.Sched[p]
			strict = strict || s.Kind == parse.SchedStrict
			if s.Percent != nil {
				lossless += *s.Percent
			}
		}
		if len(q.Lossless()) > 0 && !strict && sum != 0 && lossless < minLosslessShare {
			out = append(out, warn(q.object, fmt.Sprintf("lossless priority %s has %d %% of the bandwidth", parse.FormatInts(q.Lossless()), lossless), fmt.Sprintf("%d %% or more", minLosslessShare), fixQoS, ev))
		}
	}
	if judged == 0 {
		return []Finding{skip("no source prints bandwidth shares")}
	}
	return orPass(out, fmt.Sprintf("shares add up on %d NICs", judged))
}

// rdmaPause: the port must do priority pause in both directions. With link pause
// the PFC settings have no effect.
func rdmaPause() Check { return rdma("rdma.pause", true, judgePause) }

func judgePause(v *View) []Finding {
	const fix = "set the port's pause type to PFC with transmit and receive pause enabled"
	var out []Finding
	seen := 0
	for _, p := range v.nicctlPorts() {
		seen++
		ev := evidence(p.source, p.Lines...)
		switch {
		case p.PauseType == "":
			out = append(out, unknown(p.object, "the pause type is not printed", "run the command by hand", ev))
		case !strings.EqualFold(p.PauseType, "PFC"):
			out = append(out, fail(p.object, "pause type "+p.PauseType, "PFC", fix, ev))
		case p.TxPause != "" && !strings.EqualFold(p.TxPause, "enabled"):
			out = append(out, fail(p.object, "transmit pause "+p.TxPause, "enabled", fix, ev))
		case p.RxPause != "" && !strings.EqualFold(p.RxPause, "enabled"):
			out = append(out, fail(p.object, "receive pause "+p.RxPause, "enabled", fix, ev))
		}
	}
	for _, net := range v.commandsOf(facts.EthtoolPause) {
		c := v.Facts.Commands[facts.Of(facts.EthtoolPause, net)]
		dev := v.deviceBehind(net)
		if dev != "" && !v.isRail(dev) || familyOf("", dev) == Ionic {
			continue
		}
		rx, tx, ok := parse.EthtoolPause(c.Stdout)
		if !ok {
			continue
		}
		seen++
		if rx || tx {
			out = append(out, fail(label(net, dev), "link pause is on", "off: it replaces priority pause", "ethtool -A "+net+" rx off tx off", evidence(typed(c), parse.Lines(c.Stdout)...)))
		}
	}
	if seen > 0 {
		return orPass(out, fmt.Sprintf("priority pause on %d ports", seen))
	}
	if c, ok := v.command(facts.NicctlPort); ok {
		_, words := trouble(c, false)
		return blockedBy("rdma.tools", "nicctl: "+words)
	}
	if f := v.family(); f == Ionic || f == "" {
		return blockedBy("rdma.tools", "nicctl show port was not run")
	}
	return []Finding{skip("this NIC family prints no pause type; its PFC bits are judged by rdma.pfc")}
}

// rdmaUniform: all rails of a node, and all nodes, must be set up alike: one
// traffic class must be right for all of them.
func rdmaUniform() Check {
	c := qosCheck("rdma.uniform", judgeUniform)
	c.Fleet = fleetUniform
	return c
}

func judgeUniform(v *View) []Finding {
	groups := map[string][]nicQoS{}
	var order []string
	for _, q := range v.QoS() {
		if q.PFC == nil && !q.NoDropPrinted {
			continue
		}
		s := q.Signature()
		if groups[s] == nil {
			order = append(order, s)
		}
		groups[s] = append(groups[s], q)
	}
	if len(order) == 0 {
		return blockedBy("rdma.pfc", "no source prints the flow control of a NIC")
	}
	if len(order) == 1 {
		return []Finding{pass(order[0])}
	}
	common := order[0]
	for _, s := range order {
		if len(groups[s]) > len(groups[common]) {
			common = s
		}
	}
	var out []Finding
	for _, s := range order {
		if s == common {
			continue
		}
		for _, q := range groups[s] {
			out = append(out, fail(q.object, s, fmt.Sprintf("%s, as on %d of the node's NICs", common, len(groups[common])), fixQoS, q.ev(parse.LineClass, parse.LinePFC, parse.LineSched)))
		}
	}
	return out
}

func fleetUniform(vs []*View) []Finding {
	fs, _ := odd(vs, "QoS of the NICs", func(v *View) string {
		if v.noRDMA() != "" || len(v.QoS()) == 0 {
			return ""
		}
		seen := map[string]bool{}
		for _, q := range v.QoS() {
			if q.PFC != nil || q.NoDropPrinted {
				seen[q.Signature()] = true
			}
		}
		return strings.Join(sortedKeys(seen), " | ")
	})
	return remedy(fs, "priority flow control works hop by hop and the switch is shared: set this node up like the others")
}
