"""The blueprint: the routes that an app, new or ten years old, mounts."""

from __future__ import annotations

import json
import secrets
from typing import Any, Callable, Iterator

from flask import Blueprint, Response, jsonify, request

from flaskstream.contexts import Carrier
from flaskstream.debug import DebugPrinter
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
    relay: Relay | None = None,
    heartbeat: float = 15.0,
    status_grace: float = 5.0,
    max_duration: float = 0.0,
    max_streams: int | None = None,
    printer: DebugPrinter | None = None,
    on_end: Callable[[StreamReport], None] | None = None,
) -> Blueprint:
    """Return a blueprint with the routes `/chat` and `/v1/chat/completions`.

    `POST /chat` takes JSON, `{"q": "..."}` or `{"messages": [...]}`; `GET /chat?q=...` is for a plain `EventSource`.
    The answer comes as events `{"t": "..."}`, then `event: done`. `POST /v1/chat/completions` is the same relay in
    the upstream's own format, for the official clients.

    Args:
        upstream: the model API; needed unless a relay is given.
        store: none yet; a later version keeps streams in one, to resume them.
        name: of the blueprint; two of them in one app need two names.
        debug: for demonstrations: a client of `/chat` may choose the model. Nothing of the kind in production.
        relay: in place of an upstream: one that was made by hand.
        heartbeat, status_grace, max_duration, max_streams, printer, on_end: see `StreamOptions`; for every route.

    Raises:
        InvalidSetting: there is neither an upstream nor a relay, or a store was named.
    """
    if store:
        raise InvalidSetting(f"store: this version has none yet; expected None, got {store!r}")
    if relay is None:
        if upstream is None:
            raise InvalidSetting("upstream: expected an Upstream (whom should /chat ask?), got None")
        relay = Relay(upstream)
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
    _add_completions(blueprint, relay, StreamOptions(**options))
    return blueprint


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


def _add_completions(blueprint: Blueprint, relay: Relay, options: StreamOptions) -> None:
    @blueprint.route("/v1/chat/completions", methods=["POST"])
    def completions() -> Any:
        payload = _json_body() if request.is_json else None
        if not isinstance(payload, dict):
            return bad_request("expected a JSON object (Content-Type: application/json), got something else")
        payload.setdefault("model", relay.upstream.model)
        if not payload.get("stream"):
            return _whole_answer(relay, payload)
        headers: dict[str, str] = {}
        carrier = Carrier(keep_request=False)
        blocks = carrier.call_view(relay.blocks, payload, headers.update)
        response = respond(blocks, carrier, FaithfulWire(relay.dialect), options)
        response.headers.update(headers)  # those of an upstream that is slower than the status grace come too late
        return response


def _whole_answer(relay: Relay, payload: dict[str, Any]) -> Response:
    try:
        body, headers = relay.whole(payload)
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
