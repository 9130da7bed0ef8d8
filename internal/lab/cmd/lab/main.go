// Command lab brings up a Slurm cluster on one machine, and takes it down.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/disagg/disagg/internal/lab"
	"github.com/disagg/disagg/internal/lab/labd"
)

const usage = `usage: lab up [-dir DIR] [-nodes N] [-disagg FILE]
                                        start a cluster; it stays until down.
                                        With the program, all that a first run
                                        needs is made beside it
       lab down [-dir DIR]              take it down whole
       lab shell [-dir DIR] [NODE]      a shell on the controller, or on NODE
       lab run [-dir DIR] PROGRAM ...   run a program on the controller`

func main() {
	err := run(os.Args[1:])
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	verb, rest := args[0], args[1:]
	if inside, ok := processes()[verb]; ok {
		return inside(rest)
	}
	flags := flag.NewFlagSet("lab "+verb, flag.ContinueOnError)
	usual, err := lab.DirByHand()
	if err != nil {
		return err
	}
	dir := flags.String("dir", usual, "the lab's directory")
	nodes := flags.Int("nodes", 4, "number of nodes (up)")
	disagg := flags.String("disagg", "", "the program to try (up)")
	if err := flags.Parse(rest); err != nil {
		return err
	}
	switch verb {
	case "up":
		return up(*dir, usual, *nodes, *disagg)
	case "down":
		return lab.Down(*dir)
	case "shell":
		return enter(*dir, flags.Arg(0), "bash", "-i")
	case "run":
		return enter(*dir, "", flags.Args()...)
	}
	return errors.New(usage)
}

// processes are the lab's own, which it starts from this binary. Their first
// argument is the lab's directory, a node's name may follow.
func processes() map[string]func([]string) error {
	return map[string]func([]string) error{
		"supervise": func(a []string) error {
			return labd.Supervise(a[0], len(a) > 1, os.Stdin, os.Stdout)
		},
		"ctl":       func(a []string) error { return labd.RunCtl(a[0]) },
		"node-join": func(a []string) error { return labd.JoinNode(a[0], a[1]) },
		"node":      func(a []string) error { return labd.RunNode(a[0], a[1]) },
	}
}

// up starts a cluster in dir; usual is where it goes when no directory is named.
func up(dir, usual string, n int, disagg string) error {
	l, err := lab.Up(dir, n, lab.WithImages())
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(os.Stdout, "%s are up; %s is shared and goes with the lab\n", strings.Join(l.Nodes(), " "), l.Dir()); err != nil || disagg == "" {
		return err
	}
	try, err := outfit(l, disagg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(os.Stdout, next(dir, usual, try))
	return err
}

// next says what to do with a cluster that is up.
func next(dir, usual, try string) string {
	at := ""
	if dir != usual {
		at = " DIR=" + dir
	}
	return fmt.Sprintf("a first run, in make lab-shell%s:\n  cd %s\n  export DISAGG_SITE=$PWD/site.yaml\n  ./disagg submit recipe.yaml --wait\nmake lab-down%s takes the cluster down\n", at, try, at)
}

// enter runs a program in the lab with this process's terminal.
func enter(dir, node string, argv ...string) error {
	l, err := lab.Open(dir)
	if err != nil {
		return err
	}
	return l.Interactive(node, argv...)
}
