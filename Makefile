# The two commands: `make demo` and `make test`. Each sets up .venv first, from requirements.lock.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
BIN := .venv/bin

.PHONY: demo test lint lock
demo: .venv/.ready
	$(BIN)/recshard demo

test: .venv/.ready lint
	$(BIN)/pytest

lint: .venv/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# torch goes first and alone: packages that depend on it then find it there and fetch no other build. The rest
# comes without its dependencies, which the lock names too: torchrec asks for fbgemm-gpu, gigabytes of CUDA, and
# the lock has its build for CPUs in its stead.
.venv/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else "recshard needs Python 3.11 or newer, and $(PYTHON) is %d.%d; say which to use: make PYTHON=/path/to/python3.11" % v[:2])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' requirements.lock)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $@

# After a change of the ranges in pyproject.toml: pin what is installed now.
lock: .venv/.ready
	{ echo "# Every dependency, pinned; written by \`make lock\`; pip wants --no-deps with it, as in the Makefile."; \
	  $(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu//'; } > requirements.lock.new
	mv requirements.lock.new requirements.lock
