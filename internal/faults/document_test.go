package faults

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/internal/lab"
)

var update = flag.Bool("update", false, "rewrite docs/reliability.md")

func TestDocs(t *testing.T) {
	t.Parallel()
	root, err := lab.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs", "reliability.md")
	if *update {
		if err := os.WriteFile(path, []byte(Document()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Document(), string(have)); diff != "" {
		t.Errorf("docs/reliability.md is not what the matrix says; run make generate (-want +got):\n%s", diff)
	}
}
