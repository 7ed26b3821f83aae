# SPDX-License-Identifier: Apache-2.0

GO ?= $(shell scripts/find-go)
MAKEFLAGS += --no-print-directory
# Without the path of the tree in them, what one checkout has built and tested is there for others.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
JOBS ?= $(shell nproc)
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
EDITORCONFIG_CHECKER = github.com/editorconfig-checker/editorconfig-checker
EDITORCONFIG = $(EDITORCONFIG_CHECKER)/v3/cmd/editorconfig-checker@v3.0.3
# Indentation is gofmt's and clang-format's matter, the length of lines tests/columns_test.go's.
MADE = zz_generated|\.tsv$$|docs/(wire|coverage|commands|attributes)\.md|\.svg$$|go\.sum
EDITORCONFIG_FLAGS = -no-color -disable-indentation -disable-indent-size -disable-max-line-length \
	-exclude '$(MADE)|testdata|tests/programs/want'
# Says at the end what was skipped and why, which go test keeps to itself.
GOTESTSUM = gotest.tools/gotestsum@v1.13.0

.DEFAULT_GOAL := build
.PHONY: attacks count-hostile cover debug-kernel fuzz fuzz-short help build deps deps-demo \
	generate \
	lint unit system stress stress-device stress-faults stress-suspends suspend-programs \
	migrations test nightly unit-long walk-systems \
	walk-host-package walk-operator walk-operator-short walk-kernels walk-secure-boot \
	demo install host-package vm-package guest-package release \
	soft-bundle soft-image gpu-bundle gpu-bundle-qemu clean \
	bench-copy bench-launch bench-memory bench-sandbox bench-share bench-start bench-state \
	demo-packages demo-go demo-nvcc demo-kernel demo-virtiofsd demo-parts demo-binary \
	demo-guest demo-module demo-program binary guest modules \
	unit-go unit-cover unit-driver unit-library system-programs system-hostile system-wakeups \
	system-vm threads-kernel FORCE

help: ## say what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | \
		awk -F'\t' '{ printf "%-20s %s\n", $$1, $$2 }'

build: binary guest modules ## build everything that the downloads in place allow

binary: bin/paracuda ## build the host's program

# The program contains the version, but not the path of the tree: the same commit built elsewhere
# gives the same program. What Go itself would record of git says less, and needs git.
GO_BUILD = $(GO) build -trimpath -buildvcs=false -ldflags "-X main.version=$$(scripts/version)"

# Position-independent, so that the lowest addresses are free: a worker maps the memory that a
# guest's program registers at the program's own addresses.
bin/paracuda: FORCE
	$(GO_BUILD) -buildmode=pie -o $@ ./cmd/paracuda

# The debugging information doesn't contain the path of the tree either.
guest: export CFLAGS := $(or $(CFLAGS),-O2 -g -ffile-prefix-map=$(CURDIR)=.)
guest: ## build the guests' init and libraries
	$(MAKE) -s -C guestdriver/init
	$(MAKE) -s -C guestdriver/libcuda
	$(MAKE) -s -C guestdriver/nvml
	$(MAKE) -s -C guestdriver/smi
	$(MAKE) -s -C guestdriver/cupti
	$(MAKE) -s -C guestdriver/doctor
	$(MAKE) -s -C guestdriver/cdi

modules: ## build the guest driver for each guest kernel
	scripts/build-modules

deps: ## fetch and build what the tests need
	@scripts/on-debian
	scripts/deps

deps-demo: demo-packages demo-go demo-nvcc demo-kernel demo-virtiofsd ## fetch what the demo needs

# The parts of the demo, each of which is fetched and built as soon as possible: some wait for the
# network, some for a processor.
demo-packages:
	scripts/apt-deps demo

# Go fetches its release and the modules while apt still installs a C compiler.
demo-go:
	scripts/fetch-go
	$(GO) list -deps ./cmd/paracuda >/dev/null

demo-nvcc:
	scripts/fetch-nvcc 12.4

demo-kernel:
	scripts/fetch-kernel 6.1

demo-virtiofsd:
	scripts/fetch-virtiofsd

demo-parts: demo-virtiofsd demo-binary demo-guest demo-module demo-program

