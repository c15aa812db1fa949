"""HTTP framing against HAProxy's opinion. Streams of bytes that two programs may cut into requests
in different ways go through HAProxy to a node, and to the node directly. The node's audit trail
says which requests it saw, HAProxy's log which ones it sent: a request that the node alone has seen
was smuggled."""

import collections
import concurrent.futures
import contextlib
import json
import random
import re
import socket
import subprocess
import threading
import time

import pytest

import trail
from cluster import Cluster, free_ports

SEED = 20240
STREAMS = 400
CLIENTS = 24
QUIET_S = 0.25  # a client that has got nothing for so long is done
BODY = b'{"a":1}'  # 7 bytes
UNREAD = (400, 501, *trail.UNREAD)  # the node may have refused the framing: the trail has no record

# HAProxy takes a request apart and writes it anew; `lenient` also passes on odd characters.
CONFIG = """
global
    nbthread 1
    log 127.0.0.1:{log} len 8192 format raw local0
defaults
    mode http
    log global
    log-format "%ft %s %ST %{{+Q}}r"
    timeout connect 5s
    timeout client 400ms
    timeout server 20s
    timeout http-request 300ms
    timeout http-keep-alive 200ms
    option http-keep-alive
    http-reuse always
    retries 0
frontend strict
    bind 127.0.0.1:{strict}
    default_backend node
frontend lenient
    bind 127.0.0.1:{lenient}
    option accept-invalid-http-request
    default_backend node
backend node
    server node1 127.0.0.1:{node}
"""

# The first of each list is what an honest client sends.
LENGTHS = [
    b"7", b"07", b"0", b"6", b"8", b"60", b"+7", b"-7", b"0x7", b"7, 7", b"7,6", b"7 7", b" 7",
    b"7 ", b"\t7", b"7\x0b", b"", b"7;", b"18446744073709551623", b"4294967303", b"7\r\n 0",
    b"\xc2\xa07", b"7\x00",
]
CODINGS = [
    b"chunked", b"Chunked", b" chunked", b"chunked ", b"\x0bchunked", b"xchunked", b"identity",
    b"chunked, identity", b"identity, chunked", b"gzip, chunked", b"chunked, chunked",
    b"chunked;q=1", b'"chunked"', b"chunked,", b",chunked", b"\r\n chunked", b"chunked\x00", b"",
    b"chun\tked", b"\xc2\xa0chunked",
]
LENGTH_NAMES = [b"Content-Length"] * 6 + [
    b"content-length", b"Content_Length", b"Content-Length ", b"Content-Length\t",
    b"X: y\n Content-Length", b"\x00Content-Length",
]
CODING_NAMES = [b"Transfer-Encoding"] * 6 + [
    b"transfer-encoding", b"Transfer_Encoding", b"Transfer-Encoding ", b" Transfer-Encoding",
    b"X: y\n Transfer-Encoding", b"X: y\rTransfer-Encoding", b"\x0bTransfer-Encoding",
]
ENDS = [b"\r\n"] * 60 + [b"\n", b"\r", b"\r\r\n", b"\n\r", b"\x00\r\n"]
VERSIONS = [b"HTTP/1.1"] * 60 + [
    b"HTTP/1.0", b"HTTP/1.1 ", b"HTTP/01.1", b"http/1.1", b"HTTP/2.0", b"",
]
SIZES = [b"%x"] * 8 + [b"%X", b"0%x", b"000000000000000%x", b"0x%x", b"+%x", b" %x"]
EXTENSIONS = [b""] * 6 + [
    b";a", b";a=b", b';a="\r\n"', b";\n", b" ", b"\t", b" ;a=b", b";a=\x00", b"\x0b", b"\r", b",7",
]
TRAILERS = [b""] * 6 + [
    b"X: y\r\n", b"Content-Length: 60\r\n", b"Transfer-Encoding: chunked\r\n", b"X: y\n",
    b" folded\r\n",
]
BETWEEN = [b""] * 12 + [b"\r\n", b"\n", b"\r\n\r\n", b" "]


