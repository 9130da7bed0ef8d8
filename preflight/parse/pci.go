package parse

import (
	"fmt"
	"regexp"
	"strings"
)

var bdfRE = regexp.MustCompile(`(?i)^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$`)

// BDF writes a PCI address as the kernel does: four digits of domain, lower
// case. It accepts a missing domain and upper case; ok is false for anything
// else.
func BDF(s string) (bdf string, ok bool) {
	m := bdfRE.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return "", false
	}
	domain := strings.ToLower(m[1])
	if domain == "" {
		domain = "0000"
	}
	if len(domain) > 4 && strings.Trim(domain[:len(domain)-4], "0") == "" {
		domain = domain[len(domain)-4:]
	}
	return strings.ToLower(fmt.Sprintf("%s:%s:%s.%s", domain, m[2], m[3], m[4])), true
}

// LocationBDF is the PCI address behind KFD's location_id (bus << 8 | devfn) and
// domain.
func LocationBDF(domain, location int64) string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", domain&0xffffffff, location>>8&0xff, location>>3&0x1f, location&7)
}
