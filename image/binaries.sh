#!/usr/bin/env bash
# Builds the files of the image in dist/ARCHITECTURE/: the static binaries `provisioner` and `unpack`, and the CA
# certificates that Mozilla trusts. RUKPAK_IMAGE_PROFILE=ci builds faster and without optimization, for the end-to-end
# tests. Argument: amd64 or arm64; the default is the architecture of this machine. Another architecture needs a C
# compiler in CC_aarch64_unknown_linux_musl, and a linker in CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
fail() { printf 'image: %s\n' "$*" >&2; exit 1; }

machine=$(uname -m)
case "${1:-$machine}" in
amd64 | x86_64) arch=amd64 cpu=x86_64 ;;
arm64 | aarch64) arch=arm64 cpu=aarch64 ;;
*) fail "unsupported architecture ${1:-$machine}; use amd64 or arm64" ;;
esac
target=$cpu-unknown-linux-musl

if [ "$cpu" = "$machine" ]; then
	command -v musl-gcc >/dev/null || fail "musl-gcc not found; install it to build static programs (Debian: musl-tools)"
fi
if [ ! -d "$(rustc --print target-libdir --target "$target")" ]; then
	command -v rustup >/dev/null || fail "Rust's standard library for $target not found; install rustup or that library"
	rustup --quiet target add "$target"
fi
# Some kernels for this architecture have pages of 64 KiB.
if [ "$arch" = arm64 ]; then export JEMALLOC_SYS_WITH_LG_PAGE=16; fi

# Prints the CA certificates of Mozilla. Debian stores them apart from other CAs that this machine trusts.
ca_certificates() {
	cat /usr/share/ca-certificates/mozilla/*.crt 2>/dev/null ||
		cat /etc/pki/tls/certs/ca-bundle.crt 2>/dev/null ||
		cat /etc/ssl/certs/ca-certificates.crt 2>/dev/null ||
		fail "no CA certificates for the image found; install them (Debian: ca-certificates)"
}

profile=${RUKPAK_IMAGE_PROFILE:-release}
features=
[ "$profile" != release ] || features="--features jemalloc"
# shellcheck disable=SC2086 # zero or two words
$cargo build --locked --profile "$profile" --target "$target" -p provisioner $features
$cargo build --locked --profile unpack --target "$target" -p unpacker --bin unpack --no-default-features

built=${CARGO_TARGET_DIR:-target}/$target
to=dist/$arch
mkdir -p "$to/etc/ssl/certs"
new=$(mktemp -d dist/new.XXXXXX)
trap 'rm -rf "$new"' EXIT
cp "$built/$profile/provisioner" "$built/unpack/unpack" "$new/"
ca_certificates >"$new/ca-certificates.crt"
for program in provisioner unpack; do
	if readelf --program-headers "$new/$program" | grep -q INTERP; then fail "$program is not static"; fi
done
# Programs that still use the previous files keep them.
mv "$new/ca-certificates.crt" "$to/etc/ssl/certs/"
mv "$new"/* "$to/"
