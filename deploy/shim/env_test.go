package shim

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/internal/redact"
)

func TestJoinLists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ front, back, want string }{
		{"/mine", "/image/a:/image/b", "/mine:/image/a:/image/b"},
		{"/mine", "", "/mine"},
		{"/mine:", ":/image:", "/mine:/image"},
		{"", "/image", "/image"},
		{"::", "", ""},
		{"/a b", "/c=d", "/a b:/c=d"},
	} {
		if got := joinLists(c.front, c.back); got != c.want {
			t.Errorf("joinLists(%q, %q) = %q, want %q", c.front, c.back, got, c.want)
		}
	}
}

// TestLoginShellHasNotTheLastWord: what the plan says holds, whatever the
// profile did to it, and lists go before what the profile left.
func TestLoginShellHasNotTheLastWord(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("no bash here: ", err)
	}
	home := t.TempDir()
	put(t, filepath.Join(home, ".bash_profile"), []byte(`
export PLANNED=profile PATH=/profile/bin:$PATH PROFILE_ONLY=1 IMAGE_VAR=profile EMPTY_LIST=
unset TAKEN_AWAY
`))
	out := filepath.Join(t.TempDir(), "environ")
	a := launch(t, Spec{Argv: self("environ", out), Shell: "login", Prepend: []string{"PATH", "LISTED", "EMPTY_LIST"}},
		deploy.EnvEntry{Name: "HOME", Value: []byte(home)},
		deploy.EnvEntry{Name: "PLANNED", Value: []byte("plan")},
		deploy.EnvEntry{Name: "TAKEN_AWAY", Value: []byte("plan")},
		deploy.EnvEntry{Name: "PATH", Value: []byte("/mine/bin:")},
		deploy.EnvEntry{Name: "LISTED", Value: []byte("/mine")},
		deploy.EnvEntry{Name: "EMPTY_LIST", Value: []byte("/mine")},
	)
	r := await[Held](a, NoteHeld).Receipt
	if e := a.run(); e.Exit.Code != 0 || e.Exit.Error != "" {
		t.Fatalf("exit = %+v", e)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	seen := byName(strings.Split(string(data), "\x00"))
	type row struct {
		Value string
		Layer deploy.Layer
		Over  []deploy.Layer
	}
	want := map[string]row{
		"HOME":         {home, deploy.LayerPlan, []deploy.Layer{deploy.LayerBase}},
		"PLANNED":      {"plan", deploy.LayerPlan, []deploy.Layer{deploy.LayerShell}},
		"TAKEN_AWAY":   {"plan", deploy.LayerPlan, nil},
		"LISTED":       {"/mine", deploy.LayerPlan, nil},
		"EMPTY_LIST":   {"/mine", deploy.LayerPlan, nil},
		"PROFILE_ONLY": {"1", deploy.LayerShell, nil},
		"IMAGE_VAR":    {"profile", deploy.LayerShell, []deploy.Layer{deploy.LayerBase}},
		RunVar:         {"run-x", deploy.LayerTool, nil},
	}
	for name, w := range want {
		v, ok := value(r, name)
		if d := cmp.Diff(w, row{string(v.Value), v.Layer, v.Over}); d != "" || !ok {
			t.Errorf("receipt of %s (-want +got):\n%s", name, d)
		}
		if seen[name] != w.Value {
			t.Errorf("the program has %s=%q, want %q", name, seen[name], w.Value)
		}
	}
	path, _ := value(r, "PATH")
	if p := string(path.Value); !strings.HasPrefix(p, "/mine/bin:/profile/bin:") || strings.Contains(p, "::") || seen["PATH"] != p || path.Layer != deploy.LayerPlan {
		t.Errorf("PATH is %q (%s), the program has %q", p, path.Layer, seen["PATH"])
	}
}

