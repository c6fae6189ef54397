#!/usr/bin/env bash
# Builds the static `unpack` binary of Jobs and prints where it is. With musl where that is installed (its standard
# library and a C compiler for it), else with glibc's static library.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
machine=$(uname -m)
profile=unpack

target=$machine-unknown-linux-musl
if ! { [ -d "$(rustc --print target-libdir --target "$target")" ] && command -v musl-gcc >/dev/null; }; then
	target=$machine-unknown-linux-gnu
	export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static"
fi
$cargo build --locked --quiet -p unpacker --bin unpack --no-default-features --profile "$profile" --target "$target"
echo "${CARGO_TARGET_DIR:-target}/$target/$profile/unpack"
