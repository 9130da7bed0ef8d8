package ssh

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"regexp"
	"runtime"
	"strings"
	"time"

	scp "github.com/bramvdbogaerde/go-scp"
	"golang.org/x/crypto/ssh"

	"github.com/disagg/disagg/deploy"
	"github.com/disagg/disagg/deploy/internal/tailbuf"
)

// maxAnswer bounds what a small remote command may say.
const maxAnswer = 256 << 10

// safePath is what a path on a node may consist of: nothing that any shell
// would read as anything but itself.
func safePath(p string) bool {
	return regexp.MustCompile(`^/[A-Za-z0-9_./+-]+$`).MatchString(p)
}

// place is where the binary is, or will be, on a node. Its name is its hash, so
// that it is copied once, and never replaced while it runs.
type place struct {
	binary
	dir  string // as a shell reads it
	name string
}

func (t *Transport) place() (place, error) {
	b, err := t.binary()
	if err != nil {
		return place{}, err
	}
	dir := t.opts.Site.Dir
	if dir != "" && !safePath(dir) {
		return place{}, fault("ssh.dir %q of the site file is not a plain absolute path (letters, digits and /_.+-)", dir)
	}
	if dir == "" {
		dir = "/tmp/disagg-$(id -u)"
	}
	return place{b, dir, "disagg-" + b.sum[:16]}, nil
}

// put makes sure that the binary is on the node and returns its path there.
func put(ctx context.Context, client *ssh.Client, p place) (string, error) {
	info, err := survey(ctx, client, p.dir, p.name)
	if err != nil {
		return "", err
	}
	if want := archNames()[runtime.GOARCH]; want != "" && info["arch"] != want {
		return "", fault("the node is %s, but this binary is for %s; use a binary for the node's architecture", info["arch"], want)
	}
	if info["sum"] == p.sum {
		return path.Join(info["dir"], p.name), nil
	}
	return upload(ctx, client, p.binary, info["dir"], p.name)
}

// archNames are the machine names of uname for the architectures of Go.
func archNames() map[string]string {
	return map[string]string{"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "ppc64le", "riscv64": "riscv64", "s390x": "s390x"}
}

// survey makes the directory and says what is there: dir, arch, and the sum of a
// file of that name.
func survey(ctx context.Context, client *ssh.Client, dir, name string) (map[string]string, error) {
	info, err := ask(ctx, client, `umask 077; d=`+dir+`; `+
		`mkdir -p "$d" 2>&1 || exit 1; `+
		`if [ -L "$d" ]; then echo "refuse=$d is a symbolic link"; `+
		`elif [ -O "$d" ]; then chmod 700 "$d"; echo "dir=$d"; else echo "refuse=$d belongs to somebody else"; fi; `+
		`find "$d" -maxdepth 1 -type f -name "disagg-*.new-*" -mmin +60 -exec rm -f {} + 2>/dev/null; `+ // halves of copies that broke off
		`echo "arch=$(uname -m)"; `+
		`if [ -f "$d/`+name+`" ]; then echo "sum=$(sha256sum "$d/`+name+`" | cut -c1-64)"; fi`)
	if err != nil {
		return nil, fmt.Errorf("look at the node: %w", err)
	}
	if why := info["refuse"]; why != "" {
		return nil, fault("%s, so no program is put there; set ssh.dir in the site file", why)
	}
	if !safePath(info["dir"]) {
		return nil, fault("the directory %q on the node is not a plain absolute path", info["dir"])
	}
	return info, nil
}

// upload copies the binary beside its place, checks it there, and moves it.
func upload(ctx context.Context, client *ssh.Client, b binary, dir, name string) (string, error) {
	tmp := path.Join(dir, name+".new-"+strings.ToLower(rand.Text()[:10]))
	if err := copyTo(ctx, client, b.data, tmp); err != nil {
		dropHalf(ctx, client, tmp)
		return "", fault("copy binary to %s: %v; is there room?", dir, err)
	}
	dst := path.Join(dir, name)
	info, err := ask(ctx, client, `s=$(sha256sum "`+tmp+`" | cut -c1-64); `+
		`if [ "$s" = `+b.sum+` ]; then chmod 700 "`+tmp+`" && mv -f "`+tmp+`" "`+dst+`" && echo "done=yes"; `+
		`else rm -f "`+tmp+`"; echo "sum=$s"; fi`)
	if err != nil {
		return "", fmt.Errorf("check copied binary: %w", err)
	}
	if info["done"] != "yes" {
		return "", fault("the binary arrived damaged in %s: its SHA-256 is %q, not %s; is the file system full, or sha256sum missing?", dir, info["sum"], b.sum)
	}
	return dst, nil
}

// copyTo copies with scp. Where that fails, because the node has none or because
// a login script prints into its protocol, the bytes go through cat; whether they
// arrived is seen afterwards in any case.
func copyTo(ctx context.Context, client *ssh.Client, data []byte, to string) error {
	c, err := scp.NewClientBySSH(client)
	if err != nil {
		return err
	}
	defer c.Close()
	serr := c.Copy(ctx, bytes.NewReader(data), to, "0700", int64(len(data)))
	if serr == nil || ctx.Err() != nil {
		return serr
	}
	s, err := client.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	said := &tailbuf.Buffer{}
	s.Stdin, s.Stderr = bytes.NewReader(data), said
	if err := s.Run("cat > " + to); err != nil {
		return fmt.Errorf("by scp: %w; by cat: %s", serr, said.Describe(err.Error()))
	}
	return nil
}

// halfLimit bounds the removal of half a copy.
const halfLimit = time.Second

// dropHalf removes half a copy, where the node still answers; where it does not,
// a later visit does.
func dropHalf(ctx context.Context, client *ssh.Client, tmp string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), halfLimit)
	defer cancel()
	_, _ = ask(ctx, client, `rm -f "`+tmp+`"`)
}

func fault(format string, args ...any) error {
	return &deploy.Fault{Class: deploy.ClassSSHBinary, Msg: fmt.Sprintf(format, args...)}
}

// ask runs a small POSIX shell script, one line without single quotes, and
// returns its lines of the form name=value. What login scripts print around it
// is ignored.
func ask(ctx context.Context, client *ssh.Client, script string) (map[string]string, error) {
	s, err := client.NewSession()
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	out, said := &limited{}, &tailbuf.Buffer{}
	s.Stdout, s.Stderr = out, said
	nonce := rand.Text()
	err = s.Run(`sh -c 'echo; echo ` + nonce + `-begin; ` + script + `; echo ` + nonce + `-end'`)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	_, answer, begun := strings.Cut(out.String(), "\n"+nonce+"-begin\n")
	answer, _, ended := strings.Cut(answer, nonce+"-end\n")
	if err != nil || !begun || !ended {
		if err == nil {
			err = errors.New("its answer is not whole")
		}
		return nil, fault("a command on the node failed: %s", said.Describe(tailbuf.Printable([]byte(err.Error()+" "+answer))))
	}
	info := map[string]string{}
	for line := range strings.Lines(answer) {
		if k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			info[k] = v
		}
	}
	return info, nil
}

// limited keeps the first bytes and swallows the rest.
type limited struct{ bytes.Buffer }

// Write never fails.
func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), maxAnswer-l.Len())])
	return len(p), nil
}
