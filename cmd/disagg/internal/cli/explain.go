package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/checks"
	"github.com/spf13/cobra"
)

func newExplain(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [ID]",
		Short: "Say what a check is about: what, why, how to fix; without an id, or with an area such as rdma, list them",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("name one check, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return preflight.IDs(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listChecks(preflight.IDs())
			}
			if ids := preflight.Matching(args[0]); len(ids) > 0 && !slices.Contains(ids, args[0]) {
				return a.listChecks(ids)
			}
			text, err := preflight.Explain(args[0])
			if err != nil {
				return usageError{err}
			}
			if a.json() {
				return a.printJSON(explained(args[0]))
			}
			_, err = fmt.Fprint(a.Out, text)
			return err
		},
	}
}

// explanation is a check as JSON.
type explanation struct {
	ID   string `json:"check"`
	Hard bool   `json:"hard"`
	What string `json:"what"`
	Why  string `json:"why"`
	Fix  string `json:"fix"`
}

func explained(id string) explanation {
	d, hard, _ := checks.Explain(id)
	return explanation{d.ID, hard, d.What, d.Why, d.Fix}
}

func (a *app) listChecks(ids []string) error {
	var list []explanation
	for _, id := range ids {
		list = append(list, explained(id))
	}
	if a.json() {
		return a.printJSON(list)
	}
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	for _, e := range list {
		first, _, _ := strings.Cut(e.What, ". ")
		fmt.Fprintf(w, "%s\t%s\n", e.ID, strings.TrimSuffix(first, "."))
	}
	return w.Flush()
}
