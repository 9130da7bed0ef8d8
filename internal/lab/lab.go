package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disagg/disagg/internal/lab/labd"
)

// Lab is a running cluster. Its methods may be used by several tests at once.
type Lab struct {
	dir   string
	super *supervisor // nil: the lab was started by hand

	mu       sync.Mutex
	state    labd.State
	baseline map[string]map[int]uint64 // node → process id → start time, of the node's daemons
}

// New starts a lab of n nodes that ends with the test, or skips the test with
// the reason when this machine cannot have one.
func New(t testing.TB, n int, opts ...Option) *Lab {
	t.Helper()
	skipUnlessPossible(t)
	l, err := Start(n, opts...)
	if err != nil {
		t.Fatalf("start lab: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("take lab down: %v", err)
		}
	})
	return l
}

func skipUnlessPossible(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short leaves out what needs the lab")
	}
	if err := Possible(); err != nil {
		t.Skipf("skipped: %v", err)
	}
}

// Start starts a lab of n nodes. It ends with Close, and at the latest with
// this process.
func Start(n int, opts ...Option) (*Lab, error) {
	if err := Possible(); err != nil {
		return nil, err
	}
	base, err := baseDir()
	if err != nil {
		return nil, err
	}
	sweep(base)
	id := make([]byte, 4)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	name := hex.EncodeToString(id)
	return start(filepath.Join(base, dirPrefix+name), name, n, false, opts)
}

// Up starts a lab by hand in dir, which must not exist. It stays until Down.
func Up(dir string, n int, opts ...Option) (*Lab, error) {
	if err := Possible(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if !carriesOverlay(filepath.Dir(dir)) {
		return nil, fmt.Errorf("start lab: the file system of %s cannot carry overlays", dir)
	}
	if labd.Alive(dir) {
		return nil, fmt.Errorf("start lab: there is one in %s; take it down first", dir)
	}
	if spec, err := labd.ReadSpec(dir); err == nil && spec.Dir == dir {
		if err := labd.Remove(spec); err != nil {
			return nil, fmt.Errorf("remove dead lab: %w", err)
		}
	}
	return start(dir, strings.ReplaceAll(strings.Trim(dir, "/"), "/", "-"), n, true, opts)
}

// Down takes down the lab that Up started in dir. A directory without a lab is
// no error.
func Down(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if !labd.Alive(dir) {
		if spec, err := labd.ReadSpec(dir); err == nil && spec.Dir == dir {
			return labd.Remove(spec)
		}
		return nil
	}
	state, err := labd.ReadState(dir)
	if err != nil {
		return err
	}
	if err := syscall.Kill(state.Supervisor, syscall.SIGTERM); err != nil {
		return fmt.Errorf("end lab: %w", err)
	}
	// The directory is the last thing to go.
	for deadline := time.Now().Add(closeTimeout); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("end lab: %s is still there after %s; see supervisor.log in it", dir, closeTimeout)
		}
	}
}

// Open attaches to the lab that Up started in dir.
func Open(dir string) (*Lab, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if !labd.Alive(dir) {
		return nil, fmt.Errorf("open lab: none is up in %s", dir)
	}
	state, err := labd.ReadState(dir)
	if err != nil {
		return nil, err
	}
	l := &Lab{dir: dir, state: state}
	return l, l.remember()
}

const (
	startTimeout = 2 * time.Minute
	closeTimeout = time.Minute
	dirPrefix    = "disagg-lab-"
)

