# `make help` lists the targets. Every target makes its own set-up first; with nothing to do that takes no time.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Variables for the command line: make demo MODE=hybrid, make test TESTS=tests/core WORKERS=0
MODE ?= homogeneous
PROVIDER ?= local
TESTS ?= tests
# make quick: the commit that changes are counted from; empty: what is not committed, else the last commit
SINCE ?=
# Tests on a real cell mostly wait for it: five workers for two cores. More of them compute more often the same.
WORKERS ?= $(shell echo $$((5 * $$(nproc) / 2)))
PYTEST_ARGS ?=
# make test: grows while it runs; what failed until then is in it
RESULTS ?= build/tests.xml

BIN := .venv/bin
CODE := autoscaler bench conf installers providers sge tests
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-config --no-emit-index-url --no-emit-find-links --no-header --no-annotate
DOCS_CHECK := $(BIN)/sge-autoscaler config docs --check

# Root is needed for namespaces only. What root runs in somebody else's checkout leaves no files of its own there.
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || { command -v sudo >/dev/null && echo 'sudo -E env PYTHONDONTWRITEBYTECODE=1'; })
# Compiled code is kept even where the environment forbids it: every worker of a run, and every program that a test
# starts, would compile all of it again.
CACHED := $(if $(AS_ROOT),,env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(CURDIR)/build/pycache)
ROOT_PYTEST_ARGS := $(if $(AS_ROOT),-p no:cacheprovider)
# A make that is killed outright cannot pass anything on.
ENDS_WITH_MAKE := setpriv --pdeathsig TERM --

.PHONY: docs links words dist dist-test release subjects help setup demo test quick check format format-check lint types imports docs-check units audit sbom fuzz differential soak mutants bench bench-idle bench-answers bench-clouds bench-events bench-contexts bench-starting bench-fidelity bench-packing bench-real-workers bench-scale bench-plan bench-simulations bench-price bench-estimates bench-page bench-viewers pictures shape lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-13s %s\n", $$1, $$2 }'

setup:  ## install what is missing: Debian packages, .venv with the pinned requirements
	@bin/setup

demo: setup  ## ten jobs on a private Grid Engine, with a live view (MODE=homogeneous|hybrid PROVIDER=local|aws|azure|cyclecloud|cloud_pipeline PAGE=1: with its page)
	@if [ "$$(id -u)" != 0 ] && [ -z "$(AS_ROOT)" ]; then \
		echo "make demo: namespaces need root, and there is no sudo: run it as root" >&2; exit 1; fi
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/sge-autoscaler demo --mode $(MODE) --provider $(PROVIDER) $(if $(PAGE),--page)

test: setup  ## all tests, real cell included (TESTS=tests/core WORKERS=2 PYTEST_ARGS='-k shrink')
	@mkdir -p $(dir $(RESULTS)) && : > $(RESULTS)
	@$(AS_ROOT) $(CACHED) $(ENDS_WITH_MAKE) $(BIN)/pytest $(ROOT_PYTEST_ARGS) -n $(WORKERS) --dist worksteal --durations=20 --growing-junit=$(RESULTS) $(PYTEST_ARGS) $(TESTS)

quick: setup  ## a minute for the loop of a developer: checks, and unit tests of what is not committed (SINCE=main)
	@$(BIN)/ruff format --check --quiet $(CODE)
	@$(BIN)/ruff check --quiet $(CODE)
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@tests=$$($(BIN)/python -m bench.changed --since "$(SINCE)") && echo $$tests && \
		$(CACHED) $(BIN)/pytest -q -n $$(nproc) -m "not cell and not slow" $(PYTEST_ARGS) $$tests

check: subjects format-check lint types imports docs-check docs units audit test  ## everything a change must pass

format: setup  ## format the code and sort its imports
	@$(BIN)/ruff check --select I --fix $(CODE)
	@$(BIN)/ruff format $(CODE)

format-check: setup
	@$(BIN)/ruff format --check $(CODE)

lint: setup
	@$(BIN)/ruff check $(CODE)

types: setup
	@$(BIN)/mypy

imports: setup
	@$(BIN)/lint-imports

docs-check: setup
	@$(DOCS_CHECK)
	@$(BIN)/python -m autoscaler.report.pages --check

