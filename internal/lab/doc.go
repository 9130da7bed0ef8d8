// Package lab is a real Slurm cluster on one machine for tests: N nodes, each
// with its own address, host name, process table, devices, slurmd, sshd and
// Docker daemon, and a controller node from which clients are run.
//
//	var cluster = lab.Lazy{Nodes: 4}
//
//	func TestSubmit(t *testing.T) {
//		l := cluster.Get(t)
//		out := l.MustRun(t, "srun", "-N4", "hostname")
//	}
//
// A lab needs root and Debian's packages (see setup.sh); without them a test is
// skipped with the reason. It changes nothing of the host: labs do not see each
// other, and when the test process ends, in whatever way, its labs are taken
// down whole.
//
// Inside a lab the host's file system is the shared file system, except what
// each node has for itself: /dev, /run, /tmp, /var/log, /usr/local/sbin and the
// directories asked for with WithNodeLocal. So a test's files go to Lab.TempDir,
// not to testing.T.TempDir, which nodes do not see.
package lab
