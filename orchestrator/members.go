package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models"
)

// member is one worker as a router lists it.
type member struct {
	URL       string
	Role      string // empty: the router does not say
	Bootstrap int    // 0: the router does not say
	Unhealthy bool
}

// parseMembers reads a router's list. Known shapes: an object with "workers"
// (objects of url, worker_type, is_healthy, bootstrap_port), an object
// with "urls", and a plain array of URLs.
func parseMembers(body []byte) ([]member, error) {
	var list struct {
		Workers []struct {
			URL       string `json:"url"`
			Type      string `json:"worker_type"`
			Healthy   *bool  `json:"is_healthy"`
			Bootstrap int    `json:"bootstrap_port"`
		} `json:"workers"`
		URLs []string `json:"urls"`
	}
	var plain []string
	if err := json.Unmarshal(body, &list); err != nil {
		if json.Unmarshal(body, &plain) != nil {
			return nil, fmt.Errorf("read the router's list of workers: %w", err)
		}
	} else if list.Workers == nil && list.URLs == nil {
		return nil, fmt.Errorf("read the router's list of workers: it has neither workers nor urls")
	}
	var out []member
	for _, w := range list.Workers {
		if w.URL == "" {
			return nil, fmt.Errorf("read the router's list of workers: an entry has no url")
		}
		out = append(out, member{URL: w.URL, Role: w.Type, Bootstrap: w.Bootstrap, Unhealthy: w.Healthy != nil && !*w.Healthy})
	}
	for _, u := range slices.Concat(list.URLs, plain) {
		out = append(out, member{URL: u})
	}
	return out, nil
}

// plannedMembers is what the router must list of workers: each once, or each of its
// data-parallel ranks where the router tells them apart.
func (r *run) plannedMembers(workers []*models.Worker) []member {
	var out []member
	for _, w := range workers {
		m := member{URL: r.workerURL(w), Role: routerRole(w.Role), Bootstrap: w.BootstrapPort}
		if !r.plan.Router.DPAware || w.DP < 2 {
			out = append(out, m)
			continue
		}
		for rank := range w.DP {
			m.URL = r.workerURL(w) + "@" + strconv.Itoa(rank)
			out = append(out, m)
		}
	}
	return out
}

// routerRole is the router's word for a role.
func routerRole(role string) string {
	if role == models.RoleAggregate {
		return "regular"
	}
	return role
}

// compareMembers says how a router's list differs from the plan. What is missing
// or unhealthy may still come right; what is there and should not be never does.
func compareMembers(planned, got []member) error {
	want := map[string]member{}
	for _, m := range planned {
		want[normalURL(m.URL)] = m
	}
	seen := map[string]bool{}
	var wrong, notYet []string
	for _, m := range got {
		u := normalURL(m.URL)
		p, ok := want[u]
		switch {
		case !ok:
			wrong = append(wrong, m.URL+" is not in the plan")
		case seen[u]:
			wrong = append(wrong, m.URL+" is listed twice")
		case m.Role != "" && m.Role != p.Role:
			wrong = append(wrong, fmt.Sprintf("%s is listed as %s, planned is %s", m.URL, m.Role, p.Role))
		case m.Bootstrap != 0 && p.Bootstrap != 0 && m.Bootstrap != p.Bootstrap:
			wrong = append(wrong, fmt.Sprintf("%s is listed with bootstrap port %d, planned is %d", m.URL, m.Bootstrap, p.Bootstrap))
		case m.Unhealthy:
			notYet = append(notYet, m.URL+" is unhealthy")
		}
		seen[u] = true
	}
	for _, m := range planned {
		if !seen[normalURL(m.URL)] {
			notYet = append(notYet, m.URL+" ("+m.Role+") is missing")
		}
	}
	switch {
	case len(wrong) > 0:
		return permanentf("the router's workers are not the planned ones: %s", strings.Join(wrong, "; "))
	case len(notYet) > 0:
		return fmt.Errorf("the router's workers are not complete: %s", strings.Join(notYet, "; "))
	}
	return nil
}

func normalURL(u string) string { return strings.TrimSuffix(strings.ToLower(u), "/") }

// probeMembers asks the router for its list and compares it with the plan.
func (r *run) probeMembers(ctx context.Context, url string, planned []member) error {
	a, err := r.get(ctx, url, r.pace.Probe)
	if err != nil {
		return err
	}
	return judgeMembers(url, a, planned)
}

func judgeMembers(url string, a answer, planned []member) error {
	got, err := readMembers(url, a)
	if err != nil {
		return err
	}
	return compareMembers(planned, got)
}

func readMembers(url string, a answer) ([]member, error) {
	if a.status != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, a.text())
	}
	got, err := parseMembers(a.body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w: %s", url, err, a.text())
	}
	return got, nil
}
