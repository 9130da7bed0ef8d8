package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// WriteSecrets stores the values of secret variables, readable by the owner
// only, NUL-separated because a value may hold anything else.
func (d *Dir) WriteSecrets(values map[string][]byte) error {
	var buf bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("write secrets: %q cannot be the name of a variable", name)
		}
		if bytes.IndexByte(values[name], 0) >= 0 {
			return fmt.Errorf("write secrets: the value of %s holds a NUL byte, which no environment can carry", name)
		}
		buf.WriteString(name)
		buf.WriteByte('=')
		buf.Write(values[name])
		buf.WriteByte(0)
	}
	return d.Put(SecretsFile, buf.Bytes(), 0o600)
}

// Secrets reads the values back; none were stored: an empty map. A file that
// others can read is refused: its values must be taken as known to others.
func (d *Dir) Secrets() (map[string][]byte, error) {
	out := map[string][]byte{}
	path := d.Join(SecretsFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("read secrets: %s has mode %04o, want 0600; its values may be known to others: replace them and submit again", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	for rec := range bytes.SplitSeq(data, []byte{0}) {
		if len(rec) == 0 {
			continue
		}
		name, value, ok := bytes.Cut(rec, []byte{'='})
		if !ok {
			return nil, fmt.Errorf("read secrets: %s holds a record without '='", path)
		}
		out[string(name)] = value
	}
	return out, nil
}

// RemoveSecrets takes the file with the values away; none is there: no error.
func (d *Dir) RemoveSecrets() error {
	if err := os.Remove(d.Join(SecretsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove secrets: %w", err)
	}
	return nil
}
