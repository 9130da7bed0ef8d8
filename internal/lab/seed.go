package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/disagg/disagg/internal/lab/labd"
)

// WithImages lets every node's Docker daemon start with the lab's images. They
// are loaded once into a data directory in the cache, from which the nodes'
// are cloned: that takes a fraction of a second, loading takes seconds a node.
func WithImages() Option { return func(s *labd.Spec) { s.DockerSeed = wanted } }

// wanted stands for the seed until it is known to exist.
const wanted = "wanted"

// seed makes the data directory, if it is not there, with a lab of one node.
func seed() (string, error) {
	archive, err := Images()
	if err != nil {
		return "", err
	}
	cache := filepath.Dir(archive)
	dir := filepath.Join(cache, "docker-"+strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), "images-"), ".tar"))
	unlock, err := lockCache(cache, "docker")
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(dir) {
		return dir, nil
	}
	// What the last one has of the images need not be loaded again.
	old, _ := filepath.Glob(filepath.Join(cache, "docker-*[0-9a-f]"))
	l, err := Start(1, func(s *labd.Spec) {
		if len(old) > 0 {
			s.DockerSeed = old[len(old)-1]
		}
	})
	if err != nil {
		return "", fmt.Errorf("prepare images: %w", err)
	}
	defer l.Close()
	node := l.Nodes()[0]
	if err := l.LoadImageOn(node, archive); err != nil {
		return "", fmt.Errorf("prepare images: %w", err)
	}
	if err := l.docker(node, "POST", "/images/prune", nil, nil); err != nil {
		return "", fmt.Errorf("prepare images: %w", err)
	}
	if err := l.stopDocker(node); err != nil {
		return "", fmt.Errorf("prepare images: %w", err)
	}
	tmp := dir + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return "", err
	}
	if err := labd.CloneDocker(l.spec().NodePath(node, "docker"), tmp); err != nil {
		return "", err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", err
	}
	for _, o := range old {
		_ = os.RemoveAll(o)
	}
	return dir, nil
}

// stopDocker ends a node's Docker daemon in good order.
func (l *Lab) stopDocker(node string) error {
	ps, err := l.Processes(node)
	if err != nil {
		return err
	}
	for _, p := range ps {
		if p.Name != "dockerd" {
			continue
		}
		if _, err := l.Exec(node, "kill", "-TERM", strconv.Itoa(p.PID)); err != nil {
			return err
		}
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			ps, err := l.Processes(node)
			if err != nil {
				return err
			}
			if !named(ps, "dockerd") && !named(ps, "containerd") {
				return nil
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("dockerd of %s does not end", node)
			}
		}
	}
	return fmt.Errorf("%s has no dockerd", node)
}

func named(ps []Process, name string) bool {
	for _, p := range ps {
		if p.Name == name {
			return true
		}
	}
	return false
}
