"""Two clusters as a pair: the first sync, the stream, and taking over."""

import time

import pytest

from activation import DR, await_mode, become_primary, call, enable, make_token, operation_token, status
from cluster import Recoverable


def follow(primary, secondary, name="b"):
    secondary.await_feature_level()
    token = make_token(primary, name)
    told = enable(secondary.nodes[0], token, primary)
    assert told.status == 200, told.body
    await_state(secondary, "stream-wals")


def await_state(cluster, state):
    cluster.await_until(lambda: all(seen(n).get("state") == state for n in cluster.nodes))


def seen(node):
    """The status of a node; empty while it does not reply."""
    try:
        return status(node)
    except OSError:
        return {}


def await_position(primary, secondary):
    """The secondary has every write of the primary that was acknowledged before."""
    wanted = status(primary.active())["version"]
    secondary.await_until(lambda: all(seen(n).get("version", 0) >= wanted for n in secondary.nodes))
    return wanted


def await_equal(primary, secondary):
    """Equal roots at an equal version."""
    await_position(primary, secondary)

    def equal():
        pairs = {
            (s.get("root_version"), s.get("merkle_root"))
            for s in (seen(n) for n in primary.nodes + secondary.nodes)
        }
        return len(pairs) == 1

    secondary.await_until(equal)


def promote(node, token, **body):
    """As operators do: 503 means to try again."""
    body = {"dr_operation_token": token, **body}
    deadline = time.monotonic() + 60
    while (told := node.call("POST", f"{DR}/secondary/promote", body, token="")).status == 503:
        assert time.monotonic() < deadline, told.body
        time.sleep(0.2)
    assert told.status == 200 and told.json["complete"], told.body


@pytest.fixture(scope="module")
def pair():
    with Recoverable() as primary, Recoverable() as secondary:
        become_primary(primary)
        for i in range(200):
            call(primary.nodes[i % 3], "PUT", f"/v1/kv/before/{i}", {"x": str(i)}, status=204)
        call(primary.nodes[0], "DELETE", "/v1/kv/before/7", status=204)
        follow(primary, secondary)
        yield primary, secondary


def test_the_first_sync_makes_the_roots_equal(pair):
    await_equal(*pair)


def test_writes_are_shipped_and_the_roots_are_compared(pair):
    primary, secondary = pair
    for i in range(100):
        call(primary.nodes[i % 3], "PUT", f"/v1/kv/after/{i}", {"x": "y" * i}, status=204)
    call(primary.nodes[0], "DELETE", "/v1/kv/after/3", status=204)
    await_equal(primary, secondary)
    primary.await_until(lambda: any(
        peer["last_verified_index"] > 0 for n in primary.nodes for peer in status(n)["secondaries"]))
    assert not any(status(n)["corrupted_merkle_tree"] for n in primary.nodes)
    told = status(primary.active())
    assert told["known_secondaries"] == ["b"]
    assert told["secondaries"][0]["node_id"] == "b"
    assert told["secondaries"][0]["connection_status"] == "connected"
    following = next(s for s in map(status, secondary.nodes) if s.get("connection_state") == "ready")
    assert following["lag_entries"] == 0 and following["last_heard_ms"] >= 0
    assert following["known_primary_cluster_addrs"]


def follower(cluster):
    """The node with the link to the primary. sys/health says 472 on every node."""
    return next(n for n in cluster.nodes if n.call("GET", "/v1/sys/leader", token="").json["is_self"])


# What only the node with the link knows. A zero would look healthy.
LINK = {"primaries", "known_primary_cluster_addrs", "last_start", "lag_entries", "lag_bytes", "lag_ms",
        "certificate_expires", "last_verified_index", "difference_syncs", "lost_writes"}


def test_a_standby_of_a_secondary_tells_nothing_that_looks_healthy(pair):
    primary, secondary = pair
    active = follower(secondary)
    secondary.await_until(lambda: seen(active).get("connection_state") == "ready")
    told = status(active)
    assert LINK <= set(told) and len(told["primaries"]) == 3
    assert {p["cluster_address"] for p in told["primaries"]} == set(told["known_primary_cluster_addrs"])
    assert told["primary_cluster_addr"] in told["known_primary_cluster_addrs"]
    for node in secondary.nodes:
        health = node.call("GET", "/v1/sys/health", token="").json
        assert (health["replication_primary_canary_age_ms"] >= 0) == (node is active)
        assert (health["echo_duration_ms"] >= 0) == (node is active)
        if node is active:
            continue
        there = status(node)
        assert not LINK & set(there) and there["last_heard_ms"] == -1
        assert there["connection_state"] == "unknown"
        assert there["reason"] == f"not known here: the active node has the link to the primary, ask {active.url}"
        assert there["version"] and there["merkle_root"]  # those of this node


def test_probes_of_a_secondary_refuse_clients(pair):
    primary, secondary = pair
    for node in secondary.nodes:
        assert [node.call("GET", path, token="").status for path in ("/livez", "/readyz", "/activez")] == [
            200, 503, 503]
        text = node.call("GET", "/readyz", token="").json["errors"][0]
        assert text == "this node belongs to a secondary of disaster recovery, which serves no clients"
    for node in primary.nodes:
        assert node.call("GET", "/readyz", token="").status == 200


