#!/usr/bin/env bash
# The product as its users have it: its image, installed by its file, on a real node. `make e2e` runs it; so does CI.
# Arguments go to the test binary, as in `tests/e2e.sh install`.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

step() { printf '\n== %s\n' "$*" >&2; }
. tests/needs.sh node

if [ "${RUKPAK_E2E:-}" != node ]; then
	step "tests"
	# As `make test` builds them, with what other tests need: cluster-up and rukpak.
	built=$($cargo test --locked --workspace --no-run --message-format json --test e2e --test harness --test cli)
	built() { printf '%s\n' "$built" | sed -n "s/.*\"name\":\"$1\".*\"executable\":\"\([^\"]*\)\".*/\1/p"; }
	up=$(built cluster-up)
	RUKPAK_E2E_TESTS=$(built e2e)
	RUST_BACKTRACE=0 "$up" --node --check
	step "cluster"
	for module in tools node runtime pods; do tests/cluster/build.sh $module >/dev/null; done
	step "image"
	image/build.sh >/dev/null
	step "node"
	RUKPAK_E2E_DEFINITIONS=$(tests/cluster/openshift/definitions.sh)
	export RUKPAK_E2E=node RUKPAK_E2E_TESTS RUKPAK_E2E_DEFINITIONS PATH=${up%/*}:$PATH # rukpak is there, too
	exec "$up" --node -- tests/e2e.sh "$@"
fi

# From here on on a machine of its own, with a cluster.
tests/publish.sh
export RUKPAK_TEST_KUBECONFIG=$KUBECONFIG
log=$(mktemp)
status=0
(cd tests && "$RUKPAK_E2E_TESTS" "$@") 2>&1 | tee "$log" || status=$?
awk '/^test result:/ { passed += $4; failed += $6; skipped += $8 }
     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$log"
exit "$status"
