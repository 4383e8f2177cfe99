#!/usr/bin/env bash
# Runs every fuzz target of every module, one after the other, each for the time given: scripts/fuzz.sh 10s
# In two processes each: some targets start a server in each of them.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}

found=0
while IFS=: read -r file target; do
	found=$((found + 1))
	echo "==> fuzz: $target in $(dirname "$file"), $time"
	go test -C "$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -parallel 2 .
done < <(grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | sort)
echo "==> fuzz: $found targets"
