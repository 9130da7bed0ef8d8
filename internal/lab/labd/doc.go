// Package labd is the inside of the test lab: the processes that make one
// machine look like a Slurm cluster.
//
// Three kinds of process run from the same binary (internal/lab/cmd/lab):
//
//   - the supervisor, in the host's namespaces. It starts the controller,
//     waits until the lab is no longer wanted, and takes everything down.
//   - the controller node "ctl", process 1 of the lab's PID namespace, with the
//     lab's bridge, munged and slurmctld in its own network and mount
//     namespaces.
//   - one init per compute node, process 1 of a nested PID namespace, with
//     sshd, dockerd and slurmd.
//
// Everything a lab makes hangs below one process or one directory: killing the
// controller ends every process, mount, link and network namespace of the lab,
// because the kernel drops them with their last user. What is left for the
// supervisor are control groups and files.
package labd
