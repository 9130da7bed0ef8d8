package preflight_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/disagg/disagg/models"
)

// TestEveryKeyIsRead: a key of the site file that nothing reads would be a promise
// that nobody keeps.
func TestEveryKeyIsRead(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return err
		}
		b, err := os.ReadFile(p)
		source.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	var walk func(reflect.Type, string)
	walk = func(typ reflect.Type, path string) {
		for f := range typ.Fields() {
			if f.Type.Kind() == reflect.Struct {
				walk(f.Type, path+f.Name+".")
				continue
			}
			seen++
			if !strings.Contains(source.String(), "."+f.Name) {
				t.Errorf("nothing reads %s%s", path, f.Name)
			}
		}
	}
	walk(reflect.TypeFor[models.PreflightSite](), "")
	if seen < 40 {
		t.Errorf("only %d keys seen; the walk is broken", seen)
	}
}
