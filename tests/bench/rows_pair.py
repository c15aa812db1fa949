"""Rows of disaster recovery: dr, drhold, drlag, drlink, drsync, drpromote. Both clusters of the pair, six
nodes, run on this machine."""

import contextlib
import functools
import http.client
import json
import os
import socket
import ssl
import statistics
import subprocess
import threading
import time

import load
import measure
from activation import DR, await_mode, become_primary, call, make_token, operation_token, status
from measure import result
from nodes import TIED, TOP, Nodes
from rows_faults import Writers, outage_ms
from rows_rates import ceiling, once
from rows_state import COUNT

LAG_CONNECTIONS = 64
LAG_PAUSE_S = 0.01  # between two samples of the lag
FOLLOW_MAX_S = 900
PIECE = 256 * 1024  # bytes of one write to the TLS connection that is the limit
PUT_HEADERS = {"Content-Type": "application/json"}


def halves():
    """The machine's processors in two halves; the same ones twice where there is only one."""
    cpus = sorted(os.sched_getaffinity(0))
    half = max(1, len(cpus) // 2)
    return set(cpus[:half]), set(cpus[half:] or cpus)


@contextlib.contextmanager
def on_processors(cpus):
    """What starts in this block runs on these processors: the load, and nodes."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Site(Nodes):
    """A cluster of a pair, on its own processors. Its recovery keys are in shares."""

    init_body = {"recovery_shares": 1, "recovery_threshold": 1}

    def __init__(self, cpus, size=3):
        super().__init__(size)
        places = ",".join(map(str, sorted(cpus)))
        for node in self.nodes:
            node.start = functools.partial(node.start, prefix=["taskset", "-c", places, *TIED])

    def active(self):
        """Also of a secondary, whose nodes are never healthy."""
        found = []

        def leads():
            found[:] = [n for n in self.nodes if n.alive and
                        n.call("GET", "/v1/sys/leader", token="").json.get("is_self")]
            return found

        self.await_until(leads)
        return found[0]


def await_streaming(site):
    def streams():
        told = [status(node) for node in site.nodes]
        return all(one.get("state") == "stream-wals" for one in told) and \
            any(one.get("connection_state") == "ready" for one in told)

    deadline = time.monotonic() + FOLLOW_MAX_S
    while not streams():
        assert time.monotonic() < deadline, [status(node) for node in site.nodes]
        time.sleep(0.02)


def await_caught_up(primary, secondary):
    wanted = status(primary.active())["version"]
    deadline = time.monotonic() + FOLLOW_MAX_S
    while any(status(node)["version"] < wanted for node in secondary.nodes):
        assert time.monotonic() < deadline, [status(node) for node in secondary.nodes]
        time.sleep(0.02)


def attach(primary, secondary, name):
    """The first sync of the secondary. Returns its seconds, from the reply to its activation."""
    token = make_token(primary, name)
    call(secondary.active(), "POST", f"{DR}/secondary/enable", {"token": token})
    begun = time.monotonic()
    await_streaming(secondary)
    return time.monotonic() - begun


class Pair:
    """Two clusters, the first of them the primary at first, each on half of the processors."""

    def __init__(self):
        self.stack = contextlib.ExitStack()
        self.names = iter(f"site-{i}" for i in range(10000))

    def __enter__(self):
        mine, theirs = halves()
        self.primary = self.stack.enter_context(Site(mine))
        self.secondary = self.stack.enter_context(Site(theirs))
        become_primary(self.primary)
        self.secondary.await_feature_level()
        self.keys = self.primary.recovery_keys  # those of the set from here on
        attach(self.primary, self.secondary, next(self.names))
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def operation_token(self, site):
        return operation_token(site.nodes, self.keys)

    def detach(self):
        """The secondary forgets its primary. Returns the nodes of the primary that it knew."""
        token = self.operation_token(self.secondary)
        body = {"dr_operation_token": token, "token": ""}
        call(self.secondary.active(), "POST", f"{DR}/secondary/update-primary", body, "")
        self.secondary.await_until(
            lambda: all(status(node)["state"] == "idle" for node in self.secondary.nodes))

    def rejoin(self, site):
        """An idle secondary follows the primary again."""
        body = {"dr_operation_token": self.operation_token(site),
                "token": make_token(self.primary, next(self.names))}
        call(site.active(), "POST", f"{DR}/secondary/update-primary", body, "")
        await_streaming(site)

    def swap(self):
        self.primary, self.secondary = self.secondary, self.primary
        self.primary.token, self.primary.client = self.secondary.token, self.secondary.client


def pair():
    return once("pair", Pair)


def row_dr():
    """Alone: the secondary runs, and follows no primary."""
    p = pair()
    a = p.primary.active()
    put = load.kv2_put(p.primary.client)
    mine, _ = halves()
    following = True

    def write(follow):
        nonlocal following
        if following and not follow:
            p.detach()
        elif follow and not following:
            p.rejoin(p.secondary)
        following = follow
        if follow:
            await_caught_up(p.primary, p.secondary)
        with on_processors(mine):
            return load.wrk(a.url, put)

    samples = measure.rounds("dr", {"attached": functools.partial(write, True),
                                    "alone": functools.partial(write, False)}, ceiling)
    if not following:
        p.rejoin(p.secondary)
    rates = [measure.medians(samples, side, "rate")[0] for side in ("attached", "alone")]
    result("dr", measure.ratios(samples, "attached", "alone"), "of-alone", 0.8, 0.95,
           detail=f"KV v2 writes/s attached {rates[0]:.0f}, alone {rates[1]:.0f}")


def set_sync_mode(p, on):
    """Returns when writes wait for the secondary as the setting says."""
    body = {"sync": on, "sync_timeout_ms": 5000}
    call(p.primary.active(), "POST", f"{DR}/primary/settings", body, status=204)

    def follows():
        told = p.primary.active().call("PUT", "/v1/kv2/data/sync", json.loads(load.VALUE2),
                                       p.primary.client)
        assert told.status == 200, told.body
        return told.headers.get("X-Replication-Confirmed") == ("true" if on else None)

    p.primary.await_until(follows)


def row_drhold():
    """Sync mode: the reply to a write waits for the secondary."""
    p = pair()
    a = p.primary.active()
    put = load.kv2_put(p.primary.client)
    mine, _ = halves()

    def write(on):
        await_caught_up(p.primary, p.secondary)
        set_sync_mode(p, on)
        falls = a.metric("holdfast_dr_sync_mode_falls_total")
        with on_processors(mine):
            found = load.wrk(a.url, put)
        assert a.metric("holdfast_dr_sync_mode_falls_total") == falls, "some writes did not wait"
        return found

    samples = measure.rounds("drhold", {"sync": functools.partial(write, True),
                                        "async": functools.partial(write, False)}, ceiling)
    set_sync_mode(p, False)
    rate, p50, p99 = measure.medians(samples, "sync", "rate", "p50_ms", "p99_ms")
    alone = measure.medians(samples, "async", "rate", "p50_ms", "p99_ms")
    result("drhold", measure.ratios(samples, "sync", "async"), "of-async",
           detail=f"KV v2 writes/s in sync mode {rate:.0f}, p50 {p50:.1f} ms, p99 {p99:.1f} ms; without "
           f"{alone[0]:.0f}, p50 {alone[1]:.1f} ms, p99 {alone[2]:.1f} ms")


class Lag(threading.Thread):
    """How long until all that was acknowledged at a moment is confirmed by the secondary."""

    def __init__(self, primary, secondary):
        super().__init__()
        self.ports = [node.client_port for node in (primary, secondary)]
        self.over, self.samples_ms, self.failure = threading.Event(), [], None

    def run(self):
        both = [http.client.HTTPConnection("127.0.0.1", port, timeout=30) for port in self.ports]

        def version(connection):
            connection.request("GET", f"{DR}/status")
            return json.loads(connection.getresponse().read())["data"]["version"]

        try:
            while not self.over.wait(LAG_PAUSE_S):
                begun = time.monotonic()
                wanted = version(both[0])
                while version(both[1]) < wanted:
                    pass
                self.samples_ms.append(1000 * (time.monotonic() - begun))
        except Exception as failure:  # told by the thread that waits for this one
            self.failure = failure
        for connection in both:
            connection.close()


def row_drlag():
    p = pair()
    a, b = p.primary.active(), p.secondary.active()
    put = load.kv2_put(p.primary.client)
    half = load.wrk(a.url, put)["rate"] / 2

    def once_more():
        await_caught_up(p.primary, p.secondary)
        lag = Lag(a, b)
        lag.start()
        try:
            local = load.bench_open(a.client_port, put, LAG_CONNECTIONS, round(half),
                                    measure.SECONDS)
        finally:
            lag.over.set()
            lag.join()
        if lag.failure:
            raise lag.failure
        lag_p99 = statistics.quantiles(lag.samples_ms, n=100)[98]
        return {"local_ms": local["p99_us"] / 1000, "lag_ms": lag_p99,
                "lag_median_ms": statistics.median(lag.samples_ms), "n": len(lag.samples_ms)}

    samples = measure.rounds("drlag", {"both": once_more}, ceiling)
    local, lag, median = measure.medians(samples, "both", "local_ms", "lag_ms", "lag_median_ms")
    result("drlag", [s["both"]["lag_ms"] / s["both"]["local_ms"] for s in samples],
           "p99-of-commit", 10, 3, most=True,
           detail=f"{half:.0f} writes/s: confirmed after {median:.1f} ms, p99 {lag:.1f} ms; commit "
           f"p99 {local:.1f} ms")


def superseded(node):
    """Whether a node that was just started knows that its cluster is no longer the primary."""
    try:
        return status(node).get("state") == "idle"
    except OSError:
        return False


def row_drpromote():
    """The former primary is dead; then the promoted cluster loses its active node."""
    p = pair()
    promoted_ms, failover_ms = [], []
    for _ in range(measure.ROUNDS):
        await_caught_up(p.primary, p.secondary)
        site, node = p.secondary, p.secondary.active()
        put = ("PUT", "/v1/kv2/data/promoted", load.VALUE2,
               {"X-Secrets-Token": p.primary.client, **PUT_HEADERS})
        body = {"dr_operation_token": p.operation_token(site), "force": True}
        for each in p.primary.nodes:
            each.kill()
        begun = time.monotonic()
        told = node.call("POST", f"{DR}/secondary/promote", body, token="")
        assert told.status == 200 and told.json["complete"], told.body
        first = Writers([n.client_port for n in site.nodes], put).first()
        promoted_ms.append(1000 * (first - begun))
        p.swap()
        await_mode(site, "primary")
        site.await_up()
        active = site.active()
        survivors = [n for n in site.nodes if n is not active]
        failover_ms.append(outage_ms(active, survivors, put))
        site.await_up()
        for each in p.secondary.nodes:
            each.start()
        p.secondary.await_until(lambda: all(superseded(n) for n in p.secondary.nodes))
        call(p.secondary.nodes[0], "POST", f"{DR}/primary/demote")
        await_mode(p.secondary, "secondary")
        p.rejoin(p.secondary)
    measure.raw_data["drpromote"] = {"promoted_ms": promoted_ms, "failover_ms": failover_ms}
    peer = statistics.median(failover_ms)
    result("drpromote", [ms / peer for ms in promoted_ms], "of-failover", 10, 3, most=True,
           detail=f"promote to the first write {statistics.median(promoted_ms):.0f} ms, kill -9 to it "
           f"{peer:.0f} ms; {len(promoted_ms)} each")


def snapshot_bytes(node):
    """Bytes of the state as one file."""
    answer = node.call("GET", "/v1/sys/storage/raft/snapshot")
    assert answer.status == 200, answer.status
    return len(answer.body)


def tls_seconds(cluster, count):
    """So many bytes through one TLS connection on loopback, from another process."""
    tls = cluster.dir / "tls"
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = subprocess.Popen(
            [*TIED, "/usr/bin/python3", "-B", "-c", SENDER, str(server.getsockname()[1]), str(count),
             str(tls / "tls-node1.pem"), str(tls / "tls-node1-key.pem")], cwd=TOP)
        raw, _ = server.accept()
        context = ssl._create_unverified_context()
        room, left = bytearray(PIECE), count
        with context.wrap_socket(raw) as connection:
            begun = time.monotonic()
            while left > 0:
                got = connection.recv_into(room, PIECE)
                assert got > 0, "the connection ended early"
                left -= got
            took = time.monotonic() - begun
            connection.sendall(b"x")
        assert sender.wait(60) == 0
    return took


SENDER = f"""
import socket, ssl, sys
port, left, cert, key = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
piece = bytes({PIECE})
with context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_side=True) as c:
    while left > 0:
        c.sendall(piece[:min(left, len(piece))])
        left -= min(left, len(piece))
    assert c.recv(1) == b"x"
