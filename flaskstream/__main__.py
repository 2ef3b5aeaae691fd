"""`python -m flaskstream`."""

from flaskstream.cli import main

main(prog_name="flaskstream")
