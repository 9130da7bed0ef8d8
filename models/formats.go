package models

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/disagg/disagg/models/formula"
	"github.com/disagg/disagg/models/internal/flags"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// maxName bounds a run's name: with the time, the random part and a suffix it
// stays inside the 255 bytes of a file name.
const maxName = 64

// Format is a form of text that a key of a file can require.
type Format = yamlx.Format

// Formats are the forms of text that the is:"…" and keys:"…" tags of this
// package name.
func Formats() map[string]Format {
	return map[string]yamlx.Format{
		"name": pattern(fmt.Sprintf("a name of letters, digits, '.', '_' and '-', at most %d, that begins with a letter or a digit", maxName),
			fmt.Sprintf(`^[A-Za-z0-9][A-Za-z0-9._-]{0,%d}$`, maxName-1)),
		"word":     pattern("one word that does not begin with '-'", `^[^-\s\x00-\x1f\x7f][^\s\x00-\x1f\x7f]*$`),
		"image":    pattern("an image reference such as registry.example.org/team/image:tag", `^[A-Za-z0-9/][A-Za-z0-9._/:@+#-]*$`),
		"device":   pattern("the name of an RDMA device", `^[A-Za-z0-9][A-Za-z0-9_.-]*$`),
		"devices":  pattern("names of RDMA devices with commas", `^[A-Za-z0-9][A-Za-z0-9_.-]*(,[A-Za-z0-9][A-Za-z0-9_.-]*)*$`),
		"env-glob": pattern("the name of a variable, in which * and ? may stand for letters", `^[A-Za-z_*?]*[A-Za-z_][A-Za-z0-9_*?]*$`),
		"check":    pattern("the id of a check, such as rdma.pfc", `^[a-z][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+$`),
		"rule":     pattern("the name of a rule, such as hetero-tp", `^[a-z][a-z0-9.-]*$`),
		"hosts":    pattern("a host list without blanks, such as node[01-04],node09", `^[^\s-][^\s]*$`),
		"directive": pattern("one word without quotes, '#' and '\\', because it becomes part of a job's directives",
			`^[^-\s#"'\\\x00-\x1f\x7f][^\s#"'\\\x00-\x1f\x7f]*$`),
		"option-value": pattern("one line without '#', because it becomes part of a job's directives", `^[^#\x00-\x1f\x7f]*$`),
		"slurm-memory": pattern("a size such as 0, 512G or 2T", `^[0-9]+[KMGT]?$`),
		"size":         pattern("a size such as 128g", `^[1-9][0-9]*[bkmgBKMG]?$`),
		"segment":      pattern("a size such as 64gb", `^[1-9][0-9]*([kmgtKMGT]?[bB])?$`),
		"capability":   pattern("a capability such as SYS_PTRACE", `^[A-Z][A-Z_]*$`),
		"group":        pattern("the name or number of a group", `^[A-Za-z0-9_][A-Za-z0-9_.-]*$`),
		"not-empty":    pattern("a text that is not empty", `\S`),
		"reason":       pattern("a reason in words", `\S`),
		"host-port":    pattern("host:port", `^[^\s:/]+:[0-9]{1,5}$`),
		"url":          pattern("an http URL", `^https?://[^\s]+$`),
		"result-glob":  pattern("a path below the result directory", `^[^/\s][^\x00-\x1f]*$`),

		"env-name":      {Doc: "the name of a variable (letters, digits and '_', no digit first)", Pattern: `^[A-Za-z_][A-Za-z0-9_]*$`, Check: checkEnvName},
		"ulimit-name":   {Doc: "the name of a limit", Check: checkUlimitName},
		"ulimit":        {Doc: "a limit such as -1, 65536 or 1024:65536 (soft:hard)", Pattern: `^(-1|[0-9]+)(:(-1|[0-9]+))?$`, Check: checkUlimit},
		"path":          {Doc: "an absolute path", Pattern: `^/`, Check: checkPath},
		"plain-path":    {Doc: "an absolute path of letters, digits and ._/+:@=-", Pattern: `^/[A-Za-z0-9._/+:@=-]*$`, Check: checkPlainPath},
		"home-path":     {Doc: "an absolute path, or one that begins with ~/", Pattern: `^~?/`, Check: checkHomePath},
		"model-path":    {Doc: "an absolute path, or hf:ORG/NAME", Pattern: `^(/|hf:[^\s/]+/[^\s/]+$)`, Check: checkModelPath},
		"runs-dir":      {Doc: "an absolute path", Pattern: `^/`, Check: checkRunsDir},
		"mount":         {Doc: "host:container or host:container:ro", Pattern: `^/[^:]*:/[^:]*(:(ro|rw))?$`, Check: checkMount},
		"interfaces":    {Doc: "the name of a network interface, or several with commas", Pattern: `^[^\s,^]+(,[^\s,^]+)*$`, Check: checkInterfaces},
		"date":          {Doc: "a date, YYYY-MM-DD", Pattern: `^[0-9]{4}-[0-9]{2}-[0-9]{2}$`, Check: checkDate},
		"flag":          {Doc: `a flag with its value, "--flag value", or "!--flag"`, Pattern: `^!?-`, Check: checkFlag},
		"formula":       {Doc: "a whole number or a formula", Check: checkFormula},
		"positive":      {Doc: "a number above zero", Pattern: decimal, Check: checkNumber(func(v float64) bool { return v > 0 })},
		"share":         {Doc: "a number above 0 and at most 1", Pattern: decimal, Check: checkNumber(func(v float64) bool { return 0 < v && v <= 1 })},
		"share-or-zero": {Doc: "a number from 0 to 1", Pattern: decimal, Check: checkNumber(func(v float64) bool { return 0 <= v && v <= 1 })},
		"sbatch-option": {Doc: "the name of an sbatch option without dashes", Pattern: optionPattern, Check: CheckSbatchOption},
		"srun-option":   {Doc: "the name of an srun option without dashes", Pattern: optionPattern, Check: CheckSrunOption},
	}
}

