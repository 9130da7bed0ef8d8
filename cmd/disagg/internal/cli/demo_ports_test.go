package cli

import (
	"net"
	"testing"
)

// TestPickPorts: with a usual port taken, all four are others, and free.
func TestPickPorts(t *testing.T) {
	l, err := net.Listen("tcp", ":8998")
	if err == nil {
		defer l.Close() // else somebody else has it, which is as good
	}
	got, err := pickPorts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range []int{got.Prefill, got.Bootstrap, got.Decode, got.Router} {
		if p < 18000 || p >= 29000 || seen[p] || !free(t.Context(), p) {
			t.Errorf("port %d of %+v is taken, twice there, or out of range", p, got)
		}
		seen[p] = true
	}
}
