// Package deploy reaches nodes and runs workloads on them. It knows how a
// process or container is started, watched and stopped, and nothing about what
// is being deployed.
package deploy
