package parse

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// RDMAPort is what one tool says of one port of one RDMA device. Empty fields
// were not printed.
type RDMAPort struct {
	Device    string
	Port      int
	State     string // ACTIVE, INIT, DOWN, …
	Phys      string // LINK_UP, POLLING, DISABLED, …
	Netdev    string
	Firmware  string
	Vendor    string // 0x1dd8
	LinkLayer string
	MTU       string // active MTU in bytes
	GIDs      []GID
	Line      string
}

// GID is one entry of a port's address table.
type GID struct {
	Index int
	Addr  string
	Type  string // "RoCE v2", "IB/RoCE v1", …; empty where not printed
	Dev   string
}

// V2 says that the entry is for routable RoCE.
func (g GID) V2() bool { return strings.Contains(strings.ToLower(g.Type), "v2") }

// IPv4 says that the entry holds an IPv4 address.
func (g GID) IPv4() bool {
	a := strings.ToLower(g.Addr)
	return strings.HasPrefix(a, "::ffff:") || strings.HasPrefix(a, "0000:0000:0000:0000:0000:ffff:")
}

// LinkLocal says that the entry is only good on its own segment.
func (g GID) LinkLocal() bool { return strings.HasPrefix(strings.ToLower(g.Addr), "fe80:") }

// Empty says that the entry holds no address.
func (g GID) Empty() bool { return strings.Trim(g.Addr, "0: ") == "" }

var rdmaLink = regexp.MustCompile(`^\s*(?:\d+:\s+)?link\s+(\S+?)/(\d+)\s+(.*)$`)

// RDMALink reads "rdma link show", as text or JSON.
func RDMALink(text string) []RDMAPort {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		return rdmaLinkJSON(text)
	}
	var out []RDMAPort
	for _, l := range Lines(text) {
		m := rdmaLink.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		n, _ := strconv.Atoi(m[2])
		p := RDMAPort{Device: m[1], Port: n, Line: strings.TrimSpace(l)}
		f := strings.Fields(m[3])
		for i := 0; i+1 < len(f); i++ {
			switch f[i] {
			case "state":
				p.State = f[i+1]
			case "physical_state":
				p.Phys = f[i+1]
			case "netdev":
				p.Netdev = f[i+1]
			}
		}
		out = append(out, p)
	}
	return out
}

func rdmaLinkJSON(text string) []RDMAPort {
	var rows []struct {
		Ifname string `json:"ifname"`
		Port   int    `json:"port"`
		State  string `json:"state"`
		Phys   string `json:"physical_state"`
		Netdev string `json:"netdev"`
	}
	if json.Unmarshal([]byte(text), &rows) != nil {
		return nil
	}
	var out []RDMAPort
	for _, r := range rows {
		out = append(out, RDMAPort{Device: r.Ifname, Port: r.Port, State: r.State, Phys: r.Phys, Netdev: r.Netdev,
			Line: "link " + r.Ifname + "/" + strconv.Itoa(r.Port) + " state " + r.State + " physical_state " + r.Phys})
	}
	return out
}

var rdmaDev = regexp.MustCompile(`^\s*\d+:\s+(\S+?):\s+node_type\s+\S+(?:\s+fw\s+(\S+))?`)

// RDMADev reads "rdma dev show": device → firmware version.
func RDMADev(text string) []RDMAPort {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		var rows []struct {
			Ifname string `json:"ifname"`
			FW     string `json:"fw"`
		}
		if json.Unmarshal([]byte(text), &rows) != nil {
			return nil
		}
		var out []RDMAPort
		for _, r := range rows {
			out = append(out, RDMAPort{Device: r.Ifname, Firmware: r.FW, Line: r.Ifname + ": fw " + r.FW})
		}
		return out
	}
	var out []RDMAPort
	for _, l := range Lines(text) {
		if m := rdmaDev.FindStringSubmatch(l); m != nil {
			out = append(out, RDMAPort{Device: m[1], Firmware: m[2], Line: strings.TrimSpace(l)})
		}
	}
	return out
}

// Counters are the counters of one device since it started.
type Counters struct {
	Device string
	Values map[string]int64
}

// RDMAStat reads "rdma -j statistic show".
func RDMAStat(text string) []Counters {
	var rows []map[string]any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&rows) != nil {
		return nil
	}
	var out []Counters
	for _, r := range rows {
		c := Counters{Device: str(r["ifname"]), Values: map[string]int64{}}
		for k, v := range r {
			if n, ok := v.(json.Number); ok && k != "port" && k != "ifindex" {
				if i, err := n.Int64(); err == nil {
					c.Values[k] = i
				}
			}
		}
		if c.Device != "" {
			out = append(out, c)
		}
	}
	return out
}

// EthtoolStat reads "ethtool -S X".
func EthtoolStat(text string) map[string]int64 {
	out := map[string]int64{}
	for _, l := range Lines(text) {
		name, value, ok := strings.Cut(l, ":")
		if !ok {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
			out[strings.TrimSpace(name)] = n
		}
	}
	return out
}

// EthtoolPause reads "ethtool -a X": whether link-level pause is on.
func EthtoolPause(text string) (rx, tx, ok bool) {
	for _, l := range Lines(text) {
		label, value, isKV := KV(l)
		if !isKV {
			continue
		}
		switch label {
		case "rx":
			rx, ok = value == "on", true
		case "tx":
			tx, ok = value == "on", true
		}
	}
	return rx, tx, ok
}
