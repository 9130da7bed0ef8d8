package parse

import (
	"regexp"
	"strings"
)

// BnxtNIC is one PCI function that niccli lists.
type BnxtNIC struct {
	Index     string
	BDF       string
	Firmware  string // empty where the list form does not print it
	Interface string // likewise
	Line      string
}

var (
	niccliRow  = regexp.MustCompile(`^\s*(\d+)\s*\)\s*(.*)$`)
	bdfAnyCase = regexp.MustCompile(`(?i)\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b`)
	quadWord   = regexp.MustCompile(`^\d+(\.\d+){3}$`)
)

// NiccliList reads "niccli --list" (a table) and "niccli --list_devices" (one
// paragraph a device).
func NiccliList(text string) []BnxtNIC {
	var out []BnxtNIC
	for _, l := range Lines(text) {
		if m := niccliRow.FindStringSubmatch(l); m != nil {
			n := BnxtNIC{Index: m[1], Line: strings.TrimSpace(l)}
			if addr := bdfAnyCase.FindString(l); addr != "" {
				n.BDF, _ = BDF(addr)
			}
			for _, w := range strings.Fields(m[2]) {
				if quadWord.MatchString(w) {
					n.Firmware = w
				}
			}
			out = append(out, n)
			continue
		}
		label, value, ok := KV(l)
		if !ok || len(out) == 0 {
			continue
		}
		last := &out[len(out)-1]
		switch {
		case label == "pci address":
			if bdf, ok := BDF(value); ok {
				last.BDF = bdf
			}
		case strings.HasPrefix(label, "device interface"):
			last.Interface = value
		case strings.HasPrefix(label, "firmware version"):
			last.Firmware = value
		}
	}
	return out
}

var pairRE = regexp.MustCompile(`(\d+):(\w+)`)

// NiccliQoS reads "niccli -i N qos --ets --show". nil means that the text is not
// such a report.
func NiccliQoS(nic, text string) *QoS {
	q := newQoS(nic)
	q.DefaultZero = true
	tcOf := map[int]int{}  // priority → traffic class
	share := map[int]int{} // traffic class → percent
	kind := map[int]string{}
	seen := false
	appPrio, appDSCP := -1, -1
	commit := func(line string) {
		if appPrio >= 0 && appDSCP >= 0 {
			q.assign(appDSCP, appPrio)
			q.Class = "dscp"
			q.keep(LineMap, line)
		}
		appPrio, appDSCP = -1, -1
	}
	for _, l := range Lines(text) {
		label, value, ok := KV(l)
		if !ok {
			continue
		}
		switch {
		case label == "prio_map":
			seen = true
			q.keep(LineSched, l)
			for _, m := range pairRE.FindAllStringSubmatch(value, -1) {
				if p, err := smallInt(m[1], Priorities-1); err == nil {
					if tc, err := smallInt(m[2], Priorities-1); err == nil {
						tcOf[p] = tc
					}
				}
			}
		case label == "tc bandwidth":
			q.keep(LineSched, l)
			for i, w := range strings.Fields(value) {
				if n, ok := number(w); ok {
					share[i] = int(n)
				}
			}
		case label == "tsa_map":
			q.keep(LineSched, l)
			for _, m := range pairRE.FindAllStringSubmatch(value, -1) {
				if tc, err := smallInt(m[1], Priorities-1); err == nil {
					kind[tc] = strings.ToLower(m[2])
				}
			}
		case label == "pfc enabled":
			seen = true
			q.keep(LinePFC, l)
			prios, err := IntList(noneIsEmpty(value), Priorities-1)
			if err != nil {
				q.problem("PFC enabled: %v", err)
				continue
			}
			var bits uint64
			for _, p := range prios {
				bits |= 1 << p
			}
			q.PFC = &bits
		case strings.HasPrefix(label, "app#"):
			appPrio, appDSCP = -1, -1
		case label == "priority":
			if n, err := smallInt(value, Priorities-1); err == nil {
				appPrio = n
			}
		case label == "dscp":
			if n, err := smallInt(value, DSCPs-1); err == nil {
				appDSCP = n
			}
			commit(l)
		}
	}
	if !seen {
		return nil
	}
	q.scheduleByClass(tcOf, share, kind)
	return q
}

