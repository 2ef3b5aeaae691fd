"""What the events of a model API mean: which are text, which end the answer, which are errors. Pure.

A dialect is one entry of `DIALECTS`: how its requests look and where they go, how its events are cut out of the bytes,
and one function that reads one event.
"""

from __future__ import annotations

from flaskstream.dialects.anthropic import ANTHROPIC
from flaskstream.dialects.dialect import Dialect, Reading, Usage
from flaskstream.dialects.ollama import OLLAMA
from flaskstream.dialects.openai import OPENAI
from flaskstream.dialects.plain import PLAIN, TEXT
from flaskstream.dialects.responses import RESPONSES
from flaskstream.dialects.tools import ToolCall, ToolCalls, ToolFragment

DIALECTS = {dialect.name: dialect for dialect in (OPENAI, RESPONSES, ANTHROPIC, OLLAMA, PLAIN, TEXT)}

__all__ = [
    "ANTHROPIC",
    "DIALECTS",
    "OLLAMA",
    "OPENAI",
    "PLAIN",
    "RESPONSES",
    "TEXT",
    "Dialect",
    "Reading",
    "ToolCall",
    "ToolCalls",
    "ToolFragment",
    "Usage",
]
