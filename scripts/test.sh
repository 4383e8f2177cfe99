#!/usr/bin/env bash
# Runs what make test has of this module's tests, with the race detector, and prints what each package took, what the suite took beside a
# fixed piece of work, how many tests are left to make long, which could not be run here, and what failed: scripts/test.sh [flags of go test] packages
#
# A run of all packages that needs three times as much as scripts/suite-note.txt says, in units of that piece of work, is red: it has
# grown. Seconds are no bound but for a hang, for they say as much about the machine as about the suite.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

# in_memory reports whether /dev/shm has room for the temporary files of the tests, and lets programs start, as in some containers it does not.
# A TMPDIR of the user's counts more.
in_memory() {
	local plenty=$((8 << 20)) # kB; the command's tests alone use 860 MB
	[ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && [ -r /proc/mounts ] || return
	awk '$2 == "/dev/shm" { starts = $4 !~ /(^|,)noexec(,|$)/ } END { exit !starts }' /proc/mounts &&
		[ "$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')" -ge "$plenty" ] &&
		[ "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)" -ge "$plenty" ]
}

# On a disk a tenth of the processor time of the command's and PostgreSQL's tests goes into a search for free inodes: each server has some
# thousand files.
memory=
if in_memory && memory=$(mktemp -d /dev/shm/farsync.XXXXXX); then
	chmod 1777 "$memory" # like /tmp: some servers are run by another user
	export TMPDIR=$memory
fi
work=$(mktemp -d)
trap 'rm -rf "${memory:-$work}"' EXIT
export FARSYNC_TIMES=$work/times FARSYNC_NOT_RUN=$work/notrun
: >"$FARSYNC_TIMES"
: >"$FARSYNC_NOT_RUN"

export FARSYNC_YARDSTICK=$work/yardstick
go build -o "$FARSYNC_YARDSTICK" ./internal/suite/yardstick || exit 1
# An etcd that tests start is no code of ours: it is built without the detector.
go build -o "$work/etcdserver" ./embedtest/etcdserver || exit 1
export FARSYNC_EMBEDTEST_PROGRAM=$work/etcdserver

# SQLite in Go is a translation from C, whose memory is no variables of Go: the detector finds nothing there, and takes seven times as long.
# The models start no goroutine, and are three times as fast without it.
watched=(-race '-gcflags=modernc.org/...=-race=false -d=checkptr=0' '-gcflags=github.com/farsync/farsync/internal/model=-race=false')
case " $* " in *' ./... '* | *cmd/farsync*)
	export FARSYNC_BUILT=$work/farsync
	go build "${watched[@]}" -buildvcs=false '-ldflags=-s -w' -o "$FARSYNC_BUILT" ./cmd/farsync || exit 1
	;;
esac

# With the detector a program waits for a second before it ends, so that goroutines can report races meanwhile. For some fifty packages that is
# most of a minute. The tests of the command set less still for the programs that they start.
export GORACE=${GORACE:-atexit_sleep_ms=50}

failed=0
# Two packages at a time on two cores, for most tests wait for a server, or for time to pass: one would leave the cores idle. With four
# on two cores the suite took nine tenths of the time, a quarter more of the processors, and the machine stood at a load of eleven. More
# cores take more packages. How many tests of a package run at a time is said by its
# TestMain (locktest.AtOnce), or is the number of cores.
packages=$(($(getconf _NPROCESSORS_ONLN) / 2))
[ "$packages" -ge 2 ] || packages=2
# The packages that take longest by the clock come first, so that no long one is left alone at the end.
first= beside=
if [ "$*" = ./... ]; then
	first='./cmd/farsync ./internal/postgrestest ./sqlite ./recipe ./internal/mysqltest ./internal/etcdtest ./internal/docstest ./driver/drivertest ./internal/zktest ./internal/redistest ./internal/livetest .'
	# With the detector this test tries a part of what it tries without. It has no server and waits for nothing, so it runs beside tests that wait.
	go test -vet=off -short -exec "$PWD/scripts/timed.sh" -run '^TestStore$' ./driver/drivertest >"$work/beside" 2>&1 &
	beside=$!
fi
# make check vets all packages. go test would do so again, which took a seventh of what it takes to build the tests.
# shellcheck disable=SC2086 # first is several packages, or none
go test -vet=off -short "${watched[@]}" -timeout 20m -p "$packages" \
	-exec "$PWD/scripts/timed.sh" $first "$@" 2>&1 | tee "$work/output" || failed=1
if [ -n "$beside" ]; then
	wait "$beside" || failed=1
	tee -a "$work/output" <"$work/beside"
fi

printf '\n%-32s %12s %12s\n' package 'by the clock' 'of processor'
sort -k3 -n -r "$FARSYNC_TIMES" | awk -v root="$PWD" '
	$3 >= 1 || $2 >= 5 { printf "%-32s %10.1f s %10.1f s\n", $1 == root ? "." : substr($1, length(root) + 2), $2, $3; next }
	{ rest++ }
	END { if (rest) printf "and %d packages with less than a second\n", rest }'

# Each package is compared with what the fixed piece of work took right after it: a machine that others share is twice as fast in one
# minute as in the next, and slower for two programs at a time than for one. A package without a measure of its own, as a small one
# and one whose results were cached, takes the median.
if [ "$*" = ./... ]; then
	note=$(grep -v '^#' scripts/suite-note.txt)
	yard=$(awk '$4 != "-" { print $4 }' "$FARSYNC_TIMES" | sort -n | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : 1 }')
	awk -v yard="$yard" -v note="$note" '
		{ all += $3; works += $3 / ($4 == "-" ? yard : $4) }
		END {
			printf "\nprocessor time: %.0f s, which is %.0f times the fixed piece of work (%.2f s); the note says %d\n", all, works, yard, note
			exit works > 3 * note
		}' "$FARSYNC_TIMES" || { echo "test: the suite has grown to more than three times its note, scripts/suite-note.txt"; failed=1; }
fi

go run ./internal/suite/list | awk -F'\t' '
	$4 == "whole" { whole++ } $4 == "part" { part++ } { area[$1]++ }
	END {
		printf "left to make long: %d tests, and a part of %d;", whole, part
		for (a in area) printf " %s %d", a, area[a]
		print ""
	}'
awk -v root="$PWD" -f scripts/notrun.awk "$FARSYNC_NOT_RUN"
awk -f scripts/failed.awk "$work/output" >"$work/failed"
if [ -s "$work/failed" ]; then
	echo "failed:"
	cat "$work/failed"
	failed=1
fi
exit "$failed"