"""


def touch_memory():
    """Pages that the host of a virtual machine took back cost ten times what the kernel's own do, and
    a sync fills a gigabyte of them on three nodes. So a process takes many pages first, and ends."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    count = min(4 << 30, free // 2)
    subprocess.run(["/usr/bin/python3", "-B", "-c", f"b'x' * {count}"], check=True)


def first_sync(row, size):
    """A new secondary for each round; the keys are written once. Every node runs on any processor, as
    the two ends of the TLS connection do."""
    every = os.sched_getaffinity(0)
    ratios, details = [], []
    with Site(every, size) as primary:
        become_primary(primary)
        load.fill(primary.active().client_port, load.kv1_put(primary.client), COUNT)
        count = snapshot_bytes(primary.active())
        for i in range(max(1, measure.ROUNDS // 2)):
            with Site(every, size) as secondary:
                secondary.await_feature_level()
                touch_memory()
                took = attach(primary, secondary, f"new-{i}")
                raw = tls_seconds(primary, count)
            ratios.append(raw / took)
            details.append({"sync_s": took, "tls_s": raw})
    measure.raw_data[row] = {"rounds": details, "bytes": count, "keys": COUNT}
    sync, raw = (statistics.median(d[k] for d in details) for k in ("sync_s", "tls_s"))
    return ratios, (f"{COUNT} keys, {count / 1e6:.0f} MB: {sync:.1f} s, {count / 1e6 / sync:.0f} MB/s; one "
                    f"TLS connection {count / 1e6 / raw:.0f} MB/s")


def row_drsync():
    ratios, detail = first_sync("drsync", 3)
    result("drsync", ratios, "of-one-tls", 0.1, 0.3, detail=detail)


def row_drlink():
    """Two nodes, as the peer has two ends: on few processors the nodes of `drsync` wait for each other."""
    ratios, detail = first_sync("drlink", 1)
    result("drlink", ratios, "of-one-tls", detail=detail)
