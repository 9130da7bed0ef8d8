package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	engines "github.com/disagg/disagg/models/engine"
	"github.com/disagg/disagg/orchestrator/plan"
	"github.com/disagg/disagg/orchestrator/prepare"
	"github.com/spf13/cobra"
)

func newModels(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models of the catalog, show what one runs with, check a catalog file",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newModelsList(a), newModelsShow(a), newModelsVerify(a))
	return cmd
}

// shelf is the flags that say which catalog to look at.
type shelf struct {
	site    string
	catalog []string
}

func (s *shelf) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.site, "site", "", "site file, whose catalog directories count (default as for plan; none is needed)")
	cmd.Flags().StringArrayVar(&s.catalog, "catalog", nil, "directory with catalog files over the site's; may be given again")
	_ = cmd.MarkFlagFilename("site", "yaml", "yml")
	_ = cmd.MarkFlagDirname("catalog")
}

// open reads the catalog. The path of the site file is empty when there is none,
// which is no mistake here.
func (s *shelf) open(a *app) (*catalog.Catalog, string, error) {
	path, _, err := prepare.SiteFile(a.path(s.site), a.getenv)
	if errors.Is(err, prepare.ErrNoSite) {
		path, err = "", nil
	}
	if err != nil {
		return nil, "", err
	}
	var dirs []string
	if path != "" {
		site, _, _, err := prepare.Site(path)
		if err != nil {
			return nil, "", err
		}
		dirs = site.Models.Catalog
	}
	own := make([]string, len(s.catalog))
	for i, d := range s.catalog {
		if own[i], err = filepath.Abs(a.path(d)); err != nil {
			return nil, "", err
		}
	}
	cat, _, err := prepare.Catalog(filepath.Dir(path), append(slices.Clone(dirs), own...))
	return cat, path, err
}

// listed is one model as `models list` prints it.
type listed struct {
	Name          string            `json:"name"`
	Engines       []string          `json:"engines"`
	Speculative   map[string]string `json:"speculative"` // engine → algorithm
	Attention     string            `json:"attention,omitempty"`
	ContextLength int               `json:"context_length,omitempty"`
	VRAMGB        int               `json:"vram_gb,omitempty"`
	Dirs          []string          `json:"dirs"`
	File          string            `json:"file"`
}

func newModelsList(a *app) *cobra.Command {
	var s shelf
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the models that recipes can name",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cat, _, err := s.open(a)
			if err != nil {
				return err
			}
			var list []listed
			for _, name := range cat.Names() {
				e, err := cat.Lookup(name)
				if err != nil {
					return err
				}
				m := listed{Name: name, Engines: e.Engines(), Speculative: map[string]string{}, Attention: e.Limits.Attention,
					ContextLength: e.Limits.ContextLength, VRAMGB: e.Limits.VRAMGB, Dirs: e.Dirs, File: e.File}
				for _, engine := range m.Engines {
					if sp, _ := e.Speculative(engine); sp != nil {
						m.Speculative[engine] = sp.Algorithm
					}
				}
				list = append(list, m)
			}
			if a.json() {
				return a.printJSON(list)
			}
			w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "MODEL\tENGINES\tMTP\tATTENTION\tCONTEXT\tFILE")
			for _, m := range list {
				var mtp []string
				for _, engine := range m.Engines {
					if algorithm := m.Speculative[engine]; algorithm != "" {
						mtp = append(mtp, engine+":"+algorithm)
					}
				}
				length := ""
				if m.ContextLength > 0 {
					length = strconv.Itoa(m.ContextLength)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, strings.Join(m.Engines, " "), dash(strings.Join(mtp, " ")), dash(m.Attention), dash(length), m.File)
			}
			return w.Flush()
		},
	}
	s.flags(cmd)
	return cmd
}

// dash stands where nothing is known.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// shape is the flags that say how a model is to be run.
type shape struct {
	engine, scenario    string
	prefill, decode     side
	aggregate, dp       bool
	mtp, concurrency    int
	offload, l3, evals  bool
	transfer, routeKind string
}

// side is the workers of one role.
type side struct{ workers, tp, ep, pp int }