// decimal is a number as engines read it: no exponent, no sign.
const decimal = `^([0-9]+(\.[0-9]+)?|\.[0-9]+)$`

// pattern is a format that a regular expression says all about.
func pattern(doc, expr string) yamlx.Format {
	re := regexp.MustCompile(expr)
	return yamlx.Format{Doc: doc, Pattern: expr, Check: func(s string) error {
		if re.MatchString(s) {
			return nil
		}
		return yamlx.ErrForm
	}}
}

func checkEnvName(s string) error {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9' || i == 0) {
			return yamlx.ErrForm
		}
	}
	if s == "" {
		return yamlx.ErrForm
	}
	return nil
}

func checkUlimitName(s string) error {
	known := []string{"core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc",
		"rss", "rtprio", "rttime", "sigpending", "stack"}
	for _, k := range known {
		if s == k {
			return nil
		}
	}
	if near := yamlx.Nearest(s, known); near != "" {
		return fmt.Errorf("there is no limit %q; did you mean %q?", s, near)
	}
	return fmt.Errorf("there is no limit %q; limits are %s", s, strings.Join(known, ", "))
}

func checkUlimit(s string) error {
	soft, hard, both := strings.Cut(s, ":")
	limit := func(s string) (int64, bool) {
		n, err := strconv.ParseInt(s, 10, 64)
		return n, err == nil && n >= -1
	}
	a, ok := limit(soft)
	if !ok {
		return yamlx.ErrForm
	}
	if !both {
		return nil
	}
	b, ok := limit(hard)
	if !ok {
		return yamlx.ErrForm
	}
	if b != -1 && (a > b || a == -1) {
		return fmt.Errorf("the soft limit of %q is above the hard one", s)
	}
	return nil
}

func checkPath(s string) error {
	switch {
	case !path.IsAbs(s):
		return yamlx.ErrForm
	case hasControl(s):
		return fmt.Errorf("%q has a control character", s)
	case hasDotDot(s):
		return fmt.Errorf("%q has a .. in it", s)
	}
	return nil
}

