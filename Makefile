# The verbs. `make test` and `make demo` need only g++, make and python3 with venv and headers;
# everything else is installed into .venv.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
PYTEST_ARGS ?=
DEMO_ARGS ?=

py := $(VENV)/bin/python
# pip reads the requirements of an extra from pyproject.toml
pip := $(py) -m pip --disable-pip-version-check
root := $(CURDIR)
out := $(root)/out

ifneq ($(shell command -v ccache),)
ifeq ($(origin CC),default)
export CC := ccache gcc
endif
ifeq ($(origin CXX),default)
export CXX := ccache g++
endif
endif
export TENSOTRON_JOBS := $(JOBS)

sources := $(shell git ls-files -co --exclude-standard -- setup.py tensotron 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help venv install dev demo test stand-in conformance conformance-floor conformance-update bench counts \
        counts-update lint sanitize clean

help:
	@echo 'make demo                PPO solves CartPole (DEMO_ARGS=--resume: goes on after a stop)'
	@echo 'make test                install into $(VENV) and run the tests'
	@echo 'make dev                 editable install; again: rebuild what changed'
	@echo 'make lint                ruff, and checks of the tree'
	@echo 'make conformance         scores against PyTorch, failures listed (ONLY=add,mul)'
	@echo 'make conformance-floor   as CI: nothing of the floor may be lost'
	@echo 'make conformance-update  raise the floor to what passes now'
	@echo 'make counts              as CI: instructions of the hot paths against their limits (needs valgrind)'
	@echo 'make counts-update       lower the limits to the counts of now'
	@echo 'make bench               against PyTorch: times, threads, memory (ONLY=ops,memory ROWS=train_b32 FULL=1)'
	@echo 'make sanitize            the tests under AddressSanitizer and UBSan'
	@echo 'make clean               remove what was built'
	@echo 'Variables: PYTHON=$(PYTHON) VENV=$(VENV) JOBS=$(JOBS) PYTEST_ARGS= DEMO_ARGS='

# --- environments ---------------------------------------------------------------------------

venv: $(VENV)/.made
$(VENV)/.made:
	@bash tools/require.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(pip) install -q 'setuptools>=77' wheel 'cython>=3.1,<4' 'numpy>=2'
	@touch $@

# The build sees the compiler cache and reuses build/, hence no isolation; what the package depends on
# is there already. Modules that are gone from the sources must go from build/lib too.
$(VENV)/.installed: $(VENV)/.made pyproject.toml $(sources)
	@rm -f $(VENV)/.editable
	@find build -path 'build/lib*' -name '*.py' -delete 2>/dev/null || true
	@echo 'building (minutes the first time)'
	$(pip) install -q --no-build-isolation --force-reinstall --no-deps .
	@touch $@

$(VENV)/.tested: $(VENV)/.made pyproject.toml
	@echo 'installing the test requirements (PyTorch takes a while)'
	$(pip) install -q $(call extra,test) $(call extra,examples)
	@touch $@

# $(call extra,NAME): the requirements of an extra, quoted
extra = $(shell $(PYTHON) tools/extra.py $(1))

install: $(VENV)/.installed

dev: $(VENV)/.editable
	$(py) setup.py -q build_ext --inplace
$(VENV)/.editable: $(VENV)/.made pyproject.toml setup.py
	@rm -f $(VENV)/.installed
	$(py) setup.py -q build_ext --inplace
	$(pip) install -q --no-build-isolation -e .
	@touch $@

# --- verbs ----------------------------------------------------------------------------------

demo: $(VENV)/.installed
	$(pip) install -q $(call extra,examples)
	@mkdir -p $(out)
	cd $(out) && OMP_NUM_THREADS=1 $(root)/$(py) $(root)/examples/cartpole_ppo.py --compile $(DEMO_ARGS)

# From tests/, so that the installed package is imported, not the checkout.
test: $(VENV)/.installed $(VENV)/.tested
	@mkdir -p $(out)
	cd tests && $(root)/$(py) -m pytest $(PYTEST_ARGS)

# What tests/test_gpu_seam.py builds otherwise: PyCUDA and a driver that runs on the host.
stand-in: $(VENV)/.made
	$(MAKE) -s -C tests/gpu PYTHON=$(root)/$(py)

conformance: $(VENV)/.installed $(VENV)/.tested
	$(py) tests/conformance_floor.py --list-failures --jobs $(JOBS) $(if $(ONLY),--only $(ONLY))
conformance-floor: $(VENV)/.installed $(VENV)/.tested
	$(py) tests/conformance_floor.py --check --jobs $(JOBS)
conformance-update: $(VENV)/.installed $(VENV)/.tested
	$(py) tests/conformance_floor.py --update --jobs $(JOBS)

bench: $(VENV)/.installed $(VENV)/.tested
	$(pip) install -q $(call extra,bench) $(call extra,examples)
	$(py) benchmarks/run.py --out $(out) $(if $(ONLY),--only $(ONLY)) $(if $(ROWS),--rows $(ROWS)) $(if $(FULL),--full)

counts: $(VENV)/.installed
	$(py) benchmarks/counts.py --check
counts-update: $(VENV)/.installed
	$(py) benchmarks/counts.py --update

lint: $(VENV)/.made
	$(pip) install -q $(call extra,lint)
	$(py) -m ruff check .
	$(py) tools/check_tree.py

# --- sanitizers -----------------------------------------------------------------------------

san := .venv-sanitize
sanitize:
	@bash tools/sanitize.sh $(PYTHON) $(san) $(JOBS) $(PYTEST_ARGS)

clean:
	rm -rf build dist out *.egg-info $(san) .pytest_cache .ruff_cache
	find tensotron -name '*.so' -delete
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
	rm -f $(VENV)/.installed $(VENV)/.editable
