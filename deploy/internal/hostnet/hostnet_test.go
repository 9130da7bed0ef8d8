package hostnet

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func link(name string, addrs ...string) Link {
	l := Link{Name: name, Up: true}
	for _, a := range addrs {
		l.Addrs = append(l.Addrs, net.ParseIP(a))
	}
	return l
}

func down(l Link) Link {
	l.Up = false
	return l
}

func TestPick(t *testing.T) {
	t.Parallel()
	lo := link("lo", "127.0.0.1", "::1")
	eno := link("eno1", "fe80::1", "10.0.0.5")
	ib := link("ib0", "fd00::7", "192.168.7.5")
	docker := link("docker0", "172.17.0.1")
	tests := []struct {
		name, want, route string
		links             []Link
		loopback          bool
		iface, addr, err  string
	}{
		{"named", "ib0", "eno1", []Link{lo, eno, ib}, false, "ib0", "192.168.7.5", ""},
		{"first of a list that exists", "bond0, eno1,ib0", "ib0", []Link{lo, eno, ib}, false, "eno1", "10.0.0.5", ""},
		{"default route", "", "eno1", []Link{lo, docker, eno, ib}, false, "eno1", "10.0.0.5", ""},
		{"the only one", "", "", []Link{lo, docker, eno}, false, "eno1", "10.0.0.5", ""},
		{"IPv6 where there is no IPv4", "six", "", []Link{link("six", "fe80::2", "2001:db8::1")}, false, "six", "2001:db8::1", ""},
		{"loopback where it is allowed", "", "", []Link{lo, docker}, true, "lo", "127.0.0.1", ""},
		{"an address before loopback", "", "", []Link{lo, eno}, true, "eno1", "10.0.0.5", ""},
		{"none", "", "", []Link{lo, docker}, false, "", "", "no interface has an address that other nodes could reach"},
		{"several without a route", "", "", []Link{eno, ib}, false, "", "", "eno1 (fe80::1 10.0.0.5), ib0"},
		{"unknown", "bond0,bond1", "eno1", []Link{lo, eno}, true, "", "", "no interface bond0 or bond1 on this node, as network.interface of the site has it; it has lo (127.0.0.1 ::1), eno1"},
		{"named loopback", "lo", "eno1", []Link{lo, eno}, true, "", "", "lo has only 127.0.0.1 (loopback)"},
		{"named link-local", "usb0", "eno1", []Link{link("usb0", "169.254.3.1"), eno}, false, "", "", "usb0 has only 169.254.3.1 (link-local)"},
		{"named bridge", "docker0", "eno1", []Link{docker, eno}, false, "", "", "docker0 is a bridge of this node's own containers"},
		{"named without address", "ib1", "eno1", []Link{link("ib1"), eno}, false, "", "", "ib1 has no address"},
		{"named and down", "ib0", "eno1", []Link{down(ib), eno}, false, "", "", "ib0 is down"},
		{"route over something unusable", "", "docker0", []Link{docker, eno}, false, "eno1", "10.0.0.5", ""},
		{"down does not count", "", "", []Link{down(ib), eno}, false, "eno1", "10.0.0.5", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			iface, addr, err := Pick(tt.links, tt.want, tt.route, tt.loopback)
			if iface != tt.iface || addr != tt.addr || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %q, %v", iface, addr, err)
			}
		})
	}
}

func TestUsable(t *testing.T) {
	t.Parallel()
	got := Usable([]Link{link("lo", "127.0.0.1"), link("eno1", "10.0.0.5"), down(link("eno2", "10.0.0.6")), link("veth1", "10.1.0.1"), link("br-0a1b", "172.18.0.1"), link("usb0", "169.254.0.1")})
	if d := cmp.Diff(map[string]string{"eno1": "10.0.0.5"}, got); d != "" {
		t.Error(d)
	}
}

func TestDefaultRoute(t *testing.T) {
	t.Parallel()
	const head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	tests := []struct{ name, table, want string }{
		{"one", head + "eno1\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\neno1\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n", "eno1"},
		{"the lowest metric", head + "ib0\t00000000\t0100000A\t0003\t0\t0\t300\t00000000\t0\t0\t0\neno1\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n", "eno1"},
		{"none", head + "eno1\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n", ""},
		{"half a default is none", head + "tun0\t00000000\t0100000A\t0003\t0\t0\t0\t00000080\t0\t0\t0\n", ""},
		{"garbage", "x y\n\n", ""},
	}
	for _, tt := range tests {
		file := filepath.Join(t.TempDir(), "route")
		if err := os.WriteFile(file, []byte(tt.table), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := DefaultRoute(file); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := DefaultRoute("/nonexistent"); got != "" {
		t.Errorf("no table: %q", got)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	links, err := Links()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Name == "lo" {
			return
		}
	}
	t.Errorf("no loopback among %+v", links)
}
