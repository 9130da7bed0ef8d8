package parse

import (
	"regexp"
	"strings"
)

// PCIDevice is one device as lspci prints it.
type PCIDevice struct {
	BDF    string // empty in an excerpt that lost its heading
	Vendor string // four hex digits, where printed with -nn
	Device string
	Text   string
	// OffBus: configuration reads return all ones ("rev ff"): the device is
	// still listed, and gone.
	OffBus bool
	Line   string
	// Link is what was printed of the link, nil where nothing was.
	Link *PCILink
	// FatalErr and NonFatalErr are the device status bits.
	FatalErr, NonFatalErr bool
	// ACS holds the control flags that are on: ReqRedir, CmpltRedir, …; nil
	// where they were not printed.
	ACS []string
	// Hidden: the extended part was not readable for this user.
	Hidden bool
	Lines  []string
}

// PCILink is speed and width of a link.
type PCILink struct {
	Speed      float64 // GT/s
	Width      int
	Downgraded bool
}

var (
	lspciHead = regexp.MustCompile(`(?i)^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s+(.+)$`)
	idPair    = regexp.MustCompile(`(?i)\[([0-9a-f]{4}):([0-9a-f]{4})\]`)
	bareDev   = regexp.MustCompile(`(?i)\bDevice ([0-9a-f]{4})\b`)
	lnkSta    = regexp.MustCompile(`LnkSta:\s+Speed\s+([0-9.]+)\s*GT/s\s*(\([^)]*\))?,\s*Width\s+x(\d+)\s*(\([^)]*\))?`)
	acsOn     = regexp.MustCompile(`(\w+)\+`)
)

// Lspci reads any form of lspci's list: short, -nn, -vvv, or an excerpt of its
// status lines alone.
func Lspci(text string) []PCIDevice {
	var out []PCIDevice
	cur := func() *PCIDevice {
		if len(out) == 0 {
			out = append(out, PCIDevice{})
		}
		return &out[len(out)-1]
	}
	for _, l := range Lines(text) {
		if m := lspciHead.FindStringSubmatch(l); m != nil {
			bdf, ok := BDF(m[1])
			if !ok {
				continue
			}
			d := PCIDevice{BDF: bdf, Text: m[2], Line: l, OffBus: strings.Contains(strings.ToLower(m[2]), "(rev ff)")}
			if ids := idPair.FindStringSubmatch(m[2]); ids != nil {
				d.Vendor, d.Device = strings.ToLower(ids[1]), strings.ToLower(ids[2])
			} else if dev := bareDev.FindStringSubmatch(m[2]); dev != nil {
				d.Device = strings.ToLower(dev[1])
				if strings.Contains(m[2], "[AMD/ATI]") {
					d.Vendor = "1002"
				}
			}
			out = append(out, d)
			continue
		}
		t := strings.TrimSpace(l)
		switch {
		case strings.HasPrefix(t, "DevSta:"):
			d := cur()
			if d.Lines != nil && d.BDF == "" && d.Link != nil {
				// An excerpt without headings: status lines come in pairs.
				out = append(out, PCIDevice{})
				d = cur()
			}
			// "NonFatalErr+" holds the other word, so both are looked for whole.
			for _, w := range strings.Fields(t) {
				d.FatalErr = d.FatalErr || w == "FatalErr+"
				d.NonFatalErr = d.NonFatalErr || w == "NonFatalErr+"
			}
			d.Lines = append(d.Lines, t)
		case strings.HasPrefix(t, "LnkSta:"):
			m := lnkSta.FindStringSubmatch(t)
			if m == nil {
				continue
			}
			d := cur()
			speed, _ := float(m[1])
			width, _ := number(m[3])
			d.Link = &PCILink{Speed: speed, Width: int(width), Downgraded: strings.Contains(m[2]+m[4], "downgraded")}
			d.Lines = append(d.Lines, t)
		case strings.HasPrefix(t, "ACSCtl:"):
			d := cur()
			if d.ACS != nil && d.BDF == "" {
				out = append(out, PCIDevice{})
				d = cur()
			}
			d.ACS = []string{}
			for _, m := range acsOn.FindAllStringSubmatch(t, -1) {
				d.ACS = append(d.ACS, m[1])
			}
			d.Lines = append(d.Lines, t)
		case strings.Contains(t, "<access denied>"):
			cur().Hidden = true
		}
	}
	return out
}

// LinkSpeed reads a sysfs link speed such as "32.0 GT/s PCIe".
func LinkSpeed(s string) (float64, bool) {
	f, ok := float(s)
	return f, ok && f > 0
}
