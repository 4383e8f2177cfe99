#!/usr/bin/env bash
# Runs a test binary for go test -exec, and notes what it took: its directory, seconds by the clock, seconds of processor time, with
# those of the servers that the test has started, and, where it took two seconds or more, what the fixed piece of work takes at that
# time (FARSYNC_YARDSTICK), or else a dash.
set -uo pipefail
TIMEFORMAT='%R %U %S'
{ took=$({ time "$@" >&3 2>&4 3>&- 4>&-; } 2>&1); } 3>&1 4>&2
code=$?
[ -n "${FARSYNC_TIMES:-}" ] || exit "$code"
read -r wall user system <<<"$took"
cpu=$(awk -v user="$user" -v kernel="$system" 'BEGIN { print user + kernel }')
yard=-
if [ -n "${FARSYNC_YARDSTICK:-}" ] && awk -v cpu="$cpu" 'BEGIN { exit cpu < 2 }'; then
	{ yard=$({ time "$FARSYNC_YARDSTICK" >/dev/null 2>&1; } 2>&1); } && yard=$(awk '{ print $2 + $3 }' <<<"$yard") || yard=-
fi
printf '%s %.1f %.1f %s\n' "$PWD" "$wall" "$cpu" "$yard" >>"$FARSYNC_TIMES"
exit "$code"
