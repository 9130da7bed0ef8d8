package preflight

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
)

// FactsMain is the node's side: it reads a Spec as JSON from stdin, gathers, and
// writes the facts to stdout between two marking lines. The same program is its
// own helper for reading files: then it writes records instead.
func FactsMain(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var s Spec
	dec := json.NewDecoder(stdin)
	if err := dec.Decode(&s); err != nil {
		return fmt.Errorf("read spec: %w", err)
	}
	if s.Version != SpecVersion {
		return fmt.Errorf("read spec: it is of version %d, this program reads version %d; use the same program on all nodes", s.Version, SpecVersion)
	}
	if s.Read != nil {
		w := bufio.NewWriter(stdout)
		root := s.Root
		if real, err := filepath.EvalSymlinks(root); root != "" && err == nil {
			root = real // link targets are compared with it
		}
		r := &reader{root: root, out: json.NewEncoder(w), w: w, at: map[string]record{}}
		r.read(*s.Read)
		return nil
	}
	f := Gather(ctx, s)
	return WriteFacts(stdout, &f)
}
