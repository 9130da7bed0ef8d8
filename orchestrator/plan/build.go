package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/models/engine"
	"github.com/disagg/disagg/models/env"
)

// Inputs is all that a plan depends on.
type Inputs struct {
	Recipe *models.Recipe
	// RecipePos are the places of the recipe's keys, for errors and origins.
	RecipePos models.Positions
	Site      *models.Site
	SitePos   models.Positions
	// RecipeMistakes and SiteMistakes are what is known to be wrong with the two.
	// The plan is then built only as far as it goes without what could not be
	// read, to find further mistakes; none of them is about these values.
	RecipeMistakes, SiteMistakes models.Mistakes
	// Entry is the catalog's knowledge of the recipe's model. Nil: it has none,
	// which is a mistake that the caller reports; as with the mistakes above, only
	// others are looked for.
	Entry *catalog.Entry
	// Models are the names in the catalog; empty: names are taken as they are.
	Models []string
	// Checks are the ids of all checks, of which files may waive some; empty:
	// waivers are taken as they are.
	Checks []string
	// Launcher is models.LauncherSlurm, LauncherSSH or LauncherLocal.
	Launcher string
	// SubmitEnv is the environment that is submitted from, as NAME=VALUE.
	SubmitEnv []string
	// Understood names variables of SubmitEnv that the caller has turned into
	// settings already (the old launcher's interface); there is no warning
	// that they are not forwarded.
	Understood []string
	// Env are variables from the command line; they win over everything.
	Env []Setting
	// Date is today, YYYY-MM-DD: exclusions that expire are compared with it.
	Date string
	// Tool is the version of the program.
	Tool string
	// Files are the inputs with their hashes, for the record.
	Files []models.InputFile
}

// Setting is one variable from the command line.
type Setting struct {
	// Scope is a scope of package env, or "" for every worker.
	Scope string
	Name  string
	Value string
}

// Result is what Build makes.
type Result struct {
	Plan *models.Plan
	// Secrets are the values of the plan's secret variables, by name. They are
	// in no other place.
	Secrets map[string][]byte
}

// Build makes the plan. The error is models.FieldErrors and holds every
// mistake that was found, but for those that the caller knows of: with these in
// the inputs there is no plan, error or not.
func Build(in Inputs) (Result, error) {
	b := &builder{
		in:     in,
		known:  env.Known(),
		plan:   &models.Plan{},
		submit: environment(in.SubmitEnv),
		result: map[string][]byte{},
	}
	b.build()
	if err := models.FieldErrors(b.errs).Sort().Err(); err != nil || !in.whole() {
		return Result{}, err
	}
	return Result{Plan: b.plan, Secrets: b.result}, nil
}

// whole says whether nothing is known to be wrong with the inputs.
func (in *Inputs) whole() bool {
	return in.Entry != nil && !in.RecipeMistakes.Any() && !in.SiteMistakes.Any()
}

// builder is one call of Build.
type builder struct {
	in      Inputs
	known   *env.Table
	submit  map[string]string
	plan    *models.Plan
	workers []models.Worker
	result  map[string][]byte // secrets
	errs    []models.FieldError
	origins []models.Origin
	// forwards are the variables that each list of the recipe forwards.
	forwards map[string][]models.EnvVar
	// clientEnv is what the engine wants clients to know.
	clientEnv []models.EnvVar
	// secrets are values that must appear nowhere; nil: not collected yet.
	secrets []string
	// excluded are the hosts not to use.
	excluded []string
	// worst is how long the run takes when every stage uses its whole budget.
	worst models.Duration
}

// build goes through the stages. Later ones need what earlier ones made, so a
// stage that failed ends the way when nothing sensible could follow; the checks
// of values go first, so that one run of the program shows as much as possible.
func (b *builder) build() {
	r, s, p := b.in.Recipe, b.in.Site, b.plan
	p.APIVersion, p.Tool = models.APIVersion, b.in.Tool
	p.Name, p.Site, p.Launcher, p.Engine = r.Name, s.Name, b.in.Launcher, r.Engine
	p.Scenario = or(r.Scenario, catalog.ScenarioFixed)
	p.Files = append([]models.InputFile{}, b.in.Files...)
	p.Allowed = r.Allow

	if len(r.Sweep) > 0 {
		b.fail("sweep", fmt.Sprintf("the recipe is a sweep over %s, and a plan is one run", plural(len(r.Sweep), "key")), "use disagg sweep, or take the axes out")
	}
	b.checkLauncher()
	b.checkNames()
	b.checkText()
	b.forward()
	b.checkLeaks()
	b.exclusions()
	b.runtime()
	b.budgets()
	b.slurmJob()
	b.model()
	b.checkWaivers()
	b.checkClients()
	if !b.sized() || !b.topology() || !b.composable() || !b.compose() {
		return
	}
	p.Slurm.Nodes = p.Topology.Nodes + p.Topology.Spares
	b.clients()
	b.finishEnv()
	b.checkPorts()
	b.checkArgv()
	b.settings()
	b.unforwarded()
	b.finishOrigins()
}

