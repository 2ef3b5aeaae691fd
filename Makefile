# Each target does all of its set-up: it needs Python (3.8 or later) and make, and the package index.
#
#   make compare       the main job: broken and fixed side by side (ARGS="--clients 8" and so on)
#   make serve         the fixed mode on http://127.0.0.1:8000
#   make serve-broken  the broken mode on http://127.0.0.1:8001
#   make test          format, lint, types, an install into an empty environment, and the tests, on this Python
#                      with current releases and on Python 3.8 with the oldest ones; some tests also run Node and
#                      Chromium, which root on a Debian is fetched, and skip where they are not to be had
#   make soak          minutes of random trouble, after which nothing may be left (ARGS="--seconds 600", --worker gthread)
#   make soak-resume   200 clients of 50 recorded streams, dropped at random, on each store (a seed that a failure
#                      prints is played again by RESUME_SEED; `make test` does the same with half of them)
#   make bench         what the kit costs beside its peers, and whether that is within its budget: a quarter of an hour
#                      (ARGS=--quick: two minutes; ARGS="--json FILE", --write: into docs/performance.md, --check)
#   make bench-leaving how soon an upstream is left after its client
#   make bench-stores  what each store costs for a token beside none, and how soon 10,000 events are read again
#   make bench-sizing  how many workers and machines so many streams need (ARGS="--streams 10000 --rate 20"): docs/sizing.md
#   make bench-simulation  the same machines simulated through a deploy and a loss
#   make doctor-table  how often the doctor is right, measured on real proxies for a quarter of an hour: docs/doctor.md
#   make screenshots   the pictures of the page /compare in docs/: look at them before you keep them
#   make clean         takes away what the others made

PYTHON ?= python3
# The oldest corner. Skipped, aloud, where there is no such interpreter.
OLDEST_PYTHON ?= $(shell for python in python3.8 $$HOME/.pyenv/versions/3.8.*/bin/python; do \
	$$python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 8))' 2>/dev/null && echo $$python && break; done)

VENV = .venv
OLDEST = .venv-oldest
EMPTY = .venv-empty
# The peers of the bench; one has an environment of its own, for it pins the releases of the others.
BENCH = .venv-bench
LITELLM = .venv-bench-litellm
NODE = tests/node/node_modules
# Unset: with it every print is flushed, and no test could tell who flushes.
RUN = env -u PYTHONUNBUFFERED
# Two files of tests at a time: most of their time goes by in waiting. (ARGS="-n 0": one after the other.)
AT_ONCE = -n 2 --dist loadfile
# Debian has venv in a package of its own; as root it is fetched.
NEW_VENV = sh .ci/new-venv

.PHONY: bench doctor-table compare serve serve-broken test lint test-install test-current test-oldest programs soak soak-resume bench-leaving \
	bench-stores bench-sizing bench-simulation screenshots format clean

compare: $(VENV)/.installed
	$(VENV)/bin/flaskstream compare $(ARGS)

serve: $(VENV)/.installed
	$(VENV)/bin/gunicorn -c gunicorn.conf.py wsgi:app

serve-broken: $(VENV)/.installed
	exec env -u PYTHONUNBUFFERED FLASKSTREAM_MODE=broken $(VENV)/bin/gunicorn -c gunicorn.conf.py --bind 127.0.0.1:8001 wsgi:app

# The corners side by side: most of their time goes by in waiting for servers.
test: lint test-install
	$(MAKE) -j2 --output-sync=target test-current test-oldest

lint: $(VENV)/.installed-test
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

# What `pip install flaskstream` gives: the command, the page and the types, from an environment with nothing else.
test-install: setup.cfg pyproject.toml
	rm -rf $(EMPTY)
	$(NEW_VENV) $(PYTHON) $(EMPTY)
	$(EMPTY)/bin/pip install --quiet .
	cd $(EMPTY) && bin/flaskstream compare --faults none --clients 2 --tokens 12 --html compare.html
	cd $(EMPTY) && bin/python -c 'import flaskstream, os; os.stat(os.path.join(flaskstream.__path__[0], "py.typed"))'
	rm -rf $(EMPTY) build

test-current: $(VENV)/.installed-test $(NODE)/.installed
	.ci/run-tests $(VENV) $(AT_ONCE) $(ARGS)

