package lab

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Image is a container image to be built from layers.
type Image struct {
	Ref string
	// Layers are the paths of uncompressed tar files, lowest first.
	Layers     []string
	Env        []string
	Entrypoint []string
	Cmd        []string
}

// WriteArchive writes images in the form that docker load reads. Layers that
// several images share are in it once. The same images give the same bytes, so
// every daemon that loads the archive has the same image ids.
func WriteArchive(path string, images ...Image) (err error) {
	tmp := path + ".tmp"
	f, err := os.Create(tmp)
	if err != nil {
		return fmt.Errorf("write image archive: %w", err)
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(tmp)
		}
	}()
	w := tar.NewWriter(f)
	digests := map[string]string{} // layer file → sha256
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var manifest []entry
	for _, img := range images {
		e := entry{RepoTags: []string{img.Ref}}
		var ids []string
		for _, layer := range img.Layers {
			sum, seen := digests[layer]
			if !seen {
				if sum, err = hashFile(layer); err != nil {
					return err
				}
				digests[layer] = sum
				if err := addFile(w, layer, sum+"/layer.tar"); err != nil {
					return err
				}
			}
			ids = append(ids, "sha256:"+sum)
			e.Layers = append(e.Layers, sum+"/layer.tar")
		}
		config, err := json.Marshal(map[string]any{
			"architecture": runtime.GOARCH, "os": "linux", "created": "2020-01-01T00:00:00Z",
			"config": map[string]any{"Env": img.Env, "Entrypoint": img.Entrypoint, "Cmd": img.Cmd},
			"rootfs": map[string]any{"type": "layers", "diff_ids": ids},
		})
		if err != nil {
			return err
		}
		e.Config = fmt.Sprintf("%x.json", sha256.Sum256(config))
		if err := addBytes(w, e.Config, config); err != nil {
			return err
		}
		manifest = append(manifest, e)
	}
	data, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	if err := addBytes(w, "manifest.json", data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write image archive: %w", err)
	}
	return os.Rename(tmp, path)
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func addBytes(w *tar.Writer, name string, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func addFile(w *tar.Writer, path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: info.Size(), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// layer is a layer being written. The first error stays and makes the later
// calls do nothing.
type layer struct {
	file *os.File
	w    *tar.Writer
	have map[string]bool
	err  error
}

func newLayer(path string) *layer {
	f, err := os.Create(path)
	if err != nil {
		return &layer{err: err}
	}
	return &layer{file: f, w: tar.NewWriter(f), have: map[string]bool{}}
}

// add writes one entry unless there is one of that name.
func (l *layer) add(h *tar.Header, body io.Reader) {
	h.Name = strings.TrimPrefix(h.Name, "/")
	if l.err != nil || l.have[h.Name] {
		return
	}
	l.have[h.Name] = true
	h.Format = tar.FormatPAX
	if h.ModTime.IsZero() {
		h.ModTime = time.Unix(1577836800, 0)
	}
	if l.err = l.w.WriteHeader(h); l.err == nil && body != nil {
		_, l.err = io.Copy(l.w, body)
	}
}

func (l *layer) dir(path string, mode int64) {
	l.add(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: mode}, nil)
}

func (l *layer) link(path, to string) {
	l.add(&tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: to, Mode: 0o777}, nil)
}

func (l *layer) text(path string, mode int64, text string) {
	l.add(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Size: int64(len(text))}, strings.NewReader(text))
}

// copy writes the file that from leads to. Its time stays: compiled Python
// files carry the time of their source.
func (l *layer) copy(path, from string) {
	if l.err != nil {
		return
	}
	f, err := os.Open(from)
	if err != nil {
		l.err = err
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		l.err = err
		return
	}
	l.add(&tar.Header{
		Typeflag: tar.TypeReg, Name: path, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime().Truncate(time.Second),
	}, f)
}

func (l *layer) close() error {
	if l.file == nil {
		return fmt.Errorf("write layer: %w", l.err)
	}
	defer l.file.Close()
	if l.err == nil {
		l.err = l.w.Close()
	}
	if l.err != nil {
		return fmt.Errorf("write layer %s: %w", l.file.Name(), l.err)
	}
	return nil
}
