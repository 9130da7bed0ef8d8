package labd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Spec is what a lab is made from. It is written to spec.json in the lab's
// directory before the supervisor starts.
type Spec struct {
	// Dir is the lab's directory, absolute. Everything on disk is below it.
	Dir string `json:"dir"`
	// ID is unique on the machine and names the lab's control groups.
	ID    string   `json:"id"`
	Nodes []string `json:"nodes"` // node names in order
	// GPUs is the number of fake GPUs of a node.
	GPUs int `json:"gpus"`
	// NICs is the number of fake RDMA devices in /dev/infiniband.
	NICs int `json:"nics"`
	// CPUs and MemoryMB are what slurm.conf claims for each node.
	CPUs     int `json:"cpus"`
	MemoryMB int `json:"memory_mb"`
	// SlurmConf are lines added to slurm.conf; GresConf replaces gres.conf
	// when not empty.
	SlurmConf []string `json:"slurm_conf,omitempty"`
	GresConf  string   `json:"gres_conf,omitempty"`
	// NodeLocal names directories that each node has for itself, empty at first.
	NodeLocal []string `json:"node_local,omitempty"`
	// SSHD are lines for sshd_config.
	SSHD  []string `json:"sshd,omitempty"`
	Users []User   `json:"users,omitempty"`
	// SmallDisks are shared file systems of limited size.
	SmallDisks []SmallDisk `json:"small_disks,omitempty"`
	// Docker says whether the nodes run dockerd.
	Docker bool `json:"docker"`
	// DockerSeed is a Docker data directory whose images every node starts
	// with; empty: none.
	DockerSeed string `json:"docker_seed,omitempty"`
	// Self is the path of the lab binary.
	Self string `json:"self"`
}

// User is an unprivileged account that exists on every node.
type User struct {
	Name string `json:"name"`
	UID  int    `json:"uid"`
	// Docker puts the user into the group that may use the Docker socket.
	Docker bool `json:"docker"`
	// Sudo lets the user run docker, and nothing else, through sudo without a
	// password.
	Sudo bool `json:"sudo"`
}

// SmallDisk is a file system in memory that every node sees and that can be
// full.
type SmallDisk struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// State is what the supervisor says when the lab is up. It is written to
// lab.json in the lab's directory.
type State struct {
	Spec Spec `json:"spec"`
	// Supervisor and Ctl are process ids in the host's PID namespace.
	Supervisor int         `json:"supervisor"`
	Ctl        int         `json:"ctl"`
	Nodes      []NodeState `json:"nodes"`
}

// NodeState is one running node.
type NodeState struct {
	Name string `json:"name"`
	Addr string `json:"addr"`
	// PID of the node's init in the host's PID namespace; 0 while it is off.
	PID int `json:"pid"`
}

// The lab's network. It lives in network namespaces of its own, so every lab
// uses the same addresses. 198.18.0.0/15 is set aside for tests by RFC 2544.
const (
	ctlName   = "ctl"
	ctlAddr   = "198.18.0.1"
	netPrefix = 24
	ctldPort  = "6817"
)

// NodeAddr is the address of the i-th node, counted from zero.
func NodeAddr(i int) string { return fmt.Sprintf("198.18.0.%d", 11+i) }

// CtlAddr is the address of the controller node.
func CtlAddr() string { return ctlAddr }

// SearchPath is PATH inside the lab. The first directory is the node's own and
// holds the tools a test put there.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Path joins elements below the lab's directory.
func (s Spec) Path(elem ...string) string {
	return filepath.Join(append([]string{s.Dir}, elem...)...)
}

// NodePath joins elements below the directory of one node.
func (s Spec) NodePath(node string, elem ...string) string {
	return s.Path(append([]string{"nodes", node}, elem...)...)
}

// NodeRoot is the directory that shows, on each node, that node's own tree of
// fixture files.
func (s Spec) NodeRoot() string { return s.Path("noderoot") }

// LocalDir is where each node sees its own directory of that name.
func (s Spec) LocalDir(name string) string { return s.Path("local", name) }

// SmallDir is where every node sees the small disk of that name.
func (s Spec) SmallDir(name string) string { return s.Path("small", name) }

// Shared is the directory for tests' files that every node sees.
func (s Spec) Shared() string { return s.Path("shared") }

func (s Spec) index(node string) (int, error) {
	for i, n := range s.Nodes {
		if n == node {
			return i, nil
		}
	}
	return 0, fmt.Errorf("lab has no node %q; it has %s", node, strings.Join(s.Nodes, " "))
}

// ReadSpec reads spec.json of the lab in dir.
func ReadSpec(dir string) (Spec, error) {
	var s Spec
	return s, readJSON(filepath.Join(dir, "spec.json"), &s)
}

// WriteSpec writes spec.json into the lab's directory.
func (s Spec) WriteSpec() error { return writeJSON(s.Path("spec.json"), s) }

// ReadState reads lab.json of the lab in dir.
func ReadState(dir string) (State, error) {
	var s State
	return s, readJSON(filepath.Join(dir, "lab.json"), &s)
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read lab file: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read lab file %s: %w", path, err)
	}
	return nil
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode lab file: %w", err)
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write lab file: %w", err)
	}
	return os.Rename(tmp, path)
}
