"""Requests and bytes that no honest client sends. A node replies or closes the connection; it never dies."""

import json
import re
import resource
import socket
import ssl
import struct
import threading
import time

import pytest

from cluster import call_on


@pytest.fixture(autouse=True)
def nodes_survive(cluster):
    before = [node.process.pid for node in cluster.nodes]
    yield
    for node, pid in zip(cluster.nodes, before):
        assert node.alive and node.process.pid == pid
    cluster.await_health({200, 473}, cluster.nodes)


def raw(node, data, timeout_s=120):
    """Send bytes over TLS, read until the node hangs up or falls silent."""
    with socket.create_connection(("127.0.0.1", node.client_port), timeout_s) as tcp:
        with node.cluster.tls.wrap_socket(tcp, server_hostname="127.0.0.1") as tls:
            tls.settimeout(timeout_s)
            got = b""
            try:
                tls.sendall(data)
                while True:
                    part = tls.recv(65536)
                    if not part:
                        return got, True
                    got += part
            except (TimeoutError, ssl.SSLError, ConnectionError):
                return got, isinstance(got, bytes) and got == b""


def parsed_bytes(node):
    return int(node.metric("holdfast_router_parsed_bytes_total"))


def test_a_body_is_parsed_only_for_who_has_a_right_there(cluster):
    powerless = cluster.limited('path "kv/mine" { capabilities = ["create", "update"] }')
    body = json.dumps({"a": ["x" * 1000] * 8000})
    node = cluster.active()
    before = parsed_bytes(node)
    for token in (powerless, "hvs.none", ""):
        for path in ("kv/other", "sys/policies/acl/x"):
            answer = node.call("PUT", f"/v1/{path}", body, token=token)
            assert answer.status == 403, answer.body
    assert parsed_bytes(node) - before < 1_000_000
    answer = node.call("PUT", "/v1/kv/mine", body, token=powerless)
    assert answer.status == 413  # too long a value
    assert parsed_bytes(node) - before > 8_000_000


