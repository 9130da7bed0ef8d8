package parse

import (
	"encoding/json"
	"regexp"
	"sort"
	"strings"
)

// Port is one port of an ionic NIC, as nicctl sees it. Values are as printed,
// empty where they were not.
type Port struct {
	NIC       string
	Name      string // eth1/1
	Speed     string // of the status where printed, else of the specification: 400G
	Admin     string
	Oper      string
	FEC       string
	PauseType string
	TxPause   string
	RxPause   string
	MTU       string
	// Downs is how often the link went down since the card started.
	Downs *int64
	Lines []string
}

// NicctlPort reads "nicctl show port" as text, with --brief, or with --json.
func NicctlPort(text string) []Port {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return nicctlPortJSON(text)
	}
	var out []Port
	for _, b := range nicBlocks(text) {
		var p *Port
		for _, l := range b.lines {
			label, value, ok := KV(l)
			if !ok {
				continue
			}
			if label == "port" {
				out = append(out, Port{NIC: b.nic, Name: inParens(value)})
				p = &out[len(out)-1]
				continue
			}
			if p != nil {
				p.set(label, value, l)
			}
		}
	}
	if len(out) == 0 {
		return nicctlPortBrief(text)
	}
	return out
}

func (p *Port) set(label, value, line string) {
	field := map[string]*string{
		"speed": &p.Speed, "port speed": &p.Speed, "admin state": &p.Admin, "operational status": &p.Oper,
		"fec type": &p.FEC, "pause type": &p.PauseType, "mtu": &p.MTU, "tx pause": &p.TxPause, "rx pause": &p.RxPause,
	}[label]
	switch {
	case field != nil:
		*field = value
		p.Lines = append(p.Lines, strings.TrimSpace(line))
	case label == "number of link down events":
		if n, ok := number(value); ok {
			p.Downs = &n
			p.Lines = append(p.Lines, strings.TrimSpace(line))
		}
	}
}

func inParens(s string) string {
	if _, r, ok := strings.Cut(s, "("); ok {
		return strings.TrimSuffix(strings.TrimSpace(r), ")")
	}
	return s
}

var speedWord = regexp.MustCompile(`^\d+G$`)

// nicctlPortBrief reads the table form by the kind of its words, because the
// columns differ between versions: a speed, two states, a pause type.
func nicctlPortBrief(text string) []Port {
	var out []Port
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		p := Port{Lines: []string{strings.TrimSpace(l)}}
		for _, w := range f {
			switch up := strings.ToUpper(w); {
			case speedWord.MatchString(up) && p.Speed == "":
				p.Speed = up
			case up == "UP" || up == "DOWN":
				if p.Admin == "" {
					p.Admin = up
				} else if p.Oper == "" {
					p.Oper = up
				}
			case up == "PFC" || up == "LINK" || up == "NONE" && p.PauseType == "" && p.Speed != "":
				p.PauseType = up
			case strings.HasPrefix(w, "eth"):
				p.Name = w
			case p.NIC == "":
				if bdf, ok := BDF(strings.Trim(w, "()")); ok {
					p.NIC = bdf
				}
			}
		}
		if p.Speed != "" && p.PauseType != "" && p.Admin != "" {
			if p.NIC == "" {
				p.NIC = f[0]
			}
			out = append(out, p)
		}
	}
	return out
}

// nicctlNode is the shape of nicctl's JSON: everything is a string.
type nicctlNode struct {
	NIC []struct {
		ID   string `json:"id"`
		Port []struct {
			Spec       map[string]any `json:"spec"`
			Status     map[string]any `json:"status"`
			Statistics map[string]any `json:"statistics"`
		} `json:"port"`
		Lif []struct {
			Spec   map[string]any `json:"spec"`
			Status map[string]any `json:"status"`
			QPs    any            `json:"queue_pair"`
		} `json:"lif"`
		PCIe     string `json:"pcie_bdf"`
		Eth      string `json:"eth_bdf"`
		Firmware string `json:"firmware_version"`
	} `json:"nic"`
}

func nicctlPortJSON(text string) []Port {
	var doc nicctlNode
	if json.Unmarshal([]byte(text), &doc) != nil {
		return nil
	}
	var out []Port
	for _, n := range doc.NIC {
		for _, e := range n.Port {
			p := Port{NIC: n.ID, Name: str(e.Spec["name"])}
			for _, part := range []map[string]any{e.Spec, e.Status} {
				for _, k := range sortedKeys(part) {
					v := str(part[k])
					p.set(strings.ReplaceAll(k, "_", " "), v, k+": "+v)
				}
			}
			// The statistics report has the same frame and no settings.
			if p.Admin != "" || p.PauseType != "" {
				out = append(out, p)
			}
		}
	}
	return out
}

// Card is one ionic card: its parts have PCI addresses of their own.
type Card struct {
	ID, PCIe, Eth string
	Firmware      string // of the running partition
}

// NicctlCard reads "nicctl show card -j".
func NicctlCard(text string) []Card {
	var doc nicctlNode
	if json.Unmarshal([]byte(text), &doc) != nil {
		return nil
	}
	var out []Card
	for _, n := range doc.NIC {
		c := Card{ID: n.ID, Firmware: n.Firmware}
		c.PCIe, _ = BDF(n.PCIe)
		c.Eth, _ = BDF(n.Eth)
		out = append(out, c)
	}
	return out
}

// PortStats are the counters of one port since the card started, or its rates.
type PortStats struct {
	NIC    string
	Values map[string]string
}

// NicctlStats reads "nicctl show port statistics -j", with or without --rate.
func NicctlStats(text string) []PortStats {
	var doc nicctlNode
	if json.Unmarshal([]byte(text), &doc) != nil {
		return nil
	}
	var out []PortStats
	for _, n := range doc.NIC {
		for _, e := range n.Port {
			s := PortStats{NIC: n.ID, Values: map[string]string{}}
			for k, v := range e.Statistics {
				s.Values[k] = str(v)
			}
			out = append(out, s)
		}
	}
	return out
}

// Lif is one logical interface of an ionic card.
type Lif struct {
	NIC, Netdev, Oper, MTU string
	// QPs is the number of queue pairs, where the report is about them: an empty
	// text when there is none.
	QPs *int
}

// NicctlLif reads "nicctl show lif -j" and "nicctl show rdma queue-pair -j".
func NicctlLif(text string) []Lif {
	var doc nicctlNode
	if json.Unmarshal([]byte(text), &doc) != nil {
		return nil
	}
	var out []Lif
	for _, n := range doc.NIC {
		for _, e := range n.Lif {
			l := Lif{NIC: n.ID, Netdev: str(e.Status["name"]), Oper: str(e.Status["oper_state"]), MTU: str(e.Spec["rdma_mtu"])}
			if e.QPs != nil {
				n := len(list(e.QPs))
				l.QPs = &n
			}
			out = append(out, l)
		}
	}
	return out
}

// Rate reads "33.16 Gbps" or "3.83 Mpps" as units a second.
func Rate(s string) (float64, bool) {
	f, ok := float(s)
	if !ok {
		return 0, false
	}
	unit := strings.TrimLeft(strings.TrimSpace(s), "0123456789.- ")
	switch {
	case strings.HasPrefix(unit, "K"), strings.HasPrefix(unit, "k"):
		f *= 1e3
	case strings.HasPrefix(unit, "M"):
		f *= 1e6
	case strings.HasPrefix(unit, "G"):
		f *= 1e9
	case strings.HasPrefix(unit, "T"):
		f *= 1e12
	}
	return f, true
}

// str is the text of a JSON scalar.
func str(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		if v {
			return "true"
		}
		return "false"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
