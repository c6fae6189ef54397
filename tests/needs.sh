# Sourced by the scripts of this directory: checks for required programs and installs missing ones if possible. The argument
# `registry` adds the registry for bundles, `servers` adds all servers that tests fetch bundles from, and `node` adds to these
# the programs of a node, its pods and images.

PATH=$PATH:/usr/sbin:/sbin # directories of servers, which are not in the PATH of every user
packages=
missing=

lack() { # Debian package or nothing, problem and remedy
	packages="$packages ${1:-nothing}"
	missing="$missing$2
"
}
need() { # command, Debian package or nothing, remedy
	command -v "$1" >/dev/null || lack "${2:-}" "$1 not found; $3"
}

# Debian starts installed servers at once and at every boot. Tests start their own servers.
install() ( # packages
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		trap 'rm -f "$policy"' EXIT
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
	fi
	apt-get -qq update
	DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@"
	if [ -d /run/systemd/system ]; then
		case " $* " in *" docker-registry "*) systemctl --quiet disable docker-registry ;; esac
		case " $* " in *" openssh-server "*) systemctl --quiet disable ssh ;; esac
		case " $* " in *" prometheus "*) systemctl --quiet disable prometheus ;; esac
	fi
)

need "${CARGO:-cargo}" "" "install Rust from rustup.rs"
need go "" "the tests build a Kubernetes control plane from source; install Go 1.26.6 or newer"
need cc build-essential "install a C compiler (Debian: build-essential)"
need git git "install git"
if [ -n "${1:-}" ]; then
	need docker-registry docker-registry "install the registry that bundles are pushed to (Debian: docker-registry)"
fi
case "${1:-}" in
servers | node)
	need buildah buildah "install buildah, which builds images for the tests"
	need skopeo skopeo "install skopeo, which copies images for the tests"
	need tinyproxy tinyproxy-bin "install tinyproxy, which tests send requests through (Debian: tinyproxy-bin)"
	need zstd zstd "install zstd, which compresses for the tests"
	need promtool prometheus "install promtool, which tests the alerts (Debian: prometheus)"
	need sshd openssh-server "install OpenSSH's server, which tests fetch git repositories from (Debian: openssh-server)"
	;;
esac
if [ "${1:-}" = node ]; then
	need ip iproute2 "install iproute2, which creates the network of the pods"
	need iptables iptables "install iptables, which kube-proxy uses"
	need conntrack conntrack "install conntrack, which kube-proxy uses"
	need unshare util-linux "install util-linux, which isolates the node from this machine"
	need musl-gcc musl-tools "install a C compiler for static programs (Debian: musl-tools)"
	need pkg-config pkg-config "install pkg-config, which the build of runc needs"
	pkg-config --exists libseccomp 2>/dev/null ||
		lack libseccomp-dev "libseccomp not found; install its header files, which the build of runc needs (Debian: libseccomp-dev)"
	[ -x /usr/lib/cni/bridge ] || [ -x /opt/cni/bin/bridge ] ||
		lack containernetworking-plugins "CNI plugins not found; install them (Debian: containernetworking-plugins)"
	[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] ||
		lack ca-certificates "CA certificates for the image not found; install them (Debian: ca-certificates)"
fi

case "$packages " in
" ") ;;
*" nothing "*) installable=no ;;
*) [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || installable=yes ;;
esac
if [ "${installable:-}" = yes ]; then
	echo "installing$packages" >&2
	# shellcheck disable=SC2086 # several words
	install $packages >&2
elif [ -n "$missing" ]; then
	printf '%s' "$missing" >&2
	exit 1
fi
