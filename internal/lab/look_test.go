package lab

import (
	"os"
	"path/filepath"
	"testing"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const line = "42 (a (b) c) S 7 42 42 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 987654 1000 200"
	p, ok := parseStat(42, line)
	if !ok || p.Name != "a (b) c" || p.PPID != 7 || p.State != "S" || p.start != 987654 {
		t.Errorf("got %+v, %v", p, ok)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S 1", "1 x) S ("} {
		if _, ok := parseStat(1, bad); ok {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestParseAddr(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0100007F:1F40":                         "127.0.0.1:8000",
		"00000000:0016":                         "0.0.0.0:22",
		"00000000000000000000000000000000:1F40": "[::]:8000",
		"00000000000000000000000001000000:0050": "[::1]:80",
		"0000000000000000FFFF00000B0012C6:7530": "198.18.0.11:30000",
	} {
		got, err := parseAddr(text)
		if err != nil || got.String() != want {
			t.Errorf("parseAddr(%q) = %v, %v; want %s", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "0100007F", "01:1F40", "zz00007F:1F40", "0100007F:1F400"} {
		if got, err := parseAddr(bad); err == nil {
			t.Errorf("parseAddr(%q) = %v", bad, got)
		}
	}
}

// TestArchiveIsTheSameEveryTime: else nodes that load it would differ.
func TestArchiveIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layer := newLayer(filepath.Join(dir, "layer.tar"))
	layer.dir("bin", 0o755)
	layer.text("bin/x", 0o755, "#!/bin/sh\n")
	layer.text("bin/x", 0o755, "the first one counts")
	must(t, layer.close())
	var sums []string
	for _, name := range []string{"a.tar", "b.tar"} {
		img := Image{Ref: "x:1", Layers: []string{filepath.Join(dir, "layer.tar")}, Env: []string{"A=b"}, Cmd: []string{"/bin/x"}}
		must(t, WriteArchive(filepath.Join(dir, name), img, img))
		sum, err := hashFile(filepath.Join(dir, name))
		must(t, err)
		sums = append(sums, sum)
	}
	if sums[0] != sums[1] {
		t.Errorf("two archives of one image: %v", sums)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if err := WriteArchive(filepath.Join(dir, "c.tar"), Image{Ref: "x:1", Layers: []string{"none"}}); err == nil {
		t.Error("an archive of a missing layer was written")
	} else if _, err := os.Stat(filepath.Join(dir, "c.tar")); err == nil {
		t.Error("a failed archive is there")
	}
}
