"""Who the client is when a proxy stands in front: the PROXY protocol and X-Forwarded-For, by what
the log says of each request."""

import itertools
import json
import re
import socket
import struct
import time

import pytest

from cluster import Cluster
from scheduler import WebSocket

unknown = (f"00000000-0000-4000-8000-{n:012}" for n in itertools.count())
V2 = b"\r\n\r\n\0\r\nQUIT\n"


class Single:
    """One node whose listener can be changed by starting it again."""

    def __init__(self, cluster):
        self.cluster, self.node, self.n = cluster, cluster.nodes[0], 0

    def listen(self, **listener):
        if self.node.alive:
            assert self.node.stop() == 0
        self.node.config = {"log_requests_level": "info", "listener": {"tcp": listener}}
        before = len(self.node.log_text())
        self.node.start()
        deadline = time.monotonic() + 120
        while "serving as" not in self.node.log_text()[before:]:
            assert self.node.alive and time.monotonic() < deadline, self.node.log_text()[-2000:]
            time.sleep(0.02)

    def ask(self, preamble=b"", headers=(), tls=True):
        """(status, client as the log says) of a request behind `preamble`; None: cut off."""
        self.n += 1
        path = f"/v1/sys/wanted-{self.n}"
        raw = socket.create_connection(("127.0.0.1", self.node.client_port), timeout=120)
        try:
            raw.sendall(preamble)
            sock = self.cluster.tls.wrap_socket(raw, server_hostname="127.0.0.1") if tls else raw
            lines = [f"GET {path} HTTP/1.1", "Host: x", "Connection: close", *headers]
            sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
            answer = b""
            while piece := sock.recv(65536):
                answer += piece
            sock.close()
        except OSError:
            return None
        finally:
            raw.close()
        if not answer:
            return None
        status = int(answer.split()[1])
        return status, self.client_of(path[4:]) if status != 400 else answer

    def client_of(self, path):
        deadline = time.monotonic() + 120
        while True:
            for line in self.node.log_lines():
                if f'"{path}"' in line:
                    return json.loads(line)["client"]
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture(scope="module")
def single():
    with Cluster(size=1) as cluster:
        yield Single(cluster)


def line(client="203.0.113.7", port=56324):
    return f"PROXY TCP4 {client} 127.0.0.1 {port} 8200\r\n".encode()


def binary(client="203.0.113.7", port=56324, command=0x21):
    body = socket.inet_aton(client) + socket.inet_aton("127.0.0.1") + struct.pack(">HH", port, 1)
    return V2 + bytes([command, 0x11]) + struct.pack(">H", len(body)) + body


def is_own(answer):
    return answer is not None and re.fullmatch(r"127\.0\.0\.1:\d+", answer[1]) is not None


@pytest.mark.parametrize("clear", [False, True])
def test_the_proxy_protocol_names_the_client(single, clear):
    single.listen(proxy_protocol_behavior="use_always", tls_disable=clear)
    tls = not clear
    for preamble in (line(), binary()):
        assert single.ask(preamble, tls=tls)[1] == "203.0.113.7:56324"
    v6 = b"PROXY TCP6 fd00::7 fd00::1 1 2\r\n"
    assert single.ask(v6, tls=tls)[1] == "[fd00::7]:1"
    for preamble in (b"", b"PROXY UNKNOWN\r\n", binary(command=0x20)):
        assert is_own(single.ask(preamble, tls=tls)), preamble
    for bad in (b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", b"PROXY TCP4 1.2.3.4 5.6.7.8 1 99999\r\n",
                V2 + b"\x31\x11\0\x0c", V2 + b"\x21\x11\xff\xff", b"PROXY " + b"x" * 200):
        assert single.ask(bad, tls=tls) is None, bad


def test_words_in_small_pieces_are_put_together(single):
    single.listen(proxy_protocol_behavior="use_always", tls_disable=True)
    raw = socket.create_connection(("127.0.0.1", single.node.client_port), timeout=120)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    request = b"GET /v1/sys/in-pieces HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    for byte in binary() + request:
        raw.sendall(bytes([byte]))
    while raw.recv(65536):
        pass
    raw.close()
    assert single.client_of("sys/in-pieces") == "203.0.113.7:56324"


def test_only_authorised_proxies_are_heeded(single):
    single.listen(proxy_protocol_behavior="allow_authorized",
                  proxy_protocol_authorized_addrs=["10.0.0.0/8", "127.0.0.0/8"])
    assert single.ask(line())[1] == "203.0.113.7:56324"
    single.listen(proxy_protocol_behavior="allow_authorized",
                  proxy_protocol_authorized_addrs="10.0.0.0/8,fd00::/8")
    assert is_own(single.ask(line())) and is_own(single.ask(binary())) and is_own(single.ask())
    single.listen(proxy_protocol_behavior="deny_unauthorized",
                  proxy_protocol_authorized_addrs=["10.0.0.0/8"])
    assert single.ask(line()) is None and single.ask(binary()) is None
    assert is_own(single.ask())