// checkPlainPath is for paths that go through a remote shell.
func checkPlainPath(s string) error {
	if err := checkPath(s); err != nil {
		return err
	}
	for _, r := range s {
		if !strings.ContainsRune("._/+:@=-", r) && (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9') {
			return fmt.Errorf("%q has the character %q", s, r)
		}
	}
	return nil
}

func checkHomePath(s string) error {
	if rest, ok := strings.CutPrefix(s, "~/"); ok {
		return checkPath("/" + rest)
	}
	return checkPath(s)
}

func checkModelPath(s string) error {
	if name, ok := strings.CutPrefix(s, "hf:"); ok {
		org, model, _ := strings.Cut(name, "/")
		if org == "" || model == "" || strings.ContainsAny(model, "/ \t\n") || strings.ContainsAny(org, " \t\n") {
			return yamlx.ErrForm
		}
		return nil
	}
	return checkMountable(s)
}

// checkMountable is for paths that become one side of a mount.
func checkMountable(s string) error {
	if err := checkPath(s); err != nil {
		return err
	}
	if i := strings.IndexAny(s, ":,"); i >= 0 {
		return fmt.Errorf("%q has a %q, which a mount cannot carry", s, s[i])
	}
	return nil
}

func checkRunsDir(s string) error {
	if err := checkMountable(s); err != nil {
		return err
	}
	// Slurm replaces %x in the names of log files, and ends a directive at '#'.
	if i := strings.IndexAny(s, "%#\\\"' \t"); i >= 0 {
		return fmt.Errorf("%q has a %q, which a job's log path cannot carry", s, s[i])
	}
	return nil
}

func checkMount(s string) error {
	parts := strings.Split(s, ":")
	if len(parts) == 3 && (parts[2] == "ro" || parts[2] == "rw") {
		parts = parts[:2]
	}
	if len(parts) != 2 {
		return yamlx.ErrForm
	}
	for i, side := range []string{"host", "container"} {
		if err := checkMountable(parts[i]); err != nil {
			return fmt.Errorf("the %s side of %q must be an absolute path without ':' and ','", side, s)
		}
	}
	if c := path.Clean(parts[1]); c == "/" || c == toolDir || strings.HasPrefix(c, toolDir+"/") {
		return fmt.Errorf("%q cannot be a mount's place in a container; the tool needs it", c)
	}
	return nil
}

// toolDir is where every container sees the tool's own files.
const toolDir = "/disagg"

func checkInterfaces(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		if err := checkInterface(name); err != nil {
			return err
		}
	}
	return nil
}

// maxInterfaceName is the longest name that Linux gives an interface.
const maxInterfaceName = 15

func checkInterface(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || len(name) > maxInterfaceName ||
		strings.ContainsAny(name, "/:^=, \t") || hasControl(name):
		return fmt.Errorf("%q is not the name of an interface", name)
	case name == "lo":
		return errors.New(`"lo" reaches no other node`)
	}
	return nil
}

func checkDate(s string) error {
	if _, err := time.Parse(time.DateOnly, s); err != nil {
		return yamlx.ErrForm
	}
	return nil
}

func checkFlag(s string) error {
	if hasControl(s) {
		return fmt.Errorf("%q has a control character", s)
	}
	if _, ok := flags.Removal(s); ok {
		return nil
	}
	_, err := flags.Parse(s)
	return err
}

func checkFormula(s string) error {
	_, err := formula.Parse(s)
	return err
}

func checkNumber(ok func(float64) bool) func(string) error {
	re := regexp.MustCompile(decimal)
	return func(s string) error {
		if v, err := strconv.ParseFloat(s, 64); err == nil && re.MatchString(s) && ok(v) {
			return nil
		}
		return yamlx.ErrForm
	}
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func hasDotDot(s string) bool {
	return strings.Contains("/"+s+"/", "/../")
}
