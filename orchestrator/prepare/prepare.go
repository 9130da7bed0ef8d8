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
// sweep; without axes there is one. Mistakes of recipe and site are reported
// together.
func LoadAll(req Request) ([]*Prepared, error) {
	f, err := text("recipe", req.Recipe, req.RecipeText)
	if err != nil {
		return nil, err
	}
	variants, rerr := models.ExpandSweep(f.path, f.data, nil)
	site, sitePos, siteFile, serr := siteOf(req.Site, req.SiteText)
	if err := joinFields(rerr, serr); err != nil {
		return nil, hidden(err, plan.Inputs{SubmitEnv: req.Env, Env: req.Set})
	}
	cat, catFiles, err := Catalog(filepath.Dir(req.Site), append(append([]string(nil), site.Models.Catalog...), req.Catalog...))
	if err != nil {
		return nil, err
	}
	files := commits(append([]models.InputFile{f.record("recipe"), siteFile}, catFiles...))
	out := make([]*Prepared, 0, len(variants))
	var errs models.FieldErrors
	for _, v := range variants {
		p, err := build(req, f.path, v, site, sitePos, cat, files)
		if fe, ok := errors.AsType[models.FieldErrors](err); ok {
			errs = append(errs, fe...)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if err := errs.Sort().Quote(f.path, f.data).Err(); err != nil {
		return nil, hidden(err, plan.Inputs{Recipe: variants[0].Recipe, Site: site, SubmitEnv: req.Env, Env: req.Set})
	}
	return out, nil
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

func build(req Request, file string, v models.Variant, site *models.Site, sitePos models.Positions, cat *catalog.Catalog, files []models.InputFile) (*Prepared, error) {
	entry, err := cat.Lookup(v.Recipe.Model)
	if err != nil {
		at := v.Positions["model"]
		return nil, models.FieldErrors{{File: file, Line: at.Line, Col: at.Col, Path: "model", Msg: err.Error(),
			Hint: "`disagg models list` shows the catalog; a model of your own goes into a directory named in the site's models.catalog"}}
	}
	if req.Name != "" {
		v.Recipe.Name = req.Name + strings.TrimPrefix(v.Name, v.Base) // points keep their part
		if f := models.Formats()["name"]; f.Check(v.Recipe.Name) != nil {
			return nil, models.FieldErrors{{File: file, Path: "name", Msg: fmt.Sprintf("the name that was given in place of the recipe's makes %q, which is not %s", v.Recipe.Name, f.Doc), Hint: "give a shorter one"}}
		}
	}
	res, err := plan.Build(plan.Inputs{
		Recipe: v.Recipe, RecipePos: v.Positions, Site: site, SitePos: sitePos, Entry: entry,
		Launcher: req.Launcher, SubmitEnv: req.Env, Understood: req.Understood, Env: req.Set,
		Date: req.Now.UTC().Format(time.DateOnly), Tool: req.Tool, Files: files,
	})
	if err != nil {
		return nil, err
	}
	p := &Prepared{Plan: res.Plan, Secrets: res.Secrets, Site: site, Point: v.Point}
	return p, p.Reseal()
}

// joinFields puts the mistakes of several files into one error, so that a user
// sees all of them at once.
func joinFields(errs ...error) error {
	var all models.FieldErrors
	for _, err := range errs {
		if err == nil {
			continue
		}
		fe, ok := errors.AsType[models.FieldErrors](err)
		if !ok {
			return err
		}
		all = append(all, fe...)
	}
	return all.Sort().Err()
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
