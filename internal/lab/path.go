package lab

import "fmt"

// SmallDir is where every node sees a disk asked for with WithSmallDisk. This
// process reaches it at HostPath of it.
func (l *Lab) SmallDir(name string) string { return l.spec().SmallDir(name) }

// HostPath is a path of the lab's shared file system as this process reaches
// it; they differ only below what the lab alone has mounted (WithSmallDisk).
func (l *Lab) HostPath(path string) string {
	for _, d := range l.spec().SmallDisks {
		if below(path, l.spec().SmallDir(d.Name)) {
			return fmt.Sprintf("/proc/%d/root%s", l.pid(""), path)
		}
	}
	return path
}

// NodePath is a path of a node as this process reaches it; empty while the node
// is off.
func (l *Lab) NodePath(node, path string) string {
	pid := l.pid(node)
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf("/proc/%d/root%s", pid, path)
}

func below(path, dir string) bool {
	return path == dir || len(path) > len(dir) && path[:len(dir)] == dir && path[len(dir)] == '/'
}
