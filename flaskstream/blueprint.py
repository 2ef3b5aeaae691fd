"""The blueprint: the routes that an app, new or ten years old, mounts."""

from __future__ import annotations

from typing import Any, Callable, Iterator

from flask import Blueprint, Response, jsonify, request

from flaskstream.contexts import Carrier
from flaskstream.debug import DebugPrinter
from flaskstream.errors import InvalidSetting, UpstreamError
from flaskstream.relay import FaithfulWire, Relay
from flaskstream.response import StreamOptions, error_response, event_stream, respond
from flaskstream.stream import StreamReport
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
        heartbeat, status_grace, printer, on_end: see `StreamOptions`; for every route.

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
        "printer": printer,
        "on_end": on_end,
    }
    blueprint = Blueprint(name, __name__)
    _add_chat(blueprint, relay, debug, options)
    _add_completions(blueprint, relay, StreamOptions(**options))
    return blueprint


def _add_chat(blueprint: Blueprint, relay: Relay, debug: bool, options: dict[str, Any]) -> None:
    @blueprint.route("/chat", methods=["GET", "POST"])
    @event_stream(**options)
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
        fields = request.get_json(silent=True) if request.is_json else request.form
    if not hasattr(fields, "get"):
        raise ValueError('expected JSON {"q": "..."} or {"messages": [...]}, got something else')
    question, messages = fields.get("q"), fields.get("messages")
    if isinstance(question, str) and question:
        messages = [{"role": "user", "content": question}]
    if not isinstance(messages, list) or not messages:
        raise ValueError('expected a question: "q" with some text, or a list of "messages"; got neither')
    if may_choose_model and isinstance(fields.get("model"), str):
        model = fields["model"]
    return {"model": model, "messages": messages}


def _add_completions(blueprint: Blueprint, relay: Relay, options: StreamOptions) -> None:
    @blueprint.route("/v1/chat/completions", methods=["POST"])
    def completions() -> Any:
        payload = request.get_json(silent=True)
        if not isinstance(payload, dict):
            return bad_request("expected a JSON object, got something else")
        if not payload.get("stream"):
            return _whole_answer(relay, payload)
        carrier = Carrier(keep_request=False)
        blocks = carrier.call_view(relay.blocks, payload)
        return respond(blocks, carrier, FaithfulWire(relay.dialect), options)


def _whole_answer(relay: Relay, payload: dict[str, Any]) -> Response:
    """Relay an answer that was not asked to stream; it is read whole, as its client will."""
    try:
        with relay.upstream.open(relay.dialect.path, payload, stream=False) as answer:
            return Response(b"".join(answer.chunks()), answer.status, content_type=answer.headers.get("Content-Type"))
    except UpstreamError as error:
        return error_response(error, "-")


def bad_request(message: str) -> Response:
    """Return a 400 that says what was expected and what came."""
    response = jsonify(error={"code": "bad_request", "type": "invalid_request_error", "message": message})
    response.status_code = 400
    return response
