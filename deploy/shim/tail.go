package shim

import (
	"strings"
	"unicode"
)

const (
	tailLines = 50
	// tailLine bounds one kept line in bytes. Longer ones are cut; what was cut
	// is in the log file.
	tailLine = 4 << 10
)

// tail keeps the last lines of a stream as a person would read them: without
// colours, with only the last state of a progress bar, and without anything
// that could move a terminal's cursor.
type tail struct {
	lines  [tailLines]string
	n      int // lines ever completed
	line   []byte
	cut    bool
	cr     bool // a carriage return came last
	escape escapeState
}

// escapeState is where in a terminal control sequence the stream is.
type escapeState int

const (
	escNone   escapeState = iota
	escStart              // after ESC
	escCSI                // after ESC [
	escString             // in an OSC, DCS, … string
	escEnd                // after ESC inside such a string
	escSkip               // one more byte belongs to the sequence
)

func (t *tail) write(p []byte) {
	for len(p) > 0 {
		c := p[0]
		if t.inEscape(c) {
			p = p[1:]
			continue
		}
		switch c {
		case '\n':
			t.end()
			p = p[1:]
		case '\r':
			t.cr = true
			p = p[1:]
		default:
			n := 1
			for n < len(p) && p[n] >= 0x20 {
				n++
			}
			t.add(p[:n])
			p = p[n:]
		}
	}
}

// add puts text on the present line.
func (t *tail) add(text []byte) {
	if t.cr {
		t.line, t.cut, t.cr = t.line[:0], false, false
	}
	room := tailLine - len(t.line)
	if len(text) > room {
		text, t.cut = text[:room], true
	}
	t.line = append(t.line, text...)
}

// inEscape says that c belongs to a control sequence.
func (t *tail) inEscape(c byte) bool {
	switch t.escape {
	case escStart:
		switch {
		case c == '[':
			t.escape = escCSI
		case c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X':
			t.escape = escString
		case c >= 0x20 && c <= 0x2f:
			t.escape = escSkip
		default:
			t.escape = escNone
		}
		return true
	case escSkip:
		t.escape = escNone
		return true
	case escCSI:
		switch {
		case c >= 0x40 && c <= 0x7e:
			t.escape = escNone
			return true
		case c >= 0x20 && c <= 0x3f:
			return true
		}
		t.escape = escNone // broken off
	case escString:
		switch c {
		case 0x07:
			t.escape = escNone
			return true
		case 0x1b:
			t.escape = escEnd
			return true
		case '\n':
			t.escape = escNone // a string that never ends must not eat the log
		default:
			return true
		}
	case escEnd:
		t.escape = escNone
		return true
	}
	if c == 0x1b {
		t.escape = escStart
		return true
	}
	return false
}

// end completes a line.
func (t *tail) end() {
	t.lines[t.n%tailLines] = t.text()
	t.n++
	t.line, t.cut, t.cr = t.line[:0], false, false
}

// text is the present line, made safe to print.
func (t *tail) text() string {
	s := strings.ToValidUTF8(string(t.line), "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return '\uFFFD'
		}
		return r
	}, s)
	if t.cut {
		s += "…"
	}
	return s
}

// all returns the kept lines, oldest first, and a line that has no end yet.
func (t *tail) all() []string {
	out := make([]string, 0, tailLines)
	for i := max(0, t.n-tailLines); i < t.n; i++ {
		out = append(out, t.lines[i%tailLines])
	}
	if len(t.line) > 0 {
		out = append(out, t.text())
		out = out[max(0, len(out)-tailLines):]
	}
	return out
}

// last returns the newest line that is not empty.
func (t *tail) last() string {
	if s := t.text(); s != "" {
		return s
	}
	for i := t.n - 1; i >= max(0, t.n-tailLines); i-- {
		if s := t.lines[i%tailLines]; s != "" {
			return s
		}
	}
	return ""
}
