package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/plan"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/spf13/cobra"
)

func newPlan(a *app) *cobra.Command {
	var in inputs
	var explain bool
	var diff string
	cmd := &cobra.Command{
		Use:   "plan RECIPE",
		Short: "Show who would run where, with what, and where each value comes from",
		Long: `Plan a run and print it. Nothing is submitted and nothing is written.

All mistakes of recipe, site and catalog are shown at once, each with
file:line:col. --output json prints the plan itself, the same bytes that a run
directory would hold.`,
		Args:              in.args,
		ValidArgsFunction: completeRecipe,
		RunE: func(_ *cobra.Command, args []string) error {
			req, err := in.requestOf(a, args)
			if err != nil {
				return err
			}
			all, err := prepare.LoadAll(req)
			if err != nil {
				return err
			}
			switch {
			case diff != "":
				if len(all) != 1 {
					return usagef("--diff compares one run; the recipe is a sweep of %d", len(all))
				}
				other, err := a.otherPlan(in, diff)
				if err != nil {
					return err
				}
				return a.printDiff(other, all[0].Plan)
			case a.json():
				return a.printPlans(all)
			case explain:
				return a.each(all, a.printExplain)
			default:
				return a.each(all, func(p *models.Plan) error {
					_, err := fmt.Fprint(a.Out, plan.Table(p))
					return err
				})
			}
		},
	}
	in.flags(cmd)
	cmd.Flags().VarP(newEnum(&in.launcher, models.LauncherSlurm, models.LauncherSSH, models.LauncherLocal), "launcher", "l", "how agents will be started")
	_ = cmd.RegisterFlagCompletionFunc("launcher", cobra.FixedCompletions([]string{models.LauncherSlurm, models.LauncherSSH, models.LauncherLocal}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&explain, "explain", false, "say for every value, flag and variable where it comes from and what it beat")
	cmd.Flags().StringVar(&diff, "diff", "", "compare with another recipe, or with the plan.json of a run, by meaning")
	cmd.MarkFlagsMutuallyExclusive("explain", "diff")
	return cmd
}

func (a *app) each(all []*prepare.Prepared, print func(*models.Plan) error) error {
	for i, p := range all {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		if err := print(p.Plan); err != nil {
			return err
		}
	}
	return nil
}

// printPlans prints the canonical bytes of one plan, or an array of them.
func (a *app) printPlans(all []*prepare.Prepared) error {
	if len(all) == 1 {
		_, err := a.Out.Write(all[0].JSON)
		return err
	}
	list := make([]json.RawMessage, len(all))
	for i, p := range all {
		list[i] = p.JSON
	}
	return a.printJSON(list)
}

func (a *app) printExplain(p *models.Plan) error {
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	// The value stands last: values may be long, and only columns before the
	// last are padded.
	fmt.Fprintln(w, "KEY\tFROM\tVALUE")
	for _, r := range plan.Explain(p) {
		over := ""
		if len(r.Over) > 0 {
			over = "   (over " + printable(strings.Join(r.Over, "; ")) + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s%s\n", r.Key, r.From, printable(r.Value), over)
	}
	return w.Flush()
}

// printable keeps a value on one line of a table.
func printable(s string) string {
	if strings.ContainsAny(s, "\n\t\r\x1b") {
		return strconv.Quote(s)
	}
	return s
}

func (a *app) printDiff(old, now *models.Plan) error {
	changes, err := plan.Diff(old, now)
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(changes)
	}
	if len(changes) == 0 {
		_, err := fmt.Fprintln(a.Out, "the plans mean the same")
		return err
	}
	// One below the other: values may be long, and are compared best so.
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(c.Key)
		if len(c.In) > 0 {
			fmt.Fprintf(&b, "  (%s)", strings.Join(c.In, " "))
		}
		fmt.Fprintf(&b, "\n  other  %s\n  this   %s\n", printable(c.A), printable(c.B))
	}
	_, err = io.WriteString(a.Out, b.String())
	return err
}

// otherPlan reads the plan to compare with: a plan.json, or a recipe.
func (a *app) otherPlan(in inputs, path string) (*models.Plan, error) {
	if !strings.HasSuffix(path, ".json") {
		req, err := in.request(a, path)
		if err != nil {
			return nil, err
		}
		p, err := prepare.Load(req)
		if err != nil {
			return nil, err
		}
		return p.Plan, nil
	}
	data, err := os.ReadFile(a.path(path))
	if err != nil {
		return nil, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("read plan: %w", err))
	}
	p, err := plan.Decode(data)
	if err != nil {
		return nil, orchestrator.WithCode(orchestrator.ExitConfig, errors.Join(fmt.Errorf("%s:", path), err))
	}
	return p, nil
}
