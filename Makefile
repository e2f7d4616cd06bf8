# Needs Python 3.11, pip and make; everything else is installed into .venv.

PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
PIP_INSTALL = -m pip --disable-pip-version-check install -qq

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-oldest test-newest lint docs dependencies dist bench bench-accuracy bench-defaults bench-export bench-export-speed bench-latent bench-scale bench-startup clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z.-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: .venv  ## reproduce the paper and write paper-results/index.html
	@.venv/bin/inferostatic paper --out paper-results
	@echo "Report: open paper-results/index.html"

# Work stealing starts from contiguous halves, so compiled functions and fixtures are mostly reused
# within one process, and still keeps both processes busy to the end.
test: .venv  ## run the tests, without the slow ones
	@.venv/bin/python -m pytest -n 2 --dist worksteal

test-slow: .venv  ## run the tests that take minutes, and all others with types checked (an hour)
	@.venv/bin/python -m pytest -m slow -n 2 --dist worksteal
	@CHECK_TYPES=1 .venv/bin/python -m pytest -n 2 --dist worksteal

test-oldest: .venv-oldest/ready  ## run the tests with the oldest versions that pyproject.toml allows
	@.venv-oldest/bin/python -m pytest -n 2 --dist worksteal

test-newest: .venv-newest/ready  ## run the tests with the newest versions that pyproject.toml allows
	@.venv-newest/bin/python -m pytest -n 2 --dist worksteal

lint: .venv  ## check style, formatting and types
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 .venv/bin/pyright

docs: .venv  ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet
	@echo "Documentation: open site/index.html"

dependencies: .venv  ## write the list of dependencies and licences, docs/dependencies.md
	@.venv/bin/python docs/make_dependencies.py

# The wheel is built from the source archive, so that this holds all that is needed.
dist: .venv  ## build the source archive and the wheel into dist/
	@rm -rf dist
	@.venv/bin/python -m hatchling build -t sdist -d dist
	@.venv/bin/python -m pip --disable-pip-version-check wheel -q --no-deps --no-build-isolation -w dist dist/*.tar.gz
	@ls dist

bench: .venv .venv-peers  ## time training beside TensorFlow and PyTorch
	@.venv/bin/python benchmarks/training.py

bench-accuracy: .venv .venv-peers  ## measure accuracy against exact truth (hours; goes on where it stopped)
	@.venv/bin/python benchmarks/accuracy.py

bench-defaults: .venv .venv-peers  ## measure time and errors of default fits (hours; goes on where it stopped)
	@.venv/bin/python benchmarks/defaults.py

bench-export: .venv  ## compare exports of every kind of network with their estimators (minutes)
	@.venv/bin/python benchmarks/export.py parity

bench-export-speed: .venv  ## time the C++ header beside onnxruntime and est.score (minutes)
	@.venv/bin/python benchmarks/export_speed.py

bench-latent: .venv  ## measure what latent information is worth (hours; goes on where it stopped)
	@.venv/bin/python benchmarks/latent.py

bench-scale: .venv  ## measure engines, stores and training from them (an hour; goes on where it stopped)
	@.venv/bin/python benchmarks/scale.py

bench-startup: .venv  ## time imports and the first fit, score and posterior of a process (goes on where it stopped)
	@.venv/bin/python benchmarks/startup.py

clean:  ## remove environments, caches and everything that was generated
	@rm -rf .venv .venv-peers .venv-oldest .venv-newest carried site dist build paper-results
	@rm -rf .pytest_cache .ruff_cache .hypothesis
	@find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

.venv: .venv/ready  ## create the development environment
	@:

# The build backend comes from constraints.txt as well, hence no isolated build.
.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "inferostatic needs Python 3.11 or later, and $(PYTHON) is " + sys.version.split()[0] + ": try make PYTHON=/path/to/python3.11")'
	@echo "Creating .venv (once; a minute or two)"
	@$(PYTHON) -m venv --clear .venv
	@.venv/bin/python $(PIP_INSTALL) -c constraints.txt pip hatchling editables
	@.venv/bin/python $(PIP_INSTALL) -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

# Bounds of direct dependencies; what these bring along is as new as they allow.
.venv-oldest/ready: .venv/ready pyproject.toml tests/oldest_versions.py
	@echo "Creating .venv-oldest (once; a minute or two)"
	@$(PYTHON) -m venv --clear .venv-oldest
	@.venv-oldest/bin/python $(PIP_INSTALL) -c constraints.txt pip
	@.venv/bin/python tests/oldest_versions.py > .venv-oldest/constraints.txt
	@.venv-oldest/bin/python $(PIP_INSTALL) -c .venv-oldest/constraints.txt -e '.[all,test]'
	@.venv-oldest/bin/python -m pip check
	@touch $@

.venv-newest/ready: pyproject.toml
	@echo "Creating .venv-newest (once; a minute or two)"
	@$(PYTHON) -m venv --clear .venv-newest
	@.venv-newest/bin/python $(PIP_INSTALL) -c constraints.txt pip
	@.venv-newest/bin/python $(PIP_INSTALL) -e '.[all,test]'
	@.venv-newest/bin/python -m pip check
	@touch $@

# CONTRIBUTING.md says how to run the tests there.
carried: tests/carried.txt constraints.txt  ## download what the core tests need on a machine without network
	@rm -rf carried
	@$(PYTHON) -m pip --disable-pip-version-check download -qq -d carried -c constraints.txt --no-deps \
	    --only-binary :all: --python-version 3.12 --platform manylinux_2_28_x86_64 \
	    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 -r tests/carried.txt
	@du -sh carried

.venv-peers: .venv-peers/ready
	@:

# PyTorch goes first and by itself, so that pip takes whichever build (CPU or CUDA) it is set up for.
.venv-peers/ready: benchmarks/peers.txt benchmarks/peers-constraints.txt
	@echo "Creating .venv-peers (once; TensorFlow and PyTorch are large)"
	@$(PYTHON) -m venv --clear .venv-peers
	@.venv-peers/bin/python $(PIP_INSTALL) torch==2.13.0
	@.venv-peers/bin/python $(PIP_INSTALL) -c benchmarks/peers-constraints.txt -r benchmarks/peers.txt
	@touch $@
