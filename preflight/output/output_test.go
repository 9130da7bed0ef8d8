package output

import (
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/disagg/disagg/preflight"
	"github.com/disagg/disagg/preflight/checks"
)

var update = flag.Bool("update", false, "write golden files")

// report folds findings into a report the way Judge does.
func report(hosts []string, fs []preflight.Finding, waivers ...preflight.Waiver) preflight.Report {
	r := preflight.Report{Version: preflight.ReportVersion, Fit: true, Findings: fs, Waivers: waivers}
	for _, h := range hosts {
		n := preflight.NodeReport{Node: h, Fit: true, Worst: preflight.Pass, Checks: map[string]preflight.Verdict{}}
		for _, f := range fs {
			if f.Node != h {
				continue
			}
			if old, ok := n.Checks[f.CheckID]; !ok || f.Verdict.Rank() > old.Rank() {
				n.Checks[f.CheckID] = f.Verdict
			}
			if f.Verdict.Rank() > n.Worst.Rank() {
				n.Worst = f.Verdict
			}
			if f.Decides() {
				n.Fit = false
				if !slices.Contains(n.Deciding, f.CheckID) {
					n.Deciding = append(n.Deciding, f.CheckID)
				}
			}
		}
		r.Fit = r.Fit && n.Fit
		r.Nodes = append(r.Nodes, n)
	}
	at := map[string]int{}
	for _, f := range fs {
		if f.Verdict == preflight.Pass {
			continue
		}
		key := fmt.Sprint(f.CheckID, f.Verdict, f.Object, f.Observed, f.Expected, f.Waived)
		i, ok := at[key]
		if !ok {
			i = len(r.Groups)
			at[key] = i
			g := preflight.Group{Finding: f}
			g.Node = ""
			if f.Object != "" {
				g.Objects = []string{f.Object}
			}
			r.Groups = append(r.Groups, g)
		}
		if f.Node != "" {
			r.Groups[i].Nodes = append(r.Groups[i].Nodes, f.Node)
			r.Groups[i].Hosts = fold(r.Groups[i].Nodes)
		}
		r.Fit = r.Fit && !(f.Node == "" && f.Decides())
	}
	return r
}

// fold is a stand-in for a host list.
func fold(names []string) string {
	if len(names) > 2 {
		return names[0] + ".." + names[len(names)-1]
	}
	return strings.Join(names, ",")
}

