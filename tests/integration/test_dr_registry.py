"""The registry on a pair of clusters: what a secondary replies, and its index over a promotion."""

import json
import threading

import pytest

from activation import DR, await_mode, become_primary, call, operation_token, status
from cluster import Recoverable
from registry import TEXT, RegistryCluster, ask, index_of
from test_audit import metrics
from test_dr_pair import await_equal, follow, promote


class Site(RegistryCluster, Recoverable):
    pass


@pytest.fixture
def pair():
    with Site(1) as primary, Site(1) as secondary:
        yield primary, secondary


def put_policy(cluster, name):
    rules = {"Name": name, "Rules": 'key "a" { policy = "read" }'}
    code, text, _ = ask(cluster.nodes[0], "PUT", "acl/policy", json.dumps(rules), cluster.token)
    assert code == 200, text
    return json.loads(text)


def policies(cluster, query=""):
    return cluster.nodes[0].call("GET", f"/v1/acl/policies{query}", token="",
                                 headers={"X-Consul-Token": cluster.token})


def test_the_index_of_the_registry_never_falls(pair):
    primary, secondary = pair
    become_primary(primary)
    for i in range(5):
        made = put_policy(primary, f"p{i}")
    primary.await_until(lambda: len(policies(primary).json) == 7)  # a duty makes the builtin ones
    follow(primary, secondary)
    await_equal(primary, secondary)
    before = policies(primary)
    assert len(before.json) == 7
    code, text, headers = ask(secondary.nodes[0], "GET", "acl/policies", token=primary.token)
    assert (code, headers["Content-Type"]) == (400, TEXT)
    assert "path disabled in replication DR secondary mode" in text

    ended = []
    waits = f"?index={index_of(before)}&wait=9m"
    waiting = threading.Thread(target=lambda: ended.append(policies(primary, waits)))
    waiting.start()
    primary.await_until(lambda: "holdfast_blocking_waiting 1\n" in metrics(primary.nodes[0]))
    call(primary.nodes[0], "POST", f"{DR}/primary/demote")
    await_mode(primary, "secondary")
    waiting.join(120)
    assert ended[0].status == 400 and b"path disabled" in ended[0].body
    last = status(primary.nodes[0])["version"]
    secondary.await_until(lambda: status(secondary.nodes[0])["version"] == last)
    promote(secondary.nodes[0], operation_token(secondary.nodes, primary.recovery_keys))
    await_mode(secondary, "primary")
    secondary.token = primary.token
    secondary.await_up()
    after = policies(secondary)
    assert after.json == before.json
    assert index_of(after) >= index_of(before)
    assert put_policy(secondary, "p5")["ModifyIndex"] > made["ModifyIndex"]
    assert index_of(policies(secondary)) > index_of(after)
