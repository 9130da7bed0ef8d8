package slurm

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// separator stands between the fields that squeue and sinfo are asked for. Names,
// comments and reasons hold blanks and bars, but no control character.
const separator = "\x1f"

// format is the value of --format for these fields.
func format(fields ...string) string { return "--format=" + strings.Join(fields, separator) }

// rows splits output into rows of n fields; the last field takes the rest of its
// line. Lines with fewer fields are not rows: the header of a cluster, or the
// second line of a comment.
func rows(out []byte, n int) [][]string {
	var all [][]string
	for line := range bytes.Lines(out) {
		f := strings.SplitN(strings.TrimRight(string(line), "\r\n"), separator, n)
		if len(f) != n {
			continue
		}
		for i, v := range f {
			f[i] = unset(strings.TrimSpace(v))
		}
		all = append(all, f)
	}
	return all
}

// unset turns Slurm's words for "no value" into an empty string.
func unset(s string) string {
	switch s {
	case "(null)", "N/A", "n/a", "none", "None":
		return ""
	}
	return s
}

// TimeLeft is the rest of a job's time limit.
type TimeLeft struct {
	Known     bool
	Unlimited bool
	Left      time.Duration // when Known and not Unlimited
}

// parseTimeLeft reads [D-]HH:MM:SS, MM:SS or UNLIMITED. Slurm's other words
// (INVALID, NOT_SET) mean that it does not know.
func parseTimeLeft(s string) TimeLeft {
	if s == "UNLIMITED" {
		return TimeLeft{Known: true, Unlimited: true}
	}
	s, past := strings.CutPrefix(s, "-")
	days, clock, hasDays := strings.Cut(s, "-")
	if !hasDays {
		days, clock = "0", s
	}
	parts := strings.Split(clock, ":")
	if len(parts) == 2 && !hasDays {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 3 {
		return TimeLeft{}
	}
	var n [4]time.Duration
	for i, p := range append([]string{days}, parts...) {
		v, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return TimeLeft{}
		}
		n[i] = time.Duration(v)
	}
	if past {
		return TimeLeft{Known: true}
	}
	return TimeLeft{Known: true, Left: n[0]*24*time.Hour + n[1]*time.Hour + n[2]*time.Minute + n[3]*time.Second}
}
