package slurm

import (
	"fmt"
	"strings"
)

// Explain says in a sentence why a job waits, or how it ended, from Slurm's word
// for it. Nodes of the job's partition, when given, say which of them no job can
// use. It is empty for a job that runs or has nothing to explain.
func Explain(j Job, nodes []Node) string {
	if j.Presence != Present {
		return ""
	}
	var parts []string
	// A job that was cancelled while it waited keeps the reason for its wait.
	if text := translate(j.Reason); text != "" && j.State != Cancelled {
		parts = append(parts, text)
	}
	if j.State == Pending {
		parts = append(parts, Summary(nodes)...)
	}
	return strings.Join(parts, "; ")
}

// translate turns Slurm's reason into a sentence that says what to do. A word
// that is not known here is passed on as it is.
func translate(reason string) string {
	if reason == "" {
		return ""
	}
	text, ok := reasons()[reason]
	if !ok {
		for prefix, t := range reasonPrefixes() {
			if strings.HasPrefix(reason, prefix) {
				text, ok = t, true
			}
		}
	}
	if !ok {
		return plain(reason)
	}
	return fmt.Sprintf("%s (%s)", text, plain(reason))
}

// reasons are Slurm's words for why a job waits or ended.
func reasons() map[string]string {
	return map[string]string{
		"Resources":                   "waits for nodes to become free",
		"Priority":                    "jobs of higher priority come first",
		"BeginTime":                   "may not start yet: it was given a start time, or was put back in the queue after a failed start",
		"Cleaning":                    "an earlier life of this job is still being cleaned up",
		"Dependency":                  "waits for another job",
		"DependencyNeverSatisfied":    "waits for a job that can no longer end as required; cancel it",
		"JobHeldUser":                 "is held by its owner; release it with scontrol release",
		"JobHeldAdmin":                "is held by an administrator, or because it could not be started; ask them",
		"JobHoldMaxRequeue":           "is held because it failed to start too often; the nodes are at fault",
		"launch failed requeued held": "is held because a node failed to start it; see that node's slurmd log",
		"BadConstraints":              "asks for nodes that the cluster does not have: check GPU request, memory and constraint of the site file",
		"PartitionNodeLimit":          "asks for more nodes than the partition has or allows",
		"PartitionTimeLimit":          "asks for more time than the partition allows; lower time_limit",
		"PartitionDown":               "its partition starts no jobs",
		"PartitionInactive":           "its partition starts no jobs",
		"PartitionConfig":             "its partition does not allow the request",
		"AccountNotAllowed":           "its account may not use the partition",
		"QOSNotAllowed":               "its QOS may not be used in the partition",
		"InvalidAccount":              "its account is not valid",
		"InvalidQOS":                  "its QOS is not valid",
		"NodeDown":                    "a node it needs is down",
		"Reservation":                 "waits for its reservation to begin",
		"ReservationDeleted":          "its reservation is gone",
		"Licenses":                    "waits for a licence",
		"Prolog":                      "a prolog still runs on its nodes",
		"RaisedSignal":                "ended by a signal",
		"NonZeroExitCode":             "ended with an exit code other than 0",
		"TimeLimit":                   "ran into its time limit",
		"OutOfMemory":                 "used more memory than it was given",
		"JobLaunchFailure":            "could not be started on its nodes",
		"SystemFailure":               "Slurm, the file system or the network failed",
	}
}

// reasonPrefixes are words that go on with details of the site.
func reasonPrefixes() map[string]string {
	return map[string]string{
		"ReqNodeNotAvail":            "a node it needs is not available",
		"Nodes required for job are": "nodes it needs are down, drained or reserved",
		"QOSMax":                     "the limits of its QOS are reached",
		"QOSGrp":                     "the shared limits of its QOS are reached",
		"QOSMin":                     "asks for less than its QOS demands",
		"Assoc":                      "the limits of its account are reached",
		"MaxGRESPerAccount":          "the GPU limit of its account is reached",
	}
}
