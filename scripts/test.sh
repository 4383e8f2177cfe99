#!/usr/bin/env bash
# Runs what make test has of this module's tests, with the race detector, and prints what each package took, what the suite took beside a
# fixed piece of work, how many tests are left to make long, and what failed: scripts/test.sh [flags of go test] packages
#
# A run of all packages that needs three times as much as scripts/suite-note.txt says, in units of that piece of work, is red: it has
# grown. Seconds are no bound but for a hang, for they say as much about the machine as about the suite.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export FARSYNC_TIMES=$work/times
: >"$FARSYNC_TIMES"

# processor COMMAND: seconds of processor time of a command
processor() {
	local TIMEFORMAT='%U %S' took
	took=$({ time "$@" >/dev/null 2>&1; } 2>&1) || return
	awk '{ print $1 + $2 }' <<<"$took"
}

go build -o "$work/yardstick" ./internal/suite/yardstick || exit 1
# An etcd that tests start is no code of ours: it is built without the detector.
go build -o "$work/etcdserver" ./embedtest/etcdserver || exit 1
export FARSYNC_EMBEDTEST_PROGRAM=$work/etcdserver
measure() { for _ in 1 2 3; do processor "$work/yardstick"; done >>"$work/yards"; }

failed=0
measure
# Two packages at a time on two cores, for most tests wait for a server, or for time to pass: one would leave the cores idle, and with
# three the servers wait for one another. More cores take more packages. How many tests of a package run at a time is said by its
# TestMain (locktest.AtOnce), or is the number of cores.
packages=$(($(getconf _NPROCESSORS_ONLN) / 2))
[ "$packages" -ge 2 ] || packages=2
# SQLite in Go is a translation from C, whose memory is no variables of Go: the detector finds nothing there, and takes seven times as long.
go test -short -race '-gcflags=modernc.org/...=-race=false -d=checkptr=0' -timeout 20m -p "$packages" \
	-exec "$PWD/scripts/timed.sh" "$@" 2>&1 | tee "$work/output" || failed=1
measure

printf '\n%-32s %12s %12s\n' package 'by the clock' 'of processor'
sort -k3 -n -r "$FARSYNC_TIMES" | awk -v root="$PWD" '
	$3 >= 1 || $2 >= 5 { printf "%-32s %10.1f s %10.1f s\n", $1 == root ? "." : substr($1, length(root) + 2), $2, $3; next }
	{ rest++ }
	END { if (rest) printf "and %d packages with less than a second\n", rest }'

if [ "$*" = ./... ]; then
	note=$(grep -v '^#' scripts/suite-note.txt)
	yard=$(sort -n "$work/yards" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
	awk -v yard="$yard" -v note="$note" '
		{ all += $3 }
		END {
			printf "\nprocessor time: %.0f s, which is %.0f times the fixed piece of work (%.2f s); the note says %d\n", all, all / yard, yard, note
			exit all / yard > 3 * note
		}' "$FARSYNC_TIMES" || { echo "test: the suite has grown to more than three times its note, scripts/suite-note.txt"; failed=1; }
fi

go run ./internal/suite/list | awk -F'\t' '
	$4 == "whole" { whole++ } $4 == "part" { part++ } { area[$1]++ }
	END {
		printf "left to make long: %d tests, and a part of %d;", whole, part
		for (a in area) printf " %s %d", a, area[a]
		print ""
	}'
awk -f scripts/failed.awk "$work/output" >"$work/failed"
if [ -s "$work/failed" ]; then
	echo "failed:"
	cat "$work/failed"
	failed=1
fi
exit "$failed"
