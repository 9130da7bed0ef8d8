package parse

import (
	"regexp"
	"strings"
)

var onOffPair = regexp.MustCompile(`(\d):(on|off)\b`)

// DCBPFC reads "dcb pfc show dev X", on one line or several.
func DCBPFC(text string) (bits *uint64, line string) {
	for _, l := range Lines(text) {
		_, rest, ok := strings.Cut(l, "prio-pfc")
		if !ok {
			continue
		}
		var b uint64
		for _, m := range onOffPair.FindAllStringSubmatch(rest, -1) {
			if p, err := smallInt(m[1], Priorities-1); err == nil && m[2] == "on" {
				b |= 1 << p
			}
		}
		return &b, strings.TrimSpace(l)
	}
	return nil, ""
}

// dscpNames are the code points that have a name.
func dscpName(s string) (int, bool) {
	s = strings.ToUpper(s)
	switch s {
	case "EF":
		return 46, true
	case "VA", "VOICE-ADMIT":
		return 44, true
	case "LE":
		return 1, true
	case "DF", "BE":
		return 0, true
	}
	if n, ok := strings.CutPrefix(s, "CS"); ok && len(n) == 1 && n[0] >= '0' && n[0] <= '7' {
		return int(n[0]-'0') * 8, true
	}
	if n, ok := strings.CutPrefix(s, "AF"); ok && len(n) == 2 && n[0] >= '1' && n[0] <= '4' && n[1] >= '1' && n[1] <= '3' {
		return int(n[0]-'0')*8 + int(n[1]-'0')*2, true
	}
	return 0, false
}

// DCBApp reads the DSCP part of "dcb app show dev X", with numbers, hexadecimal
// numbers or names: DSCP → priority.
func DCBApp(text string) (dscp map[int]int, lines []string) {
	dscp = map[int]int{}
	for _, l := range Lines(text) {
		_, rest, ok := strings.Cut(l, "dscp-prio")
		if !ok {
			continue
		}
		lines = append(lines, strings.TrimSpace(l))
		for _, w := range strings.Fields(rest) {
			name, prio, ok := strings.Cut(w, ":")
			if !ok {
				break // the next table on the same line
			}
			p, err := smallInt(prio, Priorities-1)
			if err != nil {
				continue
			}
			if d, ok := dscpName(name); ok {
				dscp[d] = p
			} else if n, ok := number(name); ok && n >= 0 && n < DSCPs {
				dscp[int(n)] = p
			}
		}
	}
	return dscp, lines
}

// DCB joins both reports to a QoS. Either may be empty; nil means both are.
func DCB(nic, pfc, app string) *QoS {
	q := newQoS(nic)
	q.DefaultZero = true
	bits, line := DCBPFC(pfc)
	if bits != nil {
		q.PFC = bits
		q.keep(LinePFC, line)
	}
	m, lines := DCBApp(app)
	if len(lines) > 0 {
		q.Map = m
		q.Lines[LineMap] = lines
		if len(m) > 0 {
			// DSCP entries in the table are what makes the driver trust DSCP.
			q.Class = "dscp"
			q.keep(LineClass, lines[0])
		}
	}
	if bits == nil && len(lines) == 0 {
		return nil
	}
	return q
}
