"""Requests that a standby forwards: long bodies pass through the standby in both directions."""

import contextlib
import os
import re
import socket
import struct
import time

import pytest

from cluster import Cluster

MIB = 1 << 20


@pytest.fixture(scope="module")
def cluster():
    """Standbys that answer no reads themselves, without the memory a sanitizer holds back, so that
    their size tells what they keep."""
    with pytest.MonkeyPatch.context() as patch:
        options = os.environ.get("ASAN_OPTIONS", "")
        patch.setenv("ASAN_OPTIONS", f"{options}:quarantine_size_mb=1".lstrip(":"))
        made = Cluster(config={"performance_standby": False})
        with made:
            yield made


def memory(node, field="VmRSS"):
    with open(f"/proc/{node.process.pid}/status") as status:
        return int(re.search(rf"{field}:\s+(\d+) kB", status.read())[1]) * 1024


@contextlib.contextmanager
def grows_less_than(node, limit):
    """The largest size within the block, compared with the one before it."""
    before = memory(node)
    with open(f"/proc/{node.process.pid}/clear_refs", "w") as reset:
        reset.write("5")
    yield
    grown = memory(node, "VmHWM") - before
    assert grown < limit, f"{node.name} grew by {grown} bytes"


def opened(node):
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


def await_equal(look, wanted, timeout_s=120):
    deadline = time.monotonic() + timeout_s
    while look() != wanted:
        assert time.monotonic() < deadline, f"is {look()}, wanted {wanted}"
        time.sleep(0.05)


def await_opened(node, most, timeout_s=120):
    deadline = time.monotonic() + timeout_s
    while opened(node) > most:
        assert time.monotonic() < deadline, f"{node.name} has {opened(node)} open, wanted {most}"
        time.sleep(0.05)


def upload(node, path, length=None, timeout_s=120, token=None):
    """A connection on which the head of a PUT was sent; without a length the body is chunked."""
    tcp = socket.create_connection(("127.0.0.1", node.client_port), timeout_s)
    tls = node.cluster.tls.wrap_socket(tcp, server_hostname="127.0.0.1")
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    tls.sendall(
        f"PUT {path} HTTP/1.1\r\nHost: a\r\nX-Secrets-Token: {token or node.cluster.token}\r\n"
        f"{framing}\r\n\r\n".encode()
    )
    return tls


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def heard(connection):
    """The status and all that comes until the node hangs up."""
    got = b""
    with contextlib.suppress(OSError):
        while part := connection.recv(65536):
            got += part
    found = re.match(rb"HTTP/1\.1 (\d+) ", got)
    return (int(found[1]) if found else 0), got


