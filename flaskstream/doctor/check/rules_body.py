"""What became of the body: who read it, joined it, or lets it wait, inside of Flask and around it. Pure.

Each rule takes the observation and yields findings.
"""

from __future__ import annotations

from typing import Iterator

from flaskstream.doctor.check.findings import Finding, count, found
from flaskstream.doctor.check.observation import STREAM_TYPES, Layer, Line, Observation, Run, Step, as_place, of_run
from flaskstream.doctor.check.places import FRAMEWORK, Place, kind_of

WAITING_PIECES = 3
"""From so many on that wait at once a layer holds: some take one, or two, before they send the headers."""

WORTH_STREAMING_MS = 200
"""What takes so long to make is worth being sent as it is made, whatever it is; a page takes a tenth of that."""

# The body, inside of Flask.


def _read_early(seen: Observation) -> Iterator[Finding]:
    for line in of_run(seen, "read_early") if seen.run and _is_read_early(seen.run) else ():
        how, place = _how(line), as_place(line["place"])
        who = place.function if place else "Something"
        pieces = seen.run.read_early if seen.run else 0
        made = f"{count(pieces, 'piece')} were made before one was sent" if pieces > 1 else "nothing was sent before"
        if line["phase"] == "view":
            yield found("body_joined_in_view", f"{who} reads the response of the view whole, with {how}.", place)
        else:
            yield found(
                "body_read_early",
                f"{who} reads the body with {how} after the view: {made}.",
                place,
                _hook_place(seen, place),
            )


def _is_read_early(run: Run) -> bool:
    """Tell whether more of the stream was taken than a look at its first piece."""
    return run.is_read_whole or run.read_early >= WAITING_PIECES


def _how(line: Line) -> str:
    return f"{line['through']}()" if line["through"] else "a loop over it"


def _hook_place(seen: Observation, place: Place | None) -> Place | None:
    """Return where the `after_request` function begins in which this is, if it is said."""
    for line in of_run(seen, "hook"):
        begins = as_place(line["place"])
        if begins and place and begins.file == place.file and begins.function.split(".")[-1] != place.function:
            return begins
    return None


def _joined(seen: Observation) -> Iterator[Finding]:
    for line in of_run(seen, "made"):
        joined = line["joined"]
        if joined:
            pieces = count(joined["pieces"], "piece")
            runs = f"The view runs {_generator_name(joined)} to the end, {pieces}, and returns one body"
            yield _joined_as(joined, line["mimetype"], runs, "the first piece leaves with the last")
        elif line["whole_stream"]:
            yield found(
                "stream_whole_from_start",
                f"The view returns all its events ({line['mimetype']}) in one body.",
                as_place(line["view"]),
            )


def _joined_as(joined: Line, mimetype: str, runs: str, therefore: str) -> Finding:
    """Return the finding on a generator that had ended too soon: of a stream, or of a page."""
    places = as_place(joined["taken_at"]), as_place(joined["place"])
    if _is_meant_to_stream(joined, mimetype):
        return found("body_joined_in_view", f"{runs}: {therefore}.", *places)
    sentence = f"{runs}. It took {joined['ms']:.1f} ms, and nothing in it looks like a stream."
    return found("page_joined_in_view", sentence, *places)


def _generator_name(joined: Line) -> str:
    generator = as_place(joined["place"])
    name = generator.function if generator else ""
    return "a generator expression" if name.startswith("<") else f"its generator {name}"


def _made_before(seen: Observation) -> Iterator[Finding]:
    """What was all there when the view returned, and is handed out by an iterator."""
    made = seen.run.made if seen.run else {}
    for joined in of_run(seen, "made_before") if seen.run and not _is_read_early(seen.run) else ():
        taken = f"{count(joined['pieces'], 'piece')} from {_generator_name(joined)}"
        runs = f"The view takes {taken} before it returns an iterator over them"
        yield _joined_as(joined, made.get("mimetype", ""), runs, "none leaves before the last one is made")
        return
    if made.get("in_a_list", 0) > 1 and made["mimetype"] in STREAM_TYPES:
        sentence = f"The view returns an iterator over a list of {made['in_a_list']} pieces: all of them are made."
        yield found("stream_whole_from_start", sentence, as_place(made["view"]))


