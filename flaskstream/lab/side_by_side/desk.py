"""The desk: tells the page about the servers behind it, and starts the broken one with the mistake that it chooses.

It relays nothing of the streams. The page is of another origin, the only one that may read and ask.

    GET  /state          what there is to choose, and what the model says if it is told nothing else
    POST /choice?name=   start the broken server with it; the answer comes when it answers
    GET  /asked?model=   how often the model was asked under that name, and what it said so far
    GET  /lines?after=   the lines of both servers as they come out, as events; without a number from now on
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Iterator, Protocol

from flask import Flask, Response, abort, jsonify, request

from flaskstream.lab.plan import Plan
from flaskstream.lab.processes import ModelProcess, ProcessFailed
from flaskstream.lab.side_by_side.apps import allow
from flaskstream.lab.side_by_side.choices import Choice, pace
from flaskstream.lab.side_by_side.lines import Lines
from flaskstream.sse import Event, encode, to_json

HEARTBEAT = 1.0
"""Seconds between two signs of life: by the next one a page that has gone is noticed."""


class Chooser(Protocol):
    """Who serves a choice."""

    choice: str

    def choose(self, choice: str) -> None:
        """Serve it. Raises `ProcessFailed`."""


@dataclass(frozen=True)
class Desk:
    """What it tells about.

    Attributes:
        plan: what the model says.
        choices: what there is to choose.
        model: the embedded one; `None`: another API answers, and cannot be told what to say.
        lines: of both servers.
        broken: the server of the broken mode.
        page: the origin of the page.
        broken_url: where the broken mode's answers are.
    """

    plan: Plan
    choices: tuple[Choice, ...]
    model: ModelProcess | None
    lines: Lines
    broken: Chooser
    page: str
    broken_url: str


def create_desk(desk: Desk) -> Flask:
    """Return its app."""
    app = Flask(__name__)
    allow(app, desk.page)

    @app.before_request
    def only_here() -> None:
        if request.host.partition(":")[0] != "127.0.0.1":  # a name that somebody has pointed to this machine
            abort(403)
        if request.method == "POST" and request.headers.get("Origin") != desk.page:
            abort(403)

    @app.route("/state")
    def state() -> Response:
        found = [asdict(choice) for choice in desk.choices]
        told = pace(desk.plan) if desk.model else None
        return jsonify(broken=desk.broken_url, choice=desk.broken.choice, choices=found, pace=told)

    @app.route("/choice", methods=["POST"])
    def choice() -> Any:
        name = request.args.get("name")
        if name not in {choice.name for choice in desk.choices}:
            return jsonify(error=f"expected one of the choices, got {name!r:.80}"), 400
        try:
            desk.broken.choose(str(name))
        except ProcessFailed as error:
            return jsonify(error=str(error)), 503
        return jsonify(choice=name)

    @app.route("/asked")
    def asked() -> Response:
        name = request.args.get("model", "")
        found = desk.model.requests() if desk.model else []
        return jsonify([_became(one) for one in found if one["model"] == name])

    @app.route("/lines")
    def lines() -> Response:
        after = request.args.get("after", type=int)
        return Response(_events(desk.lines, after), content_type="text/event-stream")

    return app


def _became(asked: dict[str, Any]) -> dict[str, Any]:
    return {name: asked[name] for name in ("sent_tokens", "tokens_total", "ended")}


def _events(lines: Lines, after: int | None) -> Iterator[bytes]:
    if after is None:
        after, _ = lines.after(None, 0)
    yield encode(Event(to_json({"after": after}), event="hello"))
    while not lines.is_closed:
        after, found = lines.after(after, HEARTBEAT)
        yield b"".join(encode(Event(to_json(asdict(line)))) for line in found) or b": hb\n\n"
