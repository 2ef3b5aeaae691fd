"""What is SQLite's own: the file, who holds it, a full disk, sudden ends, and a hub that goes on."""

from __future__ import annotations

import os
import pathlib
import random
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from typing import Iterator

import pytest
from store_process import ROOT, StoreProcess

from flaskstream.errors import InvalidSetting, StoreUnavailable
from flaskstream.stores import open_store
from flaskstream.stores.protocol import DONE, Batch, NewStream, Record, Retention
from flaskstream.stores.sqlite import SQLiteStore

LEASE = 60.0
PATIENCE = 0.3
KILLS = 10
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs to be root, to become somebody else")
is_nobody = "import os, sys; os.setgid(65534); os.setuid(65534); "


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "streams.db"


@pytest.fixture
def store(path: pathlib.Path) -> Iterator[SQLiteStore]:
    with closing(SQLiteStore(str(path), patience=PATIENCE)) as store:
        yield store


@pytest.fixture
def sql(path: pathlib.Path, store: SQLiteStore) -> Iterator[sqlite3.Connection]:
    """The file, behind the store's back."""
    store.kept()
    with closing(sqlite3.connect(str(path), isolation_level=None, timeout=10)) as connection:
        yield connection


def batch(first: int, *blocks: bytes, state: str = "running", name: str = "a") -> Batch:
    return Batch(name, f"epoch-{name}", tuple(Record(n, block) for n, block in enumerate(blocks, first)), state)


def begin(store: SQLiteStore, name: str = "a") -> None:
    assert store.begin(NewStream(name, f"epoch-{name}"), LEASE)[1]


def last(store: SQLiteStore, name: str = "a") -> int:
    page = store.read(name, 0, 0)
    assert page is not None
    return page.info.last


