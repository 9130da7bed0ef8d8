package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/disagg/disagg/orchestrator"
	"github.com/spf13/cobra"
)

// Main runs one command line and returns its exit code.
func Main(args []string, s Streams) orchestrator.ExitCode {
	a := &app{Streams: s, ctx: context.Background(), output: "text"}
	if wd, err := os.Getwd(); err == nil {
		a.here = wd == s.Dir
	}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	cmd, err := root.ExecuteContextC(a.ctx)
	a.typed = cmd.CommandPath()
	if err != nil {
		err = classifyCobra(err)
	}
	return a.report(err)
}

// classifyCobra turns the errors that cobra makes itself into usage errors.
func classifyCobra(err error) error {
	if _, ok := errors.AsType[orchestrator.Coded](err); ok {
		return err
	}
	msg := err.Error()
	for _, p := range []string{"unknown command", "unknown flag", "unknown shorthand", "required flag", "accepts ", "requires at least", "invalid argument", "flag needs an argument", "if any flags in the group", "bad flag syntax"} {
		if strings.HasPrefix(msg, p) {
			return usageError{err}
		}
	}
	return err
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "disagg",
		Short: "Run disaggregated LLM serving on Slurm, and prove that it runs",
		Long: `disagg plans, checks, launches, supervises and cleanly ends disaggregated
LLM serving (prefill workers and decode workers behind a router) on Slurm
clusters, AMD MI355X first.

A check that could not run is never a pass. "Ready" means that a token came out
through prefill and decode. "Forwarded" means that the process in the container
reported the value. "Stopped" means that every node was looked at and nothing
was left.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		// Suggestions are cobra's own; our nearest-name hints are for files.
		SuggestionsMinimumDistance: 2,
	}
	root.PersistentFlags().VarP(newEnum(&a.output, "text", "json"), "output", "o", "print results as text or json")
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "say more on standard error")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(verbs(a)...)
	return root
}

// enum is a flag that takes one of a few words, and says which.
type enum struct {
	into  *string
	words []string
}

func newEnum(into *string, words ...string) *enum {
	if *into == "" {
		*into = words[0]
	}
	return &enum{into, words}
}

func (e *enum) String() string { return *e.into }
func (e *enum) Type() string   { return strings.Join(e.words, "|") }
func (e *enum) Set(v string) error {
	if !slices.Contains(e.words, v) {
		return fmt.Errorf("%q is not one of %s", v, strings.Join(e.words, ", "))
	}
	*e.into = v
	return nil
}

// printJSON writes v as indented JSON followed by a newline.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