def path(stream, name):
    return f"/v1/kv/{stream}-{name}".encode()


class Maker:
    """Makes the bytes of one stream, whose requests have paths of their own."""

    def __init__(self, number, token):
        self.random = random.Random(SEED * 10000 + number)
        self.token = token.encode()

    def pick(self, choices):
        return self.random.choice(choices)

    def head(self, method, where, headers):
        """A head with at most one odd end of a line, so that most are not plainly wrong."""
        lines = [
            b"%s %s %s" % (method, where, self.pick(VERSIONS)),
            b"Host: a",
            b"X-Vault-Token: " + self.token,
            *headers,
            b"",
        ]
        odd, end = self.random.randrange(len(lines)), self.pick(ENDS)
        return b"".join(line + (end if at == odd else b"\r\n") for at, line in enumerate(lines))

    def chunks(self, content):
        end = self.pick(ENDS)
        return b"".join([
            self.pick(SIZES) % len(content), self.pick(EXTENSIONS), self.pick([b"\r\n", end]),
            content, self.pick([b"\r\n", end]),
            self.pick([b"0", b"0", b"0", b"00", b"0;a", b""]), b"\r\n", self.pick(TRAILERS),
            b"\r\n",
        ])

    def plain(self, where, more=b""):
        return b"GET %s HTTP/1.1\r\nHost: a\r\nX-Vault-Token: %s\r\n%s\r\n" % (
            where, self.token, more)

    def framing(self):
        headers = []
        for names, values in ((LENGTH_NAMES, LENGTHS), (CODING_NAMES, CODINGS)):
            for _ in range(self.pick([0, 1, 1, 2])):
                value = self.pick(values) if self.random.random() < 0.4 else values[0]
                headers.append(self.pick(names) + b": " + value)
        self.random.shuffle(headers)
        return headers

    def stream(self, name):
        """A request `a` with a body of doubtful length, in which may stand a request `x`; behind it
        the honest requests `b` and `c`."""
        inner = self.plain(path(name, "x"))
        content = self.pick([BODY, BODY, inner, BODY + inner])
        chunks = self.chunks(content)
        body = self.pick([content, chunks, chunks, b"0\r\n\r\n" + inner, b""])
        method = self.pick([b"POST", b"PUT", b"GET", b"HEAD", b"DELETE"])
        return b"".join([
            self.head(method, path(name, "a"), self.framing()), body, self.pick(BETWEEN),
            self.plain(path(name, "b")), self.plain(path(name, "c"), b"Connection: close\r\n"),
        ])


class Log(threading.Thread):
    """What HAProxy says that it has sent: for each stream its paths, with the status of the reply.
    """

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.sent = collections.defaultdict(list)
        self.refused = 0
        self.ended = threading.Event()

    def run(self):
        while True:
            line = self.socket.recv(65536).decode("latin-1")
            if "/end-of-log" in line:
                self.socket.close()
                self.ended.set()
                return
            front, server, status, request = line.split(" ", 3)
            found = re.search(r"/v1/kv/([a-z]\d+)-([a-z])", request)
            if server == "<NOSRV>" or not found:
                self.refused += 1
                continue
            self.sent[found[1]].append((found[2], int(status)))


@contextlib.contextmanager
def haproxy(cluster):
    """The ports of the two frontends, and the log."""
    strict, lenient = free_ports(2)
    log = Log()
    log.start()
    file = cluster.dir / "haproxy.cfg"
    file.write_text(CONFIG.format(
        log=log.port, strict=strict, lenient=lenient, node=cluster.nodes[0].client_port))
    subprocess.run(["haproxy", "-c", "-q", "-f", file], check=True, timeout=120)
    process = subprocess.Popen(
        ["prlimit", "--nofile=1024:1024", "haproxy", "-db", "-f", file], stdin=subprocess.DEVNULL)
    try:
        for port in (strict, lenient):
            await_port(port)
        yield strict, lenient, log
    finally:
        process.terminate()
        process.wait(120)


