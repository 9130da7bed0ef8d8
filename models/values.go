package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Bool is a boolean that accepts every spelling people use (true, false, 1, 0,
// yes, no, on, off, in any case) and refuses everything else. It is written as
// true or false, so that no two layers can read it differently.
type Bool bool

// ParseBool reads a Bool.
func ParseBool(s string) (Bool, error) {
	switch strings.ToLower(s) {
	case "true", "1", "yes", "on":
		return true, nil
	case "false", "0", "no", "off":
		return false, nil
	}
	return false, fmt.Errorf("%q is not a boolean; write true or false", s)
}

// UnmarshalText reads any accepted spelling.
func (b *Bool) UnmarshalText(t []byte) error {
	v, err := ParseBool(string(t))
	if err != nil {
		return err
	}
	*b = v
	return nil
}

// UnmarshalJSON reads what encoding a Bool wrote: true or false.
func (b *Bool) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, (*bool)(b)) }

// IntList is a list of positive integers that may be written as a YAML list,
// one number, "8x16x32", "8 16 32" or "8,16,32".
type IntList []int

// UnmarshalText reads the one-string spellings.
func (l *IntList) UnmarshalText(t []byte) error {
	v, err := ParseIntList(string(t))
	if err != nil {
		return err
	}
	*l = v
	return nil
}

// ParseIntList reads "8x16x32", "8 16 32", "8,16,32" or "8".
func ParseIntList(s string) (IntList, error) {
	fields := strings.Fields(s)
	for _, sep := range []string{"x", ","} {
		if text := strings.ToLower(s); strings.Contains(text, sep) {
			fields = strings.Split(text, sep)
			break
		}
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%q holds no number; write a list such as [8, 16, 32] or 8x16x32", s)
	}
	out := make(IntList, 0, len(fields))
	for _, f := range fields {
		f = strings.TrimSpace(f)
		if f == "" {
			return nil, fmt.Errorf("a number is missing in %q; write a list such as [8, 16, 32] or 8x16x32", s)
		}
		n, err := strconv.Atoi(f)
		if err != nil || strconv.Itoa(n) != f || n < 1 {
			return nil, fmt.Errorf("%q in %q is not a positive whole number", f, s)
		}
		out = append(out, n)
	}
	return out, nil
}

// Scalar is one YAML scalar kept as written, for sweep values whose type is
// that of the key they are put in.
type Scalar string

// UnmarshalText keeps the text.
func (s *Scalar) UnmarshalText(t []byte) error { *s = Scalar(t); return nil }

// EnvMap holds variables that a file sets: name → value. A value may be empty,
// which differs from not being set. Numbers and booleans in YAML arrive as they
// are written.
type EnvMap map[string]EnvValue

// EnvValue is one variable as a file sets it: a plain scalar, or a mapping
// {value: …, custom: true} for a name that no known reader uses.
type EnvValue struct {
	// Value of the variable; may be empty.
	Value string `yaml:"value" json:"value"`
	// Custom says that the variable is meant although no known program reads it.
	Custom Bool `yaml:"custom,omitempty" json:"custom,omitempty"`
}

// UnmarshalText reads the plain scalar form.
func (v *EnvValue) UnmarshalText(t []byte) error { v.Value = string(t); return nil }

// UnmarshalJSON reads what encoding an EnvValue wrote. Unknown keys are refused.
func (v *EnvValue) UnmarshalJSON(data []byte) error {
	type plain EnvValue
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode((*plain)(v))
}

// Plain gives the one-scalar form of a variable that needs no more.
func (v EnvValue) Plain() (text string, ok bool) { return v.Value, !bool(v.Custom) }

// Plain gives the value as it was written.
func (s Scalar) Plain() (text string, ok bool) { return string(s), true }
