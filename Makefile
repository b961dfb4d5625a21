# `make run` does the main job, `make test` checks everything; both set up what they need in .venv.
PYTHON ?= python3
BIN := .venv/bin
# Tests run side by side, and small matrices are slower with several threads.
export OMP_NUM_THREADS ?= 1
# Many containers forbid it, and then every process that a test starts compiles the whole package again.
unexport PYTHONDONTWRITEBYTECODE
SETUP := .venv/.installed
# The console is tested in this browser; Playwright's own, which would have to be downloaded, is not needed.
export CHROMIUM ?= /usr/bin/chromium
# The device for browsers and Node. Node and npm come from PyPI with the other packages, whatever the system has.
SDK := clients/js
NODE_MODULES := $(SDK)/node_modules/.installed
NPM = $(BIN)/python -m tests.clients_js.npm
FUZZ_SECONDS ?= 60
FUZZ := $(addprefix tests/,$(addsuffix .py,client/test_hostile_releases \
	service/test_hostile_totals service/test_openapi service/test_raw_sockets))
# What is tested of every policy and peer, of which `make botorch` takes BoTorch's.
PEERS := $(addprefix tests/,$(addsuffix .py,benchmarks/test_speed cli/test_bad_input policies/test_baselines \
	policies/test_botorch simulation/test_summaries))

.PHONY: run test test-slow flower botorch pytest lint format docs gallery screenshots vectors sdk mutants bench baseline reproduce faults soak dist clean

run: $(SETUP)
	$(BIN)/voxpop run

# Side by side: what one waits for, the other uses.
test: $(SETUP)
	$(MAKE) --no-print-directory -j 2 lint pytest

pytest: $(SETUP)
	$(BIN)/pytest -n 2 --dist worksteal -q -m "not slow"

# What builds or starts the world: the wheel in an empty environment, the site, containers' steps, npm, Chromium, Dask, kills,
# a short soak.
test-slow: $(SETUP) $(CHROMIUM) $(NODE_MODULES)
	$(BIN)/pytest -n 2 --dist worksteal -q -m slow

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(SETUP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# voxpop on Flower, whose pins collide with ours: in an environment of its own, with 150 real nodes; some 15 minutes.
flower: .venv-flower/.installed
	.venv-flower/bin/python -m pytest -q -c tests/flower/pytest.ini tests/flower

# The policy botorch with BoTorch, which takes gigabytes and whose pins collide with ours: in an environment of its own.
botorch: .venv-botorch/.installed
	.venv-botorch/bin/python -m pytest -q -c tests/botorch/pytest.ini -k botorch tests/botorch $(PEERS)

# The documentation as a site that needs no network to read. Warnings are errors.
docs: $(SETUP)
	$(BIN)/sphinx-build -q -W --keep-going -c docs . build/docs
	@echo "open build/docs/index.html"

# Runs the examples of the gallery and writes what they print and draw into their pages.
gallery: $(SETUP)
	$(BIN)/python -m tests.pages docs/gallery/*.md

# The pictures of docs/console.md, of studies that are made up for them.
screenshots: $(SETUP) $(CHROMIUM)
	$(BIN)/python -m tests.browser.screenshots

# The device for browsers and Node, built for publishing, in clients/js/dist.
sdk: $(NODE_MODULES)
	$(NPM) run build

# The test vectors of the protocol, in clients/vectors, from what the Python device does.
vectors: $(SETUP)
	$(BIN)/python -m tests.vectors

# Plants each known fault in a copy of the source and shows which test catches it; `make mutants ARGS=clipping` takes
# those with that word in their name.
mutants: $(SETUP)
	$(BIN)/python -m tests.mutants $(ARGS)

# How fast voxpop is, what privacy costs, and what the service takes; benchmarks/ has a program for each other figure.
bench: $(SETUP)
	$(BIN)/python -m benchmarks $(ARGS)
	$(BIN)/python -m benchmarks.tables shuffle trust
	$(BIN)/python -m benchmarks.service_load

# The ratios that `make bench` compares with: run this where nothing else runs, and commit the file.
baseline: $(SETUP)
	$(BIN)/python -m benchmarks --keep benchmarks/baseline.json
	$(BIN)/python -m benchmarks --quick --keep benchmarks/baseline.json

# Every figure and table of the paper, with a report in voxpop-paper/; `make reproduce ARGS=--quick` takes minutes.
reproduce: $(SETUP)
	$(BIN)/python -m reproduction $(ARGS)

# Ten thousand studies in which messages are lost, processes killed, disks full and clocks wrong, each from a seed; about
# an hour on two cores. `make faults ARGS=17` replays one seed, and shows all that happened.
faults: $(SETUP)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults $(or $(ARGS),0 10000)

# Minutes of fuzzing, then the whole service for an hour while things break, with a report in voxpop-soak/. As root it
# also fills two small disks. `make soak ARGS="--minutes 1"` is a small one.
soak: $(SETUP)
	VOXPOP_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/pytest -q $(FUZZ)
	$(BIN)/python -m tests.soak $(ARGS)

# The wheel, built from the sdist, so that both are known to be complete; tests/test_package.py installs and runs it.
dist: $(SETUP)
	rm -rf dist
	$(BIN)/python -m build --no-isolation

$(SETUP): pyproject.toml constraints.txt integrations/dask/pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e integrations/dask
	touch $@

$(NODE_MODULES): $(SETUP) $(SDK)/package.json
	$(NPM) install
	touch $@

.venv-flower/.installed: pyproject.toml integrations/flower/pyproject.toml
	$(PYTHON) -m venv .venv-flower
	.venv-flower/bin/python -m pip install --quiet --disable-pip-version-check -e . -e integrations/flower pytest
	touch $@

.venv-botorch/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-botorch
	.venv-botorch/bin/python -m pip install --quiet --disable-pip-version-check -e '.[all]' botorch pytest scikit-learn
	touch $@

$(CHROMIUM):
	@test "$$(id -u)" = 0 || { echo "$@ is missing; install it with: sudo apt-get install -y chromium" >&2; exit 1; }
	apt-get update -qq
	apt-get install -y -qq chromium
	@test -e $@ || { echo "$@ is missing; say where a Chromium is: make test CHROMIUM=/path/to/it" >&2; exit 1; }

clean:
	rm -rf .venv .venv-flower .venv-botorch .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build voxpop-report voxpop-paper voxpop-bench voxpop-compare voxpop-soak $(SDK)/dist $(SDK)/node_modules
	find src tests reproduction benchmarks integrations -type d -name __pycache__ -prune -exec rm -rf {} +
