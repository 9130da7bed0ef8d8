package catalog_test

import (
	"slices"
	"testing"

	"github.com/disagg/disagg/models/catalog"
)

// TestKnownFlags: an entry knows the flags of all models on an engine, those of
// routers apart.
func TestKnownFlags(t *testing.T) {
	t.Parallel()
	c, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Lookup("DeepSeek-R1")
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"sglang", "vllm"} {
		workers, router := e.KnownFlags(engine)
		if !slices.Contains(workers, "--attention-backend") || slices.Contains(workers, "--policy") || !slices.IsSorted(workers) {
			t.Errorf("%s: workers %q", engine, workers)
		}
		if slices.Contains(router, "--attention-backend") || len(router) == 0 && engine == "sglang" {
			t.Errorf("%s: router %q", engine, router)
		}
	}
	if w, r := e.KnownFlags("nosuch"); w != nil || r != nil {
		t.Errorf("%q %q", w, r)
	}
}
