package engine_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/engine"
)

// facts are what is known of the nodes of a record.
type facts struct {
	fixture
	site *models.Site
	// addrs are the nodes' addresses in rank order, as the scheduler gave them.
	addrs []string
	// image is what stands for the image's own variables.
	image map[string]string
}

func (f facts) name(node int) string {
	if node < len(f.Nodes) {
		return f.Nodes[node].Name
	}
	return fmt.Sprintf("mia1-p01-g%02d", node+1)
}

func (f facts) addr(node int) string {
	if node < len(f.addrs) && f.addrs[node] != "" {
		return f.addrs[node]
	}
	if node < len(f.Nodes) && f.Nodes[node].IP != "" {
		return f.Nodes[node].IP
	}
	return fmt.Sprintf("10.24.112.%d", 101+node)
}

// rdma returns the RDMA devices of a node.
func (f facts) rdma() []string {
	if len(f.site.RDMA.Devices) > 0 {
		return f.site.RDMA.Devices
	}
	if f.IBV != nil {
		return f.IBV
	}
	return []string{"rdma0", "rdma1", "rdma2", "rdma3", "rdma4", "rdma5", "rdma6", "rdma7"}
}

// noNICCtl says whether a node has no tool that tells its QoS settings.
func (f facts) noNICCtl(node int) bool {
	if node < len(f.Nodes) && f.Nodes[node].NICCtl != nil {
		return !*f.Nodes[node].NICCtl
	}
	return f.NICCtl != nil && !*f.NICCtl
}

var (
	noDropForm = regexp.MustCompile(`PFC no-drop priorities\s*:\s*(.*)`)
	dscpForm   = regexp.MustCompile(`DSCP\s*:\s*([0-9, -]+?)\s*==>\s*priority\s*:\s*([0-9]+)`)
	digits     = regexp.MustCompile(`[0-9]+`)
)

// qos returns traffic class and service level of a node: of the first priority
// without drops, and of the first DSCP that has it. Empty: not known.
func (f facts) qos(node int) (tc, sl string) {
	text := "DSCP : 26 ==> priority : 3\nPFC no-drop priorities : 3\n"
	if f.QoS != nil {
		text = *f.QoS
	}
	if f.noNICCtl(node) {
		text = ""
	}
	if m := noDropForm.FindStringSubmatch(text); m != nil {
		if prio := digits.FindString(m[1]); prio != "" {
			for _, d := range dscpForm.FindAllStringSubmatch(text, -1) {
				if d[2] == prio {
					dscp, _ := strconv.Atoi(digits.FindString(d[1]))
					tc, sl = strconv.Itoa(4*dscp), prio
					break
				}
			}
		}
	}
	if f.site.RDMA.TrafficClass != nil {
		tc = strconv.Itoa(*f.site.RDMA.TrafficClass)
	}
	return tc, sl
}

var placeholder = regexp.MustCompile(`@\{([^}]*)\}`)

// expand resolves the placeholders of a text on a node. It returns false when
// a fact is not known there.
func (f facts) expand(t *testing.T, text string, node int) (string, bool) {
	t.Helper()
	known := true
	out := placeholder.ReplaceAllStringFunc(text, func(p string) string {
		v := ""
		switch what := p[2 : len(p)-1]; {
		case what == "self.addr":
			v = f.addr(node)
		case what == "self.name":
			v = f.name(node)
		case what == "self.if":
			v = "eno0"
			if f.IfName != "" {
				v = f.IfName
			}
		case what == "self.rdma":
			v = strings.Join(f.rdma(), ",")
		case what == "self.rdma.0":
			if d := f.rdma(); len(d) > 0 {
				v = d[0]
			}
		case what == "self.tc":
			v, _ = f.qos(node)
		case what == "self.sl":
			_, v = f.qos(node)
		default:
			var n int
			var field string
			if _, err := fmt.Sscanf(strings.ReplaceAll(what, ".", " "), "node %d %s", &n, &field); err != nil {
				t.Fatalf("placeholder %s is not known", p)
			}
			v = map[string]string{"addr": f.addr(n), "name": f.name(n)}[field]
		}
		known = known && v != ""
		return v
	})
	return out, known
}

// resolve makes of a composed process what would run on its node.
func (f facts) resolve(t *testing.T, p models.Process, role string) process {
	t.Helper()
	out := process{role: role, env: map[string]string{}}
	for _, a := range p.Argv {
		text, _ := f.expand(t, a, p.Node)
		out.argv = append(out.argv, text)
	}
	for _, v := range p.Env {
		text, known := v.Value, true
		if v.Expand {
			text, known = f.expand(t, v.Value, p.Node)
		}
		if image := f.image[v.Name]; v.Prepend && image != "" {
			text += ":" + image
		}
		if known {
			out.env[v.Name] = text
		}
	}
	return out
}

// composed returns the processes of an output by the names that records use.
func (f facts) composed(t *testing.T, out engine.Output) map[string]process {
	t.Helper()
	all := map[string]process{}
	for _, w := range out.Workers {
		for _, p := range w.Ranks {
			all[fmt.Sprintf("rank%d", p.Node)] = f.resolve(t, p, w.Role)
		}
	}
	if out.Router != nil {
		all["router"] = f.resolve(t, out.Router.Process, "router")
	}
	for _, s := range out.Services {
		if s.ID == "mooncake-master" {
			all["mooncake"] = f.resolve(t, s, "service")
		}
	}
	return all
}
