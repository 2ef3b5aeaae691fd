"""An upstream that says a large answer as fast as it is taken, in a process of its own: `flooding.py BYTES EVENTS`."""

from __future__ import annotations

import socket
import sys

from answer_vectors import DONE, said
from raw_upstream import FINAL_CHUNK, chunk, head

if __name__ == "__main__":
    size, count = map(int, sys.argv[1:])
    event = chunk(said("x" * size))
    answer = b"".join([head("chunked"), event * count, chunk(DONE), FINAL_CHUNK])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            client, _ = listener.accept()
            with client:
                client.recv(65536)
                client.sendall(answer)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):  # what is left unread would reset the connection, and take the answer with it
                    pass
