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

// WithNodeLocal makes absolute directories, whose parents must exist, each
// node's own instead of shared.
func WithNodeLocal(dirs ...string) Option {
	return func(s *labd.Spec) { s.NodeLocal = append(s.NodeLocal, dirs...) }
}

// WithUser adds an account. Its home is on the shared file system and holds the
// ssh key of the lab.
func WithUser(u User) Option { return func(s *labd.Spec) { s.Users = append(s.Users, u) } }

// WithoutDocker leaves the Docker daemons out.
func WithoutDocker() Option { return func(s *labd.Spec) { s.Docker = false } }
