#!/bin/sh
# Builds the programs of a Go module beside this script (first argument), once for each content of the module, and prints the
# folder that holds them. The module "tools" has etcd and Kubernetes: the control plane, and, with the argument "node", what a
# node runs. One module for both lets Go compile what they share once.
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
esac
here=$(cd "${0%/*}" && pwd)

command -v go >/dev/null || {
	echo "cluster: Go is needed to build $name; for the control plane alone, KUBEBUILDER_ASSETS can name a folder with etcd and kube-apiserver instead" >&2
	exit 1
}

target=${CARGO_TARGET_DIR:-$here/../../target}/cluster
mkdir -p "$target"
target=$(cd "$target" && pwd)
cd "$here/$module"
folder=$target/$name-$(find . "$here/build.sh" -type f | sort | xargs cat | sha256sum | cut -c1-16)

if [ -d "$folder" ]; then
	echo "$folder"
	exit
fi
# A second builder waits for the lock and then finds the work done.
exec 9>"$target/lock"
flock 9
if [ ! -d "$folder" ]; then
	ldflags="-s -w"
	if version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes 2>/dev/null); then
		minor=${version#v*.}
		minor=${minor%%.*}
		# Without these the server calls itself v0.0.0-master+$Format:%H$.
		for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
			ldflags="$ldflags -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
		done
	fi
	echo "cluster: building ${version:+Kubernetes $version and the other }$name into $folder: minutes, once" >&2

	rm -rf "$target"/unfinished.*
	unfinished=$(mktemp -d "$target/unfinished.XXXXXX")
	trap 'rm -rf "$unfinished"' EXIT
	cgo=0
	tags=
	if [ "$module" = runtime ]; then # runc is partly C, and the others would like to manage disks
		cgo=1
		tags=seccomp,no_btrfs,no_devmapper,no_zfs
	elif [ "$module" = opm ]; then # SQLite is C; without the other tag signatures would need gpgme
		cgo=1
		tags=json1,containers_image_openpgp
	elif [ "$module" = olm ]; then # its opm reads bundles only, which needs no SQLite
		tags=containers_image_openpgp
	fi
	# shellcheck disable=SC2086 # several packages
	CGO_ENABLED=$cgo GOBIN=$unfinished go install -trimpath -tags "$tags" -ldflags "$ldflags" $packages >&2
	[ ! -e "$unfinished/server" ] || mv "$unfinished/server" "$unfinished/etcd"
	[ ! -x images.sh ] || ./images.sh "$unfinished" >&2
	chmod 755 "$unfinished"
	mv "$unfinished" "$folder"
	trap - EXIT
fi
echo "$folder"
