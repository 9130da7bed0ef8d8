// Package wire carries conversations between the parts of disagg: controller
// and agent, agent and shim.
//
// A message is one frame: four bytes of length, then JSON. Both sides greet
// each other, then a Session exchanges requests, responses and notices over a
// stream and tells by heartbeats whether the other side is there. A Session
// outlives its stream: every message is numbered and kept until the other side
// has confirmed it, so that after a lost connection the conversation goes on
// over a new stream with nothing lost and nothing done twice.
//
// The package knows nothing of what is said.
package wire
