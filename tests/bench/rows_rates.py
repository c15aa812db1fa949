"""Rows of request rates beside etcd and the trivial responder: write, read, standby, one, tls,
tail, slowdisk, token."""

import contextlib
import re

import load
import measure
from load import ETCD_GET, ETCD_PUT, kv2_get, kv2_put, wrk
from measure import medians, ratios, result, rounds
from nodes import Nodes
from peers import Etcd, Grpc, openssl_server, responder

READ_KEYS = 1000
MANY = 256  # connections of tail and slowdisk
SYNC_US = 1000  # what slowdisk adds to each sync
CEILING_S = 1

servers = contextlib.ExitStack()  # what rows share, until the run ends
shared = {}


def once(name, make):
    """Made at its first use, by whichever row that is."""
    if name not in shared:
        shared[name] = servers.enter_context(make())
    return shared[name]


def done():
    shared.clear()
    servers.close()


def ceiling():
    """The raw rate of the machine just now."""
    port = once("responder", responder)
    return wrk(f"http://127.0.0.1:{port}/", load.request("GET", "/"), seconds=CEILING_S)["rate"]


def ours():
    return once("ours", Nodes)


def etcd():
    return once("etcd", Etcd)


def grpc():
    if "grpc" not in shared:
        shared["grpc"] = Grpc()
    return shared["grpc"]


def row_token():
    """A pair is two requests. Both sides wait for the same log."""
    a = ours().active()
    bearer = a.call("POST", "/v1/auth/token/create", {"ttl": "1h"},
                    ours().client).json["auth"]["client_token"]
    create = load.token_create(ours().client)
    revoke = load.token_revoke(ours().client, len(bearer))
    put = kv2_put(ours().client)
    samples = rounds("token", {
        "pairs": lambda: load.wrk_pairs(a.url, create, revoke),
        "writes": lambda: wrk(a.url, put),
    }, ceiling)
    result("token", ratios(samples, "pairs", "writes"), "pairs-of-KV-v2-writes", 0.4, 0.7,
           detail=all_described(samples, "pairs", "writes"))


def certificate(cluster, name="node1"):
    """A certificate for 127.0.0.1 and its key."""
    tls = cluster.dir / "tls"
    return str(tls / f"tls-{name}.pem"), str(tls / f"tls-{name}-key.pem")


def ours_tls():
    return once("ours_tls", lambda: Nodes(tls=True))


def described(samples, side):
    """The medians of a side in words."""
    rate, p50, p99 = medians(samples, side, "rate", "p50_ms", "p99_ms")
    return f"{side} {rate:.0f}/s p50 {p50:.2f} p99 {p99:.2f} ms"


def all_described(samples, *sides):
    return "; ".join(described(samples, side) for side in sides)


def row_write():
    a, e = ours().active(), etcd().leader()
    put = kv2_put(ours().client)
    samples = rounds("write", {
        "ours": lambda: wrk(a.url, put),
        "etcd gateway": lambda: wrk(e.url, ETCD_PUT),
        "etcd gRPC": lambda: grpc().run("put", e.url),
    }, ceiling)
    result("write", ratios(samples, "ours", "etcd gateway"), "of-etcd-gateway", 4, 8,
           detail=all_described(samples, "ours", "etcd gateway"))
    result("write", ratios(samples, "ours", "etcd gRPC"), "of-etcd-gRPC",
           detail=described(samples, "etcd gRPC"))
    a, put = ours_tls().active(), kv2_put(ours_tls().client)
    with Etcd(tls=certificate(ours_tls())) as peer:  # idle, it would cost the other rows
        e = peer.leader()
        samples = rounds("write", {
            "ours TLS": lambda: wrk(a.url, put),
            "etcd gateway TLS": lambda: wrk(e.url, ETCD_PUT),
        }, ceiling)
    result("write", ratios(samples, "ours TLS", "etcd gateway TLS"), "TLS-of-etcd-gateway-TLS",
           detail=all_described(samples, "ours TLS", "etcd gateway TLS"))


def readable(cluster, node, name):
    """The node, once it has the keys that are read."""
    if name not in shared:
        put = ETCD_PUT if isinstance(cluster, Etcd) else kv2_put(cluster.client)
        shared[name] = load.fill(node.client_port, put, READ_KEYS)
    return node


def reader(url, data):
    return lambda: wrk(url, data, keys=READ_KEYS)


def row_read():
    a = readable(ours(), ours().active(), "ours filled")
    e = readable(etcd(), etcd().leader(), "etcd filled")
    get = kv2_get(ours().client)
    bare = f"http://127.0.0.1:{once('responder', responder)}/"
    grpc().run("put", e.url)  # the keys that it will get
    samples = rounds("read", {
        "ours": reader(a.url, get),
        "etcd gateway": reader(e.url, ETCD_GET),
        "etcd gRPC": lambda: grpc().run("get", e.url),
        "responder": reader(bare, get),  # so that the load costs the same
        "responder, short": lambda: wrk(bare, load.request("GET", "/")),
    }, ceiling)
    result("read", ratios(samples, "ours", "etcd gateway"), "of-etcd-gateway", 6, 10,
           detail=all_described(samples, "ours", "etcd gateway"))
    result("read", ratios(samples, "ours", "responder"), "of-trivial-responder", 0.5, 0.75,
           detail=described(samples, "responder"))
    result("read", ratios(samples, "ours", "responder, short"), "of-responder-short-requests",
           detail=described(samples, "responder, short"))
    result("read", ratios(samples, "ours", "etcd gRPC"), "of-etcd-gRPC",
           detail=described(samples, "etcd gRPC"))


