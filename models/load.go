package models

import (
	"errors"

	"github.com/disagg/disagg/models/internal/yamlx"
)

// LoadRecipe reads a recipe and puts the defaults in. The error is FieldErrors
// and holds every mistake of the file, also those that only a point of its
// sweep has; the recipe is nil then. Positions tell which values the file sets.
func LoadRecipe(file string, data []byte) (*Recipe, Positions, error) {
	doc := yamlx.Parse(file, data)
	r, axes, ok := readRecipe(doc, nil)
	if !ok {
		return nil, doc.Positions, doc.Err()
	}
	var errs FieldErrors
	if len(axes) > 0 {
		_, errs = expand(doc, r.Name, axes)
	}
	errs = append(errs, mistakes(doc)...)
	if err := errs.Sort().Err(); err != nil {
		return nil, doc.Positions, err
	}
	r.applyDefaults()
	return r, doc.Positions, nil
}

// readRecipe decodes and checks a document, which is swept over the given axes
// or, without any, over its own. It returns the axes that can be expanded, and
// false when the document is something else, so that there are no values to go
// on with.
func readRecipe(doc *yamlx.Document, given []SweepAxis) (*Recipe, []axis, bool) {
	if !doc.Header(APIVersion, KindRecipe) {
		return nil, nil, false
	}
	r := &Recipe{}
	doc.Decode(r)
	c := &recipeCheck{doc: doc, r: r}
	c.run(given)
	return r, c.axes, true
}

// LoadSite reads a site and puts the defaults in. The error is FieldErrors and
// holds every mistake of the file; the site is nil then.
func LoadSite(file string, data []byte) (*Site, Positions, error) {
	doc := yamlx.Parse(file, data)
	if !doc.Header(APIVersion, KindSite) {
		return nil, doc.Positions, doc.Err()
	}
	s := &Site{}
	doc.Decode(s)
	(&siteCheck{doc: doc, s: s}).run()
	if err := doc.Err(); err != nil {
		return nil, doc.Positions, err
	}
	s.applyDefaults()
	return s, doc.Positions, nil
}

func mistakes(doc *yamlx.Document) FieldErrors {
	errs, _ := errors.AsType[FieldErrors](doc.Err())
	return errs
}
