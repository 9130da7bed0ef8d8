package cli

import (
	"fmt"

	"github.com/disagg/disagg/models/changelog"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/spf13/cobra"
)

func newChangelog(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "changelog",
		Short: "Check the change log of a sweep repository",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newChangelogCheck(a))
	return cmd
}

func newChangelogCheck(a *app) *cobra.Command {
	var base, link string
	var masters, baseMasters []string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a change log's entries, and what a change added to it",
		Long: `Check the change log in which each change of a sweep's master files says what is
to be measured anew. Every mistake is shown with file:line:col.

Of the file alone: its form, missing and unknown fields, flags that exclude each
other. With the log before the change (--base): that nothing above the tail was
edited, and that new entries have links of their own. With the master files: that
the keys of new entries exist; and with those before the change, that every key
which it touches has an entry. What cannot be checked is said.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("name one change log, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			read := func(role string, paths ...string) ([]changelog.File, error) {
				var out []changelog.File
				for _, p := range paths {
					data, err := prepare.Read(role, a.path(p))
					if err != nil {
						return nil, err
					}
					out = append(out, changelog.File{Path: p, Data: data})
				}
				return out, nil
			}
			in := changelog.Input{Link: link}
			log, err := read("change log", args[0])
			if err != nil {
				return err
			}
			in.Log = log[0]
			if base != "" {
				if log, err = read("change log", base); err != nil {
					return err
				}
				in.Base = &log[0]
			}
			if in.Masters, err = read("master file", masters...); err != nil {
				return err
			}
			if in.BaseMasters, err = read("master file", baseMasters...); err != nil {
				return err
			}
			rep, err := changelog.Check(in)
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(rep)
			}
			for _, n := range rep.Notes {
				fmt.Fprintf(a.Err, "note: %s\n", n.Error())
			}
			for _, u := range rep.Unchecked {
				fmt.Fprintf(a.Out, "not checked: %s\n", u)
			}
			_, err = fmt.Fprintf(a.Out, "%s: %d entries, %d of them new; no mistake found\n", args[0], rep.Entries, rep.New)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&base, "base", "", "the log before the change")
	f.StringArrayVar(&masters, "master", nil, "master file that the keys are in; may be given again")
	f.StringArrayVar(&baseMasters, "base-master", nil, "master file before the change; may be given again")
	f.StringVar(&link, "link", "", "the change's own link")
	return cmd
}
