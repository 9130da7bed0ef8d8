package parse

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Priorities is the number of 802.1p priorities.
const Priorities = 8

// DSCPs is the number of differentiated services code points.
const DSCPs = 64

// Scheduling kinds.
const (
	// SchedDWRR shares bandwidth by weight.
	SchedDWRR = "dwrr"
	// SchedStrict goes first.
	SchedStrict = "strict"
)

// Sched is how one priority is scheduled.
type Sched struct {
	Kind    string // SchedDWRR, SchedStrict or the tool's own word in lower case
	Percent *int   // share of a DWRR priority
	Limit   string // rate limit as printed; empty when none
}

// String writes "dwrr 99" or "strict 10".
func (s Sched) String() string {
	out := s.Kind
	if s.Percent != nil {
		out += fmt.Sprintf(" %d", *s.Percent)
	}
	if s.Limit != "" {
		out += " " + s.Limit
	}
	return out
}

// QoS is what one source says of the classification, flow control and
// scheduling of one NIC. Whatever was not printed is nil.
type QoS struct {
	// NIC is how the source names it: a PCI address, an interface or an index.
	NIC string
	// Class is "dscp", "pcp", the tool's own word in lower case, or empty.
	Class string
	// PFC has bit p set where priority flow control is on for priority p.
	PFC *uint64
	// NoDrop lists the lossless priorities where the source prints them as a
	// list of their own; NoDropPrinted tells an empty list from no list.
	NoDrop        []int
	NoDropPrinted bool
	// Map is DSCP → priority, complete or not.
	Map map[int]int
	// DefaultZero: DSCPs that are not in Map go to priority 0. Otherwise they
	// are unmapped.
	DefaultZero bool
	Sched       map[int]Sched
	// LossyOnly: the source lists traffic classes and none is lossless.
	LossyOnly bool
	// Problems are contradictions and unreadable values inside the source.
	Problems []string
	// Lines are the lines the values were read from, by subject: class, pfc,
	// map, sched.
	Lines map[string][]string
}

// Subjects of QoS.Lines.
const (
	LineClass = "class"
	LinePFC   = "pfc"
	LineMap   = "map"
	LineSched = "sched"
)

func newQoS(nic string) *QoS {
	return &QoS{NIC: nic, Map: map[int]int{}, Sched: map[int]Sched{}, Lines: map[string][]string{}}
}

func (q *QoS) keep(subject, line string) {
	q.Lines[subject] = append(q.Lines[subject], strings.TrimSpace(line))
}

func (q *QoS) problem(format string, args ...any) {
	q.Problems = append(q.Problems, fmt.Sprintf(format, args...))
}

// assign puts one DSCP into the map and reports a contradiction.
func (q *QoS) assign(dscp, prio int) {
	if old, ok := q.Map[dscp]; ok && old != prio {
		q.problem("DSCP %d is mapped to priority %d and to %d", dscp, old, prio)
		return
	}
	q.Map[dscp] = prio
}

// Priority is the priority that traffic with this DSCP gets.
func (q *QoS) Priority(dscp int) (prio int, mapped bool) {
	if p, ok := q.Map[dscp]; ok {
		return p, true
	}
	if q.DefaultZero && q.Class != "pcp" {
		return 0, true
	}
	return 0, false
}

// Lossless lists the lossless priorities: the printed list, or the PFC bits
// where no list is printed.
func (q *QoS) Lossless() []int {
	if q.NoDropPrinted {
		out := slices.Clone(q.NoDrop)
		sort.Ints(out)
		return slices.Compact(out)
	}
	return q.PFCBits()
}

// PFCBits lists the priorities whose PFC bit is set.
func (q *QoS) PFCBits() []int {
	var out []int
	if q.PFC != nil {
		for p := range Priorities {
			if *q.PFC&(1<<p) != 0 {
				out = append(out, p)
			}
		}
	}
	return out
}

// DSCPsOf lists the DSCPs that are mapped to a priority explicitly.
func (q *QoS) DSCPsOf(prio int) []int {
	var out []int
	for d := range DSCPs {
		if p, ok := q.Map[d]; ok && p == prio {
			out = append(out, d)
		}
	}
	return out
}

// Signature writes everything that must be equal on NICs of one fabric.
func (q *QoS) Signature() string {
	var b strings.Builder
	fmt.Fprintf(&b, "class %s; lossless %s", q.Class, FormatInts(q.Lossless()))
	for p := range Priorities {
		if d := q.DSCPsOf(p); len(d) > 0 && (p != 0 || !q.DefaultZero) {
			fmt.Fprintf(&b, "; DSCP %s → %d", FormatInts(d), p)
		}
	}
	for p := range Priorities {
		if s, ok := q.Sched[p]; ok {
			fmt.Fprintf(&b, "; prio %d %s", p, s)
		}
	}
	return b.String()
}

// FormatInts writes numbers as "0-23,25-45"; "none" for an empty list.
func FormatInts(l []int) string {
	if len(l) == 0 {
		return "none"
	}
	l = slices.Clone(l)
	sort.Ints(l)
	var parts []string
	for i := 0; i < len(l); {
		j := i
		for j+1 < len(l) && l[j+1] <= l[j]+1 {
			j++
		}
		if l[j] > l[i] {
			parts = append(parts, fmt.Sprintf("%d-%d", l[i], l[j]))
		} else {
			parts = append(parts, fmt.Sprint(l[i]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// CC is what one source says of the congestion control (DCQCN) of one RDMA
// device.
type CC struct {
	NIC    string // PCI address of the card, where the source prints one
	Device string // RDMA device name, or the interface
	// Enabled is nil where the source does not say.
	Enabled *bool
	// CNPDSCP and CNPPriority are what congestion notifications are sent with.
	CNPDSCP, CNPPriority *int
	// Params are the other parameters as printed, by label in lower case.
	Params map[string]string
	Lines  []string
}
