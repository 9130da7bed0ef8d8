package lab

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/disagg/disagg/internal/lab/labd"
)

// KillNode powers the i-th node off: all its processes end at once, without a
// word to anybody.
func (l *Lab) KillNode(i int) error { return l.ask("kill", i) }

// StartNode powers the i-th node on again and waits until its daemons answer.
// Its disk is as it was.
func (l *Lab) StartNode(i int) error { return l.ask("start", i) }

// CutNetwork pulls the i-th node's cable: packets are lost, connections stay.
func (l *Lab) CutNetwork(i int) error { return l.ask("cut", i) }

// Heal puts the cable back.
func (l *Lab) Heal(i int) error { return l.ask("heal", i) }

func (l *Lab) ask(op string, i int) error {
	nodes := l.Nodes()
	if i < 0 || i >= len(nodes) {
		return fmt.Errorf("%s node %d: the lab has %d", op, i, len(nodes))
	}
	reply, err := labd.Ask(l.dir, labd.Request{Op: op, Node: nodes[i]})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.state.Nodes = reply.State.Nodes
	l.mu.Unlock()
	if op == "start" {
		return l.rememberNode(nodes[i])
	}
	return nil
}

// SetTool puts an executable of this name and text first on a node's PATH, or
// on every node's when node is empty. It is the way to fake nicctl, rocm-smi,
// ibv_devinfo, …
func (l *Lab) SetTool(node, name, script string) error {
	return l.eachNode(node, func(spec labd.Spec, n string) error {
		return replaceFile(spec.NodePath(n, "bin", name), []byte(script), 0o755)
	})
}

// RemoveTool takes away what SetTool put there.
func (l *Lab) RemoveTool(node, name string) error {
	return l.eachNode(node, func(spec labd.Spec, n string) error {
		return os.Remove(spec.NodePath(n, "bin", name))
	})
}

// FixtureRoot is the directory under which each node sees its own fixture
// files, such as <root>/sys/class/infiniband. It has the same path everywhere.
func (l *Lab) FixtureRoot() string { return l.spec().NodeRoot() }

// SetFixture writes a file below a node's fixture root, or below every node's
// when node is empty.
func (l *Lab) SetFixture(node, path string, data []byte) error {
	return l.eachNode(node, func(spec labd.Spec, n string) error {
		return replaceFile(spec.NodePath(n, "root", path), data, 0o644)
	})
}

// CopyFixtures copies a directory tree, symbolic links as they are, below a
// node's fixture root, or below every node's when node is empty.
func (l *Lab) CopyFixtures(node, dir string) error {
	return l.eachNode(node, func(spec labd.Spec, n string) error {
		return os.CopyFS(spec.NodePath(n, "root"), os.DirFS(dir))
	})
}

// NodeFile is the host's path of a file below a node's fixture root.
func (l *Lab) NodeFile(node, path string) string { return l.spec().NodePath(node, "root", path) }

func (l *Lab) eachNode(node string, do func(labd.Spec, string) error) error {
	spec := l.spec()
	for _, n := range spec.Nodes {
		if node == "" || n == node {
			if err := do(spec, n); err != nil {
				return fmt.Errorf("change %s: %w", n, err)
			}
		}
	}
	return nil
}

// replaceFile writes by renaming: a running tool keeps its text.
func replaceFile(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, mode); err != nil {
		return err
	}
	if err := os.Chmod(tmp, mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
