#!/usr/bin/env bash
# Pushes images to the registry of a node (tests/cluster/src/node.rs): the image of the provisioner, those of the example
# operator and, for the tests with OLM, those of OLM. Runs in the sandbox of the node, with the programs of its pods in PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
registry=${CLUSTER_ADDRESS:?run this script in the sandbox of a node}:5000
publish() { # archive, image
	skopeo copy --quiet --dest-tls-verify=false "docker-archive:$1" "docker://$registry/${2#*/}"
}
image=$(sed -n 's/^ *image: \(.*provisioner.*\)$/\1/p' manifests/install/rukpak.yaml)
case $(uname -m) in aarch64) arch=arm64 ;; *) arch=amd64 ;; esac
publish "dist/image-$arch.tar" "$image"
pods=$(dirname "$(command -v tidewatch)")
for version in v1.4.0 v1.5.0; do publish "$pods/tidewatch.tar" "quay.io/tidewatch/operator:$version"; done
case ${RUKPAK_E2E:-} in
olm*) for name in olm opm; do publish "$RUKPAK_E2E_OLM/$name.tar" "quay.io/operator-framework/$name:e2e"; done ;;
esac
