"""Chromium without a window, which opens one page and talks to 127.0.0.1 and nobody else."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from typing import IO, Iterator

from flaskstream.lab.processes import end

NAMES = ("chromium", "chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",  # which root may not have
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--password-store=basic",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
PATIENCE = 60  # seconds that the browser does not need, unless something is wrong


def program() -> str | None:
    """Where it is, if it is there."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def missing() -> str | None:
    """Why its tests must skip."""
    return None if program() else "there is no chromium here"


@contextlib.contextmanager
def opened(url: str) -> Iterator[IO[bytes]]:
    """Have the page open while the block runs, which gets what the browser writes."""
    profile = tempfile.mkdtemp()
    with tempfile.TemporaryFile() as log:
        browser = subprocess.Popen([str(program()), *FLAGS, f"--user-data-dir={profile}", url], stdout=log, stderr=log)
        try:
            yield log
        finally:
            end(browser)
            shutil.rmtree(profile, ignore_errors=True)  # a child of it may still be writing its last words
