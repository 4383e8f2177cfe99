#!/usr/bin/env bash
# Builds and vets all packages for the systems that a user may have: scripts/systems.sh [os/arch ...]
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 linux/386 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# The servers of embedtest are for unix, and so are the tests that start them.
unix_only='/internal/(compat|docs|etcd|mysql|postgres|redis|zk)test$'

for system in "$@"; do
	start=$SECONDS
	export GOOS=${system%/*} GOARCH=${system#*/} CGO_ENABLED=0
	packages=$(go list ./...)
	[ "$GOOS" != windows ] || packages=$(grep -vE "$unix_only" <<<"$packages")
	go build ./...
	# shellcheck disable=SC2086 # one word for each package
	go vet $packages
	echo "==> build, vet: $system, $((SECONDS - start)) s"
done
