#!/usr/bin/env bash
# Runs the tests of this module with the race detector, prints what each package took, and fails if one took more processor time
# than scripts/budgets.txt allows: scripts/test.sh [flags of go test] packages
#
# The bound is on processor time, for that of a test is much the same on a quiet machine and on a busy one. By the clock the
# only bound is that of go test, for a hang.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

FARSYNC_TIMES=$(mktemp)
export FARSYNC_TIMES
trap 'rm -f "$FARSYNC_TIMES"' EXIT

failed=0
# SQLite in Go is a translation from C, whose memory is no variables of Go: the detector finds nothing there, and takes seven times as long.
go test -race '-gcflags=modernc.org/...=-race=false -d=checkptr=0' -timeout 20m -exec "$PWD/scripts/timed.sh" "$@" || failed=1

sort -k3 -n -r "$FARSYNC_TIMES" | awk -v root="$PWD" '
	FNR == NR { if ($1 != "" && $1 !~ /^#/) budget[$1] = $2; next }
	FNR == 1 { printf "%-28s %12s %12s %8s\n", "package", "by the clock", "of processor", "budget" }
	{
		package = $1 == root ? "." : substr($1, length(root) + 2)
		most = package in budget ? budget[package] : budget["*"]
		verdict = $3 + 0 > most + 0 ? "  OVER" : ""
		if (verdict != "") over++
		printf "%-28s %10.1f s %10.1f s %6d s%s\n", package, $2, $3, most, verdict
	}
	END { exit over > 0 }' scripts/budgets.txt - || { echo "test: a package took more processor time than scripts/budgets.txt allows"; failed=1; }
exit "$failed"
