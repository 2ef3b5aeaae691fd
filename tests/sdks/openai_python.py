"""The Python package `openai`: its plain stream, its helper that puts the parts together, its asynchronous client."""

from __future__ import annotations

import asyncio
from typing import Any

from sdks.heard import API_KEY, MESSAGES, Heard, Question


def _client(question: Question) -> dict[str, Any]:
    base = question.server + "/stream/v1"
    return {"api_key": API_KEY, "base_url": base, "max_retries": 0, "timeout": question.timeout}


def _wanted(question: Question) -> dict[str, Any]:
    return {"model": question.model, "messages": MESSAGES}


USAGE: Any = {"include_usage": True}


def ask(question: Question) -> Heard:
    import openai

    heard = Heard()
    try:
        with openai.OpenAI(**_client(question)) as client:
            if question.stream:
                with client.chat.completions.create(**_wanted(question), stream=True, stream_options=USAGE) as stream:
                    for chunk in stream:
                        _take(heard, chunk)
                        if not heard.wants_more(question):
                            break
            else:
                _take_whole(heard, client.chat.completions.create(**_wanted(question)))
    except Exception as error:
        heard.fail(error)
    return heard


def ask_helper(question: Question) -> Heard:
    import openai

    heard = Heard()
    try:
        wanted = {**_wanted(question), "stream_options": USAGE}
        with openai.OpenAI(**_client(question)) as client, client.chat.completions.stream(**wanted) as stream:
            for event in stream:
                if event.type == "content.delta":
                    heard.hear(event.delta)
                if not heard.wants_more(question):
                    return heard
            _take_whole(heard, stream.get_final_completion())
    except Exception as error:
        heard.fail(error)
    return heard


def ask_async(question: Question) -> Heard:
    return asyncio.run(_ask_async(question))


async def _ask_async(question: Question) -> Heard:
    import openai

    heard = Heard()
    try:
        async with openai.AsyncOpenAI(**_client(question)) as client:
            if question.stream:
                opening = client.chat.completions.create(**_wanted(question), stream=True, stream_options=USAGE)
                async with await opening as stream:
                    async for chunk in stream:
                        _take(heard, chunk)
                        if not heard.wants_more(question):
                            break
            else:
                _take_whole(heard, await client.chat.completions.create(**_wanted(question)))
    except Exception as error:
        heard.fail(error)
    return heard


def _take(heard: Heard, chunk: Any) -> None:
    if chunk.usage:
        heard.usage = [chunk.usage.prompt_tokens, chunk.usage.completion_tokens]
    for choice in chunk.choices:
        heard.hear(choice.delta.content)
        for part in choice.delta.tool_calls or ():
            call = heard.calls.setdefault(part.index, [part.id, part.function.name, ""])
            call[2] += part.function.arguments
        heard.finish = choice.finish_reason or heard.finish


def _take_whole(heard: Heard, completion: Any) -> None:
    (choice,) = completion.choices
    heard.hear_whole(choice.message.content)
    for n, call in enumerate(choice.message.tool_calls or ()):
        heard.calls[n] = [call.id, call.function.name, call.function.arguments]
    heard.usage = [completion.usage.prompt_tokens, completion.usage.completion_tokens]
    heard.finish = choice.finish_reason
    heard.request_id = getattr(completion, "_request_id", None)  # what was put together from a stream has none
