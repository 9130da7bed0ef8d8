#!/usr/bin/env bash
# Installs what the lab needs, by Debian's package names, when run as root.
# Without root, or where there is no apt-get, it says so and changes nothing:
# the tests that need a lab then say that they were skipped.
# No service is started: the lab runs its own.
set -euo pipefail

programs=(
	slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge
	sshd:openssh-server ssh-keygen:openssh-client ip:iproute2
	dockerd:docker.io docker:docker.io containerd:containerd runc:runc busybox:busybox-static
	nsenter:util-linux setpriv:util-linux sudo:sudo shellcheck:shellcheck
)
PATH=$PATH:/usr/sbin:/sbin
missing=()
for p in "${programs[@]}"; do
	command -v "${p%%:*}" >/dev/null || missing+=("${p#*:}")
done
# The image of the real router is made from Debian's Python, whatever other
# there may be.
/usr/bin/python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
# Libraries that the real Mooncake master needs beside its own.
for lib in libibverbs.so.1:libibverbs1 libnuma.so.1:libnuma1 libcurl.so.4:libcurl4; do
	compgen -G "/usr/lib/*/${lib%%:*}" >/dev/null || missing+=("${lib#*:}")
done
[ "${#missing[@]}" -gt 0 ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
	echo "lab: not root: not installing ${missing[*]}"
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "lab: no apt-get here: install ${missing[*]} by hand"
	exit 0
fi

# Maintainer scripts ask policy-rc.d whether they may start services.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
quiet() { # show the output only of what fails
	local out
	out=$("$@" 2>&1 </dev/null) || { printf '%s\n' "$out" >&2; return 1; }
}
quiet apt-get update -qq
# The client of Docker is a package of its own from Debian 13 on.
if apt-cache show docker-cli >/dev/null 2>&1; then
	missing+=(docker-cli)
fi
quiet apt-get install -y -qq --no-install-recommends "${missing[@]}"
