package cli

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/env"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/receipts"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/spf13/cobra"
)

func newEnv(a *app) *cobra.Command {
	var f finder
	var all bool
	cmd := &cobra.Command{
		Use:   "env RUN [NAME]",
		Short: "Show each variable's journey: who set it, what it beat, who saw what",
		Long: `Put the planned environment of a run and what its processes reported side by
side: where each variable was set, what it beat, which processes of which scope it
went to, and whether they have it as planned. NAME shows one variable in full;
without it --all adds what the images, their shells and the container runtime set.

Secrets are compared by a keyed hash and never shown. The exit code is 6 when a
planned variable did not arrive, and 0 otherwise; processes that were never
created are shown as "no report".`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usagef("name a run, and perhaps a variable; got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: f.complete(a),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := f.find(a, args[:1])
			if _, ok := errors.AsType[noRunError](err); ok && len(args) == 1 && isVariable(args[0]) {
				return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("%q names a variable and no run; name the run first: disagg env %s %s", args[0], rundir.LatestRef, args[0]))
			}
			if err != nil {
				return err
			}
			_, p, err := readPlan(dir.Path(), "")
			if err != nil {
				return err
			}
			records, err := receipts.Read(dir.Join(rundir.ReceiptsFile))
			if err != nil {
				return orchestrator.WithCode(orchestrator.ExitConfig, err)
			}
			rows := receipts.Journeys(p, records, all || len(args) == 2)
			show := writeJourneys
			if len(args) == 2 {
				show = writeJourney
				if rows, err = oneVariable(rows, args[1], dir); err != nil {
					return err
				}
			}
			if a.json() {
				err = a.printJSON(struct {
					Run       string         `json:"run"`
					Variables []receipts.Row `json:"variables"`
				}{dir.ID(), rows})
			} else {
				err = show(a.Out, rows)
			}
			if err == nil && slices.ContainsFunc(rows, func(r receipts.Row) bool { return r.State.Differs() }) {
				return exitWith(orchestrator.ExitLaunch)
			}
			return err
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also show what nobody planned: images, login shells, container runtime")
	return cmd
}

// isVariable says whether a word is more likely the name of a variable than of a
// run.
func isVariable(word string) bool {
	_, known := env.Lookup(word)
	return known || regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`).MatchString(word)
}

// oneVariable keeps the rows of one variable.
func oneVariable(rows []receipts.Row, name string, dir *rundir.Dir) ([]receipts.Row, error) {
	var out []receipts.Row
	for _, r := range rows {
		if r.Name == name {
			out = append(out, r)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	msg := fmt.Sprintf("no process of run %s was to have %s, and none has it", dir.ID(), name)
	if v, ok := env.Lookup(name); ok {
		if scopes := v.Scopes(); len(scopes) > 0 {
			msg += fmt.Sprintf("; it would be read in %s: set it under env, or name it under forward", strings.Join(scopes, ", "))
		} else if v.Key != "" {
			msg += "; no process reads it: a recipe says " + v.Key
		}
	} else if near := env.Nearest(name); len(near) > 0 {
		msg += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return nil, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("%s", msg))
}

// shownValue bounds a value in a table.
const shownValue = 100

// writeJourneys prints all variables, a line each, and what they come to.
func writeJourneys(out io.Writer, rows []receipts.Row) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "VARIABLE\tSCOPE\tSTATE\tSET BY\tPROCESSES\tVALUE")
	count := map[receipts.State]int{}
	for _, r := range rows {
		count[r.State]++
	}
	for _, r := range acrossScopes(rows) {
		over := ""
		if len(r.Over) > 0 {
			over = "   (over " + brief(printable(strings.Join(r.Over, "; "))) + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s%s\n", r.Name, r.Scope, r.State, orNobody(r.From), folded(r.Processes), brief(journeyValue(r)), over)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var parts []string
	for _, s := range []receipts.State{receipts.AsPlanned, receipts.Changed, receipts.Missing, receipts.Unset, receipts.NoReport, receipts.Extra} {
		if count[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[s], s))
		}
	}
	if len(parts) == 0 {
		parts = []string{"no variable is planned"}
	}
	_, err := fmt.Fprintf(out, "\n%s\n", strings.Join(parts, ", "))
	return err
}

// acrossScopes joins rows that say the same of several scopes.
func acrossScopes(rows []receipts.Row) []receipts.Row {
	var out []receipts.Row
	for _, r := range rows {
		i := slices.IndexFunc(out, func(o receipts.Row) bool {
			return o.Name == r.Name && o.State == r.State && o.From == r.From && slices.Equal(o.Over, r.Over) && journeyValue(o) == journeyValue(r)
		})
		if i < 0 {
			r.Processes = slices.Clone(r.Processes)
			out = append(out, r)
			continue
		}
		out[i].Scope += "," + r.Scope
		out[i].Processes = append(out[i].Processes, r.Processes...)
	}
	return out
}

// writeJourney prints one variable in full.
func writeJourney(out io.Writer, rows []receipts.Row) error {
	b := &strings.Builder{}
	fmt.Fprintln(b, rows[0].Name)
	if v, ok := env.Lookup(rows[0].Name); ok {
		fmt.Fprintf(b, "  %s\n", v.Meaning)
	}
	for _, r := range rows {
		fmt.Fprintf(b, "\n  scope      %s\n", r.Scope)
		fmt.Fprintf(b, "  processes  %s\n", strings.Join(r.Processes, ", "))
		if len(r.Nodes) > 0 {
			fmt.Fprintf(b, "  nodes      %s\n", strings.Join(r.Nodes, ", "))
		}
		fmt.Fprintf(b, "  set by     %s\n", orNobody(r.From))
		for _, o := range r.Over {
			fmt.Fprintf(b, "  over       %s\n", printable(o))
		}
		switch {
		case r.Secret:
			fmt.Fprintf(b, "  value      (secret)\n")
		case r.Planned != nil:
			fmt.Fprintf(b, "  planned    %s\n", whole(r.Planned))
		}
		seen := string(r.State)
		if r.Seen != nil {
			seen += ": " + whole(r.Seen)
		}
		fmt.Fprintf(b, "  seen       %s\n", seen)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// journeyValue is the value in one line: what was seen, and what was planned
// where that is another text.
func journeyValue(r receipts.Row) string {
	switch {
	case r.Secret:
		return "(secret)"
	case r.State.Differs() && r.Seen != nil:
		return fmt.Sprintf("planned %s, seen %s", whole(r.Planned), whole(r.Seen))
	case r.Seen == nil:
		return whole(r.Planned)
	case r.Planned == nil || string(*r.Planned) == string(*r.Seen):
		return whole(r.Seen)
	}
	return fmt.Sprintf("%s, from %s", whole(r.Seen), whole(r.Planned))
}

// whole writes a value; what a terminal would not show as it is, is quoted.
func whole(t *receipts.Text) string {
	if t == nil {
		return ""
	}
	s := string(*t)
	plain := s != "" && utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
	if plain && !strings.Contains(s, models.PlaceholderOpen) {
		return s
	}
	return strconv.Quote(s)
}

func brief(s string) string {
	if r := []rune(s); len(r) > shownValue {
		return string(r[:shownValue]) + fmt.Sprintf("… (%d characters)", len(r))
	}
	return s
}

func orNobody(from string) string {
	if from == "" {
		return "-"
	}
	return from
}

// folded names processes shortly: the first, and how many more.
func folded(list []string) string {
	if len(list) <= 2 {
		return strings.Join(list, ",")
	}
	return fmt.Sprintf("%s and %d more", list[0], len(list)-1)
}
