package checks

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// Choice is how KV traffic should be marked on a node, read from its NICs.
type Choice struct {
	// TrafficClass is the whole byte that libraries are given: 4 × DSCP.
	TrafficClass int `json:"traffic_class"`
	// ServiceLevel is the priority that the DSCP is mapped to.
	ServiceLevel int `json:"service_level"`
	DSCP         int `json:"dscp"`
	// Why is the derivation in words.
	Why string `json:"why"`
}

// usualDSCP is the code point that most fabrics give RoCE; it is preferred where
// it is among several.
const usualDSCP = 26

// Derive chooses traffic class and service level from the QoS of a node's rails:
// the lossless priority with the largest share of bandwidth, and of its DSCPs one
// that every rail maps to it. The name of the host has no say in it.
func (v *View) Derive() (Choice, error) {
	qs := v.QoS()
	var with []nicQoS
	for _, q := range qs {
		if len(q.Lossless()) > 0 && len(q.Map) > 0 {
			with = append(with, q)
		}
	}
	if len(with) == 0 {
		return Choice{}, errors.New("derive traffic class: no rail has a lossless priority with a DSCP")
	}
	first := with[0]
	best, bestShare := -1, -1
	for _, p := range first.Lossless() {
		if len(first.DSCPsOf(p)) == 0 {
			continue
		}
		share := 0
		if s := first.Sched[p]; s.Kind == parse.SchedStrict {
			share = 101
		} else if s.Percent != nil {
			share = *s.Percent
		}
		if share > bestShare {
			best, bestShare = p, share
		}
	}
	if best < 0 {
		return Choice{}, fmt.Errorf("derive traffic class: on %s no DSCP leads to lossless priority %s", first.object, parse.FormatInts(first.Lossless()))
	}
	common := first.DSCPsOf(best)
	for _, q := range with[1:] {
		if !slices.Contains(q.Lossless(), best) {
			return Choice{}, fmt.Errorf("derive traffic class: priority %d is lossless on %s, but not on %s", best, first.object, q.object)
		}
		common = slices.DeleteFunc(common, func(d int) bool { return !slices.Contains(q.DSCPsOf(best), d) })
	}
	if len(common) == 0 {
		return Choice{}, fmt.Errorf("derive traffic class: the NICs map no common DSCP to priority %d", best)
	}
	dscp := pickDSCP(common, v.Expect.Site.RDMA.DataDSCP)
	return Choice{
		TrafficClass: 4 * dscp, ServiceLevel: best, DSCP: dscp,
		Why: fmt.Sprintf("priority %d, DSCP %d → TC %d, SL %d on %d NICs", best, dscp, 4*dscp, best, len(with)),
	}, nil
}

// pickDSCP chooses among the DSCPs of the lossless priority: the site's, the
// usual one, the first that stands alone, else the lowest.
func pickDSCP(list []int, site *int) int {
	if site != nil && slices.Contains(list, *site) {
		return *site
	}
	if slices.Contains(list, usualDSCP) {
		return usualDSCP
	}
	for _, d := range list {
		if !slices.Contains(list, d-1) && !slices.Contains(list, d+1) {
			return d
		}
	}
	return list[0]
}

// Kinds of marking variable.
type marking int

const (
	notMarking marking = iota
	dataTC
	dataSL
	controlTC
)

// markingVar knows the variables with which libraries mark their traffic, and the
// library each belongs to.
func markingVar(name string) (marking, string) {
	switch name {
	case "MORI_RDMA_TC", "MORI_IO_TC", "NCCL_IB_TC", "MC_IB_TC":
		return dataTC, strings.TrimSuffix(name, "_TC")
	case "UCX_IB_TRAFFIC_CLASS", "NVSHMEM_IB_TRAFFIC_CLASS":
		return dataTC, strings.TrimSuffix(name, "_TRAFFIC_CLASS")
	case "MORI_RDMA_SL", "MORI_IO_SL", "NCCL_IB_SL", "UCX_IB_SL", "NVSHMEM_IB_SL", "MC_IB_SL":
		return dataSL, strings.TrimSuffix(name, "_SL")
	case "NCCL_IB_FIFO_TC":
		return controlTC, "NCCL_IB"
	case "rdma.traffic_class":
		return dataTC, "site"
	case "rdma.service_level":
		return dataSL, "site"
	}
	return notMarking, ""
}