// sample has one of everything: five nodes, of which two are bad, one could not be
// asked, and all have something in common.
func sample() Document {
	hosts := []string{"gpu-01", "gpu-02", "gpu-03", "gpu-04", "gpu-05"}
	var fs []preflight.Finding
	add := func(f preflight.Finding) { fs = append(fs, f) }
	for _, h := range hosts {
		if h == "gpu-05" {
			add(preflight.Finding{CheckID: "node.reach", Node: h, Verdict: preflight.Unknown, Hard: true,
				Observed: "its host key is not the known one: the host key of gpu-05 has changed", Remedy: "the node was probably installed anew",
				Evidence: []checks.Evidence{{Source: "transport", Lines: []string{"the host key of gpu-05 has changed"}}}})
			continue
		}
		add(preflight.Finding{CheckID: "node.reach", Node: h, Verdict: preflight.Pass, Hard: true, Observed: "asked in 1.2s"})
		pfc := preflight.Finding{CheckID: "rdma.pfc", Node: h, Verdict: preflight.Pass, Hard: true, Observed: "priority 3 on 8 NICs"}
		if h == "gpu-02" {
			pfc = preflight.Finding{CheckID: "rdma.pfc", Node: h, Object: "0000:76:00.0", Verdict: preflight.Fail, Hard: true, Observed: "PFC bitmap 0x0 does not cover priority 3",
				Expected: "bit 3 set", Remedy: "nicctl update qos pfc --priority 3 --no-drop enable",
				Evidence: []checks.Evidence{{Source: "sudo -n nicctl show qos", Lines: []string{"PFC priority bitmap       : 0x0", "PFC no-drop priorities    : 3 \x1b[31m|`x`"}}}}
		}
		add(pfc)
		vram := preflight.Finding{CheckID: "gpu.vram", Node: h, Verdict: preflight.Pass, Hard: true, Observed: "283 MiB used at most"}
		if h == "gpu-04" {
			for i := range 5 {
				add(preflight.Finding{CheckID: "gpu.vram", Node: h, Object: fmt.Sprintf("GPU %d", i), Verdict: preflight.Fail, Hard: true, Observed: fmt.Sprintf("%d GiB used", 100+i),
					Expected: "at most 2 GiB", Remedy: "end the holder"})
			}
			vram = preflight.Finding{CheckID: "gpu.stranded", Node: h, Verdict: preflight.Blocked, Hard: true, Observed: "blocked by gpu.holders: the processes were not read"}
		}
		add(vram)
		add(preflight.Finding{CheckID: "host.cmdline", Node: h, Object: "iommu=pt", Verdict: preflight.Warn, Observed: "not on the kernel command line", Expected: "iommu=pt", Remedy: "add it to GRUB_CMDLINE_LINUX",
			Evidence: []checks.Evidence{{Source: "cat /proc/cmdline", Lines: []string{"BOOT_IMAGE=/vmlinuz ro quiet"}}}})
		add(preflight.Finding{CheckID: "host.kernel", Node: h, Verdict: preflight.Unknown, Observed: "the kernel release was not read"})
		add(preflight.Finding{CheckID: "rdma.firmware", Node: h, Verdict: preflight.Warn, Was: preflight.Fail, Waived: "upgrade is planned", Observed: "1.117.1-a-63", Expected: "1.117.5-a-45"})
		for _, id := range []string{"container.runtime", "container.stale"} {
			add(preflight.Finding{CheckID: id, Node: h, Verdict: preflight.Skip, Observed: "processes run without containers"})
		}
	}
	add(preflight.Finding{CheckID: "rdma.bandwidth", Verdict: preflight.Fail, Hard: true, Object: "rail 3", Observed: "no value has a majority"})
	return Document{
		Report: report(hosts, fs, preflight.Waiver{CheckID: "rdma.firmware", Reason: "upgrade is planned", Used: 4}, preflight.Waiver{CheckID: "gpu.ecc", Reason: "known"},
			preflight.Waiver{CheckID: "gpu.exx", Reason: "typo", Unknown: true}),
		Drift: []preflight.Drift{{CheckID: "rdma.pfc", Node: "gpu-02", Object: "0000:76:00.0", Was: "priority 3 on 8 NICs", Is: "PFC bitmap 0x0 does not cover priority 3", Before: preflight.Pass, Now: preflight.Fail, Worse: true}},
	}
}

