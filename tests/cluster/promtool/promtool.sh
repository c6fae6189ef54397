#!/bin/sh
# Runs promtool, which Go builds when it is needed for the first time. Files have to be named from the root.
set -eu

cd "${0%/*}"
command -v go >/dev/null || {
	echo "promtool: Go is needed to build it" >&2
	exit 1
}
CGO_ENABLED=0 exec go run -tags remove_all_sd github.com/prometheus/prometheus/cmd/promtool "$@"
