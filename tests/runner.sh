#!/usr/bin/env bash
# Test runner of `make test`: Cargo starts each test binary through this script. The script waits for a free place and
# starts the binary in the background, so that several binaries share the processors. It prints the output of a binary
# in one piece when the binary has ended. It skips a binary that was already started: tests/all.sh names the longest
# binary first, and then all.
set -euo pipefail
case $1 in
*/deps/*) ;;
*) exec "$@" ;; # a test in a doc comment
esac
name=${1##*/}
log=$RUKPAK_TEST_RUN/$name.log
[ ! -e "$log" ] || exit 0
: >"$log"
exec 7<>"$RUKPAK_TEST_RUN/places" 8>"$RUKPAK_TEST_RUN/printer"
read -r -n 1 -u 7 place
(
	trap 'printf %s "$place" >&7' EXIT
	status=0
	start=$(date +%s)
	"$@" >"$log" 2>&1 7<&- 8>&- &
	echo $! >"$RUKPAK_TEST_RUN/$name.pid"
	wait $! || status=$?
	rm "$RUKPAK_TEST_RUN/$name.pid"
	printf '%4d s  %s\n' $(($(date +%s) - start)) "${name%-*}" >"$RUKPAK_TEST_RUN/$name.time"
	flock 8
	printf '\n     %s (exit code %s)\n' "$name" "$status" >&2
	cat "$log" >&2
	echo "$status" >"$RUKPAK_TEST_RUN/$name.status"
) </dev/null &
