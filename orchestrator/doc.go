// Package orchestrator runs a plan: it reaches the nodes, checks them, starts
// the workers, the router and the client in order, watches all of it for as long
// as it runs, stops it, looks whether anything was left, and writes down how it
// ended.
//
// One goroutine owns all state of a run (type run). Everything that takes time
// (a call to a node, a poll of an HTTP endpoint) happens in goroutines that hand
// their result to the owner as a function to run there; what nodes report and
// what signals ask for reaches the owner the same way. So there are no locks, and
// the stages read as the sequence they are: each says what it waits for, and the
// waiting (run.await) is where everything else that happens is taken in.
//
// The package knows the words of no scheduler, container runtime or shell: it
// talks to the interfaces in node.go.
package orchestrator
