package models

import (
	"slices"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "90": 90 * time.Second, "0": 0, "08:00:00": 8 * time.Hour,
		"1-00:00:00": 24 * time.Hour, "2-03:04:05": 51*time.Hour + 4*time.Minute + 5*time.Second, "1.5h": 90 * time.Minute,
	} {
		if got, err := ParseDuration(text); got.D() != want || err != nil {
			t.Errorf("%q = %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-5", "-5s", "30:00", "1:60:00", "1:00:60", "a", "1-1", "-1-00:00:00", "1--00:00:00", "99999999999999999999",
		"1:2:3x", "9223372036854775807", "+1:00:00", "1: 0:0", "300000-00:00:00", "1:00:00:00"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q was read as %s", text, got)
		}
	}
}

func TestSlurmTime(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		8 * time.Hour: "0-08:00:00", 25*time.Hour + time.Second: "1-01:00:01", time.Millisecond: "0-00:00:01", 0: "0-00:00:00",
	} {
		if got := Duration(d).SlurmTime(); got != want {
			t.Errorf("%s = %q, want %q", d, got, want)
		}
		if back, err := ParseDuration(want); err != nil || back.D() != d.Truncate(time.Second) && d > time.Second {
			t.Errorf("%q is read as %s, %v", want, back, err)
		}
	}
}

func TestParseBool(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Bool{"true": true, "True": true, "1": true, "YES": true, "on": true, "false": false, "0": false, "No": false, "OFF": false} {
		if got, err := ParseBool(text); got != want || err != nil {
			t.Errorf("%q = %t, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "2", "y", " true", "truthy"} {
		if _, err := ParseBool(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestParseIntList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]IntList{"8": {8}, "8x16X32": {8, 16, 32}, "8 16": {8, 16}, "8, 16,\t32": {8, 16, 32}, "+8": nil, "0": nil, "-1": nil, "": nil, "x": nil, "8.5": nil, "010": nil, "8x16x": nil, "8xx16": nil, "8,,16": nil, "8x16,32": nil} {
		got, err := ParseIntList(text)
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%q = %v, %v, want %v", text, got, err, want)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"90s", "08:00:00", "1-00:00:00", "-1", "9223372036854775807"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q is negative: %s", text, d)
		}
		if back, err := ParseDuration(d.String()); err != nil || back != d {
			t.Fatalf("%q: %s is read back as %s, %v", text, d, back, err)
		}
	})
}

func FuzzLoadRecipe(f *testing.F) {
	f.Add([]byte(minimalRecipe))
	f.Add([]byte(sweptRecipe))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, pos, err := LoadRecipe("f", data)
		if (r == nil) != (err != nil) || pos == nil {
			t.Fatalf("recipe %v, positions %v, error %v", r, pos, err)
		}
	})
}
