#!/usr/bin/env bash
# Checks and tests that a change has to pass before it is merged. `make test` and CI run this script.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
tools=${CARGO_TARGET_DIR:-target}/tools
deny_version=0.20.2
work=$(mktemp -d)
. tests/steps.sh
finish() {
	print_steps
	[ -z "${programs:-}" ] || kill "$programs" 2>/dev/null || true
	cat "$work"/tests/*.pid 2>/dev/null | xargs -r kill 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT

step "packages"
. tests/needs.sh servers

# Go and Rust build at the same time, because each of them sometimes leaves a processor idle.
tests/programs.sh tools opm >"$work/programs.log" 2>&1 &
programs=$!

step "format"
$cargo fmt --all --check

# Clippy compiles the test binaries (tests/lint.sh), so that no second build is needed for lints.
step "lints and builds of all tests"
. tests/lint.sh
$cargo test --locked --workspace --no-run
$cargo test --locked --workspace --no-run --benches --test e2e --test chaos
$cargo build --locked --package convert --bin bundle-objects # without the features of the workspace, as `make demo` does

step "licenses, sources and banned crates"
if [ "$("$tools/bin/cargo-deny" --version 2>/dev/null || true)" != "cargo-deny $deny_version" ]; then
	CARGO_PROFILE_DEV_DEBUG=false $cargo install --quiet --locked --debug --root "$tools" --version "$deny_version" cargo-deny
fi
"$tools/bin/cargo-deny" --log-level error check bans licenses sources

step "the static binary of unpack Jobs"
tests/static.sh

step "control plane and opm"
wait "$programs" || {
	cat "$work/programs.log" >&2
	exit 1
}
programs=

# The build of the control plane has compiled most Go packages that this script needs.
step "generated tables of the Go types"
tests/cluster/gotypes/generate.sh --check

if [ -n "${RUKPAK_CORPUS:-}" ]; then
	step "tests, with the corpus in $RUKPAK_CORPUS"
else
	step "tests, without a corpus: set RUKPAK_CORPUS to the absolute path of a directory with bundles/, outcomes.tsv and expected/"
fi
# Most tests wait most of the time, so several binaries run at once (tests/runner.sh), the longest first.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((3 * $(nproc)))}"
# The control planes collect garbage less often: that saves a sixth of the processor time of the tests.
export GOGC="${GOGC:-400}"
export RUKPAK_TEST_RUN=$work/tests
mkdir "$RUKPAK_TEST_RUN"
mkfifo "$RUKPAK_TEST_RUN/places"
exec 7<>"$RUKPAK_TEST_RUN/places"
places=${RUKPAK_TEST_BINARIES:-2}
for place in $(seq "$places"); do printf x >&7; done
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=$PWD/tests/runner.sh"
status=0
# The binaries keep the pipe open, so tee ends after the last binary.
{
	$cargo test --locked --workspace --test controllers &&
		$cargo test --locked --workspace --no-fail-fast
} 2>&1 7<&- | tee "$work/tests.log" || status=$?
# A binary that was killed, or that ended before its tests, has no result.
for log in "$RUKPAK_TEST_RUN"/*.log; do
	if [ "$(cat "${log%.log}.status" 2>&1)" != 0 ] || ! grep --quiet '^test result: ok' "$log"; then
		name=${log##*/}
		echo "failed: ${name%-*}" >&2
		status=1
	fi
done
end_step
printf '\n== time of each test binary\n' >&2
sort -rn "$RUKPAK_TEST_RUN"/*.time >&2
print_steps

# Prints one line for all test binaries and the tests in doc comments.
awk '/^test result:/ { passed += $4; failed += $6; skipped += $8 }
     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$work/tests.log"
exit "$status"
