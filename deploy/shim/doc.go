// Package shim is the process that stands between an agent and one engine: the
// entry point of each container, and the parent of each plain process.
//
// It starts the engine held, reports the environment as that very process has
// it, lets it go when told, writes its log, reports its end, and ends everything
// below it when told to or when the agent is gone. It works as process 1 of an
// image that holds nothing but the shim.
package shim
