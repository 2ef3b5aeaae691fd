"""WSGI servers that run in the test's own process, with its own app."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator

import pytest
from raw_upstream import PATIENCE

from flaskstream.testing import serve


@contextlib.contextmanager
def waitress(app: Any, threads: int = 4) -> Iterator[str]:
    module = pytest.importorskip("waitress", reason="waitress is not installed")
    server = module.create_server(app, host="127.0.0.1", port=0, threads=threads)

    def run() -> None:
        with contextlib.suppress(OSError):  # its own way of being closed by another thread
            server.run()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        server.close()
        thread.join(PATIENCE)


@contextlib.contextmanager
def werkzeug(app: Any) -> Iterator[str]:
    with serve(app) as server:
        yield server.url
