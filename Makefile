# Everything runs in a virtual environment of its own; set VENV to use another one.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OLDEST := $(VENV)-oldest
# Half of the time a test waits for processes, so that more than one a core fit; and none of them is to be left alone
# with the long tests at the end.
WORKERS ?= $(shell echo $$(( ($$(nproc) * 3 + 1) / 2 )))

# The tests start hundreds of Pythons. Where no bytecode may be written, as in many containers, each would compile the
# plugin anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup example test test-main test-oldest test-gpu test-slow soak check bench mutation wheel clean

help:
	@echo "make example      run example_configs/ with real Paddle and Torch on the CPU"
	@echo "make test         all tests but the slow ones, also against the oldest pytest and xdist"
	@echo "make test-slow    the slow tests"
	@echo "make test-gpu     the tests that need a real GPU (install a CUDA build of torch into .venv first)"
	@echo "make soak         minutes of load and chaos"
	@echo "make check        lint, types, format"
	@echo "make bench        every benchmark, as tables"
	@echo "make mutation     wrong results on purpose, and the share that is caught (CONFIGS=files)"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[cpu,dev,stacks]'
	touch $@

example: $(STAMP)
	$(BIN)/pytest --paddleapi-configs=example_configs -n auto --accuracy

test: test-main test-oldest

# The built wheel is what is tested: it is installed over the editable project.
test-main: $(STAMP) wheel
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps dist/*.whl
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not soak"; code=$$?; \
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps --editable .; exit $$code

# The plugin's own tests against the oldest supported pytest and xdist, in an environment that borrows
# the frameworks from the main one.
test-oldest: $(STAMP) wheel
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet pytest==8.2.0 pytest-xdist==3.6.1
	$(OLDEST)/bin/python -m pip install --quiet --force-reinstall --no-deps dist/*.whl
	$(BIN)/python -c "import site; print(site.getsitepackages()[0])" \
		> $$($(OLDEST)/bin/python -c "import site; print(site.getsitepackages()[0])")/zz_main.pth
	$(OLDEST)/bin/python -m pytest --version
	$(OLDEST)/bin/python -m pytest tests/plugin -n $(WORKERS) --dist worksteal -m "not slow and not soak and not any_version"

# On a machine with an NVIDIA GPU: real readings, leases, spares and CUDA errors, with Torch alone or with Paddle.
test-gpu: $(STAMP)
	$(BIN)/python -m pytest -rs tests/gpu

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m "slow"

soak: $(STAMP)
	$(BIN)/python -m pytest -m "soak"
	$(BIN)/python benchmarks/ledger_soak.py --minutes 10
	$(BIN)/python benchmarks/chaos.py

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	for script in overhead throughput crash_recovery ledger; do $(BIN)/python benchmarks/$$script.py || exit 1; done

CONFIGS ?= example_configs

mutation: $(STAMP)
	$(BIN)/python benchmarks/mutation.py $(CONFIGS)

wheel: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --quiet --wheel

clean:
	rm -rf $(VENV) $(OLDEST) dist build .pytest_cache .mypy_cache .ruff_cache
