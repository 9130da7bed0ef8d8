package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

const fixCC = "enable DCQCN on the NIC again with the site's script, on every rail"

// rdmaDCQCN: congestion control must be on for every rail.
func rdmaDCQCN() Check {
	return rdma("rdma.dcqcn", true, func(v *View) []Finding {
		if b := v.noCC(); b != nil {
			return b
		}
		return judgeDCQCN(v)
	})
}

func judgeDCQCN(v *View) []Finding {
	var out []Finding
	seen := map[string]bool{}
	for _, c := range v.CC() {
		seen[c.Device] = true
		if v.isDown(c.Device) {
			continue
		}
		ev := evidence(c.source, c.Lines...)
		switch {
		case c.Enabled == nil:
			out = append(out, unknown(c.object, "the status is not printed", "run the command by hand", ev))
		case !*c.Enabled:
			out = append(out, fail(c.object, "DCQCN is disabled", "enabled", fixCC, ev))
		}
	}
	matched := false
	var absent []string
	for _, n := range v.Rails() {
		if seen[n.Name] {
			matched = true
		} else if !v.isDown(n.Name) {
			absent = append(absent, n.Name)
		}
	}
	if matched {
		for _, name := range absent {
			if c, asked := v.command(facts.Of(facts.BnxtCC, name)); asked {
				_, words := trouble(c, false)
				out = append(out, unknown(name, "its congestion control cannot be read: "+words, "the driver's configfs entry exists only once the site's setup script made it", evidence(typed(c))))
				continue
			}
			out = append(out, fail(name, "not listed", "DCQCN enabled on every rail", fixCC))
		}
	}
	return orPass(out, fmt.Sprintf("enabled on %d devices", len(v.CC())))
}

// defaultCNP is what NIC families send congestion notifications with unless told
// otherwise.
func defaultCNP(family string) int {
	if family == Ionic {
		return 46
	}
	return 48
}

// rdmaCNP: congestion notifications must go the same way on all rails, by a
// priority that is neither paused nor behind the data.
func rdmaCNP() Check {
	return rdma("rdma.cnp", true, func(v *View) []Finding {
		if b := v.noQoS(); b != nil && len(v.CC()) == 0 {
			return b
		}
		return judgeCNP(v)
	})
}

func judgeCNP(v *View) []Finding {
	var out []Finding
	by := map[int][]nicCC{}
	for _, c := range v.CC() {
		if c.CNPDSCP != nil {
			by[*c.CNPDSCP] = append(by[*c.CNPDSCP], c)
		}
	}
	common, assumed := -1, ""
	for d := range parse.DSCPs {
		if len(by[d]) > 0 && (common < 0 || len(by[d]) > len(by[common])) {
			common = d
		}
	}
	if len(by) > 1 {
		for d := range parse.DSCPs {
			for _, c := range by[d] {
				if d != common {
					out = append(out, fail(c.object, fmt.Sprintf("CNP DSCP %d", d), fmt.Sprintf("%d as on %d other rails", common, len(by[common])), fixCC, evidence(c.source, c.Lines...)))
				}
			}
		}
	}
	if common < 0 {
		common, assumed = or2(v.Expect.Site.RDMA.CNPDSCP, defaultCNP(v.family())), " (assumed: no source prints it)"
	}
	for _, q := range v.QoS() {
		dscp := common
		var own *nicCC
		for _, c := range v.CC() {
			if c.Device == q.device && q.device != "" || c.NIC == q.NIC && c.NIC != "" {
				own = &c
				if c.CNPDSCP != nil {
					dscp = *c.CNPDSCP
				}
			}
		}
		if own != nil && own.firmware || own == nil && assumed != "" && len(v.CC()) > 0 {
			continue
		}
		if len(q.Map) == 0 {
			continue
		}
		prio, mapped := q.Priority(dscp)
		_, explicit := q.Map[dscp]
		byPrio := own != nil && own.CNPPriority != nil
		if byPrio && !explicit {
			prio, mapped, explicit = *own.CNPPriority, true, true
		}
		ev := q.ev(parse.LineMap, parse.LineSched)
		what := fmt.Sprintf("CNP DSCP %d%s", dscp, assumed)
		switch {
		case !mapped || !explicit:
			out = append(out, warn(q.object, what+" has no priority of its own and goes with other traffic", "a strict priority", fixQoS, ev))
		case slices.Contains(q.Lossless(), prio):
			out = append(out, warn(q.object, fmt.Sprintf("%s goes to lossless priority %d: it waits where the data waits", what, prio), "a strict priority without PFC", fixQoS, ev))
		case q.Sched[prio].Kind == parse.SchedDWRR:
			out = append(out, warn(q.object, fmt.Sprintf("%s goes to priority %d, which is not strict", what, prio), "a strict priority", fixQoS, ev))
		}
	}
	return orPass(out, fmt.Sprintf("CNP DSCP %d%s on every rail", common, assumed))
}

