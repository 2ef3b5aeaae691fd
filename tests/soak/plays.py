"""What the upstreams of a soak do: a few hundred plays, made up once, and for each what its readers may see."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Callable

from answer_vectors import DONE, STOP, event, said
from raw_upstream import FINAL_CHUNK, FRAMINGS, Pause, RawUpstream, answer, chunk, head, polite_end

PLAYS_OF_A_KIND = 40
LONGEST_PAUSE_SECONDS = 0.05
PAUSES = 8
"""In one play, at most."""

WORDS = ("word ", "naïve ", "日本 ", "\u2028", '"', "data: ", "\\n", "😀", "[DONE]", "event: done ")
"""Also such as a careless reader mistakes for something else."""

OWN = "/soak/own"
OWN_WORDS = [f"{number} " for number in range(40)]
"""A route that asks no upstream, and what its generator says."""


@dataclass(frozen=True)
class Play:
    """What one model answers.

    Attributes:
        model: the name that is asked for.
        kind: one of `KINDS`, or that of `OWN_PLAY`.
        text: all that the upstream would say.
        is_whole: it says all of it, and that this is the end; `None`: which of the two is a matter of taste.
        status: of its answer; no 2xx, if there is no stream of events.
    """

    model: str
    kind: str
    text: str = ""
    is_whole: bool | None = False
    status: int = 200


OWN_PLAY = Play("", "own generator", "".join(OWN_WORDS), True)


@dataclass(frozen=True)
class _Answer:
    text: str
    data: bytes
    stop_begins: int
    stop_ends: int

    def is_whole_at(self, cut: int) -> bool | None:
        if self.stop_begins < cut < self.stop_ends:
            return None
        return cut >= self.stop_ends


def _made_up(rng: random.Random, words: int) -> _Answer:
    """An answer in any framing, the word that ends it, and where that stands."""
    texts = rng.choices(WORDS, k=words)
    framing = rng.choice(list(FRAMINGS))
    events = [*map(said, texts), STOP, DONE]
    data = answer(framing, *events)
    pieces = [chunk(piece) if framing == "chunked" else piece for piece in events]
    end = len(data) - (len(FINAL_CHUNK) if framing == "chunked" else 0)
    stop_ends = end - len(pieces[-1])
    return _Answer("".join(texts), data, stop_ends - len(pieces[-2]), stop_ends)


def _with_pauses(rng: random.Random, data: bytes) -> list[Any]:
    """Cut anywhere, also within a character or a chunk's length."""
    cuts = sorted(rng.sample(range(1, len(data)), min(rng.randint(0, PAUSES), len(data) - 1)) if data else [])
    steps: list[Any] = []
    for start, stop in zip([0, *cuts], [*cuts, len(data)]):
        steps += [Pause(rng.uniform(0, LONGEST_PAUSE_SECONDS)), data[start:stop]]
    return steps


def _whole(rng: random.Random, upstream: RawUpstream) -> Play:
    made = _made_up(rng, rng.randint(1, 60))
    model = upstream.plays(*_with_pauses(rng, made.data), end=polite_end(made.data))
    return Play(model, "whole", made.text, True)


def _long(rng: random.Random, upstream: RawUpstream) -> Play:
    """As fast as it is taken."""
    made = _made_up(rng, 5_000)
    return Play(upstream.plays(made.data, end=polite_end(made.data)), "long", made.text, True)


def _without_done(rng: random.Random, upstream: RawUpstream) -> Play:
    made = _made_up(rng, rng.randint(1, 20))
    cut = made.data[: made.stop_ends]
    if b"chunked" in made.data[:200]:
        cut += FINAL_CHUNK
    # A connection is not closed behind an end that keeps it: the next request would be lost on its way.
    return Play(upstream.plays(*_with_pauses(rng, cut), end=polite_end(cut)), "without_done", made.text, True)


def _cut(rng: random.Random, upstream: RawUpstream, end: str, kind: str) -> Play:
    made = _made_up(rng, rng.randint(1, 60))
    at = rng.randint(0, len(made.data) - 1)
    model = upstream.plays(*_with_pauses(rng, made.data[:at]), end=end)
    return Play(model, kind, made.text, made.is_whole_at(at))


def _closes(rng: random.Random, upstream: RawUpstream) -> Play:
    return _cut(rng, upstream, "fin", "closes")


def _resets(rng: random.Random, upstream: RawUpstream) -> Play:
    return _cut(rng, upstream, "reset", "resets")


def _stalls(rng: random.Random, upstream: RawUpstream) -> Play:
    return _cut(rng, upstream, "hold", "stalls")


def _refuses(rng: random.Random, upstream: RawUpstream) -> Play:
    status = rng.choice((400, 401, 404, 429, 500, 503))
    body = b'{"error": {"message": "no"}}' * rng.choice((1, 1, 2000))
    data = answer("length", body, status=status, content_type="application/json")
    return Play(upstream.plays(*_with_pauses(rng, data)), "refuses", status=status)


def _page(rng: random.Random, upstream: RawUpstream) -> Play:
    data = answer(rng.choice(list(FRAMINGS)), b"<html>data: [DONE]\n\n</html>", content_type="text/html")
    return Play(upstream.plays(data, end="fin"), "page", status=502)


def _reports_an_error(rng: random.Random, upstream: RawUpstream) -> Play:
    events = [*map(said, rng.choices(WORDS, k=3)), event({"error": {"message": "overloaded"}})]
    data = answer("chunked", *events)
    return Play(upstream.plays(*_with_pauses(rng, data)), "reports_an_error", "".join(WORDS), None)


def _rubbish(rng: random.Random, upstream: RawUpstream) -> Play:
    data = head(rng.choice(("chunked", "close"))) + bytes(rng.randrange(256) for _ in range(rng.randint(1, 3000)))
    return Play(upstream.plays(*_with_pauses(rng, data), end=rng.choice(("fin", "reset"))), "rubbish")


KINDS: dict[str, tuple[Callable[[random.Random, RawUpstream], Play], int]] = {
    "whole": (_whole, 12),
    "long": (_long, 1),
    "without_done": (_without_done, 1),
    "closes": (_closes, 3),
    "resets": (_resets, 3),
    "stalls": (_stalls, 2),
    "refuses": (_refuses, 2),
    "page": (_page, 1),
    "reports_an_error": (_reports_an_error, 1),
    "rubbish": (_rubbish, 1),
}
"""How each is made up, and how often it is asked for beside the others."""

FEW = 3
"""Of the long ones: each is half a megabyte."""


class Repertoire:
    """All plays of a soak. Raises nothing, and says nothing by itself.

    Args:
        rng: makes them up.
        upstream: plays them.
    """

    def __init__(self, rng: random.Random, upstream: RawUpstream) -> None:
        self._plays = {
            kind: [make(rng, upstream) for _ in range(FEW if kind == "long" else PLAYS_OF_A_KIND)]
            for kind, (make, _) in KINDS.items()
        }

    def choose(self, rng: random.Random) -> Play:
        (kind,) = rng.choices(list(KINDS), [weight for _, weight in KINDS.values()])
        return rng.choice(self._plays[kind])

    def one(self, kind: str) -> Play:
        return self._plays[kind][0]
