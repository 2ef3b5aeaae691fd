"""The blueprint: the routes that an app, new or ten years old, mounts."""

from __future__ import annotations

import functools
from typing import Any, Callable, Collection, Iterator

from flask import Blueprint, Response, jsonify, request

from flaskstream.chat_request import chat_payload, json_body
from flaskstream.client_js import add_client
from flaskstream.compare_page import add_compare_page
from flaskstream.contexts import Carrier
from flaskstream.debug import DebugPrinter
from flaskstream.dialects import ANTHROPIC, DIALECTS, OPENAI, Dialect
from flaskstream.errors import InvalidSetting
from flaskstream.flask_command import add_flask_command
from flaskstream.guard import MAX_BODY_BYTES, Authorize, Guard, GuardedBlueprint, refusal
from flaskstream.options import StreamOptions, check_function, check_seconds
from flaskstream.probe.route import add_probe
from flaskstream.relay import Relay
from flaskstream.relay.relay import Headers
from flaskstream.response import answer_without_stream, event_wire, respond
from flaskstream.resume.delivery import Deliveries
from flaskstream.resume.productions import OnAnswer
from flaskstream.resume.routes import add_streams, recorded_chat
from flaskstream.resume.streams import Streams
from flaskstream.resume.terms import Terms
from flaskstream.stats import STATS
from flaskstream.stats.figures import PROMETHEUS_TYPE, as_json, as_prometheus
from flaskstream.stores import open_store
from flaskstream.stores.protocol import Retention, Store
from flaskstream.tally import StreamReport
from flaskstream.upstream import Upstream
from flaskstream.waiting import Turn
from flaskstream.whole_answer import whole_answer
from flaskstream.wire import FaithfulWire, Together

DEBUG_NAMES = ("model", "stats", "probe", "compare")
"""What `debug` can ask for: a client of `/chat` may choose the model; the routes `/stats`, `/probe` and `/compare`."""


def create_blueprint(
    upstream: Upstream | None = None,
    store: str | Store | None = None,
    *,
    orphan_timeout: float = Terms.orphan_timeout,
    lease: float = Terms.lease,
    retention: Retention | None = None,
    restart: str = Terms.restart,
    owner: Callable[[], Any] | None = None,
    name: str = "flaskstream",
    debug: bool | Collection[str] = False,
    dialect: str | None = None,
    relay: Relay | None = None,
    authorize: Authorize | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    heartbeat: float = 15.0,
    heartbeat_form: str = "comment",
    status_grace: float = 5.0,
    max_duration: float = 0.0,
    max_streams: int | None = None,
    retry: int | None = 3000,
    printer: DebugPrinter | None = None,
    on_end: Callable[[StreamReport], None] | None = None,
    on_answer: OnAnswer | None = None,
) -> Blueprint:
    """Return a blueprint with the routes `/chat`, `/v1/chat/completions`, `/v1/messages` and `/client.js`.

    `POST /chat` takes JSON, `{"q": "..."}` or `{"messages": [...]}`; `GET /chat?q=...` is for a plain `EventSource`.
    The answer comes as events `{"t": "..."}`, then `event: done`. `POST /v1/chat/completions` and `POST /v1/messages`
    are the same relay in the upstream's own format, for the official clients of OpenAI and of Anthropic.

    Args:
        upstream: the model API; needed unless a relay is given.
        store: keeps the answers of `/chat`, so that they survive the connection of whoever asked: a URL for
            `flaskstream.stores.open_store`, or a store. `None`: an answer ends with its connection.
        orphan_timeout: seconds after which an answer in a store that nobody follows is stopped; 0: it is produced to
            its end.
        lease: seconds after which the readers of an answer are told that it is lost, when the process that produces it
            has died.
        retention: how much the store keeps.
        restart: what a repeated request with the same key gets for an answer that was lost with its process: "error",
            what was recorded of it and its error; "resume", a new answer, which is paid for again.
        owner: called in a request; returns whose it is, such as a user's id, or `None`. A stream is for its owner
            alone, and so is an `Idempotency-Key`.
        on_answer: called once with the `AnswerReport` of each answer in the store, in the process that produced it;
            `on_end` is called for each reader.
        name: of the blueprint; two of them in one app need two names.
        debug: names of `DEBUG_NAMES`, or `True` for all of them: nothing that an app in production gains unasked.
        dialect: what `/chat` speaks with the upstream, a name of `DIALECTS`; `None`: "openai".
        relay: in place of an upstream and a dialect: one that was made by hand.
        authorize, max_body_bytes: who may ask, and how much; on every route; see `flaskstream.guard.Guard`.
        heartbeat, heartbeat_form, status_grace, max_duration, max_streams, retry, printer, on_end: see
            `StreamOptions`; for every route.

    Raises:
        InvalidSetting: there is neither an upstream nor a relay, or both; no such dialect; no such store; or an
            option has a value that does not work.
    """
    relay = _checked_relay(upstream, dialect, relay)
    asked_for = _checked_debug(debug)
    options = StreamOptions(
        heartbeat=heartbeat,
        heartbeat_form=heartbeat_form,
        status_grace=status_grace,
        keep_context=False,
        max_duration=max_duration,
        max_streams=max_streams,
        retry=retry,
        printer=printer,
        on_end=on_end,
    )
    guard = Guard(authorize, max_body_bytes)
    blueprint = GuardedBlueprint(_checked_name(name), __name__, guard)
    blueprint.record(add_flask_command)
    streams = _streams(store, orphan_timeout, lease, retention, restart, on_answer, options)
    if streams is None:
        _add_chat(blueprint, relay, "model" in asked_for, options)
    else:
        _add_recorded_chat(blueprint, relay, "model" in asked_for, Deliveries(streams, options, guard, owner))
    for path, own in _FAITHFUL.items():
        _add_faithful(blueprint, path, relay.speaking(own), options)
    add_client(blueprint)
    if "stats" in asked_for:
        _add_stats(blueprint, streams)
    if "probe" in asked_for:
        add_probe(blueprint, options)
    if "compare" in asked_for:
        add_compare_page(blueprint)
    return blueprint


