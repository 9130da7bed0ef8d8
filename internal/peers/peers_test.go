package peers

import (
	"bytes"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ports are free ports of this host.
func ports(t *testing.T, n int) []int {
	t.Helper()
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out
}

// check lets all nodes check at once.
func check(t *testing.T, asks ...Ask) []Answer {
	t.Helper()
	out := make([]Answer, len(asks))
	var wg sync.WaitGroup
	for i, a := range asks {
		wg.Go(func() { out[i] = Check(t.Context(), a) })
	}
	wg.Wait()
	return out
}

func TestEverybodyIsReached(t *testing.T) {
	t.Parallel()
	p := ports(t, 4)
	const home = "127.0.0.1"
	a, b, c := Peer{"a", home, p[:2]}, Peer{"b", home, p[2:]}, Peer{"c", home, nil}
	begun := time.Now()
	got := check(t,
		Ask{Run: "r", Name: "a", Listen: a.Ports, Peers: []Peer{b, c}, Wait: time.Minute},
		Ask{Run: "r", Name: "b", Listen: b.Ports, Peers: []Peer{a, c}, Wait: time.Minute},
		Ask{Run: "r", Name: "c", Peers: []Peer{a, b}, Wait: time.Minute})
	if diff := cmp.Diff([]Answer{{}, {}, {}}, got); diff != "" {
		t.Error(diff)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("took %s although all answered", took)
	}
	// The ports are wanted at once, by whoever does not ask for their reuse.
	for _, port := range p {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(home), Port: port})
		if err != nil {
			t.Errorf("the port is not free afterwards: %v", err)
			continue
		}
		_ = l.Close()
	}
}

func TestWhoIsNotReachedIsNamed(t *testing.T) {
	t.Parallel()
	p := ports(t, 2)
	const home = "127.0.0.1"
	// b listens, but a was told of another port: for a it is behind a wall.
	wall := ports(t, 1)[0]
	got := check(t,
		Ask{Run: "r", Name: "a", Listen: p[:1], Peers: []Peer{{"b", home, []int{wall}}}, Wait: time.Second},
		Ask{Run: "r", Name: "b", Listen: p[1:], Peers: []Peer{{"a", home, p[:1]}}, Wait: time.Second})
	if len(got[0].Unreached) != 1 || got[0].Unreached[0].Name != "b" || !strings.Contains(got[0].Unreached[0].Why, "connection refused") {
		t.Errorf("a found %+v", got[0])
	}
	if diff := cmp.Diff(Answer{}, got[1]); diff != "" {
		t.Error(diff)
	}
}

func TestStrangersDoNotCount(t *testing.T) {
	t.Parallel()
	p := ports(t, 1)
	got := check(t,
		Ask{Run: "one", Name: "a", Peers: []Peer{{"b", "127.0.0.1", p}}, Wait: time.Second},
		Ask{Run: "two", Name: "b", Listen: p, Peers: []Peer{{"a", "127.0.0.1", nil}}, Wait: time.Second})
	if len(got[0].Unreached) != 1 || !strings.HasPrefix(got[0].Unreached[0].Why, "a connection without an answer: ") {
		t.Errorf("a found %+v", got[0])
	}
	got = check(t,
		Ask{Run: "r", Name: "a", Peers: []Peer{{"c", "127.0.0.1", p}}, Wait: time.Second},
		Ask{Run: "r", Name: "b", Listen: p, Peers: []Peer{{"a", "127.0.0.1", nil}}, Wait: time.Second})
	if len(got[0].Unreached) != 1 || got[0].Unreached[0].Why != `somebody else answers: "r b"` {
		t.Errorf("a found %+v", got[0])
	}
}

func TestPortThatIsTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out bytes.Buffer
	in, _ := json.Marshal(Ask{Run: "r", Name: "a", Listen: []int{l.Addr().(*net.TCPAddr).Port}, Peers: []Peer{{"b", "127.0.0.1", nil}}, Wait: time.Minute})
	if err := Main(t.Context(), bytes.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	var got Answer
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Deaf) != 1 || !strings.Contains(got.Deaf[0], "address already in use") {
		t.Errorf("%v: %s", err, out.String())
	}
	if err := Main(t.Context(), strings.NewReader("x"), &out); err == nil {
		t.Error("nonsense was taken for a question")
	}
}
