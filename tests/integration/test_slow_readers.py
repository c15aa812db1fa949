"""Clients that never read their replies take a bounded part of a node's memory, whatever they ask."""

import contextlib
import pathlib
import re
import threading
import time

import pytest

from cluster import Cluster, call_on, free_ports
from slow_readers import DOCUMENT, SlowReaders, addresses

MIB = 1 << 20
UNREAD_MIB = 64  # of each node in this file
LIMIT_MIB = 512
READERS = 4000
GROWTH = 1.2  # of memory, at most, in parts of the budget
SECRET = 900_000  # bytes
PAUSE_S = 60  # after the last slow reader has gone


def memory_cgroup(name, limit):
    """A control group with `limit` bytes, of version 1 or 2."""
    v1, v2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
    if (v1 / "memory.limit_in_bytes").exists():
        group, field = v1 / name, "memory.limit_in_bytes"
    elif "memory" in (v2 / "cgroup.controllers").read_text().split():
        (v2 / "cgroup.subtree_control").write_text("+memory")
        group, field = v2 / name, "memory.max"
    else:
        pytest.fail("no control group can limit memory: neither version 1 nor 2 is mounted")
    group.mkdir()
    (group / field).write_text(str(limit))
    return group


@contextlib.contextmanager
def limited(node, limit):
    """Move the node's processes into a control group of its own."""
    group = memory_cgroup(f"holdfast-{node.process.pid}", limit)
    home = pathlib.Path(group.parent, "cgroup.procs")
    pids = [node.process.pid, *map(int, children(node.process.pid))]
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid))
    try:
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                home.write_text(pid)
        group.rmdir()


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def resident(node):
    """Bytes of memory of the node's process."""
    text = pathlib.Path(f"/proc/{node.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024


def labelled(node, name):
    """{label: value} of a metric."""
    text = node.call("GET", "/v1/sys/metrics?format=prometheus").body.decode()
    return {label: float(value)
            for label, value in re.findall(rf'^{name}{{\w+="(\w+)"}} (\S+)$', text, re.M)}


def closed(node):
    return labelled(node, "holdfast_http_slow_readers_closed_total")


class Client:
    """A client that reads its replies, on one connection, again and again."""

    def __init__(self, node, token):
        self.node, self.token, self.replies, self.failure = node, token, 0, None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            with contextlib.closing(self.node.connect()) as connection:
                while not self.over.is_set():
                    for path, size in (("small", 10), ("large", SECRET)):
                        reply = call_on(connection, "GET", f"/v1/kv/{path}", token=self.token)
                        assert reply.status == 200, (path, reply.status, reply.body[:200])
                        assert len(reply.data["x"]) == size
                    self.replies += 2
        except BaseException as failure:
            self.failure = failure

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *failure):
        self.over.set()
        self.thread.join()
        assert self.failure is None, self.failure
        assert self.replies >= 4


@pytest.fixture(scope="module")
def cluster():
    """The first node, a standby, serves a port in clear too; the second sends every read on."""
    with Cluster(config={"unread_bytes_max": UNREAD_MIB * MIB}) as made:
        node = made.nodes[0]
        for path, size in (("small", 10), ("large", SECRET)):
            assert node.call("PUT", f"/v1/kv/{path}", {"x": "y" * size}).status == 204
        made.reader = made.limited('path "kv/*" { capabilities = ["read"] }')
        made.savers = made.limited(
            'path "sys/storage/raft/snapshot" { capabilities = ["read", "sudo"] }')
        made.clear_port = free_ports(1)[0]
        tls = made.dir / "tls"
        secure = {"address": f"127.0.0.1:{node.client_port}",
                  "tls_cert_file": str(tls / f"tls-{node.name}.pem"),
                  "tls_key_file": str(tls / f"tls-{node.name}-key.pem")}
        clear = {"address": f"127.0.0.1:{made.clear_port}", "tls_disable": True}
        # Another node is active: a node that starts is a standby.
        again(made, node, {"listener": [{"tcp": secure}, {"tcp": clear}]})
        if made.active() is made.nodes[1]:
            again(made, made.nodes[1], {})
        again(made, made.nodes[1], {"performance_standby": False})
        yield made


