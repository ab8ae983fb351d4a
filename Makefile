PYTHON ?= python3

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PIP_INSTALL := -m pip install --quiet --constraint constraints.txt

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The bench and some of the tests measure time: nothing may run beside them, whatever -j says.
.NOTPARALLEL:
.PHONY: help venv demo signal test bench lint types layers wheel check clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

venv: $(READY)  ## the environment all targets use, in .venv

demo: $(READY)  ## the main job on real input, with a worker killed three times
	@$(BIN)/nextdue demo

signal: $(READY)  ## the feed reader on its three fixtures, in build/signal
	@mkdir -p build/signal
	@$(BIN)/signal --folder build/signal init
	@$(BIN)/signal --folder build/signal worker --once
	@$(BIN)/signal --folder build/signal list
	@echo "the pages: $(BIN)/signal --folder build/signal serve"

test: $(READY)  ## the test suite
	@echo "tests that may run beside each other"
	@$(BIN)/python -m pytest -m "not alone" --numprocesses auto --maxprocesses 4 --dist worksteal
	@echo "tests that measure real time, one after the other"
	@$(BIN)/python -m pytest -m alone

bench: $(READY)  ## the figures, each beside its raw probe
	@$(BIN)/python -m bench

lint: $(READY)  ## style
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: $(READY)  ## types, strict
	@$(BIN)/mypy

layers: $(READY)  ## who may import whom
	@$(BIN)/lint-imports --no-logo --no-cache

wheel: $(READY)  ## the demo and Signal, from their wheels in an empty environment
	@echo "building the wheels and running the demo and Signal from them in an empty environment"
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; trap 'exit 1' HUP INT TERM; \
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$$tmp" . ./apps/signal; \
	$(BIN)/python -m venv "$$tmp/venv"; \
	"$$tmp/venv/bin/python" $(PIP_INSTALL) "$$tmp"/*.whl; \
	mkdir "$$tmp/work"; cd "$$tmp/work"; unset PYTHONPATH; \
	TMPDIR="$$tmp" "$$tmp/venv/bin/nextdue" demo; \
	"$$tmp/venv/bin/signal" init && "$$tmp/venv/bin/signal" worker --once

check: lint types layers test wheel  ## all that CI does

clean:  ## remove what make made
	@rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml apps/signal/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "nextdue needs Python 3.11 or newer and '$(PYTHON)' is none: name one, as in 'make PYTHON=python3.12'." >&2; \
	    exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "'$(PYTHON)' cannot make virtual environments: install python3-venv ('apt install python3-venv' on Debian and Ubuntu)." >&2; \
	    exit 1; }
	@echo "setting up $(VENV) (once, about 30 s)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python $(PIP_INSTALL) --requirement constraints.txt
	@# Without isolation, or the build backend would be the one package whose version nobody pinned.
	@$(BIN)/python $(PIP_INSTALL) --no-build-isolation --editable . --editable apps/signal
	@touch $@