demo-binary: demo-packages demo-go
	$(MAKE) binary

demo-guest: demo-packages
	$(MAKE) -s guest

demo-module: demo-packages demo-kernel
	+scripts/build-modules linux-6.1

demo-program: demo-packages demo-nvcc
	scripts/demo build

generate: ## write generated sources anew
	$(GO) run ./gpubackend/internal/gen
	$(GO) generate ./...

lint: ## check formatting and correctness
	@! "$$($(GO) env GOROOT)/bin/gofmt" -d cmd gpubackend guestdriver internal qemu tests \
		vhostuser virtqueue vm | grep .
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	scripts/lint-c
	$(GO) run $(EDITORCONFIG) $(EDITORCONFIG_FLAGS)

unit: unit-go unit-cover fuzz-short unit-driver unit-library ## run the unit tests

# These test the tree, and programs that are built without the race detector: `system` runs them.
APART = tests tests/hostile
# scripts/cover tests these, too: not with the race detector, which would miss races, since to it
# the counts of what is executed order what goroutines do.
MEASURED = gpubackend vhostuser virtqueue
NOT_MEASURED = $(foreach name,$(MEASURED),-e '/\/$(name)\//b' -e '/\/$(name)$$/b')
# Lists the packages to be tested: "race PACKAGE" with the race detector, and "none PACKAGE" those
# that can't race. Without any left grep fails, and so does what asks.
UNITS = PATH="$$($(GO) env GOROOT)/bin:$$PATH" $(GO) run ./internal/races ./... | \
	grep -v $(APART:%=-e /%$$)

# Not vetted: `lint` vets all. GORACE: the race detector would have each process sleep for a second
# at its end.
unit-go: export GORACE = atexit_sleep_ms=10
unit-go:
	list=$$($(UNITS)) && \
		$(GO) run $(GOTESTSUM) --format pkgname -- -vet=off -short -timeout 30m \
			$$(echo "$$list" | sed -n $(NOT_MEASURED) -e 's/^none //p') && \
		$(GO) run $(GOTESTSUM) --format pkgname -- -vet=off -race -short -timeout 30m \
			$$(echo "$$list" | sed -n 's/^race //p')

unit-cover:
	scripts/cover $(MEASURED)

unit-long: ## run the Go packages' tests, with those that -short leaves out (minutes)
	$(GO) run $(GOTESTSUM) --format pkgname -- -vet=off -timeout 60m \
		$$($(GO) list ./... | grep -v $(APART:%=-e /%$$))
	list=$$($(UNITS)) && \
		$(GO) run $(GOTESTSUM) --format pkgname -- -vet=off -race -short -timeout 60m \
			$$(echo "$$list" | sed -n 's/^none //p')

count-hostile: ## print how many cases of attacks there are, by kind
	$(GO) test -count 1 -v -run '^TestCasesAreCounted$$' ./tests/hostile

cover: ## print what the tests execute, and fail if it is too little (minutes)
	scripts/cover

unit-driver:
	$(MAKE) -s -C guestdriver/kernel test

unit-library:
	$(MAKE) -s -C guestdriver/libcuda test
	$(MAKE) -s -C guestdriver/nvml/test

system: ## run the whole-system tests, with QEMU and UML
system: system-programs system-hostile system-wakeups system-vm

# VMs at a time: two fit in 4 GiB, and one more than there are processors, since VMs also wait.
VMS ?= $(shell awk -v most=$$(($(JOBS) + 1)) '/^MemTotal/ { n = int($$2 / 2500000) } \
	END { print (n < 2 ? 2 : n > most ? most : n) }' /proc/meminfo)

# With -C and without a named package, go test prints while it runs.
system-programs:
	$(GO) test -C tests -vet=off -count=1 -timeout $(or $(SYSTEM_TIMEOUT),75m) -parallel $(VMS)

system-hostile:
	PARACUDA=$(CURDIR)/bin/paracuda $(GO) run $(GOTESTSUM) --format pkgname -- \
		-vet=off -count=1 -timeout 60m ./tests/hostile

