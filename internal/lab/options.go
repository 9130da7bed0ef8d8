package lab

import "github.com/disagg/disagg/internal/lab/labd"

// Option changes what a lab is made of.
type Option func(*labd.Spec)

// User is an unprivileged account on every node.
type User = labd.User

// WithNames names the nodes; the default is node1, node2, …
func WithNames(names ...string) Option {
	return func(s *labd.Spec) { copy(s.Nodes, names) }
}

// WithGPUs sets the number of fake GPUs of a node; the default is 8.
func WithGPUs(n int) Option { return func(s *labd.Spec) { s.GPUs = n } }

// WithNICs sets the number of fake RDMA devices of a node; the default is 8.
func WithNICs(n int) Option { return func(s *labd.Spec) { s.NICs = n } }

// WithSlurmConf adds lines to slurm.conf.
func WithSlurmConf(lines ...string) Option {
	return func(s *labd.Spec) { s.SlurmConf = append(s.SlurmConf, lines...) }
}

// WithGresConf replaces gres.conf, which else names one device file for each GPU.
func WithGresConf(text string) Option { return func(s *labd.Spec) { s.GresConf = text } }

// WithNodeLocal makes directories that each node has for itself, at the path
// that Lab.NodeLocal gives for the name.
func WithNodeLocal(names ...string) Option {
	return func(s *labd.Spec) { s.NodeLocal = append(s.NodeLocal, names...) }
}

// WithSmallDisk makes a file system of that many bytes that every node sees at
// the path that Lab.SmallDir gives for the name. It can be filled without harm
// to anything else.
func WithSmallDisk(name string, bytes int64) Option {
	return func(s *labd.Spec) { s.SmallDisks = append(s.SmallDisks, labd.SmallDisk{Name: name, Bytes: bytes}) }
}

// WithSSHD adds lines to every node's sshd_config, before the lab's own: in it
// the first value counts.
func WithSSHD(lines ...string) Option {
	return func(s *labd.Spec) { s.SSHD = append(s.SSHD, lines...) }
}

// WithUser adds an account. Its home is on the shared file system and holds the
// ssh key of the lab.
func WithUser(u User) Option { return func(s *labd.Spec) { s.Users = append(s.Users, u) } }

// WithoutDocker leaves the Docker daemons out.
func WithoutDocker() Option { return func(s *labd.Spec) { s.Docker = false } }
