package parse

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	abiWarning = regexp.MustCompile(`Driver (\S+) does not support the kernel ABI of (\d+) \(supports (\d+) to (\d+)\) for device (\S+)`)
	noDriver   = regexp.MustCompile(`(?i)(?:no userspace device-specific driver found for|couldn't load driver) '?(\S+?)'?(?::|$|\s)`)
	gidRow     = regexp.MustCompile(`^\s*GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)(?:,\s*(.*))?$`)
)

// ABIMismatch is a provider library that does not fit the kernel driver.
type ABIMismatch struct {
	Driver         string
	Kernel, Lo, Hi string // the kernel's ABI, and the range the library supports
	Device         string
	Line           string
}

// ABIMismatches finds the warnings of libibverbs about providers that do not fit
// the kernel, or cannot be loaded.
func ABIMismatches(text string) []ABIMismatch {
	var out []ABIMismatch
	for _, l := range Lines(text) {
		if m := abiWarning.FindStringSubmatch(l); m != nil {
			dev := m[5][strings.LastIndexByte(m[5], '/')+1:]
			out = append(out, ABIMismatch{Driver: m[1], Kernel: m[2], Lo: m[3], Hi: m[4], Device: dev, Line: strings.TrimSpace(l)})
		} else if m := noDriver.FindStringSubmatch(l); m != nil {
			dev := m[1][strings.LastIndexByte(m[1], '/')+1:]
			out = append(out, ABIMismatch{Device: dev, Line: strings.TrimSpace(l)})
		}
	}
	return out
}

// IBVDevinfo reads "ibv_devinfo", with or without -v: one port each.
func IBVDevinfo(text string) []RDMAPort {
	var out []RDMAPort
	var dev RDMAPort
	var p *RDMAPort
	for _, l := range Lines(text) {
		if m := gidRow.FindStringSubmatch(l); m != nil {
			if p == nil {
				// An excerpt that begins inside a port.
				out = append(out, RDMAPort{Port: 1})
				p = &out[len(out)-1]
			}
			n, _ := strconv.Atoi(m[1])
			p.GIDs = append(p.GIDs, GID{Index: n, Addr: strings.TrimSuffix(m[2], ","), Type: strings.TrimSpace(m[3])})
			continue
		}
		label, value, ok := KV(l)
		if !ok {
			continue
		}
		switch label {
		case "hca_id":
			dev, p = RDMAPort{Device: value, Line: strings.TrimSpace(l)}, nil
		case "fw_ver":
			dev.Firmware = value
		case "vendor_id":
			dev.Vendor = strings.ToLower(value)
		case "port":
			n, _ := strconv.Atoi(value)
			dev.Port = n
			out = append(out, dev)
			p = &out[len(out)-1]
		}
		if p == nil {
			continue
		}
		switch label {
		case "state":
			word, _, _ := strings.Cut(value, " ")
			p.State = strings.TrimPrefix(word, "PORT_")
			p.Line = p.Device + ": " + strings.TrimSpace(l)
		case "active_mtu":
			word, _, _ := strings.Cut(value, " ")
			p.MTU = word
		case "link_layer":
			p.LinkLayer = value
		}
	}
	return out
}

// IBVDevices reads "ibv_devices".
func IBVDevices(text string) []RDMAPort {
	var out []RDMAPort
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		if len(f) == 2 && len(f[1]) == 16 && strings.Trim(strings.ToLower(f[1]), "0123456789abcdef") == "" {
			out = append(out, RDMAPort{Device: f[0], Line: strings.TrimSpace(l)})
		}
	}
	return out
}
