package standin

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// realPython is where an image keeps Python when a stand-in has its name.
const realPython = "/usr/bin/python3.real"

// Main runs the part that argv asks for and returns its exit code. Logs go to
// stderr, results to stdout.
func Main(ctx context.Context, argv []string, stdout, stderr io.Writer) int {
	name, args := filepath.Base(argv[0]), argv[1:]
	if strings.HasPrefix(name, "python") {
		module, rest := pythonModule(args)
		switch {
		case module == "sglang.launch_server":
			return engineMain(ctx, rest, stderr)
		case exists(realPython):
			return becomePython(argv, stderr)
		case module == "sglang_router.launch_router":
			return routerMain(ctx, rest, stderr)
		}
		fmt.Fprintf(stderr, "standin: no part plays %s\n", strings.Join(argv, " "))
		return 2
	}
	if name == "vllm" {
		return vllmMain(ctx, args, stderr)
	}
	if len(args) > 0 {
		switch args[0] {
		case "serve":
			return vllmMain(ctx, args, stderr)
		case "engine":
			return engineMain(ctx, args[1:], stderr)
		case "router":
			return routerMain(ctx, args[1:], stderr)
		case "load":
			return loadMain(ctx, args[1:], stdout, stderr)
		}
	}
	fmt.Fprintln(stderr, "usage: standin engine|router|load [options]; under the name python3: -m MODULE [options]; under the name vllm: serve MODEL [options]")
	return 2
}

// pythonModule splits Python's arguments at -m MODULE.
func pythonModule(args []string) (module string, rest []string) {
	i := slices.Index(args, "-m")
	if i < 0 || i+1 >= len(args) {
		return "", nil
	}
	return args[i+1], args[i+2:]
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// becomePython replaces the process by the image's Python. It keeps its own
// name in argv[0]: Python finds its library by it.
func becomePython(argv []string, stderr io.Writer) int {
	err := syscall.Exec(realPython, append([]string{realPython}, argv[1:]...), os.Environ())
	fmt.Fprintf(stderr, "standin: run %s: %v\n", realPython, err)
	return 1
}
