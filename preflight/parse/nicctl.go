package parse

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	nicHeader = regexp.MustCompile(`(?i)^\s*NIC\s*:\s*(\S+)?\s*(?:\(([^)]*)\))?`)
	schedRow  = regexp.MustCompile(`(?i)^\s*(\d)\s+([A-Za-z][A-Za-z_-]*)\s+(\S+)\s+(\S+)\s*$`)
)

// block is the part of a nicctl report that belongs to one NIC.
type block struct {
	nic   string // PCI address, or the id where none is printed
	lines []string
}

// header matches the line that begins a NIC's part.
func header(l string) []string {
	if t := strings.TrimLeft(l, " \t"); len(t) < 4 || !strings.EqualFold(t[:3], "nic") {
		return nil
	}
	return nicHeader.FindStringSubmatch(l)
}

// nicBlocks splits a report at its "NIC :" lines. What stands before the first
// is dropped: banners, progress, warnings.
func nicBlocks(text string) []block {
	var out []block
	for _, l := range Lines(text) {
		if m := header(l); m != nil {
			nic := m[1]
			if bdf, ok := BDF(m[2]); ok {
				nic = bdf
			}
			out = append(out, block{nic: nic})
			continue
		}
		if len(out) > 0 {
			b := &out[len(out)-1]
			b.lines = append(b.lines, l)
		}
	}
	return out
}

// NicctlQoS reads "nicctl show qos": one QoS for each port of each NIC.
func NicctlQoS(text string) []QoS {
	var out []QoS
	for _, b := range nicBlocks(text) {
		q := newQoS(b.nic)
		listed := map[int]int{}
		ports := 0
		flush := func() {
			q.crossCheck(listed)
			out = append(out, *q)
		}
		for _, l := range b.lines {
			label, value, ok := KV(l)
			switch {
			case ok && label == "port":
				if ports++; ports > 1 {
					flush()
					q, listed = newQoS(b.nic), map[int]int{}
				}
			case ok && strings.HasPrefix(label, "classification type"):
				q.Class = strings.ToLower(value)
				q.keep(LineClass, l)
			case ok && label == "dscp bitmap":
				q.bitmap(value, l)
			case ok && label == "dscp":
				q.list(value, l, listed)
			case ok && strings.HasPrefix(label, "pfc priority bitmap"):
				q.keep(LinePFC, l)
				if n, err := strconv.ParseUint(value, 0, 64); err == nil && n < 1<<Priorities {
					q.PFC = &n
				} else {
					q.problem("PFC priority bitmap %q is not a bitmap of 8 priorities", value)
				}
			case ok && strings.HasPrefix(label, "pfc no-drop priorit"):
				q.keep(LinePFC, l)
				q.NoDropPrinted = true
				prios, err := IntList(noneIsEmpty(value), Priorities-1)
				if err != nil {
					q.problem("PFC no-drop priorities: %v", err)
				}
				q.NoDrop = append(q.NoDrop, prios...)
			default:
				q.row(l)
			}
		}
		flush()
	}
	return out
}

func noneIsEmpty(s string) string {
	if NA(s) {
		return ""
	}
	return s
}

// arrow splits "0x8 ==> priority : 3".
func arrow(value string) (left string, prio int, ok bool) {
	left, right, ok := strings.Cut(value, "==>")
	if !ok {
		return "", 0, false
	}
	if _, r, found := strings.Cut(right, ":"); found {
		right = r
	}
	n, err := smallInt(strings.TrimRight(strings.TrimSpace(right), ","), Priorities-1)
	return strings.TrimSpace(left), n, err == nil
}

// bitmap reads one line of the DSCP map in its unambiguous form.
func (q *QoS) bitmap(value, line string) {
	q.keep(LineMap, line)
	left, prio, ok := arrow(value)
	bits, err := strconv.ParseUint(left, 0, 64)
	if !ok || err != nil {
		q.problem("DSCP bitmap line %q is not readable", strings.TrimSpace(line))
		return
	}
	for d := range DSCPs {
		if bits&(1<<d) != 0 {
			q.assign(d, prio)
		}
	}
}

// list reads one line of the DSCP map in its list form.
func (q *QoS) list(value, line string, listed map[int]int) {
	q.keep(LineMap, line)
	left, prio, ok := arrow(value)
	dscps, err := IntList(noneIsEmpty(left), DSCPs-1)
	if !ok || err != nil {
		q.problem("DSCP line %q is not readable", strings.TrimSpace(line))
		return
	}
	for _, d := range dscps {
		if old, dup := listed[d]; dup && old != prio {
			q.problem("the DSCP lists map DSCP %d to priority %d and to %d", d, old, prio)
		}
		listed[d] = prio
	}
}

