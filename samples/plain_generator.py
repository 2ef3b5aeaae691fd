"""A view that is a generator: each thing it yields is at the browser at once.

gunicorn -c python:flaskstream.gunicorn_conf plain_generator:app
curl -N http://127.0.0.1:8000/clock
"""

import time

from flask import Flask

from flaskstream import event_stream

app = Flask(__name__)


@app.route("/clock")
@event_stream
def clock():
    for tick in range(1, 11):
        yield {"tick": tick, "time": time.strftime("%H:%M:%S")}
        time.sleep(0.5)


@app.route("/")
def page():
    return """<!doctype html>
<title>clock</title>
<pre></pre>
<script>
  const source = new EventSource("/clock");
  source.onmessage = (event) => { document.querySelector("pre").textContent += event.data + "\\n"; };
  source.addEventListener("done", () => source.close());
</script>"""
