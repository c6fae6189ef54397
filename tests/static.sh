#!/usr/bin/env bash
# Checks the binary of unpack Jobs as images contain it: static, small, fast to start, and usable in the root of a container
# without other programs. Requires permission to mount in its own namespace.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(unpacker/build-static.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'static: %s\n' "$*" >&2; exit 1; }

# A static binary has no interpreter and needs no libraries.
if readelf --program-headers "$binary" | grep -q INTERP || readelf --dynamic "$binary" | grep -q NEEDED; then
	fail "$binary is not static"
fi
size=$(stat -c %s "$binary")
[ "$size" -lt $((5 << 20)) ] || fail "$binary has $size bytes; the limit is 5 MiB"

start=$(date +%s%N)
for _ in $(seq 20); do "$binary" --version >/dev/null; done
took=$((($(date +%s%N) - start) / 20000))

# A root as a container runtime creates it: files of the image, and mounts over them.
root=$work/root
mkdir -p "$root"/{manifests,metadata,dev,etc,proc,sys,bin,data/volume,templates,util}
for file in manifests/csv.yaml metadata/annotations.yaml data/mine templates/last values.yaml \
	etc/shadow proc/secret sys/secret dev/secret bin/sh product_name product_uuid; do
	echo "$file" >"$root/$file"
done
"$binary" --install "$root/util" 2>/dev/null

list() { tar tzf - | tr '\n' ' '; }
apart="unshare --mount"
if [ "$(id -u)" -ne 0 ]; then apart="unshare --user --map-root-user --mount"; fi
# shellcheck disable=SC2016 # the inner shell expands it
script='mount -t tmpfs none "$0/data/volume" && echo none >"$0/data/volume/none" && exec chroot "$0" /util/unpack "$@"'
inside() { $apart sh -c "$script" "$root" --bundle-dir / --to - "$@" 2>"$work/log" || fail "$(cat "$work/log")"; }
found=$(inside | list)
[ "$found" = "manifests/csv.yaml metadata/annotations.yaml " ] || fail "unpacking / yields $found"
found=$(inside --all --max-file-size 10Mi | list)
expected="data/mine manifests/csv.yaml metadata/annotations.yaml templates/last util/unpack values.yaml "
[ "$found" = "$expected" ] || fail "unpacking / with --all yields $found"

printf 'static: %s bytes, %s µs to start\n' "$size" "$took"
