package catalog_test

import (
	"testing"

	"github.com/disagg/disagg/models/catalog"
)

func TestEmbeddedCatalogIsValid(t *testing.T) {
	t.Parallel()
	c, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"DeepSeek-R1-0528", "DeepSeek-V4-Pro", "Qwen3.5-397B-A17B-FP8"} {
		e, err := c.Lookup(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if !e.Has("sglang") {
			t.Errorf("%s: no settings for sglang", name)
		}
	}
}
