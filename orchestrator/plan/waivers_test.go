package plan

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
)

// TestWaivers: a waiver of no check is refused at its key, and one that is right
// has the place of its line as its origin.
func TestWaivers(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	in.Checks = []string{"host.nofile", "rdma.pfc"}
	parse(t, &in, with(recipeText, "preflight:", "  waive:", "    host.nofle: lab", "    rdma.pfc: lab"), with(siteText, "preflight: {waive: {gpu.none: lab}}"))
	_, err := Build(in)
	want := []string{`there is no check "host.nofle" to waive; did you mean host.nofile?`, `there is no check "gpu.none" to waive`}
	if d := cmp.Diff(want, messages(err)); d != "" {
		t.Error(d)
	}
	var es models.FieldErrors
	if !errors.As(err, &es) || len(es) != 2 || es[0].Line != 16 || es[0].Col != 5 || es[1].File != "site.yaml" || es[1].Line != 8 || es[1].Col != 21 {
		t.Errorf("places %+v", es)
	}

	delete(in.Recipe.Preflight.Waive, "host.nofle")
	delete(in.Site.Preflight.Waive, "gpu.none")
	from := ""
	for _, o := range build(t, in).Plan.Origins {
		if o.Key == "preflight.waive.rdma.pfc" {
			from = o.From
		}
	}
	if from != "recipe:recipe.yaml:17" {
		t.Errorf("the waiver comes from %q", from)
	}
}
