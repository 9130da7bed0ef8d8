package hostlist

import (
	"errors"
	"fmt"
	"strings"
)

// Validate expands an expression that a person wrote and refuses what is most
// likely a slip: an empty element, a host named twice, or, with count above
// zero, another number of hosts than count. All that is wrong is reported, with
// the expanded list where it helps.
func Validate(s string, count int) ([]string, error) {
	hosts, err := Expand(s)
	if err != nil {
		return nil, err
	}
	var errs []error
	if at := emptyElement(s); at >= 0 {
		errs = append(errs, &SyntaxError{Input: s, Pos: at, Msg: "an element is empty"})
	}
	seen := make(map[string]int, len(hosts))
	for _, h := range hosts {
		seen[h]++
		if seen[h] == 2 {
			errs = append(errs, fmt.Errorf("host list %q names %s more than once", s, h))
		}
	}
	if count > 0 && len(hosts) != count {
		errs = append(errs, fmt.Errorf("host list %q is %d hosts, not %d: %s", s, len(hosts), count, strings.Join(hosts, " ")))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return hosts, nil
}

// emptyElement is the offset of the comma outside brackets that has no host
// before or after it, or -1. The expression is known to be well formed.
func emptyElement(s string) int {
	filled, depth, comma := false, 0, -1
	for i := range len(s) {
		switch c := s[i]; {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth == 0:
			if !filled {
				return i
			}
			filled, comma = false, i
		case !isSeparator(c):
			filled = true
		}
	}
	if !filled {
		return comma
	}
	return -1
}
