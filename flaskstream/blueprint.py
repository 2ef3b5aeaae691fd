"""The blueprint: the routes that an app, new or ten years old, mounts."""

from __future__ import annotations

import json
import secrets
from typing import Any, Callable, Iterator

from flask import Blueprint, Response, jsonify, request

from flaskstream.contexts import Carrier
from flaskstream.debug import DebugPrinter
from flaskstream.dialects import ANTHROPIC, DIALECTS, OPENAI, Dialect
from flaskstream.errors import FlaskStreamError, InvalidSetting
from flaskstream.options import StreamOptions, StreamReport
from flaskstream.relay import FaithfulWire, Relay
from flaskstream.response import error_response, event_stream, respond
from flaskstream.upstream import Upstream


def create_blueprint(
    upstream: Upstream | None = None,
    store: str | None = None,
    *,
    name: str = "flaskstream",
    debug: bool = False,
    dialect: str | None = None,
    relay: Relay | None = None,
    heartbeat: float = 15.0,
    status_grace: float = 5.0,
    max_duration: float = 0.0,
    max_streams: int | None = None,
    printer: DebugPrinter | None = None,
    on_end: Callable[[StreamReport], None] | None = None,
) -> Blueprint:
    """Return a blueprint with the routes `/chat`, `/v1/chat/completions` and `/v1/messages`.

    `POST /chat` takes JSON, `{"q": "..."}` or `{"messages": [...]}`; `GET /chat?q=...` is for a plain `EventSource`.
    The answer comes as events `{"t": "..."}`, then `event: done`. `POST /v1/chat/completions` and `POST /v1/messages`
    are the same relay in the upstream's own format, for the official clients of OpenAI and of Anthropic.

    Args:
        upstream: the model API; needed unless a relay is given.
        store: none yet; a later version keeps streams in one, to resume them.
        name: of the blueprint; two of them in one app need two names.
        debug: for demonstrations: a client of `/chat` may choose the model. Nothing of the kind in production.
        dialect: what `/chat` speaks with the upstream, a name of `DIALECTS`; `None`: "openai".
        relay: in place of an upstream and a dialect: one that was made by hand.
        heartbeat, status_grace, max_duration, max_streams, printer, on_end: see `StreamOptions`; for every route.

    Raises:
        InvalidSetting: there is neither an upstream nor a relay, no such dialect, or a store was named.
    """
    if store:
        raise InvalidSetting(f"store: this version has none yet; expected None, got {store!r}")
    relay = _checked_relay(upstream, dialect, relay)
    options: dict[str, Any] = {
        "heartbeat": heartbeat,
        "status_grace": status_grace,
        "max_duration": max_duration,
        "max_streams": max_streams,
        "printer": printer,
        "on_end": on_end,
    }
    blueprint = Blueprint(name, __name__)
    _add_chat(blueprint, relay, debug, options)
    for path, own in _FAITHFUL.items():
        _add_faithful(blueprint, path, relay.speaking(own), StreamOptions(**options))
    return blueprint


_FAITHFUL = {"/v1/chat/completions": OPENAI, "/v1/messages": ANTHROPIC}
"""The routes that speak as the upstream does, and what they speak: an upstream may well know both."""


def _checked_relay(upstream: Upstream | None, dialect: str | None, relay: Relay | None) -> Relay:
    if relay is not None:
        if dialect is not None:
            raise InvalidSetting(f"dialect: expected None beside a relay, which has its own, got {dialect!r}")
        return relay
    if upstream is None:
        raise InvalidSetting("upstream: expected an Upstream (whom should /chat ask?), got None")
    if dialect is not None and dialect not in DIALECTS:
        raise InvalidSetting(f"dialect: expected one of {', '.join(DIALECTS)}, got {dialect!r}")
    return Relay(upstream, DIALECTS[dialect or OPENAI.name])


def _add_chat(blueprint: Blueprint, relay: Relay, debug: bool, options: dict[str, Any]) -> None:
    @blueprint.route("/chat", methods=["GET", "POST"])
    @event_stream(keep_context=False, **options)
    def chat() -> Any:
        try:
            payload = chat_payload(relay.upstream.model, debug)
        except ValueError as error:
            return bad_request(str(error))
        return _token_events(relay.tokens(payload))


def _token_events(tokens: Iterator[str]) -> Iterator[dict[str, str]]:
    for token in tokens:
        yield {"t": token}


def chat_payload(model: str, may_choose_model: bool) -> dict[str, Any]:
    """Return the upstream's payload for this request to `/chat`.

    Raises:
        ValueError: the question is missing, or is no question.
    """
    fields: Any = request.args
    if request.method == "POST":
        fields = _json_body() if request.is_json else request.form
    if not hasattr(fields, "get"):
        raise ValueError('expected a JSON object {"q": "..."} or {"messages": [...]}, got something else')
    question, messages = fields.get("q"), fields.get("messages")
    if isinstance(question, str) and question:
        messages = [{"role": "user", "content": question}]
    if not isinstance(messages, list) or not messages:
        raise ValueError(
            'expected a question: "q" with some text, or in JSON (Content-Type: application/json) a list of "messages"'
        )
    if may_choose_model and isinstance(fields.get("model"), str):
        model = fields["model"]
    return {"model": model, "messages": messages}


def _json_body() -> Any:
    """Return the request's JSON; `None` if it is none."""
    try:
        return json.loads(request.get_data(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"expected JSON, got {name}")  # NaN and Infinity are Python's own


def _add_faithful(blueprint: Blueprint, path: str, relay: Relay, options: StreamOptions) -> None:
    @blueprint.route(path, endpoint=path.rpartition("/")[2], methods=["POST"])
    def faithful() -> Any:
        payload = _json_body() if request.is_json else None
        if not isinstance(payload, dict):
            return bad_request("expected a JSON object (Content-Type: application/json), got something else")
        payload.setdefault("model", relay.upstream.model)
        own = _own_headers(relay.dialect)
        if not payload.get("stream"):
            return _whole_answer(relay, payload, own)
        headers: dict[str, str] = {}
        carrier = Carrier(keep_request=False)
        blocks = carrier.call_view(relay.blocks, payload, headers.update, own)
        response = respond(blocks, carrier, FaithfulWire(relay.dialect), options)
        response.headers.update(headers)  # those of an upstream that is slower than the status grace come too late
        return response


def _own_headers(dialect: Dialect) -> dict[str, str]:
    """Return what the client tells the API in headers, and nothing else that it sends."""
    return {name: request.headers[name].strip() for name in dialect.client_headers if name in request.headers}


def _whole_answer(relay: Relay, payload: dict[str, Any], own_headers: dict[str, str]) -> Response:
    try:
        body, headers = relay.whole(payload, own_headers)
    except FlaskStreamError as error:
        return error_response(error, secrets.token_hex(8))
    response = Response(body, content_type="application/json", headers=headers)
    response.headers["Cache-Control"] = "no-store"
    return response


def bad_request(message: str) -> Response:
    """Return a 400 that says what was expected and what came."""
    response = jsonify(error={"code": "bad_request", "type": "invalid_request_error", "message": message})
    response.status_code = 400
    return response
