package plan

import (
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
)

// Row is one effective value and where it comes from.
type Row struct {
	// Key is a setting (prefill.tp), a flag (flag:decode:--page-size) or a
	// variable (env:decode:MORI_RDMA_TC).
	Key   string `json:"key"`
	Value string `json:"value"`
	// From says who set it: default, computed, adapter, catalog:FILE:LINE,
	// site:FILE:LINE, recipe:FILE:LINE, forward or flag.
	From string `json:"from"`
	// Over is what lost against it, nearest first, as "origin=value".
	Over []string `json:"over,omitempty"`
}

// Explain lists every effective value of a plan with its origin: settings
// first, then flags, then variables.
func Explain(p *models.Plan) []Row {
	rows := make([]Row, 0, len(p.Origins))
	for _, o := range p.Origins {
		rows = append(rows, Row(o))
	}
	kind := func(key string) int {
		switch {
		case strings.HasPrefix(key, "flag:"):
			return 1
		case strings.HasPrefix(key, "env:"):
			return 2
		}
		return 0
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return kind(a.Key) - kind(b.Key) })
	return rows
}
