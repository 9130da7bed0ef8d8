package render

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/disagg/disagg/internal/procgroup"
	"github.com/disagg/disagg/models"
)

var update = flag.Bool("update", false, "write the golden files")

const hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func view() ScriptView {
	return ScriptView{
		Tool: "1.2.3", RunDir: "/shared/runs/dsv4-20260102t030405Z-a1b2c3", PlanHash: hash,
		Token: "disagg:dsv4-20260102t030405Z-a1b2c3",
	}
}

func job() models.SlurmJob {
	return models.SlurmJob{
		JobName: "dsv4", Nodes: 3, TimeLimit: models.Duration(8 * time.Hour),
		GPURequest: "gres", GPUsPerNode: 8, Exclusive: true, Memory: "0",
		SignalLead: models.Duration(150 * time.Second),
	}
}

func goldenJobs() map[string]func() (models.SlurmJob, ScriptView) {
	return map[string]func() (models.SlurmJob, ScriptView){
		"gres": func() (models.SlurmJob, ScriptView) { return job(), view() },
		"everything": func() (models.SlurmJob, ScriptView) {
			j := job()
			j.Partition, j.Account, j.QOS = "mi355x", "team-a", "high"
			j.Reservation, j.Constraint = "maint_2", "mi355x&ib"
			j.GPUType = "mi355x"
			j.Exclude = "gpu-09,gpu-[10-12], rack[1-2]-n[3-4]-ib"
			j.Options = map[string]string{"nodelist": "rack[1-2]-n[08-09]-ib, gpu-01 ", "switches": "1@00:10:00", "mail-user": "a b@example.com", "contiguous": "", "propagate": "MEMLOCK"}
			return j, view()
		},
		"gpus-per-node": func() (models.SlurmJob, ScriptView) {
			j := job()
			j.GPURequest, j.GPUType = "gpus-per-node", "mi355x"
			return j, view()
		},
		"no-gpus-shared-node": func() (models.SlurmJob, ScriptView) {
			j := job()
			j.GPURequest, j.GPUsPerNode, j.Exclusive, j.Memory = "none", 0, false, "512G"
			j.TimeLimit = models.Duration(26*time.Hour + 500*time.Millisecond)
			return j, view()
		},
		"hostile-path": func() (models.SlurmJob, ScriptView) {
			v := view()
			v.RunDir = "/shared/it's 50%x $(id) `id`; rm/r1"
			return job(), v
		},
	}
}

func TestScriptGolden(t *testing.T) {
	t.Parallel()
	for name, make := range goldenJobs() {
		got, err := Script(make())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		file := filepath.Join("testdata", name+".slurm")
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestScriptIsOneCommand reads each script as bash reads it.
func TestScriptIsOneCommand(t *testing.T) {
	t.Parallel()
	for name, make := range goldenJobs() {
		j, v := make()
		script, err := Script(j, v)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckDirectives(script); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(script), name)
		if err != nil {
			t.Errorf("%s: not bash: %v", name, err)
			continue
		}
		if len(f.Stmts) != 1 {
			t.Errorf("%s: %d commands, want one", name, len(f.Stmts))
			continue
		}
		call, ok := f.Stmts[0].Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) != 7 || call.Args[0].Lit() != "exec" {
			t.Errorf("%s: the command is not exec with six words", name)
		}
		// The shell itself says what the words are.
		words := strings.Replace(string(script), "\nexec ", "\nprintf '%s\\n' ", 1)
		res, err := procgroup.Run(t.Context(), procgroup.Command{Argv: []string{"bash", "-c", words}, Env: []string{"PATH=/usr/bin:/bin"}})
		want := strings.Join([]string{v.RunDir + "/bin/disagg", "controller", "--run", v.RunDir, "--plan-hash", hash, ""}, "\n")
		if err != nil || string(res.Stdout) != want {
			t.Errorf("%s: bash runs %q, want %q (%v)", name, res.Stdout, want, err)
		}
	}
}

func TestScriptPassesShellcheck(t *testing.T) {
	t.Parallel()
	if _, err := procgroup.LookPath("shellcheck", nil); err != nil {
		t.Skip("shellcheck is not installed")
	}
	for name, make := range goldenJobs() {
		script, err := Script(make())
		if err != nil {
			t.Fatal(err)
		}
		res, err := procgroup.Run(t.Context(), procgroup.Command{Argv: []string{"shellcheck", "--shell=bash", "-"}, Stdin: script, Env: []string{"LANG=C.UTF-8"}})
		if err != nil || !res.OK() {
			t.Errorf("%s: %s %v\n%s", name, res.Describe(), err, res.Stdout)
		}
	}
}

