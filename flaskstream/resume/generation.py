"""Produce one answer, whoever reads it: in a thread or greenlet of its own, until it ends or is ended."""

from __future__ import annotations

import contextvars
import functools
import logging
import time
from contextlib import closing
from typing import Any, Callable, Iterator

from flaskstream.background import start
from flaskstream.errors import EventTooLarge, FlaskStreamError, MaxDuration, ShuttingDown
from flaskstream.open_streams import Place
from flaskstream.resume import ends
from flaskstream.resume.ends import End
from flaskstream.resume.live import Live
from flaskstream.resume.terms import Terms
from flaskstream.signals import NOTHING
from flaskstream.stream import log_failure
from flaskstream.waiting import Turn
from flaskstream.wire import encoded, event_of_text

log = logging.getLogger(__name__)

_TURN = 32  # events
_ROOM_SECONDS = 0.5


class Generation:
    """The production of one answer.

    Args:
        live: where it goes.
        source: makes the generator of what `event_stream` takes, given a turn that it may begin.
        place: in the register of what this process produces.
        terms: for how long, and how much.
        on_more: called when there is more in `live`.
        on_end: called once, with the end, how many events came before it, and how many milliseconds all took.
    """

    __slots__ = (
        *("live", "_ending", "_most_bytes", "_on_more", "_source", "_place", "_on_end", "_began_at", "_max_duration"),
        *("_since_turn", "_deadline", "_is_advancing", "_interrupt"),
    )

    def __init__(
        self,
        live: Live,
        source: Callable[[Turn], Iterator[Any]],
        place: Place,
        terms: Terms,
        on_more: Callable[[Live], None],
        on_end: Callable[[End, int, float], None],
    ) -> None:
        self.live = live
        self._source = source
        self._place = place
        self._on_more = on_more
        self._on_end = on_end
        self._began_at = time.monotonic()
        self._max_duration = terms.max_duration
        self._most_bytes = terms.retention.bytes
        self._since_turn = 0  # events, since others had one
        self._deadline = self._began_at + terms.max_duration if terms.max_duration else None
        self._ending: End | None = None
        self._is_advancing = False
        self._interrupt: Callable[[], Any] = lambda: None

    def start(self) -> None:
        """Begin."""
        # In contexts of its own: it outlives the request that began it.
        run = functools.partial(contextvars.Context().run, self._main)
        self._interrupt = start(run, lambda: self._is_advancing, "flaskstream-generation")
        # Nobody could read elsewhere what were produced here when all readers have been told to leave.
        self._place.when_stopping(self._end_at_deploy, is_early=lambda: not self.live.is_anywhere_else())

    def stop(self, end: End) -> None:
        """End it so, unless it has ended; its upstream is closed now. From any thread, and without waiting."""
        if self.live.end is None and self._ending is None:
            self._ending = end
            self._interrupt()

    def leave(self) -> None:
        """Give its place back, once its end is recorded, or never will be."""
        self._place.stream_ended()
        self._place.generator_ended()

    def end_if_too_old(self, now: float) -> bool:
        """End it if it is too old; return whether it is."""
        if self._deadline is None or now <= self._deadline:
            return False
        error = MaxDuration(f"expected the end of the answer within {self._max_duration:g} s, got none")
        self.stop(ends.failed(error, self.live.stream_id))
        return True

    def _end_at_deploy(self) -> None:
        error = ShuttingDown("expected the end of the answer in time, got the end of this worker")
        self.stop(ends.failed(error, self.live.stream_id))

    def _main(self) -> None:
        try:
            self._produce()
            end = self._ending or ends.done(self.live.events)
        except BaseException as error:  # GeneratorExit too: it was interrupted
            end = self._ending or ends.failed(_as_exception(error), self.live.stream_id)
        if end.failure is not None:
            log_failure(end.failure, self.live.stream_id, f"after {self.live.events} events")
        self._on_end(end, self.live.events, (time.monotonic() - self._began_at) * 1000)
        self.live.finish(end)
        self._on_more(self.live)

    def _produce(self) -> None:
        turn = Turn()
        turn.of_text = event_of_text
        turn.express = _Adding(turn, self)
        with closing(turn.items(self._source(turn))) as items:  # type: ignore[type-var]
            self._is_advancing = True
            try:
                if self._ending is not None:
                    return
                for item in items:
                    if self._ending is not None:
                        return
                    is_event = type(item) is bytes and turn.lane is not None  # by `of_text`, and not by a generator
                    self.add_in_turn([item] if is_event else encoded(item))
            finally:
                self._is_advancing = False

    def add_in_turn(self, blocks: list[bytes]) -> None:
        """Add what the answer says next, some at a time: others have turns, and it waits for room. Raises as `tell`."""
        for first in range(0, len(blocks), _TURN):
            together = blocks[first : first + _TURN]
            self.add(together)
            self._since_turn += len(together)
            if self._since_turn >= _TURN:
                self._since_turn = 0
                time.sleep(0)  # an upstream that always has more to say gives nobody else a turn
            self._wait_for_room()
        self._wait_for_room()  # for what was added while this greenlet was waiting

    def _wait_for_room(self) -> None:
        while self.live.is_far_ahead and self._ending is None:
            self.live.wait_for_room(_ROOM_SECONDS)

    def add(self, blocks: list[bytes]) -> bool:
        """Add what the answer says next, without waiting; return whether there is room for more. Raises as `tell`."""
        is_due = self.live.add(blocks[0]) if len(blocks) == 1 else self.live.add_together(blocks)
        return not is_due or self.tell()

    def tell(self) -> bool:
        """Have the store told what it is due; return whether there is room for more.

        Raises:
            EventTooLarge: it would fill the store alone.
        """
        live = self.live
        if live.size > self._most_bytes:
            raise EventTooLarge(f"expected an answer of at most {self._most_bytes} bytes, got more")
        self._on_more(live)
        return self._ending is None and not live.is_far_ahead


class _Adding:
    """What the waits of a producing greenlet go by: a token is added where the loop has found it.

    Args:
        turn: of the generator.
        generation: to which it is added.
    """

    __slots__ = ("_failure", "_generation", "_lane", "_left", "_live", "_turn")

    def __init__(self, turn: Turn, generation: Generation) -> None:
        self._turn = turn
        self._generation = generation
        self._live = generation.live
        self._lane: Any = None  # the short way, which is not yet known
        self._failure: Exception | None = None
        self._left: list[bytes] = []  # more than others should wait for

    def go(self) -> bool:
        lane = self._lane
        if lane is None:
            lane = self._lane = self._turn.lane
        item = lane.now()
        try:
            if type(item) is bytes:  # nearly always
                return not self._live.add(item) or self._generation.tell()
            if item is None or item is NOTHING:
                return item is NOTHING
            blocks = encoded(item)
            if len(blocks) > _TURN:
                self._left = blocks
                return False
            return self._generation.add(blocks)
        except Exception as error:
            self._failure = error
            return False

    def until(self) -> float:
        until: float = self._turn.lane.gives_up_at
        return until

    def finish(self) -> bool:
        left, self._left = self._left, []
        if left:
            self._generation.add_in_turn(left)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return bool(left)


def _as_exception(error: BaseException) -> Exception:
    if isinstance(error, Exception):
        return error
    failure = FlaskStreamError(f"the answer ended with {type(error).__name__}")
    failure.__cause__ = error
    return failure
