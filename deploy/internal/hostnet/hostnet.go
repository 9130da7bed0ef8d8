// Package hostnet finds the address by which other hosts reach this one.
package hostnet

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// Link is a network interface with its addresses, best first.
type Link struct {
	Name  string
	Up    bool
	Addrs []net.IP
}

// Links lists the interfaces of this host.
func Links() ([]Link, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var out []Link
	for _, i := range list {
		n := Link{Name: i.Name, Up: i.Flags&net.FlagUp != 0}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			if ipn, ok := a.(*net.IPNet); ok {
				n.Addrs = append(n.Addrs, ipn.IP)
			}
		}
		out = append(out, n)
	}
	return out, nil
}

// bad says why an address cannot be a node's address, or "".
func bad(ip net.IP) string {
	switch {
	case ip.IsLoopback():
		return "loopback"
	case ip.IsLinkLocalUnicast():
		return "link-local"
	case ip.IsUnspecified(), ip.IsMulticast():
		return "not a host's"
	}
	return ""
}

// bridge says that an interface leads only to containers or virtual machines of
// the node itself.
func bridge(name string) bool {
	for _, p := range []string{"docker", "br-", "veth", "virbr", "cni", "flannel", "podman", "lxcbr", "lxdbr", "cali", "tunl"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// best is the address of an interface that others can use: IPv4 before IPv6.
func (n Link) best() net.IP {
	var six net.IP
	for _, ip := range n.Addrs {
		switch {
		case bad(ip) != "":
		case ip.To4() != nil:
			return ip
		case six == nil:
			six = ip
		}
	}
	return six
}

// Usable are the addresses by which others may reach the node.
func Usable(links []Link) map[string]string {
	out := map[string]string{}
	for _, n := range links {
		if ip := n.best(); n.Up && ip != nil && !bridge(n.Name) {
			out[n.Name] = ip.String()
		}
	}
	return out
}

// Pick finds the node's address: on the first interface of the list want
// that exists, or on the one of the default route, or on the only one there is.
func Pick(links []Link, want, route string, loopback bool) (name, addr string, err error) {
	if want != "" {
		var names []string
		for w := range strings.SplitSeq(want, ",") {
			w = strings.TrimSpace(w)
			names = append(names, w)
			for _, n := range links {
				if n.Name == w {
					return named(n, links)
				}
			}
		}
		return "", "", fmt.Errorf("find node address: no interface %s on this node, as network.interface of the site has it; it has %s", strings.Join(names, " or "), describe(links))
	}
	good := Usable(links)
	if a, ok := good[route]; ok {
		return route, a, nil
	}
	switch {
	case len(good) == 1:
		for name, a := range good {
			return name, a, nil
		}
	case len(good) > 1:
		return "", "", fmt.Errorf("find node address: there is no default route, and several interfaces could be meant: %s; name one in network.interface of the site file", describe(links))
	}
	if loopback {
		for _, n := range links {
			for _, ip := range n.Addrs {
				if n.Up && ip.IsLoopback() {
					return n.Name, ip.String(), nil
				}
			}
		}
	}
	return "", "", fmt.Errorf("find node address: no interface has an address that other nodes could reach; there is %s", describe(links))
}

// named judges an interface that the site names.
func named(n Link, links []Link) (name, addr string, err error) {
	switch ip := n.best(); {
	case bridge(n.Name):
		err = fmt.Errorf("find node address: %s is a bridge of this node's own containers, which other nodes cannot reach; there is %s", n.Name, describe(links))
	case !n.Up:
		err = fmt.Errorf("find node address: interface %s is down", n.Name)
	case ip == nil && len(n.Addrs) == 0:
		err = fmt.Errorf("find node address: interface %s has no address", n.Name)
	case ip == nil:
		err = fmt.Errorf("find node address: interface %s has only %s (%s), which other nodes cannot reach; there is %s", n.Name, n.Addrs[0], bad(n.Addrs[0]), describe(links))
	default:
		return n.Name, ip.String(), nil
	}
	return "", "", err
}

func describe(links []Link) string {
	var out []string
	for _, n := range links {
		var addrs []string
		for _, ip := range n.Addrs {
			addrs = append(addrs, ip.String())
		}
		state := ""
		if !n.Up {
			state = " down"
		}
		out = append(out, fmt.Sprintf("%s%s (%s)", n.Name, state, strings.Join(addrs, " ")))
	}
	return strings.Join(out, ", ")
}

// DefaultRoute is the interface of the IPv4 default route with the lowest
// metric, or "".
func DefaultRoute(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	name, least := "", 0
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		metric, err := strconv.Atoi(f[6])
		if err != nil {
			continue
		}
		if name == "" || metric < least {
			name, least = f[0], metric
		}
	}
	return name
}
