"""The app of the broken mode: the same route as the kit's, written with Flask alone, and each step replaceable.

As it stands here it is right, and it streams (`FLASKSTREAM_FAULTS=none`). Each fault replaces one step.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator

from flask import Blueprint, Flask, Response, request, stream_with_context

from flaskstream.chat_request import chat_payload
from flaskstream.debug import DebugPrinter
from flaskstream.dialects import OPENAI
from flaskstream.guard import refusal
from flaskstream.lab.faults import active_faults
from flaskstream.options import StreamOptions
from flaskstream.probe.route import add_probe
from flaskstream.relay.answers import tokens as tokens_of
from flaskstream.resume.ids import checked_stream_id
from flaskstream.settings import Settings
from flaskstream.sse import Event, to_json
from flaskstream.unbuffered import STREAM_HEADERS, StreamResponse
from flaskstream.upstream import Upstream
from flaskstream.upstream.answer import Answer
from flaskstream.wire import EventWire


def _ask(upstream: Upstream, path: str, payload: Any) -> Answer:
    return upstream.open(path, payload)


def _same(tokens: Iterator[str]) -> Iterator[str]:
    return tokens


def _as_it_comes(frames: Iterable[bytes]) -> Iterable[bytes]:
    return frames


@dataclass
class Steps:
    """The way of an answer through the app; each step as it should be.

    Attributes:
        ask: opens the upstream.
        read: yields what the upstream sends, as it comes.
        tokens: what the view makes of the tokens.
        body: what the response is made of.
        printer: prints the debug lines.
        add_to_app: hooks and middleware.
    """

    ask: Callable[[Upstream, str, Any], Answer] = _ask
    read: Callable[[Answer], Iterable[bytes]] = Answer.chunks
    tokens: Callable[[Iterator[str]], Iterator[str]] = _same
    body: Callable[[Iterable[bytes]], Iterable[bytes]] = _as_it_comes
    printer: Callable[[str, int, bytes], None] = field(default_factory=DebugPrinter)
    add_to_app: list[Callable[[Flask], Any]] = field(default_factory=list)


def install_broken(app: Flask, prefix: str, upstream: Upstream, settings: Settings) -> None:
    """Give the app the routes `/chat` and `/probe`, with the faults of the settings.

    Raises:
        InvalidSetting: there is no fault of a name.
    """
    steps = Steps()
    for fault in active_faults(settings.faults):
        fault.install(steps)
    for add in steps.add_to_app:
        add(app)

    @app.route(f"{prefix}/chat", methods=["GET", "POST"])
    def chat() -> Response:
        try:
            payload = chat_payload(upstream.model, may_choose_model=True)
            stream_id = checked_stream_id(
                request.args.get("stream") or secrets.token_hex(8)
            )  # the page /compare names it
        except ValueError as error:
            return refusal(400, "bad_request", str(error))
        frames = _frames(steps, upstream, payload, stream_id, settings.debug_print)
        body = steps.body(stream_with_context(frames))
        return Response(body, content_type="text/event-stream", headers=STREAM_HEADERS)

    app.register_blueprint(_probe(steps), url_prefix=prefix)


def _probe(steps: Steps) -> Blueprint:
    """Return the kit's probe as this app sends what it streams: in a plain response, which nothing guards.

    What its view would do to its tokens it does not do: ticks come from no upstream, and are no text.
    """
    blueprint = Blueprint("lab_probe", __name__)
    add_probe(blueprint, StreamOptions())

    @blueprint.after_request  # before the hooks of the app
    def unguarded(response: Response) -> Response:
        if not isinstance(response, StreamResponse):
            return response
        ticks: Any = response.get_app_iter(request.environ)
        headers = response.get_wsgi_headers(request.environ)
        plain = Response(steps.body(ticks), response.status, headers)
        plain.call_on_close(ticks.close)
        return plain

    return blueprint


def _frames(steps: Steps, upstream: Upstream, payload: Any, stream_id: str, debug_print: bool) -> Iterator[bytes]:
    """Yield the events as a careful view without the kit does: no heartbeat, but a proper end or an error."""
    wire, count = EventWire(), 0
    try:
        for token in steps.tokens(_tokens(steps, upstream, payload)):
            frame, count = wire.frame(Event(to_json({"t": token}))), count + 1
            if debug_print:
                steps.printer(stream_id, count, frame)
            yield frame
    except Exception as error:
        yield wire.failed(error, stream_id)
    else:
        yield wire.done(stream_id)


def _tokens(steps: Steps, upstream: Upstream, payload: Any) -> Iterator[str]:
    with steps.ask(upstream, OPENAI.path, {**payload, "stream": True}) as answer:
        yield from tokens_of(steps.read(answer), OPENAI)
