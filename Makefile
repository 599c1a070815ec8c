# Every target sets up what it needs by itself (scripts/bootstrap) and is quick when nothing changed.
# Reports only, sources untouched: test, verify, bench. May write sources: fix.
SHELL := /bin/bash
PY := .venv/bin/python
PYTEST := $(PY) -m pytest
# The quick tests wait a fifth of their time: a third worker computes meanwhile, on 2 cores.
WORKERS ?= $(if $(filter landing soak,$(EPOCHMQ_TESTS)),2,3)
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
# Each of hundreds of processes would compile what it imports: 0.6 s of a broker's start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-demo demo test landing verify static unit spark compat chaos soak soak-spark fix bench docs release clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: ## create .venv with everything a developer needs
	@scripts/bootstrap dev

setup-demo:
	@scripts/bootstrap demo

release: ## build and check wheel, sdist, SBOM and notes in dist/; uploads nothing
	@scripts/bootstrap release
	@$(PY) scripts/release.py

docs: setup ## build the documentation site in build/site; a broken link is an error
	@$(PY) -m sphinx -q -W --keep-going -c docs/site docs build/site
	@echo "open build/site/index.html"

demo: setup-demo ## the main job: a cluster, a real data set, a verdict
	@$(PY) -m examples.demo $(DEMO_ARGS)

# Static checks run beside the failover tests, which wait most of the time. Each other stage keeps two
# cores busy: side by side, limits of browsers and of Spark's workers would be exceeded.
test: setup ## what a change needs at least: 10 to 15 minutes; third-party clients, Spark and failovers included
	@status=0; \
	export EPOCHMQ_TESTS=$${EPOCHMQ_TESTS:-quick}; \
	$(MAKE) --no-print-directory --keep-going -j2 --output-sync=target static chaos || status=1; \
	$(MAKE) --no-print-directory unit || status=1; \
	$(MAKE) --no-print-directory compat || status=1; \
	$(MAKE) --no-print-directory spark || status=1; \
	if [ $$status -ne 0 ]; then echo 'FAILED (see above)' >&2; fi; \
	exit $$status

landing: setup ## every test that must pass before a change lands, as CI does: an hour
	@EPOCHMQ_TESTS=landing $(MAKE) --no-print-directory test

verify: setup static unit ## format, lint, types, house rules, unit tests; never writes

static: setup
	@status=0; \
	run() { echo "$$*"; "$$@" || status=1; }; \
	run $(PY) -m ruff format --check --quiet --output-format concise .; \
	run $(PY) -m ruff check --quiet --output-format concise .; \
	run $(PY) -m mypy; \
	run $(PY) scripts/tidy.py; \
	run $(PY) scripts/options_doc.py --check; \
	run $(PY) scripts/events_doc.py --check; \
	exit $$status

# Files as tests/conftest.py orders them, the long ones first.
BY_FILE := --dist=loadfile --no-loadscope-reorder

unit: setup
	$(PYTEST) --ignore=tests/compat --ignore=tests/chaos/test_failover.py --ignore=tests/spark/jvm -n $(WORKERS) $(BY_FILE) -q $(PYTEST_ARGS)

# Real servers and third-party clients.
compat: setup
	@if [ -d tests/compat ]; then \
	  echo '$(PYTEST) tests/compat -n $(WORKERS) $(BY_FILE) -q --timeout=600'; \
	  $(PYTEST) tests/compat -n $(WORKERS) $(BY_FILE) -q --timeout=600 $(PYTEST_ARGS); \
	fi

# One JVM, one session for all of them.
spark: setup
	@if [ -d tests/spark/jvm ]; then \
	  echo '$(PYTEST) tests/spark/jvm -q --timeout=300'; \
	  $(PYTEST) tests/spark/jvm -q --timeout=300 $(PYTEST_ARGS); \
	fi

# Serial too: real groups whose masters are killed and paused under load.
chaos: setup
	$(PYTEST) tests/chaos/test_failover.py -q --timeout=3600 $(PYTEST_ARGS)

soak: setup ## everything that test only samples: hours, in stages that can be resumed
	$(PY) scripts/soak.py $(STAGES)

# FORMAT is delta, iceberg or parquet; COUNT drivers die, and a third as many executors and masters.
FORMAT ?= delta
COUNT ?= 60
soak-spark: setup ## kill drivers, executors and masters while Spark archives
	$(PY) -m chaos spark-kill --format $(FORMAT) --count $(COUNT)

fix: setup ## apply formatting and safe lint fixes, build documents, tighten the ratchet
	$(PY) -m ruff check --fix --quiet . || true
	$(PY) -m ruff format --quiet .
	$(PY) scripts/options_doc.py
	$(PY) scripts/events_doc.py
	$(PY) scripts/tidy.py --tighten

bench: setup ## measure throughput and latency beside peers; see docs/benchmarks.md
	$(PY) -m bench $(BENCH_ARGS)

clean: ## remove the environment, caches and local clusters
	rm -rf .venv .epochmq .epochmq-demo .compat .bench build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis htmlcov .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
