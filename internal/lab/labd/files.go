package labd

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// writeFiles writes every file of the lab before anything is mounted. Files for
// /etc go to the upper directory of its overlay, so the host's stay untouched.
func writeFiles(s Spec, kids *children) error {
	dirs := map[string]fs.FileMode{
		s.Path("munge", "run"): 0o755, s.Path("slurm", "state"): 0o755, s.Path("ssh"): 0o755,
		s.Path("etc", "work"): 0o755, s.Path("etc", "upper", "slurm"): 0o755,
		s.Path("etc", "upper", "ssh", "ssh_config.d"): 0o755, s.Path("etc", "upper", "profile.d"): 0o755,
		s.Path("opt", "upper"): 0o755, s.Path("opt", "work"): 0o755,
		s.NodeRoot(): 0o755, s.Shared(): 0o1777, s.Path("home"): 0o755,
	}
	for _, n := range s.Nodes {
		for _, d := range []string{"bin", "log", "root", "docker", "spool"} {
			dirs[s.NodePath(n, d)] = 0o755
		}
		for _, name := range s.NodeLocal {
			dirs[s.NodePath(n, "local", name)] = 0o1777
		}
	}
	for _, name := range s.NodeLocal {
		dirs[s.LocalDir(name)] = 0o1777
	}
	for _, d := range s.SmallDisks {
		dirs[s.SmallDir(d.Name)] = 0o755
	}
	for d, mode := range dirs {
		if err := makeDir(d, mode); err != nil {
			return err
		}
	}
	key := make([]byte, 128)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	files := []file{
		{s.Path("munge", "key"), 0o400, string(key)},
		{s.Path("docker.json"), 0o644, dockerConfig},
		{s.Path("etc", "upper", "slurm", "slurm.conf"), 0o644, slurmConf(s)},
		{s.Path("etc", "upper", "slurm", "gres.conf"), 0o644, gresConf(s)},
		{s.Path("etc", "upper", "hosts"), 0o644, hosts(s)},
		// A login shell of an unprivileged user would not look there.
		{s.Path("etc", "upper", "profile.d", "lab.sh"), 0o644, "PATH=" + SearchPath + "\n"},
		// Nothing outside the lab can be reached: fail at once.
		{s.Path("etc", "upper", "resolv.conf"), 0o644, "# no name server\n"},
	}
	for _, n := range s.Nodes {
		files = append(files, file{s.NodePath(n, "boot_id"), 0o444, bootID()})
	}
	users, err := userFiles(s)
	if err != nil {
		return err
	}
	files = append(files, users...)
	for _, f := range files {
		if err := f.write(); err != nil {
			return err
		}
	}
	return sshFiles(s, kids)
}

type file struct {
	path string
	mode fs.FileMode
	text string
}

func (f file) write() error {
	if err := os.WriteFile(f.path, []byte(f.text), f.mode); err != nil {
		return fmt.Errorf("write lab file: %w", err)
	}
	return os.Chmod(f.path, f.mode)
}

func makeDir(path string, mode fs.FileMode) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make lab directory: %w", err)
	}
	perm := mode & 0o777
	if mode&0o1000 != 0 {
		perm |= fs.ModeSticky
	}
	return os.Chmod(path, perm)
}

// dockerConfig makes dockerd small: no bridge, no firewall rules, host network
// only, as on the clusters.
const dockerConfig = `{
  "bridge": "none", "iptables": false, "ip-forward": false, "ip-masq": false, "userland-proxy": false,
  "storage-driver": "overlay2", "hosts": ["unix:///run/docker.sock"],
  "exec-root": "/run/docker", "pidfile": "/run/docker.pid", "log-level": "warn"
}
`

