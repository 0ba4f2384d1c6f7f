# Two commands for a newcomer: `make demo` and `make test`. Both set everything up first.
PYTHON ?= python3
BIN := .venv/bin
ready := .venv/.ready

.PHONY: setup demo test gauntlet check bench docs pictures clean

setup: $(ready)

$(ready): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/python demo/translate.py $(AGAIN)

test: check
	$(BIN)/python -m pytest

# at most 20 minutes: 5 for what must be alone; LIMIT=60m make gauntlet for more, as with MIXED=1800
gauntlet: setup
	timeout --foreground --signal INT --kill-after 60s 5m $(BIN)/python -m pytest -m alone -n 0
	timeout --foreground --signal INT --kill-after 60s $(or $(LIMIT),15m) $(BIN)/python -m pytest -m long --durations=0

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/regard bench --to docs

docs: setup
	$(BIN)/python docs/contents.py --write
	$(BIN)/python docs/settings.py --write
	$(BIN)/python docs/api.py --write
	$(BIN)/python docs/scale.py --write
	$(BIN)/zensical build --strict --clean

pictures: setup
	PICTURES=docs/pictures $(BIN)/python -m pytest -n 0 tests/look/browser

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis site
