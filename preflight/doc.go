// Package preflight finds out whether nodes are fit for a run before any GPU time
// is spent: facts are gathered on each node, judged in one place, and reported
// per node and across nodes.
//
//	SpecFrom(plan) ─ Spec ─► Gather on every node ─ Facts ─► Judge ─► Report
//
// Gathering only reads. It starts no container, changes no setting, kills nothing
// but what it started itself, and never asks for a password. Judging is pure: the
// same facts give the same report anywhere, so a bundle saved on a cluster can be
// judged again at a desk.
package preflight
