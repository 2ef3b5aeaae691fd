"""The demonstration: `gunicorn -c gunicorn.conf.py wsgi:app`. `FLASKSTREAM_MODE=broken` shows the mistakes."""

from flaskstream.app import create_app

app = create_app()
