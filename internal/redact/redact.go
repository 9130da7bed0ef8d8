// Package redact replaces the values of secrets in text on its way to a place
// where people look: logs, events, results, messages.
package redact

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"sort"
)

const (
	// minSecret is the shortest value that is replaced. Shorter ones occur by
	// chance ("1", "true", "8192"), and replacing them would wreck the log.
	minSecret = 6
	// minLine is the shortest line of a secret of several lines that is replaced
	// when it stands alone: programs log such a value line by line.
	minLine = 16
)

// Redactor replaces secrets in a stream, also one that two writes share. A nil
// Redactor knows no secrets. It is not for several goroutines; Bytes and String
// are.
type Redactor struct {
	needles []needle
	first   [256]bool // bytes that a needle starts with
	held    []byte    // the end of what came, which may begin a secret
}

type needle struct {
	name        string
	value, mark []byte
}

// New makes a redactor of name → value. A secret is also found as it looks
// inside a JSON string or a URL, and each long line of it alone.
func New(secrets map[string][]byte) *Redactor {
	r := &Redactor{}
	seen := map[string]bool{}
	add := func(name string, form []byte) {
		if len(form) < minSecret || seen[string(form)] {
			return
		}
		seen[string(form)] = true
		r.needles = append(r.needles, needle{name, form, []byte("[redacted:" + name + "]")})
		r.first[form[0]] = true
	}
	for name, value := range secrets {
		if len(value) < minSecret {
			continue
		}
		add(name, bytes.Clone(value))
		add(name, jsonForm(value, true))
		add(name, jsonForm(value, false))
		add(name, []byte(url.QueryEscape(string(value))))
		if bytes.IndexByte(value, '\n') < 0 {
			continue
		}
		for line := range bytes.SplitSeq(value, []byte{'\n'}) {
			if line = bytes.TrimSpace(line); len(line) >= minLine {
				add(name, bytes.Clone(line))
			}
		}
	}
	// The longest first: one secret may begin like another. By name for equal
	// lengths, so that the log does not depend on the order of a map.
	sort.Slice(r.needles, func(i, j int) bool {
		a, b := r.needles[i], r.needles[j]
		if len(a.value) != len(b.value) {
			return len(a.value) > len(b.value)
		}
		return string(a.mark) < string(b.mark)
	})
	return r
}

// jsonForm is a value as it stands between the quotes of a JSON string, with or
// without the escapes that keep it harmless in HTML.
func jsonForm(value []byte, html bool) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	// A string can always be encoded.
	_ = e.Encode(string(value))
	return bytes.Clone(b.Bytes()[1 : b.Len()-2])
}

// Bytes returns b with the secrets in it replaced. What a stream holds back
// plays no part.
func (r *Redactor) Bytes(b []byte) []byte {
	if r == nil || len(r.needles) == 0 {
		return b
	}
	one := Redactor{needles: r.needles, first: r.first}
	out := one.Write(b)
	// No more will come: the beginning of a secret is no secret.
	return append(out, one.rest()...)
}

// String is Bytes for text.
func (r *Redactor) String(s string) string {
	if r == nil || len(r.needles) == 0 {
		return s
	}
	return string(r.Bytes([]byte(s)))
}

// Write takes a part of a stream in and returns what may be passed on. Its
// result is valid until the next call.
func (r *Redactor) Write(p []byte) []byte {
	if r == nil || len(r.needles) == 0 {
		return p
	}
	in := append(r.held, p...)
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		if !r.first[in[i]] {
			j := i + 1
			for j < len(in) && !r.first[in[j]] {
				j++
			}
			out = append(out, in[i:j]...)
			i = j
			continue
		}
		n, partial := r.match(in[i:])
		switch {
		case partial:
			r.held = append([]byte(nil), in[i:]...)
			return out
		case n != nil:
			out = append(out, n.mark...)
			i += len(n.value)
		default:
			out = append(out, in[i])
			i++
		}
	}
	r.held = nil
	return out
}

// match finds the longest secret that b starts with. partial says that b is too
// short to tell.
func (r *Redactor) match(b []byte) (n *needle, partial bool) {
	for i := range r.needles {
		v := r.needles[i].value
		if len(v) > len(b) {
			if bytes.HasPrefix(v, b) {
				return nil, true
			}
			continue
		}
		if bytes.HasPrefix(b, v) {
			return &r.needles[i], false
		}
	}
	return nil, false
}

// Flush returns what was held back when nothing more comes. A beginning long
// enough to be a secret itself is replaced like one.
func (r *Redactor) Flush() []byte {
	if r == nil {
		return nil
	}
	return r.end(true)
}

// rest is Flush for text that is whole: a beginning of a secret is left alone.
func (r *Redactor) rest() []byte { return r.end(false) }

func (r *Redactor) end(cut bool) []byte {
	b := r.held
	r.held = nil
	var out []byte
	for i := 0; i < len(b); {
		n, begun := r.matchLast(b[i:])
		switch {
		case n != nil:
			out = append(out, n.mark...)
			i += len(n.value)
		case begun && cut:
			return append(out, "[redacted]"...)
		default:
			out = append(out, b[i])
			i++
		}
	}
	return out
}

// matchLast is match for the last bytes there are: the longest secret that b
// starts with, else whether b is a telling beginning of one.
func (r *Redactor) matchLast(b []byte) (n *needle, begun bool) {
	for i := range r.needles {
		if bytes.HasPrefix(b, r.needles[i].value) {
			return &r.needles[i], false
		}
		begun = begun || len(b) >= minSecret && bytes.HasPrefix(r.needles[i].value, b)
	}
	return nil, begun
}

// Holds says whether b contains a secret.
func (r *Redactor) Holds(b []byte) bool { return len(r.Found(b)) > 0 }

// Found names the secrets that b contains, sorted.
func (r *Redactor) Found(b []byte) []string {
	if r == nil {
		return nil
	}
	var out []string
	for _, n := range r.needles {
		if !slices.Contains(out, n.name) && bytes.Contains(b, n.value) {
			out = append(out, n.name)
		}
	}
	slices.Sort(out)
	return out
}
