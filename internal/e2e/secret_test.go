package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disagg/disagg/internal/e2e/world"
)

// planted looks for a mark that secrets of one test hold.
type planted struct {
	*world.World
	mark string
}

// said fails the test if a command's output holds the mark.
func (p planted) said(what string, s world.Said) world.Said {
	p.T.Helper()
	if strings.Contains(s.Out+s.Err, p.mark) {
		p.T.Errorf("%s says a secret:\n%s\n%s", what, s.Out, s.Err)
	}
	return s
}

// in fails the test for each file below dir that holds the mark. Container
// layers are left out: they are looked at where containers run.
func (p planted) in(what, dir string) {
	p.T.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err), os.IsPermission(err):
			return nil // gone meanwhile, or of a kind that nothing is kept in
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "overlay2" || d.Name() == "noderoot" || d.Name() == "proc"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err == nil && bytes.Contains(data, []byte(p.mark)) {
			p.T.Errorf("%s: a secret is in %s", what, path)
		}
		return nil
	})
	p.Must(err)
}

// everywhere looks at all that a run has on disk: on the shared file system, in
// what Slurm and Docker keep, and on each node.
func (p planted) everywhere(when string) {
	p.T.Helper()
	p.in(when, filepath.Dir(filepath.Dir(p.Dir))) // the whole lab's directory
	for _, n := range p.Nodes() {
		for _, dir := range []string{"/tmp", "/run", "/dev/shm", "/var/tmp"} {
			if dir != "/var/tmp" { // that one is shared, and holds the lab
				p.in(when+" on "+n, p.NodePath(n, dir))
			}
		}
	}
}

// running looks at what only is there while a run is on: command lines, what
// Docker and Slurm tell, containers' own files, and the environments of all
// processes but those that were to have the secrets.
func (p planted) running(holders map[string]bool) {
	p.T.Helper()
	onNoCommandLine(p.World, p.mark)
	seen := map[string]bool{}
	for _, n := range p.Nodes() {
		list, err := p.Processes(n)
		p.Must(err)
		for _, proc := range list {
			env, err := os.ReadFile(p.NodePath(n, fmt.Sprintf("/proc/%d/environ", proc.PID)))
			if err != nil || !bytes.Contains(env, []byte(p.mark)) {
				continue
			}
			_, rest, _ := strings.Cut(string(env), "DISAGG_WORKLOAD=")
			workload, _, _ := strings.Cut(rest, "\x00")
			if seen[workload] = true; !holders[workload] {
				p.T.Errorf("%s: %s (workload %q) has a secret in its environment", n, proc, workload)
			}
		}
		containers, err := p.Containers(n)
		p.Must(err)
		for _, c := range containers {
			upper, err := p.Exec(n, "docker", "inspect", "--format", "{{.GraphDriver.Data.UpperDir}}", c.ID)
			if err == nil {
				p.in("container on "+n, p.NodePath(n, strings.TrimSpace(upper)))
			}
		}
	}
	for w := range holders {
		if !seen[w] {
			p.T.Errorf("%s does not have the secret that it was to have", w)
		}
	}
}