def is_whole(path: pathlib.Path) -> bool:
    with closing(sqlite3.connect(str(path), timeout=10)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def run(code: str, **more: str) -> str:
    """Run this in a process of its own; return what it printed."""
    code = f"import sys; sys.path.insert(0, {ROOT!r})\n{code}"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        timeout=120,
        text=True,
        env={**os.environ, **more},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


# the file


def test_the_file_is_made_when_it_is_needed_and_for_this_user_alone(path: pathlib.Path) -> None:
    with closing(SQLiteStore(str(path))) as store:
        assert not path.exists()
        begin(store)
        beside = [path, path.with_name("streams.db-wal"), path.with_name("streams.db-shm")]
        assert [stat.S_IMODE(file.stat().st_mode) for file in beside] == [0o600] * 3


def test_what_is_kept_outlives_the_store(path: pathlib.Path) -> None:
    with closing(SQLiteStore(str(path))) as store:
        begin(store)
        store.append([batch(1, b"one", state=DONE)], LEASE)
    with closing(SQLiteStore(str(path))) as store:
        page = store.read("a", 0, 9)
    assert page is not None and (page.info.state, page.records) == (DONE, (Record(1, b"one"),))


def test_a_relative_path_is_of_the_directory_of_then(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with closing(open_store("sqlite:streams.db")) as store:
        monkeypatch.chdir("elsewhere")
        store.kept()
    assert (tmp_path / "streams.db").exists() and not os.listdir(tmp_path / "elsewhere")


@pytest.mark.parametrize("name", ["a b.db", "a?mode=memory", "a#b%20c", "ä.db", "'; --"])
def test_any_name_is_a_name(tmp_path: pathlib.Path, name: str) -> None:
    with closing(SQLiteStore(str(tmp_path / name))) as store:
        begin(store)
        assert (tmp_path / name).is_file()


def test_no_path_is_a_place_of_this_user(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with closing(open_store("sqlite:")) as store:
        store.kept()
    directory = tmp_path / f"flaskstream-{os.getuid()}"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700 and (directory / "streams.db").exists()
    open_store("sqlite:").close()


@pytest.mark.parametrize("trap", ["open to others", "a link", "a file", pytest.param("another's", marks=needs_root)])
def test_a_place_that_another_user_may_have_laid_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, trap: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = tmp_path / f"flaskstream-{os.getuid()}"
    if trap == "a link":
        (tmp_path / "mine").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "mine")
    elif trap == "a file":
        place.touch(0o700)
    else:
        place.mkdir(mode=0o700)
        place.chmod(0o770 if trap == "open to others" else 0o700)
        os.chown(place, 65534 if trap == "another's" else os.getuid(), -1)
    with pytest.raises(InvalidSetting, match=r"expected .* to be a directory that is this user's alone, got mode"):
        open_store("sqlite:")


BAD_PLACES = {
    "no/directory/streams.db": "expected a directory that exists .*, got .*directory, which is none",
    "": "expected the path of a file, got .*, which is a directory",
    "a-file/streams.db": "expected a directory that exists",
    "a-pipe": "which is a device or the like",
    "text.db": "file is not a database",
    "other.db": "expected a new file or one of flaskstream, got the database of another program",
    "newer.db": "expected version 1 of the tables, got 7",
}


@pytest.fixture
def bad_places(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "a-file").write_text("x")
    os.mkfifo(tmp_path / "a-pipe")
    (tmp_path / "text.db").write_text("This is no database.\n" * 100)
    with closing(sqlite3.connect(str(tmp_path / "other.db"))) as connection:
        connection.execute("CREATE TABLE users (name)")
    with closing(SQLiteStore(str(tmp_path / "newer.db"))) as store:
        store.kept()
    with closing(sqlite3.connect(str(tmp_path / "newer.db"))) as connection:
        connection.execute("PRAGMA user_version = 7")
    return tmp_path


@pytest.mark.parametrize("name", list(BAD_PLACES))
def test_a_place_where_no_store_can_be_is_refused_at_once(bad_places: pathlib.Path, name: str) -> None:
    before = sorted(os.listdir(bad_places))
    with pytest.raises(InvalidSetting, match=BAD_PLACES[name]):
        SQLiteStore(str(bad_places / name))
    assert [name for name in sorted(os.listdir(bad_places)) if not name.endswith(("-wal", "-shm"))] == before


@pytest.mark.parametrize("name", ["text.db", "other.db", "newer.db"])
def test_a_file_that_becomes_something_else_is_no_store(bad_places: pathlib.Path, name: str) -> None:
    with closing(SQLiteStore(str(bad_places / "later.db"))) as store:
        (bad_places / name).rename(bad_places / "later.db")
        with pytest.raises(StoreUnavailable, match=BAD_PLACES[name]):
            store.kept()


@pytest.mark.parametrize("url", ["sqlite::memory:", "sqlite:///streams.db", "sqlite://streams.db", "sqlite:a\0b"])
def test_what_looks_like_another_kind_of_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidSetting, match="expected sqlite:PATH"):
        open_store(url)


@needs_root
@pytest.mark.parametrize("modes", [(0o755, 0o644), (0o777, 0o444)], ids=["directory", "file"])
def test_what_this_user_may_not_write_to_is_refused(modes: tuple[int, int]) -> None:
    with tempfile.TemporaryDirectory() as name:  # beside pytest's own directories, which are root's alone
        directory = pathlib.Path(name)
        with closing(SQLiteStore(str(directory / "streams.db"))) as store:
            store.kept()
        (directory / "streams.db").chmod(modes[1])
        directory.chmod(modes[0])
        code = "from flaskstream.stores.sqlite import SQLiteStore\nfrom flaskstream.errors import InvalidSetting\n"
        code += f"{is_nobody}\ntry:\n    SQLiteStore({str(directory / 'streams.db')!r})\n"
        assert "this user may not write to" in run(code + "except InvalidSetting as error:\n    print(error)\n")


def test_several_processes_make_the_file_at_the_same_instant(path: pathlib.Path) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(StoreProcess("memory:")) for _ in range(4)]
        for attempt in range(8):
            moment = time.monotonic() + 0.05
            for n, process in enumerate(processes):
                begins = f"open_store('sqlite:{path}-{attempt}').begin(NewStream('{n}', 'epoch-{n}'), 60)[1]"
                process.tell(f"sleep_until({moment}) and {begins}")
            assert [process.answer() for process in processes] == [True] * 4
            with closing(SQLiteStore(f"{path}-{attempt}")) as store:
                assert store.kept().streams == 4


