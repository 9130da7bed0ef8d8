package deploy

import (
	"context"
	"crypto/rand"
	"io"
	"time"
)

// Exec runs one command on the node, outside of any container. That it exits
// with another code than 0, cannot be started or takes too long is a result; an
// error says that the node could not be asked.
func (c *Conn) Exec(ctx context.Context, r ExecRequest) (ExecResult, error) {
	var a ExecAnswer
	if err := c.call(ctx, MethodExec, r, &a); err != nil {
		return ExecResult{Exit: -1}, err
	}
	for _, part := range []struct {
		ref  *StreamRef
		into *[]byte
	}{{a.Out, &a.Stdout}, {a.Err, &a.Stderr}} {
		if part.ref == nil {
			continue
		}
		if err := c.drain(ctx, *part.ref, appender{part.into}); err != nil {
			return ExecResult{Exit: -1}, err
		}
	}
	return a.ExecResult, nil
}

type appender struct{ b *[]byte }

func (a appender) Write(p []byte) (int, error) {
	*a.b = append(*a.b, p...)
	return len(p), nil
}

// Create starts a workload up to the point where its program is held and has
// reported its environment. When it fails, nothing of it is left.
func (c *Conn) Create(ctx context.Context, w Workload) (Receipt, error) {
	var r Receipt
	err := c.call(ctx, MethodCreate, w, &r)
	return r, err
}

// Release lets a held program go; when it returns, the program runs.
func (c *Conn) Release(ctx context.Context, id string) error {
	return c.call(ctx, MethodRelease, WorkloadRef{ID: id}, nil)
}

// Stop ends a workload: TERM, after grace KILL. It returns when nothing of it is
// left; the error names what is. It may be asked again, with less grace too.
func (c *Conn) Stop(ctx context.Context, id string, grace time.Duration) error {
	return c.call(ctx, MethodStop, StopRequest{ID: id, Grace: grace}, nil)
}

// Look searches the node for what is left of a run, independently of what the
// agent believes.
func (c *Conn) Look(ctx context.Context, runID string, ports []int) (Leftovers, error) {
	var l Leftovers
	err := c.call(ctx, MethodLook, LookRequest{RunID: runID, Ports: ports}, &l)
	return l, err
}

// Image makes sure that an image is on the node, as far as the pull policy
// allows, and says which it is.
func (c *Conn) Image(ctx context.Context, ref, pull string) (ImageInfo, error) {
	var i ImageInfo
	err := c.call(ctx, MethodImage, ImageRequest{Ref: ref, Pull: pull}, &i)
	return i, err
}

// ReadFile reads at most limit bytes of a file on the node from offset on, and
// says how long the file is.
func (c *Conn) ReadFile(ctx context.Context, path string, offset int64, limit int) (data []byte, size int64, err error) {
	for {
		var a ReadFileAnswer
		r := ReadFileRequest{Path: path, Offset: offset + int64(len(data)), Max: min(limit-len(data), MaxChunk)}
		if err := c.call(ctx, MethodReadFile, r, &a); err != nil {
			return nil, 0, err
		}
		data = append(data, a.Data...)
		if len(data) >= limit || len(a.Data) < r.Max {
			return data, a.Size, nil
		}
	}
}

// WriteFile puts a file on the node, whole or not at all. Missing directories
// are made, for this user only.
func (c *Conn) WriteFile(ctx context.Context, path string, mode uint32, data []byte) error {
	part := rand.Text()
	for offset := 0; ; {
		n := min(len(data)-offset, MaxChunk)
		last := offset+n == len(data)
		r := WriteFileRequest{Path: path, Mode: mode, Part: part, Offset: int64(offset), Data: data[offset : offset+n], Last: last}
		if err := c.call(ctx, MethodWriteFile, r, nil); err != nil {
			return err
		}
		if last {
			return nil
		}
		offset += n
	}
}

// Fetch writes a directory of the node to w as a tar stream: regular files,
// directories and symbolic links, by their paths below the directory.
func (c *Conn) Fetch(ctx context.Context, dir string, w io.Writer) error {
	var ref StreamRef
	if err := c.call(ctx, MethodFetch, FetchRequest{Dir: dir}, &ref); err != nil {
		return err
	}
	return c.drain(ctx, ref, w)
}

// drain reads a stream of the agent to its end.
func (c *Conn) drain(ctx context.Context, ref StreamRef, w io.Writer) error {
	defer func() {
		// The agent drops it at its end anyway.
		_ = c.call(context.WithoutCancel(ctx), MethodStreamClose, ref, nil)
	}()
	for {
		var d StreamData
		if err := c.call(ctx, MethodStreamRead, ref, &d); err != nil {
			return err
		}
		if _, err := w.Write(d.Data); err != nil {
			return err
		}
		if d.End {
			return nil
		}
	}
}
