#!/bin/sh
# Makes an image of each program in a folder, as the archive PROGRAM.tar beside it.
set -eu
folder=$1
command -v buildah >/dev/null || {
	echo "cluster: buildah is needed to make images for pods (Debian: buildah)" >&2
	exit 1
}
storage=$(mktemp -d)
trap 'rm -rf "$storage"' EXIT
buildah() { command buildah --storage-driver vfs --root "$storage/root" --runroot "$storage/run" "$@"; }
for program in pause tidewatch; do
	printf 'FROM scratch\nCOPY %s /%s\nUSER 65532:65532\nENTRYPOINT ["/%s"]\n' $program $program $program |
		buildah build --isolation chroot --quiet --file - --tag "localhost/$program:1" "$folder" >/dev/null
	buildah push --quiet "localhost/$program:1" "docker-archive:$folder/$program.tar:localhost/$program:1"
done
