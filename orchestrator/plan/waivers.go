package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/disagg/disagg/models"
)

// checkWaivers refuses waivers of checks that do not exist: they would waive
// nothing, and the check that was meant would stop the run.
func (b *builder) checkWaivers() {
	if len(b.in.Checks) == 0 {
		return
	}
	for _, of := range []struct {
		waive map[string]string
		pos   models.Positions
		wrong models.Mistakes
	}{
		{b.in.Recipe.Preflight.Waive, b.in.RecipePos, b.in.RecipeMistakes},
		{b.in.Site.Preflight.Waive, b.in.SitePos, b.in.SiteMistakes},
	} {
		for _, id := range slices.Sorted(maps.Keys(of.waive)) {
			path := waiverKey(id)
			if slices.Contains(b.in.Checks, id) || of.wrong.At(path) {
				continue
			}
			msg := fmt.Sprintf("there is no check %q to waive", id)
			if near := models.Nearest(id, b.in.Checks); near != "" {
				msg += fmt.Sprintf("; did you mean %s?", near)
			}
			at := of.pos.Near(path)
			if at.KeyLine > 0 {
				at.Line, at.Col = at.KeyLine, at.KeyCol
			}
			b.errs = append(b.errs, models.FieldError{File: at.File, Line: at.Line, Col: at.Col, Path: path, Msg: msg,
				Hint: "`disagg preflight explain` lists the checks"})
		}
	}
}

// waiverKey is the key path of a waiver.
func waiverKey(id string) string { return models.KeyPath("preflight.waive", id) }
