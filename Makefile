# `make run` does the main job, `make test` checks everything; both set up what they need in .venv.
PYTHON ?= python3
BIN := .venv/bin
# Tests run side by side, and small matrices are slower with several threads.
export OMP_NUM_THREADS ?= 1
SETUP := .venv/.installed

.PHONY: run test pytest lint format mutants bench baseline reproduce dist clean

run: $(SETUP)
	$(BIN)/voxpop run

# Side by side: what one waits for, the other uses.
test: $(SETUP)
	$(MAKE) --no-print-directory -j 2 lint pytest

pytest: $(SETUP)
	$(BIN)/pytest -n 2 --dist worksteal -q

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(SETUP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Plants each known fault in a copy of the source and shows which test catches it; `make mutants ARGS=clipping` takes
# those with that word in their name.
mutants: $(SETUP)
	$(BIN)/python -m tests.mutants $(ARGS)

bench: $(SETUP)
	$(BIN)/voxpop bench
	$(BIN)/python benchmarks/shuffle_table.py
	$(BIN)/python benchmarks/privacy_table.py
	$(BIN)/python benchmarks/service_load.py

# The ratios that `voxpop bench` compares with: run this where nothing else runs, and commit the file.
baseline: $(SETUP)
	$(BIN)/voxpop bench --keep src/voxpop/lab/bench/baseline.json
	$(BIN)/voxpop bench --quick --keep src/voxpop/lab/bench/baseline.json

# Every figure and table of the paper, with a report in voxpop-paper/; `make reproduce ARGS=--quick` takes minutes.
reproduce: $(SETUP)
	$(BIN)/voxpop reproduce $(ARGS)

# The wheel, built from the sdist, so that both are known to be complete; tests/test_package.py installs and runs it.
dist: $(SETUP)
	rm -rf dist
	$(BIN)/python -m build --no-isolation

$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build voxpop-report voxpop-paper voxpop-bench
	find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +
