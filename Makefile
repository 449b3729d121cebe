# `make` lists what there is. Each target makes the virtual environment it needs: Python 3.11 or newer, pip and make are enough.

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules
.SUFFIXES:

# The environment is made anew when pyproject.toml, a lock or the folder's place changed: the stamps' names say for which it was made.
KEY := $(shell { pwd; cat pyproject.toml requirements/*.txt; } | cksum | cut -d ' ' -f 1)
DEMO := .venv/ready-demo-$(KEY)
DEV := .venv/ready-dev-$(KEY)
PEERS := .venv/peers/ready-$(shell cat bench/peers/requirements.txt bench/peers/package.json | cksum | cut -d ' ' -f 1)
LOWEST := .venv/lowest/ready-$(KEY)
LATEST := .venv/latest/ready
# Compiled modules are kept, also where the environment says otherwise: tests start hundreds of programs (1.3 s of a core became 0.9).
RUN := PYTHONDONTWRITEBYTECODE= PATH="$(CURDIR)/.venv/bin:$$PATH" PYRIGHT_PYTHON_CACHE_DIR="$(CURDIR)/.venv/pyright" PYRIGHT_PYTHON_IGNORE_WARNINGS=1 .venv/bin/python

# Tests wait more than they work: more processes than two cores would say.
WORKERS ?= 3
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
ARGS ?=

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo '  PYTHON=python3.13     which Python makes the environment; otherwise the first found that is 3.11 or newer'
	@echo '  ARGS="-k listener"    more arguments for the tests'
	@echo '  WORKERS=0             how many processes run the tests; 0: one, which prints as it goes'

.PHONY: demo
demo: $(DEMO)  ## run the main job: webhooks taken over HTTP and delivered, on a private PostgreSQL
	@$(RUN) -m examples.webhooks $(ARGS)

.PHONY: test
test: $(DEV)  ## run the tests (no installed PostgreSQL, no root needed)
	@$(RUN) -m pytest -m 'not system and not proof' $(PARALLEL) $(ARGS)

POSTGRES ?= 14 16 18
.PHONY: test-matrix
test-matrix: $(DEV)  ## run the tests on each PostgreSQL of POSTGRES="14 16 18", which it fetches, and once on unusual settings
	@for major in $(POSTGRES); do \
	    echo "== PostgreSQL $$major"; \
	    folder=$$($(RUN) -m tests.support.other_postgres $$major .venv/postgres) || exit 1; \
	    ASYNCJOBS_PG_BIN="$$folder" $(RUN) -m pytest -m 'not system and not proof' $(PARALLEL) $(ARGS) || exit 1; \
	done
	@echo '== ids beyond 32 bits'; $(RUN) -m pytest -m 'not system and not proof' $(PARALLEL) --odd 'long sequences' $(ARGS)

.PHONY: test-pgbouncer
test-pgbouncer: $(DEV)  ## run the tests behind a PgBouncer that pools by transaction: polling, then listening around it
	@$(RUN) -m tests.support.debian
	@for how in poll around; do \
	    echo "== $$how, at most 40 minutes"; \
	    timeout --signal INT --kill-after 60 2400 env $(RUN) -m pytest -m 'not system and not proof' $(PARALLEL) --pooler $$how $(ARGS) || exit 1; \
	done

.PHONY: test-containers
test-containers: $(DEV)  ## run the store's tests on a PostgreSQL in a container (it takes an engine for containers)
	@$(RUN) -m tests.support.containers
	@ASYNCJOBS_TEST_POSTGRES=testcontainers $(RUN) -m pytest -m 'not system and not proof' $(ARGS) tests/store

.PHONY: lint
lint: $(DEV)  ## check style, format and types
	@status=0; \
	for check in 'ruff check .' 'ruff format --check .' mypy pyright; do \
	    echo "== $$check"; $(RUN) -m $$check || status=1; \
	done; \
	exit $$status

.PHONY: format
format: $(DEV)  ## put the code in its format
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

.PHONY: test-system
test-system: $(DEV)  ## run the tests that need root and Debian packages, which it installs
	@$(RUN) -m tests.support.debian
	@$(RUN) -m pytest -m 'system and not proof' $(ARGS)

.PHONY: bench
bench: $(DEV)  ## measure how fast it is, against statements written by hand
	@$(RUN) -m bench $(ARGS)

.PHONY: bench-peers
bench-peers: $(DEV) $(PEERS)  ## measure other libraries, too (an hour or two)
	@$(RUN) -m bench --peers $(ARGS)

.PHONY: bench-smoke
bench-smoke: $(DEV)  ## run each benchmark for a moment, so that none rots
	@$(RUN) -m bench --smoke

# Those tests that meet every library there is a lower bound for.
LOWEST_TESTS = tests/unit tests/store/test_connection_kinds.py tests/store/test_enqueue_callers.py tests/e2e/test_facade.py \
    tests/e2e/test_embedding_requests.py tests/e2e/test_aiohttp.py tests/e2e/test_prometheus.py tests/e2e/test_tracing.py \
    tests/e2e/test_sentry.py tests/dashboard tests/cli/test_input.py tests/cli/test_help.py

.PHONY: test-lowest
test-lowest: $(LOWEST)  ## run tests with the lowest versions of the libraries that are allowed
	@.venv/lowest/bin/python -m pytest -m 'not system and not proof' $(PARALLEL) $(LOWEST_TESTS) $(ARGS)

.PHONY: test-latest
test-latest:  ## run the tests with the newest versions of all libraries, in an environment of their own; changes nothing else
	@rm -rf .venv/latest; $(MAKE) $(LATEST)
	@.venv/latest/bin/python -m pip list
	@PATH="$(CURDIR)/.venv/latest/bin:$$PATH" .venv/latest/bin/python -m pytest -m 'not system and not proof' $(PARALLEL) $(ARGS)

# The lock is made from pyproject.toml alone, for every Python and platform that it allows.
.PHONY: lock
lock: $(DEMO)  ## take the newest versions of all libraries into requirements/, with their hashes
	@rm -rf .venv/lock; mkdir -p .venv/lock; cp pyproject.toml .venv/lock/; \
	.venv/bin/python -m venv .venv/lock/tool && .venv/lock/tool/bin/python -m pip install --quiet uv && \
	for group in demo dev; do \
	    (cd .venv/lock && tool/bin/uv export --quiet --no-header --no-annotate --no-emit-project --only-group $$group -o $$group.txt >/dev/null) \
	        && cp .venv/lock/$$group.txt requirements/$$group.txt || exit 1; \
	done; git diff --stat -- requirements || :

.PHONY: latest
latest: lock  ## renew the lock and run the tests with it
	@$(MAKE) lint test

.PHONY: release-check
release-check: $(DEV)  ## build what would be published, install it in an empty environment, run the quickstart and the examples from it
	@$(RUN) -m tests.support.release

SEEDS ?= 20
.PHONY: simulate
simulate: $(DEV)  ## simulate runners on virtual time in worlds that fail: SEEDS=1000 of them
	@PYTHONHASHSEED=0 $(RUN) -m tests.simulation --seeds $(SEEDS) $(ARGS)

.PHONY: simulate-mutants
simulate-mutants: $(DEV)  ## break the protocols on purpose: does a simulated world notice? ARGS="--mutants=lease" for some of them
	@PYTHONHASHSEED=0 $(RUN) -m tests.simulation --mutants= --seeds 200 $(ARGS)

MINUTES ?= 15
JOBS ?= 1000000
.PHONY: soak
soak: $(DEV)  ## a million jobs among kills, restarts and partitions, then a minute of too many: within MINUTES=15, of JOBS=1000000
	@$(RUN) -m tests.soak --jobs $(JOBS) --minutes $(MINUTES) $(ARGS)

.PHONY: proof
proof: $(DEV)  ## show the promises at full counts (long; goes on where it was stopped)
	@$(RUN) -m pytest -m proof --resume -o faulthandler_timeout=1800 $(ARGS)

.PHONY: clean
clean:  ## remove what the targets made
	@rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Versions that were tested together, with their hashes: `make lock` renews them.
INSTALL = .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input

# One at a time: two makes may run side by side. A venv whose interpreter went away is made anew; Debian's Python without
# ensurepip gets its pip from the pip outside.
$(DEMO):
	@mkdir -p .venv; exec 9>.venv/.lock; if command -v flock >/dev/null; then flock 9; fi; \
	if [ -e '$@' ]; then exit 0; fi; \
	if ! .venv/bin/python -c 'import pip' 2>/dev/null; then \
	    for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	        if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found="$$python"; break; fi; \
	    done; \
	    if [ -z "$${found:-}" ]; then echo 'no Python of at least 3.11 found: install one, or say PYTHON=/path/to/it' >&2; exit 1; fi; \
	    echo "making .venv with $$("$$found" --version)"; \
	    rm -rf .venv/bin .venv/lib .venv/lib64 .venv/include .venv/ready-*; \
	    "$$found" -m venv .venv >/dev/null 2>&1 \
	        || { "$$found" -m venv --without-pip .venv && "$$found" -m pip --python .venv/bin/python install --quiet pip; } \
	        || { echo 'no virtual environment could be made: install the package python3-venv' >&2; exit 1; }; \
	fi; \
	echo 'installing what is needed into .venv'; \
	$(INSTALL) --require-hashes --requirement requirements/demo.txt && $(INSTALL) --no-deps --no-build-isolation --editable . \
	    && rm -f .venv/ready-* && : > '$@'

$(DEV): $(DEMO)
	@exec 9>.venv/.lock; if command -v flock >/dev/null; then flock 9; fi; \
	if [ -e '$@' ]; then exit 0; fi; \
	echo 'installing the tools into .venv'; \
	$(INSTALL) --require-hashes --requirement requirements/dev.txt && : > '$@'

# The other libraries, in an environment of their own with the newest Python there is; one that cannot be installed is left out.
$(PEERS): $(DEV)
	@for python in $(PEERS_PYTHON) python3.14 python3.13 python3.12 .venv/bin/python; do \
	    if "$$python" -m venv --clear .venv/peers 2>/dev/null; then break; fi; \
	done; \
	echo "installing the libraries to compare with into .venv/peers, with $$(.venv/peers/bin/python --version)"; \
	while read -r requirement; do \
	    .venv/peers/bin/python -m pip install --quiet --disable-pip-version-check --no-input "$$requirement" \
	        || echo "left out: $$requirement" >&2; \
	done < bench/peers/requirements.txt; \
	cp bench/peers/package.json .venv/peers/; \
	npm install --prefix .venv/peers --silent --no-audit --no-fund --no-package-lock \
	    || echo 'left out: the libraries for node, since npm failed or is missing' >&2; \
	: > '$@'

# The lowest versions, in an environment of their own; what only runs the tests is taken as it comes.
$(LOWEST): $(DEMO)
	@.venv/bin/python -m venv --clear .venv/lowest; \
	echo 'installing the lowest versions into .venv/lowest'; \
	.venv/bin/python -m tests.support.lowest > .venv/lowest/pins.txt \
	    && .venv/lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-input --editable '.[embedded]' \
	        --requirement .venv/lowest/pins.txt --requirement tests/lowest.txt && : > '$@'

# The newest versions of all that is used, for whoever wants to know before the lock is renewed.
$(LATEST): $(DEMO)
	@.venv/bin/python -m venv --clear .venv/latest; \
	echo 'installing the newest versions into .venv/latest'; \
	.venv/latest/bin/python -m pip install --quiet --disable-pip-version-check --no-input --upgrade 'pip>=25.1' \
	    && .venv/latest/bin/python -m pip install --quiet --disable-pip-version-check --no-input --editable . --group dev && : > '$@'
