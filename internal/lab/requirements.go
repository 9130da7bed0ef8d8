package lab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/disagg/disagg/internal/lab/labd"
)

// needs are the programs of a lab and Debian's packages that hold them.
func needs() [][2]string {
	return [][2]string{
		{"slurmctld", "slurmctld"}, {"slurmd", "slurmd"}, {"srun", "slurm-client"}, {"munged", "munge"},
		{"sshd", "openssh-server"}, {"ssh-keygen", "openssh-client"}, {"ip", "iproute2"},
		{"dockerd", "docker.io"}, {"containerd", "containerd"}, {"runc", "runc"}, {"busybox", "busybox-static"},
		{"nsenter", "util-linux"}, {"setpriv", "util-linux"}, {"unshare", "util-linux"},
	}
}

// Possible says why this machine cannot have a lab; nil: it can.
func Possible() error {
	if os.Geteuid() != 0 {
		return errors.New("the lab needs root")
	}
	var missing []string
	for _, n := range needs() {
		if !onPath(n[0]) && !slices.Contains(missing, n[1]) {
			missing = append(missing, n[1])
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the lab needs the packages %s (internal/lab/setup.sh installs them)", strings.Join(missing, " "))
	}
	return nil
}

func onPath(name string) bool {
	for _, dir := range strings.Split(labd.SearchPath, ":") {
		if _, err := os.Stat(dir + "/" + name); err == nil {
			return true
		}
	}
	return false
}
