#!/bin/sh
# Makes the images of OLM from the programs in a folder, as archives in their place, and copies OLM's definitions there:
# olm.tar has its two controllers and what its unpack Jobs copy into bundles, opm.tar what those read bundles with.
# grpc_health_probe stays a program, for images of catalogs.
set -eu
folder=$1
command -v buildah >/dev/null || {
	echo "cluster: buildah is needed to make images for pods (Debian: buildah)" >&2
	exit 1
}
storage=$(mktemp -d)
trap 'rm -rf "$storage"' EXIT
buildah() { command buildah --storage-driver vfs --root "$storage/root" --runroot "$storage/run" "$@"; }
image() { # name, programs
	name=$1
	shift
	printf 'FROM scratch\nCOPY %s /bin/\nUSER 1001\nENTRYPOINT ["/bin/%s"]\n' "$*" "$name" |
		buildah build --isolation chroot --quiet --file - --tag "localhost/$name:1" "$folder" >/dev/null
	buildah push --quiet "localhost/$name:1" "docker-archive:$folder/$name.tar:localhost/$name:1"
}
image olm olm catalog cpb cp
image opm opm
rm "$folder/olm" "$folder/catalog" "$folder/cpb" "$folder/cp" "$folder/opm"
mkdir "$folder/crds"
cp "$(go list -m -f '{{.Dir}}' github.com/operator-framework/operator-lifecycle-manager)"/deploy/chart/crds/*.yaml "$folder/crds/"
