package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// agentLimit bounds the wait for an ssh agent, which may be forwarded over a
// connection that is dead.
const agentLimit = 5 * time.Second

// keyring gives the keys to log in with: identity files and those of the ssh
// agent.
type keyring struct {
	socket string
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)

	mu   sync.Mutex
	conn net.Conn
	ag   agent.ExtendedAgent
}

// offer are the keys for one hop and what is to be said of them when none is
// accepted.
type offer struct {
	signers []ssh.Signer
	notes   []string
}

// signers lists the keys for a hop: those of its identity files first, then the
// rest of the agent's, unless only the former are wanted. Servers hang up after
// a few keys, so the likely ones come first.
func (k *keyring) signers(ctx context.Context, h hop) offer {
	var o offer
	held, err := k.held(ctx)
	if err != nil {
		o.notes = append(o.notes, "ssh agent: "+err.Error())
	}
	taken := map[string]bool{}
	add := func(s ssh.Signer, from string) {
		id := string(s.PublicKey().Marshal())
		if taken[id] {
			return
		}
		taken[id] = true
		o.signers = append(o.signers, s)
		o.notes = append(o.notes, from+" "+ssh.FingerprintSHA256(s.PublicKey()))
	}
	for _, file := range h.identities {
		s, err := readKey(file)
		if errors.Is(err, fs.ErrNotExist) {
			// The agent may hold the key whose public half alone is here.
			if s = find(held, file); s == nil {
				continue
			}
		}
		if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
			if s = find(held, file); s == nil {
				o.notes = append(o.notes, file+" is locked with a passphrase and not in the ssh agent (ssh-add "+file+")")
				continue
			}
		} else if err != nil && s == nil {
			o.notes = append(o.notes, fmt.Sprintf("%s: %v", file, err))
			continue
		}
		if c := certificate(file, s); c != nil {
			add(c, file+"-cert.pub")
		}
		add(s, file)
	}
	if !h.identitiesOnly {
		for _, s := range held {
			add(s, "ssh agent")
		}
	}
	if len(o.signers) == 0 {
		o.notes = append(o.notes, "there is no key to log in with; looked for "+strings.Join(h.identities, ", "))
	}
	return o
}

// held are the agent's keys; none without an agent.
func (k *keyring) held(ctx context.Context) ([]ssh.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.socket == "" {
		return nil, nil
	}
	if k.ag == nil {
		ctx, cancel := context.WithTimeout(ctx, agentLimit)
		defer cancel()
		c, err := k.dial(ctx, "unix", k.socket)
		if err != nil {
			return nil, err
		}
		k.conn, k.ag = c, agent.NewClient(c)
	}
	if err := k.conn.SetDeadline(time.Now().Add(agentLimit)); err != nil {
		return nil, err
	}
	s, err := k.ag.Signers()
	if err != nil {
		k.conn.Close()
		k.conn, k.ag = nil, nil
		return nil, err
	}
	// Signing may ask a person to touch a token.
	return s, k.conn.SetDeadline(time.Time{})
}

func (k *keyring) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		return nil
	}
	err := k.conn.Close()
	k.conn, k.ag = nil, nil
	return err
}

func readKey(file string) (ssh.Signer, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return ssh.ParsePrivateKey(b)
}

// find finds an identity file's key among the agent's, by its public half.
func find(held []ssh.Signer, file string) ssh.Signer {
	pub := publicKey(file + ".pub")
	if pub == nil {
		return nil
	}
	for _, s := range held {
		if bytes.Equal(s.PublicKey().Marshal(), pub.Marshal()) {
			return s
		}
	}
	return nil
}

// certificate makes a signer of a key and the certificate beside its file.
func certificate(file string, s ssh.Signer) ssh.Signer {
	cert, ok := publicKey(file + "-cert.pub").(*ssh.Certificate)
	if !ok {
		return nil
	}
	c, err := ssh.NewCertSigner(cert, s)
	if err != nil {
		return nil // of another key
	}
	return c
}

func publicKey(file string) ssh.PublicKey {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	pub, _, _, _, err := ssh.ParseAuthorizedKey(b)
	if err != nil {
		return nil
	}
	return pub
}
