package preflight_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// row is one row of the fixture index.
type row struct {
	file    string // folder/name
	verdict string // PASS, WARN, FAIL, UNKNOWN, INFO
	why     string
}

// sharedFixtures is the folder of captured outputs beside the module, or "" where
// it is not there.
func sharedFixtures(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
	shared := filepath.Join(filepath.Dir(dir), "shared", "preflight-fixtures")
	if _, err := os.Stat(filepath.Join(shared, "INDEX.md")); err != nil {
		return ""
	}
	return shared
}

var (
	sectionRE = regexp.MustCompile(`^## ([\w-]+)/`)
	rowRE     = regexp.MustCompile("^\\| `([^`]+)` \\|(.*)\\|\\s*$")
	verdictRE = regexp.MustCompile(`\*\*(PASS|WARN|FAIL|UNKNOWN|INFO)\*\*`)
)

// readIndex reads the tables of an index.
func readIndex(t *testing.T, path string) []row {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []row
	folder := ""
	for _, l := range strings.Split(string(data), "\n") {
		if m := sectionRE.FindStringSubmatch(l); m != nil {
			folder = m[1]
			continue
		}
		m := rowRE.FindStringSubmatch(l)
		if m == nil || folder == "" {
			continue
		}
		loc := verdictRE.FindStringSubmatchIndex(m[2])
		if loc == nil {
			t.Errorf("index row without a verdict: %s", l)
			continue
		}
		out = append(out, row{folder + "/" + m[1], m[2][loc[2]:loc[3]], strings.Trim(strings.ReplaceAll(m[2][loc[1]:], `\|`, "|"), " |")})
	}
	return out
}

// disagreements reads the rows we judge differently on purpose: file, our
// verdict, reason; separated by tabs.
func disagreements(t *testing.T) map[string][2]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "index-disagreements.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][2]string{}
	for n, l := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		f := strings.Split(l, "\t")
		if len(f) != 3 || len(f[2]) < 40 {
			t.Errorf("index-disagreements.tsv:%d: want file, verdict and an argument", n+1)
			continue
		}
		out[f[0]] = [2]string{f[1], f[2]}
	}
	return out
}

func TestIndex(t *testing.T) {
	t.Parallel()
	dirs := []string{filepath.Join("testdata", "captures")}
	if shared := sharedFixtures(t); shared != "" {
		dirs = append(dirs, shared)
	}
	ours := disagreements(t)
	for _, dir := range dirs {
		rows := readIndex(t, filepath.Join(dir, "INDEX.md"))
		if len(rows) < 20 {
			t.Fatalf("%s has only %d rows; the reader is broken", dir, len(rows))
		}
		agree := 0
		for _, r := range rows {
			data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(r.file)))
			if err != nil {
				t.Errorf("%s: %v", r.file, err)
				continue
			}
			c := route(r.file, string(data), r.why)
			got, detail := c.judge()
			want := r.verdict
			if want == "INFO" && c.info == nil && got != "UNKNOWN" && got != "NOCHECK" {
				// Input for another check: it only has to be understood.
				want = got
			}
			if o, ok := ours[r.file]; ok {
				want = o[0]
				if o[0] == r.verdict {
					t.Errorf("%s: listed as a disagreement, but the index says %s too", r.file, r.verdict)
				}
			}
			if got != want {
				t.Errorf("%s: judged %s, want %s (%s)\n%s", r.file, got, want, r.why, detail)
				continue
			}
			agree++
		}
		t.Logf("%s: %d of %d rows as expected", filepath.Base(dir), agree, len(rows))
	}
}
