package plan

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/disagg/disagg/models"
)

// Table writes a plan for people: what runs, the node → role → worker → rank →
// GPU table, the processes beside the workers, the budgets, what is excluded
// and the warnings.
func Table(p *models.Plan) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	line := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) } // a Builder never fails

	line("run", p.Name)
	line("model", fmt.Sprintf("%s (%s, %s)", p.Model.Key, p.Engine, p.Scenario))
	line("weights", fmt.Sprintf("%s, seen as %s", or(strings.Join(p.Model.HostPaths, " or "), "downloaded by the engine"), p.Model.Path))
	line("site", fmt.Sprintf("%s, launcher %s, containers: %s", p.Site, p.Launcher, p.Runtime.Kind))
	line("nodes", nodesLine(p))
	line("workers", workersLine(p))
	line("router", routerLine(p))
	line("client", clientLine(p))
	line("time limit", short(p.Slurm.TimeLimit)+"; "+budgetLine(p))
	line("exclusions", excludeLine(p))
	_ = w.Flush()

	b.WriteString("\n")
	w = tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	line("NODE", "ROLE", "WORKER", "RANK", "GPUS", "PORTS")
	last := -1
	for _, row := range p.Topology.Table {
		node := strconv.Itoa(row.Node)
		if row.Node == last {
			node = ""
		}
		last = row.Node
		line(node, row.Role, row.Worker, strconv.Itoa(row.Rank), ranges(row.GPUs), portsOf(p, row))
	}
	for _, s := range p.Services {
		line(strconv.Itoa(s.Node), s.Scope, s.ID, "", "", portList(s.Ports))
	}
	if p.Router != nil {
		line(strconv.Itoa(p.Router.Node), p.Router.Scope, p.Router.ID, "", "", portList(p.Router.Ports))
	}
	_ = w.Flush()

	for _, text := range p.Warnings {
		b.WriteString("\nwarning: " + text)
	}
	if len(p.Warnings) > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

func nodesLine(p *models.Plan) string {
	s := fmt.Sprintf("%d of %s each", p.Topology.Nodes, gpus(p.Topology.GPUsPerNode))
	if p.Topology.Spares > 0 {
		s += fmt.Sprintf(", and %d spare", p.Topology.Spares)
	}
	return s
}

// workersLine folds workers of one shape: "2 prefill TP8, 1 decode TP16 EP16 DP16".
func workersLine(p *models.Plan) string {
	var shapes []string
	count := map[string]int{}
	for _, w := range p.Workers {
		s := fmt.Sprintf("%s TP%d", w.Role, w.TP)
		for _, x := range []struct {
			name string
			n    int
		}{{"PP", w.PP}, {"EP", w.EP}, {"DP", w.DP}} {
			if x.n > 1 {
				s += fmt.Sprintf(" %s%d", x.name, x.n)
			}
		}
		if w.MTP > 0 {
			s += fmt.Sprintf(" MTP%d", w.MTP)
		}
		if w.Restarts > 0 {
			s += fmt.Sprintf(" (restarts: %d)", w.Restarts)
		}
		if count[s] == 0 {
			shapes = append(shapes, s)
		}
		count[s]++
	}
	for i, s := range shapes {
		shapes[i] = fmt.Sprintf("%d %s", count[s], s)
	}
	return strings.Join(shapes, ", ")
}

func routerLine(p *models.Plan) string {
	if p.Router == nil {
		return "none"
	}
	return fmt.Sprintf("%s on plan node %d, port %d", p.Router.Kind, p.Router.Node, p.Router.Port)
}

func clientLine(p *models.Plan) string {
	var parts []string
	if p.Client != nil {
		list := make([]string, len(p.Client.Points))
		for i, x := range p.Client.Points {
			list[i] = strconv.Itoa(x.Concurrency)
		}
		s := "concurrency " + strings.Join(list, ", ")
		if p.Client.ISL > 0 || p.Client.OSL > 0 {
			s += fmt.Sprintf(", %d tokens in, %d out", p.Client.ISL, p.Client.OSL)
		}
		parts = append(parts, s)
	}
	if p.Eval != nil {
		parts = append(parts, "evaluation")
	}
	if len(parts) == 0 {
		return "none: serves until stopped"
	}
	return strings.Join(parts, "; then ")
}

func budgetLine(p *models.Plan) string {
	x := p.Budgets
	s := fmt.Sprintf("worker start %s (%s without progress)", short(x.WorkerMax), short(x.Worker))
	if p.Client != nil {
		s += fmt.Sprintf(", a client point %s", short(x.Client))
	}
	return s
}

// short writes a span without zero parts: 1h, 15m, 90s.
func short(d models.Duration) string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func excludeLine(p *models.Plan) string {
	if len(p.Exclude) == 0 {
		return "none"
	}
	var parts []string
	for _, o := range p.Origins {
		if strings.HasPrefix(o.Key, "exclude[") {
			parts = append(parts, fmt.Sprintf("%s, %s", o.Value, o.From))
		}
	}
	return strings.Join(parts, "; ")
}

func portsOf(p *models.Plan, row models.TopologyRow) string {
	for _, w := range p.Workers {
		if w.ID == row.Worker && row.Rank < len(w.Ranks) {
			return portList(w.Ranks[row.Rank].Ports)
		}
	}
	return ""
}

func portList(ports []models.Port) string {
	out := make([]string, len(ports))
	for i, q := range ports {
		out[i] = fmt.Sprintf("%s %d", q.Name, q.Number)
	}
	return strings.Join(out, ", ")
}

// ranges writes sorted numbers with runs folded: "0-3,6".
func ranges(list []int) string {
	var out []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if j == i {
			out = append(out, strconv.Itoa(list[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", list[i], list[j]))
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}
