"""Nodes are added, removed, and come back without their disks."""

import shutil
import time

import pytest

from cluster import Cluster


def fill(cluster, count):
    node = cluster.active()
    for n in range(count):
        assert node.call("PUT", f"/v1/kv/members/{n}", {"n": n}).status == 204


def servers(node):
    return node.call("GET", "/v1/sys/storage/raft/configuration").data["config"]["servers"]


def raft_ids(cluster):
    return {s["node_id"]: s["raft_id"] for s in servers(cluster.active())}


def await_voters(cluster, names, gone=None, timeout_s=120):
    """Exactly these nodes are members, all of them vote, and the raft id `gone` is nobody's."""
    deadline = time.monotonic() + timeout_s
    while True:
        have = servers(cluster.active())
        if (
            sorted(s["node_id"] for s in have) == sorted(names)
            and all(s["voter"] for s in have)
            and gone not in [s["raft_id"] for s in have]
        ):
            return
        assert time.monotonic() < deadline, f"members are {have}, wanted {names} without {gone}"
        time.sleep(0.1)


def vote_at_once(cluster):
    """A new member gets its vote as soon as it is healthy; by default that takes ten seconds."""
    answer = cluster.active().call("POST", "/v1/sys/storage/raft/autopilot/configuration",
                                   {"server_stabilization_time": 0})
    assert answer.status == 204, answer.body


def is_out(cluster, node):
    """The node knows that it was removed, says so, and serves nothing."""
    cluster.await_health({530}, [node])
    health = node.call("GET", "/v1/sys/health").json
    assert health["removed_from_cluster"] is True
    assert (health["sealed"], health["performance_standby"]) == (True, False)
    for method, path in (("GET", "kv/members/1"), ("PUT", "kv/members/1"), ("GET", "sys/mounts")):
        answer = node.call(method, f"/v1/{path}", {"n": 1} if method == "PUT" else None)
        assert answer.status == 503, answer.body
        assert "removed from the cluster" in answer.json["errors"][0], answer.body


def test_an_initial_member_waits_for_the_others_and_names_them():
    cluster = Cluster()
    first, second, third = cluster.nodes
    try:
        first.start()
        second.start()
        awaited = f"waits for the initial members node3 (127.0.0.1:{third.cluster_port})"
        deadline = time.monotonic() + 120
        for node in (first, second):
            cluster.await_health({501}, [node])
            while awaited not in (errors := node.call("GET", "/v1/sys/health").json["errors"])[0]:
                assert time.monotonic() < deadline, errors
                time.sleep(0.05)
            assert node.call("GET", "/v1/sys/health").json["initialized"] is False
            assert node.call("GET", "/v1/sys/init").json == {"initialized": False}
            seal = node.call("GET", "/v1/sys/seal-status")
            assert (seal.status, seal.json["initialized"], seal.json["sealed"]) == (200, False, True)
            leader = node.call("GET", "/v1/sys/leader")
            assert (leader.status, leader.json["leader_address"]) == (200, "")
            for which in ("", "dr/", "performance/"):
                assert node.call("GET", f"/v1/sys/replication/{which}status").status == 200
            for path in ("/v1/kv/a", "/readyz"):
                answer = node.call("GET", path)
                assert (answer.status, awaited in answer.json["errors"][0]) == (501, True), path
            assert node.call("GET", "/livez").status == 200
        # An initialisation waits a while before it says so.
        answer = first.call("PUT", "/v1/sys/init", {})
        assert (answer.status, awaited in answer.json["errors"][0]) == (501, True), answer.body
        third.start()
        cluster.init()
    finally:
        cluster.__exit__(None, None, None)


def test_a_node_that_lost_its_disk_comes_back_under_a_new_raft_id():
    with Cluster() as cluster:
        vote_at_once(cluster)
        fill(cluster, 50)
        victim = cluster.standbys()[0]
        first = raft_ids(cluster)[victim.name]
        victim.kill()
        shutil.rmtree(victim.data)
        victim.start()
        cluster.await_up()
        await_voters(cluster, [n.name for n in cluster.nodes], gone=first)
        second = raft_ids(cluster)[victim.name]
        cluster.await_equal_roots()
        # It counts: with another node gone the two still make a majority.
        other = next(n for n in cluster.nodes if n is not victim)
        other.kill()
        cluster.active()
        assert victim.call("GET", "/v1/kv/members/49").data == {"n": 49}
        assert victim.call("PUT", "/v1/kv/members/50", {"n": 50}).status == 204
        other.start()
        cluster.await_up()
        # Again: its first raft id is no member's any more.
        victim.kill()
        shutil.rmtree(victim.data)
        victim.start()
        cluster.await_up()
        await_voters(cluster, [n.name for n in cluster.nodes], gone=second)
        cluster.await_equal_roots()