// scheduleByClass gives each priority the scheduling of its traffic class. A
// share is the class's, so it is given to the class's lowest lossless priority,
// or its lowest, and the other priorities of the class are left out: otherwise
// a class with six priorities would count six times.
func (q *QoS) scheduleByClass(tcOf, share map[int]int, kind map[int]string) {
	lossless := map[int]bool{}
	for _, p := range q.Lossless() {
		lossless[p] = true
	}
	owner := map[int]int{}
	for p := Priorities - 1; p >= 0; p-- {
		tc, ok := tcOf[p]
		if !ok {
			continue
		}
		if o, taken := owner[tc]; !taken || !lossless[o] || lossless[p] {
			owner[tc] = p
		}
	}
	for tc, p := range owner {
		switch kind[tc] {
		case "strict":
			q.Sched[p] = Sched{Kind: SchedStrict}
		case "ets":
			s := Sched{Kind: SchedDWRR}
			if n, ok := share[tc]; ok {
				s.Percent = &n
			}
			q.Sched[p] = s
		case "":
		default:
			q.Sched[p] = Sched{Kind: kind[tc]}
		}
	}
}

var cosqRow = regexp.MustCompile(`(?i)^\s*(\d+)\s+(enabled|disabled)\s+(\w+)\s*$`)

// NiccliCoSQ reads "niccli -i N qos --ingress --cosq --show": the enabled traffic
// classes that are lossless, and how many are enabled at all.
func NiccliCoSQ(text string) (lossless []int, enabled int, lines []string) {
	for _, l := range Lines(text) {
		m := cosqRow.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		lines = append(lines, strings.TrimSpace(l))
		if !strings.EqualFold(m[2], "enabled") {
			continue
		}
		enabled++
		if n, err := smallInt(m[1], 63); err == nil && strings.EqualFold(m[3], "lossless") {
			lossless = append(lossless, n)
		}
	}
	return lossless, enabled, lines
}

// BnxtCC reads the congestion control attributes of one device, printed as
// "path:value" lines or as "name value" pairs by other means. nil means that
// none of them is there.
func BnxtCC(device, text string) *CC {
	cc := &CC{Device: device, Params: map[string]string{}}
	for _, l := range Lines(text) {
		path, value, ok := strings.Cut(l, ":")
		if !ok {
			continue
		}
		name := path[strings.LastIndexByte(path, '/')+1:]
		if !strings.Contains(path, "/cc/") {
			continue
		}
		cc.setBnxt(name, strings.TrimSpace(value), strings.TrimSpace(l))
	}
	return cc.finishBnxt()
}

// BnxtCCFiles is BnxtCC for attributes that were read one by one: name → value.
func BnxtCCFiles(device string, attrs map[string]string) *CC {
	cc := &CC{Device: device, Params: map[string]string{}}
	for _, name := range sortedKeys(attrs) {
		v := strings.TrimSpace(attrs[name])
		cc.setBnxt(name, v, name+": "+v)
	}
	return cc.finishBnxt()
}

func (c *CC) setBnxt(name, value, line string) {
	c.Lines = append(c.Lines, line)
	n, isNum := number(value)
	switch name {
	case "cnp_dscp":
		if isNum && n >= 0 && n < DSCPs {
			c.CNPDSCP = ptr(int(n))
		}
	case "cnp_prio":
		if isNum && n >= 0 && n < Priorities {
			c.CNPPriority = ptr(int(n))
		}
	}
	c.Params[name] = value
}

// finishBnxt decides on Enabled: marking must be reacted to (ecn_enable) and the
// algorithm must be on (cc_mode).
func (c *CC) finishBnxt() *CC {
	if len(c.Params) == 0 {
		return nil
	}
	ecn, mode := onOff(c.Params["ecn_enable"]), onOff(c.Params["cc_mode"])
	switch {
	case ecn != nil && !*ecn || mode != nil && !*mode:
		c.Enabled = ptr(false)
	case ecn != nil && mode != nil:
		c.Enabled = ptr(true)
	}
	return c
}

// BnxtInfo reads the driver's info file: whether the firmware itself runs
// congestion control (service profile support).
func BnxtInfo(text string) (firmwareManaged *bool, line string) {
	for _, l := range Lines(text) {
		if !strings.Contains(l, "fw_service_prof_type_sup") {
			continue
		}
		f := strings.FieldsFunc(l, func(r rune) bool { return r == ' ' || r == '\t' || r == ':' || r == '=' })
		if len(f) >= 2 {
			return onOff(f[len(f)-1]), strings.TrimSpace(l)
		}
	}
	return nil, ""
}