// TestPlantedSecretIsFoundNowhere: secrets that a run forwards, and that its
// programs echo, are in those programs' environments and in no other place: not
// while it runs, not when it ended well, not when a worker was killed.
func TestPlantedSecretIsFoundNowhere(t *testing.T) {
	const echo = `printf '%s\n' "client has $HF_TOKEN"; t=$MODAL_TOKEN_SECRET; printf '%s\n' "$t"; h=${HF_TOKEN%???????????????}; printf '%s' "$h"; sleep 0.3; printf '%s\n' "${HF_TOKEN#"$h"}"; `
	for _, end := range []string{"good", "killed"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			p := planted{newWorld(t), "PLANTED" + strings.ToUpper(end)}
			recipe := writeEnvRecipe(p.World, envKeys{
				name: "envsecret-" + end, router: "  forward: [HF_TOKEN]", client: "  forward: [HF_TOKEN, 'MODAL_TOKEN_*']",
				more: "forward: [HF_TOKEN]\nenv: {STANDIN_FAULT: {value: 'echo:env=HF_TOKEN', custom: true}}\n",
			})
			text, err := os.ReadFile(recipe)
			p.Must(err)
			p.Write("recipe.yaml", strings.Replace(string(text), `command: [sh, -c, "while`, `command: [sh, -c, "`+strings.ReplaceAll(strings.ReplaceAll(echo, `\`, `\\`), `"`, `\"`)+`while`, 1))
			p.Env = []string{
				"HF_TOKEN=hf_" + p.mark + `"%/+<&>` + p.mark + "_0123456789", "MODAL_TOKEN_ID=ak-" + p.mark, "MODAL_TOKEN_SECRET=-----BEGIN KEY-----\n" + p.mark + "0123456789abcdef\n-----END KEY-----",
				"GITHUB_TOKEN=ghp_" + p.mark, // nobody forwards it
			}
			for _, args := range [][]string{{"plan", recipe}, {"plan", "--explain", recipe}, {"plan", "--output", "json", recipe}, {"render", recipe}} {
				p.Want(p.said(args[0], p.Disagg(args...)), 0)
			}
			p.Want(p.said("submit", p.Disagg("submit", recipe)), 0)
			p.Env = nil
			p.ClientRuns()
			time.Sleep(time.Second) // the programs echo meanwhile
			p.running(map[string]bool{"prefill-0.0": true, "decode-0.0": true, "router": true, "client.c2": true})
			p.everywhere("while it runs")

			code := 0
			if end == "good" {
				letGo(p.World)
			} else {
				for _, m := range p.Members() {
					if m.Workload == "decode-0.0" {
						p.Signal(m.Node, m.PID, "KILL")
					}
				}
				code = 7
			}
			p.Want(p.said("wait", p.Disagg("wait", p.Newest())), code)
			r := p.Result()
			if end == "killed" && (r.Cause == nil || !strings.Contains(strings.Join(r.Cause.Log, "\n"), "using token [redacted:HF_TOKEN]")) {
				t.Errorf("the cause's log does not show the redacted line: %+v", r.Cause)
			}
			for _, args := range [][]string{
				{"status", p.Newest()}, {"status", "--output", "json", p.Newest()}, {"env", "--all", p.Newest()}, {"env", p.Newest(), "HF_TOKEN"}, {"env", "--all", "--output", "json", p.Newest()},
				{"logs", "--lines", "0", p.Newest(), "decode"}, {"logs", "--lines", "0", p.Newest(), "client"}, {"plan", "--diff", p.Newest() + "/plan.json", recipe},
			} {
				p.said(strings.Join(args, " "), p.Disagg(args...))
			}
			p.everywhere("after its end")
			if _, err := os.Stat(filepath.Join(p.Newest(), "env", "secrets")); !os.IsNotExist(err) {
				t.Errorf("the file with the secrets is still there: %v", err)
			}
			p.echoed()
			p.Clean(5 * time.Second)
		})
	}
}

// echoed makes sure that there was something to hide: each program wrote its
// secret, whole and in two writes, and the log shows where.
func (p planted) echoed() {
	p.T.Helper()
	for name, want := range map[string]int{"prefill-0.0": 3, "decode-0.0": 3, "client.c2": 3} {
		logs, err := filepath.Glob(filepath.Join(p.Newest(), "logs", name+".*.log"))
		p.Must(err)
		text := ""
		for _, l := range logs {
			data, err := os.ReadFile(l)
			p.Must(err)
			text += string(data)
		}
		if n := strings.Count(text, "[redacted:"); n < want {
			p.T.Errorf("%s shows %d redactions, want %d: the test has not looked at anything\n%s", name, n, want, text)
		}
	}
	var sums int
	for line := range strings.Lines(p.File("env/receipts.jsonl")) {
		var rec struct {
			Vars []struct{ Name, HMAC string }
		}
		p.Must(json.Unmarshal([]byte(line), &rec))
		for _, v := range rec.Vars {
			if v.Name == "HF_TOKEN" && len(v.HMAC) == 64 {
				sums++
			}
		}
	}
	if sums != 4 {
		p.T.Errorf("%d receipts hold the sum of HF_TOKEN, want 4", sums)
	}
}
