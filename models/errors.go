package models

import "github.com/disagg/disagg/models/internal/yamlx"

// FieldError is one mistake in one file: where (File, Line, Col, Path), what is
// wrong (Msg), the offending line with a caret (Snippet) and what to do (Hint).
type FieldError = yamlx.FieldError

// FieldErrors are all the mistakes of one or more files. As an error it prints
// one block a mistake.
type FieldErrors = yamlx.FieldErrors

// Position is a place in a file, 1-based; its String is file:line:col.
type Position = yamlx.Position

// Positions maps key paths such as prefill.tp, env.MC_X and exclude[2].nodes to
// the places that set them. At(path) is "" for what a file does not set.
type Positions = yamlx.Positions

// Nearest returns the name of names that was most probably meant by word, or "".
func Nearest(word string, names []string) string { return yamlx.Nearest(word, names) }

// KeyPath is the path of a key inside the mapping at path, as in Positions.
func KeyPath(path, key string) string { return yamlx.Key(path, key) }
