#!/bin/sh
# Builds the images of OLM from the programs in a directory, and copies OLM's CRDs to it. The archives replace the programs:
# olm.tar contains the two controllers and the programs that unpack Jobs copy into bundles, opm.tar the program that reads
# bundles. grpc_health_probe is kept as a program for images of catalogs.
set -eu
directory=$1
command -v buildah >/dev/null || {
	echo "cluster: buildah not found; install it to build the images of pods (Debian: buildah)" >&2
	exit 1
}
storage=$(mktemp -d)
trap 'rm -rf "$storage"' EXIT
buildah() { command buildah --storage-driver vfs --root "$storage/root" --runroot "$storage/run" "$@"; }
image() { # name, programs
	name=$1
	shift
	printf 'FROM scratch\nCOPY %s /bin/\nUSER 1001\nENTRYPOINT ["/bin/%s"]\n' "$*" "$name" |
		buildah build --isolation chroot --quiet --file - --tag "localhost/$name:1" "$directory" >/dev/null
	buildah push --quiet "localhost/$name:1" "docker-archive:$directory/$name.tar:localhost/$name:1"
}
image olm olm catalog cpb cp
image opm opm
rm "$directory/olm" "$directory/catalog" "$directory/cpb" "$directory/cp" "$directory/opm"
mkdir "$directory/crds"
cp "$(go list -m -f '{{.Dir}}' github.com/operator-framework/operator-lifecycle-manager)"/deploy/chart/crds/*.yaml "$directory/crds/"
