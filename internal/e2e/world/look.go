package world

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Left is what nodes still have of this test's runs; all nodes unless some are
// named.
func (w *World) Left(nodes ...string) []string {
	w.T.Helper()
	if len(nodes) == 0 {
		nodes = w.Nodes()
	}
	out, err := w.LookFor(nodes...)
	w.Must(err)
	return out
}

// LookFor looks on nodes for what is left of this test's runs: containers by
// label, processes by their command line or environment, listening ports of
// theirs, mounts and scratch files. Nodes that are off have nothing.
func (w *World) LookFor(nodes ...string) ([]string, error) {
	var out []string
	for _, n := range nodes {
		containers, err := w.Containers(n)
		if err != nil {
			return nil, err
		}
		ids := map[string]bool{}
		for _, c := range containers {
			if w.ours(c.Labels["disagg.run"]) {
				ids[c.ID] = true
				out = append(out, fmt.Sprintf("%s: container %s", n, c))
			}
		}
		strays, err := w.Strays(n)
		if err != nil {
			return nil, err
		}
		pids := map[int]bool{}
		for _, p := range strays {
			line := strings.Join(p.Argv, " ")
			if strings.Contains(line, w.Dir) || w.RunsDir != "" && strings.Contains(line, w.RunsDir) || w.ours(w.environ(n, p.PID)) {
				pids[p.PID] = true
				out = append(out, fmt.Sprintf("%s: process %d %s", n, p.PID, line))
			}
		}
		ports, err := w.ListeningPorts(n)
		if err != nil {
			return nil, err
		}
		for _, l := range ports {
			if pids[l.PID] {
				out = append(out, fmt.Sprintf("%s: port %s", n, l))
			}
		}
		if len(containers) == 0 {
			for _, m := range w.layers(n) {
				out = append(out, fmt.Sprintf("%s: mount without a container: %s", n, m))
			}
		}
		for _, dir := range w.scratch(n) {
			out = append(out, fmt.Sprintf("%s: scratch %s", n, dir))
		}
	}
	return out, nil
}

// environ is the environment of a process of a node, as one text.
func (w *World) environ(node string, pid int) string {
	data, err := os.ReadFile(w.NodePath(node, fmt.Sprintf("/proc/%d/environ", pid)))
	if err != nil {
		return "" // it has ended
	}
	return string(data)
}

// layers are the file systems of containers that are mounted on a node.
func (w *World) layers(node string) []string {
	data, err := os.ReadFile(w.NodePath(node, "/proc/1/mounts"))
	if err != nil {
		return nil // the node is off
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && strings.Contains(f[1], "/overlay2/") {
			out = append(out, f[1])
		}
	}
	return out
}

// scratch are the temporary directories on a node that name one of this test's
// runs in a file.
func (w *World) scratch(node string) []string {
	tmp := w.NodePath(node, "/tmp")
	if tmp == "" {
		return nil // the node is off
	}
	files, _ := filepath.Glob(filepath.Join(tmp, "*", "*"))
	var out []string
	for _, f := range files {
		st, err := os.Lstat(f)
		if err != nil || !st.Mode().IsRegular() || st.Size() > 1<<16 {
			continue
		}
		data, err := os.ReadFile(f)
		if err == nil && w.ours(string(data)) && !slices.Contains(out, filepath.Dir(f)) {
			out = append(out, filepath.Dir(f))
		}
	}
	runs, _ := filepath.Glob(filepath.Join(tmp, "disagg-*", "runs", "*"))
	for _, r := range runs {
		if w.ours(r) {
			out = append(out, r)
		}
	}
	return out
}

// ours says whether text names one of this test's runs.
func (w *World) ours(text string) bool {
	for _, dir := range w.Runs() {
		if strings.Contains(text, filepath.Base(dir)) {
			return true
		}
	}
	return false
}

// Clean fails the test unless nothing of its runs is on any node in time, or on
// those that are named; it returns when that was seen.
func (w *World) Clean(within time.Duration, nodes ...string) time.Time {
	w.T.Helper()
	deadline := time.Now().Add(within)
	for {
		left := w.Left(nodes...)
		now := time.Now()
		if len(left) == 0 {
			return now
		}
		if now.After(deadline) {
			w.T.Fatalf("left on the nodes after %s: %q\n%s", within, left, w.Evidence())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Find returns the node and process id of the one process of this test whose
// command line holds all words.
func (w *World) Find(words ...string) (node string, pid int) {
	w.T.Helper()
	for _, n := range w.Nodes() {
		list, err := w.Strays(n)
		w.Must(err)
	next:
		for _, p := range list {
			line := strings.Join(p.Argv, " ")
			for _, word := range words {
				if !strings.Contains(line, word) {
					continue next
				}
			}
			return n, p.PID
		}
	}
	w.T.Fatalf("no process with %q on any node", words)
	return "", 0
}

// Signal sends a signal to a process of a node.
func (w *World) Signal(node string, pid int, signal string) {
	w.T.Helper()
	w.MustExec(w.T, node, "kill", "-"+signal, fmt.Sprint(pid))
}
