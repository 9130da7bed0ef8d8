package shim

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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
		// The kernel takes at most 32 pages for one NAME=VALUE with its NUL.
		if n := len(e.Name) + 1 + len(e.Value) + 1; n > 128<<10 {
			return nil, &deploy.Fault{Class: deploy.ClassEnvironment,
				Msg:  fmt.Sprintf("%s has %d bytes with its name; the kernel takes at most %d for one variable", e.Name, n-2, 128<<10-2),
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

// receipt reports an environment. Values of secrets become sums: of those that
// are named, and of whatever else looks like one, which an image can hold.
func receipt(workload string, environ [][]byte, secrets []string, key []byte) deploy.Receipt {
	r := deploy.Receipt{Workload: workload}
	for _, kv := range environ {
		name, value, _ := bytes.Cut(kv, []byte("="))
		v := deploy.ReceiptVar{Name: string(name)}
		if slices.Contains(secrets, v.Name) || env.Secret(v.Name) {
			mac := hmac.New(sha256.New, key)
			mac.Write(value)
			v.HMAC = hex.EncodeToString(mac.Sum(nil))
		} else {
			v.Value = value
		}
		r.Env = append(r.Env, v)
	}
	slices.SortFunc(r.Env, func(a, b deploy.ReceiptVar) int { return strings.Compare(a.Name, b.Name) })
	return r
}
