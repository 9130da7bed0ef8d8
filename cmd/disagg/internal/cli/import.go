package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/legacy"
	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/spf13/cobra"
)

func newImport(a *app) *cobra.Command {
	var s shelf
	var dir, repo string
	var keys []string
	evals := string(legacy.EvalsNone)
	cmd := &cobra.Command{
		Use:   "import [KIND=]FILE...",
		Short: "Turn the old launcher's files into catalog, site and recipe files",
		Long: `Read files of the old launcher and write catalog, site and recipe files that plan
to the same commands. What a file is follows from its name; KIND= says it where
the name does not:

  models    models.yaml, the models of sglang
  vllm      models_vllm.yaml
  atom      models_atom.yaml
  excludes  node_excludes.yaml
  runners   runners.yaml, for the host memory of trace replays
  master    any other: a master file, with the search spaces to measure

Without --dir nothing is written: the command lists the runs that the search
spaces hold, the files that it would write, and what it found: keys that are
there twice, missing fields, settings that nothing reads, each with its place.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name at least one file of the old launcher")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			src, err := a.sources(args)
			if err != nil {
				return err
			}
			if src.Catalog, _, err = s.open(a); err != nil {
				return err
			}
			src.Keys, src.Repo, src.Evals = keys, repo, legacy.EvalMode(evals)
			got, err := legacy.Import(src)
			if err != nil {
				return err
			}
			if len(keys) > 0 && len(got.Runs) == 0 {
				return models.FieldErrors{{Msg: "no key of the master files matches " + strings.Join(keys, ", ")}}
			}
			if dir != "" {
				if err := writeAll(a.path(dir), got.Files); err != nil {
					return err
				}
			}
			return a.printImport(got, dir)
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVarP(&dir, "dir", "d", "", "directory to write to; made when it is not there, and no file in it is replaced")
	cmd.Flags().StringArrayVarP(&keys, "key", "k", nil, "take only keys of the master files that match this glob; may be given again")
	cmd.Flags().StringVar(&repo, "repo", "", "where the nodes see the sweep repository, whose client measures")
	cmd.Flags().Var(newEnum(&evals, string(legacy.EvalsNone), string(legacy.EvalsOnly), string(legacy.EvalsAlso)), "evals",
		"what becomes of the rows that the sweep evaluated: none, only these, or a run of their own beside each measurement")
	_ = cmd.MarkFlagDirname("dir")
	cmd.AddCommand(newImportCall(a))
	return cmd
}

// newImportCall writes what a call of the old submit script means.
func newImportCall(a *app) *cobra.Command {
	var in inputs
	var dir string
	cmd := &cobra.Command{
		Use:   "call [ARGUMENT...]",
		Short: "Write recipe and site of a call of the old submit script",
		Long: `Take the arguments of the old submit script, and its variables from the
environment, and write the recipe and the site that --legacy-args would plan
from: to a directory, or to standard output.`,
		RunE: func(_ *cobra.Command, args []string) error {
			sub, _, err := in.convert(a, args)
			if err != nil {
				return err
			}
			if dir == "" {
				_, err := fmt.Fprintf(a.Out, "%s---\n%s", sub.Recipe, sub.Site)
				return err
			}
			return writeAll(a.path(dir), []legacy.File{{Path: "recipe.yaml", Data: sub.Recipe}, {Path: "site.yaml", Data: sub.Site}})
		},
	}
	in.flags(cmd)
	cmd.Flags().StringVarP(&dir, "dir", "d", "", "directory to write recipe.yaml and site.yaml to")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

// kindOf says what a file of the old launcher is by its name.
func kindOf(path string) string {
	switch name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".yml"), ".yaml"); name {
	case "models":
		return "models"
	case "models_vllm":
		return "vllm"
	case "models_atom":
		return "atom"
	case "node_excludes":
		return "excludes"
	case "runners":
		return "runners"
	}
	return "master"
}

// sources reads the files.
func (a *app) sources(args []string) (legacy.Sources, error) {
	var src legacy.Sources
	single := map[string]**legacy.File{"models": &src.SGLang, "vllm": &src.VLLM, "atom": &src.ATOM, "excludes": &src.Excludes, "runners": &src.Runners}
	for _, arg := range args {
		kind, path, ok := strings.Cut(arg, "=")
		if !ok || strings.ContainsAny(kind, "/.") {
			kind, path = kindOf(arg), arg
		}
		data, err := prepare.Read(kind, a.path(path))
		if err != nil {
			return src, err
		}
		f := legacy.File{Path: path, Data: data}
		into, one := single[kind]
		switch {
		case kind == "master":
			src.Master = append(src.Master, f)
		case !one:
			return src, usagef("%q is no kind of file; kinds: models, vllm, atom, excludes, runners, master", kind)
		case *into != nil:
			return src, usagef("%s and %s are both %s; import them one after the other", (*into).Path, path, kind)
		default:
			*into = &f
		}
	}
	return src, nil
}

// writeAll writes files below a directory, none over one that is there.
func writeAll(dir string, files []legacy.File) error {
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("write %s: it is there already, and nothing is replaced; name another directory", path))
		}
	}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// printImport says what came of an import.
func (a *app) printImport(got *legacy.Imported, dir string) error {
	if a.json() {
		type run struct {
			Key     string `json:"key"`
			Name    string `json:"name,omitempty"`
			File    string `json:"file,omitempty"`
			LeftOut string `json:"left_out,omitempty"`
			Place   string `json:"place"`
		}
		out := struct {
			Files []string           `json:"files"`
			Known []string           `json:"known_models"`
			Runs  []run              `json:"runs"`
			Notes models.FieldErrors `json:"notes"`
		}{Files: []string{}, Known: got.Known, Runs: []run{}, Notes: got.Notes}
		for _, f := range got.Files {
			out.Files = append(out.Files, f.Path)
		}
		for _, r := range got.Runs {
			out.Runs = append(out.Runs, run(r))
		}
		return a.printJSON(out)
	}
	for _, n := range got.Notes {
		fmt.Fprintf(a.Err, "note: %s\n", n.Error())
	}
	for _, name := range got.Known {
		fmt.Fprintf(a.Out, "model %s: the catalog has the same settings already\n", name)
	}
	var left []string
	written := 0
	for _, r := range got.Runs {
		if r.LeftOut != "" {
			left = append(left, fmt.Sprintf("%s: left out %s: %s", r.Place, r.Key, r.LeftOut))
			continue
		}
		written++
		fmt.Fprintf(a.Out, "run %s (%s, %s)\n", r.Name, r.Key, r.Place)
	}
	for _, text := range slices.Compact(left) {
		fmt.Fprintln(a.Out, text)
	}
	if len(got.Runs) > 0 {
		fmt.Fprintf(a.Out, "the search spaces hold %d runs: %d in recipes, %d left out\n", len(got.Runs), written, len(left))
	}
	verb := "would write"
	if dir != "" {
		verb = "wrote"
	}
	for _, f := range got.Files {
		fmt.Fprintf(a.Out, "%s %s\n", verb, filepath.Join(dir, f.Path))
	}
	if dir == "" && len(got.Files) > 0 {
		fmt.Fprintln(a.Err, "nothing was written; name a directory with --dir")
	}
	return nil
}
