package orchestrator

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// TestExitCodes holds the codes and their words to docs/exit-codes.md, which
// scripts are written from.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	codes := map[ExitCode]string{
		ExitOK: "ok", ExitInternal: "internal", ExitUsage: "usage", ExitConfig: "config", ExitPreflight: "preflight",
		ExitScheduler: "scheduler", ExitLaunch: "launch", ExitWorkload: "workload", ExitCollect: "collect",
		ExitLeftovers: "leftovers", ExitInterrupted: "interrupted", ExitTerminated: "terminated",
	}
	for code, word := range codes {
		if code.String() != word {
			t.Errorf("%d is called %q, want %q", code, code, word)
		}
	}
	if got := ExitCode(77).String(); got != "exit 77" {
		t.Errorf("an unknown code is called %q", got)
	}
	doc, err := os.ReadFile(filepath.Join("..", "docs", "exit-codes.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| (\w+) \|`).FindAllStringSubmatch(string(doc), -1)
	if len(rows) != len(codes) {
		t.Errorf("the document has %d codes, the program %d", len(rows), len(codes))
	}
	for _, r := range rows {
		n, err := strconv.Atoi(r[1])
		if err != nil || codes[ExitCode(n)] != r[2] {
			t.Errorf("the document calls %s %q, the program %q", r[1], r[2], codes[ExitCode(n)])
		}
	}
}

func TestWithCode(t *testing.T) {
	t.Parallel()
	if WithCode(ExitConfig, nil) != nil {
		t.Error("no error became one")
	}
	cause := errors.New("cause")
	err := fmt.Errorf("outer: %w", WithCode(ExitScheduler, cause))
	var c Coded
	if !errors.As(err, &c) || c.ExitCode() != ExitScheduler || !errors.Is(err, cause) || c.Error() != "cause" {
		t.Errorf("got %v", err)
	}
}
