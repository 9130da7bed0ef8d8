package labd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Report is the one line that the supervisor prints on stdout: the state of the
// lab when it is up, or why it is not.
type Report struct {
	State *State `json:"state,omitempty"`
	Error string `json:"error,omitempty"`
}

// Supervise brings up the lab of spec.json in dir, prints its Report on stdout,
// keeps it until stdin ends (hold false) or SIGTERM comes (in both modes), and
// takes it down whole. It returns an error when something could not be taken
// down.
func Supervise(dir string, hold bool, stdin io.Reader, stdout io.Writer) error {
	// Pdeathsig of the controller is tied to this thread.
	runtime.LockOSThread()
	stop := make(chan string, 3)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		s := <-term
		stop <- s.String()
	}()
	if !hold {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			stop <- "owner gone"
		}()
	}

	spec, err := ReadSpec(dir)
	if err != nil {
		return report(stdout, nil, err)
	}
	// The lock file came open and locked from the starter; it stays so until
	// this process has ended.
	syscall.CloseOnExec(lockFD)
	ctl, err := startCtl(spec)
	if err != nil {
		return errors.Join(report(stdout, nil, err), Remove(spec))
	}
	go func() {
		if r := ctl.report(); r.Error != "" || r.State == nil {
			_ = report(stdout, nil, errors.New(r.Error))
			stop <- "controller failed"
			return
		} else if err := finishState(r.State, ctl.pid); err != nil {
			_ = report(stdout, nil, err)
			stop <- "no state"
			return
		} else {
			_ = report(stdout, r.State, nil)
		}
		<-ctl.done
		stop <- "controller ended"
	}()
	fmt.Fprintln(os.Stderr, "stop:", <-stop)
	return takeDown(spec, ctl)
}

func report(w io.Writer, s *State, err error) error {
	r := Report{State: s}
	if err != nil {
		r.Error = err.Error()
	}
	_ = json.NewEncoder(w).Encode(r)
	return err
}

func finishState(s *State, ctlPID int) error {
	s.Supervisor, s.Ctl = os.Getpid(), ctlPID
	return writeJSON(s.Spec.Path("lab.json"), s)
}

// lockFD is the descriptor of the lock that the supervisor inherits.
const lockFD = 3

// Lock makes the lock file in the lab's directory and locks it. The supervisor
// must inherit it as descriptor 3: then there is no moment at which a live lab
// looks dead.
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock lab: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock lab: %s is in use", dir)
	}
	return f, nil
}

// Alive says whether a supervisor holds the lab in dir.
func Alive(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

type ctlProcess struct {
	pid  int
	out  *os.File
	done chan struct{}
}

// startCtl starts the controller in its namespaces. It dies with the
// supervisor's main thread, whatever ends that.
func startCtl(spec Spec) (*ctlProcess, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	p, err := os.StartProcess(spec.Self, []string{"lab", "ctl", spec.Dir}, &os.ProcAttr{
		Dir:   "/",
		Env:   daemonEnv(),
		Files: []*os.File{nil, w, os.Stderr},
		Sys: &syscall.SysProcAttr{
			Setsid:    true,
			Pdeathsig: syscall.SIGKILL,
			Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET |
				syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start controller: %w", err)
	}
	c := &ctlProcess{pid: p.Pid, out: r, done: make(chan struct{})}
	go func() {
		_, _ = p.Wait()
		close(c.done)
	}()
	return c, nil
}

func (c *ctlProcess) report() Report {
	line, err := bufio.NewReader(c.out).ReadBytes('\n')
	var r Report
	if err != nil {
		r.Error = "controller ended before the lab was up; see supervisor.log"
	} else if err := json.Unmarshal(line, &r); err != nil {
		r.Error = "controller said " + string(line)
	}
	return r
}

// takeDown ends every process of the lab and removes what it left.
func takeDown(spec Spec, ctl *ctlProcess) error {
	mounts, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", ctl.pid))
	killClients(spec, mounts)
	_ = syscall.Kill(ctl.pid, syscall.SIGKILL)
	select {
	case <-ctl.done:
	case <-time.After(30 * time.Second):
		return errors.New("controller does not end 30s after SIGKILL")
	}
	return Remove(spec)
}

// ClientEnv is the variable by which the clients that run in a lab are known.
// Its value is the lab's directory.
const ClientEnv = "LAB_DIR"

// killClients kills the programs that tests started on the controller node.
// They are in the host's PID namespace, so they do not end with the lab's. They
// are known by the controller's mount namespace, if it is given, or by their
// environment.
func killClients(spec Spec, mounts string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	mark := []byte(ClientEnv + "=" + spec.Dir + "\x00")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		ns, _ := os.Readlink("/proc/" + e.Name() + "/ns/mnt")
		env, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		if ns != "" && ns == mounts || bytes.Contains(env, mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Remove removes what is left of a lab whose controller is dead: clients,
// control groups, files.
func Remove(spec Spec) error {
	killClients(spec, "")
	err := removeCgroups(spec.cgroup())
	var rm error
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		// Mounts of the dead namespaces may hold directories for a moment.
		if rm = os.RemoveAll(spec.Dir); rm == nil || time.Now().After(deadline) {
			break
		}
	}
	return errors.Join(err, rm)
}
