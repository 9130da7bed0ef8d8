package cli

import (
	"errors"
	"fmt"

	"github.com/disagg/disagg/deploy/agent"
	"github.com/disagg/disagg/deploy/shim"
	"github.com/disagg/disagg/orchestrator"
	"github.com/spf13/cobra"
)

// The verbs that the tool calls itself on nodes and in containers. They are
// hidden: nobody types them.

func newAgent(a *app) *cobra.Command {
	var stdio bool
	cmd := &cobra.Command{
		Use:    "agent",
		Short:  "Work on one node for a controller (started by the tool itself)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := agent.Run(cmd.Context(), agent.Options{Stdio: stdio, Stdin: a.In, Stdout: a.Out, Version: Version()})
			if errors.Is(err, agent.ErrLease) {
				return orchestrator.WithCode(orchestrator.ExitTerminated, err)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&stdio, "stdio", false, "speak over stdin and stdout instead of calling back")
	return cmd
}

func newShim(*app) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    "shim",
		Short:  "Stand between an agent and one program (started by the tool itself)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			code, err := shim.Run(cmd.Context(), shim.Options{Dir: dir, Version: Version()})
			if err != nil {
				return err
			}
			// The container ends with the program's own code.
			return exitCode(code)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", shim.MountDir, "directory with the shim's orders")
	return cmd
}

func newShimExec(a *app) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    "shim-exec",
		Short:  "Report the environment, wait, become the program (started by the tool itself)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := shim.Exec(cmd.Context(), dir); err != nil {
				fmt.Fprintln(a.Err, err)
				return exitCode(127)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", shim.MountDir, "directory with the shim's orders")
	return cmd
}
