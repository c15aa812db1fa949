"""Rows of a state of a million keys: restart, snapshot, memory."""

import os
import re
import signal
import subprocess
import time

import load
import measure
from measure import result
from nodes import TIED, Nodes
from rows_rates import ceiling, once

COUNT = int(os.environ.get("HOLDFAST_KEYS", "1000000"))
VALUE_BYTES = 64
KEY_BYTES = len("bench/") + len(load.NUMBER)
SETTLE_S = 3
SNAPSHOT_RATE = 1000  # writes a second while snapshots are taken
SNAPSHOT_CONNECTIONS = 64


def rss(node):
    """Resident bytes of a node's process."""
    with open(f"/proc/{node.process.pid}/status") as status:
        return 1024 * int(re.search(r"^VmRSS:\s+(\d+) kB", status.read(), re.M)[1])


class Filled(Nodes):
    """A cluster with COUNT keys of each version of the engine, once they are asked for."""

    def __init__(self):
        super().__init__()
        self.growth = {}

    def fill(self, name, put):
        if name in self.growth:
            return
        before = [rss(node) for node in self.nodes]
        load.fill(self.active().client_port, put, COUNT)
        time.sleep(SETTLE_S)
        self.growth[name] = [(rss(node) - b) / COUNT for node, b in zip(self.nodes, before)]

    def fill_kv1(self):
        self.fill("KV v1", load.kv1_put(self.client))

    def fill_kv2(self):
        self.fill("KV v2", load.kv2_put(self.client))


def filled():
    return once("filled", Filled)


def row_memory():
    c = filled()
    c.fill_kv1()
    c.fill_kv2()
    measure.raw_data["memory"] = {"rss_growth_per_key": c.growth, "keys": COUNT}
    for name, growth in c.growth.items():
        gate, goal = (500, 230) if name == "KV v1" else (None, None)
        beyond = [each - KEY_BYTES - VALUE_BYTES for each in growth]
        result("memory", beyond, f"bytes-per-{name.replace(' ', '-')}-key", gate, goal, most=True,
               detail=f"{COUNT} keys of {KEY_BYTES} bytes with {VALUE_BYTES}, on each of the nodes")


def serving_s(cluster, node):
    """From the start of a node's process until it answers reads by itself."""
    node.stop()
    start = time.monotonic()
    node.start()
    while node.health() not in (200, 473):
        assert time.monotonic() < start + 300 and node.alive, node.log_text()[-2000:]
        time.sleep(0.01)
    got = node.call("GET", "/v1/kv/bench/00000001")
    took = time.monotonic() - start
    assert got.status == 200, got.body
    cluster.await_up()
    return took


def row_restart():
    c = filled()
    c.fill_kv1()
    took = [serving_s(c, c.standbys()[0]) for _ in range(measure.ROUNDS)]
    measure.raw_data["restart"] = {"seconds": took}
    result("restart", took, "s", 5, 2, most=True,
           detail=f"{COUNT} keys, a standby: from its start to a linearizable read through it")


class Snapshots:
    """Saves snapshots through the API, one after the other, while the block lasts."""

    def __init__(self, node, token):
        # One is saved at a time: that of the block before may still be under way (503).
        self.loop = [*TIED, "sh", "-c",
                     'while curl -sf --retry 60 --retry-delay 1 -o /dev/null '
                     '-H "X-Secrets-Token: $1" "$0"; do echo; done',
                     f"{node.url}/v1/sys/storage/raft/snapshot", token]
        self.taken = 0

    def __enter__(self):
        self.process = subprocess.Popen(self.loop, stdout=subprocess.PIPE, text=True,
                                        start_new_session=True)
        return self

    def __exit__(self, kind, *_):
        assert kind or self.process.poll() is None, "a snapshot could not be saved"
        os.killpg(self.process.pid, signal.SIGKILL)
        self.taken = len(self.process.communicate()[0])


def row_snapshot():
    c = filled()
    c.fill_kv1()
    a = c.active()
    put = load.kv1_put(c.client)

    def writes():
        return load.bench_open(a.client_port, put, SNAPSHOT_CONNECTIONS, SNAPSHOT_RATE,
                               measure.SECONDS, keys=COUNT)

    def while_taken():
        with Snapshots(a, c.token) as snapshots:
            sample = writes()
        return {**sample, "snapshots": snapshots.taken}

    samples = measure.rounds("snapshot", {"without": writes, "while": while_taken}, ceiling)
    p99 = [measure.medians(samples, side, "p99_us")[0] / 1000 for side in ("without", "while")]
    taken = sum(each["while"]["snapshots"] for each in samples)
    result("snapshot", measure.ratios(samples, "while", "without", "p99_us"), "p99-of-without", 3,
           1.3, most=True, detail=f"{SNAPSHOT_RATE} writes/s: p99 {p99[1]:.2f} ms, without "
           f"{p99[0]:.2f} ms; {taken} snapshots ended in that time")
