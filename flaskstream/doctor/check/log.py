"""What the child writes down: one JSON object in a line, at once, so that all is there even if the child is killed."""

from __future__ import annotations

import json
import os
import time
from _thread import allocate_lock  # as it is before gevent patches
from typing import Any

from flaskstream.doctor.check.places import Place


class Log:
    """Writes to a pipe whose other end the parent reads.

    Args:
        descriptor: of the pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = allocate_lock()
        self._began = time.monotonic()

    def say(self, kind: str, **values: Any) -> None:
        """Write one line; a `Place` in it becomes file, line and function; `ms` is when, since the start."""
        at = (time.monotonic() - self._began) * 1000
        line = json.dumps({"kind": kind, "ms": round(at, 3), **values}, default=_as_json).encode() + b"\n"
        with self._lock:
            while line:
                line = line[os.write(self._descriptor, line) :]


def _as_json(value: Any) -> Any:
    return [value.file, value.line, value.function] if isinstance(value, Place) else repr(value)