def test_the_secondary_follows_over_changes_of_both_active_nodes(pair):
    primary, secondary = pair
    for cluster in (primary, secondary, primary):
        leads = next(n for n in cluster.nodes
                     if call(n, "GET", "/v1/sys/leader", token="").json["is_self"])
        leads.kill()
        primary.await_until(lambda: any(
            n.alive and n.call("PUT", "/v1/kv/over", {"x": "1"}).status == 204
            for n in primary.nodes if n.alive))
        leads.start()
        primary.await_up()
        await_equal(primary, secondary)


def test_a_planned_failover_loses_nothing(pair):
    primary, secondary = pair
    node = secondary.nodes[1]
    batch = call(primary.nodes[0], "POST", "/v1/auth/token/create", {"policies": ["root"]}).json
    call(primary.nodes[0], "PUT", "/v1/cubbyhole/mine", {"x": "kept"},
         batch["auth"]["client_token"], status=204)
    call(primary.nodes[0], "POST", f"{DR}/primary/demote")
    await_mode(primary, "secondary")
    for each in primary.nodes:  # the former secondary, which still fetches, is no primary
        told = status(each)
        assert told.get("primaries", []) == told.get("known_primary_cluster_addrs", []) == []
        assert told["state"] == "idle" and each.call("GET", "/readyz", token="").status == 503
    last = status(primary.nodes[0])["version"]
    secondary.await_until(lambda: all(status(n)["version"] == last for n in secondary.nodes))
    token = operation_token(secondary.nodes, primary.recovery_keys)
    promote(node, token)
    await_mode(secondary, "primary")
    secondary.token = primary.token
    secondary.await_up()
    assert status(node)["epoch"] == 2
    assert call(node, "GET", "/v1/kv/before/9").data["x"] == "9"
    assert node.call("GET", "/v1/kv/before/7").status == 404
    assert call(node, "GET", "/v1/cubbyhole/mine", token=batch["auth"]["client_token"]).data == {
        "x": "kept"}
    for each in secondary.nodes:
        call(each, "PUT", f"/v1/kv/new/{each.name}", {"x": "1"}, status=204)


def test_the_former_primary_follows_the_new_one(pair):
    former, primary = pair
    node = former.nodes[2]
    assert all(n.health() == 472 for n in former.nodes)
    token = operation_token(former.nodes, former.recovery_keys)
    bearer = make_token(primary, "a")
    body = {"dr_operation_token": token, "token": bearer, "ca_file": str(primary.dir / "tls" / "tls-ca.pem")}
    told = call(node, "POST", f"{DR}/secondary/update-primary", body, "")
    assert told.json["warnings"]
    await_state(former, "stream-wals")
    await_equal(primary, former)
    assert status(node)["epoch"] == 2
    call(primary.nodes[0], "PUT", "/v1/kv/back", {"x": "1"}, status=204)
    await_equal(primary, former)


def test_a_secondary_that_was_revoked_says_so(pair):
    former, primary = pair
    call(primary.nodes[0], "POST", f"{DR}/primary/revoke-secondary", {"id": "a"}, status=204)
    former.await_until(lambda: status(follower(former))["state"] == "idle")
    for _ in range(30):  # while it tries again and again
        told = status(follower(former))
        assert told["state"] == "idle" and told["connection_state"] != "ready"
        assert told["reason"].endswith(" refuses: the secondary was revoked"), told
        time.sleep(0.05)
    # A primary that is forgotten is named no more.
    token = operation_token(former.nodes, former.recovery_keys)
    body = {"dr_operation_token": token, "token": ""}
    call(former.nodes[1], "POST", f"{DR}/secondary/update-primary", body, "")
    for node in former.nodes:
        former.await_until(lambda n=node: status(n)["state"] == "idle")
        told = status(node)
        assert told.get("primaries", []) == told.get("known_primary_cluster_addrs", []) == []
        assert told["primary_cluster_addr"] == ""
    token = operation_token(former.nodes, former.recovery_keys)
    body = {"dr_operation_token": token, "token": make_token(primary, "a"),
            "ca_file": str(primary.dir / "tls" / "tls-ca.pem")}
    call(former.nodes[2], "POST", f"{DR}/secondary/update-primary", body, "")
    await_state(former, "stream-wals")
    await_equal(primary, former)


def test_a_former_primary_that_follows_is_announced_to_less_often(pair):
    """Its nodes log each announcement as a connection without a protocol that they know."""
    former, primary = pair
    active = primary.active()
    primary.await_until(lambda: all(
        f"127.0.0.1:{n.cluster_port} is no node of a DR primary any more" in active.log_text()
        for n in former.nodes))


def test_a_primary_that_comes_back_is_superseded(pair):
    """The new primary is lost while its secondary takes over; it returns and is told."""
    secondary, primary = pair  # as the test before left them
    token = operation_token(secondary.nodes, primary_keys(pair))
    for node in primary.nodes:
        node.kill()
    promote(secondary.nodes[0], token, force=True)
    await_mode(secondary, "primary")
    secondary.await_up()
    assert status(secondary.nodes[0])["epoch"] == 3
    for node in primary.nodes:
        node.start()
    primary.await_until(lambda: all(seen(n).get("state") == "idle" for n in primary.nodes))
    now = status(primary.nodes[0])
    assert now["mode"] == "primary" and "superseded" in now["reason"]
    refused = primary.nodes[0].call("PUT", "/v1/kv/late", {"x": "1"})
    assert refused.status == 503 and b"superseded" in refused.body


def primary_keys(pair):
    """The recovery keys of the set are those of its first primary."""
    return pair[0].recovery_keys
