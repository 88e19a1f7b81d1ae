# All development tasks. `make help` lists the targets; each target installs its own requirements.
#
# VENV holds the tools and an editable install of the package. Each set of extras has a stamp file
# in it, which depends on pyproject.toml and the constraints, so that a second run installs nothing.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV ?= .venv
LATEST_VENV ?= .venv-latest
DOCS_VENV ?= .venv-docs
BIN := $(VENV)/bin
LATEST_BIN := $(LATEST_VENV)/bin

# Run each candidate, because a shim on the PATH may point to no Python. The Python of an existing
# environment comes first.
# $(call find_python,minor,candidates): the first candidate that is Python 3.<minor> or newer.
find_python = $(shell for python in $(2); do \
	"$$python" -c 'import sys, ensurepip; assert sys.version_info >= (3, $(1)); print(sys.executable)' \
	2>/dev/null && break; done)

ifndef PYTHON
PYTHON := $(call find_python,11,$(wildcard $(BIN)/python) python3 python3.11 python3.12 python3.13)
endif
ifndef LATEST_PYTHON
LATEST_PYTHON := $(call find_python,12,python3 python3.13 python3.12 \
	$(wildcard $(HOME)/.pyenv/versions/3.1[2-9]*/bin/python3))
endif

# The versions that the tests pass with: one list for Python 3.11, one for newer versions.
is_3_11 := $(filter 3.11,$(if $(PYTHON),$(shell "$(PYTHON)" -c \
	'import sys; print("%d.%d" % sys.version_info[:2])')))
CONSTRAINTS := $(if $(is_3_11),constraints.txt,constraints-latest.txt)

# Each test process holds JAX and its compiled programs in memory, so at most two run by default.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); echo $$((n < 2 ? n : 2)))
# Each process starts with an equal part of the tests, so that the tests of a module share compiled
# programs; a process that finishes early takes tests from another one.
PARALLEL := -n $(WORKERS) --dist worksteal
TESTS ?=
# Paddle, PyTorch and ONNX Runtime for the benchmarks, in environments of their own.
PEERS := .venv-peers

PIP_INSTALL := -m pip --disable-pip-version-check install --quiet

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.demo ## train the digits example; results go to out/
	mkdir -p out
	$(BIN)/python examples/digits/train.py

.PHONY: test
test: $(VENV)/.dev ## run the tests (some of them: make test TESTS=tests/repository/test_architecture.py)
	$(BIN)/python -m pytest $(PARALLEL) $(TESTS)

.PHONY: test-all
test-all: $(VENV)/.dev ## run the tests and the exhaustive ones: every case where `test` takes some
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-all} \
		$(BIN)/python -m pytest $(PARALLEL) -m "not slow" $(TESTS)

.PHONY: test-rest
test-rest: $(VENV)/.dev ## run what `test-all` has and `test` has not: exhaustive ones, more examples
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-all} \
		$(BIN)/python -m pytest $(PARALLEL) -m "(exhaustive or more) and not slow" $(TESTS)

.PHONY: test-slow
test-slow: $(VENV)/.dev ## run the slow tests: exports of every model, every model of Paddle 3
	GRAPHOPT_OPTIMIZED_TESTS=1 HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-all} \
		$(BIN)/python -m pytest $(PARALLEL) -m slow $(TESTS)

.PHONY: test-pages
test-pages: $(VENV)/.browser docs ## test reports, the playground and the site in headless Chromium, which the system must have
	$(BIN)/python -m pytest -m slow tests/report/test_in_browser.py \
		tests/playground/test_in_browser.py tests/repository/test_site_in_browser.py

.PHONY: test-notebooks
test-notebooks: $(VENV)/.notebook ## run a notebook and test what its cells show
	$(BIN)/python -m pytest -m slow tests/display/test_in_notebook.py

.PHONY: conformance
conformance: $(VENV)/.dev ## run all cases recorded from Paddle; writes docs/reference/{conformance,operators}.md
	$(BIN)/python -m graphopt.conformance tests/conformance/cases -j $(WORKERS) \
		--tiers tests/conformance/tiers.tsv --reasons tests/conformance/reasons.tsv \
		--report docs/reference/conformance.md --operators tests/conformance/operators.tsv \
		--require A=99 --require B=99 --require C=90
	$(BIN)/python docs/generate.py

SOURCES ?=
GRAPHNET ?=
.PHONY: paddle-tests
paddle-tests: $(VENV)/.dev ## run Paddle's own tests (make paddle-tests SOURCES=FOLDER); writes docs/reference/paddle-tests.md
	@test -n "$(SOURCES)" || { echo "give the folder of Paddle's tests: SOURCES=..." >&2; exit 2; }
	$(BIN)/python tests/paddle_tests/run.py "$(SOURCES)"

