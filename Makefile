# Every target makes its own virtual environment in .venv when there is none,
# and brings it up to date when pyproject.toml has changed.

PYTHON ?= python3
MAINSTAY_SEEDS ?= 100000
BASE ?= HEAD~1
HEAD ?= HEAD
ONLY ?= W1
# Tests wait for processes and servers a third of the time: where cores are few, one more is at work.
PROCESSES ?= $(shell $(PYTHON) -c 'import os; n = os.cpu_count() or 1; print(n + (n < 8))')

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CODE := $(wildcard src tests benchmarks examples tools deploy)

# Tests start a thousand interpreters: each would compile the package anew where this is set.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo quick test lint format package matrix reference site bench bench-check soak soak-together clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

# What the README installs is enough for it, and is not installed again.
demo: ## run the demonstration
	@{ test ! -e $(STAMP) && $(BIN)/python -c 'import mainstay.demo, pyspark' 2>/dev/null; } \
	    || $(MAKE) --no-print-directory $(STAMP)
	$(BIN)/python -m mainstay.demo

# What is left out runs for long, measures, or starts a JVM; two processes are what two cores hold.
SEEDED := tests/simulation/test_seeds.py::test_every_input_counts_exactly_once_whatever_a_seed_does
QUICK := tests/unit tests/property --ignore=tests/unit/bench --ignore-glob='tests/unit/test_bench*' \
	'$(SEEDED)[0]' '$(SEEDED)[10]' '$(SEEDED)[20]'

quick: lint ## lint, the unit tests and some seeds: two minutes on two cores
	$(BIN)/python -m pytest -n 2 -m 'not soak and not spark and not services' $(QUICK)

test: lint ## lint, then every test but the soak
	$(BIN)/python -m pytest -n $(PROCESSES) --dist loadgroup --durations=20

lint: $(STAMP) ## ruff, formatting and mypy; changes nothing
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

format: $(STAMP) ## fix what ruff can fix, then format
	$(BIN)/ruff check --fix-only $(CODE)
	$(BIN)/ruff format $(CODE)

# PYTHON is the one of the empty environment: make package PYTHON=/path/to/python3.12
package: $(STAMP) ## build wheel and archive, and try the wheel in an empty environment
	$(BIN)/python -m tests.package --python $(PYTHON)

# MATRIX says less than everything, or more: make matrix MATRIX='--pythons 3.12 --sparks 4.2'
matrix: $(STAMP) ## the wheel with each Python and PySpark that can be had, and a table of it
	$(BIN)/python -m tools.matrix $(MATRIX)

reference: $(STAMP) ## write docs/reference anew from the docstrings
	$(BIN)/python -m tools.reference

site: $(STAMP) ## the documentation as a site, in site/
	$(BIN)/python -m tools.site

# BENCH goes to the second: make bench BENCH='--only W1 --repeats 3 --exclude flink'
bench: $(STAMP) ## the core, then ours beside the peers (their environments in .bench)
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python -m benchmarks core
	$(BIN)/python -m benchmarks rocksdb
	$(BIN)/python -m benchmarks savepoints
	$(BIN)/python -m benchmarks peers $(BENCH)

# make bench-check BASE=main~20 ONLY=W1,W3 CHECK='--rounds 20 --place spark'
bench-check: $(STAMP) ## BASE and HEAD in turn: which figures of ONLY changed beyond the noise
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python -m benchmarks check --base $(BASE) --head $(HEAD) --only $(ONLY) $(CHECK)

# Of these the suite draws fewer examples, and the same ones each time.
SEARCHES := tests/property tests/roundtrips tests/fuzz tests/unit/state/test_accumulating.py \
	tests/unit/state/test_distinct_and_best.py tests/contract/test_spans.py \
	tests/contract/test_namespace_model.py

# Lists have a share of the seeds each (tests/simulation/shares.py). MAINSTAY_FIRST_SEED says where
# every list begins, so that another night plays other seeds.
soak: $(STAMP) ## play many seeds (MAINSTAY_SEEDS, 100000 by default, over all lists)
	MAINSTAY_HYPOTHESIS=search $(BIN)/python -m pytest -n auto --dist loadgroup $(SEARCHES)
	MAINSTAY_SEEDS=$(MAINSTAY_SEEDS) $(BIN)/python -m pytest -n auto --dist loadgroup -m soak

# MAINSTAY_TOGETHER_MINUTES is how long (60), MAINSTAY_TOGETHER_SEED plays a plan again.
soak-together: $(STAMP) ## the whole product on a Spark cluster under failures, for an hour
	$(BIN)/python -m tests.together

clean: ## delete caches and build output; .venv stays
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(CODE) -type d -name __pycache__ -prune -exec rm -rf {} +

# The stamp is touched last, so an interrupted installation is tried again.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	    echo "Mainstay needs Python 3.10 or newer, and '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." >&2; \
	    echo "Name a newer one: make PYTHON=/path/to/python3.12 ..." >&2; \
	    exit 1; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@
