#!/bin/sh
# Builds programs of a Go module next to this script, and prints their directory. The argument is a module, "node" or "opm".
# Programs are built once for each content of the module. The module "tools" contains etcd and Kubernetes: the control plane and,
# with the argument "node", the programs of a node. The module "olm" contains the programs of OLM's images and, with the argument
# "opm", opm with SQLite. Programs of one module use the same versions of packages, which Go compiles once.
set -eu

name=${1:-tools}
module=$name
packages=tool
case $name in
tools) packages="go.etcd.io/etcd/server/v3 k8s.io/kubernetes/cmd/kube-apiserver
	k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kubectl" ;;
node)
	module=tools
	packages="github.com/coredns/coredns k8s.io/kubernetes/cmd/kube-proxy k8s.io/kubernetes/cmd/kube-scheduler
		k8s.io/kubernetes/cmd/kubelet"
	;;
opm) module=olm packages=github.com/operator-framework/operator-registry/cmd/opm ;;
esac
here=$(cd "${0%/*}" && pwd)

command -v go >/dev/null || {
	echo "cluster: Go not found; install it to build $name. For the control plane alone, KUBEBUILDER_ASSETS can name a directory with etcd and kube-apiserver" >&2
	exit 1
}

target=${CARGO_TARGET_DIR:-$here/../../target}/cluster
mkdir -p "$target"
target=$(cd "$target" && pwd)
cd "$here/$module"
directory=$target/$name-$(find . "$here/build.sh" -type f | sort | xargs cat | sha256sum | cut -c1-16)

if [ -d "$directory" ]; then
	echo "$directory"
	exit
fi
# A concurrent build waits for the lock, and then finds the programs.
exec 9>"$target/lock"
flock 9
if [ ! -d "$directory" ]; then
	ldflags="-s -w"
	if version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes 2>/dev/null); then
		minor=${version#v*.}
		minor=${minor%%.*}
		# Without these flags, the server reports the version v0.0.0-master+$Format:%H$.
		for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
			ldflags="$ldflags -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
		done
	fi
	echo "cluster: building $name${version:+ of Kubernetes $version} in $directory; the first build takes minutes" >&2

	rm -rf "$target"/unfinished.*
	unfinished=$(mktemp -d "$target/unfinished.XXXXXX")
	trap 'rm -rf "$unfinished"' EXIT
	cgo=0
	tags=
	pure=netgo,osusergo # no cgo in the standard library, so that Go compiles most packages once for all modules
	case $name in
	runtime) cgo=1 tags=$pure,seccomp,no_btrfs,no_devmapper,no_zfs ;; # runc needs cgo; without file system drivers
	opm) cgo=1 tags=$pure,json1,containers_image_openpgp ;; # SQLite needs cgo; without the last tag, signatures need gpgme
	olm) tags=containers_image_openpgp ;; # this opm reads only bundles, without SQLite
	esac
	# shellcheck disable=SC2086 # several packages
	CGO_ENABLED=$cgo GOBIN=$unfinished go install -trimpath -tags "$tags" -gcflags all=-dwarf=false -ldflags "$ldflags" $packages >&2
	[ ! -e "$unfinished/server" ] || mv "$unfinished/server" "$unfinished/etcd"
	[ "$name" != "$module" ] || [ ! -x images.sh ] || ./images.sh "$unfinished" >&2
	chmod 755 "$unfinished"
	mv "$unfinished" "$directory"
	trap - EXIT
fi
echo "$directory"
