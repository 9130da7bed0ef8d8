// Package faults says, as data, what can go wrong with a run and what must come
// of it: each fault with how it is brought about, the exit codes that may follow,
// the cause as it is printed, how long until nothing is left on any node, and
// what must have been kept. The tests of this package bring every one of them
// about on the lab and look for themselves; docs/reliability.md is printed from
// the same data.
package faults
