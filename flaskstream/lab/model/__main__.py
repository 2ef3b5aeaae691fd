"""`python -m flaskstream.lab.model`."""

from flaskstream.lab.model.command import main

main()
