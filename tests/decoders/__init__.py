"""The public decoders that our streams are read with: one file for each, and one entry in the table."""

from __future__ import annotations

import importlib.util
from typing import Callable

from decoders import (
    event_source,
    httpx_sse,
    launchdarkly_eventsource,
    node,
    openai_python,
    sseclient_py,
)
from decoders.reading import Decoder, one_by_one


def _needs(*modules: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        absent = [module for module in modules if importlib.util.find_spec(module) is None]
        return f"{', '.join(absent)} is not installed" if absent else None

    return missing


DECODERS = {
    decoder.name: decoder
    for decoder in (
        Decoder("openai", one_by_one(openai_python.read), _needs("openai"), tells_last_id=True),
        Decoder("httpx-sse", one_by_one(httpx_sse.read), _needs("httpx", "httpx_sse"), tells_last_id=True),
        Decoder("sseclient-py", one_by_one(sseclient_py.read), _needs("sseclient"), tells_last_id=False),
        Decoder(
            "launchdarkly-eventsource",
            one_by_one(launchdarkly_eventsource.read),
            _needs("ld_eventsource"),
            tells_last_id=True,
            tells_retry=False,
        ),
        Decoder("eventsource-parser", node.reader("eventsource_parser"), node.missing, tells_last_id=False),
        Decoder("@microsoft/fetch-event-source", node.reader("fetch_event_source"), node.missing, tells_last_id=False),
        Decoder("EventSource", event_source.read_all, event_source.missing, tells_last_id=True, tells_retry=False),
    )
}