// crossCheck compares the lists with the bitmaps, and uses the lists where no
// bitmap was printed.
func (q *QoS) crossCheck(listed map[int]int) {
	if len(q.Map) == 0 {
		q.Map = listed
		return
	}
	if len(listed) == 0 {
		return
	}
	for d := range DSCPs {
		b, inMap := q.Map[d]
		l, inList := listed[d]
		if inMap != inList || b != l {
			q.problem("DSCP %d: the bitmap says %s, the list says %s", d, prioText(b, inMap), prioText(l, inList))
		}
	}
}

func prioText(p int, ok bool) string {
	if !ok {
		return "unmapped"
	}
	return "priority " + strconv.Itoa(p)
}

// row reads one row of the scheduling table.
func (q *QoS) row(l string) {
	m := schedRow.FindStringSubmatch(l)
	if m == nil {
		return
	}
	prio, err := smallInt(m[1], Priorities-1)
	if err != nil {
		return
	}
	q.keep(LineSched, l)
	s := Sched{Kind: strings.ToLower(m[2])}
	if s.Kind == "sp" {
		s.Kind = SchedStrict
	}
	if n, ok := number(m[3]); ok && !NA(m[3]) {
		s.Percent = ptr(int(n))
	}
	if !NA(m[4]) {
		s.Limit = m[4]
	}
	q.Sched[prio] = s
}

// NicctlDCQCN reads "nicctl show dcqcn": one CC for each RDMA device. With
// several profiles on a device, the one that is enabled counts.
func NicctlDCQCN(text string) []CC {
	var out []CC
	for _, b := range nicBlocks(text) {
		var cur *CC
		profiles := 0
		for _, l := range b.lines {
			label, value, ok := KV(l)
			if !ok {
				continue
			}
			switch {
			case label == "roce device" || label == "rdma device":
				out = append(out, CC{NIC: b.nic, Device: value, Params: map[string]string{}})
				cur = &out[len(out)-1]
				profiles = 0
			case cur == nil:
			case label == "dcqcn profile id":
				if profiles++; profiles > 1 && (cur.Enabled == nil || !*cur.Enabled) {
					cur.Enabled, cur.CNPDSCP, cur.Params, cur.Lines = nil, nil, map[string]string{}, nil
				} else if profiles > 1 {
					cur = nil // a further profile beside the enabled one
					continue
				}
				cur.Params[label] = value
				cur.Lines = append(cur.Lines, strings.TrimSpace(l))
			case label == "status":
				cur.Lines = append(cur.Lines, strings.TrimSpace(l))
				cur.Enabled = onOff(value)
			case strings.HasPrefix(label, "dscp value used for cnp"):
				cur.Lines = append(cur.Lines, strings.TrimSpace(l))
				if n, err := smallInt(value, DSCPs-1); err == nil {
					cur.CNPDSCP = &n
				}
			default:
				cur.Params[label] = value
				cur.Lines = append(cur.Lines, strings.TrimSpace(l))
			}
		}
	}
	return out
}

func onOff(s string) *bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "enabled", "enable", "on", "yes", "1", "0x1", "true", "up":
		return ptr(true)
	case "disabled", "disable", "off", "no", "0", "0x0", "false", "down":
		return ptr(false)
	}
	return nil
}

// NicctlFirmware reads "nicctl show version firmware", or lines of the form
// "NIC: version": NIC → the versions of its firmware partitions. Rescue ("gold")
// partitions are left out.
func NicctlFirmware(text string) map[string][]string {
	out := map[string][]string{}
	blocks := nicBlocks(text)
	if len(blocks) == 0 {
		for _, l := range Lines(text) {
			name, v, ok := strings.Cut(l, ":")
			if v = strings.TrimSpace(v); ok && IsVersion(v) && len(strings.Fields(name)) == 1 {
				out[strings.TrimSpace(name)] = []string{v}
			}
		}
		return out
	}
	for _, b := range blocks {
		var versions []string
		for _, l := range b.lines {
			label, v, ok := KV(l)
			if ok && strings.HasPrefix(label, "firmware") && !strings.Contains(label, "gold") && IsVersion(v) {
				versions = append(versions, v)
			}
		}
		out[b.nic] = versions
	}
	return out
}

// NicctlHost reads "nicctl show version host-software": component → version.
func NicctlHost(text string) map[string]string {
	out := map[string]string{}
	for _, l := range Lines(text) {
		if label, v, ok := KV(l); ok && IsVersion(v) {
			out[label] = v
		}
	}
	return out
}