// TestReceiptIsTheEnvironment: the program has exactly what was reported, name by
// name, whatever bytes there are.
func TestReceiptIsTheEnvironment(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 11))
	alphabet := []byte(" \t\n'\"`$(){}[];|&<>=\\,:%\x01\x7f\xff\xc3azAZ09")
	var env []deploy.EnvEntry
	for i := range 200 {
		v := make([]byte, rng.IntN(200))
		for j := range v {
			v[j] = alphabet[rng.IntN(len(alphabet))]
		}
		env = append(env, deploy.EnvEntry{Name: "P" + strings.Repeat("_", i%7) + string(rune('A'+i%26)) + strings.Repeat("x", i/26), Value: v})
	}
	for _, shell := range []string{"", "login"} {
		t.Run("shell="+shell, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "environ")
			a := launch(t, Spec{Argv: self("environ", out), Shell: shell}, env...)
			r := await[Held](a, NoteHeld).Receipt
			if e := a.run(); e.Exit.Code != 0 || e.Exit.Error != "" {
				t.Fatalf("exit = %+v", e)
			}
			data, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			reported := map[string]string{}
			for _, v := range r.Env {
				reported[v.Name] = string(v.Value)
			}
			if d := cmp.Diff(byName(strings.Split(string(data), "\x00")), reported); d != "" {
				t.Errorf("the program has (-), the receipt says (+):\n%s", d)
			}
			for _, e := range env {
				if got, ok := reported[e.Name]; !ok || got != string(e.Value) {
					t.Errorf("%s is %q, %v; planned %q", e.Name, got, ok, e.Value)
				}
			}
		})
	}
}

// TestReceiptShowsNoSecret: neither planned ones nor what an image, a container
// runtime or a profile brought along.
func TestReceiptShowsNoSecret(t *testing.T) {
	t.Parallel()
	env := []string{
		"HF_TOKEN=sentinel-planned", "IMAGE_API_KEY=sentinel-image", "HTTP_PROXY=http://u:sentinel@proxy:3128",
		"HEADER=Bearer sentinel-planned", "BORROWED=x-sentinel-of-another", "PLAIN=value", "EMPTY=",
	}
	w := witness{
		workload: "router", base: env[1:3], planned: env[:1], secrets: []string{"HF_TOKEN"}, key: []byte("k"),
		red: redact.New(map[string][]byte{"HF_TOKEN": []byte("sentinel-planned"), "OTHER": []byte("sentinel-of-another")}),
	}
	r := w.receipt(heldReport{Found: raws(env), Env: raws(env)})
	var hidden, open []string
	for _, v := range r.Env {
		if v.HMAC != "" {
			hidden = append(hidden, v.Name)
		} else {
			open = append(open, v.Name+"="+string(v.Value))
		}
		if strings.Contains(string(v.Value), "sentinel") {
			t.Errorf("the receipt shows %s=%s", v.Name, v.Value)
		}
	}
	if d := cmp.Diff([]string{"BORROWED", "HEADER", "HF_TOKEN", "HTTP_PROXY", "IMAGE_API_KEY"}, hidden); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"EMPTY=", "PLAIN=value"}, open); d != "" {
		t.Error(d)
	}
}

// TestOthersSecretsAreRedacted: a program that is told a secret by another one
// does not get it into its log either.
func TestOthersSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	a := launch(t, Spec{Argv: self("say", "GET /v1 authorization: Bearer sk-sent", "inel-1234\n"),
		Redact: map[string][]byte{"OPENAI_API_KEY": []byte("sk-sentinel-1234")}})
	e := a.run()
	if want := "GET /v1 authorization: Bearer [redacted:OPENAI_API_KEY]\n"; a.text() != want {
		t.Errorf("log = %q, want %q", a.text(), want)
	}
	if d := cmp.Diff([]string{"GET /v1 authorization: Bearer [redacted:OPENAI_API_KEY]"}, e.Log); d != "" {
		t.Error(d)
	}
}

func TestOverlayKeepsOneOfEachName(t *testing.T) {
	t.Parallel()
	o := overlay{Set: raws([]string{"A=plan", "L=/x", "N=new=1"}), Prepend: []string{"L"}}
	got := o.over([]string{"A=found", "L=/y", "B=", "junk"})
	slices.Sort(got)
	if d := cmp.Diff([]string{"A=plan", "B=", "L=/x:/y", "N=new=1"}, got); d != "" {
		t.Error(d)
	}
	if m := byName([]string{"A=1", "A=2", "=x", "junk", "E="}); !maps.Equal(m, map[string]string{"A": "1", "E": ""}) {
		t.Errorf("got %v", m)
	}
}
