"""Between the upstream and the wire: ask, follow the answer, ask again only while nothing of one has come."""

from __future__ import annotations

import functools
import json
import logging
import random
import time
from contextlib import closing
from dataclasses import replace
from typing import Any, Callable, Generator, Iterable, Iterator, Mapping, TypeVar

from flaskstream import interrupt
from flaskstream.dialects import OPENAI, Dialect, Reading
from flaskstream.errors import EventTooLarge, UpstreamError, UpstreamStatus, UpstreamTruncated
from flaskstream.relay.answers import batches, blocks, nothing, tokens
from flaskstream.relay.lane import Lane
from flaskstream.sse import MAX_EVENT_BYTES
from flaskstream.stats import STATS
from flaskstream.upstream import Upstream
from flaskstream.upstream.answer import Answer
from flaskstream.upstream.retries import wait_before_retry
from flaskstream.waiting import Turn
from flaskstream.wire import Block, PlainToken, TokenBlock

log = logging.getLogger(__name__)

TRAILING_SECONDS = 5.0
"""How long a whole answer is followed by silence before it ends without `[DONE]`: a usage chunk may still come, some
servers send nothing more, and some of these keep the connection open."""

Read = Callable[[Answer], Iterable[bytes]]
Headers = Mapping[str, str]
Item = TypeVar("Item")


def _to_the_end_of_the_body(chunks: Iterable[bytes], answer: Answer) -> Iterator[bytes]:
    """Yield the chunks of an answer without a terminal mark: it is whole if its body, and what is in it, tell so."""
    is_framed = answer.is_framed
    yield from chunks
    if not is_framed:
        raise UpstreamTruncated(
            "expected a framed body from an upstream without a terminal mark, got a connection's end"
        )
    if not answer.is_decoded:
        raise UpstreamTruncated("expected the end of what is compressed from the upstream, got that of its body")


