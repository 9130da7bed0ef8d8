package receipts

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/internal/redact"
)

func TestRecordsComeBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "receipts.jsonl")
	if got, err := Read(path); got != nil || err != nil {
		t.Fatalf("without a file: %v, %v", got, err)
	}
	w := &Writer{Path: path, Redact: redact.New(map[string][]byte{"HF_TOKEN": []byte("hf_sentinel")})}
	rec := Record{
		Time: time.Unix(1, 0).UTC(), Process: "decode-0.0", Scope: "decode", Node: "n1",
		Vars: []Var{
			{Name: "A", State: AsPlanned, Origin: "forward", Seen: NewText([]byte("<a&b>\n\u2028"))},
			{Name: "B", State: Changed, Planned: NewText([]byte("\xff\xfe")), Seen: NewText(nil)},
			{Name: "C", State: Missing, Planned: NewText([]byte(`{"base64":"x"}`))},
			{Name: "D", State: AsPlanned, Secret: true, HMAC: "ab", Over: []State{FromImage}},
			{Name: "E", State: Unset, Planned: NewText([]byte("@{self.tc}"))},
			{Name: "F", State: Extra, Seen: NewText([]byte(strings.Repeat("x", 100_000)))},
		},
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := w.Append(rec); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	// The last line is still being written.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString(`{"process":"de`)
	_ = f.Close()
	got, err := Read(path)
	if err != nil || len(got) != 8 {
		t.Fatalf("%d records, %v", len(got), err)
	}
	rec.Vars[1].Seen = NewText([]byte{}) // empty, not absent
	if d := cmp.Diff(rec, got[7]); d != "" {
		t.Error(d)
	}
	var names []string
	for _, v := range got[0].Differs() {
		names = append(names, v.Name)
	}
	if d := cmp.Diff([]string{"B", "C"}, names); d != "" {
		t.Error(d)
	}
}

func TestNoSecretIsWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "receipts.jsonl")
	w := &Writer{Path: path, Redact: redact.New(map[string][]byte{"HF_TOKEN": []byte("hf_\"sentinel")})}
	if err := w.Append(Record{Vars: []Var{{Name: "X", Seen: NewText([]byte("see hf_\"sentinel"))}}}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), "sentinel") || !strings.Contains(string(data), "see [redacted:HF_TOKEN]") {
		t.Errorf("%s, %v", data, err)
	}
}

func TestBrokenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "receipts.jsonl")
	if err := os.WriteFile(path, []byte("{}\n{]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "receipts.jsonl:2:") {
		t.Errorf("got %v", err)
	}
}
