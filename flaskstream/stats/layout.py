"""What is counted, and where each number stands in a row of words. Pure."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Sequence

from flaskstream.errors import FlaskStreamError


def _codes(root: type[FlaskStreamError] = FlaskStreamError) -> list[str]:
    """Return the codes of the error tree, each once, in the order of the file."""
    found = [root.code]
    for child in root.__subclasses__():
        found += [code for code in _codes(child) if code not in found]
    return found


ENDS = ("done", "client_gone", "stopped", "restart", "reset", *_codes())
"""How a stream can have ended: as its report says, with the code in place of "error"."""

REFUSALS = (
    *("too_many_streams", "shutting_down", "forbidden", "body_too_large", "bad_request"),
    *("not_found", "key_reused", "store_unavailable"),
)
"""Why a request became no stream."""

PLAIN = ("events", "tokens", "bytes", "heartbeats", "upstream_retries", "produced", "resumed", "unrecorded")
"""The counters that are told as they are."""

BOUNDS_MS = tuple(round(0.25 * 2 ** (n / 4), 4) for n in range(85))
"""Upper bounds of the buckets of every histogram: from a quarter of a millisecond to nine minutes, four to the octave,
so a percentile is known to within a fifth."""


@dataclass(frozen=True)
class Histogram:
    """A histogram's place: its sum, in microseconds, then a count for each bound, and one for what is above all."""

    name: str
    start: int

    @property
    def end(self) -> int:
        return self.start + 2 + len(BOUNDS_MS)

    def buckets(self, milliseconds: Sequence[float]) -> list[tuple[int, int]]:
        """Return each word that counts some of these values, and how many of them it counts."""
        first, found = self.start + 1, [bisect.bisect_left(BOUNDS_MS, value) for value in milliseconds]
        return [(first + bucket, found.count(bucket)) for bucket in set(found)]


OPEN = 0
"""The one number that goes down again: how many streams are open."""

COUNTERS = {
    name: 1 + n
    for n, name in enumerate(
        (
            *PLAIN,
            "source_wait_us",
            "client_wait_us",
            *(f"ended:{end}" for end in ENDS),
            *(f"refused:{code}" for code in REFUSALS),
        )
    )
}
"""The place of each counter."""

FIRST_TOKEN = Histogram("first_token", start=1 + len(COUNTERS))
GAP = Histogram("gap", start=FIRST_TOKEN.end)
HISTOGRAMS = (FIRST_TOKEN, GAP)

WORDS = GAP.end
"""How many words a process needs."""
