package runtime

import (
	"fmt"
	"strings"

	"github.com/disagg/disagg/deploy"
)

// problem is what a container program says and what it means.
type problem struct {
	says  []string // any of these, in lower case
	class deploy.Class
	msg   string // %s is the image
	hint  string
}

// problems, the more telling ones first. The texts are those of docker 20 to 28
// and podman 4 and 5.
func problems() []problem {
	return []problem{
		{[]string{"a password is required", "sudo: a terminal is required", "is not in the sudoers file", "not allowed to execute"},
			deploy.ClassRuntimeDenied, "sudo asks for a password",
			"allow this user to run the container program without one, or set container.sudo: never and put the user into its group"},
		{[]string{"permission denied while trying to connect to the docker daemon socket", "permission denied while trying to connect to the docker api", "dial unix /var/run/docker.sock: connect: permission denied"},
			deploy.ClassRuntimeDenied, "this user may not use the docker socket", "put the user into the docker group on this node, allow sudo -n docker, or exclude the node"},
		{[]string{"cannot connect to the docker daemon", "is the docker daemon running", "error during connect", "cannot connect to podman", "unable to connect to podman socket"},
			deploy.ClassRuntimeDown, "the container daemon does not answer", "systemctl status docker on this node"},
		{[]string{"manifest unknown", "manifest for", "not found: manifest", "name unknown"},
			deploy.ClassImageUnknown, "the registry does not have image %s", "check the tag; nightly images are removed after a while"},
		{[]string{"pull access denied", "unauthorized", "authentication required", "no basic auth credentials", "requested access to the resource is denied"},
			deploy.ClassRegistryDenied, "the registry does not give image %s to this user", "log in on this node (docker login), or check the image's name"},
		{[]string{"toomanyrequests", "rate limit"},
			deploy.ClassRegistryDenied, "the registry limits the number of pulls for now", "log in on this node, or load the image another way"},
		{[]string{"no such image", "image not known", "does not resolve to an image id", "unable to find image"},
			deploy.ClassImageMissing, "image %s is not on this node", "pull it there, or set container.pull: missing"},
		{[]string{"no such host", "dial tcp", "tls handshake timeout", "i/o timeout", "failed to do request", "pinging container registry"},
			deploy.ClassRegistryDown, "the registry of image %s cannot be reached from this node", "load the image on the node another way (docker load), or check its network and proxy"},
		{[]string{"is already in use by container", "the container name", "name is already in use"},
			deploy.ClassNameConflict, "the container's name is taken", ""},
		{[]string{"error setting rlimit", "setting rlimits", "ulimit option", "prlimit"},
			deploy.ClassUlimit, "this node grants none of the limits above its own that container.ulimits asks for",
			"lower them in the site file to what ulimit -H shows for the daemon, or leave them out"},
		{[]string{"unable to apply caps", "privileged mode is incompatible", "privileged mode is not supported"},
			deploy.ClassPrivileged, "this node does not grant the container the capabilities that container.privileged or cap_add ask for",
			"set container.privileged: false and list the devices and capabilities that are needed"},
		{[]string{"gathering device information", "error adding device", "no such device", "stat /dev/"},
			deploy.ClassDevice, "a device that container.devices lists cannot be given to the container", "compare container.devices with what the node has in /dev"},
		{[]string{"bind source path does not exist", "invalid mount config", "error while creating mount source", "statfs", "mount destination", "error mounting", "failed to mount"},
			deploy.ClassMount, "a path cannot be mounted into the container", "compare container.mounts with what exists on this node and is readable there by root (a file server may squash root)"},
		{[]string{"no space left on device"},
			deploy.ClassNoSpace, "the container store of this node is full", "docker system df on this node"},
		{[]string{"address already in use", "port is already allocated"},
			deploy.ClassPortInUse, "a port of the container is taken on this node", "ss -ltnp shows by whom"},
		{[]string{"unable to find user", "unable to find group", "no matching entries in passwd file", "no matching entries in group file"},
			deploy.ClassEntrypoint, "the image does not know the user or group that the container shall run as", "give container.user and group_add as numbers"},
		{[]string{"exec format error"},
			deploy.ClassEntrypoint, "the disagg binary is not for the image's architecture", "use an image for this node's architecture"},
		{[]string{"exec: \"/disagg/", "starting container process", "unable to start container process", "oci runtime"},
			deploy.ClassEntrypoint, "the shim cannot be started in image %s", "check that the container may execute mounted files (noexec, SELinux, AppArmor)"},
		{[]string{"executable file not found", "command not found", "program not found"},
			deploy.ClassRuntimeAbsent, "the container program is not installed on this node", "install it, exclude the node, or set container.runtime to what the node has"},
	}
}

// classify turns what a container program said into a failure. doing says what
// was tried.
func classify(doing, image, said string) *deploy.Fault {
	low := strings.ToLower(said)
	for _, p := range problems() {
		for _, s := range p.says {
			if !strings.Contains(low, s) {
				continue
			}
			msg := p.msg
			if strings.Contains(msg, "%s") {
				msg = fmt.Sprintf(msg, image)
			}
			return &deploy.Fault{Class: p.class, Msg: fmt.Sprintf("%s: %s (%s)", doing, msg, lastLine(said)), Hint: p.hint}
		}
	}
	return &deploy.Fault{Msg: fmt.Sprintf("%s: %s", doing, lastLine(said))}
}
