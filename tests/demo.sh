#!/usr/bin/env bash
# The main job, from a bundle to what a real kube-apiserver says. `make demo` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
bundle=${1:-examples/bundles/tidewatch}
. tests/needs.sh

say() { printf '\n\033[1m%s\033[0m\n' "$*" >&2; }
[ -t 2 ] || say() { printf '\n%s\n' "$*" >&2; }

if [ "${RUKPAK_DEMO:-}" != cluster ]; then
	say "Building rukpak, and the control plane it will be judged by (several minutes the first time)"
	tests/cluster/build.sh >/dev/null
	$cargo build --quiet --locked --release -p cli -p cluster
	bin=$($cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release
	export RUKPAK_DEMO=cluster RUKPAK=$bin/rukpak
	exec "$bin/cluster-up" -- "$0" "$bundle"
fi

manifests=$(mktemp)
trap 'rm -f "$manifests"' EXIT

say "\$ rukpak inspect $bundle"
"$RUKPAK" inspect "$bundle"

say "\$ rukpak convert $bundle > manifests.yaml"
"$RUKPAK" convert "$bundle" >"$manifests"
grep -c '^kind:' "$manifests" | sed 's/$/ objects:/'
awk '/^kind:/ { count[$2]++ } END { for (kind in count) printf "  %2d %s\n", count[kind], kind }' "$manifests" | sort -k2

say "\$ kubectl apply --server-side -f manifests.yaml   # a real kube-apiserver"
kubectl version 2>/dev/null | sed -n 's/^Server/server/p'
kubectl apply --server-side -f "$manifests"

say "\$ kubectl wait --for condition=Established crd --all"
kubectl wait --for condition=Established --timeout 60s crd --all

say "\$ kubectl get -f manifests.yaml"
kubectl get -f "$manifests"

say "The bundle's objects are in a real cluster; it stops now."
