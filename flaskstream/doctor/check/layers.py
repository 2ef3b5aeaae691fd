"""The WSGI layers around a Flask app: found where one holds the next, and a boundary put between them.

A middleware keeps the app that it wraps in an attribute, in a closure or under a global name. Each such slot that leads
to a Flask app gets a `Probe` in its place, which is called instead and hands on all that it gets.
"""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any, Callable, Iterator, NamedTuple

from flaskstream.doctor.check.places import place_of
from flaskstream.doctor.check.stage import Stage

MOST_OBJECTS = 2000
"""So many are looked at on the way to the Flask app; a chain of middleware is a dozen."""

_BUILT_IN = (type, types.ModuleType, types.BuiltinFunctionType, str, bytes, int, float)


class Slot(NamedTuple):
    """What holds a callable, and how to put another into its place."""

    value: Any
    put: Callable[[Any], None]


class Probe:
    """Called in place of a WSGI app, as which it behaves in everything else too."""

    def __init__(self, inside: Any, stage: Stage, name: str) -> None:
        self._inside = inside
        self._stage = stage
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        is_request = len(args) == 2 and isinstance(args[0], dict) and "REQUEST_METHOD" in args[0]
        if not is_request or kwargs:  # held by a middleware, and called for something else
            return self._inside(*args, **kwargs)
        return self._stage.call_layer(self._inside, self._name, place_of(self._inside), *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)


def put_probes(outermost: Any, stage: Stage) -> tuple[Probe, list[Any]]:
    """Put a probe around the outermost app and around each layer below; return the first, and the Flask apps."""
    finder = _Finder()
    finder.leads_to_flask(outermost)
    for slot in finder.slots:
        slot.put(Probe(slot.value, stage, name_of(slot.value)))
    return Probe(outermost, stage, name_of(outermost)), finder.apps


def is_factory(value: Any) -> bool:
    """Tell whether this function makes an app and is none: it can do without the two arguments of a WSGI app."""
    if not inspect.isfunction(value):
        return False
    parameters = inspect.signature(value).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return False
    placed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len(placed) < 2 or all(one.default is not one.empty for one in placed)


def name_of(layer: Any) -> str:
    """Return what a WSGI layer calls itself."""
    layer = getattr(layer, "func", layer) if isinstance(layer, functools.partial) else layer
    if isinstance(layer, types.MethodType):
        return f"{type(layer.__self__).__name__}.{layer.__name__}"
    name = getattr(layer, "__qualname__", None)
    return str(name).replace("<locals>.", "") if name else type(layer).__name__


class _Finder:
    """Walks from an app to the Flask apps in it."""

    def __init__(self) -> None:
        self.apps: list[Any] = []
        self.slots: list[Slot] = []
        self._seen: dict[int, bool] = {}
        self._kept: list[Any] = []  # so that no id is used twice

    def leads_to_flask(self, value: Any) -> bool:
        if id(value) in self._seen or len(self._seen) > MOST_OBJECTS:
            return self._seen.get(id(value), False)
        self._seen[id(value)] = False  # a circle leads nowhere
        self._kept.append(value)
        self._seen[id(value)] = found = self._look(value)
        return found

    def _look(self, value: Any) -> bool:
        if _is_flask(value):
            self.apps.append(value)
            inner = value.wsgi_app
            self.slots.append(Slot(inner, functools.partial(setattr, value, "wsgi_app")))
            if not _is_core(inner):
                self.leads_to_flask(inner)
            return True
        if _is_core(value):
            self.leads_to_flask(value.__self__)
            return True
        return self._look_inside(value)

    def _look_inside(self, value: Any) -> bool:
        found = False
        for slot in _slots_of(value):
            if self.leads_to_flask(slot.value):
                found = True
                if callable(slot.value) and not _is_flask(slot.value):
                    self.slots.append(slot)
        return found


def _is_flask(value: Any) -> bool:
    return any(base.__module__ == "flask.app" and base.__name__ == "Flask" for base in type(value).__mro__)


def _is_core(value: Any) -> bool:
    """Tell whether this is Flask's own `wsgi_app`, bound to its app."""
    return isinstance(value, types.MethodType) and _is_flask(value.__self__) and value.__name__ == "wsgi_app"


def _slots_of(value: Any) -> Iterator[Slot]:
    if isinstance(value, _BUILT_IN):
        return
    if isinstance(value, functools.partial):
        for inner in (value.func, *value.args, *value.keywords.values()):
            yield from _slots_of(inner)  # itself it cannot be changed
    elif isinstance(value, types.MethodType):
        yield from _slots_of(value.__self__)
    elif isinstance(value, types.FunctionType):
        yield from _slots_of_function(value)
    elif isinstance(value, dict):
        for key, inner in list(value.items()):
            yield Slot(inner, functools.partial(value.__setitem__, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield Slot(inner, functools.partial(value.__setitem__, index))
    elif callable(value):
        for name, inner in list(getattr(value, "__dict__", {}).items()):
            yield Slot(inner, functools.partial(setattr, value, name))
        for name in _names_of_slots(type(value)):
            if hasattr(value, name):
                yield Slot(getattr(value, name), functools.partial(setattr, value, name))


def _names_of_slots(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__"):
                yield name


def _slots_of_function(function: types.FunctionType) -> Iterator[Slot]:
    for cell in function.__closure__ or ():
        try:
            inner = cell.cell_contents
        except ValueError:  # not filled
            continue
        yield Slot(inner, functools.partial(setattr, cell, "cell_contents"))
    names = function.__globals__
    for name in function.__code__.co_names:
        inner = names.get(name)
        if _is_flask(inner) or (callable(inner) and getattr(inner, "__module__", None) == function.__module__):
            yield Slot(inner, functools.partial(names.__setitem__, name))
