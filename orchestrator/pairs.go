package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/disagg/disagg/models"
)

// maxPairs bounds the pairs of prefill and decode workers that are each asked for
// tokens. Up to here every pair is; beyond, every worker is, because the number
// of pairs grows with the square of the workers.
const maxPairs = 64

// atOnce bounds the direct canaries in flight.
const atOnce = 8

// pair is one way through the run: a prefill and a decode worker, or one worker
// that does both (prefill nil).
type pair struct {
	prefill, decode *models.Worker
}

func (p pair) String() string {
	if p.prefill == nil {
		return p.decode.ID
	}
	return p.prefill.ID + " → " + p.decode.ID
}

// pairs lists the ways that canaries must prove.
func pairs(workers []models.Worker) []pair {
	var pre, dec []*models.Worker
	var out []pair
	for i := range workers {
		switch w := &workers[i]; w.Role {
		case models.RolePrefill:
			pre = append(pre, w)
		case models.RoleDecode:
			dec = append(dec, w)
		default:
			out = append(out, pair{decode: w})
		}
	}
	if len(pre)*len(dec) <= maxPairs {
		for _, p := range pre {
			for _, d := range dec {
				out = append(out, pair{p, d})
			}
		}
		return out
	}
	for i := range max(len(pre), len(dec)) {
		out = append(out, pair{pre[i%len(pre)], dec[i%len(dec)]})
	}
	return out
}

// ends are the addresses of a pair, taken by the owner before the asking.
type ends struct {
	pair
	name                               string // with the nodes
	prefillURL, decodeURL, prefillAddr string
}

// pairError is why a pair gave no token: what each of its ends said; nil: nothing
// against it.
type pairError struct {
	ends
	prefillSaid, decodeSaid error
}

func (e *pairError) Error() string {
	switch {
	case e.prefill == nil:
		return fmt.Sprintf("%s: %v", e.name, e.decodeSaid)
	case e.prefillSaid != nil && e.decodeSaid != nil:
		return fmt.Sprintf("%s: prefill: %v; decode: %v", e.name, e.prefillSaid, e.decodeSaid)
	case e.prefillSaid != nil:
		return fmt.Sprintf("%s: prefill: %v", e.name, e.prefillSaid)
	}
	return fmt.Sprintf("%s: decode: %v", e.name, e.decodeSaid)
}

func (e *pairError) Unwrap() []error { return []error{e.prefillSaid, e.decodeSaid} }

// spoke are the workers that gave an error, which is more than silence.
func (e *pairError) spoke() []*models.Worker {
	var out []*models.Worker
	if e.prefillSaid != nil && !errors.Is(e.prefillSaid, errNoAnswer) {
		out = append(out, e.prefill)
	}
	if e.decodeSaid != nil && !errors.Is(e.decodeSaid, errNoAnswer) {
		out = append(out, e.decode)
	}
	return out
}

func (r *run) endsOf(p pair) ends {
	e := ends{pair: p, name: r.workerOn(p.decode), decodeURL: r.workerURL(p.decode)}
	if p.prefill != nil {
		e.name = r.workerOn(p.prefill) + " → " + e.name
		e.prefillURL, e.prefillAddr = r.workerURL(p.prefill), r.place[p.prefill.Node].info.Addr
	}
	return e
}

// askPair wants tokens from one pair directly, the way sglang's router asks: the
// same request to both workers, joined by a room on the prefill worker's
// bootstrap server, where decode fetches the KV cache.
func (r *run) askPair(ctx context.Context, e ends, limit time.Duration) error {
	req := r.chat("Count: " + e.String())
	if e.prefill == nil {
		_, err := r.complete(ctx, e.decodeURL, req, limit)
		if err != nil {
			return &pairError{ends: e, decodeSaid: err}
		}
		return nil
	}
	req.BootstrapHost, req.BootstrapPort, req.BootstrapRoom = e.prefillAddr, e.prefill.BootstrapPort, rand.Int64()
	prefill := make(chan error, 1)
	go func() {
		a, err := r.send(ctx, e.prefillURL+chatPath, req, limit)
		if err == nil && a.status >= 400 {
			_, err = judgeCompletion(a)
		}
		prefill <- err
	}()
	_, derr := r.complete(ctx, e.decodeURL, req, limit)
	perr := <-prefill
	if perr != nil || derr != nil {
		return &pairError{ends: e, prefillSaid: perr, decodeSaid: derr}
	}
	return nil
}

// headOf is the rank of a worker that answers for it.
func (r *run) headOf(w *models.Worker) *proc { return r.procs[w.Ranks[0].ID] }

// workerOn names a worker and the node that answers for it.
func (r *run) workerOn(w *models.Worker) string { return w.ID + " on " + r.headOf(w).node.name }
