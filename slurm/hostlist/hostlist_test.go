package hostlist

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                      "",
		" , ,\n":                "",
		"n1":                    "n1",
		"gpu-[01,03]":           "gpu-01 gpu-03",
		"gpu-01, gpu-02 ":       "gpu-01 gpu-02",
		"a b\tc\n":              "a b c",
		"a,,b,":                 "a b",
		"gpu-[8-11]":            "gpu-8 gpu-9 gpu-10 gpu-11",
		"n[08-11]":              "n08 n09 n10 n11",
		"n[098-101]":            "n098 n099 n100 n101",
		"n[98-101]":             "n98 n99 n100 n101",
		"n[0001-2]":             "n0001 n0002",
		"n[1-3,7,10-11]":        "n1 n2 n3 n7 n10 n11",
		"n[8,09,10]":            "n8 n09 n10",
		"n[3,1,1]":              "n3 n1 n1",
		"n[1 - 2, 4]":           "n1 n2 n4",
		"rack[1-2]-n[08-10]":    "rack1-n08 rack1-n09 rack1-n10 rack2-n08 rack2-n09 rack2-n10",
		"n[1-2][3-4]":           "n13 n14 n23 n24",
		"n[1-2]-ib":             "n1-ib n2-ib",
		"n[1-2]a[3-4]b.example": "n1a3b.example n1a4b.example n2a3b.example n2a4b.example",
		"[1-2]":                 "1 2",
		"n9,n10,n11,n08":        "n9 n10 n11 n08",
		"n2,n1,n2":              "n2 n1 n2",
		"g[10,9],login_1.x-y":   "g10 g9 login_1.x-y",
		"n[999999999999999]":    "n999999999999999",
	}
	for in, want := range tests {
		got, err := Expand(in)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("Expand(%q) = %v, %v; want %s", in, got, err, want)
		}
	}
}

func TestExpandRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"n[a-c]":                       `column 3: "a" is not a number`,
		"n[1-c]":                       `column 5: "c" is not a number`,
		"n[1- c]":                      `column 6: "c" is not a number`,
		"n[2-1]":                       `column 3: range 2-1 runs backwards`,
		"n[10-9]":                      `column 3: range 10-9 runs backwards`,
		"n[1-2":                        `column 2: '[' is not closed`,
		"n[1[2]]":                      `column 2: '[' is not closed`,
		"n1-2]":                        `column 5: ']' without a '[' before it`,
		"a,n[]":                        `column 5: a number is missing`,
		"n[1,,2]":                      `column 5: a number is missing`,
		"n[1-]":                        `column 5: a number is missing`,
		"n[-2]":                        `column 3: a number is missing`,
		"n[1-2-3]":                     `column 5: "2-3" is not a number`,
		"n[1-010]":                     `column 3: range 1-010 pads its ends differently; write both with the same number of digits`,
		"n[1-65537]":                   `column 3: range 1-65537 holds more than 65536 hosts`,
		"n[1-40000,1-40000]":           `column 11: more than 65536 hosts`,
		"a[1-300]b[1-300]":             `column 1: more than 65536 hosts`,
		"x,a[1-60000],b[1-10000]":      `column 14: more than 65536 hosts`,
		"n[1-9999999999999999]":        `column 5: 9999999999999999 has more than 15 digits`,
		"n[1-99999999999999999999999]": `column 5: 99999999999999999999999 has more than 15 digits`,
		"a,-x":                         `column 3: a host name cannot begin with '-'`,
		"--help":                       `column 1: a host name cannot begin with '-'`,
		".x":                           `column 1: a host name cannot begin with '.'`,
		"n1;reboot":                    `column 3: ';' cannot be part of a host name`,
		"n$(id)":                       `column 2: '$' cannot be part of a host name`,
		"knötchen":                     `column 3: 'ö' cannot be part of a host name`,
		"n\x00":                        `column 2: '\x00' cannot be part of a host name`,
		"n*":                           `column 2: '*' cannot be part of a host name`,
	}
	for in, want := range tests {
		got, err := Expand(in)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || err.Error() != fmt.Sprintf("host list %q: %s", in, want) || got != nil {
			t.Errorf("Expand(%q) = %v, %v; want error %s", in, got, err, want)
		}
	}
}

