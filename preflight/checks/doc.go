// Package checks judges the facts of nodes. A check is a small value built from
// what a run or a site expects; it looks at facts and says what it found. It
// touches nothing and asks nobody, so the same facts always give the same
// findings.
//
// A check that could not look says unknown, never pass.
package checks
