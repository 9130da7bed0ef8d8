package models

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const minimalSite = `apiVersion: disagg/v1
kind: Site
name: lab
gpus_per_node: 8
runs_dir: /shared/runs
`

func TestLoadSite(t *testing.T) {
	t.Parallel()
	s, pos, err := LoadSite("f.yaml", []byte(minimalSite+`
shared_fs: no
slurm: {partition: compute, options: {mail-user: two words}}
container:
  mounts: [/models:/models:ro, /tmp:/tmp]
  ulimits: {memlock: -1, nofile: "1024:65536"}
rdma: {traffic_class: 104}
exclude:
- {nodes: "node[01-02]", reason: bad NIC, since: 2026-01-01, expires: 2026-02-01}
`))
	if err != nil {
		t.Fatal(err)
	}
	yes, no, tc := Bool(true), Bool(false), 104
	want := &Site{APIVersion: APIVersion, Kind: KindSite, Name: "lab", GPUsPerNode: 8, RunsDir: "/shared/runs", SharedFS: &no,
		Slurm: SlurmSite{Partition: "compute", TimeLimit: Duration(8 * time.Hour), GPURequest: "gres", Memory: "0", Exclusive: &yes,
			Options: map[string]string{"mail-user": "two words"}},
		SSH: SSHSite{MaxHandshakes: 8},
		Container: ContainerSite{Runtime: "docker", Sudo: "auto", IPC: "host", Pull: "missing", Privileged: &no,
			Mounts: []string{"/models:/models:ro", "/tmp:/tmp"}, Ulimits: map[string]string{"memlock": "-1", "nofile": "1024:65536"}},
		RDMA:    RDMASite{TrafficClass: &tc},
		Exclude: []Exclude{{Nodes: "node[01-02]", Reason: "bad NIC", Since: "2026-01-01", Expires: "2026-02-01"}},
		Deaf:    "fail",
	}
	if d := cmp.Diff(want, s); d != "" {
		t.Error(d)
	}
	if at := pos.At("exclude[0].reason"); at != "f.yaml:14:34" {
		t.Errorf("exclude[0].reason at %q", at)
	}
}

func TestSiteMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, yaml string // after the minimal site, from line 6 on
		want       []string
	}{
		{"nothing wrong", "slurm: {memory: 512G, constraint: 'a&b', time_limit: 1-00:00:00}\nnetwork: {interface: 'eno1,bond0'}\n", nil},
		{"newline in a directive", "slurm: {partition: \"a\\nb\", account: 'x #y'}\n", []string{
			`6:20 slurm.partition must be one word without quotes, '#' and '\', because it becomes part of a job's directives, not "a\nb"`,
			`6:37 slurm.account must be one word without quotes, '#' and '\', because it becomes part of a job's directives, not "x #y"`}},
		{"option in the wrong place", "slurm: {options: {time: 1h, nodes: 3, --foo: x, licenses: 'a#b'}, step_options: {overlap: ''}}\n", []string{
			`6:19 the key "time" in slurm.options: the sbatch option "time" has its own key: slurm.time_limit`,
			`6:29 the key "nodes" in slurm.options: the sbatch option "nodes" is the tool's own`,
			`6:39 the key "--foo" in slurm.options: "--foo" is not the name of an sbatch option; write it without dashes, in full`,
			`6:59 slurm.options.licenses must be one line without '#', because it becomes part of a job's directives, not "a#b"`,
			`6:82 the key "overlap" in slurm.step_options: the srun option "overlap" is the tool's own`}},
		{"memory", "slurm: {memory: lots}\n", []string{`6:17 slurm.memory must be a size such as 0, 512G or 2T, not "lots"`}},
		{"option and value in one item", "container: {extra_args: [\"--pids-limit -1\", \"--label=a b\", \"--x\", \"a b\"]}\n", []string{
			`6:26 container.extra_args[0]: "--pids-limit -1" is an option and its value in one item, which the runtime takes for the name of an option`}},
		{"priority", "preflight: {rdma: {scheduling: {\"3\": strict, \"9\": strict, \"33\": strict}}}\n", []string{
			`6:46 the key "9" in preflight.rdma.scheduling must be a priority from 0 to 7`, `6:59 the key "33" in preflight.rdma.scheduling must be a priority from 0 to 7`}},
		{"dialect", "slurm: {gpu_request: gpus_per_node}\n", []string{`6:22 slurm.gpu_request is "gpus_per_node", it must be one of: gres, gpus-per-node, none; did you mean "gpus-per-node"?`}},
		{"mounts", "container: {mounts: [/a, /a:b, '/a:/b:rx', '/c:/b', '/d:/b/', '/x:/disagg/bin', /a:/b:ro:z]}\n", []string{
			`6:22 container.mounts[0] must be host:container or host:container:ro, not "/a"`,
			`6:26 container.mounts[1]: the container side of "/a:b" must be an absolute path without ':' and ','`,
			`6:32 container.mounts[2] must be host:container or host:container:ro, not "/a:/b:rx"`,
			`6:53 container.mounts has /b as the place of two mounts, items 4 and 5`,
			`6:63 container.mounts[5]: "/disagg/bin" cannot be a mount's place in a container; the tool needs it`,
			`6:81 container.mounts[6] must be host:container or host:container:ro, not "/a:/b:ro:z"`}},
		{"ulimits", "container: {ulimits: {memlck: -1, nofile: '5:4', stack: big, core: '-1:5'}}\n", []string{
			`6:23 the key "memlck" in container.ulimits: there is no limit "memlck"; did you mean "memlock"?`,
			`6:43 container.ulimits.nofile: the soft limit of "5:4" is above the hard one`,
			`6:57 container.ulimits.stack must be a limit such as -1, 65536 or 1024:65536 (soft:hard), not "big"`,
			`6:68 container.ulimits.core: the soft limit of "-1:5" is above the hard one`}},
		{"sizes and names", "container: {shm_size: 128 GB, cap_add: [sys_ptrace], devices: [dev/kfd], group_add: ['a b']}\n", []string{
			`6:23 container.shm_size must be a size such as 128g, not "128 GB"`,
			`6:41 container.cap_add[0] must be a capability such as SYS_PTRACE, not "sys_ptrace"`,
			`6:64 container.devices[0] must be an absolute path, not "dev/kfd"`,
			`6:86 container.group_add[0] must be the name or number of a group, not "a b"`}},
		{"containers without a runtime", "container: {runtime: none, mounts: [/a:/b], pull: never}\n", []string{
			`6:28 container.mounts has no meaning with runtime none, which starts plain processes`,
			`6:45 container.pull has no meaning with runtime none, which starts plain processes`}},
		{"interfaces", "network: {interface: '^lo'}\nprofiles: [{nodes: a, interface: 'eno1,lo'}]\n", []string{
			`6:22 network.interface: "^lo" is not the name of an interface`,
			`7:34 profiles[0].interface: "lo" reaches no other node`}},
		{"rdma", "rdma: {devices: [rdma0, rdma0], traffic_class: 256, service_level: 16, gid_index: -1, nic: ionic0}\n", []string{
			`6:25 rdma.devices has rdma0 twice, as item 1 and as item 2`,
			`6:48 rdma.traffic_class must be at most 255, not 256`,
			`6:68 rdma.service_level must be at most 15, not 16`,
			`6:83 rdma.gid_index must be at least 0, not -1`,
			`6:92 rdma.nic is "ionic0", it must be one of: ionic, bnxt, mlx5; did you mean "ionic"?`}},
		{"excludes", "exclude:\n- {nodes: a, reason: x}\n- {nodes: a, reason: y}\n- {nodes: a, reason: z, engines: [vllm]}\n- {nodes: b}\n- {nodes: c, reason: x, since: 2026-02-30, expires: soon}\n- {nodes: d, reason: x, since: 2026-02-02, expires: 2026-02-01}\n", []string{
			`8:11 exclude[1] excludes a for the same engines and models as exclude[0] at f.yaml:7:3`,
			`10:3 exclude[3].reason is missing`,
			`11:32 exclude[4].since must be a date, YYYY-MM-DD, not "2026-02-30"`,
			`11:53 exclude[4].expires must be a date, YYYY-MM-DD, not "soon"`,
			`12:53 exclude[5].expires 2026-02-01 lies before since 2026-02-02`}},
		{"profiles", "profiles:\n- {nodes: 'a*', env: {GLOO_SOCKET_IFNAME: 'a,b'}}\n- {nodes: 'a*'}\n", []string{
			`7:43 profiles[0].env.GLOO_SOCKET_IFNAME: "a,b" is not the name of an interface`,
			`8:11 profiles[1] can never apply: profiles[0] has the same nodes and comes first`}},
		{"ssh", "ssh: {port: 0, dir: '/tmp/$(x)', identity: [id_rsa], known_hosts: [~/.ssh/known_hosts]}\n", []string{
			`6:13 ssh.port must be at least 1, not 0`,
			`6:21 ssh.dir: "/tmp/$(x)" has the character '$'`,
			`6:45 ssh.identity[0] must be an absolute path, or one that begins with ~/, not "id_rsa"`}},
		{"paths", "models: {search_paths: [/a/../b, /a, /a]}\n", []string{
			`6:25 models.search_paths[0]: "/a/../b" has a .. in it`,
			`6:38 models.search_paths has /a twice, as item 2 and as item 3`}},
		{"alive but deaf", "deaf: ignore\n", []string{`6:7 deaf is "ignore", it must be one of: fail, warn`}},
		{"a tab and a key twice", "exclude:\n\t- nodes: a\n", []string{`7:1 not valid YAML: a tab is used for indentation`}},
		{"key twice", "deaf: fail\ndeaf: warn\n", []string{`7:1 the key "deaf" is here a second time; the first is at f.yaml:6:1`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, _, err := LoadSite("f.yaml", []byte(minimalSite+tt.yaml))
			if d := cmp.Diff(tt.want, places(t, err)); d != "" {
				t.Error(d)
			}
			if (s == nil) != (err != nil) {
				t.Errorf("site %v with error %v", s, err)
			}
		})
	}
}

func TestRunsDir(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{
		"/a b":   `5:11 runs_dir: "/a b" has a ' ', which a job's log path cannot carry`,
		"/a%j":   `5:11 runs_dir: "/a%j" has a '%', which a job's log path cannot carry`,
		"/a#b":   `5:11 runs_dir: "/a#b" has a '#', which a job's log path cannot carry`,
		"runs":   `5:11 runs_dir must be an absolute path, not "runs"`,
		"/a:b":   `5:11 runs_dir: "/a:b" has a ':', which a mount cannot carry`,
		"/a/../": `5:11 runs_dir: "/a/../" has a .. in it`,
	} {
		_, _, err := LoadSite("f.yaml", []byte("apiVersion: disagg/v1\nkind: Site\nname: x\ngpus_per_node: 8\nruns_dir: "+dir+"\n"))
		if d := cmp.Diff([]string{want}, places(t, err)); d != "" {
			t.Error(d)
		}
	}
}
