# Everything runs in .venv, which `make install` makes; it does nothing when nothing has changed.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install demo test lint docs bench bench-images quality slow stress clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(STAMP)

demo: install
	$(BIN)/causalbald demo
	rm -rf causalbald-nhefs
	PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/nhefs.sh causalbald-nhefs

test: lint docs
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" --cov --cov-report=term-missing:skip-covered --cov-fail-under=90

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: install
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build/html

bench: install
	$(BIN)/python benchmarks/gp.py
	$(BIN)/python benchmarks/models.py

bench-images: install
	for model in due ensemble; do $(BIN)/python benchmarks/images.py --data-dir $(MNIST) --model $$model; done

quality: install
	$(BIN)/python benchmarks/quality.py
	$(BIN)/python benchmarks/model_quality.py
	$(BIN)/python benchmarks/stopping.py

stress: install
	$(BIN)/python -m tests.stress --kills 200 --outcomes 1000

slow: install
	$(BIN)/python -m pytest -m slow

clean:
	rm -rf .venv build docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis dist causalbald-demo.html causalbald-nhefs
