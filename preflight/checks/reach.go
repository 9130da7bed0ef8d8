package checks

import (
	"github.com/disagg/disagg/preflight/facts"
	"github.com/disagg/disagg/preflight/parse"
)

// Reach is the id of the check that a node could be asked at all. Of a node that
// could not, nothing else is judged.
const Reach = "node.reach"

func nodeReach() Check {
	return Check{ID: Reach, Hard: true, Context: facts.ContextHost, Node: judgeReach}
}

func judgeReach(v *View) []Finding {
	if why := v.Facts.Unreached; why != "" {
		kind, line := parse.Reach(why)
		return []Finding{unknown("", reachText(kind)+": "+line, reachFix(kind), evidence("transport", parse.Lines(why)...))}
	}
	if v.Facts.Cut {
		return []Finding{warn("", "gathering was cut off at its time limit: something on the node hangs", "an answer to everything in time", "see which checks are unknown; look at the kernel log, or raise preflight.budget of the site")}
	}
	return []Finding{pass("asked in " + v.Facts.Duration.Round(1e7).String())}
}

func reachText(k parse.ReachKind) string {
	switch k {
	case parse.ReachNoKey:
		return "its host key is not known yet"
	case parse.ReachHostKey:
		return "its host key is not the known one"
	case parse.ReachAuth:
		return "no key was accepted"
	case parse.ReachThrottled:
		return "its ssh server drops connections; the node itself may be well"
	case parse.ReachCancelled:
		return "not run: the step was cancelled"
	case parse.ReachName:
		return "its name does not resolve"
	case parse.ReachNetwork:
		return "no connection"
	case parse.ReachTimeout:
		return "no answer in time"
	case parse.ReachStep:
		return "Slurm did not start the task"
	}
	return "not asked"
}

func reachFix(k parse.ReachKind) string {
	switch k {
	case parse.ReachNoKey:
		return "log in to it once by hand and compare the key, or have the cluster's keys put into /etc/ssh/ssh_known_hosts"
	case parse.ReachHostKey:
		return "the node was probably installed anew: make sure of it, then remove the old line with ssh-keygen -R"
	case parse.ReachAuth:
		return "load the key into the agent, or name it in ssh.identity of the site"
	case parse.ReachThrottled:
		return "run again with fewer connections at once: ssh.max_handshakes of the site"
	case parse.ReachCancelled:
		return "run again: another node's failure ended the step before this node answered"
	case parse.ReachName:
		return "mend DNS or /etc/hosts where the controller runs"
	case parse.ReachNetwork, parse.ReachTimeout:
		return "see whether the node is up and its ssh server or slurmd runs: scontrol show node"
	case parse.ReachStep:
		return "see scontrol show node for its state, and slurmd's log on it"
	}
	return "read the message; ask the node by hand"
}
