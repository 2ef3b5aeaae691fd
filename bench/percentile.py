"""The one way in which all of the bench takes a percentile."""

from __future__ import annotations

import math
from typing import Sequence, TypeVar

Number = TypeVar("Number", int, float)


def percentile(ordered: Sequence[Number], share: float) -> Number:
    """Return the smallest value that this share of them does not exceed."""
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]
