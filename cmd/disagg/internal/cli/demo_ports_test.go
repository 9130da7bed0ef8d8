package cli

import (
	"net"
	"strconv"
	"testing"
)

// TestPickPorts: four different free ports; one that is taken is passed over.
func TestPickPorts(t *testing.T) {
	first, err := pickPorts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", ":"+strconv.Itoa(first.Bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
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
