"""What the observation means: what all rules find, and the verdict. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from flaskstream.doctor.check.findings import HOLDS, SEVERITIES, Finding, count
from flaskstream.doctor.check.observation import Line, Observation, Run, as_place
from flaskstream.doctor.check.rules_body import BODY_RULES
from flaskstream.doctor.check.rules_process import PROCESS_RULES
from flaskstream.doctor.check.rules_reading import READING_RULES
from flaskstream.doctor.exit_codes import EXIT_CANNOT_TELL, EXIT_HELD, EXIT_STREAMS

STREAMS, HELD, CANNOT_TELL = "streams", "held", "cannot_tell"

RULES = (*BODY_RULES, *READING_RULES, *PROCESS_RULES)

LONG_WAIT_MS, AT_ONCE_RATIO = 500, 50
"""Pieces that follow in a fiftieth of so long a wait for the first one may have been there together."""

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
    every = dict.fromkeys(finding for rule in RULES for finding in rule(seen))
    if _is_other_answer(seen.run):
        every = {finding: None for finding in every if finding.row.severity != HOLDS}
    findings = tuple(sorted(every, key=lambda finding: SEVERITIES.index(finding.row.severity)))
    holding = [finding for finding in findings if finding.row.severity == HOLDS]
    if holding:
        where = next((str(finding.places[0]) for finding in holding if finding.places), "")
        return Verdict(HELD, f"Held, inside of this process{': ' + where if where else ''}.", findings)
    unknown = why_unknown(seen)
    if unknown:
        return Verdict(CANNOT_TELL, f"Cannot tell: {unknown}.", findings)
    return Verdict(
        STREAMS, "Streams: each piece leaves this process before the view is asked for the next one.", findings
    )


def _is_other_answer(run: Run | None) -> bool:
    """Tell whether it is an error page, a redirect: that may be joined, and holds no stream."""
    return run is not None and run.source is None and not run.status.startswith("2")


def why_unknown(seen: Observation) -> str:
    """Return why there is no stream to judge; empty, if there is one."""
    ended = _why_ended(seen)
    if ended:
        return ended
    run = seen.run
    if run is None:
        return _why_no_run(seen)
    pieces = run.source.pieces if run.source else 0
    stuck = next(iter(run.all("stuck")), None)
    failed = run.all("failed") or run.all("raised")
    if stuck is not None and pieces < 2:
        where = as_place(stuck["at"])
        waited = f"while it waited{f' at {where}' if where else ''}"
        return f"it was given up after {count(pieces, 'piece')}, {waited} (--seconds gives it longer)"
    if seen.one("child").get("killed"):
        return "the view let nothing else run in its process any more, which was killed"
    if failed and (pieces < 2 or any(line.get("fatal") for line in run.all("raised"))):
        return f"it failed: {failed[0]['error']}"
    if not run.status:
        return "the app gave no answer"
    handled = run.all("handled")
    if handled and run.status.startswith("500"):
        where = as_place(handled[-1]["at"])
        return f"the view failed with {handled[-1]['error']}{f' at {where}' if where else ''}"
    if not run.status.startswith("2"):
        return _why_refused(run)
    if run.source is None:
        return _why_no_stream(seen, run)
    if pieces < 2:
        return f"the view gave {count(pieces, 'piece')}, and two are needed"
    return _why_at_once(run)


def _why_at_once(run: Run) -> str:
    """Return why the pieces may all have been made before the first one left; empty: they were not."""
    if run.waited_ms < LONG_WAIT_MS or run.rest_ms > run.waited_ms / AT_ONCE_RATIO:
        return ""
    return (
        f"the first piece took {run.waited_ms:.0f} ms, and then all came within {max(run.rest_ms, 1):.0f} ms: were they"
        " made before the first one left? (a source that takes its time would tell)"
    )


def _why_ended(seen: Observation) -> str:
    """Return how the app has ended the process in which it was looked at; empty, if it has not."""
    code = seen.one("child").get("returncode")
    if code is None or not seen.one("began"):
        return ""
    when = "in the request" if seen.run else "while it was loaded"
    return f"the app ended its process {when}, {_how_ended(code)}"


def _how_ended(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"by signal {-code}"


def _why_no_run(seen: Observation) -> str:
    failed = seen.one("not_loaded")
    if failed:
        last = [line.strip() for line in seen.one("child").get("stderr", "").splitlines() if line.strip()]
        is_silent = failed["error"].startswith("SystemExit") and last
        return f"the app cannot be loaded: {last[-1] if is_silent else failed['error']}"
    if seen.one("loading"):
        return _why_not_loaded(seen.one("loading"))
    if seen.one("child").get("killed"):
        return "the app did not load in time"
    if seen.one("factory"):
        name = seen.one("factory")["name"]
        return f"{name} is no app but a factory: write {name}() after the colon, with its arguments if it needs any"
    if not seen.one("found"):
        return f"the check itself failed: {seen.one('crashed').get('error') or seen.one('child').get('stderr')}"
    return "no PATH was given, so no view was run"


def _why_not_loaded(loading: Line) -> str:
    """Return where an app is that loads for too long."""
    where = as_place(loading["at"])
    told = f"the app did not load in {loading['seconds']:g} s{f': it is at {where}' if where else ''}"
    if loading["serves"]:
        return f"{told}, where it serves itself: that belongs under if __name__ == '__main__'"
    return f"{told} (--load-seconds gives it longer)"


def _why_refused(run: Run) -> str:
    """Return what the answer is, where it is no 2xx, and what to ask instead."""
    code, headers = run.status[:3], {name.lower(): value for name, value in run.headers}
    if code == "404" and run.view is None:
        return "the app has no route for this PATH (404); without a PATH, check lists the routes"
    hint = _HINTS.get(code, "")
    if code == "405" and "allow" in headers:
        methods = sorted(set(headers["allow"].replace(" ", "").split(",")) - {"OPTIONS", "HEAD"})
        hint = f"-X {' or -X '.join(methods)}"
    if "location" in headers:
        is_slash = run.view is None and headers["location"].endswith("/")  # Flask's own redirect
        hint = "give that PATH" if is_slash else "a login? -H 'Cookie: ...' gives one"
        return f"the app answered {run.status} to {headers['location']} ({hint})"
    return f"the app answered {run.status}{f' ({hint})' if hint else ''}"


_HINTS = {
    "400": "something is missing? PATH takes a query, -d a body, -H a header",
    "401": "a login? -H 'Authorization: ...' or -H 'Cookie: ...' gives one",
    "403": "a login? -H 'Authorization: ...' or -H 'Cookie: ...' gives one",
    "415": "it wants a body: -d DATA, -H 'Content-Type: ...'",
}
"""What is missing, by the status."""


def _why_no_stream(seen: Observation, run: Run) -> str:
    if not seen.one("found").get("flask"):
        return "no Flask app was found in it, so its view cannot be watched"
    if run.made.get("file"):
        return "the view sends a file"
    return "the view returns one whole body, and no stream"
