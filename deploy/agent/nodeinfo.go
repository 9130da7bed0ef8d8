package agent

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/internal/hostnet"
	"github.com/disagg/disagg/deploy/runtime"
)

// nodeInfo gathers what the controller needs to know of the node.
func (a *agent) nodeInfo(ctx context.Context) (deploy.NodeInfo, error) {
	var wg sync.WaitGroup
	// Asking the container daemon takes longer than all the rest.
	wg.Go(func() {
		if k := a.boot.Runtime.Kind; k == "docker" || k == "podman" {
			a.containers, a.containersErr = runtime.Probe(ctx, k, a.boot.Runtime.Sudo)
		}
	})
	host, herr := os.Hostname()
	info := deploy.NodeInfo{
		Name: cmp.Or(a.boot.Node, os.Getenv("SLURMD_NODENAME"), host),
		Host: host,
		PID:  os.Getpid(), UID: os.Getuid(),
		Arch: goruntime.GOARCH, BootID: firstLine("/proc/sys/kernel/random/boot_id"),
		Version:        a.opts.Version,
		SlurmProcID:    -1,
		RDMA:           rdmaDevices(filepath.Join(cmp.Or(a.boot.Root, "/"), "sys/class/infiniband")),
		EphemeralPorts: portRange(firstLine("/proc/sys/net/ipv4/ip_local_port_range")),
	}
	if n, err := strconv.Atoi(os.Getenv("SLURM_PROCID")); err == nil {
		info.SlurmProcID = n
	}
	err := herr
	if err == nil {
		var links []hostnet.Link
		if links, err = hostnet.Links(); err == nil {
			info.Addrs = hostnet.Usable(links)
			info.Interface, info.Addr, err = hostnet.Pick(links, a.boot.Interface, hostnet.DefaultRoute("/proc/net/route"), a.boot.Loopback)
		}
	}
	wg.Wait()
	if a.containers != nil {
		info.Docker = a.containers.Command()
	}
	if a.containersErr != nil {
		info.DockerError = a.containersErr.Error()
	}
	return info, err
}

func firstLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// portRange reads ip_local_port_range; zeros where it is not known.
func portRange(s string) [2]int {
	var r [2]int
	f := strings.Fields(s)
	if len(f) != 2 {
		return r
	}
	low, err1 := strconv.Atoi(f[0])
	high, err2 := strconv.Atoi(f[1])
	if err1 == nil && err2 == nil {
		r = [2]int{low, high}
	}
	return r
}

// rdmaDevices lists RDMA devices in natural order: mlx5_2 before mlx5_10.
func rdmaDevices(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, filepath.Base(e.Name()))
	}
	slices.SortFunc(out, natural)
	return out
}

// natural compares names by their numbers where these differ.
func natural(a, b string) int {
	for a != "" && b != "" {
		na, ra := leadingNumber(a)
		nb, rb := leadingNumber(b)
		if na >= 0 && nb >= 0 {
			if na != nb {
				return cmp.Compare(na, nb)
			}
			a, b = ra, rb
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// leadingNumber splits a number off; -1 when there is none.
func leadingNumber(s string) (int, string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	n, err := strconv.Atoi(s[:i])
	if err != nil {
		return -1, s
	}
	return n, s[i:]
}
