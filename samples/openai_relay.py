"""A relay to any OpenAI-compatible API: its answers reach the browser token by token, and its key stays here.

    export FLASKSTREAM_UPSTREAM=https://api.openai.com/v1 FLASKSTREAM_API_KEY=... FLASKSTREAM_MODEL=...
    gunicorn -c ../gunicorn.conf.py openai_relay:app
    curl -N 'http://127.0.0.1:8000/chat?q=hello'

The official clients work too, with `base_url="http://127.0.0.1:8000/v1"`. Without FLASKSTREAM_UPSTREAM a model that
gunicorn.conf.py starts answers. There is no login here: whoever reaches these routes spends your key. legacy/ has one.
"""

import os

from flask import Flask

from flaskstream import Upstream, create_blueprint
from flaskstream.settings import Settings

settings = Settings.from_environment()

app = Flask(__name__)
app.register_blueprint(
    create_blueprint(
        Upstream(
            os.environ["FLASKSTREAM_UPSTREAM"],
            api_key=settings.api_key,
            model=settings.model,
            idle_timeout=settings.idle_timeout,
        ),
        heartbeat=settings.heartbeat,
        status_grace=settings.status_grace,
    )
)
