"""Rows of blocking queries: how soon a change wakes those that wait for it, what a waiting request
holds, and what those that wait for other keys cost a write."""

import contextlib
import json
import random
import re
import resource
import selectors
import socket
import ssl
import statistics
import time

import load
import measure
from load import kv2_put, wrk
from measure import medians, ratios, result, rounds
from nodes import PLAIN, Nodes, merged
from rows_rates import ceiling, etcd
from rows_state import rss

MANY = 1000  # that wait for one key
EACH = 10000  # that wait for a key of their own
SECURE = 8000  # the same over TLS
WRITES = 10  # of a round of `wake`
SINGLE = 300  # writes of `wake-one`
REST_S = 3  # until the buffers of a connection that rests are given back
WAIT = "600s"
ROOM = {"listener": {"tcp": {"max_connections": 32768, "max_connections_per_address": 32768}},
        "max_connections": 32768, "max_connections_per_address": 32768,
        "max_blocking_queries": 65536, "max_blocking_queries_per_address": 65536}


class Waiting(Nodes):
    """A cluster with room for many waiting requests of one address."""

    def __init__(self, **more):
        super().__init__(config=ROOM, **more)

    def init(self):
        super().init()
        self.await_feature_level()


def p99(values):
    return sorted(values)[max(0, -(-99 * len(values) // 100) - 1)]


def metric(node, name):
    text = node.call("GET", "/v1/sys/metrics?format=prometheus").body.decode()
    return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])


def await_waiting(node, count):
    deadline = time.monotonic() + 120
    while metric(node, "holdfast_blocking_waiting") != count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def request(cluster, method, path, body=None):
    text = json.dumps(body).encode() if body is not None else b""
    return (f"{method} /v1/acl/{path} HTTP/1.1\r\nHost: a\r\nX-Consul-Token: {cluster.token}\r\n"
            f"Content-Length: {len(text)}\r\n\r\n").encode() + text


class Line:
    """One connection that is read when something has come."""

    def __init__(self, port, context=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context:
            self.socket = context.wrap_socket(self.socket)

    def send(self, data):
        self.socket.sendall(data)

    def answer(self):
        """Head and body of one reply."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.socket.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])
        while len(body) < length:
            body += self.socket.recv(65536)
        return head, body

    def call(self, data):
        self.send(data)
        return self.answer()


def index_of(head):
    return int(re.search(rb"x-consul-index: (\d+)", head, re.I)[1])


@contextlib.contextmanager
def lines(port, count, context=None):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    made = []
    try:
        for _ in range(count):
            made.append(Line(port, context))
        yield made
    finally:
        for line in made:
            line.socket.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def objects(cluster, line, count):
    """Accessors of tokens, and the index of the last."""
    found = []
    for i in range(count):
        head, body = line.call(request(cluster, "PUT", "token", {"Description": f"object {i}"}))
        assert b" 200 " in head[:16], (head, body)
        found.append(json.loads(body)["AccessorID"])
    head, _ = line.call(request(cluster, "GET", f"token/{found[-1]}"))
    return found, index_of(head)


def changing(cluster, accessor):
    return request(cluster, "PUT", f"token/{accessor}",
                   {"AccessorID": accessor, "Description": f"changed {time.monotonic_ns()}"})


def waiting(cluster, accessor, index):
    return request(cluster, "GET", f"token/{accessor}?index={index}&wait={WAIT}")


def last_ms(lines_, act):
    """How long after `act` the last of the connections has something to read."""
    with selectors.DefaultSelector() as selector:
        for line in lines_:
            selector.register(line.socket, selectors.EVENT_READ, line)
        left, begun = len(lines_), time.monotonic()
        act()
        while left:
            for key, _ in selector.select(30):
                selector.unregister(key.fileobj)
                left -= 1
        return 1000 * (time.monotonic() - begun)


def wake_ours(cluster):
    node = cluster.active()
    with lines(node.client_port, MANY) as waiters, lines(node.client_port, 1) as (writer,):
        (accessor,), index = objects(cluster, writer, 1)
        took = []
        for _ in range(WRITES):
            for line in waiters:
                line.send(waiting(cluster, accessor, index))
            await_waiting(node, MANY)
            took.append(last_ms(waiters, lambda: writer.send(changing(cluster, accessor))))
            assert b" 200 " in writer.answer()[0][:16]
            index = min(index_of(line.answer()[0]) for line in waiters)
    return {"last_ms": p99(took), "median_ms": statistics.median(took)}


def wake_etcd(peer):
    url = peer.leader().url
    port = int(url.rpartition(":")[2])
    key = load.base64_of("watched")
    create = json.dumps({"create_request": {"key": key}}).encode()
    ask = (f"POST /v3/watch HTTP/1.1\r\nHost: a\r\nContent-Length: {len(create)}\r\n\r\n"
           ).encode() + create
    with lines(port, MANY) as waiters:
        for line in waiters:
            line.send(ask)
        for line in waiters:
            data = b""
            while b'"created":true' not in data:
                data += line.socket.recv(65536)
        took = []
        for i in range(WRITES):
            body = {"key": key, "value": load.base64_of(f"value {i}")}
            took.append(last_ms(waiters, lambda: load.post(f"{url}/v3/kv/put", body)))
            for line in waiters:
                line.socket.recv(65536)
    return {"last_ms": p99(took), "median_ms": statistics.median(took)}


def row_wake():
    with Waiting() as cluster:
        sides = {"ours": lambda: wake_ours(cluster), "etcd": lambda: wake_etcd(etcd())}
        samples = rounds("wake", sides, ceiling)
    ours, theirs = (medians(samples, side, "last_ms")[0] for side in ("ours", "etcd"))
    result("wake", ratios(samples, "ours", "etcd", "last_ms"), "etcd", 1, 0.5, most=True,
           detail=f"{MANY} readers of one key, to the last: {ours:.1f} ms, etcd {theirs:.1f} ms")
    result("wake", [each["ours"]["last_ms"] for each in samples], "ms", 200, 50, most=True)


def park_each(cluster, waiters, found, index):
    for line, accessor in zip(waiters, found):
        line.send(waiting(cluster, accessor, index))
    await_waiting(cluster.active(), len(waiters))


def row_wake_one():
    with Waiting() as cluster:
        node, took = cluster.active(), []
        with lines(node.client_port, EACH) as waiters, lines(node.client_port, 1) as (writer,):
            found, index = objects(cluster, writer, EACH)
            park_each(cluster, waiters, found, index)
            for _ in range(SINGLE):
                i = random.randrange(EACH)
                begun = time.monotonic()
                writer.send(changing(cluster, found[i]))
                head, _ = waiters[i].answer()
                took.append(1000 * (time.monotonic() - begun))
                assert b" 200 " in writer.answer()[0][:16]
                waiters[i].send(waiting(cluster, found[i], index_of(head)))
                time.sleep(0.002)
    measure.raw_data["wake-one"] = {"took_ms": took}
    result("wake-one", [p99(took)], "ms", 10, 2, most=True,
           detail=f"{EACH} wait for as many keys; p50 {statistics.median(took):.2f} ms")


def held_bytes(cluster, count, context=None):
    """Resident memory of the node for each waiting request, its connection included."""
    node = cluster.active()
    with lines(node.client_port, 1, context) as (writer,):
        found, index = objects(cluster, writer, 1)
        time.sleep(REST_S)
        before = rss(node)
        with lines(node.client_port, count, context) as waiters:
            park_each(cluster, waiters, found * count, index)
            time.sleep(REST_S)
            return (rss(node) - before) / count


def row_parked():
    with Waiting() as cluster:
        plain = held_bytes(cluster, EACH)
    with Waiting(tls=True) as cluster:
        context = ssl._create_unverified_context()
        secure = held_bytes(cluster, SECURE, context)
    result("parked", [plain / 1024], "KB", 17, 8, most=True, detail=f"{EACH} over plain connections")
    result("parked", [secure / 1024], "KB", 40, 20, most=True, detail=f"{SECURE} over TLS")


def row_watch_cost():
    with Waiting() as cluster:
        node = cluster.active()
        put = kv2_put(cluster.client)

        def without():
            return wrk(node.url, put)

        with lines(node.client_port, EACH) as waiters, lines(node.client_port, 1) as (writer,):
            found, index = objects(cluster, writer, EACH)

            def beside():
                park_each(cluster, waiters, found, index)
                sample = wrk(node.url, put)
                for line in waiters:
                    line.socket.close()
                await_waiting(node, 0)
                waiters[:] = [Line(node.client_port) for _ in range(EACH)]
                return sample

            samples = rounds("watch-cost", {"without": without, "beside": beside}, ceiling)
    rates = [medians(samples, side, "rate")[0] for side in ("beside", "without")]
    result("watch-cost", ratios(samples, "beside", "without"), "without", 0.9, 0.98,
           detail=f"{rates[0]:.0f} writes/s while {EACH} wait for other keys, {rates[1]:.0f} without")
