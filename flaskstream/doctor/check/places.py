"""Whose code a line is: of the app, of a package, of Flask, of Python; and who of them has called."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import sys
import sysconfig
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Iterator

OWN, PACKAGE, FRAMEWORK, STDLIB, KIT = "own", "package", "framework", "stdlib", "kit"

_KIT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_LAB = _KIT + "lab" + os.sep  # its mistakes are made to be found
_STDLIB = tuple({os.path.abspath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")})
_FRAMEWORK = ("flask", "werkzeug")
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@dataclass(frozen=True)
class Place:
    """A line of code.

    Args:
        file: its absolute path.
        line: from 1.
        function: whose line it is.
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{short_path(self.file)}:{self.line}"


def short_path(file: str) -> str:
    """Return the path as a person would say it: from the working directory, or from site-packages, on."""
    for mark in _PACKAGES:
        if mark in file:
            return file.rsplit(mark, 1)[1]
    inside = os.path.relpath(file)
    return file if inside.startswith(os.pardir) else inside


@functools.lru_cache(maxsize=None)
def kind_of(file: str) -> str:
    """Return whose code a file is."""
    if file.startswith("<"):
        return STDLIB
    path = os.path.abspath(file)
    if path.startswith(_KIT) and not path.startswith(_LAB):
        return KIT
    for mark in _PACKAGES:
        if mark in path:
            first = path.rsplit(mark, 1)[1].split(os.sep)[0]
            return FRAMEWORK if first in _FRAMEWORK else STDLIB if first in ("gevent", "greenlet") else PACKAGE
    return STDLIB if path.startswith(_STDLIB) else OWN


def place_of_frame(frame: FrameType) -> Place:
    """Return where a frame is."""
    return Place(os.path.abspath(frame.f_code.co_filename), frame.f_lineno, frame.f_code.co_name)


def place_of_code(code: CodeType) -> Place:
    """Return where a function begins."""
    return Place(os.path.abspath(code.co_filename), code.co_firstlineno, code.co_name)


def as_function(value: Any) -> Any:
    """Return the function behind a callable: what is wrapped, a partial's, a method's, that of an object's class."""
    value = inspect.unwrap(value)
    while isinstance(value, functools.partial):
        value = inspect.unwrap(value.func)
    value = getattr(value, "__func__", value)
    if not inspect.isfunction(value) and callable(value) and not inspect.isclass(value):
        value = inspect.unwrap(type(value).__call__)
    return value


def place_of(function: Any) -> Place | None:
    """Return where a callable is written; `None`, if that is not in Python."""
    function = as_function(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    qualified = str(getattr(function, "__qualname__", code.co_name)).replace("<locals>.", "")
    return Place(os.path.abspath(code.co_filename), code.co_firstlineno, qualified)


def frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame, its caller, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def caller(skip: tuple[str, ...] = (KIT, FRAMEWORK, STDLIB)) -> tuple[Place | None, str]:
    """Return who has called: the nearest line that is of none of these kinds.

    And the name of the function of Flask or Werkzeug that it has called there; empty, if it has called none.
    """
    through = ""
    for frame in frames_from(sys._getframe(1)):
        kind = kind_of(frame.f_code.co_filename)
        if kind not in skip:
            return place_of_frame(frame), through
        through = frame.f_code.co_name if kind == FRAMEWORK else through
    return None, through


def reader() -> Place | None:
    """Return the line that reads from the boundary whose code calls this: the nearest one that is not of Flask.

    Where there is none before the next boundary, it is Flask that reads. `None`: it is this check.
    """
    frames = frames_from(sys._getframe(1))
    within = itertools.dropwhile(lambda frame: kind_of(frame.f_code.co_filename) == KIT, frames)
    of_flask = None
    for frame in itertools.takewhile(lambda frame: kind_of(frame.f_code.co_filename) != KIT, within):
        kind = kind_of(frame.f_code.co_filename)
        if kind in (OWN, PACKAGE):
            return place_of_frame(frame)
        if kind == FRAMEWORK and of_flask is None:
            of_flask = place_of_frame(frame)
    return of_flask
