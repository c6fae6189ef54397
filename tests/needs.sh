# Sourced by the scripts beside it: what has to be on the machine, installed where that is possible.

need() { # command, Debian package or nothing, what to do
	command -v "$1" >/dev/null && return
	if [ -n "$2" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "installing $2" >&2
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$2" >&2
		command -v "$1" >/dev/null && return
	fi
	echo "$1 is needed: $3" >&2
	exit 1
}

need "${CARGO:-cargo}" "" "install Rust from rustup.rs"
need go "" "the tests build a Kubernetes control plane from source; install Go 1.26"
need cc build-essential "install a C compiler (Debian: build-essential)"
need git git "install git"
