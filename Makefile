# Everything runs in .venv, which `make init` builds and every other target needs.
# Works in any path, as any user, with Python >= 3.11 and make.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
STAMP := .venv/stamp
# Without compiled files each program that a test starts, and each run, compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE
TIMED = sh tools/timed $@
PYTEST := $(BIN)/python -m pytest
# Processes for the tests: as many as cores, at most 4 (xdist's own start costs more than it gains).
JOBS ?= auto
# Of `make test`, `test-slow` and `test-exhaustive`: their tests wait for programs about half of the time. With 4
# processes on 2 cores `make test` took 138 s, with 2 processes 197 s.
TEST_JOBS ?= 4

# The scripts in the .venv of a moved checkout have the old paths.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(shell pwd))
.PHONY: $(STAMP)
endif

$(STAMP): requirements/dev.txt pyproject.toml localcluster/pyproject.toml
	@sh tools/timed init sh tools/init

##@ Start

.PHONY: help
help: ## show this text
	@awk 'BEGIN {FS = ":.*## "; printf "usage: make TARGET\n"} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: init
init: $(STAMP) ## build .venv with the locked requirements and all console scripts
	@:

.PHONY: demo
demo: $(STAMP) ## run examples/gang.yaml on a local cluster and follow it to its end
	@$(TIMED) $(BIN)/framework run --local --logs examples/gang.yaml

##@ Check

.PHONY: fmt
fmt: $(STAMP) ## format the code, and apply the fixes of ruff
	@$(TIMED) sh -c '$(BIN)/ruff check --fix --exit-zero --quiet . && $(BIN)/ruff format .'

.PHONY: lint
lint: $(STAMP) ## ruff, import-linter, codespell, mypy, vulture
	@$(TIMED) sh -eu tools/lint

.PHONY: typing
typing: $(STAMP) ## mypy --strict
	@$(TIMED) $(BIN)/mypy

.PHONY: test
test: $(STAMP) ## unit, property and local-cluster tests (no real API server)
	@$(TIMED) $(PYTEST) -n $(TEST_JOBS) --dist worksteal $(ARGS)

.PHONY: test-slow
test-slow: $(STAMP) ## further situations of whole programs, some seconds each
	@$(TIMED) $(PYTEST) -n $(TEST_JOBS) --dist worksteal -m slow $(ARGS)

.PHONY: test-exhaustive
test-exhaustive: $(STAMP) ## crashes at the other moments of each write, and more seeds of hangs
	@$(TIMED) $(PYTEST) -n $(TEST_JOBS) --dist worksteal \
		-m 'exhaustive and not node and not consumers' $(ARGS)

# Processes of `make test-kube`, each with a control plane of its own; 0 runs the tests in one.
KUBE_JOBS ?= 0

.PHONY: test-kube
test-kube: $(STAMP) ## contract suite and gang on etcd + kube-apiserver + kube-controller-manager
	@$(TIMED) $(BIN)/python -m tests.support.servers.controlplane build -- \
		$(PYTEST) -n $(KUBE_JOBS) --dist loadfile -m kube tests/kube tests/contract tests/security $(ARGS)

# The small ones by default, about 1 GB; `python -m tests.consumers.install` lists all, with sizes.
STACKS ?= dotenv horovod jax openmpi5 mpich5
# Processes of `make test-consumers`. Two need namespaces: else the Pods of two clusters share ports.
CONSUMERS_JOBS ?= 0

.PHONY: test-node
test-node: $(STAMP) ## build the images and run a gang on a real node: kubelet, containerd, DNS (root)
	@$(TIMED) $(BIN)/python -m tests.support.machine.realnode run -- $(PYTEST) -m 'node and not exhaustive' tests/node $(ARGS)

.PHONY: test-release
test-release: $(STAMP) ## build the images, sign them with cosign into a registry on loopback, verify
	@$(TIMED) $(BIN)/python -m tests.support.machine.releasetools run -- \
		$(PYTEST) -m release tests/release $(ARGS)

.PHONY: test-consumers
test-consumers: $(STAMP) ## the stacks' own parsers, and examples that train (STACKS=all: 10 GB)
	@$(TIMED) sh -eu -c '$(BIN)/python -m tests.consumers.install $(STACKS) && \
		$(PYTEST) -n $(CONSUMERS_JOBS) --dist worksteal -m "consumers and not exhaustive" tests/consumers $(ARGS)'

.PHONY: test-hostile
test-hostile: $(STAMP) ## many more hostile values, and examples of properties, than `make test`
	@$(TIMED) env FRAMEWORKBARRIER_HOSTILE_CASES=100000 FRAMEWORKBARRIER_DISCOVERY_CALLS=1000 \
		$(PYTEST) -n $(JOBS) --maxprocesses 4 --dist worksteal tests/rendezvous/test_hostile.py \
		tests/rendezvous/test_discover_hosts.py tests/security/test_hostile_text.py \
		tests/properties --hypothesis-profile nightly $(ARGS)

