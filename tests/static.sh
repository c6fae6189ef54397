#!/usr/bin/env bash
# The binary of unpack Jobs as it goes into images: static, small, quick to start, and at home in the root of a
# container that has nothing else. Needs the right to mount in a namespace of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(unpacker/build-static.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'static: %s\n' "$*" >&2; exit 1; }

# No interpreter, no libraries.
if readelf --program-headers "$binary" | grep -q INTERP || readelf --dynamic "$binary" | grep -q NEEDED; then
	fail "$binary is not static"
fi
size=$(stat -c %s "$binary")
[ "$size" -lt $((5 << 20)) ] || fail "$binary has $size bytes, and 5 MiB are allowed"

start=$(date +%s%N)
for _ in $(seq 20); do "$binary" --version >/dev/null; done
took=$((($(date +%s%N) - start) / 20000))

# A root as a runtime makes one: files of the image, and what is mounted over it.
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
[ "$found" = "manifests/csv.yaml metadata/annotations.yaml " ] || fail "of / came $found"
found=$(inside --all --max-file-size 10Mi | list)
wanted="data/mine manifests/csv.yaml metadata/annotations.yaml templates/last util/unpack values.yaml "
[ "$found" = "$wanted" ] || fail "of / with --all came $found"

printf 'static: %s bytes, %s µs to start\n' "$size" "$took"
