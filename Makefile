# SPACE: build, try and test it. 'make help' lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build demo down purge test test-long setup check unit vm-test e2e e2b-conformance redteam fresh-demo check-generated bench soak test-firecracker generate tools compiler jq fuzzer cross kernel test-kvm mutants

GO ?= $(or $(shell command -v go),/usr/local/go/bin/go)
export PATH := $(patsubst %/,%,$(dir $(GO))):$(PATH)
INSTANCE ?= demo
FILE ?= examples/hello.py
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# What is built, tested and generated shares what was compiled: as long as these are the same. The race detector alone needs cgo.
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)
CGO0 := CGO_ENABLED=0 $(GO)
# No stamp by the tool: a template is made with one spaced-guest, and must not be built anew because of a commit that left it alone.
BUILD := $(CGO0) build -buildvcs=false
TEST_INSTANCE := maketest
# What 'make test' leaves to 'make test-long': power loss and exhaustion of the node, and of guests.
LONG_E2E := ^(TestPowerLoss|Test[A-Za-z]*Runs?(Full|Out))$$
LONG_REDTEAM := ^TestR[0-9]
VM_PACKAGES = $(shell grep -rl --include=*_test.go '^//go:build vm' internal cmd 2>/dev/null | xargs -r -n1 dirname | sort -u | sed "s,^,./,")

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

tools:
	@command -v $(GO) >/dev/null || { echo "error: Go is missing: install Go 1.26 and put it into PATH, or set GO=/path/to/go" >&2; exit 1; }
	@command -v git >/dev/null || { echo "error: git is missing: apt-get install git" >&2; exit 1; }

build: tools ## build bin/space and bin/spaced-guest
	@mkdir -p bin
	@$(BUILD) -ldflags "-s -w -X main.version=$(VERSION)" -o bin/space ./cmd/space
	@$(BUILD) -ldflags "-s -w" -o bin/spaced-guest ./cmd/spaced-guest

demo: build ## start the platform INSTANCE (demo if not given) and run FILE (a Python file) in a sandbox of it
	@hack/demo "$(INSTANCE)" "$(FILE)"

down: build ## stop the platform INSTANCE (demo if not given); what it stored stays
	@if bin/space instances -o json | grep -q '"name": "$(INSTANCE)"'; then bin/space down --instance $(INSTANCE) --force; else echo "platform $(INSTANCE) isn't on this machine"; fi

purge: build ## remove every platform that was brought up with this checkout's bin/space, with its data
	@hack/purge

test: ## all tests: unit, machines, whole platform; the last step is a demo in a fresh platform
	@$(MAKE) --no-print-directory build setup check-generated cross unit vm-test e2e redteam fresh-demo

setup: build
	@bin/space setup --instance $(TEST_INSTANCE)
	@command -v systemd-analyze >/dev/null || apt-get install --yes --no-install-recommends systemd # checks our units; it doesn't run

compiler: # the race detector needs one
	@command -v gcc >/dev/null || apt-get install --yes --no-install-recommends gcc libc6-dev

check: tools ## the inner loop: unit tests without the race detector; what passed and hasn't changed isn't run again
	$(CGO0) test ./...

unit: tools compiler ## unit tests with the race detector
	$(GO) test -race ./...
	$(GO) test -race -tags load -run Inside ./cmd/space

vm-test: tools ## tests that start real machines
	$(CGO0) test -tags vm -p 2 -parallel 2 -timeout 25m $(VM_PACKAGES)

fuzzer: # the schema fuzzer is written in Python; its test installs it
	@python3 -c 'import ensurepip, venv' 2>/dev/null || apt-get install --yes --no-install-recommends python3 python3-venv

cross: tools ## build for arm64
	GOARCH=arm64 $(CGO0) build -o /dev/null ./cmd/...

jq: # the documentation's examples use it, and are tests
	@command -v jq >/dev/null || apt-get install --yes --no-install-recommends jq

e2e: build jq fuzzer ## tests of the whole platform
	$(CGO0) test -tags e2e -count=1 -timeout 30m -skip '$(LONG_E2E)' ./e2e/

e2b-conformance: build fuzzer ## all that is known of E2B's SDKs, by method, counted in build/e2b-conformance.json; many of them at once; daemons killed under them
	$(CGO0) test -tags 'e2e long' -count=1 -timeout 90m -run '^TestLongE2B' -v ./e2e/

redteam: build ## attacks on a whole platform
	$(CGO0) test -tags e2e -count=1 -timeout 20m -skip '$(LONG_REDTEAM)' ./redteam/

test-long: build jq fuzzer ## tests that take long: a gigabyte through the command line, the schema fuzzer, all e2e tests with and without a pool, all attacks, mutants
	$(CGO0) test -tags 'e2e long' -count=1 -timeout 2h -run '^TestLong' -v ./e2e/
	$(CGO0) test -tags 'vm long' -count=1 -timeout 60m -p 1 -run '^TestLong' -v ./internal/host ./internal/host/vmm/qemu
	$(CGO0) test -tags long -count=1 -timeout 20m -run '^TestLong' -v ./internal/host/execution
	$(CGO0) test -tags e2e -count=1 -timeout 40m ./e2e/
	SPACE_E2E_POOL=0 $(CGO0) test -tags e2e -count=1 -timeout 40m ./e2e/
	$(CGO0) test -tags e2e -count=1 -timeout 20m ./redteam/
	GOARCH=arm64 $(CGO0) vet ./...
	$(MAKE) --no-print-directory test-kvm
	$(GO) run ./hack/mutants -long

fresh-demo: build
	@bin/space purge --instance $(TEST_INSTANCE) --yes
	@$(MAKE) --no-print-directory demo INSTANCE=$(TEST_INSTANCE)
	@bin/space purge --instance $(TEST_INSTANCE) --yes

test-firecracker: tools ## the conformance suite and a whole platform with the real FIRECRACKER=/path and JAILER=/path; without KVM in a guest that has it
	@FIRECRACKER="$(FIRECRACKER)" JAILER="$(JAILER)" hack/test-firecracker

bench: build ## measure, into build/bench.json
	hack/bench

kernel: ## build tuned guest kernels, or take KERNEL=/path (docs/kernels.md)
	@KERNEL="$(KERNEL)" hack/kernel

test-kvm: build ## the conformance suite of the qemu driver with hardware virtualisation
	@hack/test-kvm

check-generated: tools # committed generated code is what its sources say
	hack/check-generated

generate: tools ## regenerate api/gen and internal/postgres/db
	hack/generate

mutants: build ## prove that the tests can fail: each fault of a committed list must turn its test red; LONG=1 for those that need a platform, too
	$(GO) run ./hack/mutants $(if $(LONG),-long)
