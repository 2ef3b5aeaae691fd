"""The raw client against a peer that plays exactly what the test says, byte by byte, over a real socket.

Where a test must prove that nothing waits for more than is there, the peer sends the next byte only when the
client has been given the last: a client that waits would wait for ever, and end as a timeout.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import gzip
import queue
import socket
import ssl
import struct
import threading
import time
import zlib

import pytest

from flaskstream.doctor.measure import Request, open_exchange, record
from flaskstream.errors import InvalidSetting

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSE = b"HTTP/1.0 200 OK\r\n\r\n"
PATIENCE = 10  # seconds that no test needs, unless it fails


def length(count):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % count


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(data):
    return b"data: %s\n\n" % str(data).encode()


class Peer:
    """What a script sees: the request, the connection, and whether the test has let it go on."""

    def __init__(self, connection):
        self.connection = connection
        self.request = b""
        self.steps = queue.Queue()

    def read_request(self):
        while b"\r\n\r\n" not in self.request:
            got = self.connection.recv(65536)
            assert got, "the client left before its request was whole"
            self.request += got

    def send(self, data):
        self.connection.sendall(data)

    def wait(self):
        """Wait until the test says `step()`."""
        self.steps.get(timeout=PATIENCE)

    def step(self):
        self.steps.put(None)

    def see_the_client_go(self):
        """Return "fin" or "reset"."""
        try:
            while self.connection.recv(65536):
                pass
        except ConnectionResetError:
            return "reset"
        return "fin"

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


class Served:
    def __init__(self, url):
        self.url = url
        self.peer = concurrent.futures.Future()
        self.result = concurrent.futures.Future()  # what the script returned

    def step(self):
        self.peer.result(PATIENCE).step()


@contextlib.contextmanager
def served(script, wrap=None):
    """Run `script(peer)` for one connection, in a thread; what it raises, the test raises."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(PATIENCE)
        scheme = "https" if wrap else "http"
        server = Served(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/")
        thread = threading.Thread(target=_play, args=(listener, script, wrap, server), daemon=True)
        thread.start()
        yield server
        server.result.result(PATIENCE)
        thread.join(PATIENCE)


def _play(listener, script, wrap, server):
    try:
        connection, _ = listener.accept()
        with contextlib.closing(connection):
            connection.settimeout(PATIENCE)
            if wrap:
                connection = wrap(connection)
            with contextlib.closing(connection):
                peer = Peer(connection)
                peer.read_request()
                server.peer.set_result(peer)
                server.result.set_result(script(peer))
    except BaseException as error:
        server.result.set_exception(error)


def plays(*pieces):
    """Return a script that sends the pieces and closes."""

    def script(peer):
        for piece in pieces:
            peer.send(piece)

    return script


def recorded(*pieces, **options):
    with served(plays(*pieces)) as server:
        return record(Request(server.url, timeout=PATIENCE, **options))


def free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


# What is sent.


def test_the_request_is_what_the_caller_said_and_no_more():
    request = Request(
        "http://example.test:8080/a/b?c=d%20e#f",
        method="POST",
        headers=(("X-One", "1"), ("Accept", "*/*"), ("X-One", "2")),
        body=b"{}",
    )
    assert request.encode() == (
        b"POST /a/b?c=d%20e HTTP/1.1\r\nHost: example.test:8080\r\nX-One: 1\r\nAccept: */*\r\nX-One: 2\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )


def test_the_request_can_be_http_1_0_and_name_its_host_itself():
    request = Request(
        "http://127.0.0.1", http_version="1.0", headers=(("host", "x"), ("content-length", "0")), body=b""
    )
    assert request.encode() == b"GET / HTTP/1.0\r\nhost: x\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://x/"},
        {"url": "/path"},
        {"url": "http:///path"},
        {"url": "http://x/a b"},
        {"url": "http://x/\r\nX: y"},
        {"url": "http://exämple/"},
        {"url": "http://x:99999/"},
        {"url": "http://[::1/"},
        {"method": "GET /"},
        {"method": ""},
        {"headers": (("X", "a\r\nY: b"),)},
        {"headers": (("X y", "a"),)},
        {"headers": (("X", "\u2028"),)},
        {"http_version": "3"},
        {"timeout": 0},
    ],
    ids=str,
)
def test_a_request_that_cannot_be_written_is_refused(wrong):
    with pytest.raises(InvalidSetting, match=r"expected .*, got"):
        Request(**{"url": "http://127.0.0.1/", **wrong})


