package standin

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is one thing that goes wrong, and when.
type Fault struct {
	// Kind is one of FaultKinds.
	Kind string
	// Args are the fault's details, and its conditions: role, host, port and
	// rank narrow where it happens.
	Args map[string]string
}

// FaultKinds lists the faults that can be asked for with what each does. The
// words in brackets are arguments with their defaults.
func FaultKinds() map[string]string {
	return map[string]string{
		"slow-load":     "loading takes [seconds=10], with progress lines unless [progress=false]",
		"crash":         "ends at [phase=load], one of start, load, ready, serve (or now, when asked for while it runs), with [code=1] or by [signal], one of KILL, SEGV, ABRT, TERM; [text] is logged first; [after=0] counts seconds (start, load, ready) or requests (serve)",
		"hang-health":   "health checks are accepted and never answered",
		"answer":        "completions answer [status=200] with [body=error], one of error, html, empty-choices, empty-text, text of the body",
		"deaf":          "nothing is answered any more [after=0] seconds after it was ready",
		"ignore-term":   "SIGTERM changes nothing",
		"reparent":      "the started process ends with [code=0] once a renamed child serves in its place",
		"orphan":        "a helper in a session of its own, which ignores SIGTERM, is left behind for [seconds=3600]",
		"refuse-kv":     "prefill refuses to hand over KV",
		"stall-kv":      "prefill accepts the decode worker's connection and sends nothing",
		"no-bootstrap":  "prefill does not open its bootstrap port",
		"not-listening": "says that it is ready and opens no port",
		"wrong-model":   "serves under [name=other/model] and refuses every other name",
		"stall":         "requests are taken and no token comes",
		"slow-token":    "each token takes [ms=100]",
		"grow":          "memory grows by [mb=64] a second up to [max=512]",
		"flood":         "logs [lines=1000] a second",
		"noise":         "logs bytes that are no UTF-8, terminal escapes and one line of [mb=8] megabytes",
		"echo":          "logs the value of the variable [env=HF_TOKEN]: in a line, in JSON, and in two writes",
		"ignore-peers":  "goes on when another rank of the worker is gone",
		"drop-worker":   "the router never registers the worker whose URL contains [url]",
	}
}

// ParseFaults reads faults as STANDIN_FAULT holds them: separated by blanks or
// semicolons, each "kind" or "kind:key=value,key=value". Values are written as
// in a URL's query: + for a blank, %2C for a comma.
//
//	crash:phase=load,code=3,text=out+of+memory,role=decode
//	slow-load:seconds=20;ignore-term:host=node2
func ParseFaults(s string) ([]Fault, error) {
	kinds := FaultKinds()
	var out []Fault
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ';' || r == '\n' }) {
		kind, args, _ := strings.Cut(word, ":")
		if kinds[kind] == "" {
			names := []string{}
			for k := range kinds {
				names = append(names, k)
			}
			slices.Sort(names)
			return nil, fmt.Errorf("read fault %q: unknown kind; known are %s", word, strings.Join(names, " "))
		}
		f := Fault{Kind: kind, Args: map[string]string{}}
		if args != "" {
			for _, kv := range strings.Split(args, ",") {
				k, v, ok := strings.Cut(kv, "=")
				if !ok {
					return nil, fmt.Errorf("read fault %q: %q is not key=value", word, kv)
				}
				v, err := url.QueryUnescape(v)
				if err != nil {
					return nil, fmt.Errorf("read fault %q: %w", word, err)
				}
				f.Args[k] = v
			}
		}
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("read fault %q: %w", word, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// conditions are the arguments that every fault takes: they narrow where it happens.
func conditions() []string { return []string{"host", "port", "rank", "role"} }

// arguments are those that a kind takes besides its conditions, with their defaults,
// from its description.
func arguments(kind string) map[string]string {
	args := map[string]string{}
	for _, m := range regexp.MustCompile(`\[(\w+)=?([^\]]*)\]`).FindAllStringSubmatch(FaultKinds()[kind], -1) {
		args[m[1]] = m[2]
	}
	return args
}

// check refuses what would be read by nobody, or be taken for its default.
func (f Fault) check() error {
	args := arguments(f.Kind)
	known := append(slices.Sorted(maps.Keys(args)), conditions()...)
	for _, k := range slices.Sorted(maps.Keys(f.Args)) {
		if !slices.Contains(known, k) {
			return fmt.Errorf("%s takes no %q; it takes %s", f.Kind, k, strings.Join(known, ", "))
		}
		v := f.Args[k]
		if _, err := strconv.Atoi(args[k]); err == nil {
			n, err := strconv.ParseFloat(v, 64)
			if seconds := k == "seconds" || k == "after"; err != nil || n < 0 || !seconds && n != math.Trunc(n) {
				return fmt.Errorf("%s is a number, not %q", k, v)
			}
		}
		if f.Kind == "crash" {
			if words, ok := map[string][]string{"phase": {"start", "load", "ready", "serve", "now"}, "signal": {"KILL", "SEGV", "ABRT", "TERM"}}[k]; ok && !slices.Contains(words, v) {
				return fmt.Errorf("%s is one of %s, not %q", k, strings.Join(words, ", "), v)
			}
		}
	}
	return nil
}

// text is an argument of the fault, or def.
func (f Fault) text(key, def string) string {
	if v, ok := f.Args[key]; ok {
		return v
	}
	return def
}

func (f Fault) number(key string, def int) int {
	n, err := strconv.Atoi(f.text(key, ""))
	if err != nil {
		return def
	}
	return n
}

// seconds is an argument in seconds, fractions allowed.
func (f Fault) seconds(key string, def float64) time.Duration {
	n, err := strconv.ParseFloat(f.text(key, ""), 64)
	if err != nil {
		n = def
	}
	return time.Duration(n * float64(time.Second))
}

// place is who asks whether a fault is meant for it.
type place struct {
	role string
	port int
	rank int
}

// here says whether the fault's conditions name this place.
func (f Fault) here(p place) bool {
	host, _ := os.Hostname()
	for key, have := range map[string]string{
		"role": p.role, "host": host, "port": strconv.Itoa(p.port), "rank": strconv.Itoa(p.rank),
	} {
		if want, ok := f.Args[key]; ok && want != have {
			return false
		}
	}
	return true
}