// sized says whether the recipe's roles and the site's nodes could be read, so
// that workers can be placed.
func (b *builder) sized() bool {
	for _, role := range []string{models.RolePrefill, models.RoleDecode, models.RoleAggregate} {
		for _, key := range []string{"workers", "nodes", "tp", "pp", "ep"} {
			if b.in.RecipeMistakes.At(role + "." + key) {
				return false
			}
		}
	}
	return !b.in.SiteMistakes.At("gpus_per_node")
}

// composable says whether the processes can be composed: what has a mistake, if
// anything, changes none of them.
func (b *builder) composable() bool {
	return b.in.Entry != nil &&
		b.in.RecipeMistakes.Only("name", "metrics", "preflight", "timeouts", "time_limit", "spares") &&
		b.in.SiteMistakes.Only("name", "preflight", "timeouts", "slurm", "exclude", "deaf", "ssh")
}

func (b *builder) checkLauncher() {
	known := []string{models.LauncherSlurm, models.LauncherSSH, models.LauncherLocal}
	if !slices.Contains(known, b.in.Launcher) {
		b.failHere(fmt.Sprintf("there is no launcher %q", b.in.Launcher), "launchers: "+strings.Join(known, ", "))
	}
	if fs := b.in.Site.SharedFS; b.in.Launcher == models.LauncherSlurm && fs != nil && !bool(*fs) {
		b.failSite("shared_fs", "Slurm starts the job's script and programs from runs_dir on every node, and shared_fs says that it is not the same there",
			"give a runs_dir that every node sees, or run with --launcher ssh, which copies what a node needs")
	}
}

// compose asks the engine's adapter for the processes.
func (b *builder) compose() bool {
	in := engine.Input{
		Recipe: b.in.Recipe, Site: b.in.Site, Entry: b.in.Entry, Layout: b.workers,
		Launcher: b.in.Launcher, ModelPath: b.plan.Model.Path, Where: b.where,
	}
	out, errs := engine.Compose(in)
	for _, e := range errs {
		if e.File != "" || !b.in.RecipeMistakes.At(e.Path) {
			b.errs = append(b.errs, b.placed(e))
		}
	}
	if len(errs) > 0 {
		return false
	}
	b.plan.Workers, b.plan.Services, b.plan.Router = out.Workers, out.Services, out.Router
	b.plan.Model.Name = out.ModelName
	b.origins = append(b.origins, out.Origins...)
	b.plan.Warnings = append(b.plan.Warnings, out.Warnings...)
	b.clientEnv = out.ClientEnv
	b.check(in)
	return true
}

// fail reports a mistake at a key of the recipe.
func (b *builder) fail(path, msg, hint string) {
	if !b.in.RecipeMistakes.At(path) {
		b.failAt(b.in.RecipePos, path, msg, hint)
	}
}

// failHere reports a mistake that is in no file: the command line's, or one of
// several documents together.
func (b *builder) failHere(msg, hint string) {
	b.errs = append(b.errs, models.FieldError{Msg: msg, Hint: hint})
}

// failSite reports a mistake at a key of the site.
func (b *builder) failSite(path, msg, hint string) {
	if !b.in.SiteMistakes.At(path) {
		b.failAt(b.in.SitePos, path, msg, hint)
	}
}

func (b *builder) failAt(pos models.Positions, path, msg, hint string) {
	at := pos.Near(path)
	b.errs = append(b.errs, models.FieldError{File: at.File, Line: at.Line, Col: at.Col, Path: path, Msg: msg, Hint: hint})
}

// placed gives a mistake that names a key of the recipe its place.
func (b *builder) placed(e models.FieldError) models.FieldError {
	if e.File == "" {
		at := b.in.RecipePos.Near(e.Path)
		e.File, e.Line, e.Col = at.File, at.Line, at.Col
	}
	return e
}

// warn adds a warning to the plan.
func (b *builder) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.plan.Warnings, text) {
		b.plan.Warnings = append(b.plan.Warnings, text)
	}
}

// where says where a key of a document is set, as models.Origin.From; "" when
// the document does not set it.
func (b *builder) where(document, key string) string {
	pos := b.in.RecipePos
	if document == "site" {
		pos = b.in.SitePos
	}
	if !pos.Has(key) {
		return ""
	}
	return fmt.Sprintf("%s:%s:%d", document, pos[key].File, pos[key].Line)
}

// or returns the first value that is not zero.
func or[T comparable](values ...T) T {
	var zero T
	for _, v := range values {
		if v != zero {
			return v
		}
	}
	return zero
}
