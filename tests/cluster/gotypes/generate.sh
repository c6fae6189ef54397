#!/bin/sh
# Writes manifests/src/go_types/generated.rs from the Go types; with --check only reports whether the file would change.
set -eu

cd "$(dirname "$0")"
command -v go >/dev/null || {
	echo "gotypes: Go not found; install it to read the Go types" >&2
	exit 1
}
# With the flags of ../build.sh, so that Go compiles packages of the same version once.
export CGO_ENABLED=0
exec go run -trimpath -gcflags all=-dwarf=false . "$@" ../../../manifests/src/go_types/generated.rs
