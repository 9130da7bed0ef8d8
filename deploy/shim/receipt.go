package shim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/internal/redact"
	"github.com/disagg/disagg/models/env"
)

// heldReport is what the held program says of its environment.
type heldReport struct {
	// Found is what it was started with, after the login shell if there is one.
	Found [][]byte `json:"found"`
	// Env is what the program gets: Found with the overlay over it.
	Env [][]byte `json:"env"`
}

// witness makes receipts of held programs' reports.
type witness struct {
	workload string
	base     []string // what the shim was started with
	planned  []string // what the workload asks for, NAME=VALUE
	prepend  []string // names of planned variables that go before what is there
	marks    []string // the tool's own, NAME=VALUE
	secrets  []string // names
	red      *redact.Redactor
	key      []byte
}

// receipt reports an environment with the layer that each variable comes from.
// Values of secrets become sums: of those that are named, and of whatever else
// looks like one, which an image or a container runtime's settings can hold.
func (w witness) receipt(rep heldReport) deploy.Receipt {
	base, planned, marks, found := byName(w.base), byName(w.planned), byName(w.marks), byName(texts(rep.Found))
	r := deploy.Receipt{Workload: w.workload}
	for name, value := range byName(texts(rep.Env)) {
		v := deploy.ReceiptVar{Name: name, Layer: deploy.LayerShell}
		was, inBase := base[name]
		_, isPlanned := planned[name]
		switch {
		case marks[name] != "":
			v.Layer = deploy.LayerTool
		case isPlanned && slices.Contains(w.prepend, name):
			v.Layer = deploy.LayerPlan
		case isPlanned:
			v.Layer = deploy.LayerPlan
			if inBase && was != value {
				v.Over = append(v.Over, deploy.LayerBase)
			}
			if after, ok := found[name]; ok && after != value {
				v.Over = append(v.Over, deploy.LayerShell)
			}
		case inBase && was == value:
			v.Layer = deploy.LayerBase
		case inBase:
			v.Over = append(v.Over, deploy.LayerBase)
		}
		if slices.Contains(w.secrets, name) || env.Secret(name) || env.SecretValue(value) || w.red.Holds([]byte(value)) {
			mac := hmac.New(sha256.New, w.key)
			mac.Write([]byte(value))
			v.HMAC = hex.EncodeToString(mac.Sum(nil))
		} else {
			v.Value = []byte(value)
		}
		r.Env = append(r.Env, v)
	}
	slices.SortFunc(r.Env, func(a, b deploy.ReceiptVar) int { return strings.Compare(a.Name, b.Name) })
	return r
}

// byName indexes NAME=VALUE; the first of a name counts, as for getenv.
func byName(environ []string) map[string]string {
	out := make(map[string]string, len(environ))
	for _, kv := range environ {
		name, value, ok := strings.Cut(kv, "=")
		if _, twice := out[name]; ok && name != "" && !twice {
			out[name] = value
		}
	}
	return out
}

func texts(raw [][]byte) []string {
	out := make([]string, len(raw))
	for i, b := range raw {
		out[i] = string(b)
	}
	return out
}

func raws(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}
