package output

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disagg/disagg/preflight"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"timestamp,attr,omitempty"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
	Skipped *junitSkipped `xml:"skipped,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

// fleet is the suite of what concerns several nodes.
const fleet = "all nodes together"

// writeJUnit prints one suite a node and one case a check. What makes a node unfit
// is a failure; warnings are a case's output.
func writeJUnit(b *strings.Builder, d Document, o Options) error {
	names := []string{}
	for _, n := range d.Nodes {
		names = append(names, n.Node)
	}
	if slices.ContainsFunc(d.Findings, func(f preflight.Finding) bool { return f.Node == "" }) {
		names = append(names, "")
	}
	all := junitSuites{Name: "disagg preflight"}
	for _, name := range names {
		s := junitSuite{Name: clean(name)}
		if name == "" {
			s.Name = fleet
		}
		if !o.Now.IsZero() {
			s.Time = o.Now.UTC().Format(time.RFC3339)
		}
		by, ids := map[string][]preflight.Finding{}, map[string]bool{}
		for _, f := range d.Findings {
			if f.Node == name {
				by[f.CheckID] = append(by[f.CheckID], f)
				ids[f.CheckID] = true
			}
		}
		for _, id := range inOrder(ids) {
			c := junitOf(id, s.Name, by[id])
			s.Tests++
			if c.Failure != nil {
				s.Failures++
			}
			if c.Skipped != nil {
				s.Skipped++
			}
			s.Cases = append(s.Cases, c)
		}
		all.Tests, all.Failures, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Skipped+s.Skipped
		all.Suites = append(all.Suites, s)
	}
	b.WriteString(xml.Header)
	enc := xml.NewEncoder(b)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	b.WriteString("\n")
	return nil
}

func junitOf(id, suite string, fs []preflight.Finding) junitCase {
	c := junitCase{Class: suite, Name: id}
	var bad, other []preflight.Finding
	for _, f := range fs {
		switch {
		case f.Decides():
			bad = append(bad, f)
		case f.Verdict == preflight.Skip && len(fs) == 1:
			c.Skipped = &junitSkipped{Message: clean(f.Observed)}
		case f.Verdict != preflight.Pass:
			other = append(other, f)
		}
	}
	if len(bad) > 0 {
		c.Failure = &junitFailure{Type: string(bad[0].Verdict), Message: sentence(bad[0]), Text: paragraphs(bad)}
	}
	c.Out = paragraphs(other)
	return c
}

// sentence is one finding in one line.
func sentence(f preflight.Finding) string {
	s := string(f.Verdict) + ": "
	if f.Object != "" {
		s += f.Object + ": "
	}
	s += f.Observed + f.InImage()
	if f.Expected != "" {
		s += " (expected: " + f.Expected + ")"
	}
	if f.Waived != "" {
		s += fmt.Sprintf(" (was %s; waived: %s)", f.Was, f.Waived)
	}
	return clean(s)
}

func paragraphs(fs []preflight.Finding) string {
	var b strings.Builder
	for _, f := range fs {
		b.WriteString(sentence(f) + "\n")
		for _, e := range f.Evidence {
			fmt.Fprintf(&b, "  $ %s\n", clean(e.Source))
			for _, l := range e.Lines {
				fmt.Fprintf(&b, "  | %s\n", clean(l))
			}
		}
		if f.Remedy != "" {
			fmt.Fprintf(&b, "  remedy: %s\n", clean(f.Remedy))
		}
	}
	return b.String()
}
