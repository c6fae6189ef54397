#!/usr/bin/env bash
# Builds programs of other projects that the tests run, Go modules of tests/cluster, in the order of the arguments. The low
# priority leaves the processors to builds that run at the same time.
set -euo pipefail
cd "$(dirname "$0")/.."
renice --priority 10 $$ >/dev/null
for program in "$@"; do
	tests/cluster/build.sh "$program" >/dev/null
done
