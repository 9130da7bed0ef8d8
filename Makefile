# Targets for people. Everything a target needs it builds or installs itself.
GO ?= go
export CGO_ENABLED = 0

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/disagg/disagg/cmd/disagg/internal/cli.version=$(VERSION)

.PHONY: help build demo test test-short race lint fmt vet bench faults fuzz generate clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: ## bin/disagg, a static binary
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/disagg ./cmd/disagg

demo: build ## a whole run on this machine: no root, no Slurm, no GPU
	./bin/disagg demo

test: build ## every test, the lab included (installs its packages when root)
	./internal/lab/setup.sh
	$(GO) test -timeout 20m ./...

test-short: ## the tests that need no lab
	$(GO) test -short ./...

race: ## the tests that need no lab, under the race detector
	CGO_ENABLED=1 $(GO) test -race -short ./...

fmt: ## rewrite every file as gofmt wants it
	gofmt -w $$(git ls-files '*.go')

vet:
	$(GO) vet ./...

lint: ## golangci-lint with the layer rules
	./.ci/lint

generate: ## rewrite schemas, generated documents and golden files
	$(GO) test -short $$(grep -rl 'flag.Bool("update"' --include='*_test.go' . | xargs -n1 dirname | sort -u) -update

bench: build ## measured on the lab: start, readiness, teardown, footprint
	./internal/lab/setup.sh
	$(GO) run ./internal/bench/cmd/bench

faults: ## every fault of the matrix three times, on the lab
	./internal/lab/setup.sh
	DISAGG_FAULTS=3 $(GO) test -timeout 90m -count=1 -v -run TestMatrix ./internal/faults

fuzz: ## every fuzz target for two minutes, or FUZZTIME
	./.ci/fuzz

clean:
	rm -rf bin

include internal/lab/lab.mk
