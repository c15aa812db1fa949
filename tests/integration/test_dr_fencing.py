"""Fencing of clusters in one replication set: whom a cluster believes, and what it refuses."""

import shutil

import pytest

from activation import (
    DR, await_mode, become_primary, call, enable, make_token, operation_token, status,
)
from cluster import Recoverable
from test_dr_pair import await_equal, await_state, promote, seen
from test_reload import await_log

FOLLOWING = "following the primary at"


class One(Recoverable):
    def __init__(self, **options):
        super().__init__(size=1, **options)

    @property
    def node(self):
        return self.nodes[0]


def follow(primary, secondary, name):
    secondary.await_feature_level()
    told = enable(secondary.node, make_token(primary, name), primary)
    assert told.status == 200, told.body
    await_state(secondary, "stream-wals")


def demote(cluster):
    call(cluster.node, "POST", f"{DR}/primary/demote")
    await_mode(cluster, "secondary")


def take_over(cluster, keys):
    promote(cluster.node, operation_token(cluster.nodes, keys), force=True)
    await_mode(cluster, "primary")


def restart(cluster, meanwhile):
    cluster.node.stop()
    meanwhile()
    cluster.node.start()
    cluster.await_up()


def go_back(cluster, copy):
    """To an older copy of the disk."""

    def replace():
        shutil.rmtree(cluster.node.data)
        shutil.copytree(copy, cluster.node.data)

    restart(cluster, replace)


def write_beyond(cluster, version):
    while status(cluster.node)["version"] <= version + 5:
        call(cluster.node, "PUT", "/v1/kv/other", {"x": "2"}, status=204)


def await_words(cluster, *words):
    cluster.await_until(lambda: all(w in seen(cluster.node).get("reason", "") for w in words))


@pytest.fixture(scope="module")
def trio():
    """A primary, and two secondaries that follow it."""
    with One() as a, One() as b, One() as c:
        become_primary(a)
        b.await_feature_level()
        for i in range(300):  # more than the primary has: its version must rise
            call(b.node, "PUT", "/v1/kv/own", {"x": str(i)}, status=204)
        assert b.state(b.node)["version"] > status(a.node)["version"]
        follow(a, b, "b")
        follow(a, c, "c")
        yield a, b, c


def test_a_secondary_with_more_writes_can_follow(trio):
    a, b, _ = trio
    await_equal(a, b)
    assert status(a.node)["version"] > 300


def test_status_and_health_tell_lag_and_heartbeats(trio):
    a, b, _ = trio
    call(a.node, "PUT", "/v1/kv/lag", {"x": "1"}, status=204)
    await_equal(a, b)
    a.await_until(lambda: all(
        int(p["last_heartbeat_duration_ms"]) > 0 and p["lag_bytes"] == p["lag_entries"] == 0
        for p in status(a.node)["secondaries"]))
    for peer in status(a.node)["secondaries"]:
        assert peer["last_heartbeat"] and peer["last_seen"] == peer["last_heartbeat"]
        assert abs(int(peer["clock_skew_ms"])) < 1000
        assert 0 <= int(peer["replication_primary_canary_age_ms"]) < 5000
    now = status(b.node)
    assert now["lag_entries"] == now["lag_bytes"] == now["lag_ms"] == 0
    assert int(now["primaries"][0]["last_heartbeat_duration_ms"]) > 0
    make_token(a, "unused")
    a.await_until(lambda: status(a.node)["known_secondaries"] == ["b", "c", "unused"])
    for cluster in (a, b):
        health = cluster.node.call("GET", "/v1/sys/health", token="").json
        assert health["last_wal"] == status(cluster.node)["version"]
        assert 0 <= health["replication_primary_canary_age_ms"] < 5000
        assert abs(health["clock_skew_ms"]) < 1000 and health["echo_duration_ms"] >= 0


