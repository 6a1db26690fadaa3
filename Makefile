# Every target sets up what it needs. Start: make
PYTHON ?=
SINCE ?= origin/main
BIN := .venv/bin
WORKERS ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); [ $$cores -eq 1 ] && echo 2 || echo 5)
# Each worker imports what its tests need, so tests that compute and tests of processes are apart.
COMPUTING := $(addprefix tests/,compatibility contracts model property simulation tidy unit)
WAITING := $(filter-out $(COMPUTING) tests/support,$(patsubst %/,%,$(filter-out %__pycache__/,$(wildcard tests/*/))))

.DEFAULT_GOAL := help
.PHONY: help set-up demo test lint unit bench profile nightly mutants conformance wheel constraints hashes clean

help: ## This list
	@echo "Siltstone. Targets:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

.venv/installed: pyproject.toml requirements/constraints.txt tools/set-up
	@PYTHON="$(PYTHON)" tools/set-up

set-up: .venv/installed ## Make .venv with everything; the other targets do it by themselves

# The demo needs less than half of what the tests need, so it is installed first and alone.
.venv/installed-for-demo: pyproject.toml requirements/constraints.txt tools/set-up
	@PYTHON="$(PYTHON)" tools/set-up demo

demo: .venv/installed-for-demo ## The flights of 2013 through a broker, compacted on Spark, consumed, and what it bought
	@if [ -e .venv/installed-for-tables ]; then $(BIN)/siltstone demo; else \
		tools/set-up tables >/dev/null 2>&1 & \
		$(BIN)/siltstone demo --installing-tables .venv/installed-for-tables; status=$$?; wait; exit $$status; fi

test: .venv/installed ## Lint, then all tests but the nightly ones (some minutes)
	@$(BIN)/pytest --collect-only -qqq -m "not nightly" >/dev/null 2>&1 & $(MAKE) --no-print-directory lint; \
		status=$$?; wait; exit $$status  # meanwhile the tests are compiled, once for all workers
	@echo "Tests that compute"
	@$(BIN)/pytest $(COMPUTING) -m "not nightly" -n 3 --dist loadgroup; status=$$?; \
		echo "Tests that wait for processes"; \
		$(BIN)/pytest $(WAITING) -m "not nightly" -n $(WORKERS) --dist loadgroup && exit $$status

lint: .venv/installed ## Format, style, types, and who may import whom
	@echo "Format and style (ruff)"
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@echo "Types (mypy)"
	@$(BIN)/mypy --no-error-summary
	@echo "Floors (lint-imports)"
	@$(BIN)/lint-imports --no-cache >.venv/lint-imports.txt || { cat .venv/lint-imports.txt; exit 1; }

unit: .venv/installed ## The fast tests only: no JVM, no server process, nothing killed (a minute and a half)
	@$(BIN)/pytest tests/unit tests/contracts tests/property tests/compatibility -n 3 --dist worksteal --hypothesis-profile=quick \
		-m "not nightly and not spark and not cluster and not s3 and not postgres and not crash and not faults and not fuzz and not kafka and not clients"

bench: .venv/installed ## Speed beside the plain loop that does the same, as ratios
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements/constraints.txt -e '.[dev,bench]'
	@$(BIN)/python -m benchmarks

profile: .venv/installed ## Where a produce and a fetch spend the time of the broker
	@$(BIN)/python -m benchmarks.profile

conformance: .venv/installed ## What every Kafka client does with the broker, into docs/conformance.md (minutes)
	@$(BIN)/python -m conformance --page docs/conformance.md; status=$$?; \
		$(BIN)/python -m conformance.suites --page docs/conformance.md && exit $$status

nightly: .venv/installed ## The long tests, and what each has tried (two hours on 2 cores)
	@$(BIN)/pytest -m "nightly or faults" -n 4 --dist loadgroup --timeout 3600
	@echo "All random examples of the property tests"
	@$(BIN)/pytest tests/property tests/unit -m "hypothesis and not nightly" -n 3 --dist worksteal --hypothesis-profile=thorough

mutants: .venv/installed ## Mutate the modules changed since the last landing; list what no test of theirs notices (nightly)
	@$(BIN)/python tools/mutants --since $(SINCE)

wheel: .venv/installed ## Build wheel and sdist, as they would be published, into dist, with their bill of materials
	@$(BIN)/hatchling build --target sdist --target wheel --directory dist >/dev/null
	@PYTHONWARNINGS=ignore $(BIN)/cyclonedx-py requirements requirements/hashes.txt --pyproject pyproject.toml --output-reproducible --of JSON -o dist/siltstone.cdx.json

# The hashes are in files of their own: pip installs no folder, as set-up does, with constraints that have hashes.
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
IMAGE := s3 postgres tls oauth otlp avro protobuf sql tables delta

constraints: .venv/installed ## Write requirements/constraints.txt from what .venv holds, and the hashes of its packages
	@$(BIN)/python -m pip freeze --exclude-editable --exclude siltstone >requirements/constraints.txt
	@$(MAKE) --no-print-directory hashes

hashes: .venv/installed ## Write requirements/hashes.txt, and container.txt of what the image holds, from the constraints
	@$(LOCK) --no-deps requirements/constraints.txt --output-file requirements/hashes.txt
	@$(LOCK) --constraint requirements/constraints.txt pyproject.toml $(addprefix --extra ,$(IMAGE)) --output-file requirements/container.txt

clean: ## Remove .venv and everything else that was made
	@rm -rf .venv .build dist .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests benchmarks oracles -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