# who holds it


def test_a_lock_that_is_held_for_too_long_is_told(store: SQLiteStore, sql: sqlite3.Connection) -> None:
    begin(store)
    store.append([batch(1, b"one")], LEASE)
    sql.execute("BEGIN EXCLUSIVE")
    for write in (
        lambda: store.append([batch(2, b"two")], LEASE),
        lambda: begin(store, "b"),
        lambda: store.touch(["a"]),
    ):
        started = time.monotonic()
        with pytest.raises(StoreUnavailable, match="locked"):
            write()
        assert time.monotonic() - started >= PATIENCE * 0.9
    assert last(store) == 1 and store.read("a", 0, 9) is not None  # who reads waits for nobody
    sql.execute("COMMIT")
    assert not store.append([batch(2, b"two")], LEASE) and last(store) == 2


def test_a_store_that_is_locked_when_it_is_made_is_asked_later(path: pathlib.Path, sql: sqlite3.Connection) -> None:
    sql.execute("BEGIN EXCLUSIVE")
    with closing(SQLiteStore(str(path), patience=PATIENCE)) as store:
        sql.execute("COMMIT")
        begin(store)


def test_a_lock_that_is_held_for_a_moment_is_waited_for(path: pathlib.Path, sql: sqlite3.Connection) -> None:
    with closing(SQLiteStore(str(path), patience=20)) as store:
        begin(store)
        sql.execute("BEGIN EXCLUSIVE")
        done = threading.Event()
        thread = threading.Thread(target=lambda: (store.append([batch(1, b"one")], LEASE), done.set()))
        thread.start()
        assert not done.wait(0.3)
        sql.execute("COMMIT")
        thread.join(20)
        assert done.is_set() and last(store) == 1


HUB = """
from gevent import monkey; monkey.patch_all()
import gevent, sqlite3, time
from gevent.monkey import get_original
from flaskstream.stores.sqlite import SQLiteStore
from flaskstream.stores.protocol import *

store = SQLiteStore({path!r}, patience=20)
store.begin(NewStream("a", "e"), 60)
last = longest = time.monotonic()

def tick():
    global last, longest
    while True:
        gevent.sleep(0.01)
        now = time.monotonic()
        last, longest = now, max(longest, now - last)

def longest_gap(write):
    # Another process holds the file for so long; between how many ticks did this one do nothing else?
    global last, longest
    gevent.sleep(0.05)
    print("lock", flush=True)
    input()
    last, longest = time.monotonic(), 0.0
    write()
    gevent.sleep(0.05)
    return longest

ticks = gevent.spawn(tick)
plain = sqlite3.connect({path!r}, timeout=20, isolation_level=None)
def blocks():
    plain.execute("BEGIN IMMEDIATE")
    plain.execute("COMMIT")
def ours():
    records = (Record(1, b"one"),)
    writers = [gevent.spawn(store.append, [Batch("a", "e", records)], 60) for _ in range(5)]
    readers = [gevent.spawn(store.read, "a", 0, 9) for _ in range(20)]
    gevent.joinall(readers)
    assert not any(writer.ready() for writer in writers), "the lock was not held"
    gevent.joinall(writers, raise_error=True)
gaps = longest_gap(blocks), longest_gap(ours)
plain.close()
ticks.kill()
store.close()
print("gaps", *gaps, flush=True)
"""
HELD = 0.5


