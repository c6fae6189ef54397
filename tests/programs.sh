#!/usr/bin/env bash
# Builds programs of other projects that the tests run, in the order of the arguments: Go modules of tests/cluster, or
# promtool. The low priority leaves the processors to builds that run at the same time.
set -euo pipefail
cd "$(dirname "$0")/.."
renice --priority 10 $$ >/dev/null
for program in "$@"; do
	case $program in
	promtool) tests/cluster/promtool/promtool.sh --version >/dev/null ;;
	*) tests/cluster/build.sh "$program" >/dev/null ;;
	esac
done
