package legacy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/internal/yamlx"
)

// excludesFile is node_excludes.yaml. Of its rules, the first for a framework
// and a model counted.
type excludesFile struct {
	Rules []excludeRule `yaml:"rules" items:"some"`
}

type excludeRule struct {
	Framework string   `yaml:"framework" is:"word"`
	Models    []string `yaml:"models" is:"word" items:"some set"`
	Nodes     []string `yaml:"exclude_nodes" is:"hosts" items:"some set"`
	Reason    string   `yaml:"reason,omitempty"`
}

// excludes converts node_excludes.yaml.
func (im *importer) excludes() []models.Exclude {
	f := im.src.Excludes
	if f == nil {
		return nil
	}
	doc := yamlx.ParseForeign(f.Path, f.Data)
	var in excludesFile
	doc.Decode(&in)
	doc.Check(&in, models.Formats())
	var out []models.Exclude
	first := map[string]string{}
	for i, r := range in.Rules {
		at := yamlx.Index("rules", i)
		if doc.Failed(at) {
			continue
		}
		engine, ok := engineOf(r.Framework)
		if !ok && r.Framework != "" {
			doc.Fail(at+".framework", fmt.Sprintf("%s.framework: there is no framework %q", at, r.Framework), frameworks)
			continue
		}
		names := slices.DeleteFunc(slices.Clone(r.Models), func(name string) bool {
			key := r.Framework + " " + name
			other, taken := first[key]
			if taken {
				im.note(doc, at+".models", fmt.Sprintf("%s never counts for %s: the rule at %s comes first", at, name, other), "join the two")
			} else {
				first[key] = doc.Positions.At(at)
			}
			return taken
		})
		if len(names) > 0 {
			out = append(out, models.Exclude{Nodes: strings.Join(r.Nodes, ","), Reason: or(r.Reason, "excluded by "+f.Path), Engines: []string{engine}, Models: names})
		}
	}
	im.take(doc.Err())
	return out
}

// site writes the site file: what the scripts had built in, and the exclusions.
func (im *importer) site() {
	if im.src.Excludes == nil && len(im.src.Master) == 0 && len(im.added) == 0 {
		return
	}
	s := scriptSite()
	s.APIVersion, s.Kind = models.APIVersion, models.KindSite
	s.RunsDir = "/shared/disagg/runs"
	s.Models.SearchPaths = []string{"/shared/models"}
	s.Exclude = im.excludes()
	if len(im.added) > 0 {
		s.Models.Catalog = []string{"catalog"}
	}
	if im.src.Repo != "" {
		s.Container.Mounts = []string{im.src.Repo + ":" + workspace}
	}
	notes := map[string]string{
		"":          "# What the old scripts had built in, and their node exclusions.\n# Fit runs_dir, slurm and models to the cluster, or take what you need from here\n# into a site file that you have.",
		"runs_dir":  "# A directory that every node sees.",
		"models":    "# Where weights are found on the nodes, best first.",
		"container": "# The scripts also ran containers privileged, with the user's ssh keys in them;\n# no run needs that.",
	}
	data, err := yamlx.Encode(s, notes)
	im.add("site.yaml", data, err)
}
