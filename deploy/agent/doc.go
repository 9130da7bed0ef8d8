// Package agent is the process that works on one node for the controller of one
// run. It holds the lease: when the controller is gone, everything it started is
// ended.
package agent
