package receipts

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/models"
)

func TestJourneys(t *testing.T) {
	t.Parallel()
	env := []models.EnvVar{
		{Name: "HF_TOKEN", Secret: true, Origin: "forward"},
		{Name: "MORI_RDMA_TC", Value: "@{self.tc}", Expand: true, Origin: "adapter"},
		{Name: "NCCL_DEBUG", Value: "INFO", Origin: "recipe:r.yaml:3"},
		{Name: "NCCL_IB_HCA", Value: "@{self.rdma}", Expand: true, Origin: "adapter"},
		{Name: "SITE", Value: "site", Origin: "site:s.yaml:2"},
	}
	worker := func(id string, node int) models.Worker {
		return models.Worker{ID: id, Role: "decode", Ranks: []models.Process{{ID: id + ".0", Scope: "decode", Node: node, Env: env}}}
	}
	p := &models.Plan{
		Workers: []models.Worker{worker("decode-0", 0), worker("decode-1", 1), worker("decode-2", 2)},
		Router:  &models.Router{Process: models.Process{ID: "router", Scope: "router"}},
		Origins: []models.Origin{
			{Key: "env:decode:NCCL_DEBUG", Value: "INFO", From: "recipe:r.yaml:3", Over: []string{"catalog:c.yaml:1=WARN"}},
			{Key: "env:decode:HF_TOKEN", Value: "(secret)", From: "forward", Over: []string{"recipe:r.yaml:4=(secret)"}},
		},
	}
	text := func(s string) *Text { return NewText([]byte(s)) }
	vars := func(tc Var, debug Var) []Var {
		return []Var{
			{Name: "HF_TOKEN", State: AsPlanned, Origin: "forward", Secret: true, HMAC: "ab", Over: []State{FromImage}},
			{Name: "IMAGE_VAR", State: FromImage, Seen: text("x")},
			tc, debug,
			{Name: "NCCL_IB_HCA", State: AsPlanned, Origin: "adapter", Seen: text("rdma0")},
			{Name: "SITE", State: AsPlanned, Origin: "site:s.yaml:2", Seen: text("site")},
		}
	}
	records := []Record{
		{Process: "decode-0.0", Scope: "decode", Node: "n0", Vars: vars(
			Var{Name: "MORI_RDMA_TC", State: AsPlanned, Origin: "adapter", Seen: text("104")},
			Var{Name: "NCCL_DEBUG", State: AsPlanned, Origin: "recipe:r.yaml:3", Seen: text("INFO")})},
		{Process: "decode-1.0", Scope: "decode", Node: "n1", Vars: append(vars(
			Var{Name: "MORI_RDMA_TC", State: Unset, Origin: "adapter", Planned: text("@{self.tc}")},
			Var{Name: "NCCL_DEBUG", State: Changed, Origin: "recipe:r.yaml:3", Planned: text("INFO"), Seen: text("WARN")})[:5],
			Var{Name: "SITE", State: AsPlanned, Origin: "site profile n1", Seen: text("profile")},
			Var{Name: "PROFILE_ONLY", State: AsPlanned, Origin: "site profile n1", Seen: text("1")})},
		{Process: "router", Scope: "router", Node: "n0", Vars: []Var{{Name: "HTTP_PROXY", State: Extra, Seen: text("http://p")}}},
	}
	want := []Row{
		{Name: "HF_TOKEN", Scope: "decode", From: "forward", Over: []string{"recipe:r.yaml:4=(secret)", "the image's own value"}, Secret: true,
			State: AsPlanned, Processes: []string{"decode-0.0", "decode-1.0"}, Nodes: []string{"n0", "n1"}},
		{Name: "HF_TOKEN", Scope: "decode", From: "forward", Over: []string{"recipe:r.yaml:4=(secret)"}, Secret: true, State: NoReport, Processes: []string{"decode-2.0"}},
		{Name: "HTTP_PROXY", Scope: "router", State: Extra, Seen: text("http://p"), Processes: []string{"router"}, Nodes: []string{"n0"}},
		{Name: "MORI_RDMA_TC", Scope: "decode", From: "adapter", Planned: text("@{self.tc}"), State: AsPlanned, Seen: text("104"), Processes: []string{"decode-0.0"}, Nodes: []string{"n0"}},
		{Name: "MORI_RDMA_TC", Scope: "decode", From: "adapter", Planned: text("@{self.tc}"), State: Unset, Processes: []string{"decode-1.0"}, Nodes: []string{"n1"}},
		{Name: "MORI_RDMA_TC", Scope: "decode", From: "adapter", Planned: text("@{self.tc}"), State: NoReport, Processes: []string{"decode-2.0"}},
		{Name: "NCCL_DEBUG", Scope: "decode", From: "recipe:r.yaml:3", Over: []string{"catalog:c.yaml:1=WARN"}, Planned: text("INFO"), State: AsPlanned, Seen: text("INFO"), Processes: []string{"decode-0.0"}, Nodes: []string{"n0"}},
		{Name: "NCCL_DEBUG", Scope: "decode", From: "recipe:r.yaml:3", Over: []string{"catalog:c.yaml:1=WARN"}, Planned: text("INFO"), State: Changed, Seen: text("WARN"), Processes: []string{"decode-1.0"}, Nodes: []string{"n1"}},
		{Name: "NCCL_DEBUG", Scope: "decode", From: "recipe:r.yaml:3", Over: []string{"catalog:c.yaml:1=WARN"}, Planned: text("INFO"), State: NoReport, Processes: []string{"decode-2.0"}},
		{Name: "NCCL_IB_HCA", Scope: "decode", From: "adapter", Planned: text("@{self.rdma}"), State: AsPlanned, Seen: text("rdma0"), Processes: []string{"decode-0.0", "decode-1.0"}, Nodes: []string{"n0", "n1"}},
		{Name: "NCCL_IB_HCA", Scope: "decode", From: "adapter", Planned: text("@{self.rdma}"), State: NoReport, Processes: []string{"decode-2.0"}},
		{Name: "PROFILE_ONLY", Scope: "decode", From: "site profile n1", State: AsPlanned, Seen: text("1"), Processes: []string{"decode-1.0"}, Nodes: []string{"n1"}},
		{Name: "SITE", Scope: "decode", From: "site:s.yaml:2", Planned: text("site"), State: AsPlanned, Seen: text("site"), Processes: []string{"decode-0.0"}, Nodes: []string{"n0"}},
		{Name: "SITE", Scope: "decode", From: "site profile n1", Over: []string{"site:s.yaml:2=site"}, Planned: text("profile"), State: AsPlanned, Seen: text("profile"), Processes: []string{"decode-1.0"}, Nodes: []string{"n1"}},
		{Name: "SITE", Scope: "decode", From: "site:s.yaml:2", Planned: text("site"), State: NoReport, Processes: []string{"decode-2.0"}},
	}
	if d := cmp.Diff(want, Journeys(p, records, false)); d != "" {
		t.Error(d)
	}
	var images int
	for _, r := range Journeys(p, records, true) {
		if r.State == FromImage {
			images++
			if d := cmp.Diff(Row{Name: "IMAGE_VAR", Scope: "decode", State: FromImage, Seen: text("x"), Processes: []string{"decode-0.0", "decode-1.0"}, Nodes: []string{"n0", "n1"}}, r); d != "" {
				t.Error(d)
			}
		}
	}
	if images != 1 {
		t.Errorf("%d rows of the image", images)
	}
}

// TestJourneyOfAVariableThatIsNotOnRecord: a record without a planned variable is
// no pass.
func TestJourneyOfAVariableThatIsNotOnRecord(t *testing.T) {
	t.Parallel()
	p := &models.Plan{Router: &models.Router{Process: models.Process{ID: "router", Scope: "router", Env: []models.EnvVar{{Name: "A", Value: "1", Origin: "flag"}}}}}
	rows := Journeys(p, []Record{{Process: "router", Scope: "router", Node: "n"}}, false)
	if len(rows) != 1 || rows[0].State != Missing {
		t.Errorf("%+v", rows)
	}
}
