package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/result"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/spf13/cobra"
)

func newLogs(a *app) *cobra.Command {
	var f finder
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:   "logs [RUN [PROCESS]]",
		Short: "Show what the processes of a run wrote",
		Long: `Without a process: the run's log files with their sizes. With one (prefill-0.0,
router, client.c16, or the beginning of one): the end of its log on each host.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 {
				return usagef("name a run and a process, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) != 1 {
				return f.complete(a)(cmd, args, word)
			}
			dir, err := f.find(a, args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			names, _ := logNames(dir)
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := f.find(a, args[:min(len(args), 1)])
			if _, ok := errors.AsType[noRunError](err); ok && len(args) == 1 && f.namesLog(a, args[0]) {
				return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("%q names a process and no run; name the run first: disagg logs %s %s", args[0], rundir.LatestRef, args[0]))
			}
			if err != nil {
				return err
			}
			names, err := logNames(dir)
			if err != nil {
				return err
			}
			if len(args) < 2 {
				return a.listLogs(dir, names)
			}
			names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, args[1]) })
			if len(names) == 0 {
				return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("run %s has no log of %q; `disagg logs %s` lists what there is", dir.ID(), args[1], dir.ID()))
			}
			return a.showLogs(cmd.Context(), dir, names, lines, follow)
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run has ended")
	cmd.Flags().IntVarP(&lines, "lines", "n", 50, "how many lines from the end; 0: all")
	return cmd
}

// namesLog says whether a word begins the name of a log of the newest run.
func (f *finder) namesLog(a *app, word string) bool {
	dir, err := f.find(a, nil)
	if err != nil {
		return false
	}
	names, err := logNames(dir)
	return err == nil && slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, word) })
}

func logNames(dir *rundir.Dir) ([]string, error) {
	entries, err := os.ReadDir(dir.Join(rundir.LogsDir))
	if err != nil {
		return nil, fmt.Errorf("read logs: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (a *app) listLogs(dir *rundir.Dir, names []string) error {
	type file struct {
		Name  string `json:"name"`
		Bytes int64  `json:"bytes"`
		Path  string `json:"path"`
	}
	list := []file{}
	for _, n := range names {
		path := dir.Join(filepath.Join(rundir.LogsDir, n))
		st, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("read logs: %w", err)
		}
		list = append(list, file{n, st.Size(), path})
	}
	if a.json() {
		return a.printJSON(list)
	}
	if len(list) == 0 {
		fmt.Fprintf(a.Err, "run %s has written no logs yet: nothing of it was started; `disagg status %s` says how far it is\n", dir.ID(), dir.ID())
	}
	for _, f := range list {
		if _, err := fmt.Fprintf(a.Out, "%10d  %s\n", f.Bytes, f.Path); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) showLogs(ctx context.Context, dir *rundir.Dir, names []string, lines int, follow bool) error {
	at := map[string]int64{}
	for _, n := range names {
		path := dir.Join(filepath.Join(rundir.LogsDir, n))
		from, err := lastOffset(path, lines)
		if err != nil {
			return err
		}
		if len(names) > 1 {
			fmt.Fprintf(a.Out, "==> %s <==\n", n)
		}
		if at[n], err = copyFrom(a.Out, path, from); err != nil {
			return err
		}
	}
	for follow {
		res, err := result.Read(dir.Join(rundir.ResultFile))
		if err != nil {
			return err
		}
		for _, n := range names {
			if at[n], err = copyFrom(a.Out, dir.Join(filepath.Join(rundir.LogsDir, n)), at[n]); err != nil {
				return err
			}
		}
		if res != nil {
			return nil
		}
		t := time.NewTimer(waitEvery)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
	return nil
}

// copyFrom writes a file from an offset on and returns where it ended.
func copyFrom(w io.Writer, path string, from int64) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return from, fmt.Errorf("read log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return from, fmt.Errorf("read log: %w", err)
	}
	n, err := io.Copy(w, f)
	return from + n, err
}

// tailBlock bounds how much of a log is read to find its last lines.
const tailBlock = 1 << 20

// lastOffset is where the last n lines of a file begin, within its last MiB.
func lastOffset(path string, n int) (int64, error) {
	if n <= 0 {
		return 0, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("read log: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("read log: %w", err)
	}
	start := max(0, st.Size()-tailBlock)
	buf := make([]byte, st.Size()-start)
	if _, err := f.ReadAt(buf, start); err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read log: %w", err)
	}
	end := len(bytes.TrimRight(buf, "\n"))
	for i := end - 1; i >= 0; i-- {
		if buf[i] == '\n' {
			if n--; n == 0 {
				return start + int64(i) + 1, nil
			}
		}
	}
	return start, nil
}

// tailFile returns the last lines of a file; a file that is not there has none.
func tailFile(path string, n int) ([]string, error) {
	from, err := lastOffset(path, n)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := copyFrom(&b, path, from); err != nil {
		return nil, err
	}
	text := strings.TrimRight(strings.ToValidUTF8(b.String(), "?"), "\n")
	if text == "" {
		return nil, nil
	}
	return strings.Split(text, "\n"), nil
}
