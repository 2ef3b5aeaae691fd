"""The official clients of OpenAI and Anthropic, one file for each package, and one table: all hear the same."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import partial
from typing import Callable

from sdks import anthropic_python, node, openai_python
from sdks.heard import Heard, Question


@dataclass(frozen=True)
class Sdk:
    """One way to use one of the packages.

    Attributes:
        name: of the package, and of the way.
        dialect: which API it speaks.
        ask: asks a question, and returns when all is heard.
        missing: tells what is not there without which it cannot be asked; `None`: nothing.
        has_whole: it can also be asked for one object in place of a stream.
    """

    name: str
    dialect: str
    ask: Callable[[Question], Heard]
    missing: Callable[[], str | None]
    has_whole: bool = True


def _missing_module(module: str) -> str | None:
    return None if importlib.util.find_spec(module) else f"{module} is not installed"


_OPENAI, _ANTHROPIC = partial(_missing_module, "openai"), partial(_missing_module, "anthropic")
_NPM_OPENAI, _NPM_ANTHROPIC = partial(node.missing, "openai"), partial(node.missing, "@anthropic-ai/sdk")

SDKS = {
    sdk.name: sdk
    for sdk in (
        Sdk("openai", "openai", openai_python.ask, _OPENAI),
        Sdk("openai-helper", "openai", openai_python.ask_helper, _OPENAI, has_whole=False),
        Sdk("openai-async", "openai", openai_python.ask_async, _OPENAI),
        Sdk("openai-node", "openai", node.asker("sdk_openai.mjs", "plain"), _NPM_OPENAI),
        Sdk("openai-node-helper", "openai", node.asker("sdk_openai.mjs", "helper"), _NPM_OPENAI, has_whole=False),
        Sdk("anthropic", "anthropic", anthropic_python.ask, _ANTHROPIC),
        Sdk("anthropic-helper", "anthropic", anthropic_python.ask_helper, _ANTHROPIC, has_whole=False),
        Sdk("anthropic-async", "anthropic", anthropic_python.ask_async, _ANTHROPIC),
        Sdk("anthropic-node", "anthropic", node.asker("sdk_anthropic.mjs", "plain"), _NPM_ANTHROPIC),
        Sdk(
            "anthropic-node-helper",
            "anthropic",
            node.asker("sdk_anthropic.mjs", "helper"),
            _NPM_ANTHROPIC,
            has_whole=False,
        ),
    )
}
