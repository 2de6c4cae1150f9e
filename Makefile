# Every verb sets up .venv by itself: Python 3.11 or newer, git and make are all it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNS := $(VENV)/.runs
PEERS := .venv-peers
PEERS_READY := $(PEERS)/.ready

# One thread of BLAS for each worker. tests/conftest.py says how many workers, and which tests stay together.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto
TIMES ?= 20
# Images often set this. The tests start hundreds of processes, and each would compile all of tacit again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run studio test test-long test-portable test-repeat programs lint bench docs clean

run: $(RUNS)  ## a real session on this machine: 20 agents over mutual TLS, some killed
	$(BIN)/tacit demo

studio: $(RUNS)  ## the page: plan, watch, compare, and the status of a deployment
	$(BIN)/tacit studio

test: $(READY)  ## every guarantee, in minutes
	$(PYTEST)

test-long: $(READY)  ## long fuzzing, large statistics, many kills: an hour or more
	$(PYTEST) -m long --timeout 7200

test-portable: $(READY)  ## the same as test, without what this CPU has and others lack
	env $$($(BIN)/python tests/portable.py) $(PYTEST)

test-repeat: $(READY)  ## what runs side by side (threads, tasks, processes), TIMES times (20) or to the first failure
	for i in $$(seq $(TIMES)); do echo "== $$i of $(TIMES)"; $(PYTEST) -q -x -m 'concurrent and not long' || exit 1; done

PROGRAMS := chromium mosquitto mosquitto-clients sqlite3 curl postgresql
programs:  ## install from Debian, as root, what tests run besides Python; without these they are skipped
	@dpkg -s $(PROGRAMS) >/dev/null 2>&1 || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $(PROGRAMS); }

lint: $(READY)  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY) $(PEERS_READY)  ## speed, as ratios against peers measured in the same run
	$(BIN)/python -m benchmarks

docs: $(READY)  ## pictures, references, real output, and the site in out/site
	$(BIN)/python docs/make.py

clean:
	rm -rf $(VENV) $(PEERS) out

# A stamp is newer than what it was made from: nothing is installed twice. To run needs less than to test.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

$(RUNS): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "tacit needs Python 3.11 or newer, found $$($(PYTHON) --version 2>&1): set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (once) ..."
	@$(INSTALL) '.[all]'
	@touch $@

$(READY): $(RUNS)
	@echo "installing what tests and docs need into $(VENV) (once) ..."
	@$(INSTALL) '.[all,examples,docs,dev]'
	@touch $@

# Peers have requirements that would not fit beside ours.
$(PEERS_READY): benchmarks/peers/requirements.txt benchmarks/peers/constraints.txt
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@echo "installing the benchmarks' peers into $(PEERS) (once) ..."
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@
