"""Carry a request from the thread that handles it into the thread that runs its generator.

Two kinds of context come along. The `contextvars` of the view are those of the generator: view and generator run in
one and the same `Context`, one after the other, so that even a token made in the view can be reset in the generator.
Flask's contexts are pushed as copies: the originals are popped when the view has returned, as for any request, and one
context object pushed in two threads would break both. So teardown functions run twice: when the view has returned,
and, in the generator's thread, when the generator has ended.
"""

from __future__ import annotations

import contextvars
import copy
import logging
import time
from typing import Any, Callable, Collection, Iterator, Mapping

from flask import current_app, g, stream_with_context
from flask.ctx import AppContext, RequestContext

log = logging.getLogger(__name__)

# The variables in which Flask keeps its contexts: from 2.2 on, and (in Werkzeug's locals) in 2.0 and 2.1.
# Older ones keep them by thread, so there is nothing to leave behind.
_FLASK_VARIABLES = frozenset({"flask.app_ctx", "flask.request_ctx", "local_storage"})


class Carrier:
    """What the generator of one request needs to run elsewhere. Made in the view's thread, in its request.

    Args:
        keep_request: keep `request`, `session` and `g` available in the generator until it ends. Without it the
            generator runs outside of Flask's contexts, and a long stream holds nothing that lives as long as they
            do, such as a database session.

    Attributes:
        made_at: when, in seconds of the monotonic clock.
    """

    def __init__(self, keep_request: bool = True) -> None:
        self.made_at = time.monotonic()
        self._app = current_app._get_current_object()  # type: ignore[attr-defined]
        self._keep_request = keep_request
        self._context = contextvars.Context()
        self._flask_tokens = []
        for variable, value in contextvars.copy_context().items():
            token = self._context.run(variable.set, value)
            if variable.name in _FLASK_VARIABLES:
                self._flask_tokens.append((variable, token))

    def call_view(self, view: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the view in the context in which its generator will run; the view may be `async` (Flask 2.0 on)."""
        ensure_sync = getattr(self._app, "ensure_sync", None)
        try:
            result = self._context.run(ensure_sync(view) if ensure_sync else view, *args, **kwargs)
        finally:
            self._show_outside()
        if self._keep_request:
            self._app_context = _copy_of_app_context(self._app)
            self._request_context = _copy_of_request_context()
        return result

    def _show_outside(self) -> None:
        """Set the variables that the view has set for its caller too: an `after_request` hook may look at them."""
        for variable, value in self._context.items():
            if variable.get(None) is not value:
                variable.set(value)

    def refuse_held(self, items: Iterator[Any]) -> None:
        """Refuse a generator in `stream_with_context`: it holds the view's own context, and would pop it elsewhere.

        Raises:
            TypeError: it is one.
        """
        if getattr(getattr(items, "gi_code", None), "co_filename", None) == stream_with_context.__code__.co_filename:
            self._context.run(items.close)  # type: ignore[attr-defined]
            raise TypeError(
                "expected a plain generator from the view, got one in stream_with_context(): leave that out, the"
                " context is kept without it"
            )

    def run(self, function: Callable[[], None]) -> None:
        """Call the function, in whatever thread this is, in the contexts of the request."""
        self._context.run(self._run, function)

    def _run(self, function: Callable[[], None]) -> None:
        for variable, token in self._flask_tokens:
            variable.reset(token)
        if self._keep_request:
            with self._app_context, self._request_context:
                function()
        else:
            function()

    def hold(self, items: Iterator[Any]) -> Iterator[Any]:
        """Return the items of the generator, which keeps the request's contexts for as long as it lives.

        To be called by the function that `run` runs. A change that the generator makes to the session is
        reported in the log when it ends: it is not stored, for the cookie left with the headers.
        """
        if not self._keep_request:
            return items
        return stream_with_context(_watch_session(items, _session_of(self._request_context)))


class _SameRequest(RequestContext):
    """A request's second context, in another thread."""

    def match_request(self) -> None:
        """Leave the request as it is: it has been matched, and hooks may have changed what came of it."""

    def auto_pop(self, exc: BaseException | None) -> None:
        """Pop: Flask before 2.2 keeps a failed request for its debugger, which never comes to this thread."""
        self.pop(exc)


def _copy_of_request_context() -> RequestContext:
    """Return a context for the current request, with a copy of the session and what extensions have put there.

    With the session itself, whether a change made by the generator is stored would depend on how fast it made it.
    """
    original = _current_request_context()
    context = _SameRequest(
        original.app,
        environ=original.request.environ,
        request=original.request,
        session=copy.copy(_session_of(original)),
    )
    vars(context).update({**_lasting(vars(original)), **vars(context)})
    return context


def _copy_of_app_context(app: Any) -> AppContext:
    context: AppContext = app.app_context()
    originals = vars(g._get_current_object())
    vars(context.g).update(_lasting(originals))
    left_out = originals.keys() - vars(context.g).keys()
    if left_out:
        context.g.__class__ = _explaining(type(context.g), left_out)
    return context


def _explaining(kind: type, left_out: Collection[str]) -> type:
    """Return a kind of `g` that says what has become of an attribute that the view's own has."""

    def __getattr__(self: Any, name: str) -> Any:
        if name in left_out:
            raise AttributeError(
                f"g.{name}: left out in a generator, since it can be closed, and is when the view has returned:"
                " open one in the generator"
            )
        raise AttributeError(name)

    return type(kind.__name__, (kind,), {"__getattr__": __getattr__})


def _lasting(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without what can be closed, such as a connection to a database.

    That is closed by the teardown functions when the view has returned, while the generator is at work. It makes its
    own, and they are called again at its end.
    """
    return {name: value for name, value in values.items() if not hasattr(type(value), "close")}


def _current_request_context() -> RequestContext:
    try:
        from flask.globals import request_ctx
    except ImportError:  # before Flask 2.2
        from flask import _request_ctx_stack  # type: ignore[attr-defined]

        return _request_ctx_stack.top  # type: ignore[no-any-return]
    return request_ctx._get_current_object()  # type: ignore[attr-defined, no-any-return]


def _session_of(context: RequestContext) -> Any:
    """Return the session without asking for it: Flask 3.1.3 answers a question with a `Vary: Cookie`."""
    values: Mapping[str, Any] = vars(context)
    return values["_session"] if "_session" in values else values["session"]


def _watch_session(items: Iterator[Any], session: Any) -> Iterator[Any]:
    before = _contents(session)
    try:
        yield from items
    finally:
        if _contents(session) != before:
            log.warning(
                "the session was changed while the response was streaming, and this change is lost: the cookie"
                " leaves with the headers. Set it in the view, before the generator runs"
            )


def _contents(session: Any) -> Any:
    return dict(session) if isinstance(session, Mapping) else None
