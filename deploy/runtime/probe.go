package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/internal/procgroup"
)

// askLimit bounds a question to the container daemon. One that takes longer is
// as good as down.
const askLimit = 20 * time.Second

// Containers starts shims in containers of docker or podman.
type Containers struct {
	kind string
	argv []string // docker, or sudo -n docker

	pulls sync.Map // image → *sync.Mutex: one pull at a time
}

var _ Runtime = (*Containers)(nil)

// Command is how the container program is called: "docker", "sudo -n docker", ….
func (c *Containers) Command() string { return strings.Join(c.argv, " ") }

// Probe finds out how the container program of this kind is reached on this
// node, by trying: plainly, and with sudo -n unless that is never allowed.
func Probe(ctx context.Context, kind, sudo string) (*Containers, error) {
	if kind != "docker" && kind != "podman" {
		return nil, fmt.Errorf("probe container runtime: %q is not docker or podman", kind)
	}
	var tries [][]string
	if sudo != "always" {
		tries = append(tries, []string{kind})
	}
	if sudo != "never" && os.Geteuid() != 0 || sudo == "always" {
		tries = append(tries, []string{"sudo", "-n", kind})
	}
	var first error
	for _, argv := range tries {
		c := &Containers{kind: kind, argv: argv}
		err := c.alive(ctx)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
	}
	if deploy.ClassOf(first) == deploy.ClassRuntimeDenied && kind == "docker" {
		return nil, fmt.Errorf("%w (%s)", first, whoAndWhat())
	}
	return nil, first
}

// alive asks the daemon for its version.
func (c *Containers) alive(ctx context.Context) error {
	format := "{{.Server.Version}}"
	ask := []string{"version", "--format", format}
	if c.kind == "podman" {
		ask = []string{"info", "--format", "{{.Version.Version}}"}
	}
	_, err := c.ask(ctx, "use "+c.Command(), "", ask...)
	return err
}

// ask runs the container program and returns its stdout. A failure of any kind
// is a classified error.
func (c *Containers) ask(ctx context.Context, doing, image string, args ...string) (string, error) {
	return c.run(ctx, askLimit, doing, image, args...)
}

func (c *Containers) run(ctx context.Context, limit time.Duration, doing, image string, args ...string) (string, error) {
	res, err := procgroup.Run(ctx, procgroup.Command{
		Argv: append(slices.Clone(c.argv), args...),
		// The messages are recognised by their English text.
		Env:     append(os.Environ(), "LC_ALL=C", "LANGUAGE=C"),
		Timeout: limit,
	})
	switch {
	case errors.Is(err, procgroup.ErrNotFound):
		return "", classify(doing, image, err.Error())
	case err != nil:
		return "", fmt.Errorf("%s: %w", doing, err)
	case res.TimedOut:
		return "", &deploy.Fault{Class: deploy.ClassRuntimeDown,
			Msg:  fmt.Sprintf("%s: %s gave no answer within %s", doing, c.Command(), limit),
			Hint: "look at the container daemon of this node"}
	case !res.OK():
		said := string(res.Stderr)
		if lastLine(said) == "" {
			said = res.Describe()
		}
		return "", classify(doing, image, said)
	}
	return string(res.Stdout), nil
}

// whoAndWhat says what decides over the use of the docker socket.
func whoAndWhat() string {
	who := fmt.Sprintf("uid %d", os.Geteuid())
	var groups []string
	if ids, err := os.Getgroups(); err == nil {
		for _, id := range ids {
			name := fmt.Sprint(id)
			if g, err := user.LookupGroupId(name); err == nil {
				name = g.Name
			}
			groups = append(groups, name)
		}
	}
	who += " with groups " + strings.Join(groups, ",")
	const socket = "/var/run/docker.sock"
	st, err := os.Stat(socket)
	if err != nil {
		return who + "; " + err.Error()
	}
	return fmt.Sprintf("%s; %s is %s", who, socket, describeOwner(st))
}
