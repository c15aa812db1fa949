"""Autopilot: the health of the members, and the removal of dead members."""

import datetime
import json
import os
import shutil
import subprocess
import time

import pytest

from cluster import HOLDFAST, Cluster
from test_members import await_voters, fill, raft_ids, servers, set_vote, vote_at_once

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


def test_a_sealed_node_is_not_healthy(cluster):
    """It votes, but cannot take over."""
    await_state(cluster, lambda s: s["healthy"] and s["failure_tolerance"] == 1)
    node = cluster.standbys()[0]
    assert node.call("PUT", "/v1/sys/seal").status == 204
    state = await_state(cluster, lambda s: not s["servers"][node.name]["serving"])
    assert not state["healthy"] and state["failure_tolerance"] == 0
    server = state["servers"][node.name]
    assert (server["healthy"], server["node_status"], server["status"]) == (False, "alive", "voter")
    others = [s for name, s in state["servers"].items() if name != node.name]
    assert all(s["healthy"] and s["serving"] for s in others)
    shown = json.loads(subprocess.run(
        [HOLDFAST, "operator", "members", "-format=json"], check=True, capture_output=True, text=True,
        env={**os.environ, "HOLDFAST_ADDR": cluster.active().url, "HOLDFAST_TOKEN": cluster.token,
             "HOLDFAST_CACERT": str(cluster.dir / "tls" / "tls-ca.pem")}).stdout)
    assert {r["hostname"]: r["serving"] for r in shown["nodes"]}[node.name] is False
    node.stop()
    node.start()
    cluster.await_up()
    await_state(cluster, lambda s: s["healthy"])


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


def configure(cluster, **fields):
    answer = cluster.active().call("POST", CONFIG, fields)
    assert answer.status == 204, answer.body


def age_s(server):
    """How long ago the server became healthy, or stopped being healthy."""
    since = datetime.datetime.fromisoformat(server["stable_since"].replace("Z", "+00:00"))
    return (datetime.datetime.now(datetime.timezone.utc) - since).total_seconds()


def test_a_new_member_votes_after_a_time_of_health_without_interruption():
    with Cluster() as cluster:
        fill(cluster, 20)
        configure(cluster, server_stabilization_time="6s", last_contact_threshold="2s")
        node = cluster.add_node("node4")
        node.start()
        cluster.await_up()
        await_state(cluster, lambda s: s["servers"].get("node4", {}).get("healthy"))
        # It serves without a vote.
        assert node.call("GET", "/v1/kv/members/19").data == {"n": 19}
        assert node.call("PUT", "/v1/kv/members/20", {"n": 20}).status == 204
        first = state_of(cluster)
        server = first["servers"]["node4"]
        assert (server["status"], server["node_type"]) == ("non-voter", "voter"), server
        assert (first["non_voters"], first["failure_tolerance"]) == (["node4"], 1)
        # An interruption starts the time again.
        node.pause()
        failed = await_state(cluster, lambda s: not s["servers"]["node4"]["healthy"])
        assert failed["servers"]["node4"]["stable_since"] > server["stable_since"]
        node.resume()
        again = await_state(cluster, lambda s: s["servers"]["node4"]["healthy"])
        assert again["servers"]["node4"]["status"] == "non-voter"
        # So does a new leader, for every member.
        before = cluster.active()
        assert before.call("PUT", "/v1/sys/step-down").status == 204
        deadline = time.monotonic() + 60
        while cluster.active() is before:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        later = await_state(cluster, lambda s: s["servers"]["node4"]["healthy"])
        assert (later["servers"]["node4"]["stable_since"]
                > again["servers"]["node4"]["stable_since"])
        assert later["servers"]["node4"]["status"] == "non-voter"
        voting = await_state(cluster, lambda s: "non_voters" not in s)
        server = voting["servers"]["node4"]
        assert (server["status"], server["node_type"]) == ("voter", "voter")
        assert 5.5 <= age_s(server) <= 60, server
        await_voters(cluster, ["node1", "node2", "node3", "node4"])
        cluster.await_equal_roots()


def test_a_node_with_a_new_disk_waits_for_its_vote_too():
    with Cluster() as cluster:
        fill(cluster, 20)
        configure(cluster, server_stabilization_time="1h")
        victim = cluster.standbys()[0]
        first = raft_ids(cluster)[victim.name]
        victim.kill()
        shutil.rmtree(victim.data)
        victim.start()
        # Its old vote goes right behind: the two others are all voters, and both are needed.
        state = await_state(cluster, lambda s: victim.name in s.get("non_voters", [])
                            and s["servers"][victim.name]["healthy"] and len(s["voters"]) == 2)
        assert state["failure_tolerance"] == 0
        assert raft_ids(cluster)[victim.name] != first
        cluster.await_up()
        assert victim.call("PUT", "/v1/kv/members/20", {"n": 20}).status == 204
        time.sleep(2)
        assert victim.name in state_of(cluster)["non_voters"]
        # It remembers over a start that it is a member, and still waits.
        assert victim.stop() == 0
        victim.start()
        cluster.await_up()
        assert victim.name in state_of(cluster)["non_voters"]
        # An operator does not wait; nor does a member after the setting was lowered.
        assert set_vote(cluster.active(), "promote", victim.name).status == 204
        await_voters(cluster, [n.name for n in cluster.nodes])
        other = cluster.add_node("node4")
        other.start()
        await_state(cluster, lambda s: "node4" in s.get("non_voters", []))
        vote_at_once(cluster)
        await_voters(cluster, [n.name for n in cluster.nodes])
        assert state_of(cluster)["failure_tolerance"] == 1
        cluster.await_equal_roots()