def test_a_fourth_node_joins_and_is_removed():
    with Cluster() as cluster:
        vote_at_once(cluster)
        fill(cluster, 50)
        fourth = cluster.add_node("node4")
        fourth.start()
        cluster.await_up()
        await_voters(cluster, ["node1", "node2", "node3", "node4"])
        assert fourth.call("GET", "/v1/kv/members/49").data == {"n": 49}
        assert fourth.call("PUT", "/v1/kv/members/50", {"n": 50}).status == 204
        cluster.await_equal_roots()
        removed = cluster.nodes[0].call(
            "POST", "/v1/sys/storage/raft/remove-peer", {"server_id": "node4"}
        )
        assert removed.status == 204, removed.body
        await_voters(cluster, ["node1", "node2", "node3"])
        # Its certificate is still good, but nobody takes its word for a client any more.
        refused = fourth.call("PUT", "/v1/kv/members/51", {"n": 51})
        assert refused.status >= 500, refused.body
        assert cluster.nodes[0].call("GET", "/v1/kv/members/51").status == 404
        is_out(cluster, fourth)
        # It remembers, and asks nobody.
        assert fourth.stop() == 0
        fourth.start()
        is_out(cluster, fourth)
        assert fourth.call("GET", "/v1/sys/health?removedcode=299").status == 299
        # Without its data it is a stranger of a name that is not wanted.
        fourth.kill()
        shutil.rmtree(fourth.data)
        fourth.start()
        is_out(cluster, fourth)
        await_voters(cluster, ["node1", "node2", "node3"])
        # An operator lets it in again.
        again = {"server_id": "node4"}
        path = "/v1/sys/storage/raft/readmit"
        assert cluster.nodes[1].call("POST", path, again, token="").status == 403
        assert cluster.nodes[1].call("POST", path, again).status == 204
        assert cluster.nodes[1].call("POST", path, again).status == 400
        fourth.kill()
        shutil.rmtree(fourth.data)
        fourth.start()
        cluster.await_up()
        await_voters(cluster, ["node1", "node2", "node3", "node4"])
        assert fourth.call("GET", "/v1/kv/members/49").data == {"n": 49}
        cluster.await_equal_roots()


@pytest.mark.parametrize("asleep", [False, True])
def test_a_node_that_was_let_in_again_before_it_heard_of_its_removal_is_told(asleep):
    """Nobody refuses its name, and nobody speaks to its raft id."""
    with Cluster() as cluster:
        fill(cluster, 5)
        node, active = cluster.standbys()[0], cluster.active()
        names = [n.name for n in cluster.nodes if n is not node]
        if asleep:
            node.pause()
        else:
            node.kill()
        for what in ("remove-peer", "readmit"):
            answer = set_vote(active, what, node.name)
            assert answer.status == 204, answer.body
        if asleep:
            node.resume()
        else:
            node.start()
        is_out(cluster, node)
        assert "data directory is emptied" in node.log_text()
        await_voters(cluster, names)
        node.kill()
        shutil.rmtree(node.data)
        node.start()
        cluster.await_up()
        await_voters(cluster, [n.name for n in cluster.nodes])
        cluster.await_equal_roots()


def test_a_member_without_a_leader_is_not_told_that_it_is_none():
    """A minority that comes back after a long time finds its place again."""
    with Cluster() as cluster:
        fill(cluster, 5)
        one, *others = cluster.nodes
        for node in others:
            node.kill()
        time.sleep(6)
        assert one.health() not in (200, 473, 530)
        for node in others:
            node.start()
        cluster.await_up()
        assert "no member" not in "".join(n.log_text() for n in cluster.nodes)


def test_who_is_no_member_cannot_be_removed_nor_the_last_one():
    with Cluster(size=1) as cluster:
        node, path = cluster.nodes[0], "/v1/sys/storage/raft/remove-peer"
        assert node.call("POST", path, {"server_id": "node7"}).status == 204  # nothing to do
        for name in ("node1", "", "../x", "a" * 300):
            answer = node.call("POST", path, {"server_id": name})
            assert answer.status == 400, (name, answer.body)
        assert node.call("PUT", "/v1/kv/members/1", {"n": 1}).status == 204
        assert node.stop() == 0
        node.start()
        cluster.await_up()


def test_the_active_node_can_be_removed_and_another_takes_over():
    with Cluster() as cluster:
        fill(cluster, 10)
        active = cluster.active()
        others = [n for n in cluster.nodes if n is not active]
        removed = others[0].call(
            "POST", "/v1/sys/storage/raft/remove-peer", {"server_id": active.name}
        )
        assert removed.status == 204, removed.body
        is_out(cluster, active)
        active.kill()
        cluster.nodes.remove(active)
        await_voters(cluster, [n.name for n in others])
        assert others[0].call("PUT", "/v1/kv/members/11", {"n": 11}).status == 204
        cluster.await_equal_roots()


def voters(cluster):
    return sorted(s["node_id"] for s in servers(cluster.active()) if s["voter"])


def set_vote(node, what, name, token=None):
    return node.call("POST", f"/v1/sys/storage/raft/{what}", {"server_id": name}, token)


