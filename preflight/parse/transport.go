package parse

import (
	"regexp"
	"strings"
)

// ReachKind says why a node gave no facts.
type ReachKind string

// Kinds of failure to reach a node.
const (
	ReachNoKey     ReachKind = "no-key"    // nothing is known of the host's key
	ReachHostKey   ReachKind = "host-key"  // the host's key changed
	ReachAuth      ReachKind = "auth"      // no key was accepted
	ReachThrottled ReachKind = "throttled" // the server drops connections, it is not down
	ReachCancelled ReachKind = "cancelled" // the step was cancelled, not the node's doing
	ReachName      ReachKind = "name"      // the name does not resolve
	ReachNetwork   ReachKind = "network"   // refused, no route, no answer
	ReachTimeout   ReachKind = "timeout"
	ReachStep      ReachKind = "step" // Slurm would not start the task
	ReachOther     ReachKind = "other"
)

var reachWords = []struct {
	kind  ReachKind
	words []string
}{
	{ReachNoKey, []string{"host key is known for", "is not known: it shows", "key is unknown"}},
	{ReachHostKey, []string{"remote host identification has changed", "host key verification failed", "offending", "knownhosts: key mismatch", "no hostkey", "host key"}},
	{ReachThrottled, []string{"kex_exchange_identification", "connection reset by", "maxstartups", "connection closed by remote host", "ssh_exchange_identification", "administratively prohibited", "open failed"}},
	{ReachAuth, []string{"permission denied (", "unable to authenticate", "no supported methods remain", "too many authentication failures"}},
	{ReachName, []string{"could not resolve hostname", "no such host", "name or service not known", "temporary failure in name resolution"}},
	{ReachCancelled, []string{"cancelled at", "cancelled due to", "*** step", "job step aborted", "task launch failed", "terminating stepid"}},
	{ReachStep, []string{"unable to create step", "step creation", "invalid job id", "requested node configuration is not available", "unable to confirm allocation", "job/step already completing"}},
	{ReachTimeout, []string{"timed out", "timeout", "deadline exceeded"}},
	{ReachNetwork, []string{"connection refused", "no route to host", "network is unreachable", "host is down", "broken pipe", "eof"}},
}

// Reach recognises why a node could not be asked, with the line that says so.
func Reach(text string) (kind ReachKind, line string) {
	lines := Lines(text)
	for _, r := range reachWords {
		for _, l := range lines {
			low := strings.ToLower(l)
			for _, w := range r.words {
				if strings.Contains(low, w) {
					return r.kind, strings.TrimSpace(l)
				}
			}
		}
	}
	for _, l := range lines {
		if strings.TrimSpace(l) != "" {
			return ReachOther, strings.TrimSpace(l)
		}
	}
	return ReachOther, ""
}

var sentinel = regexp.MustCompile(`^\s*((?:\d+:\s?)?)---(\S+)-BEGIN ([0-9A-Za-z_.-]+)---\s*$`)

// Frame finds what stands between a pair of sentinel lines
//
//	---NAME-BEGIN token---
//	---NAME-END token rc=0---
//
// and drops everything else: banners, messages of the day, chatter. A label that
// a launcher puts before every line ("0: ") is taken off. complete says that the
// closing line came.
func Frame(text string) (body string, rc int64, complete bool) {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		m := sentinel.FindStringSubmatch(strings.TrimRight(l, "\r"))
		if m == nil {
			continue
		}
		end := "---" + m[2] + "-END " + m[3] + " rc="
		var inside []string
		for _, l := range lines[i+1:] {
			l = strings.TrimPrefix(strings.TrimRight(l, "\r"), m[1])
			if tail, ok := strings.CutPrefix(strings.TrimSpace(l), end); ok {
				n, isNum := number(tail)
				return strings.Join(inside, "\n"), n, isNum
			}
			inside = append(inside, l)
		}
		return strings.Join(inside, "\n"), 0, false
	}
	return "", 0, false
}
