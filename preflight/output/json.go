package output

import (
	"encoding/json"
	"strings"
)

func writeJSON(b *strings.Builder, d Document) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}
