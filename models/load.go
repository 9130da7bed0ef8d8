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
	s, pos, _, err := ReadSite(file, data)
	if err != nil {
		return nil, pos, err
	}
	return s, pos, nil
}

// ReadSite is LoadSite for those who look for further mistakes: the site is there
// in any case, with what could be read.
func ReadSite(file string, data []byte) (*Site, Positions, Mistakes, error) {
	doc := yamlx.Parse(file, data)
	s := &Site{}
	if doc.Header(APIVersion, KindSite) {
		doc.Decode(s)
		(&siteCheck{doc: doc, s: s}).run()
	} else {
		doc.Excuse("")
	}
	s.applyDefaults()
	return s, doc.Positions, Mistakes{doc}, doc.Err()
}

func mistakes(doc *yamlx.Document) FieldErrors {
	errs, _ := errors.AsType[FieldErrors](doc.Err())
	return errs
}
