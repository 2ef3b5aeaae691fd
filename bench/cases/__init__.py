"""The kinds of work, one a file, in the order in which they are measured and shown."""

from __future__ import annotations

from typing import Mapping

from bench.case import Case
from bench.cases.decoder import DECODER
from bench.cases.emit import EMIT
from bench.cases.first_token import FIRST_TOKEN
from bench.cases.gone import GONE
from bench.cases.idle import IDLE
from bench.cases.overload import OVERLOAD
from bench.cases.relay import RELAY
from bench.cases.short import SHORT
from bench.cases.stores import STORES

CASES: Mapping[str, Case] = {
    case.name: case for case in (RELAY, EMIT, FIRST_TOKEN, SHORT, IDLE, OVERLOAD, GONE, DECODER, STORES)
}