def test_a_node_loses_its_vote_and_gets_it_back():
    with Cluster() as cluster:
        vote_at_once(cluster)
        fill(cluster, 10)
        weak = cluster.limited('path "kv/*" { capabilities = ["update"] }')
        plain, other = cluster.standbys()
        for what in ("promote", "demote"):
            assert set_vote(other, what, plain.name, token="").status == 403
            assert set_vote(other, what, plain.name, token=weak).status == 403
            for name in ("", "../x", "a" * 300):
                assert set_vote(other, what, name).status == 400, name
        assert set_vote(other, "promote", "node7").status == 400
        assert set_vote(other, "demote", "node7").status == 204  # it has no vote
        for _ in range(2):
            assert set_vote(other, "demote", plain.name).status == 204
        assert voters(cluster) == sorted(n.name for n in cluster.nodes if n is not plain)
        # It serves as before, but is no part of a majority.
        assert plain.call("PUT", "/v1/kv/members/10", {"n": 10}).status == 204
        assert plain.call("GET", "/v1/kv/members/10").data == {"n": 10}
        # Also after it lost its disk.
        before = raft_ids(cluster)[plain.name]
        plain.kill()
        shutil.rmtree(plain.data)
        plain.start()
        deadline = time.monotonic() + 120
        while raft_ids(cluster)[plain.name] == before or len(servers(cluster.active())) > 3:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        cluster.await_up()
        cluster.await_equal_roots()
        assert plain.name not in voters(cluster)
        assert set_vote(plain, "promote", plain.name).status == 204
        await_voters(cluster, [n.name for n in cluster.nodes])
        assert set_vote(other, "promote", plain.name).status == 204
        # It counts again.
        other.kill()
        assert plain.call("PUT", "/v1/kv/members/11", {"n": 11}).status == 204
        other.start()
        cluster.await_up()


def test_an_active_node_hands_over_before_it_loses_its_vote():
    with Cluster() as cluster:
        fill(cluster, 10)
        active = cluster.active()
        other = cluster.standbys()[0]
        assert set_vote(other, "demote", active.name).status == 204
        assert cluster.active() is not active
        assert active.name not in voters(cluster) and len(voters(cluster)) == 2
        assert active.call("PUT", "/v1/kv/members/11", {"n": 11}).status == 204
        # A node that is removed is forgotten: it would have a vote if it came back.
        removed = other.call("POST", "/v1/sys/storage/raft/remove-peer",
                             {"server_id": active.name})
        assert removed.status == 204, removed.body
        is_out(cluster, active)  # before the others take it back and it hears nothing of it
        assert other.call("POST", "/v1/sys/storage/raft/readmit",
                          {"server_id": active.name}).status == 204
        active.kill()
        shutil.rmtree(active.data)
        active.start()
        await_voters(cluster, [n.name for n in cluster.nodes])
        cluster.await_up()


def test_the_last_voter_keeps_its_vote():
    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        answer = set_vote(node, "demote", node.name)
        assert answer.status == 400 and "last voter" in answer.json["errors"][0]
        assert set_vote(node, "promote", node.name).status == 204
        assert node.call("PUT", "/v1/kv/members/1", {"n": 1}).status == 204


def test_no_vote_is_taken_that_the_majority_needs():
    """With one of three voters away, the two others are each needed."""
    with Cluster() as cluster:
        vote_at_once(cluster)
        active, (plain, gone) = cluster.active(), cluster.standbys()
        gone.kill()
        cluster.await_until(lambda: "lost the link to " + gone.name in active.log_text())
        for node in (active, plain):
            for answer in (set_vote(active, "demote", node.name),
                           active.call("POST", "/v1/sys/storage/raft/remove-peer",
                                       {"server_id": node.name})):
                assert answer.status == 400, answer.body
                assert "1 of 2 voters, which is no majority" in answer.json["errors"][0]
        assert sorted(voters(cluster)) == sorted(n.name for n in cluster.nodes)
        fill(cluster, 5)
        answer = active.call("POST", "/v1/sys/storage/raft/remove-peer", {"server_id": gone.name})
        assert answer.status == 204, answer.body
        assert set_vote(active, "demote", plain.name).status == 204
        fill(cluster, 5)


def test_leadership_moves_without_losing_a_write():
    with Cluster() as cluster:
        for n in range(6):
            active = cluster.active()
            assert active.call("PUT", "/v1/sys/step-down").status == 204
            deadline = time.monotonic() + 120
            while True:
                others = [node for node in cluster.nodes if node is not active]
                if any(node.health() == 200 for node in others):
                    break
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert cluster.nodes[n % 3].call("PUT", "/v1/kv/move", {"n": n}).status == 204
        assert cluster.nodes[0].call("GET", "/v1/kv/move").data == {"n": 5}


def test_a_rolling_restart_under_load_answers_every_write():
    with Cluster() as cluster:
        acked = 0
        for victim in list(cluster.nodes):
            assert victim.stop() == 0, victim.log_text()[-2000:]
            node = cluster.active()
            for _ in range(20):
                acked += 1
                assert node.call("PUT", "/v1/kv/rolling", {"n": acked}).status == 204
            victim.start()
            cluster.await_up()
        for node in cluster.nodes:
            assert node.call("GET", "/v1/kv/rolling").data == {"n": acked}