.PHONY: graphnet
graphnet: $(VENV)/.dev $(PEERS)/paddle/.installed ## run real model graphs (make graphnet SOURCES=FOLDER); writes docs/reference/graphnet.md
	@test -n "$(SOURCES)" || { echo "give the folder of GraphNet's graphs: SOURCES=..." >&2; exit 2; }
	$(BIN)/python tests/graphnet/run.py "$(SOURCES)" --paddle $(PEERS)/paddle/bin/python $(GRAPHNET)

.PHONY: onnx-nodes
onnx-nodes: $(VENV)/.dev ## run the tests of nodes in the package onnx; writes docs/reference/onnx-nodes.md
	$(BIN)/python tests/onnx_nodes/run.py

.PHONY: operator-defaults
operator-defaults: $(VENV)/.dev ## the table of operators beside Paddle 2.6.2 (make operator-defaults PADDLE_PYTHON=...)
	@test -n "$(PADDLE_PYTHON)" || { echo "give a Python that has Paddle: PADDLE_PYTHON=..." >&2; exit 2; }
	GRAPHOPT_PADDLE_PYTHON="$(PADDLE_PYTHON)" $(BIN)/python -m pytest -n 0 -s tests/ir/test_operator_defaults.py

KILLS ?= 250
JOB_KILLS ?= 100
.PHONY: storm-checkpoints
storm-checkpoints: $(VENV)/.dev ## kill savers, readers beside them, and trainers of jobs (make storm-checkpoints KILLS=1000)
	$(BIN)/python tests/storms/checkpoints.py $(KILLS)
	$(BIN)/python tests/storms/jobs.py $(JOB_KILLS)
	$(BIN)/python tests/storms/jobs.py $(JOB_KILLS) --format orbax

FUZZ ?= 100000
PROGRAMS ?= 200
.PHONY: fuzz
fuzz: $(VENV)/.dev ## read mutated model files (make fuzz FUZZ=1000000); write programs as ONNX and compare
	PYTHONPATH=. $(BIN)/python tests/fuzz_readers.py $(FUZZ)
	PYTHONPATH=. $(BIN)/python tests/fuzz_onnx.py $(PROGRAMS) --onnxruntime

COUNT ?= 1000
SEED ?= 0
.PHONY: properties
properties: $(VENV)/.dev ## optimize generated programs in all ways (make properties COUNT=5000 SEED=1)
	PYTHONPATH=. $(BIN)/python tests/proof/run.py properties $(COUNT) --seed $(SEED) --jobs $(WORKERS)

MUTANTS ?= 250
.PHONY: mutants
mutants: $(VENV)/.dev ## break every guard of the passes; the tests must notice (make mutants MUTANTS=500)
	PYTHONPATH=. $(BIN)/python tests/proof/run.py mutants $(MUTANTS) --jobs $(WORKERS)

STORMS ?= 1000
.PHONY: storms
storms: $(VENV)/.dev ## interrupt training, let its callbacks raise (make storms STORMS=100), run two threads; none may lose state
	$(BIN)/python tests/storms/run.py $(STORMS)
	$(BIN)/python tests/storms/threads.py

.PHONY: test-latest
test-latest: $(LATEST_VENV)/.dev ## run the smoke tests on Python 3.12 or newer with the newest JAX
	$(LATEST_BIN)/python -m pytest -m "smoke and not slow" $(TESTS)

.PHONY: lint
lint: $(VENV)/.dev ## check style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

.PHONY: format
format: $(VENV)/.dev ## mend what can be mended of style and formatting
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: types
types: $(VENV)/.dev ## check types (strict in graphopt/ir and graphopt/passes), and users' scripts by mypy too
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/mypy --python-executable $(BIN)/python --cache-dir $(VENV)/.mypy_cache

.PHONY: docs
docs: $(VENV)/.dev $(DOCS_VENV)/.installed ## write the reference pages and stubs from the code, and build the site out/site
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet
	@echo "out/site; to read it with its search: $(BIN)/python -m http.server --bind 127.0.0.1 -d out/site"

.PHONY: pictures
pictures: $(VENV)/.browser demo docs ## what visitors see first, in headless Chromium: README, report, site, playground; writes those of docs
	$(BIN)/python docs/pictures.py
	@echo "out/pictures; look at each"

.PHONY: wheel
wheel: $(VENV)/.dev ## build wheel and sdist into dist/ and check what is in the wheel
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/check-wheel-contents dist

BENCH ?=
.PHONY: bench
bench: $(VENV)/.dev ## run the benchmark suite (make bench BENCH="--quick --workloads mlp,transformer")
	PYTHONPATH=benchmarks $(BIN)/python -m suite $(BENCH)

# GPU_PYTHON names a Python that has JAX with CUDA, for machines without a network: nothing is
# installed, and graphopt's other dependencies come from out/gpu-packages.
GPU_PYTHON ?=
GPU_PACKAGES := out/gpu-packages
ON_GPU := PYTHONPATH=$(CURDIR)/benchmarks:$(CURDIR):$(CURDIR)/$(GPU_PACKAGES) $(or $(GPU_PYTHON),$(BIN)/python)
for_gpu := $(if $(GPU_PYTHON),,$(VENV)/.dev)