def _before(deadlines: list[float], chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks until a deadline that may be set meanwhile: one that pings for ever has no other end."""
    for chunk in chunks:
        yield chunk
        if deadlines and time.monotonic() > deadlines[0]:
            return


class _Attempt:
    """Whether something of the answer has come: then no other is asked for, and all that is left is to read it."""

    def __init__(self, turn: Turn | None = None, lane: Lane | None = None) -> None:
        self.has_begun = False
        self.answer: Answer | None = None
        self._turn = turn
        self._lane = lane

    def begin(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            if self._turn is not None and self.answer is not None:
                self.answer.hand_over(self._turn, self._lane)


def _noting_the_begin(attempt: _Attempt, on_reading: Callable[[Reading], object]) -> Callable[[Reading], object]:
    def read(reading: Reading) -> None:
        if not attempt.has_begun and _is_said(reading):
            attempt.begin()
        on_reading(reading)

    return read


def _is_said(reading: Reading) -> bool:
    """Tell whether it says something; that an answer begins, as the first chunk of OpenAI's does, is not yet one."""
    return reading.is_answer and replace(reading, choices=()).is_answer


def _asked_choices(payload: Mapping[str, Any]) -> int:
    wanted = payload.get("n")
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > 1 else 1


class Relay:
    """Asks an upstream and hands its answer on.

    Args:
        upstream: whom to ask.
        dialect: what it speaks.
        read: how an answer is read; to be replaced by whoever wants to see what goes wrong otherwise.
    """

    def __init__(self, upstream: Upstream, dialect: Dialect = OPENAI, read: Read = Answer.chunks) -> None:
        self.upstream = upstream
        self.dialect = dialect
        self._read = read

    def speaking(self, dialect: Dialect) -> Relay:
        """Return a relay that asks the same upstream in this dialect; itself if it does, maybe in its own way."""
        return self if dialect.name == self.dialect.name else Relay(self.upstream, dialect, self._read)

    def tokens(
        self,
        payload: dict[str, Any],
        on_reading: Callable[[Reading], object] = nothing,
        on_head: Callable[[Headers], object] = nothing,
    ) -> Iterator[str]:
        """Ask, and yield the tokens. Nothing happens before the first one is asked for.

        Args:
            payload: `{"model": ..., "messages": [...]}` and whatever else the upstream understands.
            on_reading: called with what each event says, before its token: calls of tools and the usage are there.
            on_head: called with the headers that a client may have, before the first token.

        Raises:
            UpstreamError, EventTooLarge: see `flaskstream.relay.answers.tokens`, and `Upstream.open`.
        """
        attempt = _Attempt()
        follow = functools.partial(tokens, on_reading=_noting_the_begin(attempt, on_reading))
        asked = self._retried(lambda: self._streamed(follow, self.dialect.request(payload), attempt, on_head), attempt)
        yield from map(self.upstream.hide_key_in_text, asked)

    def batches(self, payload: dict[str, Any], turn: Turn | None = None) -> Iterator[list[str]]:
        """Ask, and yield the tokens that came together, in lists; an empty one says that nothing came.

        Args:
            payload: as for `tokens`, and so are the errors.
            turn: begun once the answer has: then all that is left is to read it.
        """
        lane = self._token_lane(turn)
        attempt = _Attempt(turn, lane)
        follow = functools.partial(batches, on_reading=_noting_the_begin(attempt, nothing), lane=lane)
        for batch in self._retried(
            lambda: self._streamed(follow, self.dialect.request(payload), attempt, nothing), attempt
        ):
            yield [self.upstream.hide_key_in_text(token) for token in batch]

    def blocks(
        self,
        payload: dict[str, Any],
        on_head: Callable[[Headers], object] = nothing,
        headers: Headers | None = None,
        turn: Turn | None = None,
    ) -> Iterator[Block]:
        """Ask, and yield the answer's own bytes; errors as for `tokens`.

        Args:
            payload: what is asked, in the upstream's own form.
            on_head: called with the headers that a client may have, before the first bytes.
            headers: sent with the request, in place of the dialect's.
            turn: begun once the answer has: then all that is left is to read it, and an empty block says that nothing
                came.
        """
        lane = self._block_lane()
        attempt = _Attempt(turn, lane)
        follow = functools.partial(blocks, lane=lane)
        for block in self._retried(lambda: self._streamed(follow, payload, attempt, on_head, headers), attempt):
            if block.is_answer and not attempt.has_begun:
                attempt.begin()
            yield self._without_key(block)

    def whole(self, payload: dict[str, Any], headers: Headers | None = None) -> tuple[bytes, Headers]:
        """Ask for an answer that does not stream; return its JSON object and the headers that a client may have.

        Args:
            payload, headers: as for `blocks`.

        Raises:
            UpstreamError: also when its body is none: nothing else tells a cut body that ends with its connection.
            EventTooLarge: it is larger than one event may be.
        """
        attempt = _Attempt()
        (answer,) = self._retried(lambda: iter([self._whole(payload, headers, attempt)]), attempt)
        return answer

    def _retried(self, ask: Callable[[], Iterator[Item]], attempt: _Attempt) -> Iterator[Item]:
        """Yield what is asked for; ask again after a failure, as long as no part of an answer has come."""
        failures = 0
        while True:
            try:
                yield from ask()
                return
            except UpstreamError as error:
                failures += 1
                wait = None if attempt.has_begun or failures > self.upstream.retries else _wait_after(error, failures)
                if wait is None:
                    raise
            interrupt.wait(wait)
            STATS.count("upstream_retries")

    def _streamed(
        self,
        follow: Callable[..., Generator[Item, None, None]],
        payload: dict[str, Any],
        attempt: _Attempt,
        on_head: Callable[[Headers], object],
        headers: Headers | None = None,
    ) -> Iterator[Item]:
        with self._open({**payload, "stream": True}, headers) as answer:
            attempt.answer = answer
            answer.expect_stream(*self.dialect.framing.types)
            on_head(answer.forwarded_headers)
            yield from self._followed(follow, answer, choices=_asked_choices(payload))

    def _whole(self, payload: dict[str, Any], headers: Headers | None, attempt: _Attempt) -> tuple[bytes, Headers]:
        with self._open(payload, headers) as answer:
            answer.expect_type("application/json")
            body = bytearray()
            for chunk in answer.chunks():
                attempt.begin()
                body += chunk
                if len(body) > MAX_EVENT_BYTES:
                    raise EventTooLarge(f"expected an answer of at most {MAX_EVENT_BYTES} bytes, got more")
        said = _json_object(body)
        if said is None:
            raise UpstreamTruncated(f"expected a whole JSON object from the upstream, got {len(body)} bytes of none")
        shown = self.upstream.hide_key(bytes(body))
        if said.get("error"):  # some gateways report every failure as a 200
            raise UpstreamStatus(502, shown, headers=answer.forwarded_headers)
        return shown, answer.forwarded_headers

    def _open(self, payload: dict[str, Any], headers: Headers | None) -> Answer:
        dialect = self.dialect
        return self.upstream.open(
            dialect.path, payload, headers={**dialect.headers, **(headers or {})}, key_header=dialect.key_header
        )

    def _followed(
        self, follow: Callable[..., Generator[Any, None, None]], answer: Answer, choices: int
    ) -> Iterator[Any]:
        deadlines: list[float] = []

        def wait_less() -> None:
            answer.wait_at_most(TRAILING_SECONDS)
            deadlines.append(time.monotonic() + TRAILING_SECONDS)

        chunks = _before(deadlines, self._read(answer))
        if self.dialect.ends_with_body:
            chunks = _to_the_end_of_the_body(chunks, answer)
        patience = self.upstream.content_timeout
        hide = self.upstream.hide_key_in_text
        followed = follow(chunks, self.dialect, wait_less, hide, content_timeout=patience, choices=choices)
        with closing(followed) as items:
            yield from items
        answer.drain()

    def _block_lane(self) -> Lane | None:
        def several(data: bytes, tokens: int) -> Block:
            return Block(self.upstream.hide_key(data), tokens)

        skimmer, secret = self.dialect.skimmer, self.upstream.secret
        return None if skimmer is None else Lane(skimmer, TokenBlock, secret=secret, several=several)

    def _token_lane(self, turn: Turn | None) -> Lane | None:
        skimmer, secret = self.dialect.skimmer, self.upstream.secret
        one = (None if turn is None else turn.of_text) or PlainToken
        return None if skimmer is None else Lane(skimmer, one, takes_text=True, secret=secret)

    def _without_key(self, block: Block) -> Block:
        hidden = self.upstream.hide_key(block)
        return block if hidden is block else Block(hidden, block.tokens, block.is_answer)


def _wait_after(error: UpstreamError, failures: int) -> float | None:
    """Return how long to wait before the request is sent again; `None`: it is not."""
    interrupt.check()  # a client that has gone breaks the connection in this way too
    wait = wait_before_retry(error, failures, time.time(), random.random())
    if wait is not None:
        log.warning("%s: %s: asked again in %.2f s", error.code, error, wait)
    return wait


def _json_object(body: bytearray) -> dict[str, Any] | None:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