docs: setup  ## the site of all pages in build/docs/html, and manual pages of them in build/docs/man: warnings are errors; links, code blocks and spelling are checked
	@[ -x build/docs/venv/bin/sphinx-build ] || $(BIN)/python -m venv build/docs/venv
	@$(BIN)/uv pip sync --quiet --python build/docs/venv/bin/python --require-hashes requirements/docs.txt
	@$(BIN)/python -m installers.site build/docs
	@build/docs/venv/bin/python installers/site/spelling.py build/docs/source
	@build/docs/venv/bin/sphinx-build -W --keep-going -q -c build/docs/source/docs build/docs/source build/docs/html
	@$(BIN)/python -m installers.site.manual_pages build/docs/manual
	@build/docs/venv/bin/sphinx-build -W --keep-going -q -E -b man build/docs/manual build/docs/man
	@echo "build/docs/html/index.html"

links: setup  ## whether the links of the pages to other sites lead somewhere; needs a way to these sites
	@$(BIN)/python -m installers.site.links

words:  ## words of the pages that people read: all but decisions and those of tests/
	@git ls-files '*.md' | grep -v -e ^docs/decisions/ -e ^tests/ | xargs cat | wc -w

units:  ## the units of conf/ are restricted: systemd-analyze security, at most 2.5 of 10
	@if command -v systemd-analyze >/dev/null; then \
		for unit in conf/*.service; do systemd-analyze security --offline=true --threshold=25 $$unit | tail -n 1; \
			systemd-analyze security --offline=true --threshold=25 $$unit >/dev/null || exit 1; done; \
	else echo "make units: systemd-analyze is not here, so the restrictions of conf/*.service are not measured"; fi

audit: setup  ## known vulnerabilities of the pinned requirements; says where the database cannot be reached
	@$(BIN)/python -m bench.audit

sbom: setup  ## what the installed program consists of, in CycloneDX (build/sbom.cdx.json)
	@$(BIN)/python -m bench.sbom

dist: setup  ## into dist/: a wheel, the folder with its own Python, Debian packages; half an hour the first time, then two minutes
	@$(BIN)/python -m installers

dist-test: setup  ## the packages of dist/ in fresh roots of Debian 12 and 11: installed, upgraded under load, purged, built twice
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/pytest $(ROOT_PYTEST_ARGS) -n 0 --timeout=0 $(PYTEST_ARGS) tests/dist

release: setup  ## make VERSION=1.2.0: changelog section, packages, checksums and SBOM in dist/VERSION; publishes nothing
	@$(BIN)/python -m installers.release "$(VERSION)"

subjects: setup  ## commit subjects since main (SINCE=…): one line of at most 72 characters
	@$(BIN)/python -m bench.subjects $(if $(SINCE),--since $(SINCE))

fuzz: setup  ## hostile inputs for all that reads what others wrote (SEED=7 INPUTS=20000 INPUT=7/rest/12)
	@$(ENDS_WITH_MAKE) $(BIN)/python -m tests.fuzz $(if $(SEED),--seed $(SEED)) $(if $(INPUTS),--inputs $(INPUTS)) $(if $(INPUT),--input $(INPUT))

differential: setup  ## random cells and jobs on a real scheduler against our placement (SEED=7 JOBS=2000 WORLD=7/3)
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/python -m tests.differential $(if $(JOBS),--jobs $(JOBS)) $(if $(SEED),--seed $(SEED)) $(if $(WORLD),--world $(WORLD))

soak: setup  ## fault campaigns, simulated and on a real cell (SOAK_SEED=7 SOAK_HISTORIES=500 SOAK_MINUTES=10)
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/pytest $(ROOT_PYTEST_ARGS) --timeout=0 $(PYTEST_ARGS) tests/soak

mutants: setup  ## which small changes of the code does no fast test notice? (PACKAGES=autoscaler/store COUNT=10 SEED=1 MINUTES=60 TESTS=tests/store)
	@nice -n 5 $(BIN)/python -m bench.mutants $(PACKAGES) $(if $(filter-out tests,$(TESTS)),--tests $(TESTS)) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES))

bench: setup  ## time and memory from qstat and qhost bytes to a plan; Grid Engine commands of a pass and of joins
	@$(BIN)/python -m bench.commands
	@$(BIN)/python -m bench.placements
	@$(BIN)/python -m bench

bench-idle: setup  ## processor time and memory of the service on a private cell where nothing happens
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/python -m bench.idle

bench-answers: setup  ## processor and wall time of commands that show something, of `top`, of one job in 500 MB of accounting, of `cost` of a million jobs
	@$(BIN)/python -m bench.accounting
	@$(BIN)/python -m bench.cost
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/python -m bench.answers
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/python -m bench.top

bench-clouds: setup  ## ordering and listing 1,000 workers against the clouds' bare clients
	@$(BIN)/python -m bench.aws
	@$(BIN)/python -m bench.clouds

bench-events: setup  ## what the events of jobs add to a pass
	@$(BIN)/python -m bench.events

bench-contexts: setup  ## how long a job waits for its start while the contexts of 10,000 others are written
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/python -m bench.contexts

bench-plan: setup  ## CPU of one plan() by workers and job categories, beside a loop of plain Python in the same run
	@$(BIN)/python -m bench.plans

bench-simulations: setup  ## CPU, passes and memory of a simulated year of a million jobs, some minutes (WORKLOAD=UniLu-Gaia-2014-2.swf.gz HYBRID=1)
	@nice -n 5 $(BIN)/python -m bench.simulations $(WORKLOAD) $(if $(HYBRID),--hybrid) --json build/bench-simulations.json

bench-price: setup  ## what strategies pay for mixes of jobs, against a proven bound and integer programming (JOBS=100,1000 SEEDS=3)
	@nice -n 5 $(BIN)/python -m bench.price $(if $(JOBS),--jobs $(JOBS)) $(if $(SEEDS),--seeds $(SEEDS)) --json build/bench-price.json

bench-estimates: setup  ## estimates of run times on the later half of recorded workloads (WORKLOADS="a.swf.gz b.swf.gz")
	@nice -n 5 $(BIN)/python -m bench.estimates $(WORKLOADS)

bench-starting: setup  ## how long a job waits from the order of its worker to its start on a private cell, and for whom
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/python -m bench.starting

bench-fidelity: setup  ## how far `simulate` is from a real qmaster and scheduler with hosts that do not exist (JOBS=250 JOBS_IN=4 SEED=1)
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/python -m bench.fidelity $(if $(JOBS),--jobs $(JOBS)) $(if $(JOBS_IN),--minutes $(JOBS_IN)) $(if $(SEED),--seed $(SEED))

bench-real-workers: setup  ## how far `simulate` is from a private cell with real workers, one failed boot and one lost worker (JOBS=200 JOBS_IN=4 SEEDS=1,2,3,4,5)
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/python -m bench.real_workers $(if $(JOBS),--jobs $(JOBS)) $(if $(JOBS_IN),--minutes $(JOBS_IN)) $(if $(SEEDS),--seeds $(SEEDS))

bench-packing: setup  ## worker-hours by PACK on a real qmaster and scheduler with hosts that do not exist (SEED=1, 14 minutes an order)
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/python -m bench.packing $(if $(SEED),--seeds $(SEED))

bench-scale: setup  ## the whole service with hosts that do not exist: passes, commands, memory, store (WORKERS_MOST=500 JOBS=20000 JOBS_IN=30 SEED=1)
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/python -m bench.scale $(if $(WORKERS_MOST),--workers $(WORKERS_MOST)) $(if $(JOBS),--jobs $(JOBS)) $(if $(JOBS_IN),--minutes $(JOBS_IN)) $(if $(SEED),--seed $(SEED))

bench-page: setup  ## the page in a large cell: processor time and bytes of each view, 50 open pages (BROWSER=1: charts in chromium, too)
	@$(BIN)/python -m bench.page $(if $(BROWSER),--browser)

bench-viewers: setup  ## what 50 open pages cost run and serve on a private cell
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/python -m bench.viewers

pictures: setup  ## screenshots of the page on a private cell, for README and docs: docs/pictures
	@$(AS_ROOT) $(ENDS_WITH_MAKE) $(BIN)/python -m tests.page.pictures

shape: setup  ## size of the product: code by part beside its budget, files, import cycles, longest functions
	@$(BIN)/python -m bench.shape

lock: setup  ## pin the requirements anew, with the hashes of all files of a version
	@$(LOCK) $(LOCK_ARGS) -o requirements/run.txt requirements/run.in
	@$(LOCK) $(LOCK_ARGS) -c requirements/run.txt -o requirements/test.txt requirements/run.in requirements/test.in
	@for extra in aws azure celery dask; do \
		$(LOCK) $(LOCK_ARGS) -c requirements/test.txt -o requirements/$$extra.txt requirements/run.in requirements/$$extra.in || exit 1; done
	@for alone in dist docs; do $(LOCK) $(LOCK_ARGS) -o requirements/$$alone.txt requirements/$$alone.in || exit 1; done
	@$(LOCK) $(LOCK_ARGS) -c requirements/test.txt -o requirements/dev.txt requirements/run.in requirements/test.in requirements/dev.in
	@$(LOCK) $(LOCK_ARGS) -c requirements/dev.txt -o requirements/build.txt requirements/build.in

clean:  ## remove the environment and everything made from the sources
	rm -rf .venv .setup.lock build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
