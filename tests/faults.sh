#!/usr/bin/env bash
# Faults that take minutes to try: kills at random moments, replicas that fall asleep, connections that die unnoticed.
# RUKPAK_SEED repeats the moments of a run, RUKPAK_KILLS sets how many kills there are (of each kind).
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/needs.sh registry

tests/cluster/build.sh >/dev/null
. tests/lint.sh
${CARGO:-cargo} test --locked --workspace --test chaos -- --nocapture --test-threads=1
