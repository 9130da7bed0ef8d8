package orchestrator

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/deploy"
)

// envDifference is one variable that did not arrive as planned.
type envDifference struct {
	Name    string
	Planned string // as shown to people; secrets are not shown
	Seen    string
}

func (d envDifference) String() string {
	return fmt.Sprintf("%s: planned %s, the process sees %s", d.Name, d.Planned, d.Seen)
}

// shownValue bounds a value in a message.
const shownValue = 200

// compareReceipt says which planned variables the process inside does not see as
// planned. Variables of the image that nobody planned are no difference. Secrets
// are compared, and shown, by their sums only.
func compareReceipt(planned []deploy.EnvEntry, r deploy.Receipt, key []byte) []envDifference {
	seen := make(map[string]deploy.ReceiptVar, len(r.Env))
	for _, v := range r.Env {
		seen[v.Name] = v
	}
	var out []envDifference
	for _, p := range planned {
		v, ok := seen[p.Name]
		if ok && arrived(p, v, key) {
			continue
		}
		out = append(out, envDifference{Name: p.Name, Planned: shownPlanned(p, v), Seen: shownSeen(p, v, ok)})
	}
	return out
}

func arrived(p deploy.EnvEntry, v deploy.ReceiptVar, key []byte) bool {
	if v.HMAC != "" {
		return v.HMAC == sum(p.Value, key)
	}
	if p.Prepend {
		front := elements(p.Value)
		seen := elements(v.Value)
		return len(seen) >= len(front) && slices.Equal(seen[:len(front)], front) &&
			!slices.Contains(strings.Split(string(v.Value), ":"), "")
	}
	return bytes.Equal(v.Value, p.Value)
}

// elements are the parts of a colon-separated list that are not empty.
func elements(list []byte) []string {
	return slices.DeleteFunc(strings.Split(string(list), ":"), func(s string) bool { return s == "" })
}

func sum(value, key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(value)
	return hex.EncodeToString(mac.Sum(nil))
}

func shownPlanned(p deploy.EnvEntry, v deploy.ReceiptVar) string {
	if p.Secret || v.HMAC != "" {
		return fmt.Sprintf("a secret of %d bytes", len(p.Value))
	}
	return quoteValue(p.Value)
}

func shownSeen(p deploy.EnvEntry, v deploy.ReceiptVar, ok bool) string {
	switch {
	case !ok:
		return "no such variable"
	case v.HMAC != "":
		return "another value"
	case p.Secret:
		return "another value, of " + plural(len(v.Value), "byte")
	}
	return quoteValue(v.Value)
}

func quoteValue(b []byte) string {
	s := fmt.Sprintf("%q", b)
	if len(s) > shownValue {
		s = strings.TrimSuffix(s[:shownValue], `\`) + fmt.Sprintf(`…" (%d bytes)`, len(b))
	}
	return s
}
