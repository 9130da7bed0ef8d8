package deploy

import (
	"errors"
	"strings"

	"github.com/disagg/disagg/deploy/wire"
)

// Class names a kind of failure, for programs that decide by it.
type Class string

// Classes of failures on a node.
const (
	ClassRuntimeAbsent  Class = "runtime-absent"     // no docker or podman on the node
	ClassRuntimeDenied  Class = "runtime-denied"     // its socket may not be used
	ClassRuntimeDown    Class = "runtime-down"       // its daemon does not answer
	ClassImageMissing   Class = "image-missing"      // not on the node
	ClassImageUnknown   Class = "image-unknown"      // the registry does not have it
	ClassRegistryDenied Class = "registry-denied"    // the registry wants other credentials
	ClassRegistryDown   Class = "registry-down"      // the registry cannot be reached
	ClassPrivileged     Class = "privileged-refused" // the host grants no --privileged
	ClassUlimit         Class = "ulimit-refused"     // the host grants no such limit
	ClassEntrypoint     Class = "entrypoint"         // the container cannot start the shim
	ClassNameConflict   Class = "name-conflict"      // another container has the name
	ClassPortInUse      Class = "port-in-use"
	ClassDevice         Class = "device" // a device is missing on the node
	ClassMount          Class = "mount"  // a mounted path is missing or unusable
	ClassNoSpace        Class = "no-space"
	ClassEnvironment    Class = "environment" // a variable that no process can be given
	ClassProgram        Class = "program"     // the program cannot be started
	ClassUnknown        Class = "unknown-workload"
	ClassLeftover       Class = "leftover" // something could not be ended
	ClassEnding         Class = "ending"   // the agent was told to end, and starts nothing any more

	ClassSSHUnreachable Class = "ssh-unreachable" // no such name, no route
	ClassSSHRefused     Class = "ssh-refused"     // nothing listens there
	ClassSSHTimeout     Class = "ssh-timeout"     // no answer in time
	ClassSSHThrottled   Class = "ssh-throttled"   // hung up before the greeting, again and again
	ClassSSHAuth        Class = "ssh-auth"        // none of the keys is accepted
	ClassSSHHostKey     Class = "ssh-host-key"    // the host's key is unknown or has changed
	ClassSSHBinary      Class = "ssh-binary"      // the disagg binary cannot be put or started there
)

// Fault is a failure with a class and, where one is known, a remedy. It keeps
// both on its way from a node to the controller.
type Fault struct {
	Class Class
	// Msg says what failed, where, and what was expected.
	Msg string
	// Hint says what to do next; may be empty.
	Hint string
}

// Error gives message and remedy.
func (f *Fault) Error() string {
	if f.Hint == "" {
		return f.Msg
	}
	return f.Msg + "; " + f.Hint
}

// ClassOf gives the class of a failure, or "".
func ClassOf(err error) Class {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Class
	}
	return ""
}

// ToWire prepares a failure for its way to the other side.
func ToWire(err error) error {
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		return err
	}
	return &wire.Error{Class: string(f.Class), Message: err.Error(), Hint: f.Hint}
}

// FromWire gives a failure that came from the other side its type back.
func FromWire(err error) error {
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		return err
	}
	msg := e.Message
	if e.Hint != "" {
		msg = strings.TrimSuffix(msg, "; "+e.Hint)
	}
	return &Fault{Class: Class(e.Class), Msg: msg, Hint: e.Hint}
}
