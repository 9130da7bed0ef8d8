package tailbuf

import (
	"strings"
	"testing"
)

func TestBuffer(t *testing.T) {
	t.Parallel()
	var b Buffer
	if got := b.Describe("exit status 3"); got != "exit status 3" {
		t.Errorf("nothing said: %q", got)
	}
	for range 3 {
		if n, err := b.Write([]byte(strings.Repeat("x", 10<<10))); n != 10<<10 || err != nil {
			t.Fatalf("write = %d, %v", n, err)
		}
	}
	if len(b.buf) != keep || cap(b.buf) > 4*keep {
		t.Errorf("%d bytes are kept in %d", len(b.buf), cap(b.buf))
	}
	b.Write([]byte("\nsh: 1: \x1b[31mnot found\xff\n"))
	if got := b.Describe("exit status 127"); !strings.HasPrefix(got, "exit status 127: xxx") || !strings.HasSuffix(got, " sh: 1: [31mnot found\uFFFD") {
		t.Errorf("said: %q", got)
	}
}
