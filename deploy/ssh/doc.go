// Package ssh starts agents on nodes over SSH: it connects, through jump hosts
// where needed, puts the disagg binary on the node, and speaks with the agent
// over the session's stdin and stdout.
//
// Closing an SSH session ends nothing on the other side, so nothing here relies
// on it: the agent ends by its lease, the end of its stdin or the silence on it.
package ssh
