# Every target runs through the Go toolchain alone: no other tool is needed but a
# POSIX shell, git, and for race a C compiler.

.DEFAULT_GOAL := help
.PHONY: help build test race lint golden tidy bench bench-report bench-check demo fuzz cluster openstack sim years chaos rogue questions preempt soak mutants mutate vulns release check

# What can be set on the command line.
BENCH     ?= .
COUNT     ?= 1
BENCHTIME ?= 1s
FUZZTIME  ?= 10s
SIMTIME   ?= 60s
CHAOSTIME ?= 60s
ROGUETIME ?= 1m
PREEMPTTIME ?= 10m
QUESTIONS ?= 10000
SCALE     ?= 1
SEED      ?= 1
N         ?= 200
LEDGER    ?=
GATES     ?=
SHORT     ?=
WHOLE     ?=
PART      ?=
FRESH     ?=
VULNDB    ?= https://vuln.go.dev
SIGN_KEY  ?=

GO      ?= go
# Without symbols for debuggers, which take a third of the time to link, and without vet, which make lint runs.
GOTEST   = $(GO) test -vet=off -ldflags=-w
# It prints what each package costs, and in the end the first failure.
SUITE    = $(GO) run ./cluster-test/suite
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FORGED   = $(shell awk 'BEGIN { printf "%d", 10000000 * $(SCALE) }')
ZONEHOURS = 10
# A program that runs longer than this hangs, and says where.
CHAOSMAX ?= 20m
SIMMAX   ?= 12m
LINTER  := $(GO) tool -modfile=tools/go.mod golangci-lint
RELEASE := $(GO) tool -modfile=tools/release/go.mod

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Set with make TARGET NAME=VALUE: SIMTIME=$(SIMTIME) CHAOSTIME=$(CHAOSTIME) ROGUETIME=$(ROGUETIME) PREEMPTTIME=$(PREEMPTTIME) QUESTIONS=$(QUESTIONS) SCALE=$(SCALE) FUZZTIME=$(FUZZTIME)"
	@echo "  BENCH=$(BENCH) BENCHTIME=$(BENCHTIME) COUNT=$(COUNT) LEDGER=$(or $(LEDGER),FILE (none)) SEED=$(SEED) N=$(N) VULNDB=$(VULNDB) SIGN_KEY=$(or $(SIGN_KEY),FILE (none))"

# The first build compiles some 400 packages and prints how many are done. A later one prints nothing.
build: ## build bin/berth
	@{ $(GO) build -v -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/berth ./cmd/berth 2>&1; echo "exit $$?"; } \
		| awk -v total=$$($(GO) list -deps ./cmd/berth | wc -l) -f tools/progress.awk

test: ## run the tests that are pure, in virtual time or quick, with a drawn part of what takes long; WHOLE=1 for all of it
	$(SUITE) -suite test $(if $(WHOLE),,-short)

cluster: ## run the tests of real processes and disks
	$(SUITE) -suite cluster

race: ## run every test, shuffled, with the race detector
	$(GO) test -race -shuffle=on -timeout 10m ./...

lint: ## run the linters; the first run compiles them, which takes minutes
	$(LINTER) config verify
	$(LINTER) run ./...
	$(LINTER) run --build-tags chaos,openstack,years ./...

golden: ## rewrite golden files and conversations; review the diff
	$(GO) test $$($(GO) list -f '{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}' ./... \
		| awk '/berth\/internal\/(golden|script)[] ]/ {print $$1}') -update

tidy: ## fail if go.mod or go.sum is not tidy
	$(GO) mod tidy -diff

bench: ## run the benchmarks matching BENCH, COUNT times
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem -count $(COUNT) -timeout 60m ./...

bench-report: ## measure the table, its floors and the curves of docs/performance.md in one run, ten to fifteen minutes; SHORT=1 for a quick pass
	$(GO) run ./bench/report $(if $(SHORT),-short) -commit $$(git rev-parse --short HEAD)

bench-check: ## measure the table again, or read FRESH, and fail if a ratio to a floor fell by more than 15 %
	$(GO) run ./bench/report -check $(if $(SHORT),-short) $(if $(FRESH),-fresh $(FRESH)) -commit $$(git rev-parse --short HEAD)

demo: build ## build a small federation on this machine and boot into it
	./bin/berth demo

fuzz: ## fuzz every target for FUZZTIME
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . \
		| sed -E 's|/[^/]*:func | |' | sort \
		| while read -r folder target; do \
			echo "$$folder $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$folder" || exit 1; \
		done

# Needs the stock client: apt-get install python3-openstackclient python3-osc-placement python3-blazarclient.
openstack: ## drive the placement and the reservation API with the stock client of OpenStack
	$(GOTEST) -tags openstack -count=1 -timeout 10m ./cluster-test/openstack