def test_a_primary_from_an_older_copy_of_its_disk_is_not_followed(trio):
    a, b, _ = trio
    copy = a.dir / "first"
    restart(a, lambda: shutil.copytree(a.node.data, copy))
    for i in range(20):
        call(a.node, "PUT", f"/v1/kv/lost/{i}", {"x": "1"}, status=204)
    await_equal(a, b)
    last = status(b.node)["version"]
    go_back(a, copy)
    await_words(b, "refuses", "has writes that the primary lacks")
    assert status(b.node)["state"] == "idle" and status(b.node)["version"] == last
    write_beyond(a, last)
    await_words(b, "refuses", "other writes than the primary at the same version")
    assert status(b.node)["state"] == "idle" and status(b.node)["version"] == last
    assert any("does not follow" in line for line in b.node.log_text().splitlines())
    # an operator decides: the primary counts
    follow_again(b, a, a.recovery_keys)
    await_equal(a, b)


def test_so_is_one_whose_version_came_by_a_sync(trio):
    """No record of the WAL was applied here: the primary has told the time of its record."""
    a, b, _ = trio
    copy = a.dir / "second"
    token = operation_token(b.nodes, a.recovery_keys)
    update = f"{DR}/secondary/update-primary"
    call(b.node, "POST", update, {"dr_operation_token": token, "token": ""}, "")
    b.await_until(lambda: seen(b.node).get("state") == "idle")
    restart(a, lambda: shutil.copytree(a.node.data, copy))
    for i in range(20):
        call(a.node, "PUT", f"/v1/kv/gone/{i}", {"x": "1"}, status=204)
    body = {"dr_operation_token": token, "update_primary_addrs": [f"127.0.0.1:{a.node.cluster_port}"]}
    followed = b.node.log_text().count(FOLLOWING)
    call(b.node, "POST", update, body, "")
    await_log(b.node, FOLLOWING, count=followed + 1)  # and has the time of the record
    await_equal(a, b)
    last = status(b.node)["version"]
    go_back(a, copy)
    write_beyond(a, last)
    await_words(b, "refuses", "other writes than the primary at the same version")
    assert status(b.node)["version"] == last


def test_a_demoted_cluster_hears_of_the_promotion_and_tells_its_secondary(trio):
    a, b, c = trio
    demote(a)
    take_over(b, a.recovery_keys)
    b.token = a.token
    assert status(b.node)["epoch"] == 2
    a.await_until(lambda: seen(a.node).get("epoch") == 2)
    await_words(a, "promoted to epoch 2")
    c.await_until(lambda: seen(c.node).get("epoch") == 2)
    take_over(a, a.recovery_keys)
    assert status(a.node)["epoch"] == 3
    await_words(b, "conflict", "epoch 3")
    assert status(b.node)["state"] == "running"


def test_two_primaries_of_one_epoch_both_report_it(trio):
    a, b, _ = trio
    demote(b)
    take_over(b, a.recovery_keys)  # it has not heard of epoch 3
    assert status(a.node)["epoch"] == status(b.node)["epoch"] == 3
    for cluster in (a, b):
        await_words(cluster, "conflict", "epoch 3", "demote one of the two")
        assert status(cluster.node)["state"] == "running"
        cluster.await_up()
        call(cluster.node, "PUT", "/v1/kv/mine", {"x": cluster.node.name}, status=204)
        assert any("conflict" in line for line in cluster.node.log_text().splitlines())
    demote(a)  # an operator decides
    b.await_until(lambda: "reason" not in seen(b.node))
    follow_again(a, b, a.recovery_keys)
    await_equal(b, a)
    assert status(a.node)["epoch"] == 3


def follow_again(cluster, primary, keys):
    token = operation_token(cluster.nodes, keys)
    body = {"dr_operation_token": token, "token": make_token(primary, cluster.node.url[-4:]),
            "ca_file": str(primary.dir / "tls" / "tls-ca.pem")}
    call(cluster.node, "POST", f"{DR}/secondary/update-primary", body, "")
    cluster.await_until(lambda: seen(cluster.node).get("state") == "stream-wals")


def test_two_secondaries_that_are_promoted_hear_of_each_other(trio):
    """They share no link: the primary that both followed tells them."""
    a, b, c = trio
    follow_again(c, b, a.recovery_keys)
    b.node.kill()
    for cluster in (a, c):
        take_over(cluster, a.recovery_keys)
        assert status(cluster.node)["epoch"] == 4
    b.node.start()
    for cluster in (a, c):
        await_words(cluster, "conflict", "epoch 4")
        assert status(cluster.node)["state"] == "running"
    b.await_until(lambda: "superseded" in seen(b.node).get("reason", ""))
    assert seen(b.node)["epoch"] == 4
