"""What is wrong beside the body: in the process, and in the view's own code. Pure; see `rules_body`."""

from __future__ import annotations

from typing import Iterator

from flaskstream.doctor.check.findings import Finding, count, found
from flaskstream.doctor.check.observation import Observation, as_place, of_run

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
        yield found("late_patching", sentence, *lines)
    elif tls["error"]:
        yield found("no_tls", f"A TLS context cannot be built: {tls['error']}.")


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _stderr(seen: Observation) -> str:
    return str(seen.one("child").get("stderr", ""))


def _blocking(seen: Observation) -> Iterator[Finding]:
    for line in seen.all("blocking"):
        name = line["module"]
        yield found(
            "blocking_module",
            f"{name} waits outside of gevent's hub: while it does, no other stream of the worker gets a turn.",
            as_place(line["place"]),
        )
    for line in of_run(seen, "hub_blocked"):
        place, least = as_place(line["place"]), f"{line['blocked_ms']:.0f} ms"
        name = place.function if place else ""
        yield found("blocked_hub", f"{name} works for {least} or more and lets no other stream have a turn.", place)
    if not seen.one("loaded").get("patched_by"):
        return
    for line in of_run(seen, "asyncio_run"):
        yield found(
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
        yield found(
            "yields_while_closing",
            f"{name} yields where it is closed: its cleanup breaks off when a client goes.",
            place,
        )
    for line in () if lines else of_run(seen, "not_closed"):
        yield found(
            "yields_while_closing",
            f"The generator did not let itself be closed: {line['error']}.",
            as_place(line["at"]),
        )


def _failed(seen: Observation) -> Iterator[Finding]:
    source = seen.run.source if seen.run else None
    for line in of_run(seen, "failed"):
        if source is not None and line["boundary"] == source.number:
            sent = "the client has a 200 and" if seen.run and seen.run.status.startswith("200") else "the client has"
            did = line["error"] if line.get("is_no_piece") else f"raised {line['error']}"
            yield found(
                "view_failed",
                f"The generator {did}: {sent} {count(source.pieces, 'piece')}.",
                as_place(line["at"]),
            )


def _unflushed(seen: Observation) -> Iterator[Finding]:
    for line in of_run(seen, "unflushed"):
        place = as_place(line["place"])
        name = place.function if place else ""
        yield found("unflushed_print", f"{name} prints without a flush: on a pipe it waits for 8 KB.", place)


def _may_read(seen: Observation) -> Iterator[Finding]:
    for line in seen.all("after_request") if seen.run is None else ():
        if line["reads"]:
            what = ", ".join(dict.fromkeys(name for name, _ in line["reads"]))
            places = [as_place(place) for _, place in line["reads"]]
            yield found("may_read_bodies", f"{line['name']} uses {what} of every response.", *places)


PROCESS_RULES = (_late_patching, _blocking, _sync_worker, _closing, _failed, _unflushed, _may_read)
"""All of them."""
