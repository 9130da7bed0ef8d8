package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/disagg/disagg/deploy"
)

// Image makes sure that an image is on the node, as far as the pull policy
// (missing, always, never) allows, and says which it is. Pulls of one image wait
// for each other.
func (c *Containers) Image(ctx context.Context, ref, pull string) (deploy.ImageInfo, error) {
	lock, _ := c.pulls.LoadOrStore(ref, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()

	if pull != "always" {
		info, err := c.inspectImage(ctx, ref)
		if err == nil || pull == "never" || deploy.ClassOf(err) != deploy.ClassImageMissing {
			return info, err
		}
	}
	if _, err := c.run(ctx, 0, "pull image", ref, "pull", "--quiet", ref); err != nil {
		return deploy.ImageInfo{}, err
	}
	info, err := c.inspectImage(ctx, ref)
	info.Pulled = err == nil
	return info, err
}

func (c *Containers) inspectImage(ctx context.Context, ref string) (deploy.ImageInfo, error) {
	out, err := c.ask(ctx, "inspect image", ref, "image", "inspect", "--format", "{{json .}}", ref)
	if err != nil {
		return deploy.ImageInfo{}, err
	}
	return parseImage([]byte(out))
}

// parseImage reads what docker or podman image inspect writes.
func parseImage(b []byte) (deploy.ImageInfo, error) {
	var raw struct {
		ID          string `json:"Id"`
		RepoDigests []string
		Size        int64
		Config      struct {
			Entrypoint []string
			Env        []string
			User       string
		}
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return deploy.ImageInfo{}, fmt.Errorf("inspect image: %w", err)
	}
	if raw.ID == "" {
		return deploy.ImageInfo{}, fmt.Errorf("inspect image: the answer has no id: %s", clean(string(b)))
	}
	slices.Sort(raw.RepoDigests)
	info := deploy.ImageInfo{ID: raw.ID, RepoDigests: raw.RepoDigests, Entrypoint: raw.Config.Entrypoint, User: raw.Config.User, SizeBytes: raw.Size}
	for _, kv := range raw.Config.Env {
		name, _, _ := strings.Cut(kv, "=")
		info.EnvNames = append(info.EnvNames, name)
	}
	return info, nil
}
