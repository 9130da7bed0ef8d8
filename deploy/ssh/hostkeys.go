package ssh

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/disagg/disagg/deploy"
)

// hostKeys checks a hop's key against its known_hosts files.
type hostKeys struct {
	hop   hop
	files []string // those that exist
	check ssh.HostKeyCallback
}

func newHostKeys(h hop) (*hostKeys, error) {
	k := &hostKeys{hop: h}
	for _, f := range h.knownHosts {
		if _, err := os.Stat(f); err == nil {
			k.files = append(k.files, f)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, &deploy.Fault{Class: deploy.ClassSSHHostKey, Msg: fmt.Sprintf("%s: read known hosts: %v", h, err)}
		}
	}
	var err error
	if k.check, err = knownhosts.New(k.files...); err != nil {
		return nil, &deploy.Fault{Class: deploy.ClassSSHHostKey, Msg: fmt.Sprintf("%s: read known hosts: %v", h, err)}
	}
	return k, nil
}

// verify is an ssh.HostKeyCallback whose errors say what to do.
func (k *hostKeys) verify(addr string, remote net.Addr, key ssh.PublicKey) error {
	err := k.check(addr, remote, key)
	if err == nil {
		return nil
	}
	shown := key.Type() + " " + ssh.FingerprintSHA256(key)
	name := knownhosts.Normalize(addr)
	if r, ok := errors.AsType[*knownhosts.RevokedError](err); ok {
		return &deploy.Fault{Class: deploy.ClassSSHHostKey,
			Msg: fmt.Sprintf("%s shows key %s, which %s:%d marks as revoked", k.hop, shown, r.Revoked.Filename, r.Revoked.Line)}
	}
	ke, ok := errors.AsType[*knownhosts.KeyError](err)
	if !ok {
		return &deploy.Fault{Class: deploy.ClassSSHHostKey, Msg: fmt.Sprintf("check host key of %s: %v", k.hop, err)}
	}
	if len(ke.Want) == 0 {
		file := "a known_hosts file"
		if len(k.hop.knownHosts) > 0 {
			file = k.hop.knownHosts[0]
		}
		return &deploy.Fault{Class: deploy.ClassSSHHostKey,
			Msg:  fmt.Sprintf("the host key of %s is not known: it shows %s, and %s has no entry for %s", k.hop, shown, k.where(), name),
			Hint: fmt.Sprintf("if that is its key: ssh-keyscan -p %d %s >> %s", k.hop.port, k.hop.host, file)}
	}
	w := ke.Want[0]
	for _, other := range ke.Want {
		if other.Key.Type() == key.Type() {
			w = other
			break
		}
	}
	return &deploy.Fault{Class: deploy.ClassSSHHostKey,
		Msg: fmt.Sprintf("the host key of %s has changed: %s:%d holds %s %s, the host shows %s; most likely it was re-imaged, else somebody is in between",
			k.hop, w.Filename, w.Line, w.Key.Type(), ssh.FingerprintSHA256(w.Key), shown),
		Hint: fmt.Sprintf("when its administrator confirms that: ssh-keygen -R '%s' -f %s, then ssh-keyscan -p %d %s >> %s", name, w.Filename, k.hop.port, k.hop.host, w.Filename)}
}

func (k *hostKeys) where() string {
	if len(k.files) == 0 {
		return "none of " + strings.Join(k.hop.knownHosts, ", ") + " exists and"
	}
	return strings.Join(k.files, " or ")
}

// algorithms are those of the keys that are known for the host, so that it shows
// one of them and not another that it has as well; nil: none is known.
func (k *hostKeys) algorithms() []string {
	// Asking for a key that nobody has makes the check tell those it knows.
	nobody, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		return nil
	}
	ke, ok := errors.AsType[*knownhosts.KeyError](k.check(k.hop.keyAddr(), &net.TCPAddr{IP: net.IPv4zero}, nobody))
	if !ok {
		return nil
	}
	var out []string
	for _, w := range ke.Want {
		algs := []string{w.Key.Type()}
		if w.Key.Type() == ssh.KeyAlgoRSA {
			algs = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, a := range algs {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}
