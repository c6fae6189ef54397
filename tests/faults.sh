#!/usr/bin/env bash
# Runs the tests of faults that take minutes: kills at random moments, suspended replicas and dead connections.
# RUKPAK_SEED repeats the moments of an earlier run, and RUKPAK_KILLS sets the number of kills of each kind.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/needs.sh registry

tests/cluster/build.sh >/dev/null
. tests/lint.sh
${CARGO:-cargo} test --locked --workspace --test chaos -- --nocapture --test-threads=1
