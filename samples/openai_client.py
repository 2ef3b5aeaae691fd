"""An official client, pointed at openai_relay: it needs no key, and prints each word when it comes.

    pip install openai
    gunicorn -c ../gunicorn.conf.py openai_relay:app
    python openai_client.py "Why is the sky blue?"

The last line in a second terminal. Anthropic's client works in the same way, with `http://127.0.0.1:8000` as its base
URL, where the upstream is Anthropic's.
"""

import os
import sys

import openai

client = openai.OpenAI(
    base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
    api_key="unused",  # the relay has the real one
)
stream = client.chat.completions.create(
    model="gpt-4o-mini",
    messages=[{"role": "user", "content": " ".join(sys.argv[1:]) or "hello"}],
    stream=True,
)
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)  # noqa: T201 - a word, now
print()  # noqa: T201 - the end of the line
