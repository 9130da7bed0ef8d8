package yamlx

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// FieldError is one mistake in one file.
type FieldError struct {
	File string
	// Line and Col are 1-based; Col counts characters. Zero: the file as a whole.
	Line, Col int
	// Path is the key path, such as prefill.tp or exclude[2].nodes; empty when
	// the file could not be read that far.
	Path string
	// Msg says what is wrong and what was expected.
	Msg string
	// Snippet is the offending line and, under it, a line with a caret.
	Snippet string
	// Hint says what to do; may be empty.
	Hint string
}

// Error prints the place and the message on one line, then the snippet and the
// hint on lines of their own.
func (e FieldError) Error() string {
	var b strings.Builder
	if at := (Position{File: e.File, Line: e.Line, Col: e.Col}).String(); at != "" {
		b.WriteString(at + ": ")
	}
	b.WriteString(e.Msg)
	for _, l := range strings.Split(e.Snippet, "\n") {
		if l != "" {
			b.WriteString("\n    " + l)
		}
	}
	if e.Hint != "" {
		b.WriteString("\n  " + e.Hint)
	}
	return b.String()
}

// FieldErrors are all the mistakes of one or more files.
type FieldErrors []FieldError

// Error prints one block a mistake.
func (es FieldErrors) Error() string {
	blocks := make([]string, len(es))
	for i, e := range es {
		blocks[i] = e.Error()
	}
	return strings.Join(blocks, "\n")
}

// Err returns the list as an error, nil when it is empty.
func (es FieldErrors) Err() error {
	if len(es) == 0 {
		return nil
	}
	return es
}

// Sort orders the mistakes by file and place and drops exact repetitions.
func (es FieldErrors) Sort() FieldErrors {
	slices.SortStableFunc(es, func(a, b FieldError) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			strings.Compare(a.Path, b.Path), strings.Compare(a.Msg, b.Msg))
	})
	return slices.Compact(es)
}

// Quote gives the mistakes of one file that have a place but not its line, as
// those have that were found after the file was read, the line.
func (es FieldErrors) Quote(file string, data []byte) FieldErrors {
	src := newSource(file, data)
	for i := range es {
		if e := &es[i]; e.File == file && e.Line > 0 && e.Snippet == "" {
			e.Line, e.Col = src.clamp(e.Line, e.Col)
			e.Snippet = src.snippet(e.Line, e.Col)
		}
	}
	return es
}

// Position is the place of a value in a file. Line and Col are 1-based and Col
// counts characters.
type Position struct {
	File      string
	Line, Col int
	// KeyLine and KeyCol are the place of the value's key; zero for the items
	// of a list and for the document.
	KeyLine, KeyCol int
}

// String prints file:line:col, or what is known of it.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Positions maps key paths (see FieldError.Path) to places. The empty path is
// the document itself.
type Positions map[string]Position

// At returns file:line:col of the value at path, or "" when the file does not
// set it.
func (p Positions) At(path string) string {
	if pos, ok := p[path]; ok {
		return pos.String()
	}
	return ""
}

// Has says whether the file sets the value at path.
func (p Positions) Has(path string) bool {
	_, ok := p[path]
	return ok
}

// Near returns the place of the value at path or, when the file does not set
// it, of the innermost thing around it that it does set.
func (p Positions) Near(path string) Position {
	for {
		if pos, ok := p[path]; ok || path == "" {
			return pos
		}
		path = parent(path)
	}
}

// Key returns the path of key inside the mapping at path. A key that is more
// than letters, digits, '_' and '-' is written ["like this"].
func Key(path, key string) string {
	plain := key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return !(r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	})
	switch {
	case !plain:
		return fmt.Sprintf("%s[%q]", path, key)
	case path == "":
		return key
	}
	return path + "." + key
}

// Index returns the path of the i-th item of the list at path.
func Index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// Inside says whether a path leads into the value at another one. Everything is
// inside the document, "".
func Inside(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	return ok && rest != "" && (of == "" || rest[0] == '.' || rest[0] == '[')
}

// parent cuts the last step off a path.
func parent(path string) string {
	if strings.HasSuffix(path, `"]`) {
		// The key is Go-quoted, so its own quotes have a backslash before them
		// and the last `["` outside an escape opens it.
		for i := len(path) - 3; i > 0; i-- {
			if path[i] == '"' && path[i-1] == '[' && (i < 2 || path[i-2] != '\\') {
				return path[:i-1]
			}
		}
		return ""
	}
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}
