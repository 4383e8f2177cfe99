#!/usr/bin/env bash
# Runs a test binary for go test -exec, and notes what it took: its directory, seconds by the clock, seconds of processor time. The
# latter are those of the servers that the test has started, too.
set -uo pipefail
TIMEFORMAT='%R %U %S'
{ took=$({ time "$@" >&3 2>&4 3>&- 4>&-; } 2>&1); } 3>&1 4>&2
code=$?
read -r wall user system <<<"$took"
[ -z "${FARSYNC_TIMES:-}" ] || awk -v of="$PWD" -v wall="$wall" -v cpu="$user" -v kernel="$system" \
	'BEGIN { printf "%s %.1f %.1f\n", of, wall, cpu + kernel }' >>"$FARSYNC_TIMES"
exit "$code"
