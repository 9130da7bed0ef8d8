package render

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"text/template"

	"github.com/disagg/disagg/models"
)

//go:embed templates/job.slurm.tmpl
var templates embed.FS

// ScriptView is what the script needs beside the job.
type ScriptView struct {
	// Tool is the version of the tool that writes the script.
	Tool string
	// RunDir is the absolute path of the run directory, as the first node of
	// the job sees it.
	RunDir string
	// PlanHash is the SHA-256 of the run's plan in hex, which the controller
	// compares before it does anything.
	PlanHash string
	// Token marks the job as this run's; it becomes the job's comment. It is
	// how a job is found whose submission gave no clear answer, so no other run
	// may have it.
	Token string
}

// Names of the controller's own output files, relative to the run directory.
// slurmd opens them, so their directory must exist before the submission.
const (
	OutputName = "logs/controller.out"
	ErrorName  = "logs/controller.err"
)

// Script writes the batch script of a job. The error lists everything that
// cannot be written, by option.
func Script(job models.SlurmJob, v ScriptView) ([]byte, error) {
	directives, errs := directives(job, v)
	if !planHash.MatchString(v.PlanHash) {
		errs = append(errs, fmt.Errorf("plan hash %q is not a SHA-256 in hex", v.PlanHash))
	}
	if err := checkText(v.Tool); err != nil {
		errs = append(errs, fmt.Errorf("version of the tool: %w", err))
	}
	exec, err := command(v.RunDir, v.PlanHash)
	if err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("write job script: %w", errors.Join(errs...))
	}
	t, err := template.New("job.slurm.tmpl").Option("missingkey=error").ParseFS(templates, "templates/*")
	if err != nil {
		return nil, fmt.Errorf("write job script: %w", err)
	}
	var out bytes.Buffer
	err = t.Execute(&out, struct {
		Directives      []string
		Run, Tool, Exec string
	}{directives, path.Base(v.RunDir), v.Tool, exec})
	if err != nil {
		return nil, fmt.Errorf("write job script: %w", err)
	}
	return out.Bytes(), nil
}

var planHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// command is the one command of the script. It replaces the shell, so that the
// batch process, which gets Slurm's signals, is the controller itself.
func command(runDir, hash string) (string, error) {
	argv := []string{path.Join(runDir, "bin/disagg"), "controller", "--run", runDir, "--plan-hash", hash}
	words := make([]string, len(argv))
	for i, a := range argv {
		w, err := quoteWord(a)
		if err != nil {
			return "", fmt.Errorf("command of the script: %w", err)
		}
		words[i] = w
	}
	return strings.Join(words, " "), nil
}
