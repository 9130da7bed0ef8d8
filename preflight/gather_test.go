package preflight_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/nodetest"
)

// TestMain lets the test program be its own helper, as disagg is.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "facts" {
		if err := preflight.FactsMain(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Most of the time of these tests is waiting, for processes and for what
	// hangs on purpose.
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// site is a site whose nodes are like those of nodetest.
func site() *models.Site {
	eight := 8
	return &models.Site{GPUsPerNode: 8, NodeMemoryGB: 3000, Container: models.ContainerSite{Runtime: "docker", Devices: []string{"/dev/kfd", "/dev/dri", "/dev/infiniband"}},
		Preflight: models.PreflightSite{RDMA: models.PreflightRDMA{Devices: &eight, RateGbps: 400}, GPU: models.PreflightGPU{DeviceID: "75a3"},
			Storage: models.PreflightStorage{ImageGiB: 1, TmpGiB: 1, InodesPercent: 1}}}
}

// specOf writes a node and is the spec that gathers it.
func specOf(t *testing.T, n *nodetest.Node, name string) preflight.Spec {
	t.Helper()
	dir := t.TempDir()
	root, bin := filepath.Join(dir, "root"), filepath.Join(dir, "bin")
	if err := n.Write(root, bin); err != nil {
		t.Fatal(err)
	}
	s := preflight.SpecFromSite(site())
	s.Node, s.Root, s.ToolPath = name, root, []string{bin}
	return s
}

func fold(names []string) string { return strings.Join(names, ",") }

// gathered gathers a node through FactsMain, as a transport does.
func gathered(t *testing.T, s preflight.Spec) preflight.Facts {
	t.Helper()
	f, err := gatherThrough(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func gatherThrough(s preflight.Spec) (preflight.Facts, error) {
	in, err := json.Marshal(s)
	if err != nil {
		return preflight.Facts{}, err
	}
	var out bytes.Buffer
	out.WriteString("*** Authorised users only ***\nLast login: Mon\n")
	if err := preflight.FactsMain(context.Background(), bytes.NewReader(in), &out); err != nil {
		return preflight.Facts{}, err
	}
	out.WriteString("logout\n")
	return preflight.ReadFacts(out.Bytes())
}

func TestHealthyNode(t *testing.T) {
	t.Parallel()
	s := specOf(t, nodetest.Healthy(), "n1")
	f := gathered(t, s)
	r := preflight.Judge([]preflight.Facts{f}, s, fold)
	for _, g := range r.Groups {
		if g.Verdict != preflight.Skip {
			t.Errorf("%s %s %v: %s (want %s)", g.Verdict, g.CheckID, g.Objects, g.Observed, g.Expected)
		}
	}
	if !r.Fit {
		t.Error("the healthy node is not fit")
	}
	c, err := preflight.DeriveQoS(&f, &s.Expect)
	if err != nil || c.TrafficClass != 96 || c.ServiceLevel != 3 {
		t.Errorf("derived %+v, %v; want TC 96, SL 3", c, err)
	}
}
