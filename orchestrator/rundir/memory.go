package rundir

import "golang.org/x/sys/unix"

// InMemory says that a directory is on a file system that lives in this host's
// memory (tmpfs, ramfs): no other host sees it, and it does not outlive the host.
func InMemory(path string) bool {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return false // whoever writes there says why it cannot be
	}
	kind := int64(st.Type)
	return kind == unix.TMPFS_MAGIC || kind == unix.RAMFS_MAGIC
}
