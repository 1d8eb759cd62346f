# make book    render the pages (EXECUTE=1: execute first)     make test       the quick checks
# make lab     open JupyterLab (WORDS=--port=8899: so told)    make test-full  every check
# make chapter N=05   execute one chapter in place, render     make formulas   formulas against code, alone
# make homework-release         a term's homework             make homework-grade SUBMISSIONS=…   mark what came in
# make homework-unpack EXPORT=… SUBMISSIONS=…   folders from what Moodle or Canvas exports
# make bench   seconds to solve, steps a second, beside peers    make bench-gpu  steps a second on a GPU, if there is one
# make test-package   the quick checks of the package alone      make clean   forget everything built
PYTHON ?= python3
BIN := .venv/bin
PY := $(BIN)/python
READY := .venv/.ready
RENDER := $(BIN)/jupyter-book build . --path-output .build -W --keep-going -q
CHAPTERS := $(sort $(wildcard book/[0-9]*.ipynb) $(wildcard book/[a-z]_*.ipynb) $(wildcard book/homework/source/*/*.ipynb))
QUICK := not slow and not gpu

.PHONY: setup book chapter lab copies test test-package test-full pages measure links front bench bench-gpu formulas clean
.PHONY: homework-release homework-unpack homework-grade homework-report homework-source

setup: $(READY) .assets/node_modules/.package-lock.json

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13) and 'Python 3.11 or 3.12 is needed; name one with PYTHON=…')"
	test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install -q -r requirements.txt
	$(PY) -m pip install -q --no-deps --no-build-isolation -e .
	touch $@

# The scripts of the pages. Without npm the pages take them from a CDN.
.assets/node_modules/.package-lock.json: .assets/package-lock.json
	@if command -v npm >/dev/null; then cd .assets && npm ci --ignore-scripts --loglevel=error && touch node_modules/.package-lock.json; \
	else echo "npm is missing: the pages will load their scripts from a CDN"; fi

# From the stored outputs, which the tests hold to the code; with EXECUTE=1 every chapter is executed, two at a time.
CACHE := $(CURDIR)/.build/executed
book: setup
	$(if $(EXECUTE),OMP_NUM_THREADS=1 $(PY) book/_ext/execute.py --cache "$(CACHE)" $(CHAPTERS))
	$(if $(EXECUTE),BOOK_CACHE="$(CACHE)") $(RENDER) --all
	@touch $(COPIES)
	@echo "The book is rendered. Open $(CURDIR)/.build/_build/html/index.html"

chapter: setup
	$(if $(N),,$(error Say which chapter: make chapter N=05))
	$(PY) book/_ext/execute.py book/$(N)_*.ipynb
	$(RENDER)
	@echo "Open $(CURDIR)/.build/_build/html/$(basename $(firstword $(wildcard book/$(N)_*.ipynb))).html"

# Copies that a reader may change, made with the pages (book/_ext/copies.py), in .notebooks (book/_ext/lab.py).
COPIES := .build/copies/.made
$(COPIES): $(wildcard *.yml book/*.* book/_ext/*.* book/api/* book/annotated/*) $(shell find minerva_lite book/minerva_book -name "*.py")
	$(RENDER) --all
	@touch $@

lab: setup $(COPIES)
	$(PY) book/_ext/lab.py $(WORDS)

copies: setup $(if $(BOOK_ADDRESS),,$(COPIES))
	$(if $(BOOK_ADDRESS),$(RENDER) --all)
	@touch $(COPIES)
	$(PY) book/_ext/lab.py --no-server
	@echo "Untouched copies, to be handed out with the wheel beside them: $(CURDIR)/.build/copies"

# One thread a process. Three processes share two cores, because a test often waits for a kernel, a browser or a process
# of its own. A file's tests stay together, because some share a run of minutes; so do a notebook's cells, which need one
# kernel, and all visits to a page (tests/conftest.py). Python keeps what it compiled, also where the machine's settings
# say no: hundreds of processes start, and each would compile the package and the tests anew.
# The list of fonts is the tree's own: one in the user's folder may be of a Matplotlib that is gone, and every picture
# of a notebook would complain of it.
TESTS := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 MPLCONFIGDIR="$(CURDIR)/.build/matplotlib" $(BIN)/pytest -q -n 3 --dist loadfile --no-loadscope-reorder
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout 300
# MINUTES=40: red if it takes longer. Of the notebooks those are executed that a change may have reached, and a quarter of
# the others (tests/chapters), one of them from its runnable copy (tests/copies).
test: setup
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(TESTS) -m "$(QUICK)" $(MINUTES:%=--minutes %) --changed-chapters tests $(NBVAL) $(CHAPTERS)

# For a change of the package: no notebooks, pages or homework. tests/README.md says which folder belongs to which room.
ROOMS := formulas markers worlds experience agents language training figures exercises house
test-package: setup
	$(BIN)/ruff check minerva_lite book/minerva_book tests
	$(BIN)/mypy
	$(TESTS) -m "$(QUICK) and not page" $(ROOMS:%=tests/%)

# All mutation proofs run first. What they prove is kept (tests/mutants/record.json), and so is what each notebook depends
# on (tests/chapters/record.json): commit both. Chapters are executed from their copies, and once more backwards.
WATCH := .build/chapters
test-full: setup
	$(BIN)/ruff check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(PY) -m tests.mutants --write
	rm -rf $(WATCH)
	$(TESTS) -k "not slow_line and not by_the_clock" $(MINUTES:%=--minutes %) --watch-chapters $(WATCH) tests $(NBVAL) $(filter book/homework/%,$(CHAPTERS))
	$(PY) -m tests.chapters.record $(WATCH)
	@# What goes by the clock has the machine to itself.
	$(BIN)/pytest -q -k "slow_line or by_the_clock" tests/pages tests/copies

# Renders the stored outputs (no execution) and opens them in a headless Chromium.
pages: setup
	$(TESTS) -m page -k "not slow_line" tests/pages

# What a first visit to each rendered page costs on a slow line: a table. After `make book`.
measure: setup
	$(PY) -m tests.pages.speed

# Asks the network whether every address in the book still answers.
links: setup
	$(BIN)/jupyter-book build . --path-output .build --builder linkcheck

# The front page's pictures, from a training run and from the plots.
front: setup
	OMP_NUM_THREADS=1 $(PY) book/_ext/front.py

# Homework. CLASS is a private folder: seed, solutions, gradebook, names.
CLASS := .homework/term
COURSE := PYTHONPATH=book/homework $(PY) -m course

homework-release: setup
	$(COURSE) release $(CLASS) $(if $(SEED),--seed "$(SEED)") $(if $(ASSIGNMENTS),--assignments $(ASSIGNMENTS)) \
		$(if $(DUE),--due $(DUE)) $(if $(PACKAGE),--package "$(PACKAGE)") \
		$(if $(VARIANTS),--variants $(VARIANTS))

homework-unpack: setup
	$(if $(EXPORT),,$(error Say which archive: make homework-unpack EXPORT=hw2.zip SUBMISSIONS=folder))
	$(if $(SUBMISSIONS),,$(error Say where to: make homework-unpack EXPORT=hw2.zip SUBMISSIONS=folder))
	$(COURSE) unpack "$(EXPORT)" "$(SUBMISSIONS)" $(if $(wildcard $(CLASS)/roster.csv),--term $(CLASS)) \
		$(if $(FROM),--from $(FROM)) $(if $(WORKSHEET),--worksheet "$(WORKSHEET)") \
		$(if $(TRUST_EXPORT_TIMES),--trust-export-times)

homework-grade: setup
	$(if $(SUBMISSIONS),,$(error Say where they are: make homework-grade SUBMISSIONS=folder))
	$(COURSE) grade "$(SUBMISSIONS)" $(CLASS) $(if $(ASSIGNMENTS),--assignments $(ASSIGNMENTS)) \
		$(if $(WORKERS),--workers $(WORKERS))

homework-report: setup
	$(COURSE) report $(CLASS) $(if $(REVEAL),--reveal $(REVEAL)) $(if $(PROVISIONAL),--provisional) \
		$(if $(ZIPS),--zips) $(if $(NAMES),--names $(NAMES))

# The example's source notebooks from the questions, executed.
homework-source: setup
	$(COURSE) source book/homework
	$(PY) book/_ext/execute.py book/homework/source/*/*.ipynb

formulas: setup
	$(PY) -m tests.markers

bench: setup
	$(PY) -m book.results.peers.bench
	$(PY) -m book.results.peers.throughput
	$(PY) -m book.results.peers.language

bench-gpu: setup
	$(PY) -m book.results.peers.bench_gpu

clean:
	rm -rf .build .venv .venv-peers .venv-trl .assets/node_modules .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