def test_a_password_in_the_url_is_refused_and_not_repeated():
    with pytest.raises(InvalidSetting) as caught:
        Request("http://me:secret@127.0.0.1/")
    assert "secret" not in str(caught.value)


# What comes, and how it ends.


def test_a_chunked_answer_is_recorded_to_its_final_chunk():
    wire = [
        CHUNKED.replace(b"\r\n\r\n", b"\r\nX-Two: a\r\nx-two: b\r\n\r\n"),
        chunk(b": hi\n" + event(1)),
        chunk(event(2)),
    ]
    got = recorded(*wire, b"0\r\nX-Sum: 3\r\n\r\n")
    assert (got.status, got.reason, got.http_version, got.framing) == (200, "OK", "1.1", "chunked")
    assert got.headers == (("Transfer-Encoding", "chunked"), ("X-Two", "a"), ("x-two", "b"))
    assert got.header("X-TWO") == "a, b"
    assert [timed.event.data for timed in got.events] == ["1", "2"]
    assert [comment.text for comment in got.comments] == ["hi"]
    assert (got.ended, got.error, got.framing_complete, got.trailers) == ("final_chunk", "", True, (("X-Sum", "3"),))
    assert got.body == b": hi\ndata: 1\n\ndata: 2\n\n"
    assert (got.coding, got.coding_complete, got.cut_inside_event) == ("identity", True, False)
    assert b"".join(read.data for read in got.reads) == b"".join([*wire, b"0\r\nX-Sum: 3\r\n\r\n"])


def test_times_are_in_the_order_of_what_happened():
    before = time.monotonic()
    got = recorded(CHUNKED, chunk(event(1)), chunk(event(2)), b"0\r\n\r\n")
    times = [
        before,
        got.sent_at,
        got.reads[0].at,
        got.headers_at,
        got.first_byte_at,
        got.events[0].at,
        got.events[1].at,
    ]
    assert times == sorted(times)
    assert got.events[1].at <= got.ended_at <= time.monotonic()
    assert {got.headers_at, got.first_byte_at, got.ended_at} <= {read.at for read in got.reads}
    assert {timed.at for timed in got.events} <= {read.at for read in got.reads}


