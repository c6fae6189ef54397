#!/usr/bin/env bash
# Tests the product as users run it: the image, installed by the install file, on a real node, and next to the real OLM on two
# other nodes. `make e2e` and CI run this script. The argument `olm` selects the two nodes with OLM. Other arguments are passed
# to the test binary, as in `tests/e2e.sh install`, on one node: a node with OLM if the first argument begins with `olm`.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

. tests/steps.sh
if [ -z "${RUKPAK_E2E:-}" ]; then
	work=$(mktemp -d)
	finish() {
		print_steps
		# shellcheck disable=SC2046 # several processes
		kill $(jobs -p) 2>/dev/null || true
		rm -rf "$work"
	}
	trap finish EXIT
	step "packages"
	. tests/needs.sh node
	step "tests"
	# The same build as in `make test`, which includes cluster-up and rukpak. tests/coverage.sh sets another wrapper.
	[ -n "${RUSTC_WORKSPACE_WRAPPER:-}" ] || . tests/lint.sh
	built=$($cargo test --locked --workspace --no-run --message-format json --test e2e --test harness --test cli)
	unset RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS
	built() { printf '%s\n' "$built" | sed -n "s/.*\"name\":\"$1\".*\"executable\":\"\([^\"]*\)\".*/\1/p"; }
	up=$(built cluster-up)
	RUKPAK_E2E_TESTS=$(built e2e)
	RUST_BACKTRACE=0 "$up" --node --check
	step "programs of the nodes and the image"
	tests/e2e-build.sh
	RUKPAK_E2E_OLM=$(tests/cluster/build.sh olm)
	RUKPAK_E2E_CRDS=$(tests/cluster/openshift/crds.sh)
	export RUKPAK_E2E RUKPAK_E2E_TESTS RUKPAK_E2E_OLM RUKPAK_E2E_CRDS PATH=${up%/*}:$PATH # contains rukpak as well
	case "${1:-}" in
	# Each client of OLM sends at most five requests per second, so two OLMs are faster than one.
	"") nodes="node olm olm-interrupted" ;;
	olm) nodes="olm olm-interrupted" ;;
	olm*) nodes=olm ;;
	*) nodes=node ;;
	esac
	# The nodes run at the same time: most tests wait for the cluster most of the time.
	status=0
	step "tests on: $nodes"
	for RUKPAK_E2E in $nodes; do
		: >"$work/$RUKPAK_E2E.log"
		"$up" --node -- tests/e2e.sh "$@" >"$work/$RUKPAK_E2E.log" 2>&1 &
		pids="${pids:-} $!"
	done
	tail --quiet --lines +1 --follow "$work"/*.log &
	printer=$!
	for pid in $pids; do wait "$pid" || status=$?; done
	sleep 1
	kill "$printer"
	print_steps
	# Prints one line for all nodes, after the lines of each.
	awk '/^test result:/ { passed += $4; failed += $6; skipped += $8 }
	     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit passed + failed == 0 }' "$work"/*.log || {
		echo "e2e: no test ran${*:+, because no name contains $*}" >&2
		status=1
	}
	exit "$status"
fi

# From here on, the script runs in a sandbox with a cluster.
tests/publish.sh
export RUKPAK_TEST_KUBECONFIG=$KUBECONFIG
# Most tests wait for the cluster most of the time, and those with OLM longer than the others.
threads=$((2 * $(nproc)))
case $RUKPAK_E2E in olm*) threads=$((3 * threads)) ;; esac
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$threads}"
status=0
run() { (cd tests && "$RUKPAK_E2E_TESTS" "$@") 2>&1 || status=$?; }
if [ $# -gt 0 ] && [ "$*" != olm ]; then
	run "$@"
	exit "$status"
fi
# Tests that affect the whole cluster run afterwards, and those that remove the product run last.
case $RUKPAK_E2E in
olm) run olm:: --skip olm::interrupted:: --skip olm::switch:: ;;
olm-interrupted)
	run olm::interrupted::
	run olm::switch::
	;;
*)
	run --skip olm:: --skip exclusive:: --skip removal::
	run exclusive::
	run removal::
	;;
esac
exit "$status"
