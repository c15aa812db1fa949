"""Autopilot: the health of the members, and the removal of dead members."""

import time

import pytest

from cluster import Cluster
from test_members import fill, servers, set_vote

RAFT = "/v1/sys/storage/raft"
CONFIG = f"{RAFT}/autopilot/configuration"
STATE = f"{RAFT}/autopilot/state"
DEFAULTS = {
    "auto_raise": True, "cleanup_dead_servers": False,
    "dead_server_last_contact_threshold": "24h0m0s",
    "last_contact_threshold": "10s", "max_trailing_logs": 1000, "min_quorum": 0,
    "server_stabilization_time": "10s",
}


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        yield made


def state_of(cluster):
    answer = cluster.active().call("GET", STATE)
    assert answer.status == 200, answer.body
    return answer.data


def await_state(cluster, wanted):
    deadline = time.monotonic() + 120
    while not wanted(state := state_of(cluster)):
        assert time.monotonic() < deadline, state
        time.sleep(0.1)
    return state


def test_settings_are_kept_and_what_is_not_named_stays(cluster):
    assert [n.call("GET", CONFIG).data for n in cluster.nodes] == [DEFAULTS] * 3
    first, second = cluster.nodes[:2]
    assert first.call("POST", CONFIG, {"last_contact_threshold": "5s", "max_trailing_logs": "500",
                                       "server_stabilization_time": 20,
                                       "auto_raise": False}).status == 204
    assert second.call("PUT", CONFIG, {"min_quorum": 3, "cleanup_dead_servers": True,
                                       "dead_server_last_contact_threshold": "1m"}).status == 204
    have = {**DEFAULTS, "last_contact_threshold": "5s", "max_trailing_logs": 500,
            "server_stabilization_time": "20s", "min_quorum": 3, "cleanup_dead_servers": True,
            "dead_server_last_contact_threshold": "1m0s", "auto_raise": False}
    assert [n.call("GET", CONFIG).data for n in cluster.nodes] == [have] * 3
    for body, text in (
        ({"min_quorum": 2}, "at least be 3"), ({"min_quorum": -1}, "min_quorum"),
        ({"dead_server_last_contact_threshold": "59s"}, "less than 1m"),
        ({"last_contact_threshold": 0}, "last_contact_threshold"),
        ({"last_contact_threshold": "-1s"}, "last_contact_threshold"),
        ({"max_trailing_logs": -1}, "max_trailing_logs"), ({"max_trailing_logs": "x"}, "max_trail"),
        ({"cleanup_dead_servers": "perhaps"}, "cleanup_dead_servers"),
        ({"auto_raise": "perhaps"}, "auto_raise"),
    ):
        answer = second.call("POST", CONFIG, body)
        assert answer.status == 400 and text in answer.json["errors"][0], answer.body
    assert first.call("GET", CONFIG).data == have
    assert first.call("POST", CONFIG, {"cleanup_dead_servers": False, "min_quorum": 0}).status == 204


def test_it_takes_a_right(cluster):
    weak = cluster.limited('path "kv/*" { capabilities = ["read"] }')
    good = cluster.limited(
        'path "sys/storage/raft/autopilot/*" { capabilities = ["read", "update"] }')
    for node in cluster.nodes:
        for method, path in (("GET", CONFIG), ("POST", CONFIG), ("GET", STATE)):
            body = {} if method == "POST" else None
            assert node.call(method, path, body, token="").status == 403
            assert node.call(method, path, body, token=weak).status == 403
            assert node.call(method, path, body, token=good).status in (200, 204)


def test_the_state_tells_who_is_well(cluster):
    fill(cluster, 20)
    index = cluster.state(cluster.active())["committed_index"]
    state = await_state(cluster, lambda s: s["healthy"] and all(
        server["last_index"] >= index > 0 for server in s["servers"].values()))
    names = [n.name for n in cluster.nodes]
    assert (sorted(state["voters"]), state["leader"]) == (names, cluster.active().name)
    assert state["failure_tolerance"] == 1 and "non_voters" not in state
    addresses = {s["node_id"]: s["address"] for s in servers(cluster.active())}
    for name, server in state["servers"].items():
        leads = name == state["leader"]
        assert (server["id"], server["name"], server["address"]) == (name, name, addresses[name])
        assert (server["status"], server["node_type"]) == ("leader" if leads else "voter", "voter")
        assert (server["node_status"], server["healthy"]) == ("alive", True)
        assert server["last_term"] > 0
        assert not leads or server["last_contact"] == "0s"
        assert server["version"] and server["stable_since"].startswith("20")


def test_who_is_silent_or_has_no_vote_is_no_reserve(cluster):
    assert cluster.active().call("POST", CONFIG, {"last_contact_threshold": "3s"}).status == 204
    plain, gone = cluster.standbys()
    assert set_vote(plain, "demote", plain.name).status == 204
    state = await_state(cluster, lambda s: s["healthy"] and "non_voters" in s)
    assert (state["failure_tolerance"], state["non_voters"]) == (0, [plain.name])
    assert state["servers"][plain.name]["status"] == "non-voter"
    assert set_vote(plain, "promote", plain.name).status == 204
    await_state(cluster, lambda s: s["healthy"] and s["failure_tolerance"] == 1)
    before = state["servers"][gone.name]["stable_since"]
    gone.kill()
    state = await_state(cluster, lambda s: s["servers"][gone.name]["node_status"] == "failed")
    assert state["failure_tolerance"] == 0
    server = state["servers"][gone.name]
    assert not server["healthy"] and not state["healthy"]
    assert server["stable_since"] > before
    gone.start()
    cluster.await_up()
    state = await_state(cluster, lambda s: s["healthy"] and s["failure_tolerance"] == 1)
    assert state["servers"][gone.name]["stable_since"] > server["stable_since"]


def test_a_dead_server_is_removed_when_it_may_be():
    with Cluster(size=4) as cluster:
        fill(cluster, 10)
        gone = cluster.standbys()[0]
        answer = cluster.active().call("POST", CONFIG, {
            "cleanup_dead_servers": True, "min_quorum": 3,
            "dead_server_last_contact_threshold": "60s"})
        assert answer.status == 204, answer.body
        gone.kill()
        names = sorted(n.name for n in cluster.nodes if n is not gone)
        deadline = time.monotonic() + 300
        while sorted(s["node_id"] for s in servers(cluster.active())) != names:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        assert any("has been silent" in node.log_text() for node in cluster.nodes)
        gone.start()
        cluster.await_health({530}, [gone])
        assert cluster.active().call("PUT", "/v1/kv/members/11", {"n": 1}).status == 204