# unit-go runs this test with the race detector. Without it the timing is another.
system-wakeups:
	PARACUDA_RACE_ROUNDS=20000 $(GO) run $(GOTESTSUM) --format pkgname -- \
		-vet=off -count=1 -timeout 50m -run TestNoWakeupIsLost ./gpubackend/worker

system-vm:
	$(GO) run $(GOTESTSUM) --format pkgname -- \
		-vet=off -count=1 -timeout 50m -p 1 ./vm ./qemu

# PARACUDA_RANDOM is the number of random requests.
debug-kernel: build ## try the guest driver under KASAN, lockdep, kmemleak and KCSAN (minutes)
	scripts/build-uml debug
	scripts/build-uml races
	scripts/build-modules uml-7.2-debug uml-7.2-races
	PARACUDA_RANDOM=$(or $(PARACUDA_RANDOM),20000) $(GO) test -C tests -count=1 -timeout 3h -v \
		-run '^(TestDriverUnderDebugKernel|TestDriverHasNoRaces)$$' .

threads-kernel: ## build a User Mode Linux that runs a program's threads at the same time
	scripts/build-uml threads
	scripts/build-modules uml-7.2-threads

stress: ## race library and worker for wake-ups, a million rounds
	PARACUDA_RACE_ROUNDS=1000000 $(GO) test -count=1 -timeout 25m -v -run TestNoWakeupIsLost \
		./gpubackend/worker

attacks: build ## attack the shares of VMs on the software GPU: the machine must do nothing else
	tests/bench/attacks --gpu soft --windows 8

migrations: ## migrate a VM whose programs compute 100 times, with each release of QEMU that can
	PARACUDA_NIGHTLY=1 PARACUDA_MIGRATIONS=100 $(GO) test -C tests -count=1 -timeout 240m -v \
		-parallel 2 \
		-run 'TestLiveMigration$$|TestKilledInAMigration$$|TestDeviceIsAway$$'

stress-device: build ## kill a VM's device process under load, a thousand times each way
	PARACUDA_KILLS=1000 PARACUDA_VM=uml $(GO) test -C tests -count=1 -timeout 4h -v \
		-run 'TestDeviceProcessIsKilledUnderLoad|KilledInAChange' .

stress-faults: build ## kill and stop processes of VMs at random moments, a thousand times
	PARACUDA_FAULTS=1000 $(GO) test -C tests -count=1 -timeout 6h -v \
		-run 'TestFaultsAtAnyMoment$$' .

stress-suspends: build ## suspend and resume a VM whose program computes, a thousand times
	PARACUDA_SUSPENDS=1000 PARACUDA_VM=uml $(GO) test -C tests -count=1 -timeout 3h -v \
		-run 'TestManySuspends$$' .

suspend-programs: build ## suspend and resume VMs in the middle of each test program
	PARACUDA_NIGHTLY=1 $(GO) test -C tests -count=1 -timeout 4h -v \
		-run 'TestProgramsSuspended$$' .

fuzz: build ## fuzz each target for FUZZTIME, by default an hour
	scripts/fuzz $(or $(FUZZTIME),1h)

# Targets for what a guest or a front end can send first: messages, rings, commands, code. They run
# for a number of inputs, not for a time: at its end the engine may take a slow input for a failure.
# The engine counts the inputs that a target begins with: FuzzRun has a thousand.
FUZZ_SHORT = vhostuser/FuzzSession vhostuser/FuzzRecorded virtqueue/FuzzRawRings \
	gpubackend/worker/FuzzCommands \
	gpubackend/soft/FuzzLoad gpubackend/soft/FuzzDevice gpubackend/soft/simt/FuzzRun

# Targets with a VM or a device process and its workers, whose inputs take longer than others.
FUZZ_WHOLE = tests/FuzzDriver tests/hostile/FuzzGuest

fuzz fuzz-short: export PARACUDA = $(wildcard $(CURDIR)/bin/paracuda)
fuzz-short: ## fuzz each target with a number of inputs
	scripts/fuzz 1000x $(FUZZ_SHORT:%=-%) $(FUZZ_WHOLE:%=-%)
	scripts/fuzz 2000x $(FUZZ_SHORT)
	scripts/fuzz 60x tests/FuzzDriver
	scripts/fuzz 120x tests/hostile/FuzzGuest