def await_port(port):
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 60).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def send(port, data):
    """The bytes of the replies until the other side hangs up or falls silent."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), 60) as tcp:
        tcp.settimeout(QUIET_S)
        with contextlib.suppress(TimeoutError, ConnectionError):
            tcp.sendall(data)
            while part := tcp.recv(65536):
                got += part
    return got


def seen_by(node):
    """For each stream the paths of the requests in the node's audit trail, in order."""
    seen = collections.defaultdict(list)
    with open(node.dir / trail.FILE, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            found = re.fullmatch(r"kv/([a-z]\d+)-([a-z])", record["request"].get("path", ""))
            if found and record["type"] == "request":
                seen[found[1]].append(found[2])
    return seen


def ends_behind_body(data):
    """HAProxy refuses such a request of HTTP/1.0 with a body, which old servers did not read. A node
    reads the body, and hangs up behind the one request."""
    return re.match(rb"(GET|HEAD|DELETE) \S+ HTTP/1\.0\s", data) is not None


@pytest.fixture(scope="module")
def cluster():
    with Cluster(size=1, config={"listener": {"tcp": {"tls_disable": True}}}) as made:
        yield made


def is_within(part, whole):
    rest = iter(whole)
    return all(item in rest for item in part)


def disagreements(streams, seen, sent, replies):
    """Streams of which the node saw a request that HAProxy did not send, or did not see one that it
    did; and streams of which the node alone saw a request that HAProxy saw not."""
    wrong = []
    for name, data in streams.items():
        if name[0] == "d":
            believed = [letter for letter, _ in sent[f"l{name[1:]}"]]
            agree = is_within(seen[name], believed) or (
                ends_behind_body(data) and seen[name] == ["a"])
        else:
            believed = sent[name]
            must = [letter for letter, status in believed if status not in UNREAD]
            agree = is_within(seen[name], [letter for letter, _ in believed]) and is_within(
                must, seen[name])
        if not agree:
            wrong.append(f"{name}: HAProxy sent {believed}, the node saw {seen[name]}: {data!r}: "
                         f"{replies[name]!r}")
    return wrong


def test_the_node_sees_the_requests_that_haproxy_has_sent(cluster):
    node = cluster.nodes[0]
    with haproxy(cluster) as (strict, lenient, log):
        ways = {"s": strict, "l": lenient, "d": node.client_port}
        # The same bytes thrice, but for the letter of the way.
        streams = {f"{way}{n}": Maker(n, cluster.token).stream(f"{way}{n}")
                   for n in range(STREAMS) for way in ways}
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            sending = {name: pool.submit(send, ways[name[0]], data)
                       for name, data in streams.items()}
        replies = {name: reply.result() for name, reply in sending.items()}
        send(strict, b"GET /end-of-log HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert log.ended.wait(60)
    assert node.alive
    seen = seen_by(node)
    total = sum(map(len, log.sent.values()))
    print(f"\n{len(streams)} streams: HAProxy sent {total} requests and refused {log.refused}, "
          f"the node saw {sum(map(len, seen.values()))}")
    wrong = disagreements(streams, seen, log.sent, replies)
    assert not wrong, "\n".join(wrong[:10])
    # The streams are odd, but not so odd that nothing comes through.
    assert total > STREAMS and log.refused > STREAMS / 4


def test_a_smuggled_or_lost_request_is_a_disagreement():
    streams = {"s1": b"s", "l1": b"l", "d1": b"d"}
    sent = {"s1": [("a", 204), ("b", 404)], "l1": [("a", 204), ("b", 404)]}
    good = {"s1": ["a", "b"], "l1": ["a", "b"], "d1": ["a"]}
    assert not disagreements(streams, good, sent, streams)
    for name, letters in (("s1", ["a", "x", "b"]), ("l1", ["a"]), ("d1", ["a", "x"])):
        assert len(disagreements(streams, {**good, name: letters}, sent, streams)) == 1
