#!/usr/bin/env bash
# Runs an area of make long: the tests that leave themselves to it (internal/suite). With FULL=1 it also runs some of them with larger numbers,
# for up to an hour each: a thousand holders cut off, a million locks.
# [FULL=1] scripts/long.sh AREA
#
# It does not end at the first that fails. At its end it prints each step with its time and what came of it, and the tests that failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

areas="etcd zk redis postgres mysql sqlite command live quorum layers model fuzz systems newest"
area=${1:-}
if [ "$area" = all ]; then
	failed=0
	for a in $areas; do "$0" "$a" || failed=1; done
	exit "$failed"
fi
if [ -z "$area" ] || ! grep -qw -- "$area" <<<"$areas"; then
	echo "usage: make long AREA=… with one of: $areas; or all" >&2
	exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/table"
export FARSYNC_NOT_RUN=$work/notrun
: >"$FARSYNC_NOT_RUN"
failed=0

# row NAME RESULT SECONDS COUNTS
row() { printf '%-60s %-10s %6d s   %s\n' "$@" >>"$work/table"; }

# step NAME COMMAND...: false if the command was
step() {
	local name=$1 start=$SECONDS result=ok
	shift
	echo "==> long, $area: $name"
	"$@" 2>&1 | tee "$work/output" || result=FAILED
	awk -f scripts/failed.awk "$work/output" >>"$work/failed"
	[ "$result" = ok ] || failed=1
	row "$name" "$result" "$((SECONDS - start))" ""
	[ "$result" = ok ]
}

# tests NAME FOLDER FLAGS...: what go test runs in that module or package with these flags.
go build -o "$work/report" ./internal/suite/report || exit 1
tests() {
	local name=$1 folder=$2 start=$SECONDS result=FAILED
	shift 2
	echo "==> long, $area: $name"
	: >"$work/summary"
	go test -C "$folder" -json -count=1 -timeout 1h "$@" 2>&1 | "$work/report" -to "$work/summary"
	case ${PIPESTATUS[*]} in
	"0 0") result=ok ;;
	*" 3") result="not judged" ;;
	*) failed=1 ;;
	esac
	row "$name" "$result" "$((SECONDS - start))" "$(head -1 "$work/summary")"
	tail -n +2 "$work/summary" >>"$work/failed"
}

# As in make test: an etcd that tests start is built without the detector.
go build -o "$work/etcdserver" ./embedtest/etcdserver || exit 1
export FARSYNC_EMBEDTEST_PROGRAM=$work/etcdserver

race=(-race '-gcflags=modernc.org/...=-race=false -d=checkptr=0')

# Tests of embedtest start a MySQL, and all of internal/mysqltest runs on it as well as on MariaDB, and what the command does there. Who
# names a server needs no other.
mysql=yes
if [ "$area" = mysql ] && [ -z "${FARSYNC_MYSQL:-}" ]; then
	step "MySQL 9.7, unpacked" scripts/server-versions.sh mysql-9.7 || mysql=no
fi

# The tests that say so themselves, a package at a time. The race detector multiplies what bench and docstest measure: memory and rates.
while IFS=$'\t' read -r folder run; do
	flags=("${race[@]}")
	case $folder in bench | internal/docstest) flags=() ;; esac
	tests "$folder" "$folder" "${flags[@]}" -run "$run" .
done < <(go run ./internal/suite/list -area "$area" -run)

