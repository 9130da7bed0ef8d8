package preflight

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/disagg/disagg/preflight/facts"
)

// The answer of a node stands between two lines of its own, so that banners,
// messages of the day and chatter of a transport never reach a parser.
const (
	frameBegin = "---DISAGG-FACTS-BEGIN v1---"
	frameEnd   = "---DISAGG-FACTS-END v1 rc=0---"
)

// WriteFacts writes facts so that ReadFacts finds them in any surroundings.
func WriteFacts(w io.Writer, f *Facts) error {
	b, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("write facts: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s\n%s\n%s\n", frameBegin, b, frameEnd); err != nil {
		return fmt.Errorf("write facts: %w", err)
	}
	return nil
}

// ReadFacts finds facts in what a node answered, whatever stands around them. The
// error says whether there was no answer or half of one.
func ReadFacts(answer []byte) (Facts, error) {
	_, rest, ok := bytes.Cut(answer, []byte(frameBegin+"\n"))
	if !ok {
		if _, rest, ok = bytes.Cut(answer, []byte(frameBegin+"\r\n")); !ok {
			return Facts{}, errors.New("read facts: no answer of the node in its output")
		}
	}
	body, _, ok := bytes.Cut(rest, []byte(frameEnd))
	if !ok {
		return Facts{}, errors.New("read facts: the answer of the node was cut off")
	}
	var f Facts
	if err := json.Unmarshal(bytes.TrimSpace(body), &f); err != nil {
		return Facts{}, fmt.Errorf("read facts: %w", err)
	}
	if f.Version != facts.Version {
		return Facts{}, fmt.Errorf("read facts: they are of version %d, this program reads version %d; use the same program on all nodes", f.Version, facts.Version)
	}
	return f, nil
}

// Unreached are the facts of a node that could not be asked, in the words of the
// transport.
func Unreached(node, why string) Facts {
	if why == "" {
		why = "no reason was given"
	}
	return Facts{Version: facts.Version, Node: node, Context: ContextHost, Unreached: why}
}

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b, nil
}
