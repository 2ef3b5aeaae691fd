"""What a comparison measured, and what it shows: the values that the printers print.

A `Comparison` is the fixed mode, the broken mode and each fault alone; `lab.runs` holds what each of
them is made of, `lab.judge` the rules of the verdict. No input or output.
"""

from __future__ import annotations

from dataclasses import dataclass

from flaskstream.lab.judge import Verdict, verdict_on
from flaskstream.lab.runs import ENDINGS, ClientRun, ServerRun

__all__ = ["ENDINGS", "ClientRun", "Comparison", "FaultLine", "ServerRun", "Verdict"]


@dataclass(frozen=True)
class FaultLine:
    """One mistake switched on alone, beside the fixed mode under the same conditions.

    Args:
        name: the fault's name in `FLASKSTREAM_FAULTS`.
        sentence: what goes wrong.
        cure: what to do instead.
        cause: what the doctor calls it.
        faulty: the run with it.
        control: the run without it.
        shows: its signature was seen in `faulty` and not in `control`.
        evidence: one line with figures.
    """

    name: str
    sentence: str
    cure: str
    cause: str
    faulty: ServerRun
    control: ServerRun
    shows: bool
    evidence: str


@dataclass(frozen=True)
class Comparison:
    """Everything that one `flaskstream compare` measured.

    Args:
        fixed: the fixed mode.
        broken: the broken mode.
        faults: each fault alone.
        machine: where it ran, and with what releases.
        seconds: how long the whole comparison took.
    """

    fixed: ServerRun
    broken: ServerRun
    faults: tuple[FaultLine, ...]
    machine: str
    seconds: float

    @property
    def verdict(self) -> Verdict:
        return verdict_on(self.fixed, self.broken)
