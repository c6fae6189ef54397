#!/bin/sh
# Prints the folder of the Go module github.com/openshift/api, in which the definitions of config.openshift.io lie.
set -eu

cd "${0%/*}"
command -v go >/dev/null || {
	echo "openshift: Go is needed to fetch the definitions of OpenShift" >&2
	exit 1
}
go mod download github.com/openshift/api >&2
exec go list -m -f '{{.Dir}}' github.com/openshift/api
