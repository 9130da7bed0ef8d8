package agent

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/disagg/disagg/deploy"
)

// readFile reads a part of a file.
func readFile(r deploy.ReadFileRequest) (deploy.ReadFileAnswer, error) {
	f, err := os.Open(r.Path)
	if err != nil {
		return deploy.ReadFileAnswer{}, fmt.Errorf("read file: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return deploy.ReadFileAnswer{}, fmt.Errorf("read file: %w", err)
	}
	if !st.Mode().IsRegular() {
		return deploy.ReadFileAnswer{}, fmt.Errorf("read file: %s is not a regular file", r.Path)
	}
	buf := make([]byte, min(max(r.Max, 0), deploy.MaxChunk))
	n, err := f.ReadAt(buf, r.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return deploy.ReadFileAnswer{}, fmt.Errorf("read file: %w", err)
	}
	return deploy.ReadFileAnswer{Data: buf[:n], Size: st.Size()}, nil
}

// writeFile writes a part of a file beside its place and, with the last part,
// puts it there.
func writeFile(r deploy.WriteFileRequest) (err error) {
	if !filepath.IsAbs(r.Path) || r.Part == "" || strings.ContainsRune(r.Part, '/') {
		return fmt.Errorf("write file: %q is not an absolute path, or the part has no name", r.Path)
	}
	if err := os.MkdirAll(filepath.Dir(r.Path), 0o700); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	tmp := filepath.Join(filepath.Dir(r.Path), "."+filepath.Base(r.Path)+"."+r.Part)
	defer func() {
		if err != nil {
			os.Remove(tmp)
			err = fmt.Errorf("write file: %w", err)
		}
	}()
	flag := os.O_WRONLY
	if r.Offset == 0 {
		flag |= os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(tmp, flag, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(r.Data, r.Offset)
	if err == nil && r.Last {
		if err = f.Chmod(fs.FileMode(r.Mode) & fs.ModePerm); err == nil {
			err = f.Sync()
		}
	}
	if err = errors.Join(err, f.Close()); err != nil || !r.Last {
		return err
	}
	return os.Rename(tmp, r.Path)
}

// fetch opens a directory as a tar stream.
func (a *agent) fetch(dir string) (deploy.StreamRef, error) {
	st, err := os.Stat(dir)
	if err != nil {
		return deploy.StreamRef{}, fmt.Errorf("fetch directory: %w", err)
	}
	if !st.IsDir() {
		return deploy.StreamRef{}, fmt.Errorf("fetch directory: %s is not a directory", dir)
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeTar(w, dir)) }()
	return a.hold(r), nil
}

// writeTar writes regular files, directories and symbolic links, by their paths
// below dir. Links are not followed; other kinds are left out.
func writeTar(w io.Writer, dir string) error {
	tw := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || rel == "." {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone meanwhile
		} else if err != nil {
			return err
		}
		switch {
		case info.Mode().IsRegular():
			return addFile(tw, path, rel, info)
		case info.IsDir(), info.Mode()&fs.ModeSymlink != 0:
			link := ""
			if !info.IsDir() {
				if link, err = os.Readlink(path); err != nil {
					return err
				}
			}
			h, err := tar.FileInfoHeader(info, link)
			if err != nil {
				return err
			}
			h.Name = rel
			if info.IsDir() {
				h.Name += "/"
			}
			return tw.WriteHeader(h)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("fetch directory: %w", err)
	}
	return tw.Close()
}

// addFile adds one file as long as it is now; what grows meanwhile is cut.
func addFile(tw *tar.Writer, path, rel string, info fs.FileInfo) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer f.Close()
	h, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	h.Name = rel
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(tw, io.LimitReader(f, h.Size))
	if err == nil && n < h.Size {
		err = fmt.Errorf("%s shrank while it was read", path)
	}
	return err
}

// hold keeps a stream for the controller to read.
func (a *agent) hold(r io.ReadCloser) deploy.StreamRef {
	a.streamMu.Lock()
	defer a.streamMu.Unlock()
	a.lastStream++
	a.streams[a.lastStream] = r
	return deploy.StreamRef{Stream: a.lastStream}
}

// keep is hold for bytes that are there already.
func (a *agent) keep(b []byte) *deploy.StreamRef {
	ref := a.hold(io.NopCloser(bytes.NewReader(b)))
	return &ref
}

// readStream reads the next part. One reader at a time.
func (a *agent) readStream(id uint64) (deploy.StreamData, error) {
	a.streamMu.Lock()
	r := a.streams[id]
	a.streamMu.Unlock()
	if r == nil {
		return deploy.StreamData{}, fmt.Errorf("read stream: there is no stream %d", id)
	}
	buf := make([]byte, deploy.MaxChunk)
	n, err := io.ReadFull(r, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return deploy.StreamData{}, err
	}
	return deploy.StreamData{Data: buf[:n], End: err != nil}, nil
}

func (a *agent) closeStream(id uint64) error {
	a.streamMu.Lock()
	r := a.streams[id]
	delete(a.streams, id)
	a.streamMu.Unlock()
	if r == nil {
		return nil
	}
	return r.Close()
}

func (a *agent) closeStreams() {
	a.streamMu.Lock()
	defer a.streamMu.Unlock()
	for id, r := range a.streams {
		r.Close()
		delete(a.streams, id)
	}
}
