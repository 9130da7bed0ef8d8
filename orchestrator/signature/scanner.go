package signature

import (
	"bytes"
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxLine bounds how much of one line is looked at. The beginning of a longer
// line is matched, the rest is skipped, so that memory stays bounded.
const maxLine = 32 << 10

// maxText bounds the text of a match.
const maxText = 400

// Scanner finds signatures in a stream of log bytes. Write it the log, then ask
// for Matches. The zero value is not ready; use NewScanner.
type Scanner struct {
	// Hide takes what must not be shown out of the text of a line, before that is cut
	// to a readable length; nil: nothing is hidden.
	Hide func([]byte) []byte

	table   []compiled
	peers   []Peer
	marks   []phaseMark
	quick   *filter
	phase   Phase
	line    int
	partial []byte
	skip    bool // inside a line longer than maxLine
	found   map[string]*Match
}

type compiled struct {
	Signature
	re  *regexp.Regexp
	any [][]byte
}

// NewScanner returns a Scanner for the log of one kind of program: an engine's
// name or "router". Entries of other programs are not tried. Of lines that are found
// it is counted which of the peers they name.
func NewScanner(program string, peers ...Peer) *Scanner {
	s := &Scanner{marks: phaseMarks(), phase: PhaseStart, found: map[string]*Match{}, peers: peers}
	for _, sig := range Table() {
		if sig.Engine != "" && sig.Engine != program {
			continue
		}
		c := compiled{Signature: sig}
		if sig.Pattern != "" {
			c.re = regexp.MustCompile(sig.Pattern)
		}
		for _, a := range sig.Any {
			c.any = append(c.any, []byte(a))
		}
		s.table = append(s.table, c)
	}
	var texts [][]byte
	for _, m := range s.marks {
		texts = append(texts, m.text)
	}
	for _, c := range s.table {
		texts = append(texts, c.any...)
	}
	s.quick = newFilter(texts)
	return s
}

// Write takes the next bytes of the log. It never fails. A carriage return ends
// a line as a newline does: progress bars are many lines to a matcher.
func (s *Scanner) Write(p []byte) (int, error) {
	rest := p
	for len(rest) > 0 {
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			s.hold(rest)
			break
		}
		s.hold(rest[:i])
		s.flush()
		// "\r\n" is one end, and "\r" alone moves within a line of the file.
		if rest[i] == '\n' {
			s.line++
		}
		rest = rest[i+1:]
	}
	return len(p), nil
}

// hold keeps the bytes of an unfinished line, as far as they are looked at.
func (s *Scanner) hold(b []byte) {
	if s.skip {
		return
	}
	if room := maxLine - len(s.partial); len(b) >= room {
		b, s.skip = b[:room], true
	}
	s.partial = append(s.partial, b...)
}

func (s *Scanner) flush() {
	if len(s.partial) > 0 {
		s.match(s.partial)
	}
	s.partial, s.skip = s.partial[:0], false
}

func (s *Scanner) match(raw []byte) {
	// Most lines hold nothing to clean, and all of them are compared.
	line := raw
	var text string
	if dirty(raw) {
		text = Clean(raw)
		line = []byte(text)
	}
	if !s.quick.maybe(line) {
		return
	}
	if p, ok := phaseOf(line, s.marks); ok {
		s.phase = p
	}
	for i := range s.table {
		c := &s.table[i]
		if c.Phase != "" && c.Phase != s.phase || !containsAny(line, c.any) || c.re != nil && !c.re.Match(line) {
			continue
		}
		m, ok := s.found[c.ID]
		if !ok {
			if text == "" {
				text = Clean(line)
			}
			if s.Hide != nil {
				text = string(s.Hide([]byte(text)))
			}
			m = &Match{Signature: c.Signature, Line: s.line + 1, Text: cut(text), Peers: map[string]int{}}
			s.found[c.ID] = m
		}
		m.Count++
		for _, p := range s.peers {
			if p.in(line) {
				m.Peers[p.Name]++
			}
		}
		return // the table's order decides which entry explains a line
	}
}

// shownPeers bounds how much of a line is searched for peers.
const shownPeers = 4 << 10

// in says that a line names the peer: a text of it stands there whole, and is not a
// part of a longer name, number or address.
func (p Peer) in(line []byte) bool {
	line = line[:min(len(line), shownPeers)]
	for _, text := range p.Texts {
		if find(line, text, nil) {
			return true
		}
	}
	return p.Addr != "" && find(line, p.Addr, p.ownPort)
}

// find looks for text as a whole; fits, where set, has a say about what follows it.
func find(line []byte, text string, fits func(after []byte) bool) bool {
	for at := 0; ; at++ {
		i := bytes.Index(line[at:], []byte(text))
		if i < 0 {
			return false
		}
		at += i
		end := at + len(text)
		before := at > 0 && (part(line[at-1]) || line[at-1] == '.')
		after := end < len(line) && (part(line[end]) || line[end] == '.' && end+1 < len(line) && part(line[end+1]))
		if !before && !after && (fits == nil || fits(line[end:])) {
			return true
		}
	}
}

// portAfter is a port that belongs to the address before it, as logs write it.
var portAfter = regexp.MustCompile(`^['"\])]?(?::|,?\s*['"]?port['"]?\s*[=:]\s*|,\s*)(\d{1,5})\b`)

// ownPort says that what follows the address is no port of another program.
func (p Peer) ownPort(after []byte) bool {
	m := portAfter.FindSubmatch(after)
	if m == nil {
		return true
	}
	n, err := strconv.Atoi(string(m[1]))
	return err == nil && slices.Contains(p.Ports, n)
}

func part(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_'
}

func dirty(b []byte) bool {
	for _, c := range b {
		if c < 0x20 || c >= 0x7f {
			return true
		}
	}
	return false
}

func containsAny(line []byte, texts [][]byte) bool {
	for _, t := range texts {
		if bytes.Contains(line, t) {
			return true
		}
	}
	return false
}

func cut(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + " …"
}

// Matches gives what was found in the whole log, the earliest line first. It takes
// what was written last as the last line, whole or not.
func (s *Scanner) Matches() []Match {
	s.flush()
	return s.Found()
}

// Found gives what was found in whole lines so far, the earliest line first, for
// logs that are still being written.
func (s *Scanner) Found() []Match {
	out := make([]Match, 0, len(s.found))
	for _, m := range s.found {
		c := *m
		c.Peers = maps.Clone(m.Peers) // the scanner goes on counting
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), strings.Compare(a.ID, b.ID))
	})
	return out
}

// Phase is how far the program came, as far as the log tells.
func (s *Scanner) Phase() Phase { return s.phase }

// Lines finds signatures in lines.
func Lines(program string, lines []string) []Match {
	s := NewScanner(program)
	for _, l := range lines {
		_, _ = s.Write([]byte(l + "\n"))
	}
	return s.Matches()
}

// Best picks the match that explains the failure: the earliest of the strongest
// grade.
func Best(matches []Match) (Match, bool) {
	if len(matches) == 0 {
		return Match{}, false
	}
	return slices.MinFunc(matches, func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.Grade, b.Grade), cmp.Compare(a.Line, b.Line))
	}), true
}
