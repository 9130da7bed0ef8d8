package shim

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/models/env"
)

// EncodeEnv writes variables the way EnvFile holds them: any bytes but NUL.
func EncodeEnv(entries []deploy.EnvEntry) ([]byte, error) {
	var buf bytes.Buffer
	for _, e := range entries {
		if e.Name == "" || strings.ContainsAny(e.Name, "=\x00") {
			return nil, &deploy.Fault{Class: deploy.ClassEnvironment, Msg: fmt.Sprintf("%q is not a name of a variable", e.Name)}
		}
		if bytes.IndexByte(e.Value, 0) >= 0 {
			return nil, &deploy.Fault{Class: deploy.ClassEnvironment, Msg: fmt.Sprintf("the value of %s holds a NUL byte, which no process can be given", e.Name)}
		}
		if n := len(e.Name) + 1 + len(e.Value); n > env.MaxBytes {
			return nil, &deploy.Fault{Class: deploy.ClassEnvironment,
				Msg:  fmt.Sprintf("%s has %d bytes with its name; the kernel takes at most %d for one variable", e.Name, n, env.MaxBytes),
				Hint: "put the content into a file and pass its path"}
		}
		buf.WriteString(e.Name)
		buf.WriteByte('=')
		buf.Write(e.Value)
		buf.WriteByte(0)
	}
	return buf.Bytes(), nil
}

// decodeEnv reads what EncodeEnv wrote.
func decodeEnv(b []byte) ([]string, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if b[len(b)-1] != 0 {
		return nil, fmt.Errorf("read environment: the file is cut off after %d bytes", len(b))
	}
	var out []string
	for _, kv := range bytes.Split(b[:len(b)-1], []byte{0}) {
		if i := bytes.IndexByte(kv, '='); i < 1 {
			return nil, fmt.Errorf("read environment: entry %d is not NAME=VALUE", len(out))
		}
		out = append(out, string(kv))
	}
	return out, nil
}

// layer puts variables over others: a later one of the same name wins.
func layer(parts ...[]string) []string {
	at := map[string]int{}
	var out []string
	for _, part := range parts {
		for _, kv := range part {
			name, _, ok := strings.Cut(kv, "=")
			if !ok || name == "" {
				continue
			}
			if i, seen := at[name]; seen {
				out[i] = kv
				continue
			}
			at[name] = len(out)
			out = append(out, kv)
		}
	}
	return out
}

// overlay is what a workload asks for, to be put over whatever the held program
// finds when it starts: a login shell's profile must not have the last word.
type overlay struct {
	// Set are NAME=VALUE.
	Set [][]byte `json:"set"`
	// Prepend names those of Set whose value goes before what is there.
	Prepend []string `json:"prepend,omitempty"`
}

// over puts the overlay over an environment.
func (o overlay) over(has []string) []string {
	out := layer(has)
	for _, raw := range o.Set {
		kv := string(raw)
		name, value, _ := strings.Cut(kv, "=")
		if slices.Contains(o.Prepend, name) {
			kv = name + "=" + joinLists(value, lookup(out, name))
		}
		out = layer(out, []string{kv})
	}
	return out
}

// joinLists puts one colon-separated list before another. Empty elements are left
// out: in PATH and its kind one means the current directory, which nobody asked
// for.
func joinLists(front, back string) string {
	elements := slices.DeleteFunc(strings.Split(front+":"+back, ":"), func(s string) bool { return s == "" })
	return strings.Join(elements, ":")
}

// lookup is the value of a variable; "" when it is not set.
func lookup(environ []string, name string) string {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}
