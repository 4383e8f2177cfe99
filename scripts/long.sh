#!/usr/bin/env bash
# Runs an area of make long: the tests that leave themselves to it (internal/suite), and what is larger still, each in full.
# scripts/long.sh AREA
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
failed=0

# step NAME COMMAND...
step() {
	local name=$1 start=$SECONDS result=ok counts
	shift
	echo "==> long, $area: $name"
	"$@" 2>&1 | tee "$work/output" || result=FAILED
	counts=$(awk '/^--- PASS/ { p++ } /^--- FAIL/ { f++ } /^--- SKIP/ { s++ }
		END { printf "%d passed, %d failed, %d skipped", p, f, s }' "$work/output")
	awk -f scripts/failed.awk "$work/output" >>"$work/failed"
	[ "$result" = ok ] || failed=1
	printf '%-60s %-8s %6d s   %s\n' "$name" "$result" "$((SECONDS - start))" "$counts" >>"$work/table"
}

race=(-race '-gcflags=modernc.org/...=-race=false -d=checkptr=0')

# The tests that say so themselves, a package at a time.
while IFS=$'\t' read -r folder run; do
	step "$folder" go test -C "$folder" -count=1 -v -timeout 1h "${race[@]}" -run "$run" .
done < <(go run ./internal/suite/list -area "$area" -run)

# full PACKAGE PATTERN FLAGS...: the same with larger numbers, without the race detector.
full() {
	local package=$1 run=$2
	shift 2
	step "$package $*" go test -count=1 -v -timeout 1h -run "$run" "$package" "$@"
}
losses='^TestLeaseEndsBeforeTheNextHolderIsGranted$'
case $area in
etcd) full ./internal/etcdtest "$losses" -cuts=1000 ;;
zk)
	full ./internal/zktest "$losses" -cuts=1000
	full ./internal/zktest '^(TestOutages|TestCrowdIsServed)' -partings=200 -crowd=10000
	;;
redis)
	full ./internal/redistest '(KeepsHoldersApart|^TestStoppedServerLosesNothing|^TestLeaseEndsBeforeTheNextHolderIsGranted)$' \
		-disasters=20 -failovers=20 -cuts=1000
	;;
postgres)
	full ./internal/postgrestest '(KeepsHoldersApart|^TestLeaseEndsBeforeTheNextHolderIsGranted|^TestStoppedHoldersWriteNothingStale|^TestIdleStoresCost|^TestTablesStaySmall)$' \
		-disasters=20 -cuts=1000 -stops=20 -idle=1000 -acquisitions=1000000
	;;
mysql)
	full ./internal/mysqltest '^(TestLeaseEndsBeforeTheNextHolderIsGranted|TestKilledServerKeepsHoldersApart|TestHoldersStoppedBetweenGuardAndCommit|TestIdleStoresCost|TestTablesStaySmall)$' \
		-cuts=1000 -kills=20 -holders=20 -idle=1000 -acquisitions=1000000
	;;
command)
	full ./cmd/farsync '^TestOneOfManyRuns$' -processes=50 -rounds=200
	step "every way in which a COMMAND can die" make --no-print-directory deaths
	;;
live) full ./internal/livetest '^TestThousandsOnServices$' -crowded ;;
model)
	full . '^TestPlays$' -play=1 -held=1000000
	step "bench: joins behind 5,000" go test -C bench -count=1 -v -timeout 1h -run '^TestJoinsBehindLongQueues$' . -longest=5000
	;;
fuzz) step "every fuzz target" scripts/fuzz.sh "${FUZZTIME:-60s}" ;;
systems) step "all systems" scripts/systems.sh linux/amd64 linux/arm64 linux/386 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 ;;
newest)
	step "the drivers' suites with the newest dependencies" go test -v -count=1 -modfile=tools/newest.mod -run '^TestDriver' \
		./internal/etcdtest ./internal/zktest ./sqlite ./internal/redistest ./internal/postgrestest ./internal/mysqltest
	;;
esac

printf '\nlong, %s:\n' "$area"
cat "$work/table"
if [ -s "$work/failed" ]; then
	echo "failed:"
	cat "$work/failed"
	failed=1
fi
exit "$failed"