// TestDirectivesAreReadBackAsMeant reads the directives the way sbatch does:
// words, double quotes, nothing else.
func TestDirectivesAreReadBackAsMeant(t *testing.T) {
	t.Parallel()
	j, v := goldenJobs()["hostile-path"]()
	script, err := Script(j, v)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(script)) {
		option, ok := strings.CutPrefix(line, "#SBATCH --")
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(option, "\n"), "=")
		if strings.HasPrefix(value, `"`) {
			value = strings.Trim(value, `"`)
		} else if strings.ContainsAny(value, " '\"") {
			t.Errorf("option %s has an unquoted value %s", name, value)
		}
		got[name] = value
	}
	want := map[string]string{
		"job-name": "dsv4", "comment": v.Token, "nodes": "3", "ntasks": "3", "ntasks-per-node": "1", "gres": "gpu:8",
		"exclusive": "", "mem": "0", "time": "0-08:00:00", "signal": "B:TERM@150", "no-requeue": "", "export": "ALL",
		"propagate": "NONE", "chdir": v.RunDir,
		"output": strings.ReplaceAll(v.RunDir, "%", "%%") + "/logs/controller.out",
		"error":  strings.ReplaceAll(v.RunDir, "%", "%%") + "/logs/controller.err",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestScriptRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		edit func(*models.SlurmJob, *ScriptView)
		want string
	}{
		"line break":        {func(j *models.SlurmJob, _ *ScriptView) { j.JobName = "a\n#SBATCH --exclusive" }, `--job-name: "a\n#SBATCH --exclusive" holds a line break`},
		"carriage return":   {func(j *models.SlurmJob, _ *ScriptView) { j.Account = "a\r" }, `--account: "a\r" holds a line break`},
		"NUL":               {func(j *models.SlurmJob, _ *ScriptView) { j.QOS = "a\x00" }, `--qos: "a\x00" holds a NUL byte`},
		"escape":            {func(j *models.SlurmJob, _ *ScriptView) { j.QOS = "\x1b[31m" }, `--qos: "\x1b[31m" holds the control character '\x1b'`},
		"bad UTF-8":         {func(j *models.SlurmJob, _ *ScriptView) { j.QOS = "a\xff" }, `--qos: "a\xff" is not valid UTF-8`},
		"hash":              {func(_ *models.SlurmJob, v *ScriptView) { v.Token = "reg/repo#img:tag" }, `--comment: "reg/repo#img:tag" holds '#', which a directive cannot carry`},
		"double quote":      {func(j *models.SlurmJob, _ *ScriptView) { j.Partition = `a"b` }, `--partition: "a\"b" holds '"', which a directive cannot carry`},
		"backslash":         {func(j *models.SlurmJob, _ *ScriptView) { j.Partition = `a\b` }, `--partition: "a\\b" holds '\\', which a directive cannot carry`},
		"no name":           {func(j *models.SlurmJob, _ *ScriptView) { j.JobName = "" }, `--job-name: a value is missing`},
		"no token":          {func(_ *models.SlurmJob, v *ScriptView) { v.Token = "" }, `--comment: a value is missing`},
		"no nodes":          {func(j *models.SlurmJob, _ *ScriptView) { j.Nodes = 0 }, "--nodes: 0 is not a number above zero\n--ntasks: 0 is not a number above zero"},
		"GPU dialect":       {func(j *models.SlurmJob, _ *ScriptView) { j.GPURequest = "tres" }, `--gres: GPU request "tres" is not one of gres, gpus-per-node, none`},
		"no GPUs":           {func(j *models.SlurmJob, _ *ScriptView) { j.GPUsPerNode = 0 }, `--gres: 0 is not a number of GPUs; to ask for none, set the GPU request to none`},
		"exclude":           {func(j *models.SlurmJob, _ *ScriptView) { j.Exclude = "n[2-1]" }, `--exclude: host list "n[2-1]": column 3: range 2-1 runs backwards`},
		"no time limit":     {func(j *models.SlurmJob, _ *ScriptView) { j.TimeLimit = 0 }, "--time: a time limit is missing\n--signal: lead 2m30s is not below the time limit 0s"},
		"no lead":           {func(j *models.SlurmJob, _ *ScriptView) { j.SignalLead = 0 }, `--signal: a signal lead is missing`},
		"lead too long":     {func(j *models.SlurmJob, _ *ScriptView) { j.SignalLead = j.TimeLimit }, `--signal: lead 8h0m0s is not below the time limit 8h0m0s`},
		"lead beyond Slurm": {func(j *models.SlurmJob, _ *ScriptView) { j.TimeLimit, j.SignalLead = 99*j.TimeLimit, 3*j.TimeLimit }, `--signal: lead 24h0m0s is above Slurm's limit 18h12m15s`},
		"relative run":      {func(_ *models.SlurmJob, v *ScriptView) { v.RunDir = "runs/r1" }, `run directory "runs/r1" is not a clean absolute path`},
		"unclean run":       {func(_ *models.SlurmJob, v *ScriptView) { v.RunDir = "/a/../b" }, `run directory "/a/../b" is not a clean absolute path`},
		"plan hash":         {func(_ *models.SlurmJob, v *ScriptView) { v.PlanHash = "abc" }, `plan hash "abc" is not a SHA-256 in hex`},
		"tool":              {func(_ *models.SlurmJob, v *ScriptView) { v.Tool = "1\nrm" }, `version of the tool: "1\nrm" holds a line break`},
		"option twice":      {func(j *models.SlurmJob, _ *ScriptView) { j.Options = map[string]string{"nodes": "4"} }, `the sbatch option "nodes" is the tool's own`},
		"requeue":           {func(j *models.SlurmJob, _ *ScriptView) { j.Options = map[string]string{"requeue": ""} }, `the sbatch option "requeue" is the tool's own`},
		"option name":       {func(j *models.SlurmJob, _ *ScriptView) { j.Options = map[string]string{"--qos x": "4"} }, `"--qos x" is not the name of an sbatch option; write it without dashes, in full`},
		"node twice": {func(j *models.SlurmJob, _ *ScriptView) {
			j.Options = map[string]string{"nodelist": "gpu-01,gpu-[01-02]"}
		}, `--nodelist: host list "gpu-01,gpu-[01-02]" names gpu-01 more than once`},
		"option value": {func(j *models.SlurmJob, _ *ScriptView) { j.Options = map[string]string{"licenses": "a#b"} }, `--licenses: "a#b" holds '#', which a directive cannot carry`},
		"all at once": {func(j *models.SlurmJob, v *ScriptView) { j.JobName, v.PlanHash, v.Tool = "", "", "\x00" },
			"--job-name: a value is missing\nplan hash \"\" is not a SHA-256 in hex\nversion of the tool: \"\\x00\" holds a NUL byte"},
	}
	for name, tt := range tests {
		j, v := job(), view()
		tt.edit(&j, &v)
		got, err := Script(j, v)
		if err == nil || err.Error() != "write job script: "+tt.want || got != nil {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
}

// TestNoOptionIsWrittenTwice: what the script sets by itself, a site cannot add
// once more; only propagate gives way to the site's.
func TestNoOptionIsWrittenTwice(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Sorted(maps.Keys(goldenJobs())) {
		j, v := goldenJobs()[name]()
		j.Options = nil
		script, err := Script(j, v)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(script)) {
			option, ok := strings.CutPrefix(line, "#SBATCH --")
			if !ok {
				continue
			}
			option, _, _ = strings.Cut(strings.TrimSpace(option), "=")
			if err := models.CheckSbatchOption(option); (err == nil) != (option == "propagate") {
				t.Errorf("%s: a site adds %s: %v", name, option, err)
			}
		}
	}
}