def row_standby():
    a, s = ours().active(), ours().standbys()[0]
    readable(ours(), a, "ours filled")
    get = kv2_get(ours().client)
    samples = rounds("standby", {"standby": reader(s.url, get), "active": reader(a.url, get)},
                     ceiling)
    result("standby", ratios(samples, "standby", "active"), "of-the-active-node", 0.6, 0.9,
           detail=all_described(samples, "standby", "active"))


def row_one():
    a, e = ours().active(), etcd().leader()
    put = kv2_put(ours().client)
    samples = rounds("one", {
        "ours": lambda: wrk(a.url, put, connections=1),
        "etcd gateway": lambda: wrk(e.url, ETCD_PUT, connections=1),
        "etcd gRPC": lambda: grpc().run("put", e.url, connections=1),
    }, ceiling)
    result("one", ratios(samples, "ours", "etcd gateway", "p50_ms"), "p50-of-etcd-gateway", 0.5,
           0.3, most=True, detail=all_described(samples, "ours", "etcd gateway"))
    result("one", ratios(samples, "ours", "etcd gRPC", "p50_ms"), "p50-of-etcd-gRPC", most=True,
           detail=described(samples, "etcd gRPC"))


def handshakes(port):
    """New TLS 1.3 connections a second, one after the other, as openssl s_time makes them."""
    seconds = max(1, round(measure.SECONDS / 2))
    out = load.run(["openssl", "s_time", "-connect", f"127.0.0.1:{port}", "-new", "-tls1_3",
                    "-time", seconds], seconds + 30)
    return {"rate": int(re.search(r"(\d+) connections in \d+ real seconds", out)[1]) / seconds}


def row_tls():
    plain = readable(ours(), ours().active(), "ours filled")
    tls = ours_tls().active()
    wrk(tls.url, kv2_put(ours_tls().client), keys=READ_KEYS)  # what will be read
    samples = rounds("tls", {
        "TLS": reader(tls.url, kv2_get(ours_tls().client)),
        "plain": reader(plain.url, kv2_get(ours().client)),
    }, ceiling)
    result("tls", ratios(samples, "TLS", "plain"), "of-plain", 0.75, 0.9,
           detail=all_described(samples, "TLS", "plain"))
    with openssl_server(*certificate(ours_tls())) as port:
        samples = rounds("tls", {
            "ours": lambda: handshakes(tls.client_port),
            "openssl s_server": lambda: handshakes(port),
        }, ceiling)
    result("tls", ratios(samples, "ours", "openssl s_server"), "handshakes-of-s_server",
           detail="new connections a second by openssl s_time: ours %.0f, s_server %.0f" % (
               *medians(samples, "ours", "rate"), *medians(samples, "openssl s_server", "rate")))


def row_tail():
    a, e = ours().active(), etcd().leader()
    put = kv2_put(ours().client)
    saturation = wrk(e.url, ETCD_PUT, connections=MANY)["rate"]
    rate = saturation / 2
    samples = rounds("tail", {
        "ours": lambda: load.bench_open(a.client_port, put, MANY, rate, measure.SECONDS),
        "etcd gateway": lambda: load.bench_open(
            e.client_port, ETCD_PUT, MANY, rate, measure.SECONDS),
    }, ceiling)
    p99 = [medians(samples, side, "p99_us")[0] / 1000 for side in ("ours", "etcd gateway")]
    result("tail", ratios(samples, "ours", "etcd gateway", "p99_us"), "p99-of-etcd-gateway", 0.5,
           0.25, most=True, detail=f"{rate:.0f} writes/s on {MANY} connections, "
           f"ours p99 {p99[0]:.2f} ms, etcd gateway {p99[1]:.2f} ms")


def row_slowdisk():
    slow = [str(load.PROGRAMS / "slow_sync"), str(SYNC_US)]
    with (Nodes(start=lambda node: node.start(prefix=[*load.TIED, *slow])) as cluster,
          Etcd(prefix=slow) as peer):
        a, e = cluster.active(), peer.leader()
        put = kv2_put(cluster.client)
        samples = rounds("slowdisk", {
            "ours": lambda: wrk(a.url, put, connections=MANY),
            "etcd gateway": lambda: wrk(e.url, ETCD_PUT, connections=MANY),
        }, ceiling)
    result("slowdisk", ratios(samples, "ours", "etcd gateway"), "of-etcd-gateway", 4, 8,
           detail=all_described(samples, "ours", "etcd gateway"))
