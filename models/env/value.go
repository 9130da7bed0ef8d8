package env

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
)

// Canonical checks a value against what the readers of v understand and returns
// it as they read it. Only booleans ever change: a spelling that people use but
// the reader does not know (yes, on, True) becomes the one it knows, so that no
// two layers can read it differently. Errors say what was expected.
func (v Var) Canonical(value string) (string, error) {
	if value == "" {
		switch v.Kind {
		case Bool, Flag01, TrueFalse, Int, Number, Size, JSON, Interface:
			if v.EmptyMeans == "" {
				return "", fmt.Errorf("is empty, but %s; to leave it unset remove it", v.expects())
			}
		}
		return value, nil
	}
	if len(v.Allowed) > 0 {
		if !slices.Contains(v.Allowed, value) {
			return "", fmt.Errorf("is %q, but %s", value, v.expects())
		}
		return value, nil
	}
	bad := fmt.Errorf("is %q, but %s", value, v.expects())
	switch v.Kind {
	case Bool, Flag01, TrueFalse:
		b, err := models.ParseBool(value)
		if err != nil {
			return "", bad
		}
		return v.spell(value, bool(b)), nil
	case Int:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return "", bad
		}
		if v.Max > 0 && n > v.Max {
			return "", fmt.Errorf("is %d, but at most %d is possible", n, v.Max)
		}
	case Number:
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return "", bad
		}
	case Size:
		if value[0] < '0' || value[0] > '9' {
			return "", bad
		}
	case JSON:
		if !json.Valid([]byte(value)) {
			return "", fmt.Errorf("is not valid JSON")
		}
	case Interface:
		if strings.ContainsAny(value, ",^=: \t") {
			return "", fmt.Errorf("is %q, but must be one existing interface name: no list, no prefix, no exclusion", value)
		}
	}
	return value, nil
}

// spell writes b for the readers of v; value is kept when they know it.
func (v Var) spell(value string, b bool) string {
	switch v.Kind {
	case Flag01:
		if b {
			return "1"
		}
		return "0"
	case TrueFalse:
		return strconv.FormatBool(b)
	}
	if value == "1" || value == "0" || value == "true" || value == "false" {
		return value
	}
	if b {
		return "1"
	}
	return "0"
}

// expects says what values v takes.
func (v Var) expects() string {
	if len(v.Allowed) > 0 {
		return "must be one of " + strings.Join(v.Allowed, ", ")
	}
	switch v.Kind {
	case Bool, Flag01, TrueFalse:
		return "must be true or false"
	case Size:
		return "must be a size, such as 64gb"
	case Interface:
		return "must be one interface name"
	case JSON:
		return "must be JSON"
	}
	return "must be a " + string(v.Kind)
}
