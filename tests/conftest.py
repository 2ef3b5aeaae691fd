"""Servers that several files of tests share: each is started once, when the first test asks for it."""

from __future__ import annotations

from typing import Iterator

import pytest
from raw_upstream import RawUpstream

from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.processes import ModelProcess

API_KEY = "sk-secret-0123456789"
IDLE_SECONDS = 1.5
"""How long `raw_gunicorn` lets its upstream be silent: much longer than a busy machine keeps a play waiting."""


@pytest.fixture(scope="session")
def model() -> Iterator[ModelProcess]:
    """The embedded model."""
    with ModelProcess() as process:
        yield process


@pytest.fixture(scope="session")
def gunicorn(model: ModelProcess) -> Iterator[GunicornProcess]:
    """The fixed mode, with the embedded model behind it."""
    with GunicornProcess({"upstream": model.url}) as process:
        process.wait_until_it_answers()
        yield process


@pytest.fixture(scope="session")
def raw_upstream() -> Iterator[RawUpstream]:
    """An upstream that plays bytes."""
    upstream = RawUpstream()
    yield upstream
    upstream.close()


@pytest.fixture(scope="session")
def raw_gunicorn(raw_upstream: RawUpstream) -> Iterator[GunicornProcess]:
    """The fixed mode, with the upstream that plays bytes behind it."""
    settings = {"upstream": raw_upstream.url, "api_key": API_KEY, "idle_timeout": str(IDLE_SECONDS)}
    with GunicornProcess(settings) as process:
        process.wait_until_it_answers()
        yield process