# On machines with little memory no VM runs at the same time as the linker. Elsewhere all run
# together: the system tests first, which take longest, and one job more than there are processors,
# as they often wait.
test: ## run all tests, after fetching and building what they need
	$(MAKE) deps
	$(MAKE) -j$(JOBS) build
ifeq ($(VMS),2)
	$(MAKE) -j$(JOBS) lint unit
	$(MAKE) -j$(JOBS) system
else
	$(MAKE) -j$$(($(JOBS) + 1)) system lint unit
endif

# Adds what `make test` leaves out, or does less often: packages' long tests, every release of QEMU,
# more migrations, releases, the walks, stress, shares under attack, fuzzing.
nightly: export PARACUDA_NIGHTLY = 1
nightly: export PARACUDA_ROUNDS = 1000
nightly: ## run all tests, and what takes hours
	$(MAKE) test SYSTEM_TIMEOUT=4h
	$(MAKE) unit-long
	$(MAKE) stress migrations stress-device stress-faults stress-suspends
	$(MAKE) attacks debug-kernel walk-host-package walk-systems
	$(MAKE) fuzz FUZZTIME=$(or $(FUZZTIME),10m)

demo: ## show an unmodified CUDA program running in a QEMU VM
	@scripts/on-debian
	$(MAKE) -j8 demo-parts
	scripts/demo run

install: binary ## install the host program, its services, manual and completions
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install

host-package: binary ## build the hosts' Debian package
	packaging/build

vm-package: binary guest modules ## build the package with which paracuda run works anywhere
	packaging/vm/build

walk-host-package: binary ## install, use, upgrade and remove that package in a VM (minutes)
	tests/walk/host-package

walk-operator: build ## walk an operator's way with libvirt, two Debians, Prometheus (minutes)
	PARACUDA_NIGHTLY=1 $(GO) test -C tests -count=1 -timeout 150m -v \
		-run '^TestOperatorsWalk$$' .

walk-operator-short: build ## the same with VMs that have only a driver and programs (minutes)
	PARACUDA_NIGHTLY=1 $(GO) test -C tests -count=1 -timeout 40m -v \
		-run '^TestOperatorsShortWalk$$' .

walk-systems: ## do what a newcomer does in fresh systems: GOAL, or demo (minutes each)
	tests/walk/systems

walk-secure-boot: guest-package ## have a kernel under Secure Boot load the driver (minutes)
	tests/walk/secure-boot

walk-kernels: guest-package ## install the guest package in each system with its kernel (minutes)
	tests/walk/kernels

release: ## make archives, packages, checksums and bill of materials of the last commit
	scripts/release

guest-package: guest ## build the guests' Debian package
	guestdriver/packaging/build

soft-bundle: binary guest ## build what runs CUDA programs anywhere without a GPU
	scripts/soft-bundle

soft-image: soft-bundle ## build a container image of that, with podman
	scripts/soft-image

gpu-bundle: binary guest ## build what a GPU host needs to check itself
	scripts/apt-deps
	scripts/build-uml
	scripts/build-modules uml-7.2
	scripts/gpu-bundle

gpu-bundle-qemu: gpu-bundle ## the same, with QEMU and its guest's kernel
	scripts/fetch-qemu
	scripts/fetch-kernel 6.1
	scripts/build-modules linux-6.1
	scripts/gpu-bundle-qemu

bench-copy: build ## measure copies, native and in a guest
	tests/bench/bench copy

bench-launch: build ## measure launches, native and in a guest
	tests/bench/bench launch

bench-start: build ## measure the start of programs, native and in a guest
	tests/bench/bench start

bench-share: build ## measure how VMs share a GPU, native and in guests
	tests/bench/share

bench-state: build ## measure suspends, a replacement, and what they cost while not used
	tests/bench/state
	tests/bench/state --replace --rounds 20
	tests/bench/sandbox --of state --programs launch,copy

bench-sandbox: build ## measure what the sandbox costs: launches, copies, starts
	tests/bench/sandbox

bench-memory: build ## measure what programs in a guest take of the host's memory
	tests/bench/bench memory

clean: ## remove everything built here (downloads stay)
	rm -rf bin build
