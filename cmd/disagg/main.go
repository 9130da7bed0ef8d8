// Command disagg plans, checks, launches, supervises and cleanly ends
// disaggregated LLM serving on Slurm clusters.
package main

import (
	"os"

	"github.com/disagg/disagg/cmd/disagg/internal/cli"
)

func main() {
	os.Exit(int(cli.Main(os.Args[1:], cli.Standard())))
}
