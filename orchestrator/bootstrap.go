package orchestrator

import (
	"context"
	"fmt"
	"time"

	"github.com/disagg/disagg/models"
)

// bootstrapTime is how long the bootstrap ports of workers that serve may still
// take. Engines open them before they serve.
const bootstrapTime = 30 * time.Second

// checkBootstraps wants an answer at the bootstrap port of every prefill worker,
// where decode asks for the way to the KV. Without one every request hangs, and
// no health page shows it.
func (r *run) checkBootstraps(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootstrapTime)
	defer cancel()
	for i := range r.plan.Workers {
		w := &r.plan.Workers[i]
		if w.BootstrapPort == 0 || w.Role != models.RolePrefill {
			continue
		}
		head := r.headOf(w)
		url := baseURL(head.node.info.Addr, w.BootstrapPort) + "/health"
		// Whatever it says of this page, it is there.
		err := r.until(ctx, head, fmt.Sprintf("the bootstrap port of %s, which serves already", head.where()), func(ctx context.Context) error {
			_, err := r.get(ctx, url, r.pace.Probe)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