func TestEveryOptionHasItsValueAttached(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Sorted(maps.Keys(goldenJobs())) {
		script, err := Script(goldenJobs()[name]())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(script)) {
			option, ok := strings.CutPrefix(line, "#SBATCH ")
			if !ok {
				continue
			}
			before, _, _ := strings.Cut(option, "=")
			if !strings.HasPrefix(before, "--") || strings.ContainsAny(strings.TrimSpace(before), " \t") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

func TestCheckDirectives(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ script, want string }{
		"good": {"#!/bin/bash\n\n# text\n#SBATCH --nodes=2\n##SBATCH --off\nexec x # fine\n", ""},
		"below a command": {"#!/bin/bash\nset -euo pipefail\n#SBATCH --nodes=2\n\n#SBATCH --gpus-per-node=8\n",
			"directive at line 3 is below the first command at line 2: #SBATCH --nodes=2\ndirective at line 5 is below the first command at line 2: #SBATCH --gpus-per-node=8"},
		"indented":          {"#!/bin/bash\n  #SBATCH --nodes=2\r\nx\n", "directive at line 2 is indented: #SBATCH --nodes=2"},
		"cut":               {"#!/bin/bash\n#SBATCH --comment=reg/repo#img:tag\nx\n", "directive at line 2 is cut at '#': #SBATCH --comment=reg/repo#img:tag"},
		"no interpreter":    {"#SBATCH --nodes=2\nx\n", "line 1 is not a #! line"},
		"empty":             {"", ""},
		"first line is one": {"#!/bin/sh", ""},
	}
	for name, tt := range tests {
		err := CheckDirectives([]byte(tt.script))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func FuzzScript(f *testing.F) {
	f.Add("name", "/runs/a b", "tok", "qos")
	f.Add("n\n", "/runs/$(id)", "#", "'\"\\")
	f.Fuzz(func(t *testing.T, name, dir, token, option string) {
		j, v := job(), view()
		j.JobName, v.RunDir, v.Token, j.Options = name, dir, token, map[string]string{"licenses": option}
		script, err := Script(j, v)
		if err != nil {
			return
		}
		if err := CheckDirectives(script); err != nil {
			t.Fatalf("%v\n%s", err, script)
		}
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(script), "")
		if err != nil || len(file.Stmts) != 1 {
			t.Fatalf("not one command: %v\n%s", err, script)
		}
	})
}
