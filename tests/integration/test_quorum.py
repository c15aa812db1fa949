"""A cluster without a quorum says so, and names the missing nodes."""

import json
import os
import subprocess
import time

import pytest

from cluster import HOLDFAST, PATIENCE_S, Cluster


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as cluster:
        yield cluster


def lost(node):
    """Until the node is sure; then the first error of a write."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = node.call("PUT", "/v1/kv/lost", {"n": 1})
        assert answer.status >= 500, answer.body
        if "no quorum" in answer.json["errors"][0]:
            assert answer.status == 503
            return answer.json["errors"][0]
        assert time.monotonic() < deadline, answer.body


def tool(node, *words):
    env = {**os.environ, "HOLDFAST_ADDR": node.url, "HOLDFAST_TOKEN": node.cluster.token,
           "HOLDFAST_CACERT": str(node.cluster.dir / "tls" / "tls-ca.pem")}
    return subprocess.run([HOLDFAST, *words], env=env, timeout=PATIENCE_S,
                          capture_output=True, text=True)


def members(node, *words):
    return tool(node, "operator", "members", *words)


@pytest.mark.parametrize("stop", ["kill", "pause"])
def test_without_a_quorum_the_missing_are_named_and_members_are_shown(cluster, stop):
    one, *others = cluster.nodes
    for node in others:
        getattr(node, stop)()
    says = "no quorum: 1 of 3 voters reachable, 2 needed; missing node2, node3"
    assert lost(one) == says
    # Reads and requests without a valid token are answered at once too.
    for method, path, token in (("GET", "kv/lost", None), ("GET", "sys/mounts", "hvs.wrong"),
                                ("GET", "sys/storage/raft/autopilot/state", None)):
        answer = one.call(method, f"/v1/{path}", token=token)
        assert (answer.status, answer.json["errors"]) == (503, [says]), path
    # A token with the right to see the members sees them as this node knows them.
    answer = one.call("GET", "/v1/sys/ha-status")
    assert answer.status == 200 and says in answer.json["warnings"][0]
    shown = {n["hostname"]: n["reachable"] for n in answer.data["nodes"]}
    assert shown == {"node1": True, "node2": False, "node3": False}
    answer = one.call("GET", "/v1/sys/storage/raft/configuration")
    assert answer.status == 200 and says in answer.json["warnings"][0]
    assert [s["leader"] for s in answer.data["config"]["servers"]] == [False] * 3
    assert one.call("GET", "/v1/sys/ha-status", token="hvs.wrong").status == 403
    # What an operator looks at first: status, metrics, health, the log.
    run = tool(one, "status")
    assert run.returncode == 3 and says in run.stdout, (run.stdout, run.stderr)
    assert one.metric("holdfast_quorum") == 0
    health = one.call("GET", "/v1/sys/health", token="")
    assert (health.status, health.json["errors"]) == (474, [says])
    assert one.call("GET", "/v1/sys/leader", token="").json["quorum"] is False
    assert one.call("GET", "/v1/sys/seal-status", token="").json["warnings"] == [says]
    warned = [line for line in map(json.loads, one.log_lines()) if line["@message"].startswith(says)]
    assert warned and warned[-1]["@level"] == "warn"
    run = members(one)
    assert run.returncode == 0, run.stderr
    assert all(name in run.stdout for name in ("node1", "node2", "node3"))
    for node in others:
        if stop == "kill":
            node.start()
        else:
            node.resume()
    cluster.await_up()
    answer = one.call("GET", "/v1/sys/ha-status")
    assert not answer.json["warnings"]
    assert one.metric("holdfast_quorum") == 1 and tool(one, "status").returncode == 0
    assert "warnings" not in one.call("GET", "/v1/sys/seal-status", token="").json
    assert any(line["@message"].startswith("enough voters") for line in map(json.loads, one.log_lines()))
    assert one.call("PUT", "/v1/kv/lost", {"n": 2}).status == 204


def test_a_sealed_node_without_a_quorum_names_the_missing_too(cluster):
    for node in cluster.nodes:
        assert node.stop() == 0
    one = cluster.nodes[0]
    one.start()
    deadline = time.monotonic() + PATIENCE_S
    cluster.await_health({474, 503}, [one])
    while True:
        answer = one.call("GET", "/v1/kv/lost")
        assert answer.status == 503, answer.body
        if "missing node2, node3" in answer.json["errors"][0]:
            break
        assert time.monotonic() < deadline, answer.body
        time.sleep(0.05)
    for node in cluster.nodes[1:]:
        node.start()
    cluster.await_up()