_FAITHFUL = {"/v1/chat/completions": OPENAI, "/v1/messages": ANTHROPIC}
"""The routes that speak as the upstream does, and what they speak: an upstream may well know both."""


def _checked_relay(upstream: Upstream | None, dialect: str | None, relay: Relay | None) -> Relay:
    if relay is not None:
        return _checked_given(relay, upstream, dialect)
    if not isinstance(upstream, Upstream):
        raise InvalidSetting(f"upstream: expected an Upstream (whom should /chat ask?), got {upstream!r:.80}")
    if isinstance(dialect, Dialect):
        raise InvalidSetting(f'dialect: expected its name, "{dialect.name}", got the Dialect itself')
    if dialect is not None and not (isinstance(dialect, str) and dialect in DIALECTS):
        raise InvalidSetting(f"dialect: expected one of {', '.join(DIALECTS)}, got {dialect!r:.80}")
    return Relay(upstream, DIALECTS[dialect or OPENAI.name])


def _checked_given(relay: Relay, upstream: Upstream | None, dialect: str | None) -> Relay:
    if not isinstance(relay, Relay):
        raise InvalidSetting(f"relay: expected a Relay, or None, got {relay!r:.80}")
    if upstream is not None:
        raise InvalidSetting(f"upstream: expected None beside a relay, which has its own, got {upstream!r:.80}")
    if dialect is not None:
        raise InvalidSetting(f"dialect: expected None beside a relay, which has its own, got {dialect!r:.80}")
    return relay


def _checked_debug(debug: bool | Collection[str]) -> Collection[str]:
    if isinstance(debug, bool):
        return DEBUG_NAMES if debug else ()
    is_list = isinstance(debug, Collection) and not isinstance(debug, str)
    if not is_list or any(name not in DEBUG_NAMES for name in debug):
        raise InvalidSetting(f"debug: expected True, False or a list of {', '.join(DEBUG_NAMES)}, got {debug!r:.80}")
    return debug


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not name or "." in name:  # which Flask puts between it and an endpoint's
        raise InvalidSetting(f"name: expected some text without a dot, got {name!r:.80}")
    return name


