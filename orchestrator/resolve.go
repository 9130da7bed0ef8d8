package orchestrator

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
)

// facts are what placeholders stand for, as one process sees them. Empty texts
// are facts that are not known.
type facts struct {
	nodes     []nodeFacts // by plan node
	self      nodeFacts
	resultDir string
}

// nodeFacts are what placeholders can ask of one node.
type nodeFacts struct {
	addr, name, iface string
	rdma              []string
	tc, sl            string
}

// expand puts facts in place of the placeholders of s. known is false when a
// fact that may be missing (RDMA devices, traffic class, service level) is. A
// placeholder that does not exist, or an address that is not known, is an error.
func (f *facts) expand(s string) (out string, known bool, err error) {
	var b strings.Builder
	known = true
	rest := s
	for {
		i := strings.Index(rest, models.PlaceholderOpen)
		if i < 0 {
			b.WriteString(rest)
			return b.String(), known, nil
		}
		j := strings.Index(rest[i:], models.PlaceholderClose)
		if j < 0 {
			return "", false, fmt.Errorf("%q: the placeholder has no end", s)
		}
		name := rest[i+len(models.PlaceholderOpen) : i+j]
		v, optional, err := f.lookup(name)
		if err != nil {
			return "", false, fmt.Errorf("%q: %w", s, err)
		}
		if v == "" {
			if !optional {
				return "", false, fmt.Errorf("%q: %s%s%s is not known", s, models.PlaceholderOpen, name, models.PlaceholderClose)
			}
			known = false
		}
		b.WriteString(rest[:i])
		b.WriteString(v)
		rest = rest[i+j+len(models.PlaceholderClose):]
	}
}

// lookup gives the fact a placeholder names and whether it may be missing.
func (f *facts) lookup(name string) (value string, optional bool, err error) {
	unknown := fmt.Errorf("there is no placeholder %s%s%s", models.PlaceholderOpen, name, models.PlaceholderClose)
	if name == "result.dir" {
		return f.resultDir, false, nil
	}
	if rest, ok := strings.CutPrefix(name, "node."); ok {
		num, what, _ := strings.Cut(rest, ".")
		n, err := strconv.Atoi(num)
		if err != nil || n < 0 || n >= len(f.nodes) {
			return "", false, fmt.Errorf("%w: the plan has %s", unknown, plural(len(f.nodes), "node"))
		}
		switch what {
		case "addr":
			return f.nodes[n].addr, false, nil
		case "name":
			return f.nodes[n].name, false, nil
		}
		return "", false, unknown
	}
	what, ok := strings.CutPrefix(name, "self.")
	if !ok {
		return "", false, unknown
	}
	switch what {
	case "addr":
		return f.self.addr, false, nil
	case "name":
		return f.self.name, false, nil
	case "if":
		return f.self.iface, false, nil
	case "tc":
		return f.self.tc, true, nil
	case "sl":
		return f.self.sl, true, nil
	case "rdma":
		return strings.Join(f.self.rdma, ","), true, nil
	}
	if num, ok := strings.CutPrefix(what, "rdma."); ok {
		n, err := strconv.Atoi(num)
		if err != nil || n < 0 {
			return "", false, unknown
		}
		if n >= len(f.self.rdma) {
			return "", true, nil
		}
		return f.self.rdma[n], true, nil
	}
	return "", false, unknown
}

// argv expands the words of a program. A flag whose value is a fact that is not
// known is left out with its value, as a variable would be; dropped names them.
func (f *facts) argv(words []string) (out, dropped []string, err error) {
	for _, w := range words {
		v, known, err := f.expand(w)
		if err != nil {
			return nil, nil, err
		}
		if known {
			out = append(out, v)
			continue
		}
		if n := len(out); n > 0 && strings.HasPrefix(out[n-1], "-") && !strings.HasPrefix(w, "-") {
			dropped = append(dropped, out[n-1]+" "+w)
			out = out[:n-1]
			continue
		}
		dropped = append(dropped, w)
	}
	return out, dropped, nil
}
