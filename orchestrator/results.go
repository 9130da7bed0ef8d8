package orchestrator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/internal/redact"
	"github.com/disagg/disagg/orchestrator/result"
)

// minSuccess is the share of requests that must succeed for a point to count.
// Refused requests are fast, and look like throughput.
const minSuccess = 0.99

// listFiles lists the files of a point, sorted, relative to its directory. The
// tool's own mark is none of them.
func listFiles(dir string) ([]result.File, error) {
	var out []result.File
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() || d.Name() == pointMark {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		out = append(out, result.File{Path: filepath.ToSlash(rel), Bytes: info.Size()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list results: %w", err)
	}
	slices.SortFunc(out, func(a, b result.File) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// checkFiles says what is wrong with a point's files; "": nothing. Each glob must
// match a file that is not empty; without globs any such file will do. A file that
// is older than the point is another run's, and counts for nothing.
func checkFiles(dir string, files []result.File, globs []string) string {
	since := pointBegan(dir)
	var fresh []result.File
	old := ""
	for _, f := range files {
		if isStale(filepath.Join(dir, filepath.FromSlash(f.Path)), since) {
			old = fmt.Sprintf(" (%s is older than the point)", f.Path)
			continue
		}
		fresh = append(fresh, f)
	}
	if len(globs) == 0 {
		if slices.ContainsFunc(fresh, func(f result.File) bool { return f.Bytes > 0 }) {
			return checkNumbers(dir, fresh)
		}
		return fmt.Sprintf("it left no result file that is not empty in %s%s", dir, old)
	}
	for _, g := range globs {
		matched, filled := false, false
		for _, f := range fresh {
			ok, err := path.Match(g, f.Path)
			if err != nil {
				return fmt.Sprintf("the pattern %q of its results is broken: %v", g, err)
			}
			matched = matched || ok
			filled = filled || ok && f.Bytes > 0
		}
		switch {
		case !matched:
			return fmt.Sprintf("it left no file that matches %q in %s%s", g, dir, old)
		case !filled:
			return fmt.Sprintf("the files that match %q in %s are empty", g, dir)
		}
	}
	return checkNumbers(dir, fresh)
}

// clockStep is how coarse the times of files may be on some file systems.
const clockStep = 2 * time.Second

// pointBegan is when the point's directory was made, by the clock that its files
// go by; zero: nobody knows.
func pointBegan(dir string) time.Time {
	st, err := os.Stat(filepath.Join(dir, pointMark))
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}

func isStale(file string, since time.Time) bool {
	st, err := os.Stat(file)
	return err == nil && !since.IsZero() && st.ModTime().Before(since.Add(-clockStep))
}

// maxResult bounds a result file that is looked into.
const maxResult = 64 << 20

// secretsIn names the result files that hold secrets. They are the client's own
// and stay as they are, but whoever passes them on must know.
func secretsIn(dir string, files []result.File, red *redact.Redactor) []string {
	var out []string
	for _, f := range files {
		if f.Bytes > maxResult {
			out = append(out, fmt.Sprintf("%s was not searched for secrets: it has %d bytes", f.Path, f.Bytes))
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if err != nil {
			out = append(out, fmt.Sprintf("%s was not searched for secrets: %v", f.Path, err))
			continue
		}
		if names := red.Found(data); len(names) > 0 {
			out = append(out, fmt.Sprintf("%s holds the value of %s, written by the client; take it out before the results are passed on", f.Path, strings.Join(names, ", ")))
		}
	}
	return out
}

// checkNumbers looks into JSON results for what serving benchmarks write, and
// refuses runs in which nothing, or not nearly everything, was served. A result that
// is cut off is none.
func checkNumbers(dir string, files []result.File) string {
	for _, f := range files {
		if f.Bytes > maxResult || path.Ext(f.Path) != ".json" && path.Ext(f.Path) != ".jsonl" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if err != nil {
			return fmt.Sprintf("its result %s cannot be read: %v", f.Path, err)
		}
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if path.Ext(f.Path) == ".json" {
				line = data
			}
			if why := checkSummary(line); why != "" {
				return fmt.Sprintf("its result %s says that %s", f.Path, why)
			}
			if path.Ext(f.Path) == ".json" {
				break
			}
		}
		if cutOff(data) {
			return fmt.Sprintf("its result %s is cut off: the JSON in it does not end", f.Path)
		}
	}
	return ""
}

// cutOff says that the last of the JSON values in data breaks off. What is no JSON,
// or another dialect of it (NaN), is not judged.
func cutOff(data []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

func checkSummary(data []byte) string {
	var s struct {
		Completed *float64 `json:"completed"`
		Failed    *float64 `json:"failed"`
		Prompts   *float64 `json:"num_prompts"`
		Output    *float64 `json:"total_output_tokens"`
	}
	if json.Unmarshal(data, &s) != nil {
		return "" // not such a summary
	}
	total := 0.0
	switch {
	case s.Completed == nil:
		return ""
	case s.Failed != nil:
		total = *s.Completed + *s.Failed
	case s.Prompts != nil:
		total = *s.Prompts
	}
	switch {
	case *s.Completed == 0:
		return "no request was completed"
	case s.Output != nil && *s.Output == 0:
		return "no token was generated"
	case total > 0 && *s.Completed/total < minSuccess:
		return fmt.Sprintf("only %g of %g requests were completed", *s.Completed, total)
	}
	return ""
}
