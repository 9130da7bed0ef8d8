package prepare

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
	"github.com/disagg/disagg/orchestrator/plan"
	"github.com/disagg/disagg/preflight"
)

// Request names what to prepare a run from.
type Request struct {
	Recipe string // path of the recipe file
	Site   string // path of the site file, as SiteFile found it
	// RecipeText and SiteText are the files' contents where there is no file;
	// the paths then only name them.
	RecipeText, SiteText []byte
	// Catalog are further catalog directories, over the site's.
	Catalog []string
	// Launcher is how agents will be started (models.Launcher*).
	Launcher string
	// Env is the submitting environment, NAME=value, for forwards.
	Env []string
	// Set are variables from the command line.
	Set []plan.Setting
	// Understood names variables that were turned into settings already.
	Understood []string
	// Name replaces the recipe's name when not empty.
	Name string
	// Tool is this binary's version; Now is the time of planning.
	Tool string
	Now  time.Time
}

// Prepared is a built plan with all that is needed to start it.
type Prepared struct {
	Plan *models.Plan
	// JSON are the canonical bytes of the plan and Hash their SHA-256.
	JSON []byte
	Hash string
	// Secrets are the values of secret variables; they are in no other place.
	Secrets map[string][]byte
	Site    *models.Site
	// Point are the sweep's values that made this recipe; empty without a sweep.
	Point []models.SweepValue
}

// Load reads the files and builds the plan of a recipe without axes. A recipe
// with axes is an error that says how many runs it is.
func Load(req Request) (*Prepared, error) {
	all, err := LoadAll(req)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, models.FieldErrors{{File: req.Recipe, Path: "sweep", Msg: fmt.Sprintf("the recipe is a sweep of %d runs; this command takes one run", len(all)),
			Hint: "use `disagg sweep`, or take the axes out"}}
	}
	return all[0], nil
}

// LoadAll reads the files and builds one plan for each point of the recipe's
// sweep; without axes there is one. Mistakes of recipe, site and catalog are
// reported together, those that are found while planning with those of reading;
// what only follows from another one is not.
func LoadAll(req Request) ([]*Prepared, error) {
	f, err := text("recipe", req.Recipe, req.RecipeText)
	if err != nil {
		return nil, err
	}
	variants, rerr := models.ReadSweep(f.path, f.data, nil)
	s, err := text("site", req.Site, req.SiteText)
	if err != nil {
		return nil, err
	}
	l := loading{req: req, recipe: f.path}
	var serr error
	l.site, l.sitePos, l.siteMistakes, serr = models.ReadSite(s.path, s.data)
	found := &mistakes{}
	found.add(rerr)
	found.add(serr)
	cat, catFiles, err := Catalog(filepath.Dir(req.Site), append(append([]string(nil), l.site.Models.Catalog...), req.Catalog...))
	if err != nil && !found.add(err) {
		if len(found.list) == 0 {
			return nil, err
		}
		found.list = append(found.list, models.FieldError{Msg: err.Error()})
	}
	// A site that does not say where its own models are may have the one that the
	// recipe names.
	if l.catalog = cat; err != nil || l.siteMistakes.At("models") {
		l.catalog = nil
	}
	l.files = commits(append([]models.InputFile{f.record("recipe"), s.record("site")}, catFiles...))
	out := make([]*Prepared, 0, len(variants))
	for _, v := range variants {
		p, err := l.build(v)
		if err != nil && !found.add(err) {
			return nil, err
		}
		out = append(out, p)
	}
	if err := found.list.Sort().Quote(f.path, f.data).Quote(s.path, s.data).Err(); err != nil {
		return nil, hidden(err, plan.Inputs{Recipe: variants[0].Recipe, Site: l.site, SubmitEnv: req.Env, Env: req.Set})
	}
	return out, nil
}

// mistakes are those of all files.
type mistakes struct{ list models.FieldErrors }

// add takes the mistakes of one file. It says false of an error that is none.
func (m *mistakes) add(err error) bool {
	fe, ok := errors.AsType[models.FieldErrors](err)
	m.list = append(m.list, fe...)
	return ok
}

// hidden takes secrets out of mistakes, which quote texts and lines of files.
func hidden(err error, in plan.Inputs) error {
	es, ok := errors.AsType[models.FieldErrors](err)
	if !ok {
		return err
	}
	red := plan.Redactor(in)
	for i := range es {
		es[i].Msg, es[i].Hint, es[i].Snippet = red.String(es[i].Msg), red.String(es[i].Hint), red.String(es[i].Snippet)
	}
	return es
}

// loading is what the plans of one request are made from.
type loading struct {
	req          Request
	recipe       string // path of the file
	site         *models.Site
	sitePos      models.Positions
	siteMistakes models.Mistakes
	catalog      *catalog.Catalog // nil: it is not known whole
	files        []models.InputFile
}

// build plans one point. With mistakes in the files there is no plan, and the
// error, if any, holds further ones.
func (l *loading) build(v models.Variant) (*Prepared, error) {
	found := &mistakes{}
	entry := l.lookup(v, found)
	if name := l.req.Name; name != "" {
		v.Recipe.Name = name + strings.TrimPrefix(v.Name, v.Base) // points keep their part
		if f := models.Formats()["name"]; f.Check(v.Recipe.Name) != nil {
			found.list = append(found.list, models.FieldError{File: l.recipe, Path: "name",
				Msg: fmt.Sprintf("the name that was given in place of the recipe's makes %q, which is not %s", v.Recipe.Name, f.Doc), Hint: "give a shorter one"})
		}
	}
	var names []string
	if l.catalog != nil {
		names = l.catalog.Names()
	}
	res, err := plan.Build(plan.Inputs{
		Recipe: v.Recipe, RecipePos: v.Positions, RecipeMistakes: v.Mistakes,
		Site: l.site, SitePos: l.sitePos, SiteMistakes: l.siteMistakes, Entry: entry, Checks: preflight.IDs(), Models: names,
		Launcher: l.req.Launcher, SubmitEnv: l.req.Env, Understood: l.req.Understood, Env: l.req.Set,
		Date: l.req.Now.UTC().Format(time.DateOnly), Tool: l.req.Tool, Files: l.files,
	})
	if err != nil && !found.add(err) {
		return nil, err
	}
	if res.Plan == nil || len(found.list) > 0 {
		return nil, found.list.Err()
	}
	p := &Prepared{Plan: res.Plan, Secrets: res.Secrets, Site: l.site, Point: v.Point}
	return p, p.Reseal()
}

// lookup finds the recipe's model, where the recipe names one and the catalog is
// known.
func (l *loading) lookup(v models.Variant, found *mistakes) *catalog.Entry {
	if l.catalog == nil || v.Mistakes.At("model") {
		return nil
	}
	entry, err := l.catalog.Lookup(v.Recipe.Model)
	if err != nil {
		at := v.Positions["model"]
		found.list = append(found.list, models.FieldError{File: l.recipe, Line: at.Line, Col: at.Col, Path: "model", Msg: err.Error(),
			Hint: "`disagg models list` shows the catalog; a model of your own goes into a directory named in the site's models.catalog"})
		return nil
	}
	return entry
}

// Reseal computes the plan's bytes and hash: once it is built, and again when it
// was changed before its run directory is made.
func (p *Prepared) Reseal() error {
	data, err := plan.Encode(p.Plan)
	if err != nil {
		return err
	}
	hash, err := plan.Hash(p.Plan)
	if err != nil {
		return err
	}
	p.JSON, p.Hash = data, hash
	return nil
}
