package ssh

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kevinburke/ssh_config"

	"github.com/disagg/disagg/models"
)

// maxHops bounds a route; a longer one is a circle.
const maxHops = 8

// hop is one host on the way to a node, fully resolved.
type hop struct {
	alias          string // as it was asked for
	host           string
	port           int
	user           string
	identities     []string
	identitiesOnly bool
	hostKeyAlias   string
	knownHosts     []string
}

func (h hop) addr() string { return net.JoinHostPort(h.host, strconv.Itoa(h.port)) }

// keyAddr is the name under which the host's key is known.
func (h hop) keyAddr() string {
	if h.hostKeyAlias != "" {
		return net.JoinHostPort(h.hostKeyAlias, "22")
	}
	return h.addr()
}

// String names the hop the way a person would type it.
func (h hop) String() string {
	s := h.user + "@" + h.host
	if h.port != 22 {
		s += ":" + strconv.Itoa(h.port)
	}
	if h.alias != h.host {
		s = h.alias + " (" + s + ")"
	}
	return s
}

// resolver turns names into hops by the site file and ssh_config.
type resolver struct {
	site       models.SSHSite
	cfg        *ssh_config.Config
	home, user string
}

func newResolver(site models.SSHSite, home, user string) (*resolver, error) {
	r := &resolver{site: site, home: home, user: user, cfg: &ssh_config.Config{}}
	file := site.Config
	if file == "" {
		file = filepath.Join(home, ".ssh", "config")
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && site.Config == "" {
		return r, nil // most users have none
	}
	if err != nil {
		return nil, fmt.Errorf("read ssh configuration: %w", err)
	}
	if r.cfg, err = ssh_config.DecodeBytes(data); err != nil {
		return nil, fmt.Errorf("read ssh configuration %s: %w; ssh.config in the site file can name another one", file, err)
	}
	return r, nil
}

// route lists the hops to a node, the node last.
func (r *resolver) route(node string) ([]hop, error) {
	target, err := r.hop(node, "", 0, true)
	if err != nil {
		return nil, err
	}
	via, err := r.get(node, "ProxyJump")
	if err != nil {
		return nil, err
	}
	return r.before(cmp.Or(r.site.ProxyJump, via), node, []hop{target})
}

// before puts the jump hosts of a ProxyJump value before what is known of the
// route.
func (r *resolver) before(jumps, of string, rest []hop) ([]hop, error) {
	if jumps == "" || strings.EqualFold(jumps, "none") {
		cmd, err := r.get(of, "ProxyCommand")
		if err != nil {
			return nil, err
		}
		if cmd != "" && !strings.EqualFold(cmd, "none") {
			return nil, fmt.Errorf("ssh configuration sets ProxyCommand for %s, which is not supported; use ProxyJump", of)
		}
		return rest, nil
	}
	specs := strings.Split(jumps, ",")
	hops := make([]hop, 0, len(specs))
	for _, s := range specs {
		h, err := r.jumpHop(strings.TrimSpace(s))
		if err != nil {
			return nil, err
		}
		hops = append(hops, h)
	}
	all := append(hops, rest...)
	if len(all) > maxHops {
		return nil, fmt.Errorf("the route to %s has more than %d hops: %s; ProxyJump goes in a circle", rest[len(rest)-1].alias, maxHops, names(all))
	}
	// Only the first of several jump hosts is reached by its own ProxyJump.
	next, err := r.get(hops[0].alias, "ProxyJump")
	if err != nil {
		return nil, err
	}
	return r.before(next, hops[0].alias, all)
}

func names(hops []hop) string {
	var out []string
	for _, h := range hops {
		out = append(out, h.alias)
	}
	return strings.Join(out, " → ")
}

// key tells routes apart, also those that differ in the user only.
func key(hops []hop) string {
	var out []string
	for _, h := range hops {
		out = append(out, h.user+"@"+h.addr())
	}
	return strings.Join(out, " ")
}

// jumpHop reads [user@]host[:port] or ssh://[user@]host[:port].
func (r *resolver) jumpHop(spec string) (hop, error) {
	rest := strings.TrimPrefix(spec, "ssh://")
	user, host, ok := strings.Cut(rest, "@")
	if !ok {
		user, host = "", rest
	}
	port := 0
	if h, p, err := net.SplitHostPort(host); err == nil {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > 65535 {
			return hop{}, fmt.Errorf("jump host %q: %q is not a port", spec, p)
		}
		host, port = h, n
	}
	if host == "" || strings.ContainsAny(host, " /@") {
		return hop{}, fmt.Errorf("jump host %q is not [user@]host[:port]", spec)
	}
	return r.hop(strings.Trim(host, "[]"), user, port, false)
}

// hop resolves one name. What the site says of nodes holds for nodes only.
func (r *resolver) hop(alias, user string, port int, node bool) (hop, error) {
	h := hop{alias: alias}
	values := map[string]string{}
	for _, key := range []string{"HostName", "User", "Port", "IdentitiesOnly", "HostKeyAlias", "UserKnownHostsFile"} {
		v, err := r.get(alias, key)
		if err != nil {
			return h, err
		}
		values[key] = v
	}
	if node {
		user, port = r.site.User, r.site.Port
	}
	h.user = cmp.Or(user, values["User"], r.site.User, r.user)
	if h.port = cmp.Or(port, 22); port == 0 && values["Port"] != "" {
		n, err := strconv.Atoi(values["Port"])
		if err != nil || n < 1 || n > 65535 {
			return h, fmt.Errorf("ssh configuration: Port %q of %s is not a port", values["Port"], alias)
		}
		h.port = n
	}
	h.host = cmp.Or(strings.NewReplacer("%%", "%", "%h", alias, "%n", alias).Replace(values["HostName"]), alias)
	h.hostKeyAlias = values["HostKeyAlias"]
	h.identitiesOnly = strings.EqualFold(values["IdentitiesOnly"], "yes")

	own, err := r.cfg.GetAll(alias, "IdentityFile")
	if err != nil {
		return h, fmt.Errorf("ssh configuration of %s: %w", alias, err)
	}
	for _, f := range slices.Concat(r.site.Identity, own) {
		h.identities = append(h.identities, r.path(f, h))
	}
	if len(h.identities) == 0 {
		for _, f := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			h.identities = append(h.identities, filepath.Join(r.home, ".ssh", f))
		}
	}
	files := r.site.KnownHosts
	if len(files) == 0 {
		files = append(strings.Fields(cmp.Or(values["UserKnownHostsFile"], "~/.ssh/known_hosts ~/.ssh/known_hosts2")),
			"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
	}
	for _, f := range files {
		h.knownHosts = append(h.knownHosts, r.path(f, h))
	}
	return h, nil
}

// get asks ssh_config for one value.
func (r *resolver) get(alias, key string) (string, error) {
	v, err := r.cfg.Get(alias, key)
	if err != nil {
		return "", fmt.Errorf("ssh configuration of %s: %w", alias, err)
	}
	return strings.Trim(v, `"`), nil
}

// path replaces what ssh_config replaces in paths.
func (r *resolver) path(p string, h hop) string {
	p = strings.Trim(p, `"`)
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		p = filepath.Join(r.home, rest)
	}
	return strings.NewReplacer("%%", "%", "%d", r.home, "%u", r.user, "%h", h.host, "%r", h.user, "%n", h.alias).Replace(p)
}
