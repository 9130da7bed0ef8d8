package models

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestJSONRoundTrip: types with a text form for YAML come back from JSON, which
// has them in their own form.
func TestJSONRoundTrip(t *testing.T) {
	t.Parallel()
	type all struct {
		On, Off Bool
		Env     EnvMap
		Span    Duration
	}
	want := all{On: true, Env: EnvMap{"A": {Value: "1"}, "B": {Value: "", Custom: true}}, Span: 90e9}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if text := `{"On":true,"Off":false,"Env":{"A":{"value":"1"},"B":{"value":"","custom":true}},"Span":"1m30s"}`; string(data) != text {
		t.Errorf("got %s, want %s", data, text)
	}
	var got all
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{`{"On":"yes"}`, `{"On":1}`, `{"Env":{"A":{"valu":"1"}}}`, `{"Env":{"A":"1"}}`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}
