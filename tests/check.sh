#!/usr/bin/env bash
# Checks the format and the language, and lints and unit-tests changed crates. `make check` runs this script. `make test`
# also lints the integration tests.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
. tests/steps.sh
trap print_steps EXIT

step "format"
$cargo fmt --all --check
step "lints, language and unit tests"
. tests/lint.sh
# Some tests wait most of the time.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((3 * $(nproc)))}"
$cargo test --locked --workspace --quiet --lib --bins --test language
