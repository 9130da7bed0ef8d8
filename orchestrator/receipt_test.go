package orchestrator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
)

func TestCompareReceipt(t *testing.T) {
	t.Parallel()
	key := []byte("key of the run")
	planned := []deploy.EnvEntry{
		{Name: "SAME", Value: []byte("a\nb=\xff")},
		{Name: "EMPTY", Value: []byte("")},
		{Name: "UNSET", Value: []byte("")},
		{Name: "CHANGED", Value: []byte("104")},
		{Name: "HF_TOKEN", Value: []byte("s3cret"), Secret: true},
		{Name: "OTHER_TOKEN", Value: []byte("s3cret"), Secret: true},
		{Name: "LOST_TOKEN", Value: []byte("s3cret"), Secret: true},
		{Name: "SHOWN_TOKEN", Value: []byte("s3cret"), Secret: true},
		{Name: "LOOKS_LIKE_KEY", Value: []byte("public")},
		{Name: "PYTHONPATH", Value: []byte("/mine"), Prepend: true},
		{Name: "LD_PATH", Value: []byte("/mine"), Prepend: true},
		{Name: "LOST_PATH", Value: []byte("/mine"), Prepend: true},
		{Name: "CLEAN_PATH", Value: []byte("/mine:"), Prepend: true},
		{Name: "HOLED_PATH", Value: []byte("/mine"), Prepend: true},
		{Name: "LONG", Value: []byte(strings.Repeat("x", 300))},
	}
	seen := deploy.Receipt{Env: []deploy.ReceiptVar{
		{Name: "SAME", Value: []byte("a\nb=\xff")},
		{Name: "EMPTY", Value: []byte("")},
		{Name: "CHANGED", Value: []byte("96")},
		{Name: "HF_TOKEN", HMAC: sum([]byte("s3cret"), key)},
		{Name: "OTHER_TOKEN", HMAC: sum([]byte("s3cret"), []byte("another key"))},
		{Name: "SHOWN_TOKEN", Value: []byte("s3cret but longer")},
		{Name: "LOOKS_LIKE_KEY", HMAC: sum([]byte("public"), key)},
		{Name: "PYTHONPATH", Value: []byte("/mine:/image")},
		{Name: "LD_PATH", Value: []byte("/mine")},
		{Name: "LOST_PATH", Value: []byte("/mine2")},
		{Name: "CLEAN_PATH", Value: []byte("/mine:/image")},
		{Name: "HOLED_PATH", Value: []byte("/mine::/image")}, // an empty element is the current directory
		{Name: "LONG", Value: []byte("short")},
		{Name: "IMAGE_ONLY", Value: []byte("x")},
	}}
	var got []string
	for _, d := range compareReceipt(planned, seen, key) {
		got = append(got, d.String())
		if strings.Contains(d.String(), "s3cret") {
			t.Errorf("a secret is shown: %s", d)
		}
	}
	want := []string{
		`UNSET: planned "", the process sees no such variable`,
		`CHANGED: planned "104", the process sees "96"`,
		`OTHER_TOKEN: planned a secret of 6 bytes, the process sees another value`,
		`LOST_TOKEN: planned a secret of 6 bytes, the process sees no such variable`,
		`SHOWN_TOKEN: planned a secret of 6 bytes, the process sees another value, of 17 bytes`,
		`LOST_PATH: planned "/mine", the process sees "/mine2"`,
		`HOLED_PATH: planned "/mine", the process sees "/mine::/image"`,
		`LONG: planned "` + strings.Repeat("x", 199) + `…" (300 bytes), the process sees "short"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