# full PACKAGE PATTERN FLAGS...: the same with larger numbers, without the race detector.
larger=0
full() {
	local package=$1 run=$2
	shift 2
	if [ -z "${FULL:-}" ]; then larger=1; else tests "$package $*" . -run "$run" "$package" "$@"; fi
}
# loads STORE: every load of that store, for hours.
loads() { if [ -z "${FULL:-}" ]; then larger=1; else step "every load of $1" make --no-print-directory load ONLY="^$1/"; fi; }
# What the command does on a MySQL, in tests that have a part for each store.
command='^(TestCommandOnMySQL|TestServices|TestOthersSeeWhatIsWaitedFor|TestTablesAreMissing|TestCredentialsRotate|TestDoctor.*|TestNoRefusal.*|TestNoSilence.*|TestRestartedService.*|TestServiceThatAFullDisk.*)$/(?i)mysql'
losses='^TestLeaseEndsBeforeTheNextHolderIsGranted$'
case $area in
etcd)
	full ./internal/etcdtest "$losses" -cuts=1000
	loads etcd
	;;
zk)
	full ./internal/zktest "$losses" -cuts=1000
	full ./internal/zktest '^(TestOutages|TestCrowdIsServed)' -partings=200 -crowd=10000
	loads zookeeper
	;;
redis)
	full ./internal/redistest '(KeepsHoldersApart|^TestStoppedServerLosesNothing|^TestLeaseEndsBeforeTheNextHolderIsGranted)$' \
		-disasters=20 -failovers=20 -cuts=1000
	loads redis
	;;
postgres)
	full ./internal/postgrestest '(KeepsHoldersApart|^TestLeaseEndsBeforeTheNextHolderIsGranted|^TestStoppedHoldersWriteNothingStale|^TestIdleStoresCost|^TestTablesStaySmall)$' \
		-disasters=20 -cuts=1000 -stops=20 -idle=1000 -acquisitions=1000000
	loads postgres
	;;
mysql)
	if [ "$mysql" = yes ]; then
		tests "internal/mysqltest, all of it, -on=MySQL" . "${race[@]}" ./internal/mysqltest -on=MySQL
		tests "the command, -on=MySQL" . "${race[@]}" ./cmd/farsync -on=MySQL -run "$command"
		tests "least rights, -on=MySQL" . "${race[@]}" ./internal/docstest -on=MySQL -run '^TestLeastRightsOnMySQL$'
	else
		row "internal/mysqltest, all of it, -on=MySQL" "not judged" 0 "there is no MySQL here"
	fi
	full ./internal/mysqltest '^(TestLeaseEndsBeforeTheNextHolderIsGranted|TestKilledServerKeepsHoldersApart|TestHoldersStoppedBetweenGuardAndCommit|TestIdleStoresCost|TestTablesStaySmall)$' \
		-cuts=1000 -kills=20 -holders=20 -idle=1000 -acquisitions=1000000
	loads mysql
	;;
sqlite) loads sqlite ;;
command)
	full ./cmd/farsync '^TestOneOfManyRuns$' -processes=50 -rounds=200
	if [ -z "${FULL:-}" ]; then larger=1; else step "every way in which a COMMAND can die" make --no-print-directory deaths; fi
	;;
live) full ./internal/livetest '^TestThousandsOnServices$' -crowded ;;
model)
	full . '^TestPlays$' -play=1 -held=1000000
	[ -z "${FULL:-}" ] || tests "bench: joins behind 5,000" bench -run '^TestJoinsBehindLongQueues$' . -longest=5000
	;;
fuzz) step "every fuzz target" scripts/fuzz.sh "${FUZZTIME:-60s}" ;;
systems) step "all systems" scripts/systems.sh linux/amd64 linux/arm64 linux/386 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 ;;
newest)
	tests "the drivers' suites with the newest dependencies" . -modfile=tools/newest.mod -run '^TestDriver' \
		./internal/etcdtest ./internal/zktest ./sqlite ./internal/redistest ./internal/postgrestest ./internal/mysqltest
	;;
esac

printf '\nlong, %s:\n' "$area"
cat "$work/table"
awk -v root="$PWD" -f scripts/notrun.awk "$FARSYNC_NOT_RUN"
[ "$larger" = 0 ] || echo "with larger numbers, for up to an hour each: FULL=1"
if [ -s "$work/failed" ]; then
	echo "failed, or not judged:"
	cat "$work/failed"
fi
exit "$failed"