def test_other_greenlets_go_on_while_another_process_holds_the_file(
    path: pathlib.Path, sql: sqlite3.Connection
) -> None:
    code = f"import sys; sys.path.insert(0, {ROOT!r})\n" + HUB.format(path=str(path))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "universal_newlines": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:  # type: ignore[call-overload]
        for line in process.stdout:
            if line.startswith("gaps"):
                break
            sql.execute("BEGIN EXCLUSIVE")
            process.stdin.write("\n")
            process.stdin.flush()
            time.sleep(HELD)
            sql.execute("COMMIT")
    blocking, ours = map(float, line.split()[1:])
    assert blocking > HELD / 2 > ours
    assert last(SQLiteStore(str(path))) == 1


FORK = """
import os
from flaskstream.native import original
from flaskstream.stores.sqlite import SQLiteStore

# A thread of gevent's pool that ends its work beside gevent's own fork can stop gevent's loop: the child does little.
fork, waitpid = original("os", "fork"), original("os", "waitpid")
store = SQLiteStore({path!r})
store.kept()
end = store.watch("a", lambda: None)

def opened():
    files = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum({path!r} in os.readlink(file) for file in files if os.path.islink(file))

assert opened()
for _ in range(20):
    child = fork()
    if not child:
        os._exit(opened())
    assert waitpid(child, 0)[1] == 0, "the child has its parent's connection"
    store.kept()
assert opened()
end()
store.close()
assert not opened()
print("whole")
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("patch", ["", "from gevent import monkey; monkey.patch_all()\n"], ids=["threads", "gevent"])
def test_no_connection_is_open_in_a_child(path: pathlib.Path, patch: str) -> None:
    quiet = (
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"  # of forks beside threads: it is meant
    )
    assert run(patch + quiet + FORK.format(path=str(path))) == "whole\n"


# a full disk, and a file that goes


FULL = """
import resource
from flaskstream.errors import StoreUnavailable
from flaskstream.stores.sqlite import SQLiteStore
from flaskstream.stores.protocol import *

store = SQLiteStore({path!r}, patience=1)
store.begin(NewStream("a", "epoch-a"), 60)

def append(number):
    return store.append([Batch("a", "epoch-a", (Record(number, b"x" * 10_000),))], 60)

assert not append(1)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
number, failed = 1, 0
while failed < 10:
    try:
        assert not append(number + 1)
        number += 1
    except StoreUnavailable as error:
        failed += 1
        assert "disk" in str(error) or "full" in str(error), error
    assert store.read("a", 0, 0).info.last == number, "it said that it could not, and did, or the other way"
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
for more in range(1, 4):
    assert not append(number + more)
assert [record.number for record in store.read("a", 0, 2000).records] == list(range(1, number + 4))
store.close()
print("whole")
"""


def test_a_disk_that_is_full_is_told_and_nothing_is_lost(path: pathlib.Path) -> None:
    assert run(FULL.format(path=str(path))) == "whole\n"
    assert is_whole(path)


@needs_root
def test_a_disk_without_room_is_told_and_nothing_is_lost(tmp_path: pathlib.Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("may not mount a small disk here")
    try:
        with closing(SQLiteStore(str(disk / "streams.db"), patience=PATIENCE)) as store:
            begin(store)
            number = fill(store)
            assert number > 10 and last(store) == number
            (disk / "streams.db").with_name("ballast").unlink()
            assert not store.append([batch(number + 1, b"more")], LEASE)
            page = store.read("a", 0, 10_000)
            assert page is not None and [one.number for one in page.records] == list(range(1, number + 2))
        assert is_whole(disk / "streams.db")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def fill(store: SQLiteStore) -> int:
    """Append until there is no room; return how many. Beside it is something that can be removed."""
    store._place.with_name("ballast").write_bytes(b"x" * 400_000)
    number = 0
    with pytest.raises(StoreUnavailable, match=r"full|disk I/O"):
        while number < 10_000:
            assert not store.append([batch(number + 1, b"x" * 2000)], LEASE)
            number += 1
    return number


def test_a_file_that_is_removed_is_told_and_then_made_anew(path: pathlib.Path, store: SQLiteStore) -> None:
    begin(store)
    for name in os.listdir(path.parent):
        (path.parent / name).unlink()
    with pytest.raises(StoreUnavailable, match=r"expected the store .* to stay where it is"):
        store.append([batch(1, b"one")], LEASE)
    assert list(store.append([batch(1, b"one")], LEASE)) == ["a"]
    begin(store)
    assert not store.append([batch(1, b"one")], LEASE) and is_whole(path)


def test_a_directory_that_is_removed_is_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "there").mkdir()
    with closing(SQLiteStore(str(tmp_path / "there" / "streams.db"))) as store:
        (tmp_path / "there").rmdir()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"streams\.db"):
                store.kept()


# sudden ends


WRITER = """
import itertools, sys
from flaskstream.stores.sqlite import SQLiteStore
from flaskstream.stores.protocol import *

