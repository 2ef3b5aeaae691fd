"""The connections to Redis: what the URL says, a bounded pool for each process, and one kind of error."""

from __future__ import annotations

import hashlib
import os
import socket
from typing import Any, Callable, Mapping
from urllib.parse import parse_qsl, urlencode

from flaskstream.errors import InvalidSetting, StoreUnavailable
from flaskstream.stores.redis.connections import Connections
from flaskstream.stores.redis.scripts import SCRIPTS
from flaskstream.stores.urls import without_secrets

PREFIX = "flaskstream:"
DEFAULTS: Mapping[str, Any] = {
    "socket_connect_timeout": 2.0,  # seconds; a Redis that takes longer is as good as gone for a live stream
    "socket_timeout": 2.0,
    "timeout": 2.0,  # seconds for which one waits for a connection, while all of them are in use
    "max_connections": 32,
}
"""Where the URL says nothing else."""
KEEPALIVE: Mapping[str, Any] = {
    "socket_keepalive": True,
    "socket_keepalive_options": {
        getattr(socket, name): value
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)
    },
}
"""Over TCP: a connection that a firewall has forgotten is found by the kernel, and not by the next who asks."""
FORCED: Mapping[str, Any] = {"decode_responses": False, "protocol": 2}
"""What the URL has no say in: records are bytes; and the older protocol, which each Redis and Valkey speaks, has no
greeting that a server could quote back with the password in it."""
_SCRIPTS = {name: (text, hashlib.sha1(text.encode()).hexdigest()) for name, text in SCRIPTS.items()}
"""Each with the name that Redis gives it."""


def redis_package() -> Any:
    """Return the `redis` package.

    Raises:
        InvalidSetting: it is not installed.
    """
    try:
        import redis.connection
        import redis.exceptions
    except ImportError:
        raise InvalidSetting(
            "store: a redis:// store needs the package `redis`: pip install flaskstream[redis]"
        ) from None
    return redis


class Link:
    """How this store reaches its Redis. Each process has its own connections, made when it first asks.

    Args:
        url: as `redis.Redis.from_url` takes it: `redis://`, `rediss://` or `unix://`, with the options of redis-py as
            parameters; and `prefix`, of all keys and channels.

    Attributes:
        prefix: of all keys and channels.
        shown: the URL for logs, without its secrets.
        timeout: seconds that one answer may take.

    Raises:
        InvalidSetting: the URL does not say what redis-py understands, or the package is missing.
    """

    def __init__(self, url: str) -> None:
        self._redis = redis_package()
        self.errors = (self._redis.exceptions.RedisError, OSError)
        self.shown = without_secrets(url)
        self.prefix, rest = _split_prefix(url)
        try:
            asked = self._redis.connection.parse_url(rest)
            self._options = {**DEFAULTS, **({} if "path" in asked else KEEPALIVE), **asked, **FORCED}
            self._class = self._options.pop("connection_class", self._redis.connection.Connection)
            self._patience = float(self._options.pop("timeout"))
            self._most = max(1, int(self._options.pop("max_connections")))
            self.timeout = float(self._options["socket_timeout"])
            self.connection()  # it refuses what it does not know
        except (ValueError, TypeError, AttributeError, *self.errors):  # what it says may quote a password
            raise InvalidSetting(f"store: redis-py does not understand the URL {self.shown!r}") from None
        self._connections: dict[int, Connections] = {}

    def ask(self, script: str, *arguments: Any) -> Any:
        """Run one of `SCRIPTS` with the prefix and these arguments; return what it returns.

        Raises:
            StoreUnavailable: there was no answer in time, or Redis refused.
        """
        text, digest = _SCRIPTS[script]
        keys_and_arguments = (0, self.prefix, *map(_plain, arguments))

        def question(connection: Any) -> Any:
            try:
                return _answer(connection, "EVALSHA", digest, *keys_and_arguments)
            except self._redis.exceptions.NoScriptError:  # Redis is new, or was told to forget them
                return _answer(connection, "EVAL", text, *keys_and_arguments)

        return self._ask(question)

    def members(self, key: str) -> Any:
        """Return what is in a set."""
        return self._ask(lambda connection: _answer(connection, "SMEMBERS", self.prefix + key))

    def connection(self) -> Any:
        """Return a connection of the caller's own, which is not connected yet."""
        # Whoever asks knows better when to ask again: a store that retries in silence is a slow one.
        no_retry = self._redis.retry.Retry(self._redis.backoff.NoBackoff(), 0)
        return self._class(retry=no_retry, **self._options)

    def close(self) -> None:
        """Close this process's connections."""
        connections = self._connections.pop(os.getpid(), None)
        if connections is not None:
            connections.close()

    def in_words(self, error: BaseException) -> str:
        """Say what went wrong, without the secrets: some servers quote the command that they refuse."""
        text = f"the store {self.shown}: {type(error).__name__}: {error}"
        for name in ("password", "username"):
            secret = str(self._options.get(name) or "")
            text = text.replace(secret, "***") if secret else text
        return text

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        try:
            with self._here().one() as connection:
                return question(connection)
        except self.errors as error:
            said = self.in_words(error)
        raise StoreUnavailable(said)  # outside of the handler: its traceback would quote what is not to be seen

    def _here(self) -> Connections:
        pid = os.getpid()
        return self._connections.get(pid) or self._connections.setdefault(pid, self._new_connections())

    def _new_connections(self) -> Connections:
        refusals = self._redis.exceptions.ResponseError
        return Connections(self.connection, self._most, self._patience, self.errors, refusals)


def _answer(connection: Any, *command: Any) -> Any:
    connection.send_command(*command)
    return connection.read_response()


def _split_prefix(url: str) -> tuple[str, str]:
    """The prefix that the URL names, and the URL without it."""
    start, _, query = url.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    prefixes = [value for name, value in options if name == "prefix"]
    rest = urlencode([(name, value) for name, value in options if name != "prefix"])
    return (prefixes[-1] if prefixes else PREFIX), (f"{start}?{rest}" if rest else start)


def _plain(value: Any) -> Any:
    """An id may come from a client, with half a character in it."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
