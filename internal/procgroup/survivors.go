package procgroup

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Survivor is a process that is still there although its group was killed.
type Survivor struct {
	PID     int
	State   string // R, S, D, T, … as /proc has it; D is uninterruptible
	Command string
	// Wait is the kernel function it waits in, where that is known.
	Wait string
}

// String writes the process the way an operator looks for it.
func (s Survivor) String() string {
	out := fmt.Sprintf("pid %d state %s %s", s.PID, s.State, s.Command)
	if s.Wait != "" {
		out += " waits in " + s.Wait
	}
	return out
}

// survivors lists the live processes of group pgid. Zombies do not count: they
// hold nothing, and only their parent can remove them.
func survivors(pgid int) []Survivor {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var out []Survivor
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		comm, state, group, ok := parseStat(stat)
		if !ok || group != pgid || state == "Z" || state == "X" {
			continue
		}
		s := Survivor{PID: pid, State: state, Command: comm}
		if wchan, err := os.ReadFile("/proc/" + name + "/wchan"); err == nil && string(wchan) != "0" {
			s.Wait = strings.TrimSpace(string(wchan))
		}
		out = append(out, s)
	}
	return out
}

// parseStat reads command, state and process group of one /proc/PID/stat. The
// command is in parentheses and may hold any byte, also a closing parenthesis.
func parseStat(b []byte) (comm, state string, pgrp int, ok bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return "", "", 0, false
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 3 {
		return "", "", 0, false
	}
	pgrp, err := strconv.Atoi(f[2])
	if err != nil {
		return "", "", 0, false
	}
	return string(b[open+1 : end]), f[0], pgrp, true
}
