package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/models/internal/yamlx"
)

// Severity is how bad a finding is.
type Severity string

// Severities. An error stops the plan unless the recipe allows it.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is one combination of settings that would fail or mislead, often
// hours after the submission.
type Finding struct {
	// Rule is the name that a recipe's allow section uses; see Rules.
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	// Path is the recipe or site key that the finding is about.
	Path string `json:"path"`
	// Msg says what is wrong, with the numbers.
	Msg string `json:"msg"`
	// WayOut says what to do.
	WayOut string `json:"way_out"`
	// Allowed is the recipe's reason for going on all the same; empty: none.
	Allowed string `json:"allowed,omitempty"`
}

// String is the finding as one line.
func (f Finding) String() string {
	s := fmt.Sprintf("%s: %s (%s): %s; %s", f.Severity, f.Rule, f.Path, f.Msg, f.WayOut)
	if f.Allowed != "" {
		s += "; allowed by the recipe: " + f.Allowed
	}
	return s
}

// checker collects the findings of one Check.
type checker struct {
	*composer
	result Output
	list   []Finding
}

// Check looks at a run for combinations that no single key is wrong about. An
// error that the recipe allows stays in the list, with its reason.
func Check(in Input) []Finding {
	c := &checker{composer: &composer{in: in}}
	// What counts is what the processes will get, wherever it was set. What
	// Compose cannot compose it reports itself.
	c.result, _ = Compose(in)
	for _, r := range rules() {
		r.check(c, r.name)
	}
	for i := range c.list {
		c.list[i].Allowed = in.Recipe.Allow[c.list[i].Rule]
	}
	for _, name := range sortedKeys(in.Recipe.Allow) {
		if !slices.Contains(Rules(), name) {
			msg := fmt.Sprintf("there is no rule %q", name)
			if near := yamlx.Nearest(name, Rules()); near != "" {
				msg += fmt.Sprintf("; did you mean %s?", near)
			}
			c.list = append(c.list, Finding{Rule: "unknown-rule", Severity: Error, Path: "allow." + name,
				Msg: msg, WayOut: "rules: " + strings.Join(Rules(), ", ")})
		}
	}
	return c.list
}

// Rules lists the names of all rules, sorted.
func Rules() []string {
	var names []string
	for _, r := range rules() {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return names
}
