package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/disagg/disagg/deploy"
)

// cleanLimit bounds what is done about a failed start or for a removal.
const cleanLimit = 60 * time.Second

// Start starts a container. The image must be on the node.
func (c *Containers) Start(ctx context.Context, s Spec) (Unit, error) {
	f, err := gather(s)
	if err != nil {
		return nil, err
	}
	args, err := runArgs(s, f)
	if err != nil {
		return nil, err
	}
	w := s.Workload
	out, err := c.run(ctx, 0, "start container", w.Image, args...)
	if err == nil {
		if id := containerID(out); id != "" {
			return &container{c: c, id: id}, nil
		}
		err = fmt.Errorf("start container: %s gave no container id but %q", c.Command(), clean(out))
	}
	if deploy.ClassOf(err) == deploy.ClassNameConflict {
		return nil, c.whoHas(ctx, ContainerName(w.RunID, w.ID))
	}
	// A start that failed or was given up half way may have left a container.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	if rerr := c.RemoveAll(after, w.RunID, w.ID); rerr != nil {
		return nil, fmt.Errorf("%w (and what the attempt left could not be removed: %w)", err, rerr)
	}
	return nil, err
}

// containerID finds the id in the output of run: its last line.
func containerID(out string) string {
	id := lastLine(out)
	if regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(id) {
		return id
	}
	return ""
}

// Found is a container as the runtime lists it.
type Found struct {
	ID, Name, State string
	Run, Workload   string
	Owner           string // uid of whoever ran the agent
}

// String writes it the way Leftovers lists it.
func (f Found) String() string { return f.ID[:min(12, len(f.ID))] + " " + f.Name + " " + f.State }

// List lists a run's containers on this node, running or not; of every run if
// that is empty, of one workload unless that is empty.
func (c *Containers) List(ctx context.Context, runID, workload string) ([]Found, error) {
	mine := LabelRun
	if runID != "" {
		mine += "=" + runID
	}
	args := []string{"ps", "--all", "--no-trunc", "--filter", "label=" + mine}
	if workload != "" {
		args = append(args, "--filter", "label="+LabelWorkload+"="+workload)
	}
	args = append(args, "--format",
		`{{.ID}}`+"\t"+`{{.Names}}`+"\t"+`{{.Status}}`+"\t"+`{{.Label "`+LabelRun+`"}}`+"\t"+`{{.Label "`+LabelWorkload+`"}}`+"\t"+`{{.Label "`+LabelOwner+`"}}`)
	out, err := c.ask(ctx, "list containers", "", args...)
	if err != nil {
		return nil, err
	}
	return parseList(out, runID, workload)
}

// parseList reads the lines that List asks for. The filter is the runtime's; what
// is removed by this list is checked again.
func parseList(out, runID, workload string) ([]Found, error) {
	var found []Found
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 6 {
			return nil, fmt.Errorf("list containers: unexpected line %q", clean(line))
		}
		if f[3] != "" && (runID == "" || f[3] == runID) && (workload == "" || f[4] == workload) {
			found = append(found, Found{ID: f[0], Name: f[1], State: f[2], Run: f[3], Workload: f[4], Owner: f[5]})
		}
	}
	return found, nil
}

// RemoveAll kills and removes a run's containers on this node; of one workload
// unless that is empty.
func (c *Containers) RemoveAll(ctx context.Context, runID, workload string) error {
	if runID == "" {
		return errors.New("remove containers: of which run is not said")
	}
	found, err := c.List(ctx, runID, workload)
	if err != nil {
		return err
	}
	for _, f := range found {
		if err := c.Remove(ctx, f.ID); err != nil {
			return err
		}
	}
	return nil
}

// whoHas explains a taken name.
func (c *Containers) whoHas(ctx context.Context, name string) error {
	out, err := c.ask(ctx, "inspect container", "", "inspect", "--type", "container", "--format", "{{json .}}", name)
	var info struct {
		ID     string `json:"Id"`
		Config struct {
			Labels map[string]string
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &info)
	}
	if err != nil {
		return &deploy.Fault{Class: deploy.ClassNameConflict, Msg: fmt.Sprintf("the container name %s is taken, by whom could not be found out: %v", name, err)}
	}
	run := info.Config.Labels[LabelRun]
	if run == "" {
		return &deploy.Fault{Class: deploy.ClassNameConflict, Msg: fmt.Sprintf("the container name %s is taken by container %.12s, which no run of disagg started", name, info.ID)}
	}
	return &deploy.Fault{Class: deploy.ClassNameConflict,
		Msg: fmt.Sprintf("the container name %s is taken by container %.12s of run %s (workload %s, user id %s)",
			name, info.ID, run, info.Config.Labels[LabelWorkload], info.Config.Labels[LabelOwner]),
		Hint: "end that run first: disagg cancel " + run}
}

// container is a started container.
type container struct {
	c  *Containers
	id string
}

// ID is the container id.
func (u *container) ID() string { return u.id }

// Wait waits for the container's end.
func (u *container) Wait(ctx context.Context) string {
	out, err := u.c.run(ctx, 0, "wait for container", "", "wait", u.id)
	switch {
	case ctx.Err() != nil:
		return ""
	case err != nil:
		if there, lerr := u.c.exists(ctx, u.id); lerr == nil && !there {
			return "the container is not there any more: somebody removed it"
		}
		return fmt.Sprintf("the container ended (%v)", err)
	}
	how := "the container ended with exit code " + clean(out)
	if clean(out) == killedCode {
		how += ", which is SIGKILL: its runtime on request, somebody, or the kernel for want of memory"
	}
	return how
}

// killedCode is the exit code of a container whose first process got SIGKILL.
const killedCode = "137"

// Remove makes sure that the container does not exist any more.
func (u *container) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	return u.c.Remove(ctx, u.id)
}

// Remove kills and removes one container and waits until it is gone.
func (c *Containers) Remove(ctx context.Context, id string) error {
	// It may be gone already, or about to go by itself; only whether it is there
	// afterwards counts.
	_, rmErr := c.ask(ctx, "remove container", "", "rm", "--force", id)
	pause := 20 * time.Millisecond
	for {
		there, err := c.exists(ctx, id)
		if err != nil {
			return &deploy.Fault{Class: deploy.ClassLeftover, Msg: fmt.Sprintf("whether container %.12s is gone could not be seen: %v", id, cmp.Or(rmErr, err)),
				Hint: fmt.Sprintf("%s rm --force %.12s", c.Command(), id)}
		}
		if !there {
			return nil
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			why := cmp.Or(rmErr, context.Cause(ctx))
			return &deploy.Fault{Class: deploy.ClassLeftover, Msg: fmt.Sprintf("container %.12s is still there: %v", id, why),
				Hint: fmt.Sprintf("%s rm --force %.12s", c.Command(), id)}
		}
		pause = min(2*pause, time.Second)
	}
}

// exists says whether the runtime still knows a container.
func (c *Containers) exists(ctx context.Context, id string) (bool, error) {
	out, err := c.ask(ctx, "look for container", "", "ps", "--all", "--no-trunc", "--quiet", "--filter", "id="+id)
	return strings.TrimSpace(out) != "", err
}
