package hygiene

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// root is the module's directory.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}

type goFile struct {
	rel, dir string
	test     bool
	ast      *ast.File
	fset     *token.FileSet
}

func goFiles(t *testing.T) []goFile {
	t.Helper()
	top := root(t)
	var out []goFile
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); p != top && (strings.HasPrefix(n, ".") || n == "testdata" || n == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, p)
		out = append(out, goFile{rel: rel, dir: filepath.Dir(rel), test: strings.HasSuffix(p, "_test.go"), ast: f, fset: fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found only %d Go files; the walk is broken", len(out))
	}
	return out
}

// within says whether path is pattern, or below it when pattern ends in /... .
func within(path, pattern string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == tree || strings.HasPrefix(path, tree+"/")
	}
	return path == pattern
}

func anyWithin(path string, patterns []string) bool {
	for _, p := range patterns {
		if within(path, p) {
			return true
		}
	}
	return false
}

func TestImportRules(t *testing.T) {
	files := goFiles(t)
	for _, r := range Rules() {
		for _, f := range files {
			if f.test && !r.TestsToo {
				continue
			}
			for _, imp := range f.ast.Imports {
				path, _ := strconv.Unquote(imp.Path.Value)
				if !within(path, r.Import) {
					continue
				}
				bad := len(r.OnlyIn) > 0 && !anyWithin(f.dir, r.OnlyIn) ||
					len(r.OnlyIn) == 0 && anyWithin(f.dir, r.NotIn)
				if bad {
					t.Errorf("%s imports %s: %s", f.rel, path, r.Why)
				}
			}
		}
	}
}

// TestSiblingsDoNotMeet keeps slurm, preflight and deploy apart: the
// orchestrator joins them by values.
func TestSiblingsDoNotMeet(t *testing.T) {
	sib := []string{"slurm", "preflight", "deploy"}
	for _, f := range goFiles(t) {
		for _, own := range sib {
			if !within(f.dir, own+"/...") || f.test {
				continue
			}
			for _, imp := range f.ast.Imports {
				path, _ := strconv.Unquote(imp.Path.Value)
				for _, other := range sib {
					if other != own && within(path, Module+"/"+other+"/...") {
						t.Errorf("%s imports %s: %s and %s do not know each other", f.rel, path, own, other)
					}
				}
			}
		}
	}
}

// banned calls outside tests: selector → where it is allowed, and why.
var banned = []struct {
	sel   string
	allow []string
	why   string
}{
	{"fmt.Print", []string{"nowhere"}, "write to a stream that the caller gave"},
	{"fmt.Printf", []string{"nowhere"}, "write to a stream that the caller gave"},
	{"fmt.Println", []string{"nowhere"}, "write to a stream that the caller gave"},
	{"os.Exit", []string{"cmd/disagg", "deploy/shim", "internal/standin/...", "internal/lab/...", "internal/bench/..."}, "exit codes are decided in one place"},
	{"log.Fatal", []string{"nowhere"}, "return the error"},
	{"log.Fatalf", []string{"nowhere"}, "return the error"},
	{"zap.L", []string{"nowhere"}, "loggers are handed in"},
	{"zap.S", []string{"nowhere"}, "loggers are handed in"},
	{"ssh.InsecureIgnoreHostKey", []string{"nowhere"}, "host keys are checked"},
	{"context.TODO", []string{"nowhere"}, "take the caller's context"},
}

func TestBannedCalls(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			name := pkg.Name + "." + sel.Sel.Name
			for _, b := range banned {
				if name == b.sel && !anyWithin(f.dir, b.allow) {
					t.Errorf("%s: %s: %s", f.fset.Position(n.Pos()), name, b.why)
				}
			}
			return true
		})
	}
}

func TestNoInit(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !f.test {
				t.Errorf("%s: no init functions: what runs is what main calls", f.rel)
			}
		}
	}
}

// TestExportedDocs: every exported symbol says what it means.
func TestExportedDocs(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test || strings.HasPrefix(f.dir, "internal/standin/cmd") {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedRecv(d) {
					t.Errorf("%s: %s has no doc comment", f.fset.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
							t.Errorf("%s: type %s has no doc comment", f.fset.Position(s.Pos()), s.Name.Name)
						}
					case *ast.ValueSpec:
						for _, n := range s.Names {
							if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
								t.Errorf("%s: %s has no doc comment", f.fset.Position(s.Pos()), n.Name)
							}
						}
					}
				}
			}
		}
	}
}

func exportedRecv(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	if s, ok := typ.(*ast.StarExpr); ok {
		typ = s.X
	}
	if ix, ok := typ.(*ast.IndexExpr); ok {
		typ = ix.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

// TestText holds every text file of the project to what a stranger may read.
func TestText(t *testing.T) {
	top := root(t)
	rules := []struct {
		re  *regexp.Regexp
		why string
	}{
		{regexp.MustCompile(`(^|[^.\w])(TODO|FIXME|XXX)\b`), "nothing is left for later in the tree"},
		{regexp.MustCompile(`(^|[\s"'=(])/(work|root)/`), "no absolute path of one machine"},
		{regexp.MustCompile(`https?://(proxy\.golang|pypi|files\.pythonhosted|registry\.npmjs|deb\.debian|static\.crates)`), "no package registry's host name"},
	}
	self := filepath.Join("internal", "hygiene")
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, p)
		if d.IsDir() {
			if n := d.Name(); n == ".git" || n == ".lab" || rel == "bin" || rel == self || n == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if rel == ".git" || rel == "go.sum" || rel == "LICENSE" || !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if bytes.IndexByte(data, 0) >= 0 {
			return nil
		}
		sc := bufio.NewScanner(bytes.NewReader(data))
		sc.Buffer(nil, 1<<22)
		for n := 1; sc.Scan(); n++ {
			for _, r := range rules {
				if m := r.re.FindString(sc.Text()); m != "" {
					t.Errorf("%s:%d: %q: %s", rel, n, m, r.why)
				}
			}
		}
		return sc.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDependencies: go.mod requires directly only what is on the list.
func TestDependencies(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	allowed := Dependencies()
	seen := 0
	for _, line := range strings.Split(string(data), "\n") {
		f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(f) < 2 || !strings.HasPrefix(f[1], "v") || strings.Contains(line, "// indirect") {
			continue
		}
		seen++
		if _, ok := allowed[f[0]]; !ok {
			t.Errorf("go.mod requires %s, which is not on the list in rules.go", f[0])
		}
	}
	if seen == 0 {
		t.Error("no direct requirement found in go.mod; the test is broken")
	}
}
