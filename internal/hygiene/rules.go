// Package hygiene holds the rules of the house as data, and tests that hold the
// code to them. The same rules stand in .golangci.yml for editors; the test is
// what decides, because it needs nothing but the Go tool.
package hygiene

// Rule says which packages may import what.
type Rule struct {
	// Why is the sentence a developer gets when the rule is broken.
	Why string
	// Import is the import path, or a prefix ending in "/...".
	Import string
	// OnlyIn lists package directories (relative to the module; "x/..." for a
	// tree) that may have the import; everything else may not.
	OnlyIn []string
	// NotIn lists package directories that may not have it. Used when OnlyIn
	// is empty.
	NotIn []string
	// TestsToo applies the rule to _test.go files as well.
	TestsToo bool
}

// Module is the module path.
const Module = "github.com/disagg/disagg"

// pure packages: same inputs, same outputs, no world.
var pure = []string{
	"models/...", "orchestrator/plan", "orchestrator/signature",
	"preflight/checks", "preflight/parse", "slurm/hostlist", "slurm/render",
}

// Rules returns the import rules.
func Rules() []Rule {
	return []Rule{
		{Why: "only internal/procgroup spawns processes: it alone kills whole groups and never hangs on a grandchild", Import: "os/exec", OnlyIn: []string{"internal/procgroup", "internal/lab/...", "internal/e2e/..."}},
		{Why: "only deploy/ssh speaks SSH", Import: "golang.org/x/crypto/ssh/...", OnlyIn: []string{"deploy/ssh", "internal/lab/..."}},
		{Why: "only deploy/ssh copies files with scp", Import: "github.com/bramvdbogaerde/go-scp/...", OnlyIn: []string{"deploy/ssh"}, TestsToo: true},
		{Why: "YAML is read in one place, so that strictness and positions are the same everywhere", Import: "gopkg.in/yaml.v3", OnlyIn: []string{"models/internal/yamlx"}, TestsToo: true},
		{Why: "commands are built in cmd only", Import: "github.com/spf13/cobra", OnlyIn: []string{"cmd/..."}},
		{Why: "one YAML library: types of the two import paths do not meet", Import: "go.yaml.in/...", OnlyIn: []string{"nowhere"}, TestsToo: true},
		{Why: "wrap errors with fmt.Errorf and %w", Import: "github.com/pkg/errors", OnlyIn: []string{"nowhere"}, TestsToo: true},

		{Why: "pure packages start no process and open no file or connection", Import: "os", NotIn: pure},
		{Why: "pure packages open no connection", Import: "net", NotIn: pure},
		{Why: "pure packages open no connection", Import: "net/http", NotIn: pure},
		{Why: "pure packages do not log", Import: "go.uber.org/zap/...", NotIn: pure},
		{Why: "pure packages are not random: the same inputs give the same bytes", Import: "math/rand/...", NotIn: pure},

		{Why: "models is the leaf: it imports nothing else of ours", Import: Module + "/orchestrator/...", NotIn: []string{"models/...", "slurm/...", "preflight/...", "deploy/..."}},
		{Why: "models is the leaf", Import: Module + "/slurm/...", NotIn: []string{"models/...", "preflight/...", "deploy/..."}},
		{Why: "models is the leaf", Import: Module + "/preflight/...", NotIn: []string{"models/...", "slurm/...", "deploy/..."}},
		{Why: "models is the leaf", Import: Module + "/deploy/...", NotIn: []string{"models/...", "slurm/...", "preflight/..."}},
		{Why: "nothing imports cmd", Import: Module + "/cmd/...", OnlyIn: []string{"cmd/..."}},
		{Why: "the lab is for tests; only the demo, the benchmarks and lab commands may use it", Import: Module + "/internal/lab/...", OnlyIn: []string{"internal/lab/...", "internal/e2e/...", "internal/bench/...", "internal/faults/..."}},
	}
}

// Dependencies lists the modules that this module may require directly, each
// with the need it serves.
func Dependencies() map[string]string {
	return map[string]string{
		"github.com/spf13/cobra":                   "commands",
		"github.com/bramvdbogaerde/go-scp":         "copying the binary over ssh",
		"golang.org/x/crypto":                      "ssh",
		"gopkg.in/yaml.v3":                         "YAML nodes with positions",
		"go.uber.org/zap":                          "diagnostic log",
		"mvdan.cc/sh/v3":                           "bash quoting, and parsing generated scripts in tests",
		"golang.org/x/sync":                        "bounded fan-out",
		"golang.org/x/sys":                         "process and socket calls the syscall package lacks",
		"golang.org/x/term":                        "is it a terminal",
		"github.com/kevinburke/ssh_config":         "the user's ssh_config",
		"github.com/google/go-cmp":                 "differences in tests",
		"go.uber.org/goleak":                       "goroutine leaks in tests",
		"github.com/rogpeppe/go-internal":          "command-line tests and txtar",
		"github.com/santhosh-tekuri/jsonschema/v6": "examples against the published schema, in tests",
	}
}
