#!/bin/sh
# Prints the directory of a Go module that contains CRDs: github.com/openshift/api, or the module of the first argument.
set -eu

module=${1:-github.com/openshift/api}
cd "${0%/*}"
command -v go >/dev/null || {
	echo "openshift: Go not found; install it to fetch the CRDs of OpenShift" >&2
	exit 1
}
go mod download "$module" >&2
exec go list -m -f '{{.Dir}}' "$module"