def _view_compresses(seen: Observation) -> Iterator[Finding]:
    run = seen.run
    if run is None or run.source is None or not run.source.coding or run.most_empty < WAITING_PIECES:
        return
    sentence = (
        f"The view compresses ({run.source.coding}) and gives up to {count(run.most_empty, 'piece')} in a row with"
        " nothing of the content in them."
    )
    yield found("view_compresses", sentence, run.view)


def _is_meant_to_stream(joined: Line, mimetype: str) -> bool:
    """Tell a stream that was joined from a page that was made so: by its type, its content, or its time."""
    return mimetype in STREAM_TYPES or joined["events"] or joined["ms"] >= WORTH_STREAMING_MS


def _unstreamed_upstream(seen: Observation) -> Iterator[Finding]:
    for line in of_run(seen, "unstreamed_upstream"):
        yield found(
            "unstreamed_upstream",
            f"{line['library']} reads a whole {line['type']} of the upstream before it returns: {line['without']}.",
            as_place(line["place"]),
        )


# The body, through hooks and middleware.


def _layers_hold(seen: Observation) -> Iterator[Finding]:
    run = seen.run
    for step in run.steps if run else ():
        if _was_read_early(seen, step):
            continue  # whoever did that has been named
        finding = _holding(step)
        if finding:
            yield finding


def _was_read_early(seen: Observation, step: Step) -> bool:
    return seen.run is not None and step.inside is seen.run.source and _is_read_early(seen.run)


def _holding(step: Step) -> Finding | None:
    name, where = _name(step.layer), _places(step)
    taken = count(step.waiting, "piece")
    kind = "hook" if step.layer.of == "hook" else "middleware"
    if not step.holds_to_end and step.waiting < WAITING_PIECES:
        if step.is_behind:
            return found("one_piece_late", f"{name} keeps each piece until it has the next one.", *where)
        return None
    if kind_of(_file(step.layer)) == FRAMEWORK and step.layer.name == "Flask.wsgi_app":
        return found("response_joins", f"The response of the view keeps {taken}: its class does.", *where)
    until = "to the end" if step.holds_to_end else "at a time"
    if step.compresses:
        coding = step.layer.coding
        return found(f"{kind}_compresses", f"{name} compresses ({coding}) and keeps {taken} {until}.", *where)
    if step.holds_to_end and kind == "middleware":
        return found("middleware_joins", f"{name} reads the whole body, {taken}, before it hands on any.", *where)
    return found(f"{kind}_holds", f"{name} keeps {taken} {until}.", *where)


def _file(layer: Layer) -> str:
    return layer.place.file if layer.place else ""


def _name(layer: Layer) -> str:
    return layer.name or "The view"


def _places(step: Step) -> tuple[Place | None, ...]:
    """Return the line that reads what is inside, and where the layer is written."""
    reader = step.inside.pulled_by
    if reader is not None and kind_of(reader.file) == FRAMEWORK:
        return step.layer.place, reader
    return reader, step.layer.place


def _drops_close(seen: Observation) -> Iterator[Finding]:
    for step in seen.run.steps if seen.run and seen.run.all("over") else ():
        if not step.layer.was_closed or not step.inside.was_left_open or _was_read_early(seen, step):
            continue
        name, (first, *rest) = _name(step.layer), _places(step)
        if step.layer.of == "hook":
            sentence = f"{name} wraps the body and does not pass close() on: the generator ends when it is collected."
            yield found("hook_drops_close", sentence, step.layer.place, first, *rest)
        else:
            sentence = f"{name} does not pass close() on: what Flask does at the end of a response is never done."
            yield found("drops_close", sentence, step.layer.place, first, *rest)


def _guarded(seen: Observation) -> Iterator[Finding]:
    for line in of_run(seen, "guarded"):
        place = as_place(line["place"])
        who, raised = place.function if place else "Something", line.get("raised")
        what = f"{who} asks for the body of a stream with {_how(line)}"
        if raised:
            yield found("guard_raised", f"{what}; @event_stream refuses, with an error in debug mode.", place)
        else:
            yield found("guarded", f"{what}; @event_stream gives it an empty one, and nothing is held.", place)


BODY_RULES = (
    _read_early,
    _joined,
    _made_before,
    _view_compresses,
    _unstreamed_upstream,
    _layers_hold,
    _drops_close,
    _guarded,
)
"""All of them; adding one is a function, an entry here, and a row of `FINDINGS`."""