# The tests that drive other programs do so in one corner only, and are named here: they would find the same twice.
ONCE = $(addprefix tests/test_,behind_http2.py bench.py bench_doctor.py bench_leaving.py bench_sizing.py bench_stores.py \
	check_samples.py client_browser.py client_js.py client_page.py client_resume.py compare_page.py decoders.py \
	doctor_hops.py doctor_http2.py http2.py many_machines.py proxy_config.py resume_browser.py sample_chat.py \
	sdks.py soak.py tail_http2.py)

test-oldest: $(NODE)/.installed
ifeq ($(OLDEST_PYTHON),)
	@echo "SKIPPED: there is no Python 3.8 here (OLDEST_PYTHON=...), so the oldest corner was not tested"
else
	$(MAKE) $(OLDEST)/.installed-test
	@echo "SKIPPED in the oldest corner, for they ran in the other: $(ONCE)"
	.ci/run-tests $(OLDEST) $(AT_ONCE) $(addprefix --ignore=,$(ONCE)) $(ARGS)
endif

doctor-table: $(VENV)/.installed-test $(NODE)/.installed
	$(RUN) $(VENV)/bin/python -m bench.doctor --write $(ARGS)

programs:
	sh .ci/system-packages

soak: $(VENV)/.installed-test
	cd tests && $(RUN) ../$(VENV)/bin/python -m soak $(ARGS)

soak-resume: $(VENV)/.installed-test
	RESUME_CLIENTS=200 $(RUN) $(VENV)/bin/python -m pytest tests/test_resume_random.py $(ARGS)

bench: $(BENCH)/.installed
	$(RUN) $(BENCH)/bin/python -m bench $(ARGS)

bench-stores: $(VENV)/.installed-test
	$(RUN) $(VENV)/bin/python -m bench.stores $(ARGS)

bench-leaving: $(VENV)/.installed
	$(VENV)/bin/python -m bench.leaving $(ARGS)

# The last one of an option given twice is taken.
bench-sizing: $(VENV)/.installed
	$(VENV)/bin/python -m bench.sizing --streams 10000 $(ARGS)

bench-simulation: $(VENV)/.installed
	$(VENV)/bin/python -m bench.simulation --check --streams 10000 $(ARGS)

screenshots: $(VENV)/.installed-test
	cd tests && $(RUN) ../$(VENV)/bin/python screenshots.py

format: $(VENV)/.installed-test
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

$(VENV)/.installed: setup.cfg pyproject.toml
	@echo "installing into $(VENV), once: about half a minute"
	$(NEW_VENV) $(PYTHON) $(VENV)
	$(VENV)/bin/pip install --quiet --editable .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(VENV)/bin/pip install --quiet --editable '.[test,lint,peers]'
	@# Built from source, which needs a C compiler. Its tests are skipped, aloud, where there is none.
	@$(VENV)/bin/pip install --quiet uwsgi 2>/dev/null || echo "SKIPPED: uWSGI could not be built here, so it is not tested"
	touch $@

$(BENCH)/.installed: setup.cfg pyproject.toml | programs
	@echo "installing the peers into $(BENCH), once: about a minute"
	$(NEW_VENV) $(PYTHON) $(BENCH)
	$(BENCH)/bin/pip install --quiet --editable '.[bench]'
	@$(BENCH)/bin/pip install --quiet granian || echo "SKIPPED: Granian is not to be had here, so it is not measured"
	@{ $(NEW_VENV) $(PYTHON) $(LITELLM) && $(LITELLM)/bin/pip install --quiet 'litellm[proxy]'; } \
		|| { rm -rf $(LITELLM); echo "SKIPPED: LiteLLM is not to be had here, so it is not measured"; }
	touch $@

$(OLDEST)/.installed-test: setup.cfg pyproject.toml tests/oldest.txt
	$(NEW_VENV) $(OLDEST_PYTHON) $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --constraint tests/oldest.txt --editable '.[test]'
	touch $@

$(NODE)/.installed: tests/node/package.json tests/node/package-lock.json | programs
	@if command -v npm >/dev/null; \
	then cd tests/node && npm ci && touch node_modules/.installed; \
	else echo "SKIPPED: there is no npm here, so nothing of npm was tested"; fi

clean:
	rm -rf $(VENV) $(OLDEST) $(EMPTY) $(BENCH) $(LITELLM) $(NODE) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
