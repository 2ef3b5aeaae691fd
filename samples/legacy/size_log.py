"""A line in the log for each answer, with its size, as every app of that time has one."""

from flask import current_app, request


def init_app(app):
    app.logger.setLevel("INFO")
    app.after_request(log_size)


def log_size(response):
    size = len(response.get_data())  # reads the whole body, and so runs a generator to its end
    current_app.logger.info("%s %s: %s, %d bytes", request.method, request.path, response.status_code, size)
    return response
