#!/usr/bin/env bash
# Builds programs of other projects for the tests. The arguments are those of tests/cluster/build.sh, in the order of the builds.
# The low priority leaves the processors to builds that run at the same time.
set -euo pipefail
cd "$(dirname "$0")/.."
renice --priority 10 $$ >/dev/null
for program in "$@"; do
	tests/cluster/build.sh "$program" >/dev/null
done
