# A newcomer needs `make demo` and `make test`; both set up everything in .venv first.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.installed
BENCHMARKS := $(wildcard benchmarks/[a-z]*.py)

.DEFAULT_GOAL := help
.PHONY: help demo test lint types bench clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

demo: $(READY)  ## the main job on built-in data, ends with a report to open
	$(BIN)/prunnet demo

test: $(READY)  ## the test suite (under 10 minutes on 2 cores)
	$(BIN)/pytest $(PYTEST)

lint: $(READY)  ## ruff: style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## mypy, strict, on src
	$(BIN)/mypy

bench: $(READY)  ## every benchmark; each prints its figures last, as `name: number`
	@set -e; for file in $(BENCHMARKS); do echo "== $$file"; $(BIN)/python $$file; done

clean:  ## remove the virtual environment, caches and demo output
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "PrunNet needs Python 3.11 or newer: make PYTHON=/path/to/python $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "PrunNet needs Python 3.11 or newer, $(PYTHON) is older."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
