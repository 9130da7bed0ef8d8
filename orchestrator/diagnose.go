package orchestrator

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/disagg/disagg/orchestrator/events"
	"github.com/disagg/disagg/orchestrator/signature"
)

const (
	// diagnoseTime bounds the reading of one log: it happens while the run stops,
	// which it must not delay.
	diagnoseTime = 10 * time.Second
	// diagnoseEnd is how much of the beginning, and of the end, of a log is read.
	// Start-up faults stand early, faults under load late.
	diagnoseEnd = 16 << 20
	// diagnoseStep is how much is read from a node at once.
	diagnoseStep = 1 << 20
)

// diagnose looks for known signatures in the log of a failed process, while the
// run goes on stopping.
func (r *run) diagnose(f *failure) {
	p := r.procs[f.process]
	if p == nil || p.node == nil || p.phase == planned || f.read {
		return
	}
	f.read = true
	r.diagnosing++
	conn, onNode, here, lines, from := p.node.conn, p.logPath(), r.Dir.Join(p.logName), f.log, p.logFrom
	seenHere, lost := !p.node.apart(), p.node.lost
	program, peers := r.program(p), r.logPeers(p)
	ctx, cancel := context.WithTimeout(r.bg, diagnoseTime)
	r.wg.Go(func() {
		defer cancel()
		s := r.scanner(program, peers)
		_, _ = io.WriteString(s, strings.Join(lines, "\n")+"\n")
		matches := s.Matches()
		full := r.scanner(program, peers)
		// The node's own view of the file is the whole one; a file that the
		// controller sees as well serves when the node is gone.
		if !lost && scanNode(ctx, conn, onNode, from, full) == nil || seenHere && scanFile(here, from, full) == nil {
			if m := full.Matches(); len(m) > 0 {
				matches = m
			}
		}
		m, ok := signature.Best(matches)
		r.post(r.bg, func() {
			r.diagnosing--
			if !ok {
				return
			}
			f.match = &m
			e := p.event(events.Diagnosis, p.where()+": "+m.Meaning)
			e.Stage = f.stage
			e.Detail = map[string]any{"signature": m.ID, "line": m.Text, "meaning": m.Meaning, "remedy": m.Remedy, "peer": named(m)}
			r.emit(e)
		})
	})
}

// scanner reads the log of a program, and shows no secret of the run.
func (r *run) scanner(program string, peers []signature.Peer) *signature.Scanner {
	s := signature.NewScanner(program, peers...)
	s.Hide = r.red.Bytes
	return s
}

// program is whose words a process's log is in.
func (r *run) program(p *proc) string {
	switch {
	case p.worker != nil:
		return r.plan.Engine
	case p.Scope == "router":
		return "router"
	}
	return p.Scope
}

// scanNode reads a log on its node from an offset on; what is in the middle of a
// long one is left out.
func scanNode(ctx context.Context, conn Node, path string, from int64, to io.Writer) error {
	off := from
	for {
		data, size, err := conn.ReadFile(ctx, path, off, diagnoseStep)
		if err != nil {
			return err
		}
		if _, err := to.Write(data); err != nil {
			return err
		}
		off += int64(len(data))
		if len(data) == 0 || off >= size {
			return nil
		}
		if off-from >= diagnoseEnd && size-off > diagnoseEnd {
			off = size - diagnoseEnd
			if _, err := to.Write([]byte("\n")); err != nil {
				return err
			}
		}
	}
}

// scanFile is scanNode for a file that is here.
func scanFile(path string, from int64, to io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return err
	}
	if info.Size()-from <= 2*diagnoseEnd {
		_, err = io.Copy(to, f)
		return err
	}
	if _, err := io.CopyN(to, f, diagnoseEnd); err != nil {
		return err
	}
	if _, err := f.Seek(-diagnoseEnd, io.SeekEnd); err != nil {
		return err
	}
	_, err = io.Copy(to, io.MultiReader(strings.NewReader("\n"), f))
	return err
}
