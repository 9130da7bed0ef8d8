package runtime

import (
	"strings"
	"testing"

	"github.com/disagg/disagg/deploy"
)

// TestClassify uses what docker 20.10 and 28, podman 4 and sudo really say.
func TestClassify(t *testing.T) {
	t.Parallel()
	const help = "\n\nRun 'docker run --help' for more information\n"
	const oci = "docker: Error response from daemon: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "
	tests := []struct {
		name, said string
		want       deploy.Class
	}{
		{"privileged", oci + "unable to apply caps: operation not permitted: unknown" + help, deploy.ClassPrivileged},
		{"nofile", oci + "error during container init: error setting rlimits for ready process: error setting rlimit type 7: operation not permitted: unknown" + help, deploy.ClassUlimit},
		{"memlock", oci + "error during container init: error setting rlimits for ready process: error setting rlimit type 8: operation not permitted: unknown" + help, deploy.ClassUlimit},
		{"image", "docker: Error response from daemon: No such image: nope:1" + help, deploy.ClassImageMissing},
		{"image, inspected", "Error: No such image: nope:1\n", deploy.ClassImageMissing},
		{"image, podman", "Error: nope:1: image not known\n", deploy.ClassImageMissing},
		{"device", `docker: Error response from daemon: error gathering device information while adding custom device "/dev/nonexist": no such file or directory` + help, deploy.ClassDevice},
		{"mount", `docker: Error response from daemon: invalid mount config for type "bind": bind source path does not exist: /nonexist` + help, deploy.ClassMount},
		{"no shim", oci + `exec: "/disagg/bin/disagg": stat /disagg/bin/disagg: no such file or directory: unknown` + help, deploy.ClassEntrypoint},
		{"noexec", oci + `exec: "/disagg/bin/disagg": permission denied: unknown` + help, deploy.ClassEntrypoint},
		{"architecture", oci + `exec: "/disagg/bin/disagg": exec format error: unknown` + help, deploy.ClassEntrypoint},
		{"user", "docker: Error response from daemon: unable to find user nosuch: no matching entries in passwd file" + help, deploy.ClassEntrypoint},
		{"name", `docker: Error response from daemon: Conflict. The container name "/x1" is already in use by container "de36efba8a44". You have to remove (or rename) that container to be able to reuse that name.` + help, deploy.ClassNameConflict},
		{"socket", "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Get \"http://%2Fvar%2Frun%2Fdocker.sock/v1.24/version\": dial unix /var/run/docker.sock: connect: permission denied\n", deploy.ClassRuntimeDenied},
		{"socket, newer", "permission denied while trying to connect to the docker API at unix:///var/run/docker.sock\n", deploy.ClassRuntimeDenied},
		{"sudo", "sudo: a password is required\n", deploy.ClassRuntimeDenied},
		{"down", "Cannot connect to the Docker daemon at unix:///tmp/nosock. Is the docker daemon running?\n", deploy.ClassRuntimeDown},
		{"tag", "Error response from daemon: manifest for rocm/sgl-dev:nope not found: manifest unknown: manifest unknown\n", deploy.ClassImageUnknown},
		{"private", "Error response from daemon: pull access denied for x/y, repository does not exist or may require 'docker login': denied: requested access to the resource is denied\n", deploy.ClassRegistryDenied},
		{"rate", "Error response from daemon: toomanyrequests: You have reached your pull rate limit.\n", deploy.ClassRegistryDenied},
		{"no network", `Error response from daemon: Get "https://registry.example/v2/": dial tcp: lookup registry.example on 10.0.0.1:53: no such host` + "\n", deploy.ClassRegistryDown},
		{"refused", `Error response from daemon: Get "http://localhost:5/v2/": dial tcp 127.0.0.1:5: connect: connection refused` + "\n", deploy.ClassRegistryDown},
		{"space", "docker: Error response from daemon: write /var/lib/docker/x: no space left on device." + help, deploy.ClassNoSpace},
		{"not installed", `program not found: "docker" on PATH /usr/bin` + "\n", deploy.ClassRuntimeAbsent},
		{"not installed, by sudo", "sudo: docker: command not found\n", deploy.ClassRuntimeAbsent},
		{"bad option", "unknown flag: --no-such-option\n\nUsage:  docker run [OPTIONS] IMAGE [COMMAND] [ARG...]" + help, ""},
		{"new to us", "docker: Error response from daemon: something odd\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := classify("start container", "repo/img:tag", tt.said)
			if f.Class != tt.want {
				t.Errorf("class = %q, want %q (%s)", f.Class, tt.want, f.Msg)
			}
			first := strings.TrimSpace(strings.SplitN(tt.said, "\n", 2)[0])
			if !strings.HasPrefix(f.Msg, "start container: ") || !strings.Contains(f.Msg, first) {
				t.Errorf("message %q does not hold what was said", f.Msg)
			}
			if strings.ContainsAny(f.Msg, "\n%") && !strings.Contains(tt.said, "%") || strings.Contains(f.Msg, "Run 'docker") {
				t.Errorf("message = %q", f.Msg)
			}
			if tt.want != "" && tt.want != deploy.ClassNameConflict && f.Hint == "" {
				t.Error("no hint")
			}
		})
	}
}

func TestCleanNeutralises(t *testing.T) {
	t.Parallel()
	if got := clean("\x1b[31mred\x07\xff\n"); got != "[31mred \uFFFD" {
		t.Errorf("clean = %q", got)
	}
	if got := clean(strings.Repeat("é", 1000)); got != strings.Repeat("é", 600)+"…" {
		t.Errorf("long text has %d bytes", len(got))
	}
}
