#!/usr/bin/env bash
# Everything that has to be right before a change goes in. `make test` runs it; so does CI.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
tools=${CARGO_TARGET_DIR:-target}/tools
deny_version=0.20.2

step() { printf '\n== %s\n' "$*" >&2; }
. tests/needs.sh servers

step "format"
$cargo fmt --all --check

step "licences, sources and banned crates"
if [ "$("$tools/bin/cargo-deny" --version 2>/dev/null || true)" != "cargo-deny $deny_version" ]; then
	$cargo install --quiet --locked --debug --root "$tools" --version "$deny_version" cargo-deny
fi
"$tools/bin/cargo-deny" --log-level error check bans licenses sources

step "generated files"
tests/cluster/gotypes/generate.sh --check

step "lints"
$cargo clippy --locked --workspace --all-targets -- -D warnings
# All targets are those that `cargo test` runs; this one is run elsewhere.
$cargo clippy --locked --workspace --test e2e -- -D warnings

step "the static binary of unpack Jobs"
tests/static.sh

step "control plane, opm and promtool"
tests/cluster/build.sh >/dev/null
tests/cluster/build.sh opm >/dev/null
tests/cluster/promtool/promtool.sh --version >/dev/null

if [ -n "${RUKPAK_CORPUS:-}" ]; then
	step "tests, with the corpus in $RUKPAK_CORPUS"
else
	step "tests, without a corpus: set RUKPAK_CORPUS to a folder with bundles/, outcomes.tsv and expected/"
fi
# Most tests wait for others most of the time.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc)))}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
$cargo test --locked --workspace --no-fail-fast 2>&1 | tee "$log" || status=$?

# One line for all test binaries.
awk '/^test result:/ { passed += $4; failed += $6; skipped += $8 }
     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$log"
exit "$status"
