"""`flaskstream check`: inside one process, what became of a stream between its view and the server.

A fresh child loads the app as gunicorn would, calls it, and writes down what it sees (`child` and what it imports);
`observation` reads that; `judge` makes findings of it, by a table; `report` prints them.
"""
