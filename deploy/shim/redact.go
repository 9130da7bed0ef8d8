package shim

import (
	"bytes"
	"encoding/json"
	"net/url"
	"sort"
)

// minSecret is the shortest value that is redacted. Shorter ones occur by
// chance ("1", "true", "8192"), and replacing them would wreck the log.
const minSecret = 6

// redactor replaces secrets in a stream, also one that two writes share.
type redactor struct {
	needles []needle
	first   [256]bool // bytes that a needle starts with
	held    []byte    // the end of what came, which may begin a secret
}

type needle struct{ value, mark []byte }

// newRedactor makes a redactor of name → value. A secret is also found as it
// looks inside a JSON string or a URL.
func newRedactor(secrets map[string][]byte) *redactor {
	r := &redactor{}
	seen := map[string]bool{}
	for name, value := range secrets {
		for _, form := range [][]byte{value, jsonForm(value), []byte(url.QueryEscape(string(value)))} {
			if len(value) < minSecret || seen[string(form)] {
				continue
			}
			seen[string(form)] = true
			r.needles = append(r.needles, needle{form, []byte("[redacted:" + name + "]")})
			r.first[form[0]] = true
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

func jsonForm(value []byte) []byte {
	b, err := json.Marshal(string(value))
	if err != nil || len(b) < 2 {
		return value
	}
	return b[1 : len(b)-1]
}

// write takes output in and returns what may be passed on. Its result is valid
// until the next call.
func (r *redactor) write(p []byte) []byte {
	if len(r.needles) == 0 {
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
func (r *redactor) match(b []byte) (n *needle, partial bool) {
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

// flush returns what was held back when nothing more comes. A beginning long
// enough to be a secret itself is replaced like one.
func (r *redactor) flush() []byte {
	b := r.held
	r.held = nil
	var out []byte
	for i := 0; i < len(b); {
		n, begun := r.matchLast(b[i:])
		switch {
		case n != nil:
			out = append(out, n.mark...)
			i += len(n.value)
		case begun:
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
func (r *redactor) matchLast(b []byte) (n *needle, begun bool) {
	for i := range r.needles {
		if bytes.HasPrefix(b, r.needles[i].value) {
			return &r.needles[i], false
		}
		begun = begun || len(b) >= minSecret && bytes.HasPrefix(r.needles[i].value, b)
	}
	return nil, begun
}
