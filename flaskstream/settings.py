"""Read the `FLASKSTREAM_` environment, once and in one place, for `wsgi.py` and `gunicorn.conf.py`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Callable, Collection, Mapping
from urllib.parse import urlsplit

from flaskstream.errors import InvalidSetting

PREFIX = "FLASKSTREAM_"
EMBEDDED_MODEL_URL = "FLASKSTREAM_EMBEDDED_MODEL_URL"
"""Set beside `FLASKSTREAM_UPSTREAM` where that is the embedded model; no setting."""

_KUBERNETES = re.compile(PREFIX + "(SERVICE_|PORT)")
"""What Kubernetes sets in every container beside a service that is called flaskstream."""

DEFAULT_STORE = "sqlite:"
"""A file in a place of this user's own, for all workers of this machine."""

MAX_SECONDS = 86_400.0
"""No wait is longer than a day: it would be a slip of the unit."""


@dataclass(frozen=True)
class Settings:
    """What the environment says; every time is in seconds.

    Attributes:
        mode: "fixed", or "broken" for the sync worker and the faults; naming a fault means "broken" too.
        faults: names of the faults that are switched on. None named in the broken mode: the usual ones.
        upstream: base URL of an OpenAI-compatible API, such as `https://api.openai.com/v1`; `None`: the embedded model.
        api_key: sent to the upstream as a bearer token.
        store: where the answers of `/chat` are kept, a URL for `flaskstream.stores.open_store`; `None`: nowhere.
        orphan_timeout: after which an answer in the store that nobody follows is stopped; 0: never.
        model: the `model` that `/chat` asks for; `None`: it names none.
        heartbeat: a comment after this long without an event; 0: none.
        status_grace: how long an early failure may still become a real HTTP status; 0: the 200 goes out at once.
        idle_timeout: how long the upstream may say nothing.
        max_duration: after which a stream is ended; 0: never.
        max_streams: that may be open in one worker; `None`: any number.
        debug_print: print a line for each event.
    """

    mode: str = "fixed"
    faults: tuple[str, ...] = ()
    upstream: str | None = None
    api_key: str | None = field(default=None, repr=False)
    store: str | None = DEFAULT_STORE
    orphan_timeout: float = 120.0
    model: str | None = None
    heartbeat: float = 15.0
    status_grace: float = 5.0
    idle_timeout: float = 60.0
    max_duration: float = 0.0
    max_streams: int | None = None
    debug_print: bool = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Return the settings of this environment.

        Raises:
            InvalidSetting: a value that does not work, or a variable with this prefix that nothing reads.
        """
        environ = os.environ if environ is None else environ
        values: dict[str, object] = {}
        for variable, raw in environ.items():
            if not variable.startswith(PREFIX) or variable == EMBEDDED_MODEL_URL or _KUBERNETES.match(variable):
                continue
            name = variable[len(PREFIX) :].lower()
            if name not in _READERS:
                known = ", ".join(PREFIX + name.upper() for name in _READERS)
                raise InvalidSetting(f"{variable}: nothing reads this variable; there are {known}")
            if name in _MAY_BE_EMPTY or raw.strip():
                values[name] = _READERS[name](variable, raw.strip())
        if values.get("faults") and values.setdefault("mode", "broken") == "fixed":
            raise InvalidSetting(f"{PREFIX}FAULTS: expected none in the fixed mode, got {values['faults']!r}")
        return cls(**values)  # type: ignore[arg-type]


OF_THE_DEMONSTRATION = (
    *("heartbeat", "status_grace", "idle_timeout", "max_duration", "max_streams", "orphan_timeout", "debug_print"),
)
"""What the blueprint takes as arguments, and no app of one's own is likely to read from this environment."""


def unread(modules: Collection[str], environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the variables that only the app of `wsgi.py` reads, where that is not among the modules of a process."""
    environ = os.environ if environ is None else environ
    variables = [PREFIX + name.upper() for name in OF_THE_DEMONSTRATION]
    return [] if "flaskstream.app" in modules else [name for name in variables if environ.get(name, "").strip()]


def _text(variable: str, raw: str) -> str:
    return raw


def _names(variable: str, raw: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in raw.split(",") if name.strip())


def _mode(variable: str, raw: str) -> str:
    if raw not in ("fixed", "broken"):
        raise InvalidSetting(f'{variable}: expected "fixed" or "broken", got {raw!r}')
    return raw


def checked_url(variable: str, raw: str) -> str:
    """Return the URL as it is. Raises `InvalidSetting`: it is none that can be asked."""
    try:
        parts = urlsplit(raw)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or half an IPv6 address
        is_url = False
    if not is_url:
        shown = "one with a password in it" if "@" in raw else repr(raw)
        raise InvalidSetting(f"{variable}: expected a URL such as https://api.example.com/v1, got {shown}")
    return raw


def _key(variable: str, raw: str) -> str:
    if not (raw.isascii() and raw.isprintable()):
        raise InvalidSetting(f"{variable}: expected printable ASCII, got something else (it is not repeated here)")
    return raw


def _seconds(variable: str, raw: str) -> float:
    try:
        seconds = float(raw)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_SECONDS:
        raise InvalidSetting(f"{variable}: expected seconds from 0 to {MAX_SECONDS:g}, got {raw!r}")
    return seconds


def _count(variable: str, raw: str) -> int:
    if not (raw.isascii() and raw.isdecimal() and int(raw[:9]) >= 1 and len(raw) < 9):
        raise InvalidSetting(f"{variable}: expected a number from 1 on, got {raw!r}")
    return int(raw)


def _flag(variable: str, raw: str) -> bool:
    if raw not in ("0", "1"):
        raise InvalidSetting(f"{variable}: expected 0 or 1, got {raw!r}")
    return raw == "1"


def _store(variable: str, raw: str) -> str | None:
    return raw or None  # set but empty: none


_MAY_BE_EMPTY = ("store",)


_READERS: dict[str, Callable[[str, str], object]] = {
    "mode": _mode,
    "faults": _names,
    "upstream": checked_url,
    "api_key": _key,
    "model": _text,
    "heartbeat": _seconds,
    "status_grace": _seconds,
    "idle_timeout": _seconds,
    "max_duration": _seconds,
    "max_streams": _count,
    "debug_print": _flag,
    "store": _store,
    "orphan_timeout": _seconds,
}
