package engine_test

import (
	"testing"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/engine"
)

// TestRemovalOfAMisspeltFlag: what takes away nothing names what is there.
func TestRemovalOfAMisspeltFlag(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"!--mem-fracton-static": "did you mean !--mem-fraction-static?", "!--no-such": ""} {
		_, errs := engine.Compose(input(t, "DeepSeek-R1-0528", "sglang", func(r *models.Recipe, _ *models.Site) {
			r.Prefill.Flags = []string{flag}
		}))
		if len(errs) != 1 || errs[0].Hint != want {
			t.Errorf("%s: %v, want the hint %q", flag, errs, want)
		}
	}
}