# How the peer ends, and what is found: ended, error, framing_complete.
ENDS = {
    "chunked": ([CHUNKED, chunk(event(1)), b"0\r\n\r\n"], "final_chunk", "", True),
    "no final chunk": ([CHUNKED, chunk(event(1))], "close", "expected the final chunk, got the end", False),
    "length": ([length(9), event(1)], "length", "", True),
    "length short": ([length(10), event(1)], "close", "expected 1 more bytes of the body, got the end", False),
    "close": ([CLOSE, event(1)], "close", "", True),
    "an error page instead of a chunk": (
        [CHUNKED, chunk(event(1)), b"HTTP/1.1 500 Oh\r\n\r\n"],
        "malformed",
        "expected the size of a chunk in hexadecimal, got b'HTTP/1.1 500 Oh'",
        False,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_end_is_named_and_what_is_missing_is_said(name):
    wire, ended, error, complete = ENDS[name]
    got = recorded(*wire)
    assert [timed.event.data for timed in got.events] == ["1"]
    assert (got.ended, got.error, got.framing_complete) == (ended, error, complete)


def test_a_peer_that_closes_without_an_answer_has_no_status():
    got = recorded()
    assert (got.status, got.ended, got.headers_at, got.first_byte_at) == (None, "close", None, None)
    assert got.error == "expected a status line, got the end"


def test_what_is_no_http_is_malformed():
    got = recorded(b"SSH-2.0-peer\r\n")
    assert (got.status, got.ended) == (None, "malformed")
    assert "got b'SSH-2.0-peer'" in got.error
    assert got.reads[0].data == b"SSH-2.0-peer\r\n"


def test_a_change_to_another_protocol_is_told_at_once():
    """Nobody says when that ends: the peer keeps its connection until the client has gone."""
    gone = []

    def script(peer):
        peer.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
        gone.append(peer.see_the_client_go())

    with served(script) as server:
        got = record(Request(server.url, timeout=PATIENCE))
    assert (got.status, got.ended, got.headers[0]) == (101, "malformed", ("Upgrade", "x"))
    assert "got 101" in got.error and gone


def test_a_reset_is_told_from_an_end():
    def script(peer):
        peer.send(CHUNKED + chunk(event(1)))
        peer.wait()
        peer.reset()

    with served(script) as server, open_exchange(Request(server.url, timeout=PATIENCE)) as exchange:
        events = exchange.events()
        assert next(events).event.data == "1"
        server.step()
        assert list(events) == []
        assert (exchange.ended, exchange.framing_complete) == ("reset", False)
        assert "reset" in exchange.error


def test_nobody_listening_is_refused():
    got = record(Request(f"http://127.0.0.1:{free_port()}/"))
    assert (got.status, got.ended, got.reads, got.events) == (None, "refused", (), ())
    assert "expected a connection, got" in got.error
    assert got.sent_at <= got.ended_at


def test_a_name_that_does_not_resolve_is_refused():
    got = record(Request("http://" + "a" * 70 + ".invalid/"))  # a label is 63 at most: no resolver is asked
    assert got.ended == "refused"


@pytest.mark.parametrize("wire, status", [(b"", None), (CHUNKED, 200)], ids=["no answer", "only a head"])
def test_silence_is_a_timeout(wire, status):
    def script(peer):
        peer.send(wire)
        return peer.see_the_client_go()

    with served(script) as server:
        got = record(Request(server.url, timeout=0.5))
        assert (got.status, got.ended) == (status, "timeout")
        assert got.error == "expected more within 0.5 s, got nothing"
        last = got.reads[-1].at if got.reads else got.sent_at
        assert got.ended_at - last >= 0.5
        assert server.result.result(PATIENCE) == "fin"


def test_a_stream_that_lives_longer_than_its_limit_is_left():
    def script(peer):
        with contextlib.suppress(OSError):  # it goes on until the client is gone
            peer.send(CHUNKED)
            while True:
                peer.send(chunk(event("x")))
                time.sleep(0.02)

    with served(script) as server:
        got = record(Request(server.url, timeout=PATIENCE, max_seconds=0.5))
        assert (got.ended, got.error) == ("left", "expected the end within 0.5 s, got none")
        assert got.ended_at - got.sent_at < PATIENCE
        assert got.events


def test_a_client_keeps_no_more_than_its_limit():
    def script(peer):
        with contextlib.suppress(OSError):  # it goes on until the client is gone
            peer.send(CHUNKED)
            while True:
                peer.send(chunk(b"x" * 10_000))

    with served(script) as server:
        got = record(Request(server.url, timeout=PATIENCE, max_bytes=1_000_000))
        assert (got.ended, got.error) == ("left", "expected at most 1000000 bytes to keep, got more")
        assert len(got.body) <= 1_000_000


def test_an_event_without_end_is_left_and_said():
    def script(peer):
        with contextlib.suppress(OSError):  # it goes on until the client is gone
            peer.send(CLOSE + event(1) + b"data: ")
            while True:
                peer.send(b"x" * 1_000_000)

    with served(script) as server:
        got = record(Request(server.url, timeout=PATIENCE))
        assert [timed.event.data for timed in got.events] == ["1"]
        assert got.ended == "left"
        assert "expected an event of at most" in got.error


def test_an_event_that_was_cut_is_no_event_and_said():
    got = recorded(CLOSE, event(1), b"data: 2\n")
    assert [timed.event.data for timed in got.events] == ["1"]
    assert (got.ended, got.error, got.cut_inside_event) == ("close", "", True)


def test_head_ends_with_its_head():
    with served(lambda peer: (peer.send(length(100)), peer.see_the_client_go())) as server:
        got = record(Request(server.url, method="HEAD", timeout=PATIENCE))
        assert (got.ended, got.framing_complete, got.body) == ("length", True, b"")


def test_an_interim_answer_is_passed_over():
    got = recorded(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", length(9), event(1))
    assert (got.status, got.header("Link"), got.body) == (200, None, event(1))


# Nothing waits for more than is there.


@pytest.mark.parametrize("http_version", ["1.0", "1.1"])
@pytest.mark.parametrize("framing", ["chunked", "inside one chunk", "length", "close", "gzip", "deflate"])
def test_each_event_is_given_before_the_peer_sends_the_next(framing, http_version):
    count = 10
    events = [event(n) for n in range(count)]
    compressor = zlib.compressobj(wbits=31 if framing == "gzip" else 15)
    flushed = [compressor.compress(piece) + compressor.flush(zlib.Z_SYNC_FLUSH) for piece in events]
    head, wires = {
        "chunked": (CHUNKED, [chunk(piece) for piece in events]),
        "inside one chunk": (CHUNKED + b"%x\r\n" % sum(map(len, events)), events),
        "length": (length(sum(map(len, events))), events),
        "close": (CLOSE, events),
        "gzip": (CLOSE[:-2] + b"Content-Encoding: gzip\r\n\r\n", flushed),
        "deflate": (CLOSE[:-2] + b"Content-Encoding: deflate\r\n\r\n", flushed),
    }[framing]

    def script(peer):
        for wire in [head, *wires]:
            peer.send(wire)
            peer.wait()

    with served(script) as server:
        request = Request(server.url, http_version=http_version, timeout=PATIENCE)
        with open_exchange(request) as exchange:
            assert exchange.status == 200  # before any byte of the body
            server.step()
            for n, timed in zip(range(count), exchange.events()):
                assert timed.event.data == str(n)
                assert timed.at == exchange.reads[-1].at
                server.step()


def test_each_byte_is_given_before_the_peer_sends_the_next():
    def script(peer):
        peer.send(CHUNKED + b"5\r\n")
        for n in range(5):
            peer.send(b"hello"[n : n + 1])
            peer.wait()

    with served(script) as server, open_exchange(Request(server.url, timeout=PATIENCE)) as exchange:
        for expected, piece in zip([b"h", b"e", b"l", b"l", b"o"], exchange.chunks()):
            assert piece.data == expected
            server.step()


def test_no_event_is_stamped_before_it_was_sent_and_a_burst_has_one_time():
    sent = []

    def script(peer):
        peer.send(CHUNKED)
        for n in range(3):
            time.sleep(0.05)
            sent.append(time.monotonic())
            peer.send(chunk(event(n)))
        time.sleep(0.05)
        sent.append(time.monotonic())
        peer.send(b"".join(chunk(event(n)) for n in range(3, 7)) + b"0\r\n\r\n")

    with served(script) as server:
        at = [timed.at for timed in record(Request(server.url, timeout=PATIENCE)).events]
    assert all(came >= went for came, went in zip(at, sent))
    assert at[2] < at[3] == at[4] == at[5] == at[6]


# Content codings over the socket.


def test_gzip_that_was_cut_is_visible():
    coded = gzip.compress(event(1) * 10)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    whole = recorded(head % len(coded), coded)
    assert (whole.ended, whole.error, whole.coding, whole.coding_complete) == ("length", "", "gzip", True)
    cut = recorded(head % (len(coded) - 4), coded[:-4])
    assert (cut.ended, cut.framing_complete, cut.coding_complete) == ("length", True, False)
    assert cut.error == "expected the end of gzip in the content, got the end of the body"
    assert len(whole.events) == len(cut.events) == 10


def test_gzip_that_was_not_flushed_gives_bytes_and_no_events():
    compressor = zlib.compressobj(wbits=31)
    first = compressor.compress(event(1))

    def script(peer):
        peer.send(CLOSE[:-2] + b"Content-Encoding: gzip\r\n\r\n" + first)
        peer.wait()
        peer.send(compressor.flush())

    with served(script) as server, open_exchange(Request(server.url, timeout=PATIENCE)) as exchange:
        assert exchange.first_byte_at == exchange.headers_at
        assert exchange.pieces == []
        server.step()
        assert next(exchange.chunks()).data == event(1)
        assert exchange.pieces[0].at > exchange.first_byte_at


def test_a_coding_that_is_not_known_is_left_and_said():
    got = recorded(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\n\x01\x02\x03")
    assert (got.body, got.coding, got.coding_complete, got.ended, got.error) == (b"\1\2\3", "br", None, "length", "")
    assert "'br', which is left undecoded" in got.coding_note


def test_content_that_is_not_in_its_coding_is_malformed():
    got = recorded(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\n<html>")
    assert (got.status, got.ended) == (200, "malformed")
    assert "expected content in gzip" in got.error


# Going.


def endless(peer):
    """Send three events and no end; return how the client went."""
    peer.send(CHUNKED + chunk(event(1)) + chunk(event(2)) + chunk(event(3)))
    return peer.see_the_client_go()


@pytest.mark.parametrize("how, seen", [("leave", "fin"), ("reset", "reset")])
def test_a_client_goes_with_fin_or_with_rst(how, seen):
    with served(endless) as server, open_exchange(Request(server.url, timeout=PATIENCE)) as exchange:
        events = exchange.events()
        next(events)
        getattr(exchange, how)()
        assert server.result.result(PATIENCE) == seen
        assert (exchange.ended, exchange.error) == ("left", "")
        assert list(events) == []
        assert list(exchange.events()) == list(exchange.chunks()) == []
        getattr(exchange, how)()  # twice is once


def test_a_client_that_leaves_bytes_unread_still_goes_with_fin():
    sent = threading.Event()

    def script(peer):
        peer.send(CHUNKED)
        peer.wait()
        peer.send(chunk(b"x" * 20_000))
        sent.set()
        return peer.see_the_client_go()

    with served(script) as server:
        with open_exchange(Request(server.url, timeout=PATIENCE)):
            server.step()
            assert sent.wait(PATIENCE)
        assert server.result.result(PATIENCE) == "fin"


def test_leaving_the_block_is_leaving_the_stream():
    with served(endless) as server:
        with open_exchange(Request(server.url, timeout=PATIENCE)) as exchange:
            assert exchange.ended is None
        assert exchange.ended == "left"
        assert server.result.result(PATIENCE) == "fin"


def test_an_error_in_the_block_closes_too():
    with served(endless) as server:
        with pytest.raises(ZeroDivisionError), open_exchange(Request(server.url, timeout=PATIENCE)):
            raise ZeroDivisionError
        assert server.result.result(PATIENCE) == "fin"


def test_a_recording_can_stop_after_some_events():
    with served(endless) as server:
        got = record(Request(server.url, timeout=PATIENCE), stop_after=2)
        assert [timed.event.data for timed in got.events] == ["1", "2"]
        assert (got.ended, got.error, got.cut_inside_event) == ("left", "", False)
        assert server.result.result(PATIENCE) == "fin"


def test_iterating_again_goes_on_where_it_stopped():
    with served(endless) as server, open_exchange(Request(server.url, timeout=PATIENCE)) as exchange:
        for expected in ("1", "2", "3"):
            assert next(exchange.events()).event.data == expected


def test_many_clients_in_threads_do_not_disturb_each_other():
    def client(name):
        with served(plays(CHUNKED, *(chunk(event(f"{name}-{n}")) for n in range(20)), b"0\r\n\r\n")) as server:
            return [timed.event.data for timed in record(Request(server.url, timeout=PATIENCE)).events]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(client, range(8)))
    assert answers == [[f"{name}-{n}" for n in range(20)] for name in range(8)]


# TLS.


def tls_server(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return lambda connection: context.wrap_socket(connection, server_side=True)


def test_tls_is_read_event_by_event(certificate):
    def script(peer):
        peer.send(CHUNKED)
        for n in range(3):
            peer.send(chunk(event(n)))
            peer.wait()
        return peer.see_the_client_go()

    with served(script, tls_server(certificate)) as server:
        trusting = ssl.create_default_context(cafile=certificate)
        with open_exchange(Request(server.url, timeout=PATIENCE, tls=trusting)) as exchange:
            for n, timed in zip(range(3), exchange.events()):
                assert timed.event.data == str(n)
                server.step()


def test_a_certificate_that_nobody_vouches_for_is_refused(certificate):
    def wrap(connection):
        with pytest.raises(ssl.SSLError):
            tls_server(certificate)(connection)
        raise EOFError("no handshake, no script")

    with pytest.raises(EOFError), served(endless, wrap) as server:
        got = record(Request(server.url, timeout=PATIENCE))
        assert (got.status, got.ended) == (None, "refused")
        assert "certificate verify failed" in got.error
