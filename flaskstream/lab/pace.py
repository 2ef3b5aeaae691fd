"""What counts as a token, and when each one was there: pure.

A client sees pieces of text, and a piece may hold one token or many: that is what a comparison is about.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from itertools import accumulate
from typing import Sequence, Tuple

Pieces = Sequence[Tuple[float, int]]
"""Of one answer: when each piece of text came, in seconds, and how long it was, in characters."""


@dataclass(frozen=True)
class ToldPace:
    """The pace of a model that was told what to say.

    Args:
        tokens: their texts.
        interval: seconds between two of them.
    """

    tokens: tuple[str, ...]
    interval: float

    def arrivals(self, pieces: Pieces) -> tuple[float, ...]:
        """Return when each token was whole: the time of the piece with which the text reached the token's end."""
        ends = list(accumulate(map(len, self.tokens)))
        found: list[float] = []
        for (at, _), length in zip(pieces, accumulate(length for _, length in pieces)):
            while len(found) < len(ends) and ends[len(found)] <= length:
                found.append(at)
        return tuple(found)

    def count(self, whole_answers: Sequence[Pieces]) -> int:
        """Return how many tokens an answer has to have."""
        return len(self.tokens)


@dataclass(frozen=True)
class SeenPace:
    """The pace of a model that says what it likes, as the clients of the fixed mode saw it.

    Args:
        mean: how long a piece was on average, in characters.
        longest: how long the longest was: what is longer holds several tokens.
        interval: seconds between two pieces.
    """

    mean: float
    longest: int
    interval: float

    @classmethod
    def of(cls, answers: Sequence[Pieces]) -> SeenPace:
        """Take it from the answers of the fixed mode, in which each piece is a token."""
        lengths = [length for pieces in answers for _, length in pieces] or [1]
        spans = [(pieces[-1][0] - pieces[0][0]) / (len(pieces) - 1) for pieces in answers if len(pieces) > 1]
        return cls(statistics.mean(lengths), max(lengths), statistics.median(spans or [0.0]))

    def arrivals(self, pieces: Pieces) -> tuple[float, ...]:
        """Return when each token was there."""
        return tuple(at for at, length in pieces for _ in range(self._tokens_in(length)))

    def _tokens_in(self, length: int) -> int:
        return 1 if length <= self.longest else round(length / self.mean)

    def count(self, whole_answers: Sequence[Pieces]) -> int:
        """Return how many tokens an answer has to have: as many as the shortest, for no two are alike; at least one."""
        return min((len(self.arrivals(pieces)) for pieces in whole_answers if pieces), default=1)
