"""Rows of single parts: log and trail beside the disk, policy in instructions."""

import json
import tempfile

import callgrind
import load
import measure
from measure import result
from nodes import RULES, Nodes
from wire import Connection, request

POLICIES = 1000
POLICIES_OF_TOKEN = 256  # as many as a token may have
TOKENS = 100000


def row_log():
    with tempfile.TemporaryDirectory() as folder:
        samples = [json.loads(load.run([load.PROGRAMS / "bench_log", folder], 120))
                   for _ in range(measure.ROUNDS)]
    measure.raw_data["log"] = {"rounds": samples}
    entries, dsync = measure.medians([{"log": s} for s in samples], "log", "entries", "dsync")
    result("log", [s["entries"] / s["dsync"] for s in samples], "of-dsync-rate", 10, 50,
           detail=f"entries of 256 B {entries:.0f}/s, durable writes of the disk {dsync:.0f}/s")


def row_trail():
    with tempfile.TemporaryDirectory() as folder:
        samples = [json.loads(load.run([load.PROGRAMS / "bench_audit", folder, *more], 120))
                   for _ in range(measure.ROUNDS) for more in ([], ["chain"])]
    plain, chained = samples[::2], samples[1::2]
    measure.raw_data["trail"] = {"rounds": plain, "chained": chained}
    lines, writes = measure.medians([{"trail": s} for s in plain], "trail", "lines", "writes")
    with_chain, = measure.medians([{"trail": s} for s in chained], "trail", "lines")
    result("trail", [s["lines"] / s["writes"] for s in plain], "of-write-rate", 0.3, 0.6,
           detail=f"lines of {plain[0]['line_bytes']:.0f} B {lines:.0f}/s, with a hash chain "
           f"{with_chain:.0f}/s, written in batches of 64 without a device {writes:.0f}/s")


def restarted_under_callgrind(cluster):
    node = cluster.nodes[0]
    if node.alive:
        node.stop()
    callgrind.start(node)
    cluster.await_up(timeout_s=300)
    return node


def read_cost(cluster, token):
    """Instructions of a KV v2 read."""
    node = restarted_under_callgrind(cluster)
    assert node.call("PUT", "/v1/kv2/data/policy", {"data": {"value": "x" * 64}}).status == 200
    cluster.await_equal_roots(timeout_s=300)  # a new process hashes its whole state, once
    get = request("GET", "/v1/kv2/data/policy", token)
    return callgrind.per_request([node], Connection(node.client_port), lambda i: get)


def add_policies(cluster):
    """POLICIES policies of which the first is that of the client; returns their names."""
    names = [f"many-{i}" for i in range(POLICIES)]
    for i, name in enumerate(names):
        rules = f'path "kv2/data/team-{i}/*" {{ capabilities = ["read"] }}\n' if i else RULES
        answer = cluster.nodes[0].call("PUT", f"/v1/sys/policies/acl/{name}", {"policy": rules})
        assert answer.status == 204, answer.body
    return names


def token_of(policies):
    return {"policies": policies, "no_default_policy": True, "ttl": "24h"}


def client_of(cluster, policies):
    answer = cluster.nodes[0].call("POST", "/v1/auth/token/create", token_of(policies))
    assert answer.status == 200, answer.body
    return answer.json["auth"]["client_token"]


def row_policy():
    with Nodes(size=1, config={"workers": 1}) as cluster:
        one = read_cost(cluster, cluster.client)
    with Nodes(size=1, config={"workers": 1}) as cluster:
        names = add_policies(cluster)
        load.fill(cluster.nodes[0].client_port, request(
            "POST", "/v1/auth/token/create", cluster.token, json.dumps(token_of(names[:1]))), TOKENS)
        clients = [client_of(cluster, names[:n]) for n in (POLICIES_OF_TOKEN, 1)]
        many, among = (read_cost(cluster, client) for client in clients)
    measure.raw_data["policy"] = {"one": one, "many": many, "one among many": among}
    result("policy", [many / one], "instructions-of-one-policy", 1.2, 1.05, most=True,
           detail=f"{POLICIES} policies and {TOKENS} tokens: {many:.0f} for a token with "
           f"{POLICIES_OF_TOKEN} of them, {among:.0f} with one; {one:.0f} where there is but one")
