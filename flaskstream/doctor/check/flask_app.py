"""What is watched inside a Flask app: the view, each `after_request` function, and the response between them."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

from flaskstream.doctor.check.boundary import Boundary, place_of_error
from flaskstream.doctor.check.made_before import as_line, count_in_list
from flaskstream.doctor.check.observation import STREAM_TYPES
from flaskstream.doctor.check.places import OWN, Place, kind_of, place_of
from flaskstream.doctor.check.stage import HOOKS, SERVE, VIEW, Stage
from flaskstream.doctor.check.view_profile import Generator, ViewProfile


def watch_flask(app: Any, stage: Stage) -> None:
    """Have the app tell the stage what becomes of a response, from now on."""
    watch = _Watch(app, stage)
    for name in ("dispatch_request", "make_response", "process_response", "handle_exception"):
        setattr(app, name, functools.partial(getattr(watch, name), getattr(app, name)))
    for functions in app.after_request_funcs.values():
        functions[:] = [watch.hook(function) for function in functions]


class _Watch:
    def __init__(self, app: Any, stage: Stage) -> None:
        self._app = app
        self._stage = stage
        self._profile = ViewProfile()

    def dispatch_request(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._stage.phase = VIEW
        self._profile = ViewProfile()
        with self._profile.watching():
            return original(*args, **kwargs)

    def make_response(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        response = original(*args, **kwargs)
        if isinstance(response.response, Boundary):
            return response
        is_guarded = any(base.__name__ == "StreamResponse" and _is_of_kit(base) for base in type(response).__mro__)
        is_file = _is_file(response)
        is_streamed = bool(response.is_streamed) and not is_file
        joined = None if is_streamed or is_file else self._joined(response)
        self._stage.log.say(
            "made",
            view=self._view(),
            endpoint=_endpoint(),
            kit=is_guarded,
            streamed=is_streamed,
            file=is_file,
            mimetype=response.mimetype,
            whole_stream=not is_streamed and not is_file and _is_whole_stream(response),
            joined=joined and as_line(joined),
            in_a_list=count_in_list(response.response) if is_streamed else 0,
        )
        if is_streamed:
            coding = response.headers.get("Content-Encoding", "")
            response.response = self._stage.make_source(response.response, is_guarded, coding, self._profile.generators)
        return response

    def handle_exception(self, original: Callable[..., Any], error: Exception, *args: Any, **kwargs: Any) -> Any:
        text = f"{type(error).__name__}: {error}"
        self._stage.log.say("handled", error=text[:500], at=place_of_error(error))
        return original(error, *args, **kwargs)

    def _view(self) -> Place | None:
        view = self._app.view_functions.get(_endpoint())
        return None if view is None else place_of(view)

    def _joined(self, response: Any) -> Generator | None:
        """Return the generator that the view ran to make this body, if there is one."""
        body, ran = _whole(response), self._profile.generators
        same = [generator for generator in ran if body and generator.data == body]
        if not same and _is_whole_stream(response):
            same = ran
        own = [generator for generator in same if kind_of(generator.place.file) == OWN]
        return next(iter([*own, *same]), None)

    def process_response(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._stage.phase = HOOKS
        try:
            response = original(*args, **kwargs)
        finally:
            self._stage.phase = SERVE
        self._stage.log.say("processed", streamed=bool(response.is_streamed))
        return response

    def hook(self, function: Any) -> Any:
        """Return the `after_request` function as one that tells what it did to the body."""
        if inspect.iscoroutinefunction(function):
            return function

        @functools.wraps(function)
        def watched(response: Any, *args: Any, **kwargs: Any) -> Any:
            before, coding = response.response, response.headers.get("Content-Encoding", "")
            result = function(response, *args, **kwargs)
            after = getattr(result, "response", before)
            if after is not before:
                self._replaced(function, result, coding)
            return result

        return watched

    def _replaced(self, function: Any, response: Any, coding_before: str) -> None:
        place, name = place_of(function), getattr(function, "__qualname__", repr(function))
        name = name.replace("<locals>.", "")
        coding = response.headers.get("Content-Encoding", "")
        streamed = bool(response.is_streamed) and not _is_file(response)
        self._stage.log.say(
            "hook", name=name, place=place, streamed=streamed, coding=coding if coding != coding_before else ""
        )
        if streamed and self._stage.source is not None:
            response.response = self._stage.make_boundary(response.response, "hook", name, place, coding)


def _is_file(response: Any) -> bool:
    """Tell whether the server may send it as a file. An iterator may be passed through, too, as it is."""
    body = response.response
    return bool(response.direct_passthrough) and (hasattr(body, "read") or _is_of_werkzeug(type(body)))


def _is_of_werkzeug(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "werkzeug"


def _is_of_kit(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "flaskstream"


def _endpoint() -> str | None:
    """Return the name of the route that the request has matched; `None`: there is none."""
    from flask import has_request_context, request

    return request.endpoint if has_request_context() else None


def _whole(response: Any) -> bytes:
    """Return the body of a response that is not streamed."""
    if not isinstance(response.response, (list, tuple)):
        return b""
    return b"".join(piece.encode() if isinstance(piece, str) else piece for piece in response.response)


def _is_whole_stream(response: Any) -> bool:
    """Tell whether the body is several events, or lines, that are there all at once."""
    if response.mimetype not in STREAM_TYPES:
        return False
    body = _whole(response)
    return body.count(b"\n\n" if response.mimetype == STREAM_TYPES[0] else b"\n") > 1
