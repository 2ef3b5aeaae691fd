"""The Python package `anthropic`: as `openai_python`, its plain stream, its helper, and its asynchronous client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from sdks.heard import API_KEY, MAX_TOKENS, MESSAGES, Heard, Question


def _client(question: Question) -> dict[str, Any]:
    base = question.server + "/stream"
    return {"api_key": API_KEY, "base_url": base, "max_retries": 0, "timeout": question.timeout}


def _wanted(question: Question) -> dict[str, Any]:
    return {"model": question.model, "messages": MESSAGES, "max_tokens": MAX_TOKENS}


def ask(question: Question) -> Heard:
    import anthropic

    heard = Heard()
    try:
        with anthropic.Anthropic(**_client(question)) as client:
            if question.stream:
                with client.messages.create(**_wanted(question), stream=True) as stream:
                    for event in stream:
                        _take(heard, event)
                        if not heard.wants_more(question):
                            break
            else:
                _take_whole(heard, client.messages.create(**_wanted(question)))
    except Exception as error:
        heard.fail(error)
    return heard


def ask_helper(question: Question) -> Heard:
    import anthropic

    heard = Heard()
    try:
        with anthropic.Anthropic(**_client(question)) as client, client.messages.stream(**_wanted(question)) as stream:
            for event in stream:
                if event.type == "text":
                    heard.hear(event.text)
                if not heard.wants_more(question):
                    return heard
            _take_whole(heard, stream.get_final_message())
    except Exception as error:
        heard.fail(error)
    return heard


def ask_async(question: Question) -> Heard:
    return asyncio.run(_ask_async(question))


async def _ask_async(question: Question) -> Heard:
    import anthropic

    heard = Heard()
    try:
        async with anthropic.AsyncAnthropic(**_client(question)) as client:
            if question.stream:
                async with await client.messages.create(**_wanted(question), stream=True) as stream:
                    async for event in stream:
                        _take(heard, event)
                        if not heard.wants_more(question):
                            break
            else:
                _take_whole(heard, await client.messages.create(**_wanted(question)))
    except Exception as error:
        heard.fail(error)
    return heard


def _take(heard: Heard, event: Any) -> None:
    if event.type == "message_start":
        heard.usage = [event.message.usage.input_tokens, 0]
    elif event.type == "content_block_start" and event.content_block.type == "tool_use":
        heard.calls[event.index] = [event.content_block.id, event.content_block.name, ""]
    elif event.type == "content_block_delta" and event.delta.type == "text_delta":
        heard.hear(event.delta.text)
    elif event.type == "content_block_delta":
        heard.calls[event.index][2] += event.delta.partial_json
    elif event.type == "message_delta":
        assert heard.usage
        heard.usage[1] = event.usage.output_tokens
        heard.finish = event.delta.stop_reason


def _take_whole(heard: Heard, message: Any) -> None:
    heard.hear_whole("".join(block.text for block in message.content if block.type == "text"))
    for n, block in enumerate(message.content):
        if block.type == "tool_use":
            heard.calls[n] = [block.id, block.name, json.dumps(block.input)]
    heard.usage = [message.usage.input_tokens, message.usage.output_tokens]
    heard.finish = message.stop_reason
    heard.request_id = getattr(message, "_request_id", None)  # what was put together from a stream has none
