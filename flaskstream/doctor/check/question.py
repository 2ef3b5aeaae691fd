"""What is asked: which app, how it is loaded, which request it gets, and how much of the answer is read."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Tuple

from flaskstream.errors import InvalidSetting

Headers = Tuple[Tuple[str, str], ...]

GUNICORN, FLASK = "gunicorn", "flask"
"""How the target is named: as gunicorn's `module:app`, or as the FLASK_APP of the `flask` command."""

NO_CONFIG = "none"
"""As the config: no gunicorn, and nothing is patched."""

BROWSER_CODINGS = "gzip, deflate, br, zstd"
"""What browsers offer. A compressor in the app shows only to who offers something."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.6.2
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # RFC 9110 5.5


@dataclass(frozen=True)
class Question:
    """One check.

    Args:
        target: the app; `module:app`, or `module:factory()`.
        path: with its query, percent-encoded; empty: the app is loaded and looked at, and no view is run.
        config: for gunicorn; empty: `./gunicorn.conf.py` if there is one, as gunicorn does, else that of the kit.
        loader: `GUNICORN` or `FLASK`.
        method: of the request.
        headers: of the request; without an `Accept-Encoding` a browser's is sent.
        body: of the request.
        pieces: after so many the view's iterator is not asked for more.
        seconds: the same for time.
        load_seconds: how long the app may take to load.
        reads_from: the URL of a `PacedUpstream`, at which the HTTP client library is tried; empty: it is not.

    Raises:
        InvalidSetting: it cannot be asked; says what was expected and what came.
    """

    target: str
    path: str = ""
    config: str = ""
    loader: str = GUNICORN
    method: str = "GET"
    headers: Headers = ()
    body: bytes = b""
    pieces: int = 12
    seconds: float = 10.0
    load_seconds: float = 30.0
    reads_from: str = ""

    def __post_init__(self) -> None:
        if self.path and not re.fullmatch(r"/[!-~]*", self.path):
            raise InvalidSetting(f"PATH: expected something like /stream/chat?q=hello, got {self.path!r}")
        if self.loader == GUNICORN and not re.fullmatch(r"[\w.]+(:.+)?", self.target):
            raise InvalidSetting(f"the app: expected module:app, got {self.target!r}")
        if not _TOKEN.fullmatch(self.method):
            raise InvalidSetting(f"the method: expected a name like GET, got {self.method!r}")
        for name, value in self.headers:
            if not (_TOKEN.fullmatch(name) and _VALUE.fullmatch(value)):
                raise InvalidSetting(f"a header: expected 'Name: value' in latin-1, got {name!r}: {value!r:.80}")
        if not 4 <= self.pieces <= 1000:
            raise InvalidSetting(f"the pieces: expected 4 to 1000, got {self.pieces}")
        if not 0.1 <= self.seconds <= 600:
            raise InvalidSetting(f"the seconds: expected 0.1 to 600, got {self.seconds:g}")
        if not 0.1 <= self.load_seconds <= 3600:
            raise InvalidSetting(f"the seconds to load: expected 0.1 to 3600, got {self.load_seconds:g}")

    @property
    def codings(self) -> str | None:
        """The request's own `Accept-Encoding`, or `None`."""
        return next((value for name, value in self.headers if name.lower() == "accept-encoding"), None)

    def to_json(self) -> str:
        """Return it as one line."""
        return json.dumps({**asdict(self), "body": base64.b64encode(self.body).decode()})

    @classmethod
    def from_json(cls, line: str) -> Question:
        """Read what `to_json` wrote."""
        values: dict[str, Any] = json.loads(line)
        values["body"] = base64.b64decode(values["body"])
        values["headers"] = tuple((name, value) for name, value in values["headers"])
        return cls(**values)
