# make, or make help, lists the targets.
.DEFAULT_GOAL := help
SHELL := bash

# The modules of this repository, and those of them that have tests: tools/ pins versions, and has a command that make systems runs.
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
.PHONY: help test race long load model torture bites check format vet lint tidy-check systems bench benchmarks fuzz api tidy servers server-versions

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: servers ## what is true on any machine, with the race detector and real servers; says at its end what it leaves to make long
	@echo "==> test: ."
	@scripts/test.sh $(TESTFLAGS) $(PACKAGES)
	@$(call each,$(filter-out .,$(CODE)),test,go test -short $(TESTFLAGS) $(PACKAGES))

race: servers ## tests of the library with the race detector, for one thing many times
	@go test -race '-gcflags=modernc.org/...=-race=false -d=checkptr=0' $(TESTFLAGS) $(PACKAGES)

long: servers ## the rest, by area, AREA=etcd: kills, cuts, clocks, crowds, counted traffic, models in full; FULL=1: in larger numbers; make long lists the areas
	@scripts/long.sh $(AREA)

load: servers ## callers who give up, crowds, and thousands of locks, beside stock locks; a line that misses its bound fails: ONLY=etcd/impatient SHORT=1
	@cd bench && go build -o ../bin/bench .
	@bin/bench -load $(if $(ONLY),-only '$(ONLY)') $(if $(SHORT),-short)

# What is not set is left to the program: all stores, all primitives, all faults, for a minute each, by a seed that it prints.
TORTURE = $(if $(STORE),-store $(STORE)) $(if $(PRIMITIVE),-primitive $(PRIMITIVE)) $(if $(FAULTS),-faults $(FAULTS)) \
	$(if $(FOR),-for $(FOR)) $(if $(SEED),-seed $(SEED)) $(if $(SPARSE),-sparse)

torture: servers ## locks under faults, histories checked, then every fuzz target for a minute; in part: STORE=etcd PRIMITIVE=mutex FAULTS=wire,node,client,entry FOR=60s SEED=1; SPARSE=1: few clients
	@go build -o bin/torture ./internal/torture
	@bin/torture $(TORTURE)
	@$(if $(STORE)$(PRIMITIVE)$(FAULTS),,scripts/fuzz.sh $(if $(filter command line environment,$(origin FUZZTIME)),$(FUZZTIME),60s))

bites: servers ## the same with locks that are known to be wrong, and what is found in them: the same variables; SHORT=1: what tests of make test find
	@go build -o bin/torture ./internal/torture
	@bin/torture -prove $(if $(SHORT),-short) $(if $(FOR),,-for 20s) $(TORTURE)

model: ## the model of the protocol explored in full: states, time, and a shortest trace to what is violated
	@echo "==> model"
	@go test -count=1 -v -timeout 1h -run '^TestModel' ./recipe

# What is not set: all ways on all stores, 100 times on etcd and 30 times on each other.
deaths: servers ## the ways in which a COMMAND of farsync run can die, many times, eight at a time: STORE=redis WAY=cut RUNS=30
	@go test -c -race -o bin/deaths.test ./cmd/farsync
	@set -eo pipefail; for store in $(or $(STORE),etcd zookeeper redis postgres mysql sqlite); do \
		runs=$(or $(RUNS),$$([ $$store = etcd ] && echo 100 || echo 30)); echo "==> deaths: $$store, $$runs times"; \
		(cd cmd/farsync && ../../bin/deaths.test -test.timeout 3h -test.parallel 8 -test.v -test.run '^TestCommandIsDeadBeforeTheNextHolds$$' \
			-deaths=$$runs -deaths-ttl=2s -deaths-on=$$store $(if $(WAY),-deaths-of='$(WAY)')) | grep -Ev '^(=== | +--- PASS)'; \
	done

check: format tidy-check vet api-check plain-check systems lint ## all that CI demands besides test

bench: servers ## farsync beside its peers, into docs/reports/PERFORMANCE.md: ROUNDS=5, ONLY=pattern, WINDOW=1s
	@cd bench && go build -o ../bin/bench .
	@bin/bench -docs docs/reports $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(ONLY),-only '$(ONLY)') $(if $(WINDOW),-window $(WINDOW))

benchmarks: servers ## the benchmarks of all packages: BENCH=pattern, TESTFLAGS=-count=10
	@$(call each,$(CODE),benchmarks,go test -run '^$$' -bench '$(BENCH)' -benchmem $(TESTFLAGS) $(PACKAGES))

systems: ## vets for one of each kind of other systems what users import; all seven: make long AREA=systems
	@scripts/systems.sh

fuzz: ## every fuzz target for a moment: FUZZTIME=10s
	@scripts/fuzz.sh $(FUZZTIME)

lint: ## golangci-lint, at the version that tools/go.mod pins
	@$(call each,$(CODE),lint,$(GOLANGCI) run --allow-serial-runners ./...)

api: ## writes api/*.txt, what each public package exports; a line that goes away has to be named in CHANGELOG.md
	@go run ./internal/api -write

tidy: ## put the code and the go.mod files in order
	@$(call each,$(CODE),format,$(GOLANGCI) fmt)
	@$(call each,$(MODULES),go mod tidy,go mod tidy)
	@go mod tidy -modfile=tools/newest.mod

servers:
	@scripts/servers.sh

server-versions: ## unpacks servers that this system has no package of, MySQL 9.7, into the user's cache
	@scripts/server-versions.sh

format:
	@echo "==> gofmt"
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted, run make tidy:"; echo "$$unformatted"; exit 1; }

vet:
	@$(call each,$(CODE),vet,go vet ./...)
	@$(call each,./tools,build,go build ./...)

api-check:
	@echo "==> api"
	@go run ./internal/api

plain-check:
	@echo "==> plain"
	@go run ./internal/plain

tidy-check:
	@$(call each,$(MODULES),go mod tidy -diff,go mod tidy -diff)
	@go mod tidy -diff -modfile=tools/newest.mod