.PHONY: bench-gpu
bench-gpu: $(for_gpu) ## all of benchmarks/suite/gpu.py, 12 minutes (make bench-gpu GPU_PYTHON=python3)
	$(ON_GPU) -m suite --gpu --out docs/benchmarks $(BENCH)

.PHONY: test-gpu
test-gpu: $(for_gpu) ## recorded cases and saved models on a GPU, 2 minutes (make test-gpu GPU_PYTHON=python3)
	$(ON_GPU) -m suite --gpu --parts correct --out out/test-gpu $(BENCH)

.PHONY: gpu-packages
gpu-packages: $(VENV)/.dev ## what a GPU machine without a network needs beside JAX, to carry along
	$(BIN)/python $(PIP_INSTALL) --constraint $(CONSTRAINTS) --no-deps --target $(GPU_PACKAGES) \
		xdsl immutabledict ordered-set filelock threadpoolctl typing-extensions

# JAX's CUDA plugin compiles without a GPU; it is installed outside of the environment.
GPU_PLUGIN := out/gpu-plugin
.PHONY: count-gpu
count-gpu: $(VENV)/.dev $(GPU_PLUGIN)/.installed ## kernels and memory of steps compiled for an H100, without one
	PYTHONPATH=$(CURDIR)/benchmarks:$(CURDIR):$(CURDIR)/$(GPU_PLUGIN) $(BIN)/python -m suite.for_gpu $(BENCH)

$(GPU_PLUGIN)/.installed: constraints.txt | $(VENV)/.dev
	$(BIN)/python $(PIP_INSTALL) --no-deps --target $(GPU_PLUGIN) nvidia-cuda-nvcc-cu12 \
		$(foreach part,plugin pjrt,jax-cuda12-$(part)==$(shell sed -n 's/^jaxlib==//p' constraints.txt))
	touch $@

.PHONY: bench-peers
bench-peers: $(PEERS)/paddle/.installed $(PEERS)/torch/.installed ## install what the suite compares with

.PHONY: has-latest
has-latest: # which Python test-latest would use; fails when there is none
	@if [ -n "$(LATEST_PYTHON)" ]; then echo "$(LATEST_PYTHON)"; \
	else echo "no Python 3.12 or newer found; name one with LATEST_PYTHON=..." >&2; exit 1; fi

.PHONY: clean
clean: ## remove what the other targets made, environments included
	rm -rf $(VENV) $(LATEST_VENV) $(DOCS_VENV) $(PEERS) dist out .hypothesis .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.demo: pyproject.toml $(CONSTRAINTS) | $(BIN)/pip
	$(BIN)/python $(PIP_INSTALL) --constraint $(CONSTRAINTS) --editable '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(CONSTRAINTS) | $(BIN)/pip
	$(BIN)/python $(PIP_INSTALL) --constraint $(CONSTRAINTS) --editable '.[dev]'
	@touch $@

$(VENV)/.browser: pyproject.toml | $(VENV)/.dev
	$(BIN)/python $(PIP_INSTALL) --constraint $(CONSTRAINTS) --editable '.[browser]'
	@touch $@

$(VENV)/.notebook: pyproject.toml | $(VENV)/.dev
	$(BIN)/python $(PIP_INSTALL) --constraint $(CONSTRAINTS) --editable '.[notebook]'
	@touch $@

# the requirements of the extra `docs`, without the package and its dependencies
$(DOCS_VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	"$(PYTHON)" -m venv $(DOCS_VENV)
	"$(PYTHON)" -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print("\n".join(project["optional-dependencies"]["docs"]))' >$(DOCS_VENV)/needed.txt
	$(DOCS_VENV)/bin/python $(PIP_INSTALL) --constraint $(CONSTRAINTS) --requirement $(DOCS_VENV)/needed.txt
	@touch $@

$(LATEST_VENV)/.dev: pyproject.toml constraints-latest.txt | $(LATEST_BIN)/pip
	$(LATEST_BIN)/python $(PIP_INSTALL) --constraint constraints-latest.txt --editable '.[dev]'
	@touch $@

$(PEERS)/paddle/.installed: packages := paddlepaddle
$(PEERS)/torch/.installed: packages := torch onnx onnxruntime onnxscript
$(PEERS)/%/.installed: benchmarks/peers.txt
	"$(PYTHON)" -m venv $(@D)
	$(@D)/bin/python $(PIP_INSTALL) --constraint benchmarks/peers.txt $(packages)
	@touch $@

$(BIN)/pip:
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer is needed, with its venv module;" \
		"name one with PYTHON=..." >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

$(LATEST_BIN)/pip: | has-latest
	"$(LATEST_PYTHON)" -m venv $(LATEST_VENV)
