"""Stream model tokens from Flask to the browser one by one, under any WSGI server.

The public names load on first use, so that `import flaskstream` imports neither Flask nor
requests: gunicorn imports this package to read `flaskstream.gunicorn_conf`, and gevent must patch
the standard library before anything holds on to its unpatched `ssl`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flaskstream.blueprint import create_blueprint
    from flaskstream.response import event_stream
    from flaskstream.sse import Decoder, Event, encode
    from flaskstream.upstream import Upstream

__version__ = "0.1.0"

_HOME_OF = {
    "Decoder": "flaskstream.sse",
    "Event": "flaskstream.sse",
    "Upstream": "flaskstream.upstream",
    "create_blueprint": "flaskstream.blueprint",
    "encode": "flaskstream.sse",
    "event_stream": "flaskstream.response",
}

__all__ = ["Decoder", "Event", "Upstream", "create_blueprint", "encode", "event_stream"]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value
