package models

import (
	"slices"

	"github.com/disagg/disagg/models/internal/yamlx"
)

// Mistakes tells which values of a file have a mistake, so that what can be read
// of the file can be looked at further without complaints that only follow from
// the first. The zero value has none.
type Mistakes struct{ doc *yamlx.Document }

// Any says whether there is a mistake at all.
func (m Mistakes) Any() bool { return m.doc != nil && m.doc.Err() != nil }

// At says whether the value at path, one around it or one inside it has a
// mistake, or is one that a misspelt key was probably meant to set.
func (m Mistakes) At(path string) bool { return m.Any() && m.doc.FailedIn(path) }

// Only says whether every mistake lies in one of these top-level keys.
func (m Mistakes) Only(keys ...string) bool {
	if !m.Any() {
		return true
	}
	for _, path := range m.doc.FailedPaths() {
		if !slices.ContainsFunc(keys, func(k string) bool { return path == k || yamlx.Inside(path, k) }) {
			return false
		}
	}
	return true
}
