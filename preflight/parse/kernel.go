package parse

import (
	"strconv"
	"strings"
)

// Properties reads a KFD properties file: decimal numbers by name.
func Properties(text string) map[string]int64 {
	out := map[string]int64{}
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		if len(f) != 2 {
			continue
		}
		// unique_id and hive_id use all 64 bits.
		if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
			out[f[0]] = int64(n)
		}
	}
	return out
}

// RASCounts reads a RAS counter file ("ue: 0" and "ce: 0" in either order, or
// ACA's banked form). nil means that the value is not there.
func RASCounts(text string) (ue, ce, de *int64) {
	for _, l := range Lines(text) {
		label, value, ok := KV(l)
		if !ok {
			continue
		}
		n, isNum := number(value)
		if !isNum {
			continue
		}
		switch label {
		case "ue":
			ue = &n
		case "ce":
			ce = &n
		case "de":
			de = &n
		}
	}
	return ue, ce, de
}

// State reads a sysfs enumeration such as "4: ACTIVE".
func State(s string) string {
	if _, w, ok := strings.Cut(s, ":"); ok {
		s = w
	}
	return strings.TrimSpace(s)
}

// RateGbps reads a sysfs rate such as "400 Gb/sec (4X NDR)".
func RateGbps(s string) (float64, bool) { return float(s) }

// Limit is one row of /proc/PID/limits; -1 means unlimited.
type Limit struct {
	Soft, Hard int64
	Line       string
}

// Limits reads /proc/PID/limits by the name in its first column.
func Limits(text string) map[string]Limit {
	out := map[string]Limit{}
	for _, l := range Lines(text) {
		if len(l) < 27 || strings.HasPrefix(l, "Limit ") {
			continue
		}
		name := strings.TrimSpace(l[:26])
		f := strings.Fields(l[26:])
		if len(f) < 2 {
			continue
		}
		soft, ok1 := limitValue(f[0])
		hard, ok2 := limitValue(f[1])
		if ok1 && ok2 {
			out[strings.ToLower(name)] = Limit{Soft: soft, Hard: hard, Line: strings.Join(strings.Fields(l), " ")}
		}
	}
	return out
}

func limitValue(s string) (int64, bool) {
	if s == "unlimited" {
		return -1, true
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// Cmdline reads a kernel command line: name → values in order; a bare word has
// the value "".
func Cmdline(text string) map[string][]string {
	out := map[string][]string{}
	for _, w := range strings.Fields(text) {
		k, v, _ := strings.Cut(w, "=")
		out[k] = append(out[k], v)
	}
	return out
}

// Status reads the "Name: value" lines of /proc/PID/status and its kin.
func Status(text string) map[string]string {
	out := map[string]string{}
	for _, l := range Lines(text) {
		if k, v, ok := strings.Cut(l, ":"); ok {
			out[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	return out
}

// Mount is one line of /proc/mounts.
type Mount struct {
	Source, Target, Type string
	Options              []string
	Line                 string
}

// ReadOnly says that the mount may not be written.
func (m Mount) ReadOnly() bool {
	for _, o := range m.Options {
		if o == "ro" {
			return true
		}
	}
	return false
}

// Network says that the mount's files are on another machine.
func (m Mount) Network() bool {
	switch m.Type {
	case "nfs", "nfs4", "lustre", "beegfs", "ceph", "cifs", "smb3", "gpfs", "wekafs", "glusterfs", "9p", "fuse.sshfs", "fuse.juicefs", "fuse.glusterfs":
		return true
	}
	return false
}

// Mounts reads /proc/mounts.
func Mounts(text string) []Mount {
	var out []Mount
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		if len(f) < 4 || strings.HasPrefix(f[0], "#") {
			continue
		}
		out = append(out, Mount{Source: octal(f[0]), Target: octal(f[1]), Type: f[2], Options: strings.Split(f[3], ","), Line: l})
	}
	return out
}

// octal undoes the \040 escapes of /proc/mounts.
func octal(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// MountOf finds the mount that holds a path: the one with the longest target.
func MountOf(mounts []Mount, path string) (Mount, bool) {
	var best Mount
	found := false
	for _, m := range mounts {
		if m.Target != "/" && path != m.Target && !strings.HasPrefix(path, m.Target+"/") {
			continue
		}
		if !found || len(m.Target) >= len(best.Target) {
			best, found = m, true
		}
	}
	return best, found
}

// Socket is one listening TCP socket.
type Socket struct {
	Addr string // as printed, or hexadecimal in the kernel's table
	Port int
	UID  int // -1 where not known
	// Inode finds the holder in /proc/PID/fd; 0 where not known.
	Inode uint64
	// Holder is the process, where the source prints it.
	Holder string
	Line   string
}

const tcpListen = "0A"

// ProcTCP reads /proc/net/tcp or tcp6: the listening sockets.
func ProcTCP(text string) []Socket {
	var out []Socket
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		if len(f) < 10 || f[3] != tcpListen {
			continue
		}
		addr, port, ok := strings.Cut(f[1], ":")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(port, 16, 16)
		if err != nil {
			continue
		}
		s := Socket{Addr: addr, Port: int(n), UID: -1, Line: strings.TrimSpace(l)}
		if uid, err := strconv.Atoi(f[7]); err == nil {
			s.UID = uid
		}
		s.Inode, _ = strconv.ParseUint(f[9], 10, 64)
		out = append(out, s)
	}
	return out
}

// TimeWait reads /proc/net/sockstat: how many TCP sockets wait for their address to
// be free again.
func TimeWait(text string) (n int, ok bool) {
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		if len(f) == 0 || f[0] != "TCP:" {
			continue
		}
		for i := 1; i+1 < len(f); i += 2 {
			if f[i] == "tw" {
				n, err := strconv.Atoi(f[i+1])
				return n, err == nil
			}
		}
	}
	return 0, false
}

// SS reads "ss -tlnp".
func SS(text string) []Socket {
	var out []Socket
	for _, l := range Lines(text) {
		f := strings.Fields(l)
		if len(f) < 5 || f[0] != "LISTEN" {
			continue
		}
		i := strings.LastIndexByte(f[3], ':')
		if i < 0 {
			continue
		}
		port, err := smallInt(f[3][i+1:], 65535)
		if err != nil {
			continue
		}
		s := Socket{Addr: f[3][:i], Port: port, UID: -1, Line: strings.Join(f, " ")}
		if len(f) > 5 {
			s.Holder = strings.TrimPrefix(strings.Join(f[5:], " "), "users:")
		}
		out = append(out, s)
	}
	return out
}

// ProcStat reads /proc/PID/stat: the name, which may hold anything, and the
// state letter behind it.
func ProcStat(text string) (name, state string) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return "", ""
	}
	name = text[open+1 : end]
	if f := strings.Fields(text[end+1:]); len(f) > 0 {
		state = f[0]
	}
	return name, state
}
