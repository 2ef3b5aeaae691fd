"""Whether TLS works: who took hold of the unpatched `ssl`, and whether a context can be built. Nothing is connected."""

from __future__ import annotations

import sys
from typing import Any

from flaskstream.doctor.check.imports import ImportWatch
from flaskstream.doctor.check.log import Log


def look_at_tls(log: Log, watch: ImportWatch, is_loaded: bool) -> None:
    """Write down whether TLS contexts can be built, and which modules hold what gevent has replaced.

    Where the app was not loaded, perhaps since the config has refused to patch so late: those that would hold it.
    """
    holders = _holders(*_original_and_replaced()) if is_loaded else _holders(_current(), None)
    errors = [error for error in (_try_context(kind) for kind in _contexts(holders)) if error]
    log.say(
        "tls",
        error=errors[0] if errors else "",
        holders=[{"module": name, "chain": watch.chain(name)} for name in sorted(holders)],
    )


def _current() -> Any:
    return getattr(sys.modules.get("ssl"), "SSLContext", None)


def _original_and_replaced() -> tuple[Any, Any]:
    """Return the `SSLContext` that gevent has replaced, and what is there now; `None` twice, if it has not."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("ssl"):
        return None, None
    return monkey.get_original("ssl", "SSLContext"), _current()


def _holders(original: Any, replaced: Any) -> dict[str, type]:
    found: dict[str, type] = {}
    if original is None or original is replaced:
        return found
    for name, module in list(sys.modules.items()):
        if name == "ssl" or name.split(".")[0] == "gevent":
            continue
        for value in list(getattr(module, "__dict__", {}).values()):
            if isinstance(value, type) and _is_unpatched(value, original, replaced):
                found[name] = value
    return found


def _is_unpatched(value: type, original: type, replaced: type | None) -> bool:
    try:
        return issubclass(value, original) and not (replaced and issubclass(value, replaced))
    except TypeError:  # a class that does not let itself be asked
        return False


def _contexts(holders: dict[str, type]) -> list[Any]:
    import ssl

    def of_urllib3() -> Any:
        return sys.modules["urllib3.util.ssl_"].create_urllib3_context()

    of_holders = [_as_a_client_does(kind) for kind in {id(kind): kind for kind in holders.values()}.values()]
    return [ssl.create_default_context, *([of_urllib3] if "urllib3.util.ssl_" in sys.modules else []), *of_holders]


def _as_a_client_does(kind: Any) -> Any:
    def build() -> None:
        import ssl

        kind(ssl.PROTOCOL_TLS_CLIENT).minimum_version = ssl.TLSVersion.TLSv1_2

    return build


def _try_context(build: Any) -> str:
    try:
        build()
    except RecursionError:
        return "RecursionError"
    except Exception as error:
        return repr(error)
    return ""