# Seconds of all targets together. Atheris guides by coverage; where it cannot be installed, a seeded
# mutator takes its place. ARGS=--fixed tries the same inputs on each machine, whatever time it takes.
SECONDS ?= 600
ATHERIS := $(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/pip install --quiet --no-deps \
	--require-hashes --only-binary :all: -r requirements/fuzz.txt

.PHONY: fuzz
fuzz: $(STAMP) ## decoders of outside input within time and memory, for SECONDS=600 (ARGS=roster, --fixed)
	@$(ATHERIS) || echo "atheris cannot be installed here: fuzzing goes on without coverage"
	@$(TIMED) $(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

# Simulations of a cluster with faults; `SEEDS=17-17` repeats one.
SEEDS ?= 300

.PHONY: simulate
simulate: $(STAMP) ## simulations of the controller with faults (SEEDS=300, or 17-20)
	@SEEDS=$(SEEDS) $(TIMED) $(PYTEST) -n $(JOBS) --maxprocesses 4 -q \
		tests/simulation/test_simulation.py $(ARGS)

# Frameworks x Tasks. ARGS="--repeat 3 --controller other='cd DIR && exec ./controller'"
WORKLOADS ?= 1x1 1x4 50x4 200x4 500x1 1x1000

.PHONY: bench
bench: $(STAMP) ## time and cost of Frameworks on a real API server, and the minimum (WORKLOADS="1x100 200x4")
	@$(TIMED) $(BIN)/python -m benchmarks.frameworks $(WORKLOADS) --floor --verbose $(ARGS)

.PHONY: cover
cover: $(STAMP) ## the tests again, with branch coverage
	@$(TIMED) $(PYTEST) -n $(JOBS) --maxprocesses 4 --cov --cov-report=term $(ARGS)

.PHONY: verify
verify: $(STAMP) ## all checks before a commit; fails if it changes a file
	@$(TIMED) sh -eu -c '$(MAKE) lint && $(MAKE) manifests-check && $(MAKE) test && $(MAKE) test-slow && git diff --exit-code'

##@ Generate

.PHONY: golden
golden: $(STAMP) ## rewrite the golden files with the present output: read the diff
	@$(TIMED) $(PYTEST) --update-golden $(ARGS)

.PHONY: sessions
sessions: $(STAMP) ## record docs/sessions.md again on a real API server: read the diff
	@$(TIMED) $(BIN)/python -m tests.support.servers.controlplane run -- \
		$(PYTEST) -m kube tests/kube/test_sessions.py --update-golden $(ARGS)

.PHONY: manifests
manifests: $(STAMP) ## write the CRD, the image's tag and deploy/install.yaml
	@$(TIMED) $(BIN)/python -m tools.manifests

.PHONY: manifests-check
manifests-check: $(STAMP) ## fail if a generated file of deploy/ is stale
	@$(TIMED) $(BIN)/python -m tools.manifests --check

# Its own environment: mkdocs is not needed for anything else.
DOCS_BIN := .venv-docs/bin
DOCS_STAMP := .venv-docs/stamp
ifneq ($(shell cat $(DOCS_STAMP) 2>/dev/null),$(shell pwd))
.PHONY: $(DOCS_STAMP)
endif

$(DOCS_STAMP): requirements/docs.txt $(STAMP)
	@rm -rf .venv-docs
	@echo "make docs: installing mkdocs into .venv-docs" >&2
	@$(BIN)/python -m venv .venv-docs
	@sh tools/installlocked $(DOCS_BIN)/python requirements/docs.txt --quiet
	@pwd > $(DOCS_STAMP)

.PHONY: docs
docs: $(DOCS_STAMP) ## write the transition tables of docs/design, and the site into build/site
	@$(TIMED) sh -eu -c '$(BIN)/python -m tools.statedocs && $(BIN)/python -m tools.docsite && \
		NO_MKDOCS_2_WARNING=1 $(DOCS_BIN)/mkdocs build --quiet --strict && \
		$(PYTEST) -m site tests/docs/test_site.py $(ARGS) && \
		echo "the site is in build/site: open build/site/index.html"'

# No address of a package index may get into the lock files, whatever this machine's pip is told.
COMPILE := $(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-header \
	--no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	--annotation-style=line

.PHONY: lock
lock: $(STAMP) ## pin the requirements again (ARGS=--upgrade for the newest)
	@$(TIMED) sh -eu -c '$(COMPILE) $(ARGS) -o requirements/runtime.txt pyproject.toml localcluster/requirements.in && \
		$(COMPILE) $(ARGS) -o requirements/dev.txt requirements/dev.in && \
		$(COMPILE) $(ARGS) -o requirements/fuzz.txt requirements/fuzz.in && \
		$(COMPILE) $(ARGS) -o requirements/docs.txt requirements/docs.in && \
		for image in barrier rendezvous controller; do \
			$(COMPILE) $(ARGS) -o images/$$image/requirements.txt images/$$image/requirements.in; \
		done'

.PHONY: dist
dist: $(STAMP) ## build wheel and sdist of frameworkbarrier and frameworkbarrier-local into dist
	@$(TIMED) $(BIN)/python -m tools.distributions

.PHONY: krew
krew: $(STAMP) ## write the krew plugin's archive and manifest into dist/krew (ARGS="--url URL")
	@$(TIMED) $(BIN)/python -m tools.krew $(ARGS)

.PHONY: images
images: $(STAMP) ## build the three images (ARGS="--base IMAGE --only barrier --offline")
	@$(TIMED) $(BIN)/python -m tools.images $(ARGS)

.PHONY: base-digest
base-digest: $(STAMP) ## write the present digest of its tag into images/base (ARGS=NAME:TAG: another)
	@$(TIMED) sh -eu -c '$(BIN)/python -m tools.baseimage $(ARGS) && $(BIN)/python -m tools.manifests'

.PHONY: sign
sign: $(STAMP) ## push the images and sign the release (ARGS="--registry HOST/TEAM --key cosign.key")
	@$(TIMED) $(BIN)/python -m tools.sign $(ARGS)

.PHONY: release-check
release-check: $(STAMP) ## build and install the release, twice (ARGS=--images: images too)
	@$(TIMED) $(BIN)/python -m tools.releasecheck $(ARGS)

##@ Clean

.PHONY: clean
clean: ## remove .venv and everything generated
	rm -rf .venv .venv-docs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
