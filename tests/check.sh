#!/usr/bin/env bash
# Checks the format, lints changed crates and runs the unit tests. `make check` runs this script.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
. tests/steps.sh
trap print_steps EXIT

step "format"
$cargo fmt --all --check
step "lints, language and unit tests"
. tests/lint.sh
$cargo test --locked --workspace --quiet --lib --bins --test language
