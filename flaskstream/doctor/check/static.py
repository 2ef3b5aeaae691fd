"""What can be told without running a view: routes that look like streams, hooks that look at bodies, bad yields."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any, Iterator

from flaskstream.doctor.check.log import Log
from flaskstream.doctor.check.places import FRAMEWORK, KIT, OWN, PACKAGE, Place, as_function, kind_of, place_of

READERS = frozenset(
    {
        *("get_data", "data", "json", "get_json", "calculate_content_length", "content_length"),
        *("add_etag", "make_conditional", "freeze", "make_sequence", "iter_encoded"),
    }
)
"""Attributes of a response that run a streamed body to its end."""

ASKS_FIRST = frozenset({"is_streamed", "is_sequence", "direct_passthrough"})
"""Attributes that a hook looks at which leaves streams alone."""

_DECORATED = "streaming_view"
"""The function that `@event_stream` puts around a view."""

_OWN_STREAMS = frozenset({"chat", "probe", "faithful"})
"""The views of the kit that stream; its others are pages, scripts and figures."""

_CATCH_ALL = frozenset({"BaseException", "GeneratorExit"})


def look_at_app(app: Any, log: Log) -> None:
    """Write down the routes of a Flask app, and its `after_request` functions."""
    for rule in app.url_map.iter_rules():
        view = app.view_functions.get(rule.endpoint)
        if view is not None and "GET" in (rule.methods or ()) and not rule.arguments:
            log.say("route", rule=rule.rule, place=place_of(view), streams=_why_it_streams(view))
    for functions in app.after_request_funcs.values():
        for function in functions:
            place = place_of(function)
            if place is not None and kind_of(place.file) != KIT:
                log.say("after_request", name=place.function, place=place, reads=_reads(function))


def look_at_view(app: Any, path: str, method: str, log: Log) -> None:
    """Write down where the view of a path yields in what runs while its generator is closed."""
    try:
        endpoint, _ = app.url_map.bind("127.0.0.1").match(path, method=method)
    except Exception:  # no such route, a redirect: the request will show
        return
    for line, name in _bad_yields(app.view_functions.get(endpoint)):
        place = place_of(app.view_functions[endpoint])
        if place is not None:
            log.say("yields_while_closing", place=Place(place.file, line, name))


def _tree(function: Any) -> ast.AST | None:
    """Return the syntax tree of a function, with the line numbers of its file; `None`: there is no source."""
    function = as_function(function)
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    return ast.increment_lineno(tree, first - 1)


def _why_it_streams(view: Any) -> str:
    place, inner = place_of(view), inspect.unwrap(view)
    if place is None or kind_of(place.file) in (FRAMEWORK, PACKAGE):
        return ""
    if inspect.isgeneratorfunction(inner):
        return "it is a generator"
    tree = _tree(inner)
    names = {name.id for name in ast.walk(tree) if isinstance(name, ast.Name)} if tree else set()
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)} if tree else set()
    reasons = {
        "event_stream": _is_stream_of_the_kit(view, inner),
        "stream_with_context": "stream_with_context" in names,
        "text/event-stream": any(isinstance(text, str) and "text/event-stream" in text for text in strings),
        "it has a generator in it": tree is not None and any(isinstance(node, ast.Yield) for node in ast.walk(tree)),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _is_stream_of_the_kit(view: Any, inner: Any) -> bool:
    """Tell whether a view goes through `@event_stream`, or is one of the kit's own that stream."""
    if _name_in_the_kit(inner) in _OWN_STREAMS:
        return True
    while view is not inner:
        if _name_in_the_kit(view) == _DECORATED:
            return True
        view = view.__wrapped__
    return False


def _name_in_the_kit(function: Any) -> str:
    """Return the name that a function has in the kit's code; empty: it is not written there."""
    code = getattr(function, "__code__", None)
    return code.co_name if code is not None and kind_of(code.co_filename) == KIT else ""


def _reads(function: Any) -> list[tuple[str, Place]]:
    """Return what a hook takes that would read a body, and where; nothing, if it asks first whether it is streamed."""
    place, tree = place_of(function), _tree(function)
    if place is None or tree is None or kind_of(place.file) != OWN:  # what a package does, a run shows
        return []
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    if any(node.attr in ASKS_FIRST for node in attributes):
        return []
    response = _first_argument(tree)
    return [
        (node.attr, Place(place.file, node.lineno, place.function))
        for node in attributes
        if node.attr in READERS and isinstance(node.value, ast.Name) and node.value.id == response
    ]


def _first_argument(tree: ast.AST) -> str:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            names = [argument.arg for argument in node.args.args if argument.arg not in ("self", "cls")]
            return names[0] if names else ""
    return ""


def _bad_yields(view: Any) -> Iterator[tuple[int, str]]:
    """Yield line and function of each yield in a `finally`, or where GeneratorExit is caught, of a view."""
    tree = None if view is None else _tree(view)
    for function in ast.walk(tree) if tree else ():
        if not isinstance(function, ast.FunctionDef):
            continue
        for block in _own_nodes(function):
            if isinstance(block, ast.Try):
                for statements in _run_while_closing(block):
                    for node in (inner for statement in statements for inner in (statement, *_own_nodes(statement))):
                        if isinstance(node, (ast.Yield, ast.YieldFrom)):
                            yield node.lineno, function.name


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is inside a node, without what is inside of functions there."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _own_nodes(child)


def _run_while_closing(block: ast.Try) -> list[list[ast.stmt]]:
    has_yield = any(
        isinstance(node, (ast.Yield, ast.YieldFrom)) for statement in block.body for node in _own_nodes(statement)
    )
    found = [block.finalbody]
    for handler in block.handlers:
        names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else None
        if has_yield and (names is None or names & _CATCH_ALL):
            found.append(handler.body)
            break  # those after it do not see it
        if names and names & {"GeneratorExit"}:
            break
    return found
