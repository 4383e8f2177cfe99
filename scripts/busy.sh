#!/usr/bin/env bash
# Runs a command beside loops that do nothing but turn, and ends them: scripts/busy.sh 4 go test -short -count=20 -run TestX ./package
set -uo pipefail
if [ $# -lt 2 ] || ! [[ $1 =~ ^[0-9]+$ ]]; then
	echo "usage: scripts/busy.sh LOOPS COMMAND [ARGUMENT ...]" >&2
	exit 2
fi
loops=()
end() { [ ${#loops[@]} -eq 0 ] || kill "${loops[@]}" 2>/dev/null; }
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for _ in $(seq 1 "$1"); do
	(while :; do :; done) &
	loops+=($!)
done
shift
"$@"
