#!/usr/bin/env bash
# Runs tests with coverage of the project's crates, and prints the covered lines of each crate's sources. Needs the
# component llvm-tools of rustup. Passes its arguments to `cargo test`: `tests/coverage.sh --workspace --test web`.
# Without arguments, all tests run. As root, `make e2e` runs as well and covers the sources of the CLI (the provisioner's
# image is built without coverage).
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
e2e=
[ $# -gt 0 ] || {
	set -- --workspace --no-fail-fast
	[ "$(id -u)" != 0 ] || e2e=1
}

llvm=$(rustc --print target-libdir)/../bin
[ -x "$llvm/llvm-cov" ] || {
	echo "coverage: llvm-cov not found; run \"rustup component add llvm-tools\"" >&2
	exit 1
}
# Cargo uses the wrapper only for the crates of the workspace, so dependencies share the artifacts of all other builds. The
# wrapper needs bash, because dash drops variables such as CARGO_BIN_EXE_cluster-up.
folder=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/coverage
mkdir -p "$folder"
wrapper=$folder/rustc
cat >"$wrapper.$$" <<-'SH'
	#!/bin/bash
	exec "$@" -C instrument-coverage
SH
chmod 755 "$wrapper.$$"
cmp --quiet "$wrapper.$$" "$wrapper" && rm "$wrapper.$$" || mv "$wrapper.$$" "$wrapper"
export RUSTC_WORKSPACE_WRAPPER=$wrapper
profiles=$(mktemp -d "$folder/profiles.XXXXXX")
trap 'rm -rf "$profiles"' EXIT
# %4m: all processes merge their counters into four files.
export LLVM_PROFILE_FILE=$profiles/%4m.profraw

status=0
built=$($cargo test --locked "$@" --no-run --message-format json)
$cargo test --locked "$@" >&2 || status=$?
[ -z "$e2e" ] || tests/e2e.sh >&2 || status=$?
objects=$(printf '%s\n' "$built" | sed -n 's/.*"executable":"\([^"]*\)".*/-object \1/p')
"$llvm/llvm-profdata" merge --sparse --output "$profiles/all.profdata" "$profiles"/*.profraw
# shellcheck disable=SC2086 # several words
"$llvm/llvm-cov" export --summary-only --format text --instr-profile "$profiles/all.profdata" $objects >"$folder/report.json"
python3 - "$folder/report.json" "$PWD" <<'PY'
import collections, json, os, sys

report, root = sys.argv[1:]
crates = collections.defaultdict(lambda: [0, 0])
for file in json.load(open(report))["data"][0]["files"]:
    path = os.path.relpath(file["filename"], root)
    name = path.split("/")
    if path.startswith("..") or len(name) < 3 or name[1] != "src" or name[0] == "tests":
        continue
    if "tests" in name or name[-1] in ("tests.rs", "fuzz.rs", "fixtures.rs"):
        continue
    lines = file["summary"]["lines"]
    for key in (name[0], "all"):
        crates[key][0] += lines["covered"]
        crates[key][1] += lines["count"]
for crate, (covered, count) in sorted(crates.items()):
    print(f"{crate:12} {covered:7} of {count:7} lines, {100 * covered / max(count, 1):.2f} %")
PY
exit "$status"
