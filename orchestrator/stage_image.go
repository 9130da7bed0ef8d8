package orchestrator

import (
	"context"
	"fmt"
	"strings"

	"github.com/disagg/disagg/deploy"
)

// stageImage makes every image present on the nodes that run it, and makes sure
// that one reference means the same bytes on all of them.
func (r *run) stageImage(ctx context.Context) error {
	if r.plan.Runtime.Kind == runtimeNone {
		return skip("runtime none: processes run on the host itself")
	}
	wanted := r.imagesOf()
	a, err := each(ctx, r, r.used(), "images", false, func(ctx context.Context, n *node) (map[string]deploy.ImageInfo, error) {
		out := map[string]deploy.ImageInfo{}
		for _, ref := range wanted[n] {
			info, err := n.conn.Image(ctx, r.plan.Runtime, ref)
			if err != nil {
				return nil, fmt.Errorf("image %s: %w", ref, err)
			}
			out[ref] = info
		}
		return out, nil
	})
	if err != nil {
		return err
	}
	if len(a.bad) > 0 {
		return failf("images are missing: %s", a.failed())
	}
	return r.sameImages(a.ok)
}

// runtimeNone is the runtime that starts plain processes.
const runtimeNone = "none"

// imagesOf lists the images each node needs.
func (r *run) imagesOf() map[*node][]string {
	out := map[*node][]string{}
	seen := map[string]bool{}
	for _, p := range r.order {
		key := p.node.name + "\x00" + p.Image
		if p.Image == "" || seen[key] {
			continue
		}
		seen[key] = true
		out[p.node] = append(out[p.node], p.Image)
	}
	return out
}

// sameImages compares content ids over the nodes and names who differs.
func (r *run) sameImages(have map[*node]map[string]deploy.ImageInfo) error {
	byRef := map[string]map[string][]*node{}
	for _, n := range r.used() {
		for ref, info := range have[n] {
			if byRef[ref] == nil {
				byRef[ref] = map[string][]*node{}
			}
			byRef[ref][info.ID] = append(byRef[ref][info.ID], n)
			r.imageEnv[ref] = info.EnvNames
		}
	}
	var differ []string
	for _, ref := range sortedKeys(byRef) {
		ids := sortedKeys(byRef[ref])
		if len(ids) == 1 {
			r.images[ref] = ids[0]
			continue
		}
		var parts []string
		for _, id := range ids {
			parts = append(parts, fmt.Sprintf("%s on %s", id, nodeNames(byRef[ref][id])))
		}
		differ = append(differ, fmt.Sprintf("%s is %s", ref, strings.Join(parts, ", ")))
	}
	if len(differ) > 0 {
		return failf("an image is not the same on every node: %s; name it by digest, or pull it again where it is old", strings.Join(differ, "; "))
	}
	return nil
}
