# make demo: compile two OCR models for four chips and run the same pyACL app on each.
# make test: the everyday test suite.  make test-torch: what needs PyTorch (TORCH=... chooses the build).
# make lint: ruff and mypy.  make bench: all benchmarks.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TORCH ?= torch==2.13.0

.PHONY: demo test test-slow test-torch lint bench clean

$(STAMP): pyproject.toml $(wildcard setup.py)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,demo]"
	@touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest -q

test-slow: $(STAMP)
	$(BIN)/python -m pytest -q -m slow

test-torch: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" expecttest
	$(BIN)/python -m torch_npu.build
	$(BIN)/python -m pytest -q tests/torch_npu

lint: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "ruff>=0.6" "mypy>=1.11"
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info .cache out