func TestCompress(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                              "",
		"n1":                            "n1",
		"n1 n2":                         "n[1-2]",
		"n9 n10 n11 n08":                "n[9-11,08]",
		"n8 n09 n10 n11":                "n[8,09-11]",
		"n098 n099 n100 n101":           "n[098-101]",
		"n99 n100 n101":                 "n[99-101]",
		"n3 n2 n1":                      "n[3,2,1]",
		"n1 n1":                         "n[1,1]",
		"n1-ib n2-ib n3-ib":             "n1-ib,n2-ib,n3-ib",
		"rack1-n1 rack1-n2 rack2-n1":    "rack1-n[1-2],rack2-n1",
		"a b a":                         "a,b,a",
		"a1 b a2 a3":                    "a1,b,a[2-3]",
		"1 2 3":                         "[1-3]",
		"n n1 n2":                       "n,n[1-2]",
		"n1234567890123456 n2":          "n1234567890123456,n2",
		"n999999999999999 n1":           "n[999999999999999,1]",
		"n0 n1 n01 n001":                "n[0-1,01,001]",
		"g1.example.com g2.example.com": "g1.example.com,g2.example.com",
	}
	for in, want := range tests {
		if got := Compress(strings.Fields(in)); got != want {
			t.Errorf("Compress(%s) = %q, want %q", in, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	hosts, err := Validate(" rack[1-2]-n[08-09] ", 4)
	want := []string{"rack1-n08", "rack1-n09", "rack2-n08", "rack2-n09"}
	if diff := cmp.Diff(want, hosts); err != nil || diff != "" {
		t.Errorf("error %v, diff %s", err, diff)
	}
	if hosts, err := Validate("a b", 0); err != nil || len(hosts) != 2 {
		t.Errorf("got %v, %v", hosts, err)
	}
	refused := []struct {
		in    string
		count int
		want  []string
	}{
		{"gpu-01,gpu-01", 2, []string{`host list "gpu-01,gpu-01" names gpu-01 more than once`}},
		{"n[1-3,2-3]", 0, []string{`host list "n[1-3,2-3]" names n2 more than once`, `host list "n[1-3,2-3]" names n3 more than once`}},
		{"a,,b", 0, []string{`host list "a,,b": column 3: an element is empty`}},
		{",a", 0, []string{`host list ",a": column 1: an element is empty`}},
		{"n[1,2],", 0, []string{`host list "n[1,2],": column 7: an element is empty`}},
		{"gpu-[01,03],a, ", 2, []string{
			`host list "gpu-[01,03],a, ": column 14: an element is empty`,
			`host list "gpu-[01,03],a, " is 3 hosts, not 2: gpu-01 gpu-03 a`}},
		{"", 1, []string{`host list "" is 0 hosts, not 1: `}},
		{"n[", 1, []string{`host list "n[": column 2: '[' is not closed`}},
	}
	for _, tt := range refused {
		if _, err := Validate(tt.in, tt.count); err == nil || err.Error() != strings.Join(tt.want, "\n") {
			t.Errorf("Validate(%q, %d): %v\nwant %q", tt.in, tt.count, err, tt.want)
		}
	}
}

// FuzzExpand looks for expressions that crash, exceed the limit, or give names
// that do not survive Compress.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"n[1-2]-ib", "rack[1-2]-n[08-10]", "a,,b", "n[1, 2]", "n[98-101]", "n[a-c]", "n[2-1]", "n[1[2]]", "[1-2],x", "n[1-99999]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		hosts, err := Expand(s)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Pos < 0 || syntax.Pos > len(s) {
				t.Fatalf("error %v has no place", err)
			}
			return
		}
		if len(hosts) > MaxHosts {
			t.Fatalf("%d hosts", len(hosts))
		}
		roundTrip(t, hosts)
		_, _ = Validate(s, 1)
	})
}

// FuzzCompress builds host names from a few letters and digits, so that most
// inputs hold runs, and looks for lists that do not come back.
func FuzzCompress(f *testing.F) {
	f.Add([]byte("n9 n10 n11 n08"))
	f.Add([]byte("n099 n100 n0100 n1"))
	f.Add([]byte("a a1 a1b a2b 7 8 09"))
	f.Fuzz(func(t *testing.T, b []byte) {
		const letters = "0123456789 n-"
		name := make([]byte, len(b))
		for i, c := range b {
			name[i] = c
			if !isNameByte(c) {
				name[i] = letters[int(c)%len(letters)]
			}
		}
		var hosts []string
		for _, h := range strings.Fields(string(name)) {
			if h[0] != '-' && h[0] != '.' {
				hosts = append(hosts, h)
			}
		}
		roundTrip(t, hosts)
	})
}

func roundTrip(t *testing.T, hosts []string) {
	t.Helper()
	text := Compress(hosts)
	back, err := Expand(text)
	if err != nil {
		t.Fatalf("Compress(%q) = %q, which does not expand: %v", hosts, text, err)
	}
	if strings.Join(back, ",") != strings.Join(hosts, ",") {
		t.Fatalf("Compress(%q) = %q, which expands to %q", hosts, text, back)
	}
}
