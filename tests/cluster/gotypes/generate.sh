#!/bin/sh
# Writes manifests/src/go_types/generated.rs from the Go types; with --check only reports whether the file would change.
set -eu

cd "$(dirname "$0")"
command -v go >/dev/null || {
	echo "gotypes: Go not found; install it to read the Go types" >&2
	exit 1
}
exec go run . "$@" ../../../manifests/src/go_types/generated.rs
