"""What a diagnosis means for a script: one exit code. Pure."""

from __future__ import annotations

from flaskstream.doctor.diagnosis import Diagnosis
from flaskstream.doctor.exit_codes import EXIT_CANNOT_TELL, EXIT_CUT, EXIT_HELD, EXIT_STREAMS

_CUTS = frozenset({"cut_by_silence", "cut_by_duration", "truncated"})
_CANNOT_TELL = frozenset({"unreachable", "not_a_stream"})


def exit_code_of(diagnosis: Diagnosis) -> int:
    """Return the worst of its hops: one that holds before one that cuts, before one that cannot be judged."""
    found = {diagnosis.hops[n].verdict.name for n in diagnosis.offenders}
    if found - _CUTS - _CANNOT_TELL:
        return EXIT_HELD
    if found & _CUTS:
        return EXIT_CUT
    return EXIT_CANNOT_TELL if found else EXIT_STREAMS
