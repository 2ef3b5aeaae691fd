"""The short way of a token: what is plainly that, and nothing else, needs no parser and no generators in between.

Nine in ten pieces of an answer are whole events with a token each. Whoever takes from the generator that reads it (see
`Turn`) looks here first. What is anything else is put back, and goes the long way: it alone knows how an answer ends.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Iterator, Protocol

from flaskstream.dialects.skimming import PLAIN, Skimmer, is_plain, is_plain_text, is_sound
from flaskstream.relay.follower import Follower
from flaskstream.signals import ENDED, NOTHING
from flaskstream.waiting import GoesBy, Turn
from flaskstream.wire import PlainToken, PlainTokens

_ESCAPABLE = (b'"', b"\\", b"/")


def _let_the_generator_say_it(data: bytes, tokens: int) -> Any:
    return None


class Reader(Protocol):
    """What reads the body."""

    gives_up_at: float
    """When its silence will have lasted too long, in seconds of the monotonic clock."""

    def read(self, express: GoesBy | None = None) -> bytes | None:
        """Return what came; b"" at the end; `None`: nothing while it was the turn of whoever takes."""
        ...

    def read_now(self) -> bytes | None:
        """Return what has come, in the hub: b"" if it is nothing yet; `None`: it takes a `read` to tell."""
        ...

    def put_back(self, what: bytes | Exception) -> None:
        """Have the next read return, or raise, this."""
        ...

    def listen_anew(self) -> None:
        """Have the time until now be no silence: nobody has listened."""
        ...


class Lane:
    """The short way of one answer.

    Args:
        skimmer: tells what is plainly a token.
        one: makes what stands for one token, given its event or its text.
        takes_text: it is given the text, as JSON writes it; of several tokens `PlainTokens` are made.
        secret: that no answer may hold: what does goes the long way.
        several: makes what stands for these bytes, with so many tokens in them; `None`: let the generator say it.
    """

    __slots__ = (
        *("_skimmer", "_one", "_takes_text", "_secret", "_several", "_before", "_behind", "_start", "_end", "_least"),
        *("reader", "_turn", "_follower", "_buffer", "_is_clear", "_escapes"),
    )

    def __init__(
        self,
        skimmer: Skimmer,
        one: Callable[[bytes], Any],
        takes_text: bool = False,
        secret: bytes = b"",
        several: Callable[[bytes, int], Any] = _let_the_generator_say_it,
    ) -> None:
        self._skimmer = skimmer
        self._one = one
        self._takes_text = takes_text
        self._secret = secret
        self._escapes = tuple(b"\\" + letter for letter in _ESCAPABLE if letter in secret)  # in which it could hide
        self._several = several
        self.reader: Any = None  # a Reader, once there is a body
        self._turn: Turn | None = None
        self._follower: Follower | None = None
        self._buffer: bytearray | None = None
        self._is_clear = False
        self._before = self._behind = b""
        self._start = self._end = 0
        self._least = sys.maxsize  # nothing was seen yet that others could be like

    def follow(self, follower: Follower, buffer: bytearray | None = None) -> None:
        """Say who goes the long way.

        Args:
            follower: which knows whether something is unfinished.
            buffer: what is held of an event.
        """
        self._follower, self._buffer = follower, buffer

    def begin(self, reader: Reader, turn: Turn) -> None:
        """Say who reads the body, and in whose turn."""
        self.reader, self._turn = reader, turn

    def take(self, items: Iterator[Any]) -> Any:
        """Return the next item, of whichever way, or `ENDED`.

        Args:
            items: of the long way.
        """
        if not self._is_clear or self._turn is None:
            return self._take_the_long_way(items)
        reader, express = self.reader, self._turn.express
        failure: Exception | None = None
        data = None
        try:
            data = reader.read(express)
        except Exception as error:
            failure = error
        if express is not None and express.finish():
            reader.listen_anew()
        if failure is not None:
            reader.put_back(failure)
            return self._take_the_long_way(items)
        if data is None:
            return None
        item = self.look(data)
        if item is None:
            reader.put_back(data)
            return self._take_the_long_way(items)
        return item

    def now(self) -> Any:
        """Return the item that has come, without waiting, or `NOTHING`; `None`: it takes `take` to tell."""
        data = self.reader.read_now()
        if not data:
            return None if data is None else NOTHING
        item = self.look(data)
        if item is None:
            self.reader.put_back(data)
        return item

    @property
    def gives_up_at(self) -> float:
        """When the upstream will have been silent for too long, in seconds of the monotonic clock."""
        return self.reader.gives_up_at  # type: ignore[no-any-return]

    def look(self, data: bytes) -> Any:
        """Return the item that these bytes are; `None`: it takes the long way to tell."""
        if not (data.endswith(self._behind) and data.startswith(self._before) and len(data) > self._least):
            return self._skim(data)
        secret, end = self._secret, len(data) - self._end
        if secret and secret in data:
            return None
        text = data[self._start : end]
        if not text.translate(None, PLAIN) or (is_plain(text) and not self._hides_in(text)):
            return self._one(text if self._takes_text else data)
        return self._by_mould(data, text)

    def _by_mould(self, data: bytes, text: bytes) -> Any:
        if is_plain_text(text):
            return self._one(text if self._takes_text else data)
        tokens = self._cut(data)
        if tokens:
            return PlainTokens(tokens) if self._takes_text else self._several(data, len(tokens))
        return self._skim(data)

    def _cut(self, data: bytes) -> list[PlainToken]:
        """Return the texts of tokens that came together; none: something else is among them."""
        texts = []
        for event in data.split(self._behind)[:-1]:
            text = event[self._start :]
            is_usual = (is_plain(text) and not self._hides_in(text)) or is_plain_text(text)
            if not text or not event.startswith(self._before) or not is_usual:
                return []
            texts.append(PlainToken(text))
        return texts

    def _skim(self, data: bytes) -> Any:
        count = self._skimmer.count(data)
        if not count:
            return None
        known = (self._before, self._behind)
        self._take_mould(data)
        if not self._takes_text:
            return self._several(data, count)
        return self.look(data) if known != (self._before, self._behind) else None

    def _hides_in(self, text: bytes) -> bool:
        """Tell whether letters of the secret may be written otherwise here."""
        return any(escape in text for escape in self._escapes)

    def _take_mould(self, data: bytes) -> None:
        """Learn from the first of these tokens what the others look like."""
        event = data[: data.index(b"\n\n") + 2]
        before, behind = self._skimmer.mould(event)
        if not is_sound(event) or (self._secret and b"\\" in before + behind):
            return
        self._before, self._behind = before, behind
        self._start, self._end = len(self._before), len(self._behind)
        self._least = self._start + self._end

    def _take_the_long_way(self, items: Iterator[Any]) -> Any:
        self._is_clear = False
        item = next(items, ENDED)
        is_between = self._follower is not None and not self._buffer and self._follower.is_between_tokens
        self._is_clear = is_between and self.reader is not None
        return item
