"""What `flaskstream doctor` and `flaskstream check` tell a script: one table for both."""

from __future__ import annotations

EXIT_STREAMS = 0
"""Every piece goes on as it comes."""
EXIT_HELD = 1
"""Something holds the bytes; the report names it."""
EXIT_CUT = 2
"""The stream is cut off; `doctor` alone can see that."""
EXIT_CANNOT_TELL = 3
"""Nothing to judge: no answer, an error page, no stream. The report says which."""
EXIT_USAGE = 64
"""The command was not understood (EX_USAGE of sysexits.h; 2, as click has it, means `EXIT_CUT` here)."""

MEANINGS = {
    EXIT_STREAMS: "streams",
    EXIT_HELD: "held",
    EXIT_CUT: "cut",
    EXIT_CANNOT_TELL: "cannot tell",
    EXIT_USAGE: "wrong usage",
}
