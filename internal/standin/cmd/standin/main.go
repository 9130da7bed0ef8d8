// Command standin is the stand-in engine, router and load client as a program;
// see package standin.
package main

import (
	"context"
	"os"

	"github.com/disagg/disagg/internal/standin"
)

func main() {
	os.Exit(standin.Main(context.Background(), os.Args, os.Stdout, os.Stderr))
}