store = SQLiteStore({path!r})
name = {name!r}
store.begin(NewStream(name, "epoch-" + name), 60)
for number in itertools.count(1):
    block = b"%d " % number * (number % 97 * 20)
    assert not store.append([Batch(name, "epoch-" + name, (Record(number, block),))], 60)
    print(number, flush=True)
    if number % 50 == 0:
        store.evict(Retention(seconds=0.0))
"""


def test_a_process_that_is_killed_while_it_writes_leaves_everything_it_was_told_is_written(
    path: pathlib.Path, store: SQLiteStore
) -> None:
    chance = random.Random(5)
    for attempt in range(KILLS):
        name = f"killed-{attempt}"
        code = f"import sys; sys.path.insert(0, {ROOT!r})\n" + WRITER.format(path=str(path), name=name)
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"1\n"
            time.sleep(chance.uniform(0.0, 0.15))
            process.kill()
            said = [b"1", *process.stdout.read().split(b"\n")]
        told = len([line for line in said if line])
        page = store.read(name, 0, 100_000)
        assert page is not None and told - 1 <= len(page.records)  # its last line may have been cut
        assert [one.number for one in page.records] == list(range(1, page.info.last + 1))
        assert all(one.block == b"%d " % one.number * (one.number % 97 * 20) for one in page.records)
        store.append([Batch(name, f"epoch-{name}", (), DONE)], LEASE)
    assert is_whole(path)


def test_what_a_killed_eviction_left_the_next_one_takes_away(store: SQLiteStore, sql: sqlite3.Connection) -> None:
    begin(store)
    store.append([batch(1, b"one", b"two")], LEASE)
    sql.execute("INSERT INTO garbage SELECT number FROM streams")
    sql.execute("DELETE FROM streams")
    store.evict(Retention())
    assert sql.execute("SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM garbage)").fetchone() == (0, 0)


# clocks


def test_a_lease_of_before_the_machine_was_started_anew_is_over(store: SQLiteStore, sql: sqlite3.Connection) -> None:
    begin(store)
    sql.execute(
        "UPDATE streams SET held_from = held_from + 1e6, held_until = held_until + 1e6, read_at = read_at + 1e6"
    )
    page = store.read("a", 0, 0)
    assert page is not None and not page.info.is_held and page.info.read_ago == 0
    assert store.lose("a", "epoch-a", b"lost")


def test_a_clock_that_is_set_back_keeps_nothing_for_ever(store: SQLiteStore, sql: sqlite3.Connection) -> None:
    begin(store)
    store.append([batch(1, b"one", state=DONE)], LEASE)
    sql.execute("UPDATE streams SET changed_at = changed_at + 1e6")
    assert store.evict(Retention(seconds=1.0)) == 0
    time.sleep(1.1)
    assert store.evict(Retention(seconds=1.0)) == 1


# room


def test_room_is_used_again_and_given_back(path: pathlib.Path, store: SQLiteStore) -> None:
    sizes = []
    for name in "abc":
        begin(store, name)
        for number in range(1, 31):
            store.append([batch(number, os.urandom(100_000), name=name)], LEASE)
        store.append([batch(31, state=DONE, name=name)], LEASE)
        sizes.append(path.stat().st_size)
        assert store.evict(Retention(seconds=0.0)) == 1
    written = 30 * 100_000
    assert max(sizes) < 2 * written
    store.close()
    assert path.stat().st_size < written / 2


def test_who_writes_while_much_is_evicted_does_not_wait_for_all_of_it(path: pathlib.Path, store: SQLiteStore) -> None:
    for name in map(str, range(100)):
        begin(store, name)
        store.append([batch(1, *[os.urandom(2000)] * 200, state=DONE, name=name)], LEASE)
    with StoreProcess(f"sqlite:{path}") as other:
        assert other.ask("store.begin(NewStream('a', 'epoch-a'), 60)[1]")
        started = time.monotonic()
        other.tell("store.evict(Retention(seconds=0.0))")
        thread = threading.Thread(target=other.process.stdout.readline)  # type: ignore[union-attr]
        thread.start()
        waits = []
        while thread.is_alive():
            before = time.monotonic()
            assert not store.append([batch(len(waits) + 1, b"x")], LEASE)
            waits.append(time.monotonic() - before)
        took = time.monotonic() - started
        thread.join()
    assert len(waits) > 10 and max(waits) < took / 2
    assert store.kept().evicted == 100


# threads


def pollers() -> int:
    return sum(thread.name == "flaskstream-sqlite" for thread in threading.enumerate())


def ends(seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while pollers() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not pollers()


def test_one_thread_looks_while_somebody_watches(store: SQLiteStore) -> None:
    assert not pollers()
    watches = [store.watch(name, lambda: None) for name in "abc"]
    assert pollers() == 1
    for end in watches[1:]:
        end()
    time.sleep(0.1)
    assert pollers() == 1
    watches[0]()
    assert ends()
    end = store.watch("a", lambda: None)
    assert pollers() == 1
    store.close()
    assert ends()
    end()


ENDED = """
from gevent import monkey; monkey.patch_all()
import gevent, sqlite3, threading
from flaskstream.stores.sqlite import SQLiteStore
from flaskstream.stores.protocol import *

