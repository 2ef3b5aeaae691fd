"""Who imported what first: watched from before the first line of the app's own code."""

from __future__ import annotations

import builtins
import os
import sys
from typing import Any

from flaskstream.doctor.check.places import KIT, OWN, Place, kind_of, place_of_frame

LONGEST_CHAIN = 30


class ImportWatch:
    """Remembers, of each module that is loaded while it watches, the line that imported it."""

    def __init__(self) -> None:
        self._importer: dict[str, Place] = {}
        self._original = builtins.__import__

    def start(self) -> None:
        """Begin to watch."""
        builtins.__import__ = self._import

    def stop(self) -> None:
        """Watch no longer: what a view imports is of no interest."""
        builtins.__import__ = self._original

    def _import(self, *args: Any, **kwargs: Any) -> Any:
        known = set(sys.modules)
        try:
            return self._original(*args, **kwargs)
        finally:
            if len(sys.modules) != len(known):
                place = place_of_frame(sys._getframe(1))
                for module in set(sys.modules) - known:  # and not those whose own importer has been remembered
                    self._importer.setdefault(module, place)

    def chain(self, module: str) -> list[Place]:
        """Return the lines that led to the import of a module, the nearest first, up to the first of the app's own."""
        places: list[Place] = []
        while module in self._importer and len(places) < LONGEST_CHAIN:
            place = self._importer[module]
            places.append(place)
            if kind_of(place.file) == OWN:
                break
            module = _module_of(place.file)
        return places

    def own_importer(self, module: str) -> Place | None:
        """Return the line of the app's own code behind the import of a module; `None`: there is none."""
        chain = self.chain(module)
        return chain[-1] if chain and kind_of(chain[-1].file) == OWN else None


def _module_of(file: str) -> str:
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and os.path.abspath(path) == file and kind_of(file) != KIT:
            return name
    return ""
