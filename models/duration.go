package models

import (
	"fmt"
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

// parseSlurmTime reads [D-]HH:MM:SS.
func parseSlurmTime(s string) (Duration, bool) {
	var days, h, m, sec int64
	rest := s
	for i := 0; i < len(s); i++ {
		if s[i] == '-' {
			n, err := strconv.ParseInt(s[:i], 10, 32)
			if err != nil || n < 0 {
				return 0, false
			}
			days, rest = n, s[i+1:]
			break
		}
	}
	var tail string
	if n, _ := fmt.Sscanf(rest, "%d:%d:%d%s", &h, &m, &sec, &tail); n != 3 {
		return 0, false
	}
	if h < 0 || m < 0 || m > 59 || sec < 0 || sec > 59 || h > 1<<20 {
		return 0, false
	}
	total := time.Duration(days)*24*time.Hour + time.Duration(h)*time.Hour +
		time.Duration(m)*time.Minute + time.Duration(sec)*time.Second
	return Duration(total), true
}

// SlurmTime writes the span as D-HH:MM:SS, rounded up to whole seconds, the
// form every Slurm version reads.
func (d Duration) SlurmTime() string {
	s := int64((time.Duration(d) + time.Second - 1) / time.Second)
	day, rest := s/86400, s%86400
	return fmt.Sprintf("%d-%02d:%02d:%02d", day, rest/3600, rest%3600/60, rest%60)
}
