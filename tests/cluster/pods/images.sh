#!/bin/sh
# Builds an image of each program in a directory, as the archive PROGRAM.tar next to the program.
set -eu
directory=$1
command -v buildah >/dev/null || {
	echo "cluster: buildah not found; install it to build the images of pods (Debian: buildah)" >&2
	exit 1
}
storage=$(mktemp -d)
trap 'rm -rf "$storage"' EXIT
buildah() { command buildah --storage-driver vfs --root "$storage/root" --runroot "$storage/run" "$@"; }
for program in pause tidewatch; do
	printf 'FROM scratch\nCOPY %s /%s\nUSER 65532:65532\nENTRYPOINT ["/%s"]\n' $program $program $program |
		buildah build --isolation chroot --quiet --file - --tag "localhost/$program:1" "$directory" >/dev/null
	buildah push --quiet "localhost/$program:1" "docker-archive:$directory/$program.tar:localhost/$program:1"
done