store = SQLiteStore({path!r}, patience=20)
store.begin(NewStream("a", "e"), 60)
notice = threading.Event()
end = store.watch("a", notice.set)
while notice.wait(0.2):
    notice.clear()
holder = sqlite3.connect({path!r}, isolation_level=None)
holder.execute("BEGIN IMMEDIATE")
writers = [gevent.spawn(store.append, [Batch("a", "e", (Record(1, b"one"),))], 60) for _ in range(5)]
gevent.sleep(0.1)
gevent.killall(writers)
assert not notice.is_set()
holder.execute("COMMIT")
holder.close()
assert notice.wait(20), "nobody was told what a write did whose greenlet was ended"
assert store.read("a", 0, 9).info.last == 1
assert not store.append([Batch("a", "e", (Record(2, b"two"),))], 60)
end()
store.close()
print("whole")
"""


def test_a_greenlet_that_is_ended_in_a_write_leaves_nothing_behind(path: pathlib.Path) -> None:
    assert run(ENDED.format(path=str(path))) == "whole\n"


def test_under_gevent_the_contract_is_the_same() -> None:
    chosen = "sqlite and not fork and not process and not age and not url"
    contract = os.path.join(ROOT, "tests", "test_store_contract.py")
    asked = ["-q", "-p", "no:cacheprovider", "-k", chosen, contract]
    code = f"from gevent import monkey; monkey.patch_all(); import pytest; sys.exit(pytest.main({asked!r}))"
    assert " passed" in run(code, PYTHONPATH=ROOT)
