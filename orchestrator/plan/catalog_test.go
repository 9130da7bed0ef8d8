package plan

import (
	"testing"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

// TestEveryModelPlans: what the shipped catalog offers can be planned, on every
// engine, for every scenario and with every launcher, without anything meeting
// on a port or a GPU.
func TestEveryModelPlans(t *testing.T) {
	t.Parallel()
	c, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	base := inputs(t)
	planned := 0
	for _, model := range c.Names() {
		entry, err := c.Lookup(model)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range entry.Engines() {
			for _, scenario := range catalog.Scenarios() {
				for _, launcher := range []string{models.LauncherSlurm, models.LauncherLocal} {
					in := base
					in.Recipe, in.Site, in.Entry, in.Launcher = recipe(), site(), entry, launcher
					in.Recipe.Model, in.Recipe.Engine, in.Recipe.Scenario = model, name, scenario
					if launcher == models.LauncherLocal {
						in.Recipe.Prefill = &models.Role{Workers: 2, TP: 2}
						in.Recipe.Decode = &models.Role{Workers: 2, TP: 2}
					}
					r, err := Build(in)
					if err != nil {
						t.Errorf("%s on %s, %s, %s: %v", model, name, scenario, launcher, err)
						continue
					}
					planned++
					checkPlacement(t, r.Plan)
				}
			}
		}
	}
	if planned < 40 {
		t.Errorf("only %d combinations were planned", planned)
	}
}
