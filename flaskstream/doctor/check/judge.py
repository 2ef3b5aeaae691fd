"""What the observation means: a table of rules, each a function that yields findings; and the verdict. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterator

from flaskstream.doctor.check.findings import HOLDS, Finding
from flaskstream.doctor.check.observation import Layer, Line, Observation, Run, Step, as_place
from flaskstream.doctor.check.places import FRAMEWORK, Place, kind_of
from flaskstream.doctor.exit_codes import EXIT_CANNOT_TELL, EXIT_HELD, EXIT_STREAMS

WAITING_PIECES = 3
"""From so many on that wait at once a layer holds: some take one, or two, before they send the headers."""

STREAMS, HELD, CANNOT_TELL = "streams", "held", "cannot_tell"

EXIT_CODES = {STREAMS: EXIT_STREAMS, HELD: EXIT_HELD, CANNOT_TELL: EXIT_CANNOT_TELL}


@dataclass(frozen=True)
class Verdict:
    """Whether the stream goes through the process piece by piece.

    Attributes:
        name: `streams`, `held` or `cannot_tell`.
        sentence: that, and why.
        findings: the gravest first.
    """

    name: str
    sentence: str
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """What the command tells a script."""
        return EXIT_CODES[self.name]


def judge(seen: Observation) -> Verdict:
    """Return the verdict on what was seen."""
    found = [finding for rule in RULES for finding in rule(seen)]
    order = {name: rank for rank, name in enumerate(("holds", "fault", "warning", "note"))}
    findings = tuple(sorted(dict.fromkeys(found), key=lambda finding: order[finding.row.severity]))
    holding = [finding for finding in findings if finding.row.severity == HOLDS]
    if holding:
        where = next((str(finding.places[0]) for finding in holding if finding.places), "")
        return Verdict(HELD, f"Held, inside of this process{': ' + where if where else ''}.", findings)
    unknown = why_unknown(seen)
    if unknown:
        return Verdict(CANNOT_TELL, f"Cannot tell: {unknown}.", findings)
    return Verdict(STREAMS, "Streams: each piece leaves this process before the next one is made.", findings)


def why_unknown(seen: Observation) -> str:
    """Return why there is no stream to judge; empty, if there is one."""
    run = seen.run
    if run is None:
        return _why_no_run(seen)
    pieces = run.source.pieces if run.source else 0
    stuck = next(iter(run.all("stuck")), None)
    failed = run.all("failed") or run.all("raised")
    if stuck is not None:
        where = as_place(stuck["at"])
        return f"it was given up after {_count(pieces, 'piece')}, while it waited{f' at {where}' if where else ''}"
    if seen.one("child").get("killed"):
        return "the process gave no sign of life any more, and was killed"
    if failed and pieces < 2:
        return f"it failed: {failed[0]['error']}"
    if not run.status:
        return "the app gave no answer"
    if not run.status.startswith("2"):
        return f"the app answered {run.status}{_hint(run)}"
    if run.source is None:
        return _why_no_stream(seen, run)
    return "" if pieces > 1 else f"the view gave {_count(pieces, 'piece')}, and two are needed"


def _why_no_run(seen: Observation) -> str:
    failed = seen.one("not_loaded")
    if failed:
        last = [line.strip() for line in seen.one("child").get("stderr", "").splitlines() if line.strip()]
        is_silent = failed["error"].startswith("SystemExit") and last
        return f"the app cannot be loaded: {last[-1] if is_silent else failed['error']}"
    if seen.one("child").get("killed"):
        return "the app did not load in time"
    if not seen.one("found"):
        return f"the check itself failed: {seen.one('crashed').get('error') or seen.one('child').get('stderr')}"
    return "no PATH was given, so no view was run"


def _hint(run: Run) -> str:
    location = {name.lower(): value for name, value in run.headers}.get("location")
    if location:
        return f" to {location} (a login? -H 'Cookie: ...' gives one)"
    return ""


def _why_no_stream(seen: Observation, run: Run) -> str:
    if not seen.one("found").get("flask"):
        return "no Flask app was found in it, so its view cannot be watched"
    if run.made.get("file"):
        return "the view sends a file"
    return "the view returns one whole body, and no stream"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _found(code: str, sentence: str, *places: Place | None) -> Finding:
    return Finding(code, sentence, tuple(dict.fromkeys(place for place in places if place is not None)))


# The body, inside of Flask.


def _read_early(seen: Observation) -> Iterator[Finding]:
    for line in _of_run(seen, "read_early"):
        how, place = _how(line), as_place(line["place"])
        who = place.function if place else "Something"
        pieces = _count(seen.run.source.pieces if seen.run and seen.run.source else 0, "piece")
        if line["phase"] == "view":
            yield _found("body_joined_in_view", f"{who} reads the response of the view whole, with {how}.", place)
        else:
            yield _found(
                "body_read_early",
                f"{who} reads the body with {how} after the view: all {pieces} were made before one was sent.",
                place,
                _hook_place(seen, place),
            )


def _how(line: Line) -> str:
    return f"{line['through']}()" if line["through"] else "a loop over it"


def _hook_place(seen: Observation, place: Place | None) -> Place | None:
    """Return where the `after_request` function begins in which this is, if it is said."""
    for line in _of_run(seen, "hook"):
        begins = as_place(line["place"])
        if begins and place and begins.file == place.file and begins.function != place.function:
            return begins
    return None


def _joined(seen: Observation) -> Iterator[Finding]:
    for line in _of_run(seen, "made"):
        joined = line["joined"]
        if joined:
            taken, generator = as_place(joined["taken_at"]), as_place(joined["place"])
            name = generator.function if generator else ""
            yield _found(
                "body_joined_in_view",
                f"The view runs its generator {name} to the end, {_count(joined['pieces'], 'piece')}, and returns one"
                " body: the first piece leaves with the last.",
                taken,
                generator,
            )
        elif line["whole_stream"]:
            yield _found(
                "stream_whole_from_start",
                f"The view returns all its events ({line['mimetype']}) in one body.",
                as_place(line["view"]),
            )


def _unstreamed_upstream(seen: Observation) -> Iterator[Finding]:
    for line in _of_run(seen, "unstreamed_upstream"):
        yield _found(
            "unstreamed_upstream",
            f"requests reads a whole {line['type']} of the upstream before it returns: there is no stream=True.",
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
    return seen.run is not None and step.inside is seen.run.source and bool(seen.run.all("read_early"))


def _holding(step: Step) -> Finding | None:
    name, where = _name(step.layer), _places(step)
    taken = _count(step.waiting, "piece")
    kind = "hook" if step.layer.of == "hook" else "middleware"
    if not step.holds_to_end and step.waiting < WAITING_PIECES:
        if step.is_behind:
            return _found("one_piece_late", f"{name} keeps each piece until it has the next one.", *where)
        return None
    until = "to the end" if step.holds_to_end else "at a time"
    if step.compresses:
        coding = step.layer.coding
        return _found(f"{kind}_compresses", f"{name} compresses ({coding}) and keeps {taken} {until}.", *where)
    if step.holds_to_end and kind == "middleware":
        return _found("middleware_joins", f"{name} reads the whole body, {taken}, before it hands on any.", *where)
    return _found(f"{kind}_holds", f"{name} keeps {taken} {until}.", *where)


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
        if not step.layer.was_closed or step.inside.was_closed or _was_read_early(seen, step):
            continue
        name, (first, *rest) = _name(step.layer), _places(step)
        if step.layer.of == "hook":
            sentence = f"{name} wraps the body and does not pass close() on: the generator ends when it is collected."
            yield _found("hook_drops_close", sentence, step.layer.place, first, *rest)
        else:
            sentence = f"{name} does not pass close() on: what Flask does at the end of a response is never done."
            yield _found("drops_close", sentence, step.layer.place, first, *rest)


def _guarded(seen: Observation) -> Iterator[Finding]:
    for line in _of_run(seen, "guarded"):
        place = as_place(line["place"])
        who, raised = place.function if place else "Something", line.get("raised")
        what = f"{who} asks for the body of a stream with {_how(line)}"
        if raised:
            yield _found("guard_raised", f"{what}; @event_stream refuses, with an error in debug mode.", place)
        else:
            yield _found("guarded", f"{what}; @event_stream gives it an empty one, and nothing is held.", place)


# The process.


def _late_patching(seen: Observation) -> Iterator[Finding]:
    tls = seen.one("tls")
    if not tls or (seen.one("not_loaded") and not tls["error"] and "gevent must patch" not in _stderr(seen)):
        return
    holders = tls["holders"]
    lines = [as_place(chain[-1]) for chain in (holder["chain"] for holder in holders) if chain]
    if holders:
        names = ", ".join(holder["module"] for holder in holders[:4])
        fails = "no TLS context can be built by them" if tls["error"] else "they keep the unpatched one"
        sentence = f"{names} took hold of ssl before gevent patched it: {fails}{_in_brackets(tls['error'])}."
        yield _found("late_patching", sentence, *lines)
    elif tls["error"]:
        yield _found("no_tls", f"A TLS context cannot be built: {tls['error']}.")


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _stderr(seen: Observation) -> str:
    return str(seen.one("child").get("stderr", ""))


def _blocking(seen: Observation) -> Iterator[Finding]:
    for line in seen.all("blocking"):
        name = line["module"]
        yield _found(
            "blocking_module",
            f"{name} waits outside of gevent's hub: while it does, no other stream of the worker gets a turn.",
            as_place(line["place"]),
        )
    if not seen.one("loaded").get("patched"):
        return
    for line in _of_run(seen, "asyncio_run"):
        yield _found(
            "asyncio_run", "asyncio.run() has a loop of its own, which stops gevent's.", as_place(line["place"])
        )


def _sync_worker(seen: Observation) -> Iterator[Finding]:
    loaded = seen.one("loaded")
    if loaded.get("worker") == "sync":
        sentence = f"{loaded['config']} has a sync worker: it serves one stream at a time, and is killed at `timeout`."
        yield Finding("sync_worker", sentence)


# The view's own code.


def _closing(seen: Observation) -> Iterator[Finding]:
    lines = seen.all("yields_while_closing")
    for line in lines:
        place = as_place(line["place"])
        name = place.function if place else ""
        yield _found(
            "yields_while_closing",
            f"{name} yields where it is closed: its cleanup breaks off when a client goes.",
            place,
        )
    for line in () if lines else _of_run(seen, "not_closed"):
        yield _found(
            "yields_while_closing",
            f"The generator did not let itself be closed: {line['error']}.",
            as_place(line["at"]),
        )


def _failed(seen: Observation) -> Iterator[Finding]:
    source = seen.run.source if seen.run else None
    for line in _of_run(seen, "failed"):
        if source is not None and line["boundary"] == source.number:
            sent = "the client has a 200 and" if seen.run and seen.run.status.startswith("200") else "the client has"
            yield _found(
                "view_failed",
                f"The generator raised {line['error']}: {sent} {_count(source.pieces, 'piece')}.",
                as_place(line["at"]),
            )


def _unflushed(seen: Observation) -> Iterator[Finding]:
    for line in _of_run(seen, "unflushed"):
        place = as_place(line["place"])
        name = place.function if place else ""
        yield _found("unflushed_print", f"{name} prints without a flush: on a pipe it waits for 8 KB.", place)


def _may_read(seen: Observation) -> Iterator[Finding]:
    for line in seen.all("after_request") if seen.run is None else ():
        if line["reads"]:
            what = ", ".join(dict.fromkeys(name for name, _ in line["reads"]))
            places = [as_place(place) for _, place in line["reads"]]
            yield _found("may_read_bodies", f"{line['name']} uses {what} of every response.", *places)


def _of_run(seen: Observation, kind: str) -> list[Line]:
    return seen.run.all(kind) if seen.run else []


Rule = Callable[[Observation], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    *(_read_early, _joined, _unstreamed_upstream, _layers_hold, _drops_close, _guarded),
    *(_late_patching, _blocking, _sync_worker, _closing, _failed, _unflushed, _may_read),
)
"""Every rule is asked; adding one is a function, an entry here, and a row of `FINDINGS`."""
