package parse

import (
	"net/netip"
	"strings"
)

// IPv4 is the first IPv4 address of an interface.
type IPv4 struct {
	Addr, Subnet, Line string
}

// IPAddr reads "ip -o -4 addr show": interface → its first address.
func IPAddr(text string) map[string]IPv4 {
	out := map[string]IPv4{}
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		if len(f) < 4 || f[2] != "inet" {
			continue
		}
		p, err := netip.ParsePrefix(f[3])
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimSuffix(f[1], ":"), "@")
		if _, have := out[name]; !have {
			out[name] = IPv4{Addr: p.Addr().String(), Subnet: p.Masked().String(), Line: strings.Join(f, " ")}
		}
	}
	return out
}
