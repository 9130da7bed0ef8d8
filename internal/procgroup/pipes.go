package procgroup

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// plumbing is the descriptors between this process and the program.
type plumbing struct {
	child []*os.File // the program's ends, closed here once it has started
	stdin *os.File   // our end of the program's stdin, or nil
	outs  []outPipe
	wg    sync.WaitGroup // the goroutines that read outs
}

// outPipe is our end of one output pipe and where its bytes go.
type outPipe struct {
	r *os.File
	w io.Writer
}

// connect makes the program's descriptors 0, 1, 2, 3, ….
func (pl *plumbing) connect(c Command) ([]*os.File, error) {
	in, err := pl.input(c)
	if err != nil {
		return nil, err
	}
	out, err := pl.output(c.Stdout)
	if err != nil {
		return nil, err
	}
	errOut := out
	if !sameWriter(c.Stdout, c.Stderr) {
		if errOut, err = pl.output(c.Stderr); err != nil {
			return nil, err
		}
	}
	return append([]*os.File{in, out, errOut}, c.ExtraFiles...), nil
}

func (pl *plumbing) input(c Command) (*os.File, error) {
	switch {
	case c.StdinFile != nil:
		return c.StdinFile, nil
	case c.StdinPipe || len(c.Stdin) > 0:
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		pl.child, pl.stdin = append(pl.child, r), w
		return r, nil
	}
	return pl.null(os.O_RDONLY)
}

func (pl *plumbing) output(w io.Writer) (*os.File, error) {
	if f, ok := w.(*os.File); ok && f != nil {
		return f, nil
	}
	if w == nil {
		return pl.null(os.O_WRONLY)
	}
	r, pw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	pl.child, pl.outs = append(pl.child, pw), append(pl.outs, outPipe{r, w})
	return pw, nil
}

func (pl *plumbing) null(flag int) (*os.File, error) {
	f, err := os.OpenFile(os.DevNull, flag, 0)
	if err == nil {
		pl.child = append(pl.child, f)
	}
	return f, err
}

// sameWriter says that both are one writer, so that one pipe keeps their order.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() {
		// Comparing writers of an uncomparable type panics; such are not the same.
		if recover() != nil {
			same = false
		}
	}()
	return a != nil && a == b
}

func (pl *plumbing) closeChildEnds() {
	for _, f := range pl.child {
		f.Close()
	}
}

func (pl *plumbing) closeOwnEnds() {
	if pl.stdin != nil {
		pl.stdin.Close()
	}
	for _, o := range pl.outs {
		o.r.Close()
	}
}

// pump starts moving bytes between this process and the program.
func (pl *plumbing) pump(stdin []byte) {
	if len(stdin) > 0 {
		w := pl.stdin
		go func() {
			// The program may end or close its stdin before it has read all;
			// that is its right and shows in its exit code if it matters.
			_, _ = w.Write(stdin)
			w.Close()
		}()
	}
	for _, o := range pl.outs {
		pl.wg.Go(func() {
			copyOut(o)
			o.r.Close()
		})
	}
}

// copyOut moves output until its end. A writer that fails does not stop the
// reading: the program must never block or die for the reader's trouble.
func copyOut(o outPipe) {
	buf := make([]byte, 64<<10)
	failed := false
	give := func(b []byte) {
		if len(b) > 0 && !failed {
			_, werr := o.w.Write(b)
			failed = werr != nil
		}
	}
	for {
		n, err := o.r.Read(buf)
		give(buf[:n])
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				o.rest(buf, give)
			}
			return
		}
	}
}

// mostRest bounds what is read of a pipe without waiting; no pipe holds more unless a
// program that outlived the group's leader goes on writing.
const mostRest = 1 << 20

// rest reads what is in the pipe already. Time may be up because this process was not
// let run, and what the program has written is not lost for that.
func (o outPipe) rest(buf []byte, give func([]byte)) {
	if o.r.SetReadDeadline(time.Time{}) != nil {
		return
	}
	raw, err := o.r.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < mostRest; {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			n, _ = unix.Read(int(fd), buf) // non-blocking: an empty pipe is an error
			return true
		})
		if err != nil || n <= 0 {
			return
		}
		give(buf[:n])
		total += n
	}
}

// drain waits for the rest of the output, at most delay and then once more
// delay for a writer that is slow to take what was read.
func (pl *plumbing) drain(delay time.Duration) {
	if pl.stdin != nil {
		pl.stdin.Close()
	}
	all := make(chan struct{})
	go func() {
		pl.wg.Wait()
		close(all)
	}()
	for range 2 {
		t := time.NewTimer(delay)
		select {
		case <-all:
			t.Stop()
			return
		case <-t.C:
		}
		for _, o := range pl.outs {
			_ = o.r.SetReadDeadline(time.Now())
		}
	}
}
