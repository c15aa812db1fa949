"""A pair whose line, nodes or disks fail: the secondary has what its primary has, or says so."""

import os
import socket
import threading
import time

import pytest

from activation import DR, become_primary, call, enable, make_token, operation_token, status
from cluster import PATIENCE_S
from dr_link import TO_PRIMARY, TO_SECONDARY, Link
from test_dr_fencing import One
from test_dr_pair import await_equal, await_state, seen

LONG = bool(os.environ.get("HOLDFAST_LONG"))


def linked(link):
    """A cluster of one node that others reach by the link alone."""
    cluster = One(config={"cluster": {"advertise": link.address}})
    link.target = cluster.node.cluster_port
    return cluster


def follow(primary, secondary, name):
    secondary.await_feature_level()
    told = enable(secondary.node, make_token(primary, name), primary)
    assert told.status == 200, told.body


@pytest.fixture(scope="module")
def pair():
    with Link() as link, linked(link) as primary, One() as secondary:
        primary.link = link
        become_primary(primary)
        follow(primary, secondary, "b")
        await_state(secondary, "stream-wals")
        await_equal(primary, secondary)
        primary.operator = operation_token(secondary.nodes, primary.recovery_keys)
        yield primary, secondary


class Load:
    """Writers, each with rising numbers, until the end of the block."""

    def __init__(self, cluster, prefix, writers=4):
        self.cluster, self.prefix = cluster, prefix
        self.acked = [0] * writers  # each writer's last number
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.write, args=(i,)) for i in range(writers)]

    def write(self, i):
        connection = self.cluster.node.connect(30)
        try:
            while not self.stop.is_set():
                path = f"/v1/kv/{self.prefix}/{i}/{self.acked[i] + 1}"
                connection.request("PUT", path, b'{"x": "1"}',
                                   {"X-Secrets-Token": self.cluster.token})
                answer = connection.getresponse()
                answer.read()
                if answer.status != 204:
                    return
                self.acked[i] += 1
        except OSError:
            return
        finally:
            connection.close()

    def total(self):
        return sum(self.acked)

    def await_more(self, n):
        wanted, deadline = self.total() + n, time.monotonic() + PATIENCE_S
        while self.total() < wanted:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.stop.set()
        for thread in self.threads:
            thread.join(PATIENCE_S)


def drill(pair):
    primary, secondary = pair
    body = {"dr_operation_token": primary.operator}
    told = call(secondary.node, "POST", f"{DR}/secondary/drill", body, "").data
    assert told["passed"], told
    return told


def test_the_link_is_the_only_way(pair):
    primary, secondary = pair
    assert seen(secondary.node)["known_primary_cluster_addrs"] == [f"https://{primary.link.address}"]
    assert primary.link.passed[TO_SECONDARY] > 0


def test_a_partition_under_load_ends_with_equal_roots(pair):
    primary, secondary = pair
    link = primary.link
    with Load(primary, "parted") as load:
        load.await_more(50)
        link.cut()
        secondary.await_until(lambda: seen(secondary.node)["connection_state"] != "ready")
        load.await_more(2000 if LONG else 300)  # the primary does not wait
        behind = status(secondary.node)["version"]
        assert status(primary.node)["version"] > behind + 200
        link.heal()
        load.await_more(50)
    await_equal(primary, secondary)


@pytest.mark.parametrize("way", [TO_PRIMARY, TO_SECONDARY])
def test_a_line_that_passes_one_way_only(pair, way):
    primary, secondary = pair
    link = primary.link
    with Load(primary, f"oneway{len(way)}") as load:
        load.await_more(20)
        link.held.add(way)
        load.await_more(300)
        if way == TO_SECONDARY:  # a secondary that hears nothing takes the connection for dead
            secondary.await_until(lambda: seen(secondary.node)["last_heard_ms"] > 3000)
        link.heal()
    await_equal(primary, secondary)


@pytest.mark.parametrize("kind", ["slow", "thin", "lossy"])
def test_a_bad_line_loses_nothing(pair, kind):
    primary, secondary = pair
    link = primary.link
    with Load(primary, kind) as load:
        if kind == "slow":
            link.delay_s = 0.2
        elif kind == "thin":
            link.rate = 32 * 1024
        else:
            link.losses = 0.1
        load.await_more(300)
    wanted = status(primary.node)["version"]
    if kind == "lossy":
        link.losses = 0.02
    secondary.await_until(lambda: seen(secondary.node)["version"] >= wanted)
    link.heal()
    await_equal(primary, secondary)


