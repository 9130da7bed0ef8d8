// Package runtime starts shims on a node: in a container of docker or podman, or
// as a plain process. It touches only what carries the labels or marks of the
// run it works for.
package runtime
