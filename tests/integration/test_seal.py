"""Nodes whose seal cannot be opened: they replicate, report that they are sealed, and serve no client."""

import http.client
import time

import pytest

from cluster import Cluster


@pytest.fixture
def sealed_node():
    """A cluster with one standby that has been given another node's seal key."""
    with Cluster() as cluster:
        node = cluster.standbys()[0]
        assert node.stop() == 0
        node.config = {"seal": {"static": {"key_id": "other"}}}
        node.start()
        deadline = time.monotonic() + 120
        while "stays sealed" not in node.log_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield cluster, node


def test_a_node_without_its_seal_key_stays_sealed_and_says_so(sealed_node):
    cluster, node = sealed_node
    assert "stays sealed: the root key is wrapped by the seal key 'test'" in node.log_text()
    assert node.call("GET", "/v1/sys/seal-status").json["sealed"] is True
    for method, path in (
        ("GET", "/v1/kv/x"),
        ("PUT", "/v1/kv/x"),
        ("LIST", "/v1/kv/"),
        ("DELETE", "/v1/kv/x"),
        ("GET", "/v1/auth/token/lookup-self"),
        ("PUT", "/v1/sys/step-down"),
        ("GET", "/v1/sys/metrics"),
        ("GET", "/v1/no/such"),
    ):
        answer = node.call(method, path, {"a": 1} if method == "PUT" else None)
        assert answer.status == 503 and b"sealed" in answer.body, (method, path, answer.body)
    assert cluster.active().call("PUT", "/v1/kv/x", {"a": 1}).status == 204


def led(node):
    return node.log_text().count("became leader (term")


def let_lead(cluster, node, n):
    """Of the two that hear each other only `node` has the newest entry: nobody else can win."""
    other = next(each for each in cluster.standbys() if each is not node)
    silent = next(each for each in cluster.nodes if each not in (node, other))
    other.kill()
    takes_a_write(cluster, n)
    terms = led(node)
    silent.pause()
    try:
        other.start()
        deadline = time.monotonic() + 120
        while led(node) == terms:
            assert time.monotonic() < deadline, "the sealed node was not elected"
            time.sleep(0.02)
        takes_a_write(cluster, n + 1)
    finally:
        silent.resume()


def takes_a_write(cluster, n):
    """Within a while: the node that led before may not have heard yet that it does no more."""
    deadline = time.monotonic() + 120
    while True:
        try:
            answer = cluster.active().call("PUT", "/v1/kv/x", {"n": n})
        except (OSError, http.client.HTTPException):
            answer = None
        if answer is not None and answer.status == 204:
            return
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_sealed_leader_hands_over_each_time(sealed_node):
    cluster, node = sealed_node
    for n in range(3):
        let_lead(cluster, node, 2 * n)
        cluster.await_health({200, 429, 473}, [each for each in cluster.nodes if each is not node])
        takes_a_write(cluster, 2 * n)
    assert "leads, but is sealed: hands over" in node.log_text()


def test_leadership_is_given_to_an_unsealed_node(sealed_node):
    cluster, node = sealed_node
    for _ in range(4):
        before = cluster.active()
        assert before.call("PUT", "/v1/sys/step-down", {}).status == 204
        deadline = time.monotonic() + 120
        while cluster.active() is before:
            assert time.monotonic() < deadline
    assert "became leader (term" not in node.log_text().split("stays sealed")[-1]


def test_a_node_that_hears_no_leader_is_no_performance_standby():
    with Cluster() as cluster:
        left, *others = cluster.nodes
        assert cluster.active().call("PUT", "/v1/kv/x", {"a": 1}).status == 204
        for node in others:
            node.kill()
        cluster.await_health({474}, [left])
        answer = left.call("PUT", "/v1/sys/init", {})
        assert answer.status == 503
        assert answer.json["errors"][0].startswith("no quorum: 1 of 3 voters reachable")


def test_a_sealed_single_node_names_no_leader():
    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        assert node.call("PUT", "/v1/sys/step-down").status == 204  # it goes on to lead
        leader = node.call("GET", "/v1/sys/leader").json
        assert leader["leader_cluster_address"] == f"https://127.0.0.1:{node.cluster_port}"
        assert leader["is_self"] and leader["leader_address"] == node.url
        assert node.call("PUT", "/v1/sys/seal").status == 204
        deadline = time.monotonic() + 120
        while (leader := node.call("GET", "/v1/sys/leader", token="").json)["is_self"]:
            assert time.monotonic() < deadline, "a sealed node says that it leads"
            time.sleep(0.02)
        assert (leader["leader_address"], leader["leader_cluster_address"]) == ("", "")