def _add_chat(blueprint: Blueprint, relay: Relay, may_choose_model: bool, options: StreamOptions) -> None:
    @blueprint.route("/chat", methods=["GET", "POST"])
    def chat() -> Any:
        answered = answer_without_stream(options)
        if answered is not None:
            return answered
        try:
            payload = chat_payload(relay.upstream.model, may_choose_model)
        except ValueError as error:
            return refusal(400, "bad_request", str(error))
        carrier, turn = Carrier(keep_request=False), Turn()
        batches = carrier.call_view(relay.batches, payload, turn)
        return respond(_token_batches(batches), carrier, event_wire(options), options, turn=turn)


def _streams(
    store: str | Store | None,
    orphan_timeout: float,
    lease: float,
    retention: Retention | None,
    restart: str,
    on_answer: OnAnswer | None,
    options: StreamOptions,
) -> Streams | None:
    check_seconds("orphan_timeout", orphan_timeout)
    check_seconds("lease", lease)
    terms = Terms(lease, orphan_timeout, retention or Retention(), options.max_duration, options.max_streams, restart)
    if store is None or store == "":
        return None
    check_function("on_answer", on_answer)
    return Streams(open_store(store) if isinstance(store, str) else store, terms, on_answer)


def _add_recorded_chat(blueprint: Blueprint, relay: Relay, may_choose_model: bool, deliveries: Deliveries) -> None:
    chat = recorded_chat(
        deliveries,
        payload=lambda: chat_payload(relay.upstream.model, may_choose_model),
        produce=functools.partial(_produced, relay),
    )
    blueprint.add_url_rule("/chat", "chat", chat, methods=["GET", "POST"])
    add_streams(blueprint, deliveries)


def _token_batches(batches: Iterator[list[str]]) -> Iterator[Together | None]:
    for tokens in batches:
        yield Together({"t": token} for token in tokens) if tokens else None


def _produced(relay: Relay, payload: dict[str, Any], turn: Turn) -> Iterator[Together | None]:
    return _token_batches(relay.batches(payload, turn))


def _add_faithful(blueprint: Blueprint, path: str, relay: Relay, options: StreamOptions) -> None:
    @blueprint.route(path, endpoint=path.rpartition("/")[2], methods=["POST"])
    def faithful() -> Any:
        payload = json_body() if request.is_json else None
        if not isinstance(payload, dict):
            message = "expected a JSON object (Content-Type: application/json), got something else"
            return refusal(400, "bad_request", message)
        if relay.upstream.model is not None:
            payload.setdefault("model", relay.upstream.model)
        own = _own_headers(relay.dialect)
        if not payload.get("stream"):
            return whole_answer(lambda: relay.whole(payload, own), options)
        headers: dict[str, str] = {}

        def take(told: Headers) -> None:
            headers.clear()  # those of an answer that broke off, and was asked for again
            headers.update(told)

        carrier, turn = Carrier(keep_request=False), Turn()
        blocks = carrier.call_view(relay.blocks, payload, take, own, turn)
        response = respond(blocks, carrier, FaithfulWire(relay.dialect, options.heartbeat_form), options, turn=turn)
        for name, value in list(headers.items()):  # those of an upstream slower than the status grace come too late
            if response.status_code == 200 or name not in response.headers:  # an error brings its own
                response.headers.add(name, value)
        return response


def _own_headers(dialect: Dialect) -> dict[str, str]:
    """Return what the client tells the API in headers, and nothing else that it sends."""
    return {name: request.headers[name].strip() for name in dialect.client_headers if name in request.headers}


def _add_stats(blueprint: Blueprint, streams: Streams | None) -> None:
    STATS.share()

    @blueprint.route("/stats")
    def stats() -> Response:
        rows, processes = STATS.rows()
        kept = None if streams is None else streams.kept()
        if _wants_prometheus():
            response = Response(as_prometheus(rows, processes, kept), content_type=PROMETHEUS_TYPE)
        else:
            response = jsonify(as_json(rows, processes, kept))
        response.headers["Cache-Control"] = "no-store"
        return response


def _wants_prometheus() -> bool:
    """`?format=prometheus`, or what Prometheus says it accepts; JSON for everybody else, curl and browsers too."""
    wanted = request.args.get("format")
    if wanted is not None:
        return wanted == "prometheus"
    return "version=0.0.4" in request.headers.get("Accept", "") or "openmetrics" in request.headers.get("Accept", "")
