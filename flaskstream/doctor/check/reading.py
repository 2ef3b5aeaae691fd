"""How an upstream is read in this process: the usual ways of requests and the kit's own, tried at a paced upstream.

It is done in the child, behind whatever the app has imported and patched, as a view would do it. The upstream, which is
in the parent, tells who was prompt.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Mapping

from flaskstream.doctor.check.log import Log
from flaskstream.doctor.check.paced import FRAMINGS, PATIENCE_SECONDS
from flaskstream.doctor.check.rules_reading import OURS, PROMPT, WAYS

_ATTEMPTS = 3
"""What should be prompt is tried again before it is called slow: the machine may be busy."""

_DEADLINE_SECONDS = 5.0
"""Beyond all attempts: a library that has lost its end keeps nobody waiting."""


def try_readers(url: str, log: Log) -> None:
    """Read from the paced upstream in each way and framing, all at the same time; write down what they run on."""
    threads = [
        threading.Thread(target=_try, args=(way, framing, url, log), daemon=True)
        for way in WAYS
        for framing in FRAMINGS
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _DEADLINE_SECONDS
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    log.say("reader", versions=_versions(), flavours=_flavours())


def _try(way: str, framing: str, url: str, log: Log) -> None:
    attempts = _ATTEMPTS if (way, framing) in PROMPT else 1
    try:
        for _ in range(attempts):
            began = time.monotonic()
            _READERS[way](f"{url}/{way}/{framing}")
            if time.monotonic() - began < PATIENCE_SECONDS:
                return
    except Exception as error:
        log.say("not_read", way=way, framing=framing, error=f"{type(error).__name__}: {error}"[:200])


def _by_iter_content(url: str) -> None:
    _take_first(url, lambda response: response.iter_content(None))


def _by_iter_lines(url: str) -> None:
    _take_first(url, lambda response: response.iter_lines())


def _take_first(url: str, read: Callable[[Any], Any]) -> None:
    import requests

    with requests.Session() as session:
        session.trust_env = False  # the environment's proxy cannot reach this machine
        with session.get(url, stream=True, timeout=_DEADLINE_SECONDS) as response:
            next(read(response), None)


def _by_the_kit(url: str) -> None:
    from flaskstream.upstream import Upstream

    with Upstream(url, idle_timeout=_DEADLINE_SECONDS, retries=0).open("", {}) as answer:
        next(answer.chunks(), None)


_READERS: Mapping[str, Callable[[str], None]] = {
    "iter_content": _by_iter_content,
    "iter_lines": _by_iter_lines,
    OURS: _by_the_kit,
}


def _versions() -> dict[str, str]:
    import requests
    import urllib3

    return {"requests": requests.__version__, "urllib3": str(vars(urllib3)["__version__"])}


def _flavours() -> list[str]:
    """Return the packages that are installed beside urllib3 and are called so too: one may stand in its place."""
    import urllib3

    folder = os.path.dirname(os.path.dirname(os.path.abspath(urllib3.__file__)))
    names = (os.path.splitext(name) for name in sorted(os.listdir(folder)))
    return [name for name, end in names if end == ".dist-info" and name.startswith("urllib3")]
