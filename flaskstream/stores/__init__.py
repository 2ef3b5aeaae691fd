"""Where streams are kept, so that they survive the connection of whoever reads them: `open_store` makes one."""

from __future__ import annotations

from flaskstream.errors import InvalidSetting
from flaskstream.stores.protocol import Store
from flaskstream.stores.urls import without_secrets

FORMS = "memory:, sqlite:PATH or redis://HOST:PORT/DB"


def open_store(url: str) -> Store:
    """Return the store that a URL names: `memory:`, `sqlite:PATH` or `redis://HOST:PORT/DB`. It connects when needed.

    Raises:
        InvalidSetting: there is no such store, or a package that it needs is missing.
    """
    kind, colon, rest = url.partition(":") if isinstance(url, str) else ("", "", "")
    if not colon:
        raise InvalidSetting(f"store: expected {FORMS}, got {url!r:.80}")
    if kind == "memory" and not rest:
        from flaskstream.stores.memory import MemoryStore

        return MemoryStore()
    if kind == "sqlite":
        from flaskstream.stores.sqlite import SQLiteStore

        return SQLiteStore(rest)
    if kind in ("redis", "rediss", "unix"):
        from flaskstream.stores.redis import RedisStore

        return RedisStore(url)
    raise InvalidSetting(f"store: expected {FORMS}, got {without_secrets(str(url))!r:.80}")
