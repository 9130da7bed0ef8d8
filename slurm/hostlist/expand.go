package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxHosts bounds what one expression may expand to. It is Slurm's own limit
// for a range, far above any real job, and keeps a slip such as n[1-999999999]
// from eating the memory.
const MaxHosts = 65536

// SyntaxError says where an expression cannot be read.
type SyntaxError struct {
	Input string
	Pos   int // byte offset in Input
	Msg   string
}

// Error names the expression and the column, counted from 1.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("host list %q: column %d: %s", e.Input, e.Pos+1, e.Msg)
}

// Expand returns the hosts of an expression in the order written; with several
// brackets in one name the last varies fastest. Hosts are separated by commas or
// blanks; blanks around names and numbers and empty elements do not count, and a
// host may occur twice (see Validate). Numbers are padded to the width of a
// range's lower bound, as Slurm does. Unlike Slurm's, a name may go on after a
// bracket (n[1-2]-ib). The error is a *SyntaxError.
func Expand(s string) ([]string, error) {
	p := &parser{in: s}
	for p.pos < len(s) {
		if isSeparator(s[p.pos]) {
			p.pos++
			continue
		}
		if err := p.element(); err != nil {
			return nil, err
		}
	}
	return p.hosts, nil
}

// parser reads one expression from left to right.
type parser struct {
	in    string
	pos   int
	hosts []string
}

func (p *parser) fail(pos int, format string, args ...any) error {
	return &SyntaxError{Input: p.in, Pos: pos, Msg: fmt.Sprintf(format, args...)}
}

// element reads one host name with its brackets and appends what it stands for.
func (p *parser) element() error {
	start := p.pos
	names := []string{""}
	for p.pos < len(p.in) && !isSeparator(p.in[p.pos]) {
		at := p.pos
		parts := []string{p.literal()}
		switch {
		case p.pos > at:
		case p.in[p.pos] == '[':
			var err error
			if parts, err = p.bracket(); err != nil {
				return err
			}
		case p.in[p.pos] == ']':
			return p.fail(p.pos, "']' without a '[' before it")
		default:
			return p.fail(p.pos, "%q cannot be part of a host name", p.rune())
		}
		if len(p.hosts)+len(names)*len(parts) > MaxHosts {
			return p.fail(start, "more than %d hosts", MaxHosts)
		}
		names = product(names, parts)
	}
	if c := names[0][0]; c == '-' || c == '.' {
		return p.fail(start, "a host name cannot begin with %q", c)
	}
	p.hosts = append(p.hosts, names...)
	return nil
}

// literal reads the characters of a name up to a bracket or separator.
func (p *parser) literal() string {
	at := p.pos
	for p.pos < len(p.in) && isNameByte(p.in[p.pos]) {
		p.pos++
	}
	return p.in[at:p.pos]
}

// rune is the character at the current position, for messages.
func (p *parser) rune() rune {
	for _, r := range p.in[p.pos:] {
		return r
	}
	return 0
}

// bracket reads "[1-3,07]" and returns the numbers as they are written.
func (p *parser) bracket() ([]string, error) {
	open := p.pos
	size := strings.IndexAny(p.in[open+1:], "[]")
	if size < 0 || p.in[open+1+size] == '[' {
		return nil, p.fail(open, "'[' is not closed")
	}
	var out []string
	at := open + 1
	for part := range strings.SplitSeq(p.in[at:at+size], ",") {
		var err error
		if out, err = p.numbers(out, part, at); err != nil {
			return nil, err
		}
		at += len(part) + 1
	}
	p.pos = open + 1 + size + 1
	return out, nil
}

// numbers appends what "7" or "08-11", found at offset at, stands for.
func (p *parser) numbers(out []string, part string, at int) ([]string, error) {
	low, high, isRange := strings.Cut(part, "-")
	lowAt, highAt := at+indent(low), at+len(low)+1+indent(high)
	low, high = strings.Trim(low, blanks), strings.Trim(high, blanks)
	first, err := p.number(low, lowAt)
	if err != nil {
		return nil, err
	}
	if !isRange {
		return p.append(out, low, at)
	}
	last, err := p.number(high, highAt)
	if err != nil {
		return nil, err
	}
	switch {
	case last < first:
		return nil, p.fail(lowAt, "range %s-%s runs backwards", low, high)
	case high[0] == '0' && len(high) > len(low):
		return nil, p.fail(lowAt, "range %s-%s pads its ends differently; write both with the same number of digits", low, high)
	case last-first >= MaxHosts:
		return nil, p.fail(lowAt, "range %s-%s holds more than %d hosts", low, high, MaxHosts)
	}
	for n := first; n <= last; n++ {
		if out, err = p.append(out, pad(n, len(low)), at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (p *parser) append(out []string, number string, at int) ([]string, error) {
	if len(out) == MaxHosts {
		return nil, p.fail(at, "more than %d hosts", MaxHosts)
	}
	return append(out, number), nil
}

// number reads digits found at offset at.
func (p *parser) number(s string, at int) (int, error) {
	if s == "" {
		return 0, p.fail(at, "a number is missing")
	}
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, p.fail(at, "%q is not a number", s)
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil || len(s) > maxDigits {
		return 0, p.fail(at, "%s has more than %d digits", s, maxDigits)
	}
	return n, nil
}

// maxDigits keeps numbers inside what Slurm itself can count with.
const maxDigits = 15

const blanks = " \t\r\n"

func isSeparator(c byte) bool { return c == ',' || strings.IndexByte(blanks, c) >= 0 }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isNameByte(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '_' || c == '.'
}

// indent is how many blanks s begins with.
func indent(s string) int { return len(s) - len(strings.TrimLeft(s, blanks)) }

// pad writes n with at least width digits.
func pad(n, width int) string {
	s := strconv.Itoa(n)
	return strings.Repeat("0", max(0, width-len(s))) + s
}

// product joins every name with every part, parts varying fastest.
func product(names, parts []string) []string {
	out := make([]string, 0, len(names)*len(parts))
	for _, n := range names {
		for _, p := range parts {
			out = append(out, n+p)
		}
	}
	return out
}