func start(dir, id string, n int, hold bool, opts []Option) (*Lab, error) {
	self, err := helper()
	if err != nil {
		return nil, err
	}
	spec := labd.Spec{
		Dir: dir, ID: id, Self: self, Docker: true,
		GPUs: 8, NICs: 8, CPUs: 64, MemoryMB: 1_000_000,
	}
	for i := range n {
		spec.Nodes = append(spec.Nodes, fmt.Sprintf("node%d", i+1))
	}
	for _, o := range opts {
		o(&spec)
	}
	if spec.DockerSeed == wanted {
		if spec.DockerSeed, err = seed(); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make lab directory: %w", err)
	}
	lock, err := labd.Lock(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := spec.WriteSpec(); err != nil {
		return nil, err
	}
	super, state, err := supervise(spec, lock, hold)
	if err != nil {
		return nil, err
	}
	l := &Lab{dir: dir, super: super, state: *state}
	if err := l.remember(); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// Close takes the lab down and waits until nothing is left. It does nothing to
// a lab that was started by hand.
func (l *Lab) Close() error {
	if l.super == nil {
		return nil
	}
	return l.super.close()
}

// baseDir is a directory whose file system can carry the overlays that the lab
// and Docker mount.
func baseDir() (string, error) {
	dirs := []string{"/var/tmp", "/dev/shm"}
	for _, dir := range dirs {
		if carriesOverlay(dir) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find a place for the lab: none of %s can carry an overlay", strings.Join(dirs, " "))
}

// carriesOverlay says whether the file system of dir is no overlay itself.
func carriesOverlay(dir string) bool {
	const overlayfs = 0x794c7630
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type != overlayfs
}

// DirByHand is where a lab goes that is started by hand.
func DirByHand() (string, error) {
	base, err := baseDir()
	return filepath.Join(base, dirPrefix+"up"), err
}

// sweep removes labs whose supervisor was killed. Their processes died with
// it; control groups and files are left.
func sweep(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
	for _, dir := range dirs {
		if spec, err := labd.ReadSpec(dir); err == nil && spec.Dir == dir && !labd.Alive(dir) {
			_ = labd.Remove(spec)
		}
	}
}

// Dir is the lab's directory, which every node sees. It goes with the lab.
func (l *Lab) Dir() string { return l.dir }

// Nodes are the names of the nodes in order.
func (l *Lab) Nodes() []string { return append([]string(nil), l.spec().Nodes...) }

// NodeIP is the address of the i-th node, counted from zero.
func (l *Lab) NodeIP(i int) string { return labd.NodeAddr(i) }

// CtlIP is the address of the controller node.
func (l *Lab) CtlIP() string { return labd.CtlAddr() }

// SSH says how a client reaches the nodes by ssh.
type SSH struct{ Identity, KnownHosts string }

// SSH is the client's key and the nodes' host keys.
func (l *Lab) SSH() SSH {
	s := l.spec()
	return SSH{Identity: s.Path("ssh", "id"), KnownHosts: s.Path("ssh", "known_hosts")}
}

// NodeLocal is the path of a directory asked for with WithNodeLocal. What it
// holds differs from node to node; on the controller it is empty.
func (l *Lab) NodeLocal(name string) string { return l.spec().LocalDir(name) }

// Home is a user's home directory, which every node sees; root has one too.
func (l *Lab) Home(user string) string { return l.spec().Path("home", user) }

// TempDir is a fresh directory on the shared file system that goes with the
// test. Everybody may enter it.
func (l *Lab) TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(l.spec().Shared(), "t-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove test directory: %v", err)
		}
	})
	return dir
}

func (l *Lab) spec() labd.Spec {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Spec
}

// Lazy is a lab that the tests of a package share: the first one to ask starts
// it, and it ends with the test process.
type Lazy struct {
	// Nodes is the number of nodes.
	Nodes   int
	Options []Option

	once sync.Once
	lab  *Lab
	err  error
}

// Get is the lab, started if it is not; it skips the test when this machine
// cannot have one.
func (z *Lazy) Get(t testing.TB) *Lab {
	t.Helper()
	skipUnlessPossible(t)
	z.once.Do(func() { z.lab, z.err = Start(z.Nodes, z.Options...) })
	if z.err != nil {
		t.Fatalf("start lab: %v", z.err)
	}
	return z.lab
}

// Close takes the lab down if it was started; for TestMain.
func (z *Lazy) Close() error {
	z.once.Do(func() { z.err = context.Canceled })
	if z.lab == nil {
		return nil
	}
	return z.lab.Close()
}
