// Package nodecheck brings preflight to nodes: it has the facts gathered on all of
// them at once over the connections of a launcher, each under a deadline of its
// own, and has them judged in one place. A run uses it as a stage, a person as a
// command.
package nodecheck
