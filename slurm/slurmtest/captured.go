package slurmtest

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata
var testdata embed.FS

// Captured is what a real program was asked and printed: a file of testdata
// without its ending, such as "slurm-22.05.8/nodes".
func Captured(t testing.TB, name string) Call {
	t.Helper()
	b, err := testdata.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	c, err := decode(b)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

// Captures lists the names that Captured knows.
func Captures(t testing.TB) []string {
	t.Helper()
	files, err := fs.Glob(testdata, "testdata/*/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(strings.TrimPrefix(f, "testdata/"), path.Ext(f))
	}
	return files
}

// capture is a call as a file of testdata: text by lines, so that a difference
// can be read.
type capture struct {
	Command []string `json:"command"`
	Stdout  []string `json:"stdout"`
	Stderr  []string `json:"stderr"`
	Exit    int      `json:"exit"`
}

// Encode writes a call as a file of testdata.
func Encode(c Call) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(capture{
		Command: append([]string{c.Program}, c.Args...),
		Stdout:  slices.AppendSeq([]string{}, strings.Lines(c.Stdout)),
		Stderr:  slices.AppendSeq([]string{}, strings.Lines(c.Stderr)),
		Exit:    c.Exit,
	})
	return b.Bytes(), err
}

func decode(b []byte) (Call, error) {
	var c capture
	if err := json.Unmarshal(b, &c); err != nil {
		return Call{}, err
	}
	if len(c.Command) == 0 {
		return Call{}, errors.New("no command")
	}
	return Call{
		Program: c.Command[0], Args: c.Command[1:], Exit: c.Exit,
		Stdout: strings.Join(c.Stdout, ""), Stderr: strings.Join(c.Stderr, ""),
	}, nil
}

// At is the call with path as its last argument: captured calls name a script
// that a test's own stands for.
func (c Call) At(path string) Call {
	c.Args = append(slices.Clone(c.Args[:len(c.Args)-1]), path)
	return c
}
