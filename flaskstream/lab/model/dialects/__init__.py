"""The JSON of each API that the embedded model speaks: one entry of `DIALECTS`, and one file, for each. Pure.

The reading side, `flaskstream.dialects`, is another's work: the one is tested against the other.
"""

from __future__ import annotations

from flaskstream.lab.model.dialects.anthropic import ANTHROPIC
from flaskstream.lab.model.dialects.dialect import CREATED, Dialect, Voice, to_json
from flaskstream.lab.model.dialects.openai import OPENAI

DIALECTS = {dialect.name: dialect for dialect in (OPENAI, ANTHROPIC)}

__all__ = ["ANTHROPIC", "CREATED", "DIALECTS", "OPENAI", "Dialect", "Voice", "to_json"]
