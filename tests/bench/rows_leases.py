"""Rows of leases: a million of them beside none, and how fast they end. The build with the module of
tests/unit/sample lends lamps: one request may take a thousand, each with a lease of its own."""

import functools
import json
import os
import pathlib
import statistics
import threading
import time

import callgrind
import load
import measure
from measure import result
from nodes import VALUE2, Nodes
from rows_faults import figure, outage_ms
from rows_parts import restarted_under_callgrind
from rows_state import COUNT
from wire import Connection, request

PROGRAM = str(pathlib.Path(os.environ["HOLDFAST_BIN"]).with_name("holdfast-sample"))
A_REQUEST = min(1000, COUNT)  # leases taken by one request
MAKERS = 4  # requests that take leases at once
AT_ONCE = max(COUNT // 10, A_REQUEST)  # leases that expire at once
AHEAD_S = 2  # from the end of taking them to their expiry
MADE = 20000  # leases taken one by one
RATE, CONNECTIONS = 1000, 64  # writes a second beside expiry
KILLS = measure.ROUNDS
GONE_S = 300


class Lamps(Nodes):
    """A cluster with an engine at `lamp` that lends."""

    def __init__(self, **more):
        super().__init__(program=PROGRAM, **more)

    def init(self):
        super().init()
        answer = self.nodes[0].call("POST", "/v1/sys/mounts/lamp", {"type": "lamp"})
        assert answer.status == 204, answer.body
        self.await_feature_level()

    def take(self, path, **body):
        """The request that takes lamps."""
        return request("POST", f"/v1/lamp/take/{path}", self.token, json.dumps(body))

    def fill(self, count):
        """`count` leases that live long."""
        data = self.take(f"many{load.NUMBER}", count=A_REQUEST, ttl="700h")
        wanted = count // A_REQUEST
        done = load.bench_open(self.active().client_port, data, MAKERS, 0, 3000, wanted, wanted)
        assert done["answered"] == wanted, done

    def leases(self):
        """How many lamps are lent."""
        answer = self.active().call("GET", "/v1/sys/leases/count")
        assert answer.status == 200, answer.body
        return answer.data["counts"].get("lamp/", 0)

    def take_until(self, count, seconds):
        """Take leases that all expire within one second, in so many seconds; returns when."""
        end = time.monotonic() + seconds
        numbers = iter(range(count // A_REQUEST))
        lock = threading.Lock()
        port = self.active().client_port

        def work():
            connection = Connection(port)
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                ttl = round(end - time.monotonic())
                status = connection.call(self.take(f"soon{number}", count=A_REQUEST, ttl=max(ttl, 1)))
                assert status == 200 and ttl > 0, (status, ttl)

        threads = [threading.Thread(target=work) for _ in range(MAKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return end

    def await_leases(self, count):
        deadline = time.monotonic() + GONE_S
        while (left := self.leases()) > count:
            assert time.monotonic() < deadline, left
            time.sleep(0.01)


def kills(cluster):
    """Times from kill -9 of the active node to the next write, in ms; and the part of each in which
    the process ends: the kernel frees its memory before it closes its connections."""
    put = ("PUT", "/v1/kv2/data/leases", VALUE2,
           {"X-Secrets-Token": cluster.client, "Content-Type": "application/json"})
    gaps, ends = [], []

    def ending(kill):
        begun = time.monotonic()
        kill()
        ends.append(1000 * (time.monotonic() - begun))

    for _ in range(KILLS):
        leader = cluster.active()
        kill, leader.kill = leader.kill, functools.partial(ending, leader.kill)
        gaps.append(outage_ms(leader, [n for n in cluster.nodes if n is not leader], put))
        leader.kill = kill
        cluster.await_up(timeout_s=300)
        cluster.await_equal_roots(timeout_s=300)  # a new process hashes its whole state, once
    return gaps, ends


def writes(cluster):
    """p99 of writes at a fixed rate, in ms."""
    sample = load.bench_open(cluster.active().client_port, load.kv2_put(cluster.client), CONNECTIONS,
                             RATE, measure.SECONDS)
    return sample["p99_us"] / 1000


def making_s(cluster, count):
    """How long it takes to take so many leases."""
    begun = time.monotonic()
    cluster.take_until(count, 1000)
    took = time.monotonic() - begun
    answer = cluster.active().call("PUT", "/v1/sys/leases/revoke-prefix/lamp/take")
    assert answer.status in (200, 202, 204), answer.body
    cluster.await_leases(0)
    return took


def background(node):
    """Leases that the node has ended, and snapshots that it has taken."""
    return [figure(node, name)
            for name in ("holdfast_expiry_ended_total", "holdfast_raft_snapshots_taken_total")]


def writes_beside_expiry(cluster, seconds, kept):
    """p99 of writes while leases expire; how many leases ended and snapshots were taken meanwhile."""
    end = cluster.take_until(AT_ONCE, seconds)
    time.sleep(max(0.0, end - time.monotonic() - measure.SECONDS / 5))
    node = cluster.active()
    before = background(node)
    p99 = writes(cluster)
    ended, snapshots = (a - b for a, b in zip(background(node), before))
    cluster.await_leases(kept)
    return p99, ended, snapshots


def counting(cluster):
    """Instructions of sys/leases/count."""
    node = restarted_under_callgrind(cluster)
    cluster.await_equal_roots(timeout_s=1200)
    count = request("GET", "/v1/sys/leases/count", cluster.token)
    cost = callgrind.per_request([node], Connection(node.client_port), lambda i: count)
    node.stop()
    node.start()
    cluster.await_up(timeout_s=300)
    return cost


def row_leases():
    with Lamps(size=1, config={"workers": 1}) as cluster:
        cluster.fill(A_REQUEST)  # so that both replies have the same members
        few = counting(cluster)
        cluster.fill(COUNT)
        many = counting(cluster)
    with Lamps() as cluster:
        seconds = AHEAD_S + 2 * making_s(cluster, AT_ONCE)
        writes(cluster)  # to warm up
        p99 = {"none": [writes(cluster) for _ in range(measure.ROUNDS)]}
        gaps, ends = {}, {}
        gaps["none"], ends["none"] = kills(cluster)
        cluster.fill(COUNT)
        kept = cluster.leases()
        beside = [writes_beside_expiry(cluster, 2 * seconds, kept) for _ in range(measure.ROUNDS)]
        p99["many"], ended, snapshots = map(list, zip(*beside))
        gaps["many"], ends["many"] = kills(cluster)
    measure.raw_data["leases"] = {"gaps_ms": gaps, "ends_ms": ends, "p99_ms": p99, "ended": ended,
                                  "snapshots": snapshots, "count": [few, many]}
    gap, peer = (statistics.median(gaps[side]) for side in ("many", "none"))
    result("leases", [each / peer for each in gaps["many"]], "failover-of-none", 1.5, 1.1, most=True,
           detail=f"kill -9 to the next write: median {gap:.0f} ms with {COUNT} leases, "
           f"{peer:.0f} ms without; {KILLS} kills each; until the process has ended "
           f"{statistics.median(ends['many']):.0f} and {statistics.median(ends['none']):.0f} ms")
    slow, peer = (statistics.median(p99[side]) for side in ("many", "none"))
    result("leases", [each / peer for each in p99["many"]], "p99-of-none", 2, 1.2, most=True,
           detail=f"{RATE} writes/s while {AT_ONCE} of {COUNT} leases expire within a second: p99 "
           f"{slow:.2f} ms, without leases {peer:.2f} ms; in {measure.SECONDS:g} s "
           f"{statistics.median(ended):.0f} of them end, and the active node takes "
           f"{' '.join(map(str, snapshots))} snapshots")
    result("leases", [many / few], "instructions-of-count", 2, 1.1, most=True,
           detail=f"sys/leases/count: {many:.0f} with {COUNT} leases, {few:.0f} with {A_REQUEST}")


def made_per_s(cluster):
    """Leases that clients take one by one."""
    data = cluster.take(f"one{load.NUMBER}", ttl="700h")
    count = min(MADE, COUNT)
    begun = time.monotonic()
    load.fill(cluster.active().client_port, data, count)
    return count / (time.monotonic() - begun)


def ended_per_s(cluster, seconds):
    """Leases that the active node ends when they expire."""
    kept = cluster.leases()
    cluster.take_until(AT_ONCE, seconds)
    while (first := cluster.leases() - kept) >= AT_ONCE:
        time.sleep(0.005)
    begun = time.monotonic()
    cluster.await_leases(kept)
    return first / (time.monotonic() - begun)


def row_expiry():
    made, ended = [], []
    with Lamps() as cluster:
        took = making_s(cluster, AT_ONCE)
        for _ in range(measure.ROUNDS):
            made.append(made_per_s(cluster))
            ended.append(ended_per_s(cluster, AHEAD_S + 2 * took))
    measure.raw_data["expiry"] = {"made": made, "ended": ended, "batches": AT_ONCE / took}
    result("expiry", [e / m for e, m in zip(ended, made)], "of-made", 0.5, 1,
           detail=f"{AT_ONCE} leases expire: {statistics.median(ended):.0f}/s end; one by one, "
           f"{statistics.median(made):.0f}/s are made, {A_REQUEST} a request {AT_ONCE / took:.0f}/s")
