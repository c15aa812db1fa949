#!/usr/bin/python3 -B
"""A client that takes all a node gives it, in every way at once, until it is killed.

    greedy.py PORT TOKEN [KIND…]

It connects from 127.0.0.2. Each kind has a thread; the line "ready" tells that all have begun. All
kinds run unless some are named.

The client shares the processors and the disk of the nodes, so its rates are bounded: two bodies of 32
MiB a second of each kind, ten documents of 500 KB a second, a hundred other requests of each kind. A
client that keeps the machine itself busy would measure the machine.
"""

import contextlib
import itertools
import socket
import sys
import threading
import time

PORT, TOKEN = int(sys.argv[1]), sys.argv[2]
ONLY = sys.argv[3:]
MIB = 1 << 20
LONG = 32 * MIB - 1  # eight of them are 256 MiB
HALF = b"GET /v1/sys/health HTTP/1.1\r\n"
CROWD = 500
PAUSE_S = 0.01  # between two requests of a kind
LONG_PAUSE_S = 0.5  # beside that, after a long body
DOCUMENT_PAUSE_S = 0.1
VALUES = b'{"x":[' + b"0," * 250_000 + b"0]}"


def dial():
    return socket.create_connection(("127.0.0.1", PORT), 60, ("127.0.0.2", 0))


def head(method, path, length=0, token=None):
    said = f"X-Secrets-Token: {token}\r\n" if token else ""
    return (f"{method} /v1/{path} HTTP/1.1\r\nHost: a\r\n{said}"
            f"Content-Length: {length}\r\n\r\n").encode()


def send_most(connection, length):
    part = b" " * MIB
    while length > 1:
        n = min(length - 1, MIB)
        connection.sendall(part[:n])
        length -= n


def ask(request):
    with contextlib.closing(dial()) as connection:
        connection.sendall(request)
        connection.recv(65536)


def bodies_without_a_token():
    with contextlib.closing(dial()) as connection:
        connection.sendall(head("PUT", "kv/greedy", LONG))
        with contextlib.suppress(OSError):  # it is refused
            send_most(connection, LONG)
    time.sleep(LONG_PAUSE_S)


def bodies_with_a_token(held=[]):
    """Eight that never end; one that was refused is begun again."""
    if len(held) == 8:
        held.pop(0).close()
    held.append(dial())
    held[-1].sendall(head("PUT", "kv/greedy", LONG, TOKEN))
    with contextlib.suppress(OSError):
        send_most(held[-1], LONG)
    time.sleep(LONG_PAUSE_S)


def connections(held=[]):
    if len(held) == CROWD:
        held.pop(0).close()
    held.append(dial())
    held[-1].sendall(HALF)


def documents():
    ask(head("PUT", "kv/greedy", len(VALUES), TOKEN) + VALUES)
    time.sleep(DOCUMENT_PAUSE_S)


def uploads(held=[]):
    if len(held) == 8:
        held.pop(0).close()
    held.append(dial())
    held[-1].sendall(head("POST", "sys/storage/raft/snapshot", LONG, TOKEN))
    send_most(held[-1], MIB)
    time.sleep(LONG_PAUSE_S)


def ceremonies():
    ask(head("DELETE", "sys/generate-root/attempt"))


def descriptions():
    ask(head("GET", "sys/internal/specs/openapi"))


def repeat(kind, begun):
    for n in itertools.count():
        with contextlib.suppress(OSError):  # it is refused
            kind()
        if n == 0:
            begun.release()
        time.sleep(PAUSE_S)


def main():
    begun = threading.Semaphore(0)
    kinds = (bodies_without_a_token, bodies_with_a_token, connections, documents, uploads,
             ceremonies, descriptions)
    kinds = [kind for kind in kinds if not ONLY or kind.__name__ in ONLY]
    for kind in kinds:
        threading.Thread(target=repeat, args=(kind, begun), daemon=True).start()
    for _ in kinds:
        begun.acquire()
    print("ready", flush=True)
    threading.Event().wait()


main()
