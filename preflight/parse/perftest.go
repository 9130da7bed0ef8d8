package parse

import (
	"strings"
)

// PerfResult is what one run of a perftest bandwidth tool gave.
type PerfResult struct {
	Device string
	// AvgGbps is nil where the tool printed no result.
	AvgGbps *float64
	// Error is the line with which it gave up.
	Error string
	Line  string
}

// Perftest reads "ib_write_bw --report_gbits" and its kin.
func Perftest(text string) PerfResult {
	var r PerfResult
	gbits := false
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		low := strings.ToLower(l)
		switch {
		case strings.Contains(l, "BW average"):
			gbits = strings.Contains(l, "Gb/sec")
		case strings.Contains(l, "Device") && strings.Contains(l, ":"):
			for i, w := range f {
				if w == ":" && i > 0 && f[i-1] == "Device" && i+1 < len(f) {
					r.Device = f[i+1]
				}
			}
		case gbits && len(f) >= 4 && isDigits(f[0]) && isDigits(f[1]):
			if bw, ok := float(f[3]); ok {
				r.AvgGbps, r.Line = &bw, strings.Join(f, " ")
			}
		case r.Error == "" && (strings.Contains(low, "failed") || strings.Contains(low, "couldn't") || strings.Contains(low, "unable to")):
			r.Error = strings.TrimSpace(l)
		}
	}
	return r
}
