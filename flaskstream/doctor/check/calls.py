"""What is watched outside of the body while the request runs: prints, loops, upstreams that are read whole, refusals."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from typing import Any, Iterator

from flaskstream.doctor.check.log import Log
from flaskstream.doctor.check.places import Place, caller

STREAM_TYPES = ("text/event-stream", "application/x-ndjson")
"""What an upstream sends that streams."""


@contextlib.contextmanager
def watching_calls(log: Log) -> Iterator[WatchedStdout]:
    """Watch while the block runs; returns what stands in the place of `sys.stdout`."""
    stdout = sys.stdout
    watched = WatchedStdout(stdout, log)
    refusals = _Refusals(log)
    with contextlib.ExitStack() as stack:
        sys.stdout = watched  # type: ignore[assignment]
        stack.callback(setattr, sys, "stdout", stdout)
        kit = logging.getLogger("flaskstream.unbuffered")
        kit.addHandler(refusals)
        stack.callback(kit.removeHandler, refusals)
        for module, name, watch in (("asyncio", "run", _watched_loop), ("requests", "Session.send", _watched_send)):
            if module in sys.modules:
                stack.enter_context(_replaced(sys.modules[module], name, watch, log))
        yield watched
        watched.settle()


@contextlib.contextmanager
def _replaced(holder: Any, name: str, watch: Any, log: Log) -> Iterator[None]:
    *path, last = name.split(".")
    for part in path:
        holder = getattr(holder, part)
    original = getattr(holder, last)
    setattr(holder, last, watch(original, log))
    try:
        yield
    finally:
        setattr(holder, last, original)


def _watched_loop(original: Any, log: Log) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        log.say("asyncio_run", place=caller()[0])
        return original(*args, **kwargs)

    return run


def _watched_send(original: Any, log: Log) -> Any:
    def send(self: Any, request: Any, **kwargs: Any) -> Any:
        response = original(self, request, **kwargs)
        content_type = response.headers.get("Content-Type", "").split(";")[0].strip()
        if not kwargs.get("stream") and content_type in STREAM_TYPES:
            log.say("unstreamed_upstream", place=caller(_NOT_THE_CALLER)[0] or caller()[0], type=content_type)
        return response

    return send


_NOT_THE_CALLER = ("kit", "framework", "stdlib", "package")
"""requests is a package itself: the app's own line that asked is above it."""


class WatchedStdout:
    """`sys.stdout`, and who has written to it without a flush."""

    def __init__(self, out: Any, log: Log) -> None:
        self._out = out
        self._log = log
        self._waiting: Place | None = None
        self._told: set[Place] = set()

    def write(self, text: str) -> Any:
        is_sent = getattr(self._out, "line_buffering", False) or getattr(self._out, "write_through", False)
        if text.strip() and not is_sent:
            self._waiting = caller()[0] or self._waiting
        return self._out.write(text)

    def flush(self) -> None:
        self._waiting = None
        self._out.flush()

    def settle(self) -> None:
        """The stream goes on: what has not been flushed by now waits for the buffer to be full."""
        place, self._waiting = self._waiting, None
        if place is not None and place not in self._told:
            self._told.add(place)
            self._log.say("unflushed", place=place)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


class _Refusals(logging.Handler):
    """The warnings in which the kit's own response names who wanted to read it."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        place, through = read_refusal(record.getMessage())
        if place is not None:
            self._log.say("guarded", place=place, through=through, phase="hooks")


def read_refusal(message: str) -> tuple[Place | None, str]:
    """Return whom the kit's message names, and what was called there."""
    found = re.search(r"(.*) would read a whole stream .*; called by (.+):(\d+) in ([^.\s]+)", message)
    if found is None:
        return None, ""
    through, file, line, function = found.groups()
    return Place(file, int(line), function), through.split("(")[0]