// vars are the run's variables and the site's fixed values.
func (v *View) vars() []Var {
	out := slices.Clone(v.Expect.RDMA.Vars)
	if tc := v.Expect.RDMA.Site.TrafficClass; tc != nil {
		out = append(out, Var{Scope: "site", Name: "rdma.traffic_class", Value: fmt.Sprint(*tc)})
	}
	if sl := v.Expect.RDMA.Site.ServiceLevel; sl != nil {
		out = append(out, Var{Scope: "site", Name: "rdma.service_level", Value: fmt.Sprint(*sl)})
	}
	return out
}

// rdmaTC: what the run marks its traffic with must lead to a lossless priority on
// every rail, and the service level must be that priority.
func rdmaTC() Check { return qosCheck("rdma.tc", judgeTC) }

func judgeTC(v *View) []Finding {
	choice, derr := v.Derive()
	hint := "leave the variable out, so that it is derived on each node"
	if derr == nil {
		hint = "here " + choice.Why + "; or " + hint
	}
	var out []Finding
	marked := map[string]int{} // scope and library → priority its traffic class gets
	used := 0
	for _, x := range v.vars() {
		kind, lib := markingVar(x.Name)
		if x.Name == "MORI_IO_TC_DISABLE" && x.Value != "" && x.Value != "0" {
			out = append(out, warn(x.Name, fmt.Sprintf("%s has %s=%s: MoRI-IO sends unmarked", x.Scope, x.Name, x.Value), "0", "set it to 0"))
			continue
		}
		if kind != dataTC && kind != controlTC || x.Value == "" {
			continue
		}
		used++
		name := x.Scope + " " + x.Name
		tc, err := parse.IntList(x.Value, 255)
		switch {
		case err != nil || len(tc) != 1:
			out = append(out, fail(name, strconv.Quote(x.Value), "one number from 0 to 252", hint))
			continue
		case tc[0]%4 != 0 && tc[0] < parse.DSCPs:
			out = append(out, fail(name, fmt.Sprintf("%d looks like a DSCP", tc[0]), fmt.Sprintf("4 × DSCP: %d", 4*tc[0]), hint))
			continue
		case tc[0]%4 != 0:
			out = append(out, fail(name, fmt.Sprintf("%d sets the ECN bits", tc[0]), fmt.Sprintf("a multiple of 4: %d", tc[0]&^3), hint))
			continue
		}
		dscp := tc[0] / 4
		for _, q := range v.QoS() {
			if len(q.Map) == 0 && !q.DefaultZero || len(q.Lossless()) == 0 {
				continue
			}
			prio, mapped := q.Priority(dscp)
			marked[x.Scope+" "+lib] = prio
			ev := q.ev(parse.LineMap, parse.LinePFC)
			switch {
			case kind == controlTC:
				// Control messages go beside the data; losing their queue only
				// matters when nothing maps them.
				if !mapped {
					out = append(out, warn(q.object, fmt.Sprintf("%s=%d: DSCP %d is not mapped", name, tc[0], dscp), "a priority of its own", hint, ev))
				}
			case !mapped:
				out = append(out, fail(q.object, fmt.Sprintf("%s=%d: DSCP %d has no priority", name, tc[0], dscp), "lossless priority "+parse.FormatInts(q.Lossless()), hint, ev))
			case !slices.Contains(q.Lossless(), prio):
				out = append(out, fail(q.object, fmt.Sprintf("%s=%d: DSCP %d goes to priority %d, which drops packets", name, tc[0], dscp, prio), "lossless priority "+parse.FormatInts(q.Lossless()), hint, ev))
			}
		}
	}
	for _, x := range v.vars() {
		kind, lib := markingVar(x.Name)
		if kind != dataSL || x.Value == "" {
			continue
		}
		used++
		name := x.Scope + " " + x.Name
		sl, err := parse.IntList(x.Value, parse.Priorities-1)
		if err != nil || len(sl) != 1 {
			out = append(out, fail(name, strconv.Quote(x.Value), "one priority from 0 to 7", hint))
			continue
		}
		want, ok := marked[x.Scope+" "+lib]
		if !ok && derr == nil {
			want, ok = choice.ServiceLevel, true
		}
		if ok && sl[0] != want {
			out = append(out, fail(name, fmt.Sprint(sl[0]), fmt.Sprintf("%d, the priority its traffic class is mapped to", want), hint))
		}
	}
	if used == 0 {
		if derr != nil {
			return append(out, fail("", derr.Error(), "one traffic class that is lossless on every rail", fixQoS))
		}
		return orPass(out, choice.Why)
	}
	out = append(out, v.forcedTC()...)
	if derr == nil {
		return orPass(out, "the run's variables fit: "+choice.Why)
	}
	return orPass(out, "the run's variables lead to a lossless priority on every rail")
}