func or2[T any](v *T, def T) T {
	if v != nil {
		return *v
	}
	return def
}

// rdmaProfile compares with the site's golden values.
func rdmaProfile() Check { return rdma("rdma.profile", false, judgeProfile) }

func judgeProfile(v *View) []Finding {
	p := v.Expect.Site.RDMA
	if p.DataDSCP == nil && p.DataPriority == nil && p.CNPDSCP == nil && p.CNPPriority == nil && len(p.Scheduling) == 0 && len(p.DCQCN) == 0 {
		return []Finding{skip("the site states no golden values")}
	}
	var out []Finding
	judged := 0
	for _, q := range v.QoS() {
		judged++
		ev := q.ev(parse.LinePFC, parse.LineMap)
		if p.DataPriority != nil && !slices.Contains(q.Lossless(), *p.DataPriority) {
			out = append(out, fail(q.object, "lossless priority "+parse.FormatInts(q.Lossless()), fmt.Sprint(*p.DataPriority), fixQoS, ev))
		}
		mapsTo := func(what string, dscp, prio *int) {
			if dscp == nil || prio == nil {
				return
			}
			if got, ok := q.Priority(*dscp); !ok || got != *prio {
				observed := "unmapped"
				if ok {
					observed = fmt.Sprintf("priority %d", got)
				}
				out = append(out, fail(q.object, fmt.Sprintf("%s DSCP %d goes to %s", what, *dscp, observed), fmt.Sprintf("priority %d", *prio), fixQoS, ev))
			}
		}
		mapsTo("data", p.DataDSCP, p.DataPriority)
		mapsTo("CNP", p.CNPDSCP, p.CNPPriority)
		for _, k := range sortedKeys(p.Scheduling) {
			l, err := parse.IntList(k, parse.Priorities-1)
			if err != nil || len(l) != 1 {
				out = append(out, warn("site", "preflight.rdma.scheduling has key "+k, "a priority from 0 to 7", "mend the site file"))
				continue
			}
			got := "absent"
			if s, ok := q.Sched[l[0]]; ok {
				got = s.String()
			}
			if want := strings.ToLower(strings.Join(strings.Fields(p.Scheduling[k]), " ")); got != want && !(want == parse.SchedStrict && strings.HasPrefix(got, want)) {
				out = append(out, warn(q.object, fmt.Sprintf("priority %d is scheduled %s", l[0], got), want, fixQoS, q.ev(parse.LineSched)))
			}
		}
	}
	for _, c := range v.CC() {
		judged++
		ev := evidence(c.source, c.Lines...)
		if p.CNPDSCP != nil && c.CNPDSCP != nil && *c.CNPDSCP != *p.CNPDSCP {
			out = append(out, warn(c.object, fmt.Sprintf("CNP DSCP %d", *c.CNPDSCP), fmt.Sprint(*p.CNPDSCP), fixCC, ev))
		}
		if c.Enabled != nil && !*c.Enabled {
			continue // its parameters are not printed; said by rdma.dcqcn
		}
		for _, k := range sortedKeys(p.DCQCN) {
			got, ok := c.Params[parse.Label(k)]
			if !ok {
				got = "not printed"
			}
			if got != p.DCQCN[k] {
				out = append(out, warn(c.object, fmt.Sprintf("%s: %s", k, got), p.DCQCN[k], fixCC, ev))
			}
		}
	}
	if judged == 0 {
		return blockedBy("rdma.tools", "nothing to compare with the golden values")
	}
	return orPass(out, "as the site's profile says")
}
