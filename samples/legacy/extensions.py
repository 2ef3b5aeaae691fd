"""The extensions: made once, bound to an app by its factory."""

import sqlite3

from flask import g

USERS = """
CREATE TABLE users (name TEXT PRIMARY KEY, password TEXT);
INSERT INTO users VALUES ('ada', 'lovelace'), ('grace', 'hopper');
"""  # a real table holds hashes of the passwords


class Database:
    """One connection for each request, in memory and filled anew, so that the sample leaves no file behind."""

    def init_app(self, app):
        app.teardown_appcontext(self.close)

    def user(self, name):
        """Return the row of a user, or `None`."""
        return self._connection().execute("SELECT * FROM users WHERE name = ?", [name]).fetchone()

    def _connection(self):
        if "connection" not in g:
            g.connection = sqlite3.connect(":memory:")
            g.connection.row_factory = sqlite3.Row
            g.connection.executescript(USERS)
        return g.connection

    def close(self, error):
        connection = g.pop("connection", None)
        if connection is not None:
            connection.close()


db = Database()
