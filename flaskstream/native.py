"""What gevent has replaced, as it was: for the few waits that must not go through its hub."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def is_patched() -> bool:
    """Tell whether threads are greenlets in this process."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def original(module: str, name: str) -> Any:
    """Return an attribute of a module of the standard library as it was before gevent patched it."""
    if "gevent.monkey" in sys.modules:
        from gevent.monkey import get_original

        return get_original(module, name)
    return getattr(importlib.import_module(module), name)