func slurmConf(s Spec) string {
	var b strings.Builder
	fmt.Fprintf(&b, `ClusterName=lab
SlurmctldHost=%s(%s)
SlurmUser=root
AuthType=auth/munge
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=2
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
KillWait=5
MessageTimeout=10
SlurmdTimeout=30
SlurmctldPort=%s
SlurmdPort=6818
StateSaveLocation=%s
SlurmctldPidFile=/run/slurmctld.pid
SlurmctldLogFile=%s
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=%s
SlurmdLogFile=%s
`, ctlName, ctlAddr, ctldPort, s.Path("slurm", "state"), s.Path("slurm", "slurmctld.log"),
		s.NodePath("%n", "spool"), s.NodePath("%n", "slurmd.log"))
	for _, line := range s.SlurmConf {
		b.WriteString(line + "\n")
	}
	for i, n := range s.Nodes {
		fmt.Fprintf(&b, "NodeName=%s NodeAddr=%s CPUs=%d RealMemory=%d State=UNKNOWN", n, NodeAddr(i), s.CPUs, s.MemoryMB)
		if s.GPUs > 0 {
			fmt.Fprintf(&b, " Gres=gpu:%d", s.GPUs)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "PartitionName=main Nodes=%s Default=YES MaxTime=INFINITE State=UP\n", strings.Join(s.Nodes, ","))
	return b.String()
}

func gresConf(s Spec) string {
	if s.GresConf != "" {
		return s.GresConf
	}
	var b strings.Builder
	for i := range s.GPUs {
		fmt.Fprintf(&b, "Name=gpu File=/dev/%s\n", gpuDevice(i))
	}
	return b.String()
}

func hosts(s Spec) string {
	var b strings.Builder
	fmt.Fprintf(&b, "127.0.0.1 localhost\n%s %s\n", ctlAddr, ctlName)
	for i, n := range s.Nodes {
		fmt.Fprintf(&b, "%s %s\n", NodeAddr(i), n)
	}
	return b.String()
}

// bootID is a random number in the form of the kernel's boot id, so that nodes
// of one machine can be told apart as real ones can.
func bootID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x\n", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// userFiles are copies of the host's account files with the lab's users added.
func userFiles(s Spec) ([]file, error) {
	read := func(name string) (string, error) {
		data, err := os.ReadFile("/etc/" + name)
		if err != nil {
			return "", fmt.Errorf("read accounts: %w", err)
		}
		if !bytes.HasSuffix(data, []byte("\n")) {
			data = append(data, '\n')
		}
		return string(data), nil
	}
	text := map[string]string{}
	for _, name := range []string{"passwd", "group", "shadow"} {
		var err error
		if text[name], err = read(name); err != nil {
			return nil, err
		}
	}
	// root has a home in the lab too: the host's has a user's own settings.
	text["passwd"] = withField(text["passwd"], "root", 5, s.Path("home", "root"))
	docker := ""
	var files []file
	for _, u := range s.Users {
		home := s.Path("home", u.Name)
		text["passwd"] += fmt.Sprintf("%s:x:%d:%d::%s:/bin/bash\n", u.Name, u.UID, u.UID, home)
		text["group"] += fmt.Sprintf("%s:x:%d:\n", u.Name, u.UID)
		text["shadow"] += u.Name + ":*:20000:0:99999:7:::\n"
		if u.Docker {
			docker += "," + u.Name
		}
		if u.Sudo {
			if err := os.MkdirAll(s.Path("etc", "upper", "sudoers.d"), 0o755); err != nil {
				return nil, err
			}
			files = append(files, file{s.Path("etc", "upper", "sudoers.d", u.Name), 0o440,
				u.Name + " ALL=(root) NOPASSWD: /usr/bin/docker, /usr/local/bin/docker\n"})
		}
	}
	if !strings.Contains("\n"+text["group"], "\ndocker:") {
		text["group"] += "docker:x:29999:\n"
	}
	text["group"] = withField(text["group"], "docker", 3, strings.TrimPrefix(docker, ","))
	return append(files,
		file{s.Path("etc", "upper", "passwd"), 0o644, text["passwd"]},
		file{s.Path("etc", "upper", "group"), 0o644, text["group"]},
		file{s.Path("etc", "upper", "shadow"), 0o600, text["shadow"]}), nil
}

// withField sets the n-th field of an entry of an account file.
func withField(text, name string, n int, value string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), ":"); f[0] == name && len(f) > n {
			f[n] = value
			line = strings.Join(f, ":") + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// sshFiles makes a key for clients, one host key a node, and what ssh and sshd
// need to use them.
func sshFiles(s Spec, kids *children) error {
	keygen := func(path, comment string) error {
		_, err := kids.run(clientTimeout, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path)
		return err
	}
	if err := keygen(s.Path("ssh", "id"), "lab"); err != nil {
		return err
	}
	pub, err := os.ReadFile(s.Path("ssh", "id.pub"))
	if err != nil {
		return err
	}
	var known strings.Builder
	for i, n := range s.Nodes {
		key := s.NodePath(n, "host_key")
		if err := keygen(key, n); err != nil {
			return err
		}
		hostPub, err := os.ReadFile(key + ".pub")
		if err != nil {
			return err
		}
		fields := strings.Fields(string(hostPub))
		fmt.Fprintf(&known, "%s,%s %s %s\n", n, NodeAddr(i), fields[0], fields[1])
		conf := strings.Join(append(s.SSHD, ""), "\n") + fmt.Sprintf(`Port 22
HostKey %s
AuthorizedKeysFile %s
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PidFile none
UseDNS no
AcceptEnv LANG LC_*
SetEnv PATH=%s
Subsystem sftp internal-sftp
`, key, s.Path("ssh", "authorized_keys"), SearchPath)
		if err := os.WriteFile(s.NodePath(n, "sshd_config"), []byte(conf), 0o644); err != nil {
			return err
		}
	}
	clients := fmt.Sprintf("Host %s 198.18.0.*\n  UserKnownHostsFile %s\n  BatchMode yes\n",
		strings.Join(s.Nodes, " "), s.Path("ssh", "known_hosts"))
	for _, f := range []file{
		{s.Path("ssh", "authorized_keys"), 0o644, string(pub)},
		{s.Path("ssh", "known_hosts"), 0o644, known.String()},
		{s.Path("etc", "upper", "ssh", "ssh_config.d", "lab.conf"), 0o644, clients},
	} {
		if err := f.write(); err != nil {
			return err
		}
	}
	return userKeys(s)
}

// userKeys gives root and each user a home with a copy of the client key: ssh
// refuses a key that others own.
func userKeys(s Spec) error {
	key, err := os.ReadFile(s.Path("ssh", "id"))
	if err != nil {
		return err
	}
	for _, u := range append([]User{{Name: "root"}}, s.Users...) {
		home := s.Path("home", u.Name)
		dir := filepath.Join(home, ".ssh")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		path := filepath.Join(dir, "id_ed25519")
		if err := os.WriteFile(path, key, 0o600); err != nil {
			return err
		}
		for _, p := range []string{home, dir, path} {
			if err := os.Chown(p, u.UID, u.UID); err != nil {
				return err
			}
		}
	}
	return nil
}
