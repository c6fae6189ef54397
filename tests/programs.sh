#!/usr/bin/env bash
# Builds programs of other projects for the tests: the Go modules of tests/cluster that the arguments name, in this order.
# The low priority leaves the processors to builds that run at the same time.
set -euo pipefail
cd "$(dirname "$0")/.."
renice --priority 10 $$ >/dev/null
for program in "$@"; do
	tests/cluster/build.sh "$program" >/dev/null
done
