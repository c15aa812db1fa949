"""One client takes as much as it can get; meanwhile every request of another client succeeds."""

import contextlib
import http.client
import itertools
import socket
import ssl
import threading
import time

import pytest

from cluster import Cluster, call_on

MIB = 1 << 20
# Each test has a greedy client of its own: a node may still hold the bodies of the one before.
# The other client has 127.0.0.1.
GREEDY = (f"127.0.0.{host}" for host in itertools.count(2))
BODY = 32 * MIB - 1  # eight of them are 256 MiB


@pytest.fixture(scope="module")
def cluster():
    with Cluster(config={"listener": {"tcp": {"max_connections": 100}}}) as made:
        yield made


@pytest.fixture
def greedy(cluster):
    """Connections of the greedy client, closed at the end."""
    address = next(GREEDY)
    with contextlib.ExitStack() as stack:

        def dial(node):
            tcp = socket.create_connection(("127.0.0.1", node.client_port), 20, (address, 0))
            stack.callback(tcp.close)
            tls = cluster.tls.wrap_socket(tcp, server_hostname="127.0.0.1")
            stack.callback(tls.close)
            return tls

        yield dial


def is_open(connection):
    connection.settimeout(0)
    try:
        return connection.recv(1) != b""
    except ssl.SSLWantReadError:
        return True
    except OSError:
        return False


def send_head(connection, path, length, token=None, method="PUT"):
    said = f"X-Secrets-Token: {token}\r\n" if token else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: a\r\n{said}Content-Length: {length}\r\n\r\n"
    connection.sendall(head.encode())


def send_most(connection, length):
    """All but the end of a body, or as much as is taken."""
    part = b" " * MIB
    with contextlib.suppress(OSError):
        while length > 1:
            n = min(length - 1, MIB)
            connection.sendall(part[:n])
            length -= n


def all_is_well(cluster):
    """Each node answers small and large requests, on new connections and on one that stays."""
    for node in cluster.nodes:
        for connection in (node.connect(), node.connect()):
            with contextlib.closing(connection):
                for size in (10, 100_000, 900_000):
                    value = {"x": "y" * size}
                    answer = call_on(connection, "PUT", "/v1/kv/well", value, cluster.token)
                    assert answer.status == 204, (node.name, size, answer.body)
                    answer = call_on(connection, "GET", "/v1/kv/well", None, cluster.token)
                    assert answer.status == 200 and answer.data == value


def test_long_bodies_without_a_token_are_not_read(cluster, greedy):
    paths = ["kv/greedy", "sys/unseal", "auth/token/create"]
    for node in cluster.nodes:
        crowd = [greedy(node) for _ in range(9)]
        for i, connection in enumerate(crowd):
            send_head(connection, f"/v1/{paths[i % 3]}", BODY, token=None)
        for connection in crowd:
            send_most(connection, BODY)
    all_is_well(cluster)


def test_long_bodies_with_a_token_fill_a_share_only(cluster, greedy):
    for node in cluster.nodes:
        crowd = [greedy(node) for _ in range(9)]
        for connection in crowd:
            send_head(connection, "/v1/kv/greedy", BODY, cluster.token)
            send_most(connection, BODY)
    all_is_well(cluster)


def ask_with(connection, body, token):
    """Status and text of the reply to a write of this body."""
    send_head(connection, "/v1/kv/greedy", len(body), token)
    connection.sendall(body)
    reply = http.client.HTTPResponse(connection)
    reply.begin()
    return reply.status, reply.read().decode()


def test_documents_that_expand_when_parsed_take_a_share_only(cluster, greedy):
    large = b'{"x":[' + b"[]," * 590_000 + b"[]]}"  # 1.8 MB; two are more than a share
    short = b'{"x":[' + b"[]," * 20_000 + b"[]]}"  # 60 KB
    replies = []
    over = threading.Event()

    def crowd(connection, body):
        while not over.is_set():
            replies.append(ask_with(connection, body, cluster.token))

    threads = [threading.Thread(target=crowd, args=(greedy(node), body))
               for node in cluster.nodes for body in 3 * [large] + 2 * [short]]
    for thread in threads:
        thread.start()
    try:
        all_is_well(cluster)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert len(replies) >= len(threads)
    for status, text in replies:
        assert status in (204, 413) or "large request bodies of this client" in text, (status, text)


def test_connections_of_one_client_leave_room(cluster, greedy):
    for node in cluster.nodes:
        crowd = []
        for _ in range(250):
            with contextlib.suppress(OSError):
                crowd.append(greedy(node))
                crowd[-1].sendall(b"GET /v1/sys/health HTTP/1.1\r\n")
        deadline = time.monotonic() + 60
        while sum(map(is_open, crowd)) > 100:  # its two workers take 50 each
            assert time.monotonic() < deadline
    all_is_well(cluster)


def test_uploads_that_never_end_leave_room(cluster, greedy):
    path = "/v1/sys/storage/raft/snapshot"
    for node in cluster.nodes:
        for _ in range(20):
            connection = greedy(node)
            send_head(connection, path, 10 * BODY, cluster.token, "POST")
            send_most(connection, MIB)
    all_is_well(cluster)
    answer = cluster.active().call("POST", path, {"no": "snapshot"})
    assert answer.status == 400, answer.body