def again(cluster, node, config):
    """Restart the node with more of a configuration."""
    assert node.stop() == 0
    node.config = {**node.config, **config}
    node.start()
    cluster.await_up()


def secret(token, times=1):
    return times * f"GET /v1/kv/large HTTP/1.1\r\nHost: a\r\nX-Secrets-Token: {token}\r\n\r\n"


def snapshot(token):
    return (f"GET /v1/sys/storage/raft/snapshot HTTP/1.1\r\nHost: a\r\n"
            f"X-Secrets-Token: {token}\r\n\r\n")


def crowds(cluster):
    """Ways to be slow: port, TLS, connections, addresses, request, the bound that closes some."""
    node, token = cluster.nodes[0], cluster.reader
    return [
        (cluster.clear_port, None, READERS, 1, DOCUMENT, None),
        (cluster.clear_port, None, READERS, 400, secret(token), "token"),
        (cluster.clear_port, None, 200, 40, secret(token, 40), "token"),
        (cluster.clear_port, None, 200, 40, snapshot(cluster.savers), None),
        (node.client_port, cluster.tls, 1000, 400, DOCUMENT, "anonymous"),
        (node.client_port, cluster.tls, 300, 100, secret(token), "token"),
        (node.cluster_port, None, 500, 400, DOCUMENT, None),
    ]


def test_a_node_with_little_memory_serves_beside_slow_readers(cluster):
    node = cluster.nodes[0]
    with limited(node, LIMIT_MIB * MIB), Client(node, cluster.token) as client:
        # What the node keeps for a few clients of any kind is in `before`.
        with SlowReaders(cluster.clear_port, addresses(100)) as readers:
            readers.ask(100, DOCUMENT)
        with SlowReaders(node.client_port, addresses(100), cluster.tls) as readers:
            readers.ask(100, DOCUMENT)
        replies = client.replies
        cluster.await_until(lambda: client.replies > replies + 100)
        before = resident(node)
        for port, tls, count, sources, request, bound in crowds(cluster):
            first, closed_first = resident(node), closed(node)
            with SlowReaders(port, addresses(sources), tls) as readers:
                readers.ask(count, request)
                cluster.await_until(lambda: bound is None
                                    or sum(closed(node).values()) > sum(closed_first.values()))
                grown = resident(node) - first
                assert grown < GROWTH * UNREAD_MIB * MIB, (count, sources, request[:60], grown)
                if sources == 1:
                    assert node.metric("holdfast_http_open_connections") < 1024 + 50
        deadline = time.monotonic() + PAUSE_S
        while resident(node) > 1.1 * before:
            assert time.monotonic() < deadline, (before, resident(node))
            time.sleep(1)
    # One line a minute for each thread, not one for each connection.
    lines = [line for line in node.log_lines() if "replies that clients do not read" in line]
    assert 1 <= len(lines) < 20 < sum(closed(node).values())


def test_slow_readers_leave_a_standby_its_connections_to_the_active_node(cluster):
    """The standby sends reads on: it counts a reply before it has arrived."""
    node = cluster.nodes[1]
    with Client(node, cluster.token) as client:
        cluster.await_until(lambda: client.replies > 20)
        before = resident(node)
        with SlowReaders(node.client_port, addresses(100), cluster.tls) as readers:
            readers.ask(300, secret(cluster.reader))
            cluster.await_until(lambda: sum(closed(node).values()) > 0)
            assert labelled(node, "holdfast_http_unread_bytes")["clients"] <= UNREAD_MIB * MIB
            assert resident(node) - before < GROWTH * UNREAD_MIB * MIB
