# Each target creates the environment that it needs. Requires python3 (3.11 or later) with venv, and make.
#
# Variables for the command line:
#   PYTHON=...         the Python for .venv          (default: tools/find_python.sh)
#   PYTHON_NEWEST=...  the Python for .venv-newest   (default: tools/find_python.sh newest)
#   JOBS=...           the number of test processes; 0 runs the tests in this one
#   PYTEST_ARGS=...    further arguments for pytest, such as PYTEST_ARGS="-k while -x"
#   FUZZ_ARGS=...      arguments for tests/fuzz, such as FUZZ_ARGS="--seconds 60 --samples FOLDER"
#   STRESS_ARGS=...    arguments for tests/stress, such as STRESS_ARGS="--seconds 10 --calls 10000"
#   MUTANTS_ARGS=...   arguments for tests/mutation, such as MUTANTS_ARGS="--count 20 builder/ops"
#   BENCH_ARGS=...     arguments for the benchmarks, such as BENCH_ARGS="chain lstm --json FILE"

PYTHON =
PYTHON_NEWEST =
JOBS = 2
PYTEST_ARGS =
FUZZ_ARGS =
STRESS_ARGS =
MUTANTS_ARGS =
BENCH_ARGS = all

# Programs run as modules of the interpreter, not as scripts from bin/: the scripts contain the path of
# the environment, and break when the project is moved.
VENV = .venv/bin/python
VENV_NEWEST = .venv-newest/bin/python

# The inputs of an environment. The stamp in it is written after success, and contains the path of the
# project, because a copied environment does not work.
INPUTS = pyproject.toml tools/find_python.sh tools/make_venv.sh
STAMP = .venv/.made-for
STAMP_NEWEST = .venv-newest/.made-for

VERSIONS = import sys, jax, jaxlib, numpy; print("Python %d.%d.%d" % sys.version_info[:3], \
	*(m.__name__ + " " + m.__version__ for m in (jax, jaxlib, numpy)), sep=", ")
JAXLIB_TESTS = tests/lowering tests/conformance tests/property tests/defects tests/type_grid
# In these folders, the tests of code that depends on jaxlib only through other modules.
NOT_JAXLIB_TESTS = tests/lowering/faults tests/conformance/test_cases.py
SCHEMA = $(VENV) -m check_jsonschema --builtin-schema vendor.$(1)
PYTEST = -m pytest -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-newest test-gpu fuzz stress mutants lint format types bench bench-check docs reports notebooks site screenshots dist platforms clean moved

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) ## train a network on handwritten digits
	@$(VENV) examples/digits.py

test: $(STAMP) ## run the tests
	@$(VENV) -c '$(VERSIONS)'
	@$(VENV) $(PYTEST)

test-all: $(STAMP) ## run the tests and those that take long and rarely fail
	@$(VENV) -c '$(VERSIONS)'
	@$(VENV) $(PYTEST) --all

# What depends on jaxlib. The reproducers of XLA's defects are slow, but a new jaxlib changes them.
test-newest: $(STAMP_NEWEST) ## run the tests that depend on jaxlib on the newest Python and jax
	@$(VENV_NEWEST) -c '$(VERSIONS)'
	@$(VENV_NEWEST) $(PYTEST) -m "not slow or jaxlib" $(addprefix --ignore=,$(NOT_JAXLIB_TESTS)) $(JAXLIB_TESTS)

test-gpu: $(STAMP) ## run the GPU tests, on a GPU or on the device XLABUILDER_TEST_DEVICE
	@$(VENV) -c '$(VERSIONS)'
	@$(VENV) -m pytest -m gpu tests/gpu $(PYTEST_ARGS)

fuzz: $(STAMP) ## read damaged files for ten minutes; keep those that crash
	@$(VENV) -m tests.fuzz $(FUZZ_ARGS)

stress: $(STAMP) ## call and compile in many threads, call a million times, interrupt; takes minutes
	@$(VENV) -m tests.stress $(STRESS_ARGS)

