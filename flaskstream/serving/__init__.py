"""The WSGI server beneath a stream.

`client` watches the client's connection, `deploy` a worker that is told to stop, `cut` ends what must not look whole,
`shortcomings` says what a server cannot give a stream, `uwsgi` knows what only uWSGI does in its own way.
"""
