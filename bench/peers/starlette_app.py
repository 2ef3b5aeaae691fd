"""The usual asynchronous stack: Starlette, httpx and sse-starlette, under uvicorn with uvloop and httptools."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import Any, AsyncIterator

import httpx
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from bench import emitting

UPSTREAM = os.environ["BENCH_UPSTREAM"]

client = httpx.AsyncClient(limits=httpx.Limits(max_connections=None), timeout=60)


async def completions(request: Request) -> EventSourceResponse:
    payload = await request.json()

    async def generate() -> AsyncIterator[dict[str, Any]]:
        async with client.stream("POST", UPSTREAM + "/chat/completions", json=payload) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield {"data": line[6:]}

    return EventSourceResponse(generate())


async def emit(request: Request) -> EventSourceResponse:
    async def generate() -> AsyncIterator[dict[str, Any]]:
        while True:
            yield {"data": json.dumps({"t": emitting.text()})}
            await asyncio.sleep(emitting.INTERVAL_SECONDS)

    return EventSourceResponse(generate())


async def index(request: Request) -> PlainTextResponse:
    return PlainTextResponse("ready")


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    yield
    await client.aclose()


app = Starlette(
    routes=[
        Route("/v1/chat/completions", completions, methods=["POST"]),
        Route("/emit", emit),
        Route("/", index),
    ],
    lifespan=lifespan,
)