func (s *shape) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.engine, "engine", "", "engine (default: the first of "+strings.Join(engines.Names(), ", ")+" that the model has settings for)")
	f.Var(newEnum(&s.scenario, models.ScenarioFixed, models.ScenarioAgentic), "scenario", "where the lengths of requests come from")
	f.IntVar(&s.prefill.tp, "tp", 8, "tensor parallel size of every worker")
	f.IntVar(&s.decode.tp, "decode-tp", 0, "tensor parallel size of decode workers, where it differs")
	f.IntVar(&s.prefill.workers, "prefill-workers", 1, "prefill workers")
	f.IntVar(&s.decode.workers, "decode-workers", 1, "decode workers")
	f.IntVar(&s.prefill.ep, "ep", 1, "expert parallel size of every worker; 1: off")
	f.IntVar(&s.prefill.pp, "pp", 1, "pipeline parallel size of every worker")
	f.BoolVar(&s.dp, "dp-attention", false, "data-parallel attention in every worker")
	f.BoolVar(&s.aggregate, "aggregate", false, "one worker that does prefill and decode, instead of one each")
	f.IntVar(&s.mtp, "mtp", 0, "speculative depth")
	f.IntVar(&s.concurrency, "concurrency", 64, "requests in flight")
	f.BoolVar(&s.offload, "offload", false, "KV tier in host memory")
	f.BoolVar(&s.l3, "store", false, "and a Mooncake store behind it")
	f.BoolVar(&s.evals, "evals", false, "an evaluation will ask for right answers")
	f.StringVar(&s.transfer, "transfer", "", "KV transfer backend instead of the catalog's")
	f.StringVar(&s.routeKind, "router", "", "kind of router instead of the engine's own")
}

// recipe makes the recipe of a model run in that shape.
func (s *shape) recipe(model, engine string) *models.Recipe {
	role := func(workers, tp int) *models.Role {
		r := &models.Role{Workers: workers, TP: tp, DPAttention: models.Bool(s.dp)}
		if s.prefill.ep > 1 {
			r.EP = s.prefill.ep
		}
		if s.prefill.pp > 1 {
			r.PP = s.prefill.pp
		}
		return r
	}
	r := &models.Recipe{APIVersion: models.APIVersion, Kind: models.KindRecipe, Name: "show", Model: model, Engine: engine, Scenario: s.scenario, Image: "IMAGE",
		Transfer: s.transfer, Client: &models.ClientSpec{Command: []string{"client"}, Concurrency: models.IntList{s.concurrency}}}
	if s.aggregate {
		r.Aggregate = role(s.prefill.workers, s.prefill.tp)
	} else {
		tp := s.prefill.tp
		if s.decode.tp > 0 {
			tp = s.decode.tp
		}
		r.Prefill, r.Decode = role(s.prefill.workers, s.prefill.tp), role(s.decode.workers, tp)
		if r.Decode.EP > 1 {
			r.Decode.EP = min(r.Decode.EP, tp)
		}
	}
	if s.mtp > 0 {
		r.Speculative = &models.Speculative{Tokens: s.mtp}
	}
	if s.offload || s.l3 {
		r.KVOffload = &models.KVOffload{Backend: "hicache"}
		if s.l3 {
			r.KVOffload.Tier, r.KVOffload.Storage = "L3", "mooncake"
		}
	}
	if s.evals {
		r.Evals = &models.EvalSpec{Command: []string{"eval"}}
	}
	if s.routeKind != "" {
		r.Router = &models.RouterSpec{Kind: s.routeKind}
	}
	return r
}

