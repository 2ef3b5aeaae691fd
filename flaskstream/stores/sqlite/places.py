"""Where the file of a SQLite store lies, and what is wrong with a place where it cannot."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from flaskstream.errors import InvalidSetting

EXPECTED = (
    "store: expected sqlite:PATH with the path of a file, such as sqlite:streams.db or sqlite:/var/lib/streams.db"
)


def place_of(path: str) -> Path:
    """Return the absolute path of the file; relative ones count from the working directory of now.

    Args:
        path: of the file, which need not exist; its directory must. Empty: a file in a directory of this user's own.

    Raises:
        InvalidSetting: no file can be there.
    """
    if not path:
        return _own_directory() / "streams.db"
    if path == ":memory:" or "\0" in path:
        raise InvalidSetting(f"{EXPECTED}, got {path!r:.80}; what one process keeps for itself is memory:")
    if path.startswith("//"):  # SQLAlchemy's sqlite:///streams.db would be a file in the root directory here
        raise InvalidSetting(
            f"{EXPECTED}, got {path!r:.80}: slashes stand before an absolute path only, and one of them"
        )
    place = Path(path).absolute()
    try:
        _check_directory(place)
        _check_file(place)
    except OSError as error:  # a name that is too long
        raise InvalidSetting(f"{EXPECTED}, got {error}") from error
    return place


def create_private(place: Path) -> None:
    """Make an empty file that this user alone can read, unless there is one.

    An existing one is not so much as opened: to close it again would take the locks of this process away, see
    https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
    """
    if not place.parent.is_dir() and place.parent.name == _own_name():
        _own_directory()  # somebody tidied up
    with suppress(FileExistsError):
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))


def _check_directory(place: Path) -> None:
    directory = place.parent
    if not directory.is_dir():
        raise InvalidSetting(f"store: expected a directory that exists for {place}, got {directory}, which is none")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise InvalidSetting(
            f"store: expected a directory to write to, got {directory}, which this user may not write to"
        )


def _check_file(place: Path) -> None:
    if place.is_dir():
        raise InvalidSetting(f"store: expected the path of a file, got {place}, which is a directory")
    if place.exists() and not place.is_file():
        raise InvalidSetting(f"store: expected the path of a file, got {place}, which is a device or the like")
    if place.exists() and not os.access(place, os.R_OK | os.W_OK):
        raise InvalidSetting(f"store: expected a file to read and write, got {place}, which this user may not write to")


def _own_name() -> str:
    return f"flaskstream-{os.getuid()}"


def _own_directory() -> Path:
    """In the system's directory for such things anybody can make a directory of any name: look whose it is."""
    try:
        directory = Path(tempfile.gettempdir()).absolute() / _own_name()
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)
    except OSError as error:
        raise InvalidSetting(
            f"store: expected a temporary directory for the file of sqlite:, got {error}. Name a file by sqlite:PATH,"
            " or have no store (FLASKSTREAM_STORE= , set but empty)"
        ) from error
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise InvalidSetting(
            f"store: expected {directory} to be a directory that is this user's alone, got mode {found.st_mode:o} and "
            f"owner {found.st_uid}; name a file of your own by sqlite:PATH"
        )
    return directory
