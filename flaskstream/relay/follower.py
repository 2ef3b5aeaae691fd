"""Follow one answer event by event, and know whether it has been told its end. Pure."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Callable

from flaskstream.dialects import Dialect, Reading
from flaskstream.sse import Event

log = logging.getLogger(__name__)

_MAX_WARNINGS = 3  # for one answer: a page of HTML has many lines, and they say the same
_TOKEN = [Reading(text="...", choices=(0,))]
_EXCERPT = 80  # characters: enough to recognise what came


class Follower:
    """Reads an answer event by event, and knows whether it has been told its end.

    Args:
        dialect: tells what an event means.
        hide: makes secrets in the upstream's text unreadable, before any of it goes to the log.
        choices: how many answers were asked for: as many have to be whole.

    Attributes:
        is_over: nothing follows: there is no need to wait for the connection to end.
        tail: after `close()`: the last event, whole and written anew, if only its blank line was left out.
        has_skimmed: what was read last was whole events, each a token, and their text was not looked at.
    """

    def __init__(self, dialect: Dialect, hide: Callable[[str], str] = str, choices: int = 1) -> None:
        self._dialect = dialect
        self._choices = choices
        self._hide = hide
        self._decoder = dialect.framing.decoder(self._warn_of_line)
        self._warnings = 0
        self._begun: set[int] = set()
        self._finished: set[int] = set()
        self._failed = False
        self._body_ended = False
        self.is_over = False
        self.tail = b""
        self.has_skimmed = False

    @property
    def is_whole(self) -> bool:
        """The upstream said that the answer is complete, or that it failed: no token is missing unmentioned."""
        all_finished = len(self._finished) >= self._choices and self._begun <= self._finished
        return self.is_over or self._failed or self._body_ended or all_finished

    @property
    def is_between_tokens(self) -> bool:
        """Its only answer has begun, nothing of it is held, and it goes on."""
        return self._begun == {0} and self._choices == 1 and not self.is_whole and not self._decoder.is_inside

    def feed(self, data: bytes) -> list[Reading]:
        """Return what these bytes say. Raises `EventTooLarge`."""
        return self._read_all(self._decoder.feed(data))

    def skim_or_feed(self, data: bytes) -> list[Reading]:
        """Do as `feed` does, for who wants to know what there is and not what it says: most tokens need no parsing."""
        skimmer = self._dialect.skimmer
        count = 0 if skimmer is None or self._decoder.is_inside else skimmer.count(data)
        self.has_skimmed = count > 0
        if not count:
            return self.feed(data)
        self._begun.add(0)
        return _TOKEN * count

    def close(self, is_proper: bool = True) -> list[Reading]:
        """Return what was left to say at the end of the bytes.

        Args:
            is_proper: the body has told its end by its framing: in some dialects nothing else tells that of the answer.

        Raises:
            EventTooLarge: an event had no end.
        """
        if self.is_over:
            return []
        events = self._decoder.close()
        self._body_ended = self._dialect.ends_with_body and is_proper and not self._decoder.truncated
        self.tail = b"".join(map(self._dialect.framing.encode, events))
        return self._read_all(events)

    def _read_all(self, events: list[Event]) -> list[Reading]:
        readings = []
        for event in events:
            if not self.is_over:
                readings.append(self._read(event))
        return readings

    def _read(self, event: Event) -> Reading:
        reading = self._dialect.read(event)
        if reading.malformed:
            self._warn(f"an event of the dialect {self._dialect.name}", event.data)
        if reading.error is not None:
            reading = replace(reading, error=self._excerpt(reading.error))
        self._begun.update(reading.choices)
        self._finished.update(reading.finished)
        self._failed = self._failed or reading.error is not None
        self.is_over = self.is_over or reading.last
        return reading

    def _warn_of_line(self, line: str) -> None:
        self._warn("a line of an event stream", line)

    def _warn(self, expected: str, got: str) -> None:
        self._warnings += 1
        if self._warnings <= _MAX_WARNINGS:
            log.warning("expected %s from the upstream, got %r: it was left out", expected, self._excerpt(got))

    def _excerpt(self, text: str) -> str:
        return self._hide(text)[:_EXCERPT]