// forcedTC looks for a type of service that mlx5 forces on kernel-made queue
// pairs: GPU-made ones do not get it, so the two differ.
func (v *View) forcedTC() []Finding {
	var out []Finding
	for _, n := range v.Rails() {
		f := sysIB + "/" + n.Name + "/tc/1/traffic_class"
		tc := parse.GlobalTrafficClass(v.text(f))
		if tc == nil {
			continue
		}
		for _, x := range v.vars() {
			if kind, _ := markingVar(x.Name); kind == dataTC && x.Value != "" && x.Value != fmt.Sprint(*tc) {
				out = append(out, warn(n.Name, fmt.Sprintf("the driver forces traffic class %d, %s %s is %s", *tc, x.Scope, x.Name, x.Value), "one value", "queue pairs made by the GPU are not forced: make both the same", evidence("cat "+f, v.text(f))))
			}
		}
	}
	return out
}

// Watched says that checks look at a variable of this name.
func Watched(name string) bool {
	kind, _ := markingVar(name)
	return kind != notMarking || gidVar(name) || name == "MORI_IO_TC_DISABLE"
}

// rdmaCMTOS: connections that the connection manager makes for mlx5 get a type of
// service of their own.
func rdmaCMTOS() Check { return rdma("rdma.cm-tos", false, judgeCMTOS) }

func judgeCMTOS(v *View) []Finding {
	devs := v.commandsOf(facts.CMATOS)
	if len(devs) == 0 {
		return []Finding{skip("no connection manager setting on this node")}
	}
	choice, err := v.Derive()
	var out []Finding
	judged := 0
	for _, dev := range devs {
		c := v.Facts.Commands[facts.Of(facts.CMATOS, dev)]
		tos, perr := parse.IntList(c.Stdout, 255)
		if perr != nil || len(tos) != 1 {
			kind, words := trouble(c, false)
			if kind == parse.FailMissing {
				continue // only there while somebody configures it
			}
			out = append(out, unknown(dev, words, fixFor(kind, "cat"), evidence(typed(c), parse.Lines(c.Stderr)...)))
			continue
		}
		judged++
		if err == nil && tos[0] != choice.TrafficClass {
			out = append(out, warn(dev, fmt.Sprintf("connections get type of service %d", tos[0]), fmt.Sprint(choice.TrafficClass), "cma_roce_tos -d "+dev+" -t "+fmt.Sprint(choice.TrafficClass), evidence(typed(c), c.Stdout)))
		}
	}
	if judged == 0 && len(out) == 0 {
		return []Finding{skip("the connection manager has no setting of its own")}
	}
	return orPass(out, "as the NICs' QoS asks for")
}
