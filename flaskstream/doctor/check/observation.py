"""What the child wrote down, as values; and how the pieces went through each layer. No opinion, no input or output."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any, Mapping, Sequence

from flaskstream.doctor.check.places import Place

Line = Mapping[str, Any]

STREAM_TYPES = ("text/event-stream", "application/x-ndjson", "application/jsonl", "application/x-jsonlines")
"""Content types of which one body that is whole from the start makes no sense."""


@dataclass(frozen=True)
class Layer:
    """What handed the body on, and what it handed on.

    Attributes:
        number: of its boundary.
        of: `view`, `hook` (an `after_request` function that has put another body into the response) or `wsgi`.
        name: what it is called.
        place: where it is written; for the view, see `Run.view`.
        coding: the `Content-Encoding` of what it hands on.
        pieces: how many pieces with content came out of it.
        was_closed: its iterable was closed.
        was_left_open: not by the layer around it, but by this check in its place.
        pulled_by: the line that began to read from it; `None`: nobody has, or this check.
        ended: it has said that there is no more.
        is_guarded: it is the kit's own response.
    """

    number: int
    of: str
    name: str
    place: Place | None
    coding: str
    pieces: int
    was_closed: bool
    was_left_open: bool
    pulled_by: Place | None
    ended: bool
    is_guarded: bool


@dataclass(frozen=True)
class Step:
    """How the pieces went through one layer, from the one inside of it.

    Attributes:
        layer: which.
        inside: what it reads from.
        waiting: the most pieces that it had taken since one last came out of it.
        holds_to_end: nothing came out before there was no more to take.
        is_behind: each piece came out when the next one had been taken.
    """

    layer: Layer
    inside: Layer
    waiting: int
    holds_to_end: bool
    is_behind: bool

    @property
    def compresses(self) -> bool:
        """It has put a coding on the body."""
        return bool(self.layer.coding) and self.layer.coding != self.inside.coding


@dataclass(frozen=True)
class Run:
    """One request.

    Attributes:
        codings: its `Accept-Encoding`.
        status: of the answer, such as `200 OK`; empty: there was none.
        headers: of the answer.
        layers: from the view outwards; the first is the view's stream, if it made one.
        steps: through each layer but the first.
        made: what Flask made of the view's result: the last line of that kind, or nothing.
        lines: all that was written down.
    """

    codings: str | None
    status: str
    headers: tuple[tuple[str, str], ...]
    layers: tuple[Layer, ...]
    steps: tuple[Step, ...]
    made: Line
    lines: tuple[Line, ...]

    @property
    def source(self) -> Layer | None:
        """The view's stream."""
        return self.layers[0] if self.layers and self.layers[0].of == "view" else None

    @property
    def view(self) -> Place | None:
        """Where the view is written."""
        return as_place(self.made.get("view"))

    @property
    def read_early(self) -> int:
        """How many pieces of the view's stream were taken before Flask had its response ready."""
        return sum(line["kind"] == "piece" for line in self._early)

    @property
    def is_read_whole(self) -> bool:
        """It was read to its end by then."""
        return any(line["kind"] in ("end", "enough") for line in self._early)

    @property
    def waited_ms(self) -> float:
        """How long its first piece was waited for, since the request came; 0: nothing came, or it had to import."""
        first = next(iter(self.all("first_piece")), None)
        return 0.0 if first is None or first["imported"] else float(first["ms"] - self.lines[0]["ms"])

    @property
    def rest_ms(self) -> float:
        """How long all pieces after the first one took."""
        number = self.source.number if self.source else None
        at = [line["ms"] for line in self.lines if line["kind"] == "piece" and line.get("boundary") == number]
        return float(at[-1] - at[0]) if at else 0.0

    @property
    def most_empty(self) -> int:
        """The most pieces in a row that the view gave without any content in them: its compressor kept that."""
        number = self.source.number if self.source else None
        own = [line["bytes"] > 0 for line in self.lines if line["kind"] == "piece" and line.get("boundary") == number]
        return max((len(list(group)) for is_full, group in groupby(own) if not is_full), default=0)

    @property
    def _early(self) -> list[Line]:
        ready = next((at for at, line in enumerate(self.lines) if line["kind"] == "processed"), 0)
        number = self.source.number if self.source else None
        return [line for line in self.lines[:ready] if line.get("boundary") == number]

    def all(self, kind: str) -> list[Line]:
        """Return the lines of a kind."""
        return [line for line in self.lines if line["kind"] == kind]


