"""What a stream can be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

from flaskstream.debug import DebugPrinter
from flaskstream.errors import InvalidEvent, InvalidSetting
from flaskstream.sse import Event
from flaskstream.tally import StreamReport
from flaskstream.wire import HEARTBEAT_FORMS


@dataclass(frozen=True)
class StreamOptions:
    """The options of `event_stream`.

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
            seconds = getattr(self, name)
            if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds < float("inf"):
                raise InvalidSetting(f"{name}: expected seconds (0 or more), got {seconds!r}")
        if self.heartbeat_form not in HEARTBEAT_FORMS:
            raise InvalidSetting(
                f"heartbeat_form: expected one of {', '.join(HEARTBEAT_FORMS)}, got {self.heartbeat_form!r}"
            )
        for name in ("printer", "on_end"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise InvalidSetting(f"{name}: expected a function, or None, got {getattr(self, name)!r:.80}")
        if self.max_streams is not None and (not isinstance(self.max_streams, int) or self.max_streams < 1):
            raise InvalidSetting(f"max_streams: expected 1 or more, or None, got {self.max_streams!r}")
        try:
            Event("-", retry=self.retry)
        except InvalidEvent as error:
            raise InvalidSetting(str(error)) from None

    @property
    def content_type(self) -> str:
        """The value of the `Content-Type` header."""
        return "text/event-stream; charset=utf-8" if self.charset else "text/event-stream"
