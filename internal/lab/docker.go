package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// foreignLabel marks containers that stand for another user's.
const foreignLabel = "lab.foreign"

// Container is one container of a node, running or not.
type Container struct {
	ID     string            `json:"Id"`
	Names  []string          `json:"Names"`
	Image  string            `json:"Image"`
	State  string            `json:"State"`
	Labels map[string]string `json:"Labels"`
}

// String is the container as a failed test shows it.
func (c Container) String() string {
	return fmt.Sprintf("%.12s %s %s (%s)", c.ID, strings.Join(c.Names, ","), c.Image, c.State)
}

// Foreign says whether Lab.Foreign made it.
func (c Container) Foreign() bool { return c.Labels[foreignLabel] != "" }

// Containers are all containers of a node, asked of its Docker daemon; none
// when the node is off or has no Docker.
func (l *Lab) Containers(node string) ([]Container, error) {
	if l.pid(node) == 0 || !l.spec().Docker {
		return nil, nil
	}
	var cs []Container
	if err := l.docker(node, "GET", "/containers/json?all=1", nil, &cs); err != nil {
		return nil, err
	}
	slices.SortFunc(cs, func(a, b Container) int { return strings.Compare(a.ID, b.ID) })
	return cs, nil
}

// Foreign starts a container that is none of ours, as another user of the node
// would have it, and returns its id. The image must be loaded.
func (l *Lab) Foreign(node, name, image string, cmd ...string) (string, error) {
	body, err := json.Marshal(map[string]any{
		"Image": image, "Cmd": cmd, "Labels": map[string]string{foreignLabel: "1"},
		"HostConfig": map[string]any{"NetworkMode": "host"},
	})
	if err != nil {
		return "", err
	}
	var made struct{ ID string }
	if err := l.docker(node, "POST", "/containers/create?name="+url.QueryEscape(name), bytes.NewReader(body), &made); err != nil {
		return "", err
	}
	return made.ID, l.docker(node, "POST", "/containers/"+made.ID+"/start", nil, nil)
}

// RemoveContainer kills and removes a container.
func (l *Lab) RemoveContainer(node, id string) error {
	return l.docker(node, "DELETE", "/containers/"+id+"?force=1", nil, nil)
}

// ImageID is the id of an image on a node; an error when it has none.
func (l *Lab) ImageID(node, ref string) (string, error) {
	var image struct {
		ID string `json:"Id"`
	}
	err := l.docker(node, "GET", "/images/"+ref+"/json", nil, &image)
	return image.ID, err
}

// RemoveImage removes an image from a node.
func (l *Lab) RemoveImage(node, ref string) error {
	return l.docker(node, "DELETE", "/images/"+ref+"?force=1", nil, nil)
}

// LoadImage loads an archive as docker save writes it into every running
// node's Docker daemon, all at once. The id is the same everywhere.
func (l *Lab) LoadImage(archive string) error {
	nodes := l.Nodes()
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		if l.pid(n) == 0 {
			continue
		}
		wg.Go(func() { errs[i] = l.LoadImageOn(n, archive) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// LoadImageOn loads an archive into one node's Docker daemon.
func (l *Lab) LoadImageOn(node, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("load image: %w", err)
	}
	defer f.Close()
	return l.docker(node, "POST", "/images/load?quiet=1", f, nil)
}

// docker calls the API of a node's Docker daemon through its socket, which is
// reached below the root of the node's init.
func (l *Lab) docker(node, method, path string, body io.Reader, into any) error {
	pid := l.pid(node)
	if pid == 0 {
		return fmt.Errorf("ask docker of %q: no such node is running", node)
	}
	client := http.Client{
		Timeout: 2 * time.Minute,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/%d/root/run/docker.sock", pid))
			},
		},
	}
	req, err := http.NewRequest(method, "http://docker"+path, body)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask docker of %s: %w", node, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("ask docker of %s: %w", node, err)
	}
	if resp.StatusCode >= 300 || bytes.Contains(text, []byte(`"errorDetail"`)) {
		return fmt.Errorf("ask docker of %s: %s %s: %s: %s", node, method, path, resp.Status, bytes.TrimSpace(text))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("ask docker of %s: %w", node, err)
	}
	return nil
}

// ofForeign says whether p belongs to one of the foreign containers: it is
// below the runtime's shim that has the container's id among its arguments.
func (l *Lab) ofForeign(node string, p Process, cs []Container) bool {
	all, err := l.Processes(node)
	if err != nil {
		return false
	}
	byID := map[int]Process{}
	for _, x := range all {
		byID[x.PID] = x
	}
	for ok := true; ok; p, ok = byID[p.PPID] {
		for _, c := range cs {
			if c.Foreign() && slices.Contains(p.Argv, c.ID) {
				return true
			}
		}
	}
	return false
}
