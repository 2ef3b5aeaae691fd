"""What is watched beside the body while the request runs: prints, loops, upstreams read whole, and refusals."""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import sys
from threading import get_ident
from types import FrameType
from typing import Any, Iterator

from flaskstream.doctor.check.log import Log
from flaskstream.doctor.check.observation import STREAM_TYPES
from flaskstream.doctor.check.places import KIT, OWN, Place, caller, frames_from, kind_of


@contextlib.contextmanager
def watching_calls(log: Log) -> Iterator[None]:
    """Watch while the block runs."""
    stdout = sys.stdout
    watched = WatchedStdout(stdout, log)
    refusals = _Refusals(log)
    with contextlib.ExitStack() as stack:
        sys.stdout = watched
        stack.callback(setattr, sys, "stdout", stdout)
        kit = logging.getLogger("flaskstream")
        kit.addHandler(refusals)
        stack.callback(kit.removeHandler, refusals)
        for module, name, watch in _WATCHED:
            if module in sys.modules:
                stack.enter_context(_replaced(sys.modules[module], name, watch, log))
        yield
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


def _watched_client(library: str, without: str) -> Any:
    """Return a watch of a client's `send`, which reads the whole body unless it is told `stream=True`."""

    def watch(original: Any, log: Log) -> Any:
        def send(self: Any, request: Any, **kwargs: Any) -> Any:
            response = original(self, request, **kwargs)
            log.say("asked_upstream", library=library)
            content_type = _content_type(response.headers)
            if not kwargs.get("stream") and content_type in STREAM_TYPES:
                _say_unstreamed(log, library, without, content_type)
            return response

        return send

    return watch


def _watched_http_client(original: Any, log: Log) -> Any:
    def read(self: Any, amt: int | None = None) -> Any:
        content_type = _content_type(self.headers or {})
        is_whole = (amt is None or amt < 0) and content_type in STREAM_TYPES
        if is_whole and kind_of(sys._getframe(1).f_code.co_filename) == OWN:  # of a library it is told by its own name
            _say_unstreamed(log, "http.client", "read() has no number of bytes", content_type)
        return original(self, amt)

    return read


def _say_unstreamed(log: Log, library: str, without: str, content_type: str) -> None:
    place = caller(_NOT_THE_CALLER)[0] or caller()[0]
    log.say("unstreamed_upstream", place=place, type=content_type, library=library, without=without)


def _watched_reader(original: Any, log: Log) -> Any:
    def iter_content(self: Any, chunk_size: int | None = 1, *args: Any, **kwargs: Any) -> Any:
        names = [frame.f_code.co_name for frame in _within_requests(sys._getframe(1))]
        content_type = _content_type(self.headers)
        if content_type in STREAM_TYPES and "send" not in names:  # that is told as what has no stream=True
            way = next((way for way in ("content", "iter_lines") if way in names), "iter_content")
            place = caller(_NOT_THE_CALLER)[0]
            log.say("read_upstream", way=way, framing=_framing_of(self.headers), size=chunk_size, place=place)
        return original(self, chunk_size, *args, **kwargs)

    return iter_content


def _content_type(headers: Any) -> str:
    return str(headers.get("Content-Type", "")).split(";")[0].strip()


def _within_requests(frame: FrameType) -> Iterator[FrameType]:
    """Yield the frames of requests itself, from this one up to whoever has called it."""
    return itertools.takewhile(
        lambda one: one.f_globals.get("__name__", "").split(".")[0] == "requests", frames_from(frame)
    )


def _framing_of(headers: Any) -> str:
    if "chunked" in headers.get("Transfer-Encoding", "").lower():
        return "chunked"
    return "length" if "Content-Length" in headers else "close"


_WATCHED = (
    ("asyncio", "run", _watched_loop),
    ("http.client", "HTTPResponse.read", _watched_http_client),
    ("httpx", "Client.send", _watched_client("httpx", "it is not asked with stream()")),
    ("requests", "Session.send", _watched_client("requests", "there is no stream=True")),
    ("requests", "Response.iter_content", _watched_reader),
)
"""Module, name in it, and what is put there."""

_NOT_THE_CALLER = ("kit", "framework", "stdlib", "package")
"""requests is a package itself: the app's own line that asked is above it."""


class WatchedStdout:
    """`sys.stdout`, and who has written to it without a flush."""

    def __init__(self, out: Any, log: Log) -> None:
        self._out = out
        self._log = log
        self._waiting: dict[tuple[int, Place], None] = {}

    def write(self, text: str) -> Any:
        is_sent = getattr(self._out, "line_buffering", False) or getattr(self._out, "write_through", False)
        place = None if is_sent or not text.strip() else caller()[0]
        if place is not None:
            self._waiting[get_ident(), place] = None
        return self._out.write(text)

    def flush(self) -> None:
        thread = get_ident()  # of another one the flush may be about to come
        self._waiting = {key: None for key in self._waiting if key[0] != thread}
        self._out.flush()

    def settle(self) -> None:
        """Write down what has not been flushed by now: it waits until the buffer is full."""
        for place in dict.fromkeys(place for _, place in self._waiting):
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
        if place is not None and kind_of(place.file) != KIT:  # else it was a loop, and the boundary has told
            self._log.say("guarded", place=place, through=through, phase="hooks")


def read_refusal(message: str) -> tuple[Place | None, str]:
    """Return whom the kit's message names, and what was called there."""
    found = re.search(r"(.*) would read a whole stream .*; called by (.+):(\d+) in ([^.\s]+)", message)
    if found is None:
        return None, ""
    through, file, line, function = found.groups()
    return Place(file, int(line), function), through.split("(")[0]
