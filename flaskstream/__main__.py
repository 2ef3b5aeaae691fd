"""`python -m flaskstream`, and where the `flaskstream` command begins."""

import sys

_INTERRUPTED = 130
"""As of every command here; importing the place where that stands would take as long as what is interrupted."""


def main() -> None:
    """Run the command. Ctrl-C ends it quietly, also while Python still imports it."""
    try:
        from flaskstream.cli import main as command

        command(prog_name="flaskstream")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