mutants: $(STAMP) ## change production code at random places; list the changes that no test detects
	@$(VENV) -m tests.mutation $(MUTANTS_ARGS)

lint: $(STAMP) ## check style, formatting, words, and the files for the public host
	@$(VENV) -m ruff check .
	@$(VENV) -m ruff format --check .
	@$(VENV) tools/check_words.py
	@$(call SCHEMA,github-workflows) .github/workflows/*.yml
	@$(call SCHEMA,github-issue-forms) .github/ISSUE_TEMPLATE/bug_report.yml .github/ISSUE_TEMPLATE/feature_request.yml
	@$(call SCHEMA,github-issue-config) .github/ISSUE_TEMPLATE/config.yml
	@$(call SCHEMA,dependabot) .github/dependabot.yml
	@$(call SCHEMA,citation-file-format) CITATION.cff

format: $(STAMP) ## repair what `make lint` finds and ruff can repair
	@$(VENV) -m ruff check --fix-only .
	@$(VENV) -m ruff format .

types: $(STAMP) ## check the annotations
	@$(VENV) -m mypy

bench: $(STAMP) ## measure building and calling graphs, and imports; takes minutes
	@$(VENV) -m benchmarks $(BENCH_ARGS)

bench-check: $(STAMP) ## fail if a ratio to the other contenders became worse
	@$(VENV) -m benchmarks check

docs: $(STAMP) ## write what is generated: pages, the bodies of ops, the outputs of notebooks
	@$(VENV) tools/write_bodies.py
	@$(VENV) tools/write_operations.py
	@$(VENV) tools/write_library.py
	@$(VENV) tools/write_xla_client.py
	@$(VENV) tools/write_defects.py
	@$(VENV) tools/write_derivatives.py
	@$(VENV) tools/write_programs.py
	@$(VENV) tools/write_surface.py
	@$(VENV) tools/write_readme.py
	@$(VENV) tools/write_notebooks.py

reports: $(STAMP_NEWEST) ## write bug reports to XLA, for the newest jax, in build/xla_reports
	@$(VENV_NEWEST) tools/write_defects.py --reports build/xla_reports

notebooks: $(STAMP) ## run the notebooks and write their outputs
	@$(VENV) tools/write_notebooks.py

site: $(STAMP) ## build the site in build/site/html, and check its links
	@$(VENV) tools/write_site.py
	@cd build/site && ../../$(VENV) -m zensical build --strict

screenshots: site ## take screenshots of the site and the notebooks, in build/screenshots
	@$(VENV) tools/screenshots.py

dist: $(STAMP) ## build the source distribution and the wheel in dist, and check them
	@$(VENV) -m pip install --quiet --disable-pip-version-check --editable '.[release]'
	@rm -rf dist
	@$(VENV) -m build --outdir dist
	@$(VENV) -m twine check --strict dist/*
	@$(VENV) tools/check_dist.py dist

platforms: $(STAMP) $(STAMP_NEWEST) ## record in docs/platforms.json where each operation runs
	@$(VENV) tools/write_platforms.py
	@$(VENV_NEWEST) tools/write_platforms.py

clean: ## remove the environments and everything generated
	rm -rf .venv .venv-newest build dist *.egg-info
	rm -rf fuzz-findings .hypothesis .mypy_cache .pytest_cache .ruff_cache examples/output
	find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): $(INPUTS)
	@rm -f $@
	@sh tools/make_venv.sh .venv default '$(PYTHON)'
	@echo '$(CURDIR)' > $@

$(STAMP_NEWEST): $(INPUTS)
	@rm -f $@
	@sh tools/make_venv.sh .venv-newest newest '$(PYTHON_NEWEST)'
	@echo '$(CURDIR)' > $@

# A stamp with another path is out of date.
moved:
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
$(STAMP): moved
endif
ifneq ($(shell cat $(STAMP_NEWEST) 2>/dev/null),$(CURDIR))
$(STAMP_NEWEST): moved
endif
