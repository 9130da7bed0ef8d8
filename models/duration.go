package models

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Duration is a time span written as Go writes it ("90s", "1h30m"), as plain
// seconds ("90"), or as Slurm writes time limits ("08:00:00", "1-00:00:00").
type Duration time.Duration

// D returns the span as the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String writes the span the way ParseDuration reads it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the span for JSON.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads any of the accepted spellings.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// ParseDuration reads a span. It refuses negative spans and anything it does
// not know; Slurm's "MM" and "MM:SS" forms are refused too, because "30" would
// then mean 30 minutes in one place and 30 seconds in another.
func ParseDuration(s string) (Duration, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n < 0 || n > int64(1<<62)/int64(time.Second) {
			return 0, fmt.Errorf("duration %q is out of range", s)
		}
		return Duration(time.Duration(n) * time.Second), nil
	}
	if d, ok := parseSlurmTime(s); ok {
		return d, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration; write 90s, 45m, 8h, 08:00:00 or 1-00:00:00", s)
	}
	return Duration(d), nil
}

var slurmTime = regexp.MustCompile(`^(?:([0-9]{1,5})-)?([0-9]{1,6}):([0-5]?[0-9]):([0-5]?[0-9])$`)

// parseSlurmTime reads [D-]HH:MM:SS.
func parseSlurmTime(s string) (Duration, bool) {
	m := slurmTime.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	var total time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.Atoi(m[i+1]) // digits, or nothing for the days
		total += time.Duration(n) * unit
	}
	// Days and hours together can go beyond the 292 years that a span holds; the
	// sum is negative then.
	return Duration(total), total >= 0
}

// SlurmTime writes the span as D-HH:MM:SS, rounded up to whole seconds, the
// form every Slurm version reads.
func (d Duration) SlurmTime() string {
	s := int64((time.Duration(d) + time.Second - 1) / time.Second)
	day, rest := s/86400, s%86400
	return fmt.Sprintf("%d-%02d:%02d:%02d", day, rest/3600, rest%3600/60, rest%60)
}
