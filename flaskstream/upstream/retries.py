"""Whether a request may be asked again that has failed, and after how long. Pure.

Only as long as nothing of an answer has gone out: after that a second one would be paid for, and be glued to the first.
"""

from __future__ import annotations

from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import Mapping

from flaskstream.errors import UpstreamError, UpstreamRefused, UpstreamStatus, UpstreamTruncated

PASSING_STATUSES = frozenset({408, 425, 429, 502, 503, 504, 529})
"""What passes by itself; 529 is Anthropic's "overloaded". A 500 is not among them: mostly the next one is as well."""

FIRST_WAIT_SECONDS = 0.25
LONGEST_WAIT_SECONDS = 3.0
"""Within the default `status_grace`, in which a failure is still a real status. Who is told to wait for longer passes
that on to its client, with the `Retry-After`."""


def wait_before_retry(error: UpstreamError, failures: int, now: float, chance: float) -> float | None:
    """Return after how many seconds to ask again; `None`: do not.

    Args:
        error: the failure, before anything of an answer came.
        failures: how many there have been, this one included.
        now: seconds since 1970, for a `Retry-After` that is a date.
        chance: from 0 to 1, another one each time: those who failed together do not come back together.
    """
    wait = min(FIRST_WAIT_SECONDS * 2.0 ** (failures - 1), LONGEST_WAIT_SECONDS) * (0.5 + chance / 2)
    if isinstance(error, UpstreamStatus):
        if error.status not in PASSING_STATUSES:
            return None
        told = _told(error.headers, now)
        if told is None:
            return wait
        return max(told + chance * FIRST_WAIT_SECONDS, wait) if told <= LONGEST_WAIT_SECONDS else None
    # Else it is an answer that is none; or a timeout, which has used up the client's patience.
    return wait if isinstance(error, (UpstreamRefused, UpstreamTruncated)) else None


def _told(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds of a `Retry-After` (RFC 9110 10.2.3), which is a number or a date; `None`: there is none."""
    value = {name.lower(): value for name, value in headers.items()}.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        date = parsedate_to_datetime(value)
        return max(0.0, (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp() - now)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
