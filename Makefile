# make, or make help, lists the targets.
.DEFAULT_GOAL := help
SHELL := bash

# The modules of this repository, and those of them that have code of ours: tools/ only pins versions.
MODULES := $(patsubst %/,%,$(sort $(dir $(shell find . -name go.mod -not -path '*/testdata/*'))))
CODE := $(filter-out ./tools,$(MODULES))

GOLANGCI := go tool -modfile=$(CURDIR)/tools/go.mod golangci-lint

# Passed to go test: make race TESTFLAGS='-run Mutex -count=100'.
TESTFLAGS ?=
PACKAGES ?= ./...
BENCH ?= .
FUZZTIME ?= 10s

# Under make a missing server is a failure. A plain go test ./... skips, and says so.
export FARSYNC_REQUIRE_SERVERS := 1

# $(call each,modules,name of the step,command): the command in each of the modules, up to the first that fails.
each = set -e; for module in $(1); do echo "==> $(2): $$module"; (cd $$module && $(3)); done

# The tests share two cores with their servers as it is.
.NOTPARALLEL:
.PHONY: help test race long check format vet lint tidy-check layers systems newest bench fuzz tidy servers

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: servers ## all tests once, with the race detector, against real servers; a package over its budget fails
	@echo "==> test: ."
	@scripts/test.sh $(TESTFLAGS) $(PACKAGES)
	@$(call each,$(filter-out .,$(CODE)),test,go test $(TESTFLAGS) $(PACKAGES))

race: servers ## tests of the library with the race detector, for one thing many times
	@go test -race $(TESTFLAGS) $(PACKAGES)

long: servers ## in full what make test plays a part of: leaders cut off, crowds of 10,000
	@echo "==> long"
	@go test -count=1 -v -timeout 1h -run '^(TestOutages|TestCrowdIsServed)' ./internal/zktest -partings=200 -crowd=10000

check: format tidy-check vet systems lint newest ## all that CI demands besides test

bench: servers ## all benchmarks: BENCH=pattern, TESTFLAGS=-count=10
	@$(call each,$(CODE),bench,go test -run '^$$' -bench '$(BENCH)' -benchmem $(TESTFLAGS) $(PACKAGES))

systems: ## builds and vets for Linux, macOS and Windows, on amd64 and arm64, and for 386
	@scripts/systems.sh

# go.mod requires the lowest versions that pass, and all tests run with them.
newest: servers ## the suites of the drivers with the newest versions of what farsync requires
	@echo "==> newest"
	@go test -modfile=tools/newest.mod -run '^TestDriver' ./internal/etcdtest ./internal/zktest ./sqlite ./internal/redistest

fuzz: ## every fuzz target for a moment: FUZZTIME=10s
	@scripts/fuzz.sh $(FUZZTIME)

lint: ## golangci-lint, at the version that tools/go.mod pins
	@$(call each,$(CODE),lint,$(GOLANGCI) run ./...)

tidy: ## put the code and the go.mod files in order
	@$(call each,$(CODE),format,$(GOLANGCI) fmt)
	@$(call each,$(MODULES),go mod tidy,go mod tidy)
	@go mod tidy -modfile=tools/newest.mod

servers:
	@scripts/servers.sh

format:
	@echo "==> gofmt"
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted, run make tidy:"; echo "$$unformatted"; exit 1; }

vet:
	@$(call each,$(CODE),vet,go vet ./...)

tidy-check:
	@$(call each,$(MODULES),go mod tidy -diff,go mod tidy -diff)
	@go mod tidy -diff -modfile=tools/newest.mod

layers:
	@echo "==> layers"
	@go test -count=1 ./internal/layers
