#!/usr/bin/env bash
# Builds the programs of a node and of OLM, and the image, for `make e2e`. `make e2e-build` runs this script. CI runs it at the
# same time as the tests; the low priority leaves the processors to the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/needs.sh node
renice --priority 10 $$ >/dev/null
tests/programs.sh tools opm node runtime pods olm
RUKPAK_IMAGE_PROFILE=ci image/build.sh >/dev/null
