package parse

import (
	"encoding/json"
	"strings"
)

// documents decodes the JSON documents in a text one after the other and drops
// what stands between them: some tools print several, or prose around them. It
// gives up after many brackets that begin no document.
func documents(text string) []any {
	var out []any
	for misses := 0; misses < 64 && len(text) > 0; {
		i := strings.IndexAny(text, "{[")
		if i < 0 {
			break
		}
		text = text[i:]
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) != nil {
			text = text[1:]
			misses++
			continue
		}
		out = append(out, v)
		text = text[dec.InputOffset():]
	}
	return out
}

// get walks maps by key; nil where it cannot go on.
func get(v any, keys ...string) any {
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

// list is v as a list; a single object counts as a list of one.
func list(v any) []any {
	switch v := v.(type) {
	case []any:
		return v
	case map[string]any:
		return []any{v}
	}
	return nil
}

// measure reads a number that is plain, text, or {"value": …, "unit": …}. unit is
// empty where none is given. "N/A" is not a number.
func measure(v any) (n float64, unit string, ok bool) {
	switch v := v.(type) {
	case map[string]any:
		n, _, ok = measure(v["value"])
		return n, str(v["unit"]), ok
	case json.Number:
		f, err := v.Float64()
		return f, "", err == nil
	case string:
		if NA(v) {
			return 0, "", false
		}
		f, ok := float(v)
		return f, strings.TrimLeft(strings.TrimSpace(v), "0123456789.- "), ok
	}
	return 0, "", false
}

// measureBytes is measure for amounts of memory.
func measureBytes(v any) *int64 {
	n, unit, ok := measure(v)
	if !ok || n < 0 {
		return nil
	}
	mult, ok := byteUnit(unit)
	if !ok || n*float64(mult) > 1<<62 {
		return nil
	}
	return ptr(int64(n * float64(mult)))
}

func measureInt(v any) *int64 {
	n, _, ok := measure(v)
	if !ok || n > 1<<62 || n < -(1<<62) {
		return nil
	}
	return ptr(int64(n))
}