func newModelsShow(a *app) *cobra.Command {
	var s shelf
	var in shape
	cmd := &cobra.Command{
		Use:   "show MODEL",
		Short: "Show the flags and variables that a model runs with, and where each comes from",
		Long: `Show the flags and variables of every role of a model, as a plan would have
them for the given shape, with the place in the catalog that each comes from.
What a run's own recipe and site add is shown by disagg plan --explain.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("name one model, got %d arguments; `disagg models list` lists them", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cat, path, err := s.open(a)
			if err != nil {
				return err
			}
			entry, err := cat.Lookup(args[0])
			if err != nil {
				return models.FieldErrors{{Msg: err.Error()}}
			}
			engine := in.engine
			if engine == "" {
				engine = engines.Names()[max(0, slices.IndexFunc(engines.Names(), entry.Has))]
			}
			p, err := a.composed(entry, in.recipe(entry.Name, engine), path)
			if err != nil {
				return err
			}
			return a.printModel(p)
		},
	}
	s.flags(cmd)
	in.flags(cmd)
	return cmd
}

// composed plans a recipe on the given site, or on one that says nothing.
func (a *app) composed(entry *catalog.Entry, r *models.Recipe, sitePath string) (*models.Plan, error) {
	site, pos := &models.Site{Name: "none", GPUsPerNode: 8}, models.Positions{}
	if sitePath != "" {
		var err error
		if site, pos, _, err = prepare.Site(sitePath); err != nil {
			return nil, err
		}
	}
	if len(site.Models.SearchPaths) == 0 {
		site.Models.SearchPaths = []string{"/models"}
	}
	res, err := plan.Build(plan.Inputs{Recipe: r, RecipePos: models.Positions{}, Site: site, SitePos: pos, Entry: entry, Launcher: models.LauncherSlurm,
		Date: a.Now().UTC().Format("2006-01-02"), Tool: Version()})
	if err != nil {
		return nil, err
	}
	return res.Plan, nil
}

// printModel prints flags and variables by role.
func (a *app) printModel(p *models.Plan) error {
	var rows []plan.Row
	for _, r := range plan.Explain(p) {
		if strings.HasPrefix(r.Key, "flag:") || strings.HasPrefix(r.Key, "env:") {
			rows = append(rows, r)
		}
	}
	if a.json() {
		return a.printJSON(struct {
			Model    string     `json:"model"`
			Engine   string     `json:"engine"`
			Scenario string     `json:"scenario"`
			Rows     []plan.Row `json:"settings"`
			Warnings []string   `json:"warnings,omitempty"`
		}{p.Model.Key, p.Engine, p.Scenario, rows, p.Warnings})
	}
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "%s on %s, scenario %s\n", p.Model.Key, p.Engine, p.Scenario)
	for _, role := range []string{models.RolePrefill, models.RoleDecode, models.RoleAggregate, "router", "service", "client"} {
		first := true
		for _, kind := range []string{"flag", "env"} {
			for _, r := range rows {
				name, ok := strings.CutPrefix(r.Key, kind+":"+role+":")
				if !ok {
					continue
				}
				if first {
					fmt.Fprintf(w, "\n%s\n", strings.ToUpper(role))
					first = false
				}
				text := name + " " + printable(r.Value)
				if kind == "env" {
					text = name + "=" + printable(r.Value)
				}
				// What says where stands last: values may be long.
				fmt.Fprintf(w, "  %s\t%s\n", cut(text, 90), r.From)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.warn(p)
	return nil
}

func newModelsVerify(a *app) *cobra.Command {
	var s shelf
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Check catalog files of your own",
		Long: `Read catalog files over the catalog, report every mistake with its place, and
compose each of their models on each engine and in each scenario, so that a
formula without a value is found here and not when a run is planned.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name at least one catalog file")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cat, _, err := s.open(a)
			if err != nil {
				return err
			}
			var files []catalog.File
			for _, path := range args {
				data, err := prepare.Read("catalog", a.path(path))
				if err != nil {
					return err
				}
				files = append(files, catalog.File{Path: path, Data: data})
			}
			next, err := cat.With(files)
			if err != nil {
				return err
			}
			return a.tryModels(next, args)
		},
	}
	s.flags(cmd)
	return cmd
}

// tryModels composes the models of some files in every mode that their engine
// has.
func (a *app) tryModels(cat *catalog.Catalog, files []string) error {
	var errs models.FieldErrors
	for _, name := range cat.Names() {
		e, err := cat.Lookup(name)
		if err != nil {
			return err
		}
		if !slices.Contains(files, e.File) {
			continue
		}
		tried := 0
		for _, engine := range e.Engines() {
			for _, in := range modesOf(e, engine) {
				tried++
				r := in.recipe(name, engine)
				r.Allow = map[string]string{}
				for _, rule := range engines.Rules() {
					// A mode that the model is not for is no mistake of its file.
					r.Allow[rule] = "tried by models verify"
				}
				_, err := a.composed(e, r, "")
				fe, ok := errors.AsType[models.FieldErrors](err)
				if err != nil && !ok {
					return err
				}
				for _, f := range fe {
					errs = append(errs, models.FieldError{File: e.File, Path: f.Path, Hint: f.Hint,
						Msg: fmt.Sprintf("%s on %s (%s): %s", name, engine, in, f.Msg)})
				}
			}
		}
		if !a.json() {
			fmt.Fprintf(a.Out, "%s: %s on %s, composed in %d ways\n", e.File, name, strings.Join(e.Engines(), " "), tried)
		}
	}
	return errs.Sort().Err()
}

// modesOf lists the shapes that tell a model's settings apart: both scenarios,
// the ways to share work that the engine has, and speculation where the model
// has it.
func modesOf(e *catalog.Entry, engine string) []shape {
	depths := []int{0}
	if sp, _ := e.Speculative(engine); sp != nil {
		depths = append(depths, 3)
	}
	var out []shape
	for _, scenario := range []string{models.ScenarioFixed, models.ScenarioAgentic} {
		for _, depth := range depths {
			for _, ep := range []int{1, 8} {
				for _, dp := range []bool{false, true} {
					if dp && engine == "vllm" {
						continue // it has no data-parallel attention here
					}
					out = append(out, shape{scenario: scenario, mtp: depth, concurrency: 64, dp: dp,
						prefill: side{workers: 1, tp: 8, ep: ep}, decode: side{workers: 1}})
				}
			}
		}
	}
	return out
}

// String says what a shape is, for messages.
func (s shape) String() string {
	text := fmt.Sprintf("%s, tp %d", s.scenario, s.prefill.tp)
	if s.prefill.ep > 1 {
		text += fmt.Sprintf(", ep %d", s.prefill.ep)
	}
	if s.dp {
		text += ", dp attention"
	}
	if s.mtp > 0 {
		text += fmt.Sprintf(", mtp %d", s.mtp)
	}
	return text
}