def test_without_the_setting_nobody_is_heeded(single):
    single.listen()
    assert single.ask(line()) is None
    assert is_own(single.ask(headers=["X-Forwarded-For: 203.0.113.7"]))
    assert is_own(single.ask(headers=["X-Holdfast-Client: 203.0.113.7"]))


def test_forwarded_for_is_believed_of_authorised_proxies(single):
    single.listen(x_forwarded_for_authorized_addrs=["127.0.0.1"])
    for value in ("203.0.113.7", " 203.0.113.7 ", "6.6.6.6, 203.0.113.7", "junk,203.0.113.7"):
        answer = single.ask(headers=[f"X-Forwarded-For: {value}"])
        assert re.fullmatch(r"203\.0\.113\.7:\d+", answer[1]), answer
    two = ["X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: [fd00::7]:99"]
    assert single.ask(headers=two)[1] == "[fd00::7]:99"
    for value in ("", "junk", "203.0.113.7,", "203.0.113.7 6.6.6.6", "203.0.113.7:x"):
        assert single.ask(headers=[f"X-Forwarded-For: {value}"])[0] == 400, value
    answer = single.ask()
    assert answer[0] == 400 and b"missing x-forwarded-for header" in answer[1]


@pytest.mark.parametrize("listener,sent", [
    ({"x_forwarded_for_authorized_addrs": ["127.0.0.1"]},
     {"headers": ["X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 203.0.113.7"]}),
    ({"proxy_protocol_behavior": "use_always"}, {"preamble": line()}),
])
def test_the_client_of_a_proxy_stays_the_same_behind_the_first_frame(single, listener, sent):
    """With ws_handshake the request is judged again, once the client has sent its token."""
    single.listen(**listener)
    path = f"client/allocation/{next(unknown)}/exec"
    with WebSocket(single.node, f"{path}?task=t&command=[%22true%22]&ws_handshake=true", **sent) as client:
        client.send({"version": 1, "auth_token": single.cluster.token})
        closed = client.finish()[3]
    assert closed.code in (1008, 1011), closed
    assert single.client_of(path).startswith("203.0.113.7:")


def test_hops_of_proxies_are_skipped(single):
    single.listen(x_forwarded_for_authorized_addrs=["127.0.0.0/8"], x_forwarded_for_hop_skips=1,
                  x_forwarded_for_reject_not_present=False)
    answer = single.ask(headers=["X-Forwarded-For: 203.0.113.7, 10.0.0.1"])
    assert answer[1].startswith("203.0.113.7:")
    two = ["X-Forwarded-For: 203.0.113.7", "X-Forwarded-For: 10.0.0.1"]
    assert single.ask(headers=two)[1].startswith("203.0.113.7:")
    answer = single.ask(headers=["X-Forwarded-For: 10.0.0.1"])
    assert answer[0] == 400 and b"hops to skip" in answer[1]
    assert is_own(single.ask())


def test_forwarded_for_from_elsewhere_is_refused_or_ignored(single):
    single.listen(x_forwarded_for_authorized_addrs=["10.0.0.0/8"])
    answer = single.ask(headers=["X-Forwarded-For: 203.0.113.7"])
    assert answer[0] == 400 and b"not authorized" in answer[1]
    single.listen(x_forwarded_for_authorized_addrs=["10.0.0.0/8"],
                  x_forwarded_for_reject_not_authorized=False)
    assert is_own(single.ask(headers=["X-Forwarded-For: 203.0.113.7"]))


def test_a_mistake_in_the_settings_is_named(single):
    for listener, text in [
        ({"proxy_protocol_behavior": "sometimes"}, "proxy_protocol_behavior: use_always"),
        ({"proxy_protocol_behavior": "deny_unauthorized"},
         "proxy_protocol_authorized_addrs: is required"),
        ({"x_forwarded_for_authorized_addrs": ["10.0.0.1/8"]}, '"10.0.0.1/8" is not an address'),
        ({"x_forwarded_for_hop_skips": -1}, "x_forwarded_for_hop_skips: 0 or more"),
    ]:
        if single.node.alive:
            assert single.node.stop() == 0
        single.node.config = {"listener": {"tcp": listener}}
        at = len(single.node.log_text())
        single.node.start()
        assert single.node.process.wait(120) != 0
        assert text in single.node.log_text()[at:]


def test_the_active_node_hears_of_the_client_of_a_standby():
    config = {"log_requests_level": "info",
              "listener": {"tcp": {"x_forwarded_for_authorized_addrs": ["127.0.0.1"],
                                   "x_forwarded_for_reject_not_present": False}}}
    with Cluster(config=config) as cluster:
        active, standby = cluster.active(), cluster.standbys()[0]
        headers = {"X-Forwarded-For": "203.0.113.7"}
        answer = standby.call("PUT", "/v1/kv/behind", {"a": 1}, headers=headers)
        assert answer.status == 204
        deadline = time.monotonic() + 120
        while True:
            lines = [json.loads(text) for text in active.log_lines()
                     if '"kv/behind"' in text]
            if lines or active is not cluster.active():
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for each in lines:
            assert each["forwarded"] and each["client"].startswith("203.0.113.7:")
