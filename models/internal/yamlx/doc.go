// Package yamlx reads the YAML files of this project strictly: every mistake of
// a file is reported, not only the first, and each with file, line, column and
// the line itself. It is the only package that knows the YAML library.
//
// What is stricter than YAML: one document a file, no empty file, no key that
// the Go type does not have, no key twice, no null, no merge key, no tag, no
// number in another base. Anchors and aliases are read.
package yamlx
