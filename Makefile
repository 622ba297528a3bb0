# Everything a person needs, from a fresh clone with only Python 3.11+, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax

.PHONY: help compare test test-slow test-plain test-uncompiled check docs bench native sanitize clean

help:  ## Show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("hiddenstate needs Python 3.11 or newer: make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,check,docs]'
	@touch $@

compare: $(VENV)/.native  ## Fit several models to an embedded real data set and rank them
	$(BIN)/hiddenstate compare

test: $(VENV)/.native  ## Lint, build the documentation, run the tests
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-cache --no-logo
	$(MAKE) --no-print-directory docs
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m 'not slow'

test-slow: $(VENV)/.native  ## Run the tests that `make test` leaves out
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m slow

test-plain: $(VENV)/.installed  ## Run all tests, the slow ones too, as on a machine without the kernels
	HIDDENSTATE_NATIVE=0 $(BIN)/python -m pytest -n 2 --dist loadgroup

test-uncompiled:  ## Install into an environment of its own as where there is no compiler, and run the laws there
	$(PYTHON) -m venv build/uncompiled
	CC=/bin/false CXX=/bin/false build/uncompiled/bin/python -m pip install --quiet --disable-pip-version-check '.[test]'
	build/uncompiled/bin/python -c 'import hiddenstate as hs; assert not hs.native.available(); print(hs.native.available().reason)'
	build/uncompiled/bin/python -m pytest -n 2 --dist loadgroup -m 'not slow' tests/laws tests/native tests/strategies

check: $(VENV)/.installed  ## Lint, format, types, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright

docs: $(VENV)/.installed  ## Build the documentation into site/, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

native: $(VENV)/.installed  ## Compile the kernels in csrc/, which make everything faster and nothing different
	@echo "Compiling the kernels, which takes a minute or two."
	@mkdir -p build && $(BIN)/cmake -S . -B build/native -G Ninja -DSKBUILD_STATE=editable \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python >build/native.log 2>&1 && \
	  $(BIN)/cmake --build build/native >>build/native.log 2>&1 || { cat build/native.log; exit 1; }

sanitize: $(VENV)/.installed  ## Run the tests of the kernels with the address and undefined behaviour sanitizers
	$(BIN)/cmake -S . -B build/sanitize -G Ninja -DHIDDENSTATE_SANITIZE=ON -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python >/dev/null
	$(BIN)/cmake --build build/sanitize
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 HIDDENSTATE_EXAMPLES=3 \
	  HIDDENSTATE_KERNELS=$$(ls build/sanitize/_kernels*.so) $(BIN)/python -m pytest -n 2 --dist loadgroup -m 'not slow' tests/native

# Where there is no compiler everything works without the kernels, so that this is no reason to stop.
$(VENV)/.native: CMakeLists.txt $(shell find csrc -type f) | $(VENV)/.installed
	@$(MAKE) --no-print-directory native || echo "The kernels could not be compiled: hiddenstate runs without them."
	@touch $@

bench: $(VENV)/.native  ## Measure speed against other libraries, in an environment of its own (three quarters of an hour)
	$(BIN)/hiddenstate bench

clean:  ## Remove everything that was made
	rm -rf $(VENV) .venv-bench .cache site build dist comparison
