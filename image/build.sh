#!/usr/bin/env bash
# Builds the image and writes it to dist/image-ARCHITECTURE.tar, which `podman load`, `docker load` and `skopeo copy`
# load. Argument: amd64 or arm64; the default is the architecture of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v buildah >/dev/null || {
	echo "image: buildah not found; install it (Debian: buildah)" >&2
	exit 1
}
case "${1:-$(uname -m)}" in
arm64 | aarch64) arch=arm64 ;;
*) arch=amd64 ;;
esac
image/binaries.sh "$arch"

name=$(sed -n 's/^ *image: \(.*provisioner.*\)$/\1/p' manifests/install/rukpak.yaml)
storage=$(mktemp -d)
trap 'rm -rf "$storage"' EXIT
buildah() { command buildah --storage-driver vfs --root "$storage/root" --runroot "$storage/run" "$@"; }
buildah build --isolation chroot --quiet --arch "$arch" --build-arg TARGETARCH="$arch" --build-arg BINARIES=prebuilt \
	--build-arg VERSION="${name##*:}" --build-arg REVISION="$(git rev-parse HEAD 2>/dev/null || true)" \
	--tag "$name" . >/dev/null
archive=dist/image-$arch.tar
buildah push --quiet "$name" "docker-archive:$storage/image.tar:$name"
cp "$storage/image.tar" "$archive.$$"
mv "$archive.$$" "$archive"

size=$(stat -c %s "$archive")
[ "${RUKPAK_IMAGE_PROFILE:-release}" != release ] || [ "$size" -lt $((40 << 20)) ] || {
	echo "image: $archive has $size bytes; the limit is 40 MiB" >&2
	exit 1
}
echo "$archive: $name, $((size >> 10)) KiB" >&2
echo "$archive"
