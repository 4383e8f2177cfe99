#!/usr/bin/env bash
# Checks the types of what users import and of the command, with their tests, and vets them, for other systems: scripts/systems.sh [os/arch ...]
#
# Nothing is compiled: what compiles for one system and has its types right on another compiles there, and to compile the standard library
# and SQLite takes minutes for each system.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- windows/amd64 darwin/arm64 linux/386

go build -C tools -o ../bin/vet ./vet
for system in "$@"; do
	start=$SECONDS
	export GOOS=${system%/*} GOARCH=${system#*/} CGO_ENABLED=0
	# The servers of embedtest are for unix, and so are the tests that start them.
	packages=$(go list ./... | grep -vE '/(internal|embedtest|examples)(/|$)')
	# shellcheck disable=SC2086 # one word for each package
	bin/vet $packages 2>&1 | { grep -v ': analysis skipped due to errors in package$' || true; } # errors of types are said already
	echo "==> types, vet: $system, $((SECONDS - start)) s"
done