def hang_up(connection):
    """As a client that dies: the other side sees a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def send_all(connection, data):
    """As much as is taken: an early answer ends it."""
    with contextlib.suppress(OSError):
        connection.sendall(data)


@pytest.mark.parametrize("announced", [True, False])
def test_a_long_body_passes_through_a_standby_without_being_kept(cluster, announced):
    node = cluster.standbys()[0]
    body = b'{"x":"' + b"y" * (30 * MIB) + b'"}'
    node.call("PUT", "/v1/kv/long", {"x": "y" * (3 * MIB)})  # what is allocated once
    with grows_less_than(node, 14 * MIB):
        with upload(node, "/v1/kv/long", len(body) if announced else None) as connection:
            if announced:
                send_all(connection, body)
            else:
                for at in range(0, len(body), MIB):
                    send_all(connection, chunk(body[at : at + MIB]))
                send_all(connection, b"0\r\n\r\n")
            connection.settimeout(120)
            status, got = read_answer(connection)
    assert status == 413, got[:300]
    assert b"errors" in got
    assert node.call("GET", "/v1/kv/long").status == 404


def read_answer(connection):
    """One answer with a length."""
    got = b""
    while b"\r\n\r\n" not in got:
        part = connection.recv(65536)
        assert part, got
        got += part
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    while len(body) < length:
        part = connection.recv(65536)
        assert part, head
        body += part
    return int(head.split()[1]), body


def test_a_long_body_that_is_welcome_arrives_whole(cluster):
    """Blanks count for the request but not for the value."""
    node = cluster.standbys()[0]
    body = b" " * (5 * MIB) + b'{"x":"' + b"z" * 900_000 + b'"}' + b" " * (5 * MIB)
    for announced in (True, False):
        path = f"/v1/kv/welcome-{announced}"
        with upload(node, path, len(body) if announced else None) as connection:
            if announced:
                connection.sendall(body)
            else:
                for at in range(0, len(body), 1_000_003):
                    connection.sendall(chunk(body[at : at + 1_000_003]))
                connection.sendall(b"0\r\n\r\n")
            got = connection.recv(65536)
            assert got.startswith(b"HTTP/1.1 204 "), got
        assert cluster.active().call("GET", path).data == {"x": "z" * 900_000}


def test_bodies_that_drip_hold_no_memory_and_no_place(cluster):
    node = cluster.standbys()[0]
    node.call("PUT", "/v1/kv/drip", {"x": "y" * (3 * MIB)})
    files = opened(node)
    part = b" " * (3 * MIB)
    # Held, they would be 60 MiB; what is on its way, and TLS, takes 8 to 16, more on a busy machine.
    with grows_less_than(node, 45 * MIB), contextlib.ExitStack() as stack:
        drips = []
        for i in range(20):
            chunked = i % 2 == 0
            connection = upload(node, "/v1/kv/drip", None if chunked else 20 * MIB)
            stack.callback(connection.close)
            connection.sendall(chunk(part) if chunked else part)
            drips.append(connection)
        for n in range(10):
            for i, connection in enumerate(drips):
                connection.sendall(chunk(b" " * 2000) if i % 2 == 0 else b" " * 2000)
            assert node.call("PUT", "/v1/kv/other", {"n": n}).status == 204
            assert node.call("GET", "/v1/kv/other").data == {"n": n}
        for connection in drips:
            hang_up(connection)
    await_opened(node, files + 8)  # connections to the active node are kept for a while
    assert node.call("GET", "/v1/kv/drip").status == 404


def test_who_may_not_upload_takes_no_place_from_who_may(cluster):
    node = cluster.standbys()[0]
    powerless = cluster.limited('path "kv/mine" { capabilities = ["read"] }')
    paths = ["/v1/sys/storage/raft/snapshot-force", "/v1/kv/mine"]
    part = b" " * (3 * MIB // 2)
    with contextlib.ExitStack() as stack:
        crowd = []
        for i in range(200):  # each worker has 32 places
            chunked = i % 4 == 0
            token = (powerless, "hvs.none")[i // 2 % 2]
            connection = upload(node, paths[i % 2], None if chunked else 20 * MIB, token=token)
            stack.callback(connection.close)
            send_all(connection, chunk(part) if chunked else b" ")
            crowd.append(connection)
        for _ in range(4):
            good = stack.enter_context(upload(node, "/v1/kv/good", 2 * MIB))
            send_all(good, b'{"x":"' + b"y" * (2 * MIB - 8) + b'"}')
            good.settimeout(120)
            assert b" 413 " in good.recv(4096)  # a value may not be so long: the active node says so
        for connection in crowd:
            connection.settimeout(120)
            assert b" 403 " in connection.recv(4096)


def test_a_client_that_leaves_within_a_body_leaves_nothing_behind(cluster):
    node, active = cluster.standbys()[0], cluster.active()
    node.call("PUT", "/v1/kv/other", {"n": 1})
    before = opened(active)
    for i in range(12):
        connection = upload(node, "/v1/kv/left", 20 * MIB)
        connection.sendall(b'{"x":"' + b"y" * (2 * MIB))
        hang_up(connection) if i % 2 else connection.close()
    await_opened(active, before + 4)
    assert active.call("GET", "/v1/kv/left").status == 404
    assert node.call("PUT", "/v1/kv/other", {"n": 2}).status == 204


def test_a_half_closed_client_is_still_answered(cluster):
    node = cluster.standbys()[0]
    body = b" " * (2 * MIB) + b'{"x":1}'
    plain = socket.create_connection(("127.0.0.1", node.client_port), 120)
    with cluster.tls.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        connection.sendall(
            f"PUT /v1/kv/half HTTP/1.1\r\nHost: a\r\nX-Secrets-Token: {cluster.token}\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        status, got = heard(connection)
    assert status == 204, got


def test_a_body_without_a_good_token_is_refused(cluster):
    node = cluster.standbys()[0]
    answer = node.call("PUT", "/v1/kv/none", b'{"x":"' + b"y" * (3 * MIB) + b'"}', token="hvs.no")
    assert answer.status == 403
    assert answer.json["errors"]


def test_a_client_that_wants_to_be_redirected_need_not_send_its_body(cluster):
    node = cluster.standbys()[0]
    answer = node.call(
        "PUT", "/v1/kv/to", b" " * (2 * MIB), headers={"X-Vault-No-Request-Forwarding": "true"}
    )
    assert answer.status == 307
    assert answer.headers["Location"] == f"{cluster.active().url}/v1/kv/to"


def test_long_answers_pass_through_a_standby(cluster):
    node, active = cluster.standbys()[0], cluster.active()
    value = {"x": "v" * (MIB - 100)}
    assert active.call("PUT", "/v1/kv/answer", value).status == 204
    for _ in range(3):
        assert node.call("GET", "/v1/kv/answer").data == value
    # a reply of up to 2 MiB is collected, and counted as not read yet
    with grows_less_than(node, 28 * MIB), contextlib.ExitStack() as stack:
        for _ in range(20):  # readers that wait
            tcp = socket.create_connection(("127.0.0.1", node.client_port), 120)
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection = stack.enter_context(
                cluster.tls.wrap_socket(tcp, server_hostname="127.0.0.1")
            )
            connection.sendall(
                f"GET /v1/kv/answer HTTP/1.1\r\nHost: a\r\nX-Secrets-Token: {cluster.token}"
                "\r\n\r\n".encode()
            )
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    assert node.call("GET", "/v1/kv/answer").data == value


def received(node):
    return int(node.metric("holdfast_http_received_bytes_total"))


def test_limits_and_losses_of_the_active_node_are_told():
    with Cluster() as cluster:
        for _ in range(5):
            node = cluster.standbys()[0]
            node.stop()
            node.config = {"listener": {"tcp": {"max_request_bytes": 64 * MIB}}}
            node.start()
            cluster.await_up()
            active = cluster.active()
            if active.config == {}:
                break
        # Its own limit is higher, the active node's is not: no more than a beginning is sent.
        with upload(node, "/v1/kv/big", 40 * MIB) as connection:
            send_all(connection, b" " * (2 * MIB))
            status, got = read_answer(connection)
            assert status == 413, got
        # The active node dies while the body is on its way.
        before = received(active)
        with upload(node, "/v1/kv/lost", 20 * MIB) as connection:
            connection.sendall(b'{"x":"' + b"y" * (4 * MIB))
            deadline = time.monotonic() + 120
            while received(active) < before + MIB:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            active.kill()
            status, got = read_answer(connection)
        assert status >= 500, got
        assert b"outcome unknown" in got
        await_equal(lambda: node.call("GET", "/v1/kv/lost").status, 404)


def test_a_request_without_an_answer_ends_with_what_is_known():
    with Cluster() as cluster:
        for node in cluster.nodes:
            node.stop()
            node.config = {"listener": {"tcp": {"request_timeout_s": "1s"}}}
            node.start()
        cluster.await_up()
        active = cluster.active()
        others = [node for node in cluster.nodes if node is not active]
        for node in others:
            node.pause()
        try:
            answer = active.call("PUT", "/v1/kv/late", {"n": 1})
            assert answer.status in (504, 500), answer.body  # 500: it gave up first
            assert "outcome unknown" in answer.json["errors"][0]
            answer = active.call("GET", "/v1/kv/late")
            assert answer.status == 503, answer.body
            assert answer.json["errors"]
        finally:
            for node in others:
                node.resume()
        cluster.await_up()
        deadline = time.monotonic() + 120
        while active.call("PUT", "/v1/kv/late", {"n": 2}).status != 204:
            assert time.monotonic() < deadline