sim: ## run federations in virtual time, new seeds until SIMTIME has passed
	$(GOTEST) -count=1 -v -timeout 0 ./cluster-test/sim -run '^TestSeeds$$' -for $(SIMTIME)

# As root with nft, ip and mkfs.ext4, machines are network namespaces with disks of
# their own. Without, it fails, unless BERTH_CHAOS_WITHOUT=disks,namespaces says that
# this is meant. GATES names a file that gets a line for each thing that was to be
# done, and how much of it was. Most tests wait most of the time: three at a time load
# two cores. PART=1 draws a part of the points at which processes end.
chaos: ## break federations of real processes and simulated ones for about fourteen minutes, SCALE times as much
	$(GOTEST) -count=1 -v -parallel 3 -timeout $(CHAOSMAX) -tags chaos $(if $(PART),-short) ./cluster-test/chaos -scale $(SCALE) \
		$(if $(LEDGER),-ledger $(abspath $(LEDGER))) $(if $(GATES),-gates $(abspath $(GATES)))
	$(GOTEST) -count=1 -v -timeout $(CHAOSMAX) ./buildplan/seal -run '^TestForged' -forged $(FORGED)
	@$(if $(GATES),echo "gate | chaos: forged blobs | $(FORGED) | $(FORGED) | ran" >> $(GATES))
	$(GOTEST) -count=1 -v -timeout $(SIMMAX) ./cluster-test/sim -run '^TestSeeds$$' -for $(CHAOSTIME) -hours $(ZONEHOURS)
	@$(if $(GATES),echo "gate | chaos: simulated zone hours | $(ZONEHOURS) | $(ZONEHOURS) | ran" >> $(GATES))

# As root with ip, nft and mkfs.ext4, and with the history of the repository: the release before is built from it.
years: ## break zones in two dozen ways and mend them by the runbooks, upgrade between two releases, let a year pass in a virtual day; about 20 minutes
	BERTH_NEED_MACHINES=1 $(GO) test -count=1 -v -parallel 4 -timeout 20m ./cluster-test/operate -run '^TestBrokenSituations$$' -situations
	$(GO) test -count=1 -v -tags years -timeout 20m ./cluster-test/upgrade
	$(GO) test -count=1 -v -timeout 60m ./cluster-test/sim -run '^TestAYearInADay$$' -weeks 52 -seed $(SEED)

rogue: ## let parties that were let in attack a federation for ROGUETIME each, and compare what others notice
	$(GO) test -count=1 -v -timeout 0 ./cluster-test/rogue -run '^TestRogues$$' -for $(ROGUETIME)

questions: ## let a parent, its admin and its member ask a zone QUESTIONS questions each about its hosts
	$(GO) test -count=1 -v -timeout 0 ./cluster-test/leak -run '^Test(Questions|Layouts)' -questions $(QUESTIONS)

preempt: ## boot preemptible instances and have leases begin over them for PREEMPTTIME
	$(GO) test -count=1 -v -timeout 0 -tags chaos ./cluster-test/chaos -run '^TestPreemptibles$$' -preempt $(PREEMPTTIME)

soak: ## the same for 80 minutes
	$(MAKE) chaos SCALE=7 CHAOSTIME=15m CHAOSMAX=2h SIMMAX=60m LEDGER=$(LEDGER)

mutants: ## show that the tests find every deliberate fault, and how fast
	$(GO) run ./cluster-test/mutants -ledger docs/ledger.md

mutate: ## make N faults at places drawn by SEED, and show how many the tests find; an hour or two
	$(GO) run ./cluster-test/mutants -random $(N) -seed $(SEED)

vulns: ## look for known vulnerabilities in what the code calls; VULNDB is the database
	$(RELEASE) govulncheck -db $(VULNDB) ./...

# Without cgo and paths, so that everybody gets the same bytes from one commit and one
# release of Go. A binary names its commit: go version -m.
release: ## build the binaries of a release in dist, with sums and a bill of materials; SIGN_KEY, an ssh key, signs the sums
	rm -rf dist && mkdir dist
	for arch in amd64 arm64; do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -buildvcs=true -trimpath -ldflags '-X main.version=$(VERSION)' \
			-o dist/berth-linux-$$arch ./cmd/berth || exit 1; \
	done
	$(RELEASE) cyclonedx-gomod app -json -main cmd/berth -output dist/berth.cdx.json .
	cd dist && sha256sum berth* >SHA256SUMS
	$(if $(SIGN_KEY),ssh-keygen -Y sign -f $(SIGN_KEY) -n berth dist/SHA256SUMS)

check: tidy lint race ## everything a change must pass
