"""Rows of what a client sees when nodes die, leave or are asked too much: failover, overload,
transfer, greedy."""

import http.client
import json
import os
import pathlib
import re
import statistics
import subprocess
import threading
import time

import load
import measure
from measure import result
from nodes import TIED, VALUE2
from peers import EtcdNode
from rows_rates import ceiling, etcd, ours

KILLS = int(os.environ.get("HOLDFAST_KILLS", "30"))
OVERLOAD_CONNECTIONS = 256
OVERLOAD_S = 24  # times HOLDFAST_SECONDS: two minutes
RECOVERY_MAX_S = 30
TRY_S = 0.5  # for one attempt, so that no request to a dead end hides what follows
THREADS = 2  # of attempts on each survivor
GREEDY = pathlib.Path(__file__).with_name("greedy.py")
GREEDY_CONNECTIONS = 16
GREEDY_RATE = 200  # writes a second of the client beside it


def attempt(connection, method, path, body, headers):
    """Whether a request was acknowledged."""
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return 200 <= answer.status < 300
    except (OSError, http.client.HTTPException):
        connection.close()  # the next request connects again
        return False


class Writers:
    """Threads that try the same write on each of these ports until one is acknowledged."""

    def __init__(self, ports, request, try_s=TRY_S):
        self.acknowledged = None
        self.try_s = try_s
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(port, request))
                        for port in ports for _ in range(THREADS)]
        for thread in self.threads:
            thread.start()

    def work(self, port, request):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=self.try_s)
        while not self.over.is_set():
            if attempt(connection, *request):
                self.acknowledged = self.acknowledged or time.monotonic()
                self.over.set()
            else:
                time.sleep(0.002)
        connection.close()

    def first(self):
        """When it was acknowledged."""
        self.over.wait(RECOVERY_MAX_S)
        self.over.set()
        for thread in self.threads:
            thread.join()
        assert self.acknowledged, "no write was acknowledged"
        return self.acknowledged


def figure(node, name):
    """One of a node's own figures."""
    text = node.call("GET", "/v1/sys/metrics?format=prometheus").body.decode()
    return int(float(re.search(rf"^{name}(?:{{.*}})? (\S+)", text, re.M)[1]))


def term(node):
    """Of whichever system the node is."""
    if isinstance(node, EtcdNode):
        return int(load.post(f"{node.url}/v3/maintenance/status", {})["raftTerm"])
    return figure(node, "holdfast_raft_term")


def outage_ms(leader, survivors, request):
    """From kill -9 of the leader to the next acknowledged write, through any survivor."""
    connection = http.client.HTTPConnection("127.0.0.1", leader.client_port, timeout=10)
    assert attempt(connection, *request)
    connection.close()
    before = max(map(term, survivors))
    killed = time.monotonic()
    leader.kill()
    gap = Writers([node.client_port for node in survivors], request).first() - killed
    assert max(map(term, survivors)) > before, "it was not the leader that was killed"
    leader.start()
    return 1000 * gap


def row_failover():
    c, e = ours(), etcd()
    json_type = {"Content-Type": "application/json"}
    put = ("PUT", "/v1/kv2/data/failover", VALUE2, {"X-Secrets-Token": c.client, **json_type})
    etcd_body = json.dumps({"key": load.base64_of("failover"), "value": load.base64_of("x" * 64)})
    etcd_put = ("POST", "/v3/kv/put", etcd_body, json_type)
    gaps = {"ours": [], "etcd": []}
    for _ in range(KILLS):
        leader = c.active()
        gaps["ours"].append(outage_ms(leader, [n for n in c.nodes if n is not leader], put))
        c.await_up()
        leader = e.leader()
        gaps["etcd"].append(outage_ms(leader, [n for n in e.nodes if n is not leader], etcd_put))
        e.await_up()
    measure.raw_data["failover"] = {"gaps_ms": gaps}
    words = [f"{name} median {statistics.median(ms):.0f} max {max(ms):.0f} ms"
             for name, ms in gaps.items()]
    peer = statistics.median(gaps["etcd"])
    result("failover", [ms / peer for ms in gaps["ours"]], "of-etcd", 0.5, 0.15, most=True,
           detail=f"{'; '.join(words)}; {KILLS} kills each")


