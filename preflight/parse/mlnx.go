package parse

import (
	"regexp"
	"strings"
)

var (
	mlnxPrio = regexp.MustCompile(`^\s*prio:(\d)\s+dscp:([0-9,\s]*)`)
	mlnxTC   = regexp.MustCompile(`^\s*tc:\s*(\d)\s+ratelimit:\s*([^,]+),\s*tsa:\s*(\w+)(?:,\s*bw:\s*(\d+)%)?`)
)

// MlnxQoS reads "mlnx_qos -i X". nil means that the text is not such a report.
func MlnxQoS(nic, text string) *QoS {
	q := newQoS(nic)
	seen := false
	var cur *Sched
	for _, l := range Lines(text) {
		label, value, _ := KV(l)
		f := strings.Fields(l)
		switch {
		case label == "priority trust state":
			seen = true
			q.Class = strings.ToLower(value)
			q.keep(LineClass, l)
		case len(f) == 1+Priorities && f[0] == "enabled":
			// The row is found by its name: a buffer row may follow it.
			seen = true
			q.keep(LinePFC, l)
			var bits uint64
			for p, w := range f[1:] {
				if w == "1" {
					bits |= 1 << p
				}
			}
			q.PFC = &bits
		case mlnxPrio.MatchString(l):
			m := mlnxPrio.FindStringSubmatch(l)
			q.keep(LineMap, l)
			prio, err := smallInt(m[1], Priorities-1)
			dscps, err2 := IntList(m[2], DSCPs-1)
			if err != nil || err2 != nil {
				q.problem("dscp2prio line %q is not readable", strings.TrimSpace(l))
				continue
			}
			for _, d := range dscps {
				q.assign(d, prio)
			}
		case mlnxTC.MatchString(l):
			m := mlnxTC.FindStringSubmatch(l)
			q.keep(LineSched, l)
			cur = &Sched{Kind: strings.ToLower(m[3])}
			if cur.Kind == "ets" {
				cur.Kind = SchedDWRR
			}
			if n, err := smallInt(m[4], 100); err == nil && m[4] != "" {
				cur.Percent = &n
			}
			if w := strings.TrimSpace(m[2]); w != "unlimited" {
				cur.Limit = w
			}
		case label == "priority" && cur != nil:
			prios, err := IntList(value, Priorities-1)
			if err != nil {
				q.problem("priorities of a traffic class: %v", err)
				continue
			}
			for i, p := range prios {
				s := *cur
				if i > 0 {
					s.Percent = nil // the share is the class's and counts once
				}
				q.Sched[p] = s
			}
		}
	}
	if !seen {
		return nil
	}
	return q
}

var ibdevLine = regexp.MustCompile(`^\s*(?:\S+\s+)?(\S+)\s+port\s+(\d+)(?:\s+\([^)]*\))?\s+==>\s+(\S+)\s+\((\w+)\)`)

// IBDevNetdev reads "ibdev2netdev".
func IBDevNetdev(text string) []RDMAPort {
	var out []RDMAPort
	for _, l := range Lines(text) {
		if m := ibdevLine.FindStringSubmatch(l); m != nil {
			p := RDMAPort{Device: m[1], Netdev: m[3], Line: strings.TrimSpace(l)}
			if strings.EqualFold(m[4], "up") {
				p.State = "ACTIVE"
			} else {
				p.State = strings.ToUpper(m[4])
			}
			out = append(out, p)
		}
	}
	return out
}

// ShowGIDs reads the table that MLNX_OFED's show_gids prints.
func ShowGIDs(text string) []RDMAPort {
	var out []RDMAPort
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		if len(f) < 5 || strings.Count(f[3], ":") != 7 {
			continue
		}
		index, err := smallInt(f[2], 4095)
		if err != nil {
			continue
		}
		g := GID{Index: index, Addr: f[3]}
		for _, w := range f[4:] {
			switch {
			case w == "v1" || w == "v2":
				g.Type = "RoCE " + w
			case g.Type != "":
				g.Dev = w
			}
		}
		if n := len(out); n > 0 && out[n-1].Device == f[0] {
			out[n-1].GIDs = append(out[n-1].GIDs, g)
			continue
		}
		out = append(out, RDMAPort{Device: f[0], Port: 1, Netdev: g.Dev, GIDs: []GID{g}, Line: strings.Join(f, " ")})
	}
	return out
}

// GlobalTrafficClass reads /sys/class/infiniband/DEV/tc/PORT/traffic_class of
// mlx5: the type of service that is forced on queue pairs the kernel makes. nil
// means that none is forced.
func GlobalTrafficClass(text string) *int {
	for _, l := range Lines(text) {
		if _, v, ok := strings.Cut(l, "tclass="); ok {
			if n, ok := number(v); ok && n > 0 && n < 256 {
				return ptr(int(n))
			}
		}
	}
	return nil
}

// MlxPrioMask reads the congestion control priority mask from "mlxconfig q": bit
// p enables DCQCN for priority p. nil means that it is not printed.
func MlxPrioMask(text string) (mask *int64, line string) {
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		for i, w := range f {
			if w == "ROCE_CC_PRIO_MASK_P1" && i+1 < len(f) {
				if n, ok := number(f[len(f)-1]); ok {
					return &n, strings.TrimSpace(l)
				}
			}
		}
	}
	return nil, ""
}
