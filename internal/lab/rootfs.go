package lab

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// baseLayer is a small userland: busybox, and a real bash because engines are
// started through it as a login shell.
func baseLayer(path string) error {
	l := newLayer(path)
	for _, d := range []string{"usr", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "root", "proc", "sys", "dev", "run", "var", "opt"} {
		l.dir(d, 0o755)
	}
	for _, d := range []string{"tmp", "var/tmp"} {
		l.dir(d, 0o1777)
	}
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		l.link(d, "usr/"+d)
	}
	l.text("etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
	l.text("etc/group", 0o644, "root:x:0:\nvideo:x:44:\nrender:x:109:\nnogroup:x:65534:\n")
	// The variable tells a test whether a login shell was in between.
	l.text("etc/profile", 0o644, "export PATH=/opt/engine/bin:/usr/local/bin:/usr/bin:/bin\nexport IMAGE_PROFILE=read\n")
	l.elf("/bin/bash")
	l.copy("usr/bin/busybox", "/bin/busybox")
	out, err := exec.Command("/bin/busybox", "--list").Output()
	if err != nil {
		return fmt.Errorf("list busybox's programs: %w", err)
	}
	for _, name := range strings.Fields(string(out)) {
		l.link("usr/bin/"+name, "busybox")
	}
	return l.close()
}

// pythonLayer is the host's Python with its library, under the name that the
// stand-in starts for everything it does not play.
func pythonLayer(path string) error {
	out, err := exec.Command(systemPython, "-c", "import sys,sysconfig;print(sysconfig.get_paths()['stdlib']);print(sys.executable)").Output()
	if err != nil {
		return fmt.Errorf("ask %s for its library: %w", systemPython, err)
	}
	words := strings.Fields(string(out))
	if len(words) != 2 || !strings.HasPrefix(words[0], "/usr/lib/") {
		return fmt.Errorf("ask %s for its library: %q is not Debian's", systemPython, out)
	}
	l := newLayer(path)
	l.copy("usr/bin/python3.real", words[1])
	l.link("usr/bin/python3", "python3.real")
	l.needs(words[1])
	unwanted := []string{"test", "idlelib", "lib2to3", "ensurepip", "turtledemo", "pydoc_data", "distutils", "unittest", "tkinter", "venv"}
	l.tree(words[0], words[0], func(rel string) bool {
		top, _, _ := strings.Cut(rel, "/")
		return slices.Contains(unwanted, top) || strings.HasPrefix(top, "config-")
	})
	return l.close()
}

// siteLayer is what pip installed for a router, and the router as a command.
func siteLayer(path string, r Router) error {
	l := newLayer(path)
	l.tree("/usr/lib/python3/dist-packages", r.site, func(rel string) bool { return rel == "bin" })
	l.text("usr/bin/"+r.name, 0o755, "#!/bin/sh\nexec python3.real -m "+r.Argv[len(r.Argv)-1]+" \"$@\"\n")
	return l.close()
}

// standinLayer puts the stand-in in Python's place.
func standinLayer(path, standin string) error {
	l := newLayer(path)
	l.copy("usr/bin/standin", standin)
	for _, name := range []string{"usr/bin/python3", "usr/bin/python", "usr/bin/vllm"} {
		l.link(name, "standin")
	}
	return l.close()
}

// tree copies a directory, and the libraries that shared objects in it need.
func (l *layer) tree(to, from string, skip func(rel string) bool) {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || l.err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if rel != "." && skip(rel) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			l.dir(filepath.Join(to, rel), 0o755)
			return nil
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return nil // a dangling link, or a link to a directory
		}
		l.copy(filepath.Join(to, rel), path)
		if strings.HasSuffix(path, ".so") {
			l.needs(path)
		}
		return nil
	})
	if l.err == nil {
		l.err = err
	}
}

// elf copies a program and what it needs.
func (l *layer) elf(path string) {
	l.copy(usr(path), path)
	l.needs(path)
}

// needs copies the loader and the libraries of a program or shared object.
func (l *layer) needs(path string) {
	if l.err != nil {
		return
	}
	f, err := elf.Open(path)
	if err != nil {
		l.err = fmt.Errorf("read %s: %w", path, err)
		return
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name := make([]byte, p.Filesz)
			if _, err := p.ReadAt(name, 0); err == nil {
				loader := strings.TrimRight(string(name), "\x00")
				l.copy(usr(loader), loader)
			}
		}
	}
	libs, err := f.ImportedLibraries()
	if err != nil {
		l.err = fmt.Errorf("read %s: %w", path, err)
		return
	}
	for _, lib := range libs {
		found := findLibrary(lib, filepath.Dir(path))
		if found == "" || l.have[strings.TrimPrefix(usr(found), "/")] {
			continue // bundled under a run path of its own, or there already
		}
		l.elf(found)
	}
}

func findLibrary(name, beside string) string {
	dirs, _ := filepath.Glob("/usr/lib/*-linux-gnu")
	for _, d := range append(dirs, "/usr/lib64", "/usr/lib") {
		if path := filepath.Join(d, name); exists(path) && d != beside {
			return path
		}
	}
	return ""
}

// usr is a path in an image whose /bin, /lib and /lib64 lead into /usr.
func usr(path string) string {
	for _, d := range []string{"/bin/", "/sbin/", "/lib/", "/lib64/"} {
		if strings.HasPrefix(path, d) {
			return "/usr" + path
		}
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