@dataclass(frozen=True)
class Observation:
    """All of it.

    Attributes:
        lines: what stands outside of the run.
        run: the request, if one was made.
    """

    lines: tuple[Line, ...]
    run: Run | None

    def all(self, kind: str) -> list[Line]:
        """Return the lines of a kind."""
        return [line for line in self.lines if line["kind"] == kind]

    def one(self, kind: str) -> Line:
        """Return the last line of a kind; empty, if there is none."""
        return next(reversed(self.all(kind)), {})


def of_run(seen: Observation, kind: str) -> list[Line]:
    """Return the lines of a kind that the request left; none, if there was no request."""
    return seen.run.all(kind) if seen.run else []


def as_place(value: Sequence[Any] | None) -> Place | None:
    """Return the place that stands in a line."""
    return None if value is None else Place(*value)


def read_lines(lines: Sequence[Line]) -> Observation:
    """Return what the lines say."""
    begins = next((at for at, line in enumerate(lines) if line["kind"] == "run"), None)
    if begins is None:
        return Observation(tuple(lines), None)
    return Observation((*lines[:begins], *lines[-2:]), _run(lines[begins:]))


def _run(lines: Sequence[Line]) -> Run:
    layers = _in_order([_layer(line, lines) for line in lines if line["kind"] == "layer"])
    head: Line = next((line for line in reversed(lines) if line["kind"] == "headers"), {})
    outermost = layers[-1].number if layers else 0
    heads = [line for line in lines if line["kind"] == "headers" and line["boundary"] == outermost]
    head = heads[-1] if heads else head
    return Run(
        codings=lines[0]["codings"],
        status=head.get("status", ""),
        headers=tuple((name, value) for name, value in head.get("headers", ())),
        layers=tuple(layers),
        steps=tuple(_step(layer, inside, lines) for inside, layer in zip(layers, layers[1:])),
        made=next((line for line in reversed(lines) if line["kind"] == "made"), {}),
        lines=tuple(lines),
    )


def _in_order(layers: list[Layer]) -> list[Layer]:
    """Sort them from the view outwards: a WSGI app is called by the one around it, and so is counted after it."""
    of = {name: [layer for layer in layers if layer.of == name] for name in ("view", "hook", "wsgi")}
    return [*of["view"][-1:], *of["hook"], *reversed(of["wsgi"])]


def _layer(line: Line, lines: Sequence[Line]) -> Layer:
    number = line["boundary"]
    own = [other for other in lines if other.get("boundary") == number]
    kinds = {other["kind"] for other in own}
    pulled = next((other for other in own if other["kind"] == "pulled"), {})
    coding = line.get("coding") or ""
    for head in own:
        if head["kind"] == "headers":
            coding = {name.lower(): value for name, value in head["headers"]}.get("content-encoding", "")
    return Layer(
        number=number,
        of=line["of"],
        name=line["name"],
        place=as_place(line["place"]),
        coding="" if coding == "identity" else coding,
        pieces=sum(other["kind"] == "piece" and other["bytes"] > 0 for other in own),
        was_closed="close" in kinds,
        was_left_open=any(other["kind"] == "close" and other["help"] for other in own),
        pulled_by=as_place(pulled.get("by")),
        ended=bool(kinds & {"end", "enough"}),
        is_guarded=bool(line.get("guarded")),
    )


def _step(layer: Layer, inside: Layer, lines: Sequence[Line]) -> Step:
    taken = given = since = waiting = behind = early = 0
    ended = False
    for line in lines:
        number = line.get("boundary")
        if number == inside.number and line["kind"] in ("end", "enough"):
            ended = True
        if line["kind"] != "piece" or not line["bytes"]:
            continue
        if number == inside.number:
            taken, since = taken + 1, since + 1
            waiting = max(waiting, since)
        elif number == layer.number:
            given, since = given + 1, 0
            early += not ended
            behind += not ended and taken == given + 1
    return Step(
        layer=layer,
        inside=inside,
        waiting=waiting,
        holds_to_end=ended and taken > 1 and not early,
        is_behind=early > 2 and behind == early,
    )
