#!/bin/sh
# Prints the folder of a Go module that definitions lie in: github.com/openshift/api, or the one that is named.
set -eu

module=${1:-github.com/openshift/api}
cd "${0%/*}"
command -v go >/dev/null || {
	echo "openshift: Go is needed to fetch the definitions of OpenShift" >&2
	exit 1
}
go mod download "$module" >&2
exec go list -m -f '{{.Dir}}' "$module"
