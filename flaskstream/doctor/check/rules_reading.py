"""Whether the HTTP client library of the process hands over what it has. Pure; see `rules_body`."""

from __future__ import annotations

from typing import Iterator, Mapping

from flaskstream.doctor.check.findings import Finding, found
from flaskstream.doctor.check.observation import Observation, as_place, of_run

OURS = "flaskstream.Upstream"

WAYS: Mapping[str, str] = {"iter_content": "iter_content(None)", "iter_lines": "iter_lines()", OURS: OURS}
"""The ways to read an upstream that are tried, and how they are written."""

FRAMINGS: Mapping[str, str] = {"chunked": "chunked", "close": "until it closes", "length": "with a length"}
"""The framings, in words."""

PROMPT = frozenset({("iter_content", "chunked"), ("iter_lines", "chunked"), *((OURS, framing) for framing in FRAMINGS)})
"""What hands each piece over as it comes, where the library is as it was released. The others wait, everywhere."""


def how_read(seen: Observation) -> Mapping[tuple[str, str], bool]:
    """Return, by way and framing, whether a piece was handed over before the next one was sent."""
    return {(line["way"], line["framing"]): bool(line["prompt"]) for line in seen.all("reading")}


def library(seen: Observation) -> str:
    """Return what the ways run on: names and versions, as they are installed."""
    reader = seen.one("reader")
    names = ", ".join(f"{name} {version}" for name, version in reader.get("versions", {}).items())
    flavours = reader.get("flavours", ())
    return names + (f" (installed are {' and '.join(flavours)})" if len(flavours) > 1 else "")


def _late(seen: Observation) -> Iterator[Finding]:
    late = [(way, framing) for (way, framing), prompt in how_read(seen).items() if not prompt]
    late = [pair for pair in late if pair in PROMPT]
    if not late:
        return
    ways = "; ".join(
        f"{WAYS[way]} {' and '.join(FRAMINGS[framing] for other, framing in late if other == way)}"
        for way in WAYS
        if any(other == way for other, _ in late)
    )
    yield found(
        "library_holds" if _has_asked(seen) else "library_would_hold",
        f"The HTTP client library waits for more before it hands over what it has: {ways}. It is {library(seen)}.",
    )


def _has_asked(seen: Observation) -> bool:
    """Tell whether the view has asked an upstream, with the library that was tried."""
    return any(line["library"] == "requests" for line in of_run(seen, "asked_upstream"))


def _read_late(seen: Observation) -> Iterator[Finding]:
    read = how_read(seen)
    for line in of_run(seen, "read_upstream"):
        way, framing, place = line["way"], line["framing"], as_place(line["place"])
        who = place.function if place else "Something"
        if way == "content":
            yield found("upstream_read_late", f"{who} reads the whole answer of its upstream before it goes on.", place)
        elif _is_large(line["size"]) and (way, framing) not in PROMPT and not read.get((way, framing), True):
            yield found(
                "upstream_read_late",
                f"{who} reads its upstream with {way}(), which waits for the end of a body that is not chunked; this"
                f" one comes {FRAMINGS[framing]}.",
                place,
            )


def _is_large(size: int | None) -> bool:
    return size is None or size >= LARGE_BYTES


LARGE_BYTES = 64
"""Who asks for so many waits for several tokens; the workaround that is known asks for 1."""

READING_RULES = (_late, _read_late)
"""All of them."""