func options() Options {
	return Options{Fold: fold, Drain: true, Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	good := Document{Report: report([]string{"gpu-01", "gpu-02"}, []preflight.Finding{
		{CheckID: "node.reach", Node: "gpu-01", Verdict: preflight.Pass, Hard: true, Observed: "asked in 1.2s"},
		{CheckID: "node.reach", Node: "gpu-02", Verdict: preflight.Pass, Hard: true, Observed: "asked in 1.3s"},
	})}
	for _, tc := range []struct {
		name string
		doc  Document
		opt  func(*Options)
	}{
		{"sample", sample(), func(*Options) {}},
		{"full", sample(), func(o *Options) { o.Full = true }},
		{"colour", sample(), func(o *Options) { o.Colour, o.Drain = true, false }},
		{"good", good, func(*Options) {}},
		{"none", Document{}, func(*Options) {}},
	} {
		for _, format := range Formats() {
			if tc.name == "colour" && format != "text" || tc.name == "full" && format != "text" && format != "markdown" {
				continue
			}
			t.Run(tc.name+"."+format, func(t *testing.T) {
				t.Parallel()
				o := options()
				tc.opt(&o)
				var b strings.Builder
				if err := Write(&b, format, tc.doc, o); err != nil {
					t.Fatal(err)
				}
				golden(t, tc.name+"."+format, b.String())
			})
		}
	}
	if err := Write(&strings.Builder{}, "xml", good, options()); err == nil || !strings.Contains(err.Error(), "text, json, junit, prom, markdown") {
		t.Errorf("an unknown format: %v", err)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestSixtyFourNodes: whatever sixty-four nodes have, it fits on a screen.
func TestSixtyFourNodes(t *testing.T) {
	t.Parallel()
	var hosts []string
	var fs []preflight.Finding
	for i := range 64 {
		h := fmt.Sprintf("gpu-%02d", i+1)
		hosts = append(hosts, h)
		for _, id := range preflight.IDs() {
			f := preflight.Finding{CheckID: id, Node: h, Verdict: preflight.Pass, Hard: true, Observed: "right"}
			if id == "host.cmdline" {
				f.Verdict, f.Hard, f.Observed = preflight.Warn, false, "iommu=pt is missing"
			}
			if id == "gpu.vram" && i%16 == 7 {
				f.Verdict, f.Object, f.Observed = preflight.Fail, "GPU 3", fmt.Sprintf("%d GiB used", i)
			}
			fs = append(fs, f)
		}
	}
	var b strings.Builder
	if err := Write(&b, "text", Document{Report: report(hosts, fs)}, options()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) > 50 {
		t.Errorf("%d lines:\n%s", len(lines), b.String())
	}
	for _, l := range lines {
		if len([]rune(l)) > 160 {
			t.Errorf("a line of %d columns: %s", len([]rune(l)), l)
		}
	}
	for _, want := range []string{"64 nodes: 60 fit, 4 unfit", "FAIL gpu.vram on gpu-08", "gpu-56"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing:\n%s", want, b.String())
		}
	}
}

// TestJUnitReads: what a CI server reads has the right counts.
func TestJUnitReads(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := Write(&b, "junit", sample(), options()); err != nil {
		t.Fatal(err)
	}
	var got junitSuites
	if err := xml.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	// pfc, vram, stranded, reach, bandwidth; two skips on each of four nodes.
	if got.Failures != 5 || got.Skipped != 8 || len(got.Suites) != 6 {
		t.Errorf("%d failures, %d skipped, %d suites", got.Failures, got.Skipped, len(got.Suites))
	}
}

// TestPromReads: every line is one of the exposition format, and labels keep what
// would end them.
func TestPromReads(t *testing.T) {
	t.Parallel()
	d := sample()
	d.Nodes[0].Node = "odd\"\\\nname"
	var b strings.Builder
	if err := Write(&b, "prom", d, options()); err != nil {
		t.Fatal(err)
	}
	sampleLine := regexp.MustCompile(`^([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\["\\n])*",?)+)\})? (-?[0-9]+)$`)
	typed := map[string]bool{}
	fit := map[string]string{}
	for l := range strings.Lines(b.String()) {
		l = strings.TrimSuffix(l, "\n")
		if rest, ok := strings.CutPrefix(l, "# TYPE "); ok {
			typed[strings.TrimSuffix(rest, " gauge")] = true
			continue
		}
		if strings.HasPrefix(l, "# HELP ") {
			continue
		}
		m := sampleLine.FindStringSubmatch(l)
		if m == nil || !typed[m[1]] {
			t.Errorf("not a sample of a known metric: %q", l)
			continue
		}
		if m[1] == "disagg_preflight_node_fit" {
			fit[m[2]] = m[3]
		}
	}
	want := map[string]string{`node="odd\"\\\nname"`: "1", `node="gpu-02"`: "0", `node="gpu-03"`: "1", `node="gpu-04"`: "0", `node="gpu-05"`: "0"}
	if diff := cmp.Diff(want, fit); diff != "" {
		t.Errorf("node_fit (-want +got):\n%s", diff)
	}
}

// TestSchema: the published schema describes what is printed, and every field.
func TestSchema(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "schema", "preflight-report.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("report.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("report.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]Document{"sample": sample(), "empty": {Report: preflight.Report{Version: 1, Nodes: []preflight.NodeReport{}, Findings: []preflight.Finding{}, Groups: []preflight.Group{}}}} {
		var b strings.Builder
		if err := Write(&b, "json", d, options()); err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad, _ := jsonschema.UnmarshalJSON(strings.NewReader(`{"version": 1, "fit": "yes"}`))
	if err := s.Validate(bad); err == nil {
		t.Error("the schema accepts anything")
	}
	defs := doc["$defs"].(map[string]any)
	for name, typ := range map[string]reflect.Type{
		"node": reflect.TypeFor[preflight.NodeReport](), "finding": reflect.TypeFor[preflight.Finding](), "group": reflect.TypeFor[preflight.Group](),
		"waiver": reflect.TypeFor[preflight.Waiver](), "drift": reflect.TypeFor[preflight.Drift](), "evidence": reflect.TypeFor[checks.Evidence](),
	} {
		sameFields(t, name, defs[name].(map[string]any), typ)
	}
	sameFields(t, "document", doc, reflect.TypeFor[Document]())
}

func sameFields(t *testing.T, name string, schema map[string]any, typ reflect.Type) {
	t.Helper()
	var got []string
	for k, v := range schema["properties"].(map[string]any) {
		got = append(got, k)
		if m, ok := v.(map[string]any); !ok || m["description"] == nil {
			t.Errorf("%s.%s has no description", name, k)
		}
	}
	var want []string
	for _, f := range reflect.VisibleFields(typ) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "" || tag == "-" || slices.Contains(want, tag) {
			continue
		}
		want = append(want, tag)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: fields (-type +schema):\n%s", name, diff)
	}
}

func TestSkipped(t *testing.T) {
	t.Parallel()
	var fs []preflight.Finding
	for _, id := range []string{"rdma.a", "rdma.b", "rdma.c", "rdma.d", "gpu.a"} {
		for _, node := range []string{"n1", "n2"} {
			fs = append(fs, preflight.Finding{CheckID: id, Node: node, Verdict: preflight.Skip, Observed: "not here"})
		}
	}
	fs = append(fs, preflight.Finding{CheckID: "host.a", Verdict: preflight.Skip, Observed: "no such thing"}, preflight.Finding{CheckID: "host.b", Verdict: preflight.Pass})
	if got, want := Skipped(fs), "rdma.* (4), gpu.a: not here; host.a: no such thing"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Skipped(nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// TestSkippedInImages: what was made in one image of a run was not skipped, and
// what was made in none names the images.
func TestSkippedInImages(t *testing.T) {
	t.Parallel()
	say := func(id, image string, v preflight.Verdict, why string) []preflight.Finding {
		return []preflight.Finding{{CheckID: id, Node: "n1", Image: image, Verdict: v, Observed: why}, {CheckID: id, Node: "n2", Image: image, Verdict: v, Observed: why}}
	}
	fs := slices.Concat(
		say("image.shm", "engine:1", preflight.Pass, "16 GiB"), say("image.shm", "router:1", preflight.Skip, "no engine runs in this image"),
		say("image.rdma", "engine:1", preflight.Fail, "no device opens"), say("image.rdma", "router:1", preflight.Skip, "no data over RDMA"),
		say("image.weights", "engine:1", preflight.Skip, "the run names no weights"), say("image.weights", "router:1", preflight.Skip, "the run names no weights"),
		say("image.env", "router:1", preflight.Skip, "no variable is set"),
		say("rdma.pfc", "", preflight.Skip, "no RDMA"),
	)
	if got, want := Skipped(fs), "image.weights: the run names no weights (in engine:1, router:1); image.env: no variable is set (in router:1); rdma.pfc: no RDMA"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTroubles: what differs in amounts or objects alone is one trouble, what
// others block is one list, and an image is named.
func TestTroubles(t *testing.T) {
	t.Parallel()
	var hosts []string
	var fs []preflight.Finding
	for i := range 4 {
		h := fmt.Sprintf("n%d", i+1)
		hosts = append(hosts, h)
		fs = append(fs, preflight.Finding{CheckID: "storage.space", Node: h, Object: "/docker (images)", Verdict: preflight.Fail, Hard: true, Observed: fmt.Sprintf("7%d GiB free", i),
			Expected: "150 GiB or more", Remedy: "make room", Evidence: []checks.Evidence{{Source: "df /docker", Lines: []string{fmt.Sprint("available 7", i)}}}})
	}
	for _, id := range []string{"rdma.class", "rdma.pfc"} {
		fs = append(fs, preflight.Finding{CheckID: id, Node: "n1", Verdict: preflight.Blocked, Hard: true, Observed: "blocked by rdma.tools: sudo asks for a password"})
	}
	fs = append(fs, preflight.Finding{CheckID: "gpu.stranded", Node: "n2", Verdict: preflight.Blocked, Hard: true, Observed: "blocked by gpu.vram: not known"},
		preflight.Finding{CheckID: "rdma.tc", Node: "n3", Verdict: preflight.Blocked, Observed: "blocked by rdma.class: no map"},
		preflight.Finding{CheckID: "image.memlock", Node: "n3", Image: "engine:1", Verdict: preflight.Fail, Observed: "64 KiB", Expected: "unlimited"})
	var b strings.Builder
	if err := Write(&b, "text", Document{Report: report(hosts, fs)}, options()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`
FAIL storage.space on n1..n4
  object    /docker (images)
  observed  n1: 70 GiB free
            n2: 71 GiB free
            n3: 72 GiB free
            n4: 73 GiB free
  expected  150 GiB or more
  evidence  $ df /docker   # n1
            | available 70
  evidence  $ df /docker   # n2
            | available 71
  evidence  $ df /docker   # n3
            | available 72
  remedy    make room

`, `
FAIL image.memlock on n3
  observed  64 KiB, in image engine:1
  expected  unlimited

`, `
BLOCKED
  rdma.class rdma.pfc on n1: by rdma.tools: sudo asks for a password
  gpu.stranded on n2: by gpu.vram: not known

`, `
  blocked rdma.tc on n3: by rdma.class: no map
`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("missing:%s\nin:\n%s", want, b.String())
		}
	}
}

// TestDrains: a node is drained for what is its own trouble, and not for what lies
// in the recipe, the site file or the image.
func TestDrains(t *testing.T) {
	t.Parallel()
	bad := func(id, node, object, observed string) preflight.Finding {
		return preflight.Finding{CheckID: id, Node: node, Object: object, Verdict: preflight.Fail, Hard: true, Observed: observed, Expected: "as it should be"}
	}
	unreached := preflight.Finding{CheckID: checks.Reach, Node: "n3", Verdict: preflight.Unknown, Hard: true, Observed: "no route to host"}
	blocked := func(node, why string) preflight.Finding {
		return preflight.Finding{CheckID: "rdma.class", Node: node, Verdict: preflight.Blocked, Hard: true, Observed: "blocked by rdma.tools: " + why}
	}
	const same = ": the same on all nodes: look at the site file or the recipe first"
	const image = ": look at the image, the recipe or the site file first; draining mends none of them"
	drain := func(nodes, ids string) []string {
		return []string{"scontrol update nodename=" + nodes + " state=drain reason='disagg preflight: " + ids + "'", "scontrol update nodename=" + nodes + " state=resume   # when mended, and checked again"}
	}
	for _, c := range []struct {
		name  string
		nodes []string
		fs    []preflight.Finding
		want  []string
	}{
		{"wrong search path", []string{"n1", "n2"}, []preflight.Finding{bad("storage.weights", "n1", "m", "nowhere"), bad("storage.weights", "n2", "m", "nowhere")}, []string{"# storage.weights" + same}},
		{"one node without weights", []string{"n1", "n2"}, []preflight.Finding{bad("storage.weights", "n2", "m", "nowhere")}, drain("n2", "storage.weights")},
		{"one node is asked", []string{"n1"}, []preflight.Finding{bad("storage.weights", "n1", "m", "nowhere")}, drain("n1", "storage.weights")},
		{"a program that the image has not", []string{"n1", "n2"}, []preflight.Finding{bad("image.tools", "n1", "benchx", "not there"), bad("image.tools", "n2", "benchx", "not there")}, []string{"# image.tools" + same}},
		{"an image on one node of two", []string{"n1", "n2"}, []preflight.Finding{bad("image.start", "n2", "img", "refused")}, []string{"# image.start on n2" + image}},
		{"an image on the only node", []string{"n1"}, []preflight.Finding{bad("image.start", "n1", "img", "refused")}, []string{"# image.start on n1" + image}},
		{"amounts of room that differ", []string{"n1", "n2"}, []preflight.Finding{bad("storage.space", "n1", "/d", "74.6 GiB free"), bad("storage.space", "n2", "/d", "73.9 GiB free")}, []string{"# storage.space" + same}},
		{"other devices on each", []string{"n1", "n2"}, []preflight.Finding{bad("gpu.alive", "n1", "GPU 3", "dead"), bad("gpu.alive", "n2", "GPU 5", "dead")}, drain("n1,n2", "gpu.alive")},
		{"values that differ", []string{"n1", "n2"}, []preflight.Finding{bad("rdma.firmware", "n1", "", "1.2"), bad("rdma.firmware", "n2", "", "1.3")}, drain("n1,n2", "rdma.firmware")},
		{"one has a trouble of its own too", []string{"n1", "n2"}, []preflight.Finding{bad("storage.weights", "n1", "m", "nowhere"), bad("storage.weights", "n2", "m", "nowhere"), bad("gpu.alive", "n2", "GPU 5", "dead")},
			append([]string{"# storage.weights" + same}, drain("n2", "gpu.alive")...)},
		{"all that could be asked", []string{"n1", "n2", "n3"}, []preflight.Finding{bad("storage.weights", "n1", "m", "nowhere"), bad("storage.weights", "n2", "m", "nowhere"), unreached}, []string{"# storage.weights" + same}},
		{"only one could be asked", []string{"n1", "n3"}, []preflight.Finding{bad("storage.weights", "n1", "m", "nowhere"), unreached}, drain("n1", "storage.weights")},
		{"nothing but blocked", []string{"n1", "n2"}, []preflight.Finding{blocked("n1", "no sudo")}, drain("n1", "rdma.class")},
		{"blocked besides what is common", []string{"n1", "n2"}, []preflight.Finding{bad("storage.weights", "n1", "m", "nowhere"), bad("storage.weights", "n2", "m", "nowhere"), blocked("n1", "x"), blocked("n2", "y")}, []string{"# storage.weights" + same}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			d := Document{Report: report(c.nodes, c.fs)}
			if diff := cmp.Diff(c.want, append(notes(d, fold), drains(d, fold)...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"gpu-01": "gpu-01", "gpu-[01-02]": "'gpu-[01-02]'", "it's": `'it'\''s'`, "": "''", "a b": "'a b'", "$(x)": "'$(x)'"} {
		if got := word(in); got != want {
			t.Errorf("word(%q) = %s, want %s", in, got, want)
		}
	}
}
