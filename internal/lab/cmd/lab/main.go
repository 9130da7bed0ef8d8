// Command lab brings up a Slurm cluster on one machine, and takes it down.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/disagg/disagg/internal/lab/labd"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage")
	}
	switch args[0] {
	case "supervise":
		return labd.Supervise(args[1], len(args) > 2 && args[2] == "hold", os.Stdin, os.Stdout)
	case "ctl":
		return labd.RunCtl(args[1])
	case "node-join":
		return labd.JoinNode(args[1], args[2])
	case "node":
		return labd.RunNode(args[1], args[2])
	}
	return fmt.Errorf("unknown command %q", args[0])
}