SMUGGLING = {
    "both lengths": b"POST /v1/kv/x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST /v1/kv/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "length list": b"POST /v1/kv/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\n\r\n{}",
    "signed length": b"POST /v1/kv/x HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\n{}",
    "huge length": b"POST /v1/kv/x HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "te in 1.0": b"POST /v1/kv/x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "te not chunked": b"POST /v1/kv/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
    "te chunked twice": b"POST /v1/kv/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "space before colon": b"GET /v1/kv/x HTTP/1.1\r\nHost : a\r\n\r\n",
    "folded": b"GET /v1/kv/x HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
    "bare lf": b"GET /v1/kv/x HTTP/1.1\nHost: a\n\n",
    "bare cr": b"GET /v1/kv/x HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
    "no host": b"GET /v1/kv/x HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /v1/kv/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "nul in header": b"GET /v1/kv/x HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n",
    "odd chunk size": b"POST /v1/kv/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
    "negative chunk": b"POST /v1/kv/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "chunk overflow": b"POST /v1/kv/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    "genuine link": b"LINK /v1/kv/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "not http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,
    "h2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http 0.9": b"GET /v1/kv/x\r\n\r\n",
    "http 3.0": b"GET /v1/kv/x HTTP/3.0\r\nHost: a\r\n\r\n",
    "connect": b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
    "space in path": b"GET /v1/kv/x y HTTP/1.1\r\nHost: a\r\n\r\n",
    "header without colon": b"GET /v1/kv/x HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
    "long header": b"GET /v1/kv/x HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 200000 + b"\r\n\r\n",
    "many headers": b"GET /v1/kv/x HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
    "long path": b"GET /v1/kv/" + b"x" * 100000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("name", SMUGGLING)
def test_ambiguous_framing_is_refused_and_the_connection_closed(cluster, name):
    follow = b"GET /v1/sys/health HTTP/1.1\r\nHost: a\r\n\r\n"
    got, closed = raw(cluster.nodes[0], SMUGGLING[name] + follow)
    statuses = re.findall(rb"HTTP/1\.1 (\d+)", got)
    assert len(statuses) <= 1, f"the request behind it was answered: {statuses}"
    assert all(status[:1] in b"45" for status in statuses), statuses
    assert closed, "the connection stayed open"


def asked(node, method, target, body=b""):
    """Status and body of the answer to a request whose target is sent as it is."""
    head = (f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"X-Vault-Token: {node.cluster.token}\r\nContent-Length: {len(body)}\r\n\r\n")
    got, _ = raw(node, head.encode() + body)
    return int(got.split(b" ", 2)[1]), got.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("target", [
    "/v1/sys/storage/raft/%73napshot", "/v1/sys/storage/raft//snapshot",
    "//v1/sys/storage/raft/snapshot", "/%761/sys%2Fstorage/raft/snapsho%74",
    "http://x//v1/sys/storage/raft/snapshot", "/v1/sys/storage/raft/%73napshot-force",
    "/v1/sys/storage//raft/snapshot-force", "/v1/sys/storage/raft/snapshot%2F"])
def test_an_upload_is_one_however_its_path_is_written(cluster, target):
    for node in (cluster.active(), cluster.standbys()[0]):
        for method, body in (("POST", b"abc"), ("PUT", b"")):
            status, answer = asked(node, method, target, body=body)
            assert status == 400, answer
            assert b"'/'" in answer or b"the snapshot is refused" in answer, answer


@pytest.mark.parametrize("sent, key", [
    ("/v1/kv/sp%65lled", "spelled"), ("//v1//kv/%c3%A4%20%3F%23%25%2541;=+", "\u00e4 ?#%%41;=+"),
    ("/v1/kv/x%2Fy", "x/y")])
def test_a_forwarded_path_means_the_same_on_the_active_node(cluster, sent, key):
    value = {"key": key}
    assert asked(cluster.standbys()[0], "PUT", sent, json.dumps(value).encode())[0] == 204
    for node in cluster.nodes:
        status, answer = asked(node, "GET", sent)
        assert status == 200 and json.loads(answer)["data"] == value
    folder, _, name = key.rpartition("/")
    assert name in cluster.active().call("LIST", f"/v1/kv/{folder}").json["data"]["keys"]


def test_pipelined_requests_are_answered_in_order(cluster):
    node = cluster.active()
    node.call("PUT", "/v1/kv/pipe", {"n": 1})
    head = f"HTTP/1.1\r\nHost: a\r\nX-Secrets-Token: {cluster.token}\r\n"
    data = (
        f"GET /v1/kv/pipe {head}\r\n"
        f"LIST /v1/kv/ {head}\r\n"
        f"PUT /v1/kv/pipe {head}Content-Length: 7\r\n\r\n{{\"n\":2}}"
        f"GET /v1/kv/pipe {head}Connection: close\r\n\r\n"
    ).encode()
    got, closed = raw(node, data)
    statuses = re.findall(rb"HTTP/1\.1 (\d+)", got)
    assert statuses == [b"200", b"200", b"204", b"200"], got
    assert closed
    assert got.rindex(b'"n":2') > got.rindex(b"204")


def test_a_body_above_the_limit_is_413_without_being_read(cluster):
    node = cluster.nodes[1]
    size = 33 << 20
    data = (
        f"PUT /v1/kv/big HTTP/1.1\r\nHost: a\r\nX-Secrets-Token: {cluster.token}\r\n"
        f"Content-Length: {size}\r\n\r\n"
    ).encode()
    got, _ = raw(node, data + b"x" * 100000)
    assert got.startswith(b"HTTP/1.1 413 "), got[:200]
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    data = (
        b"PUT /v1/kv/big HTTP/1.1\r\nHost: a\r\nX-Secrets-Token: "
        + cluster.token.encode()
        + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    got, _ = raw(node, data + chunk * (size // 65536 + 1) + b"0\r\n\r\n")
    assert got == b"" or got.startswith(b"HTTP/1.1 413 ")


def test_ten_thousand_idle_connections_leave_room_for_work(cluster):
    wanted = 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, wanted + 1000), hard))
    node, idle = cluster.nodes[2], []
    try:
        for i in range(wanted):  # one address may have a thousand
            source = (f"127.8.0.{1 + i % 20}", 0)
            idle.append(socket.create_connection(("127.0.0.1", node.client_port), 120, source))
        for n in range(20):
            assert node.call("PUT", "/v1/kv/idle", {"n": n}).status == 204
            assert node.call("GET", "/v1/kv/idle").data == {"n": n}
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_half_open_tls_does_not_hold_a_node(cluster):
    node = cluster.nodes[0]
    hello = bytes.fromhex("1603010200010001fc0303")
    half = []
    for port in (node.client_port, node.cluster_port):
        for part in (b"", hello[:3], hello):
            connection = socket.create_connection(("127.0.0.1", port), 120)
            connection.sendall(part)
            half.append(connection)
    assert node.call("PUT", "/v1/kv/half", {"n": 1}).status == 204
    for connection in half:
        connection.close()


def ask_and_reset(node, count):
    """Requests whose sender is gone, with a reset, about when the answer is written."""
    for n in range(count):
        tcp = socket.create_connection(("127.0.0.1", node.client_port), 120)
        try:
            with node.cluster.tls.wrap_socket(tcp, server_hostname="127.0.0.1") as tls:
                tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                close = b"Connection: close\r\n" if n % 2 else b""
                tls.sendall(b"GET /v1/sys/health HTTP/1.1\r\nHost: a\r\n" + close + b"\r\n")
                time.sleep(0.0005 * (n % 7))
        except OSError:
            pass  # the node may hang up first


def test_clients_that_reset_under_the_answer_harm_nobody(cluster):
    node = cluster.nodes[0]
    threads = [threading.Thread(target=ask_and_reset, args=(node, 150)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert node.call("PUT", "/v1/kv/after", {"n": 1}).status == 204


def test_plain_http_on_the_tls_port_is_refused(cluster):
    with socket.create_connection(("127.0.0.1", cluster.nodes[0].client_port), 120) as tcp:
        tcp.sendall(b"GET /v1/sys/health HTTP/1.1\r\nHost: a\r\n\r\n")
        tcp.settimeout(120)
        assert b"200" not in tcp.recv(1000)


def test_hostile_bytes_on_the_cluster_port_are_dropped(cluster):
    generator = __import__("random").Random(7)
    for node in cluster.nodes:
        for size in (1, 5, 100, 5000, 100000):
            with socket.create_connection(("127.0.0.1", node.cluster_port), 120) as tcp:
                try:
                    tcp.sendall(generator.randbytes(size))
                except ConnectionError:
                    pass
    # TLS without a certificate of the cluster.
    for node in cluster.nodes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["holdfast-raft/1"])
        with pytest.raises((ssl.SSLError, ConnectionError, TimeoutError, AssertionError)):
            with socket.create_connection(("127.0.0.1", node.cluster_port), 120) as tcp:
                with context.wrap_socket(tcp) as tls:
                    tls.sendall(b"\xff" * 1000)
                    tls.settimeout(120)
                    assert tls.recv(10) != b""
    assert cluster.nodes[1].call("PUT", "/v1/kv/after", {"n": 1}).status == 204


def test_slow_senders_are_hung_up_on_while_others_are_served(cluster):
    node = cluster.nodes[1]
    tcp = socket.create_connection(("127.0.0.1", node.client_port), 120)
    tls = cluster.tls.wrap_socket(tcp, server_hostname="127.0.0.1")
    closed = threading.Event()

    def drip():
        try:
            for byte in b"GET /v1/kv/x HTTP/1.1\r\n" + b"X-Slow: y\r\n" * 100:
                tls.sendall(bytes([byte]))
                time.sleep(0.5)
        except (OSError, ssl.SSLError):
            closed.set()

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    connection = node.connect()
    for n in range(10):
        assert call_on(connection, "PUT", "/v1/kv/slow", {"n": n}, cluster.token).status == 204
    connection.close()
    thread.join(120)
    assert closed.is_set(), "a header at two bytes a second was still welcome after two minutes"
    tls.close()
