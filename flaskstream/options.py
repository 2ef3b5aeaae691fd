"""What a stream can be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

from flaskstream.debug import DebugPrinter
from flaskstream.errors import InvalidSetting
from flaskstream.settings import MAX_SECONDS
from flaskstream.tally import StreamReport
from flaskstream.wire import HEARTBEAT_FORMS

SHORTEST_HEARTBEAT = 0.001
"""Seconds; a shorter one would keep a core busy, and was meant in another unit."""

_MAX_RETRY_MS = MAX_SECONDS * 1000


@dataclass(frozen=True)
class StreamOptions:
    """The options of `event_stream`. No time is longer than a day.

    Attributes:
        heartbeat: seconds of silence after which a comment is sent, so that no proxy takes the stream for dead
            (the shortest common limit is 30 s) and a client that has gone is noticed; 0: never.
        heartbeat_form: how a heartbeat is written, one of `flaskstream.wire.HEARTBEAT_FORMS`: "comment" is the safe
            one, "ping" an event of that name, which also a native `EventSource` sees.
        status_grace: seconds for which the first event is awaited before the 200 goes out: a failure in that time is
            a real HTTP status. After it a first comment is sent instead. 0: the 200 goes out at once.
        keep_context: keep `request`, `session` and `g` available in the generator (`stream_with_context`). `g` holds
            what the view and its hooks have put there, without what can be closed, such as a connection to a
            database: the end of the view closes that. The generator makes its own, and when it has ended the teardown
            functions run a second time, for that. `False`: it runs outside of Flask, and pins nothing.
        max_duration: seconds after which a stream is ended with `event: error`; 0: never.
        max_streams: how many streams may be open in this process at once, this one included; one more gets a 503 with
            `Retry-After`. `None`: any number.
        retry: how long a client waits before it reconnects, in milliseconds. Each is told up to half as much more, and
            up to three times as much when its stream ends at a deploy, so that they do not all come back at once.
            `None`: its own default.
        charset: send `text/event-stream; charset=utf-8`. Some proxies stream only the bare type, which is UTF-8
            by definition; clients that guess an encoding from the header (requests) want the long one.
        printer: prints a line for each event; see `flaskstream.debug`.
        on_end: called once with the `StreamReport` of each stream.
    """

    heartbeat: float = 15.0
    heartbeat_form: str = "comment"
    status_grace: float = 5.0
    keep_context: bool = True
    max_duration: float = 0.0
    max_streams: int | None = None
    retry: int | None = 3000
    charset: bool = False
    printer: DebugPrinter | None = field(default=None, compare=False)
    on_end: Callable[[StreamReport], None] | None = None

    def __post_init__(self) -> None:
        for name in ("heartbeat", "status_grace", "max_duration"):
            check_seconds(name, getattr(self, name))
        if 0 < self.heartbeat < SHORTEST_HEARTBEAT:
            raise InvalidSetting(
                f"heartbeat: expected 0 or at least {SHORTEST_HEARTBEAT:g} seconds, got {self.heartbeat!r}"
            )
        if self.heartbeat_form not in HEARTBEAT_FORMS:
            raise InvalidSetting(
                f"heartbeat_form: expected one of {', '.join(HEARTBEAT_FORMS)}, got {self.heartbeat_form!r:.80}"
            )
        for name in ("keep_context", "charset"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidSetting(f"{name}: expected True or False, got {getattr(self, name)!r:.80}")
        for name in ("printer", "on_end"):
            check_function(name, getattr(self, name))
        _check_count("max_streams", self.max_streams)
        _check_retry(self.retry)

    @property
    def content_type(self) -> str:
        """The value of the `Content-Type` header."""
        return "text/event-stream; charset=utf-8" if self.charset else "text/event-stream"


def check_seconds(name: str, seconds: object) -> None:
    """Raise `InvalidSetting` unless an option is a time that may be waited for."""
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds <= MAX_SECONDS:
        raise InvalidSetting(f"{name}: expected seconds from 0 to {MAX_SECONDS:g}, got {seconds!r:.80}")


def check_function(name: str, function: object) -> None:
    """Raise `InvalidSetting` unless an option is something to call, or nothing."""
    if function is not None and not callable(function):
        raise InvalidSetting(f"{name}: expected a function, or None, got {function!r:.80}")


def _check_count(name: str, count: object) -> None:
    if count is None:
        return
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InvalidSetting(f"{name}: expected 1 or more, or None, got {count!r:.80}")


def _check_retry(retry: object) -> None:
    if retry is None:
        return
    if not isinstance(retry, int) or isinstance(retry, bool) or not 0 <= retry <= _MAX_RETRY_MS:
        raise InvalidSetting(f"retry: expected whole milliseconds from 0 to {_MAX_RETRY_MS:.0f}, got {retry!r:.80}")