def test_a_bit_that_is_flipped_on_the_way_ends_the_connection_alone(pair):
    primary, secondary = pair
    link = primary.link
    with Load(primary, "flipped") as load:
        for _ in range(5):
            accepted, link.flips = link.accepted, 2
            secondary.await_until(lambda: link.flips <= 0 and link.accepted > accepted)
            load.await_more(20)
    await_equal(primary, secondary)
    assert seen(secondary.node)["repaired_differences"] == 0  # nothing of it was believed


def test_two_new_root_keys_while_the_secondary_is_away(pair):
    primary, secondary = pair
    primary.link.cut()
    for i in range(2):
        call(primary.node, "POST", "/v1/sys/rotate/root", {}, status=204)
        call(primary.node, "POST", "/v1/sys/rotate", {}, status=204)
        call(primary.node, "PUT", f"/v1/kv/rekeyed/{i}", {"x": "1"}, status=204)
    primary.link.heal()
    await_equal(primary, secondary)
    secondary.await_until(lambda: secondary.node.health() == 472)
    drill(pair)
    secondary.node.kill()
    secondary.node.start()
    secondary.await_until(lambda: secondary.node.health() == 472)
    await_equal(primary, secondary)
    drill(pair)


def test_many_mounts(pair):
    primary, secondary = pair
    count = 10000 if LONG else 1000
    primary.link.cut()
    before = status(secondary.node)["version"]
    connection = primary.node.connect(PATIENCE_S)
    for i in range(count):
        connection.request("POST", f"/v1/sys/mounts/many/{i}", b'{"type": "kv"}',
                           {"X-Secrets-Token": primary.token})
        answer = connection.getresponse()
        assert answer.status == 204, answer.read()
        answer.read()
    connection.close()
    primary.link.heal()
    await_equal(primary, secondary)
    assert status(secondary.node)["version"] >= before + count
    assert drill(pair)["mounts"] > count


def fill(node, token, first, n):
    """Many keys, by requests that do not wait for each other's replies."""
    value = b'{"x": "' + b"y" * 100 + b'"}'
    head = (f" HTTP/1.1\r\nHost: x\r\nX-Secrets-Token: {token}\r\n"
            f"Content-Length: {len(value)}\r\n\r\n").encode()
    with socket.create_connection(("127.0.0.1", node.client_port)) as raw, \
            node.cluster.tls.wrap_socket(raw, server_hostname="localhost") as connection:
        replies = connection.makefile("rb")
        for at in range(first, first + n, 200):
            many = range(at, min(at + 200, first + n))
            connection.sendall(b"".join(b"PUT /v1/kv/fill/%d" % i + head + value for i in many))
            left = len(many)
            while left > 0:
                line = replies.readline()
                assert line != b""
                if line.startswith(b"HTTP/1.1 "):
                    assert b" 204" in line, line
                    left -= 1


def test_a_large_first_sync_under_writes(pair):
    primary, secondary = pair
    threads, each = 16, 62500 if LONG else 1500
    workers = [threading.Thread(target=fill, args=(primary.node, primary.token, i * each, each))
               for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with One() as other, Load(primary, "beside", writers=2) as load:
        follow(primary, other, "d")
        patience_s = 3600 if LONG else PATIENCE_S
        other.await_until(lambda: seen(other.node).get("state") == "stream-wals", patience_s)
        load.await_more(50)
        load.stop.set()
        await_equal(primary, other)
    call(primary.node, "POST", f"{DR}/primary/revoke-secondary", {"id": "d"}, status=204)
    await_equal(primary, secondary)
    assert drill(pair)["keys"] > threads * each


def test_a_state_that_is_full_here_follows_its_primary(pair):
    """The limit is the primary's to keep: a secondary that stopped would be lost."""
    primary, secondary = pair
    secondary.node.config["state_bytes_max"] = 64 * 1024  # less than the state has
    secondary.node.kill()
    secondary.node.start()
    secondary.await_until(lambda: secondary.node.health() == 472)
    for i in range(50):
        call(primary.node, "PUT", f"/v1/kv/large/{i}", {"x": "y" * 10000}, status=204)
    await_equal(primary, secondary)
    del secondary.node.config["state_bytes_max"]
    secondary.node.kill()
    secondary.node.start()
    secondary.await_until(lambda: secondary.node.health() == 472)