def elections(cluster):
    """Elections won by all nodes since they started."""
    return sum(figure(node, "holdfast_raft_elections_total") for node in cluster.nodes)


def row_overload():
    c = ours()
    before = elections(c)
    seconds = OVERLOAD_S * measure.SECONDS
    sample = load.wrk(c.active().url, load.kv2_put(c.client), connections=OVERLOAD_CONNECTIONS,
                      seconds=seconds, failures=True)
    changes = elections(c) - before
    measure.raw_data["overload"] = {"sample": sample, "changes": changes}
    result("overload", [changes], "leader-changes", 0, 0, most=True,
           detail=f"{OVERLOAD_CONNECTIONS} writers for {seconds:.0f} s: {sample['rate']:.0f}/s, "
           f"p99 {sample['p99_ms']:.1f} ms, {sample['failed']} refused")


class Client(threading.Thread):
    """Writes one after the other through any node: where one fails, the next node at once."""

    def __init__(self, cluster, request):
        super().__init__()
        self.cluster, self.request = cluster, request
        self.over = threading.Event()
        self.gap, self.acknowledged, self.failures, self.twice = 0.0, 0, 0, 0

    def run(self):
        connections = [http.client.HTTPConnection("127.0.0.1", node.client_port, timeout=5)
                       for node in self.cluster.nodes]
        at, last, failed = 0, time.monotonic(), False
        while not self.over.is_set():
            good = attempt(connections[at], *self.request)
            now = time.monotonic()
            if good:
                self.gap = max(self.gap, now - last)
                self.acknowledged, last = self.acknowledged + 1, now
            else:
                self.failures += 1
                self.twice += failed
                at = (at + 1) % len(connections)
            failed = not good
        for connection in connections:
            connection.close()


def restart_one(cluster, node):
    node.stop()
    node.start()
    cluster.await_up()


def row_transfer():
    c = ours()
    headers = {"X-Secrets-Token": c.client, "Content-Type": "application/json"}
    gaps, failures, twice, written = [], 0, 0, 0
    for _ in range(max(1, measure.ROUNDS // 2 + 1)):
        client = Client(c, ("PUT", "/v1/kv2/data/transfer", VALUE2, headers))
        client.start()
        try:
            active = c.active()
            for node in [n for n in c.nodes if n is not active] + [active]:
                restart_one(c, node)
        finally:
            client.over.set()
            client.join()
        gaps.append(1000 * client.gap)
        failures, twice = failures + client.failures, twice + client.twice
        written += client.acknowledged
    assert written > 0
    measure.raw_data["transfer"] = {"gaps_ms": gaps, "failures": failures, "twice": twice}
    result("transfer", gaps, "ms", 300, 30, most=True,
           detail=f"{len(gaps)} rolling restarts, {written} writes, {failures} tried again, "
           f"{twice} of them more than once")


class Greedy:
    """The greedy client, on the active node, while the block lasts. It yields the processors to
    the nodes and the other client, as one with a machine of its own would."""

    def __init__(self, node, token):
        self.command = [*TIED, "nice", "-n", "19", GREEDY, str(node.client_port), token]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, kind, *_):
        assert kind or self.process.poll() is None, "the greedy client has ended"
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def row_greedy():
    c = ours()
    a = c.active()
    put = load.kv2_put(c.client)

    def alone():
        return load.bench_open(a.client_port, put, GREEDY_CONNECTIONS, GREEDY_RATE,
                               measure.SECONDS)

    def beside():
        with Greedy(a, c.token):
            return alone()  # which ends the run if a write is refused

    samples = measure.rounds("greedy", {"without": alone, "beside": beside}, ceiling)
    p99 = [measure.medians(samples, side, "p99_us")[0] / 1000 for side in ("without", "beside")]
    result("greedy", measure.ratios(samples, "beside", "without", "p99_us"), "p99-of-without", 5, 3,
           most=True, detail=f"{GREEDY_RATE} writes/s beside a greedy client: p99 {p99[1]:.2f} ms, "
           f"without {p99[0]:.2f} ms; no write was refused")
