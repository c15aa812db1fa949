"""Leases of an engine (tests/unit/sample) on three real nodes: they end with their token, with their
mount and with their time, whatever happens to the active node."""

import os
import threading
import time

import pytest

from cluster import PATIENCE_S
from test_sample import PROGRAM, SampleCluster

COUNT = 100000 if os.environ.get("HOLDFAST_LONG") else 30000
LAMPS = """
path "lamp/take/*" { capabilities = ["create", "read", "update"] }
path "gone/take/*" { capabilities = ["create", "read", "update"] }
path "auth/token/create" { capabilities = ["update"] }
"""


@pytest.fixture(scope="module")
def cluster():
    with SampleCluster(program=PROGRAM) as made:
        mount(made, "lamp")
        made.await_feature_level()  # leases of engines need it
        yield made


def mount(cluster, path):
    answer = cluster.active().call("POST", f"/v1/sys/mounts/{path}", {"type": "lamp"})
    assert answer.status == 204, answer.body


def take(node, name, token, count=1, ttl="1h", path="lamp"):
    """Ids of the leases of lamps NAME, or NAME.0 and so on."""
    leases = []
    for first in range(0, count, 1000):
        some = min(count - first, 1000)
        body = {"ttl": ttl, "count": some}
        answer = node.call("POST", f"/v1/{path}/take/{name}{first or ''}", body, token=token)
        assert answer.status == 200, answer.body
        leases += answer.data["leases"]
    return leases


def burns(node, name, path="lamp"):
    answer = node.call("GET", f"/v1/{path}/take/{name}")
    assert answer.status in (200, 404), answer.body
    return answer.status == 200


def left(cluster, path="lamp"):
    """The number of lease records below a path, good or not."""
    answer = cluster.active().call("GET", "/v1/sys/leases/count")
    if answer.status in (503, 500):  # the node that answers has just lost its place
        return None
    assert answer.status == 200, answer.body
    return answer.data["counts"].get(f"{path}/", 0)


def await_left(cluster, holds, path="lamp"):
    deadline = time.monotonic() + PATIENCE_S
    while (count := left(cluster, path)) is None or not holds(count):
        assert time.monotonic() < deadline, count
        time.sleep(0.01)


def await_none(cluster, path="lamp"):
    await_left(cluster, lambda count: count == 0, path)


def is_good(node, lease):
    return node.call("POST", "/v1/sys/leases/lookup", {"lease_id": lease}).status == 200


def restart(cluster, node):
    node.start()
    cluster.await_up()
    cluster.await_equal_roots()


def test_the_leases_of_a_revoked_token_end_through_a_failover(cluster):
    """End a token with many leases through a standby, and kill the active node while it sweeps them:
    each lease of the token ends, and none of another token's."""
    parent, other = cluster.limited(LAMPS), cluster.limited(LAMPS)
    made = cluster.active().call("POST", "/v1/auth/token/create", {}, token=parent)
    token = made.json["auth"]["client_token"]
    first = cluster.active()
    kept = take(first, "mine", cluster.token) + take(first, "many.other", other, 600)
    leases = take(first, "many", token, COUNT)
    assert burns(cluster.standbys()[0], "many.7") and is_good(first, leases[-1])
    assert cluster.standbys()[0].call("POST", "/v1/auth/token/revoke", {"token": parent}).status == 204
    await_left(cluster, lambda count: count < COUNT + len(kept))
    first.kill()
    for node in cluster.nodes:
        if node is not first:
            cluster.active()
            assert not burns(node, "many.7") and not burns(node, "many.999")
            assert not is_good(node, leases[-1]) and burns(node, "mine")
            answer = node.call("POST", "/v1/sys/leases/renew", {"lease_id": leases[-1]})
            assert answer.status == 400, answer.body
    await_swept(cluster, len(kept))
    assert all(is_good(cluster.active(), lease) for lease in kept)
    assert burns(cluster.active(), "mine") and burns(cluster.active(), "many.other.599")
    restart(cluster, first)
    assert not burns(first, "many.7") and burns(first, "mine")
    assert first.call("PUT", "/v1/sys/leases/revoke", {"lease_id": kept[0]}).status == 204
    assert first.call("POST", "/v1/auth/token/revoke", {"token": other}).status == 204
    await_none(cluster)


def await_swept(cluster, count):
    await_left(cluster, lambda now: now == count)


def test_the_leases_of_a_batch_token_end_with_it_or_its_parent(cluster):
    one, two, three = cluster.nodes
    parent = cluster.limited(LAMPS)
    body = {"type": "batch", "ttl": "3s"}
    made = one.call("POST", "/v1/auth/token/create", body, token=parent)
    assert made.status == 200, made.body
    token = made.json["auth"]["client_token"]
    taken = two.call("POST", "/v1/lamp/take/short", {"ttl": "1h"}, token=token)
    assert taken.status == 200 and taken.json["lease_duration"] <= 3, taken.body
    assert "batch token" in taken.json["warnings"][0]
    own = take(three, "own", parent)
    renewed = three.call("POST", "/v1/sys/leases/renew", {"lease_id": taken.json["lease_id"], "increment": 600})
    assert renewed.status in (200, 400), renewed.body  # 400: the three seconds are over
    assert renewed.status == 400 or renewed.json["lease_duration"] <= 3
    deadline = time.monotonic() + PATIENCE_S
    while burns(one, "short"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    body = {"type": "batch", "ttl": "1h"}
    token = one.call("POST", "/v1/auth/token/create", body, token=parent).json["auth"]["client_token"]
    lease = take(two, "long", token)[0]
    assert is_good(one, lease) and is_good(one, own[0])
    assert one.call("POST", "/v1/auth/token/revoke", {"token": parent}).status == 204
    for node in cluster.nodes:
        assert not burns(node, "long") and not is_good(node, lease) and not is_good(node, own[0])
    await_none(cluster)


def test_a_lease_of_the_last_use_is_refused(cluster):
    token = cluster.limited(LAMPS, num_uses=2)
    take(cluster.active(), "once", token)
    answer = cluster.active().call("POST", "/v1/lamp/take/twice", {}, token=token)
    assert answer.status == 400 and b"last use" in answer.body
    assert not burns(cluster.nodes[0], "once") and not burns(cluster.nodes[0], "twice")
    await_none(cluster)


def test_no_lease_survives_the_end_of_its_mount(cluster):
    """Each lease that was acknowledged before the end is gone; later requests find no mount."""
    mount(cluster, "gone")
    take(cluster.active(), "before", cluster.token, 1500, path="gone")
    answers, go = [], threading.Event()

    def taker(node, number):
        for i in range(10000):
            answer = node.call("POST", f"/v1/gone/take/t{number}-{i}", {})
            answers.append(answer.status)
            if answer.status != 200:
                return
            go.set()

    threads = [threading.Thread(target=taker, args=(n, i)) for i, n in enumerate(cluster.nodes)]
    for thread in threads:
        thread.start()
    assert go.wait(PATIENCE_S)
    answer = cluster.nodes[0].call("DELETE", "/v1/sys/mounts/gone")
    assert answer.status in (200, 204), answer.body
    for thread in threads:
        thread.join(PATIENCE_S)
    assert answers.count(404) == 3 and answers.count(200) == len(answers) - 3, answers[-9:]
    await_none(cluster, "gone")
    assert cluster.active().call("LIST", "/v1/sys/leases/lookup/gone").status == 404


@pytest.mark.parametrize("count", [1, 1200])  # ended with the move, and by the active node after it
def test_a_moved_mount_has_no_leases(cluster, count):
    mount(cluster, "old")
    lease = take(cluster.active(), "x", cluster.token, count, path="old")[-1]
    taken = take(cluster.active(), "y", cluster.token, path="old")
    assert burns(cluster.nodes[0], "y", "old")
    moved = cluster.nodes[0].call("POST", "/v1/sys/remount", {"from": "old", "to": "new"})
    assert moved.status == 200, moved.body
    assert (b"More than 500 leases" in moved.body) == (count > 500), moved.body
    fresh = take(cluster.active(), "z", cluster.token, path="new")
    if count > 500:
        await_none(cluster, "old")
    for node in cluster.nodes:
        node.call("GET", "/v1/kv/none")  # a confirmed read: what comes next sees the end
        assert not burns(node, "y", "new") and not is_good(node, lease) and not is_good(node, taken[0])
        assert burns(node, "z", "new") and is_good(node, fresh[0])
    assert cluster.nodes[0].call("DELETE", "/v1/sys/mounts/new").status == 204
    await_none(cluster, "new")


def test_leases_that_expire_at_once_are_gone_and_others_stay(cluster):
    take(cluster.active(), "brief", cluster.token, 5000, ttl="3s")
    kept = take(cluster.active(), "kept", cluster.token)
    await_swept(cluster, 1)
    for node in cluster.nodes:
        assert not burns(node, "brief.5") and is_good(node, kept[0])
    assert cluster.nodes[1].call("PUT", "/v1/sys/leases/revoke", {"lease_id": kept[0]}).status == 204
    cluster.await_equal_roots()


def test_leases_that_expire_while_their_prefix_is_revoked(cluster):
    """Expiry, the end of all leases below a path and clients that ask for it do not hold each other
    up: all that is due or below the path ends, and no request fails."""
    mount(cluster, "gone")
    kept = take(cluster.active(), "kept", cluster.token)
    take(cluster.active(), "brief", cluster.token, 3000, ttl="3s")
    take(cluster.active(), "brief", cluster.token, 3000, ttl="3s", path="gone")
    take(cluster.active(), "long", cluster.token, 3000, path="gone")
    await_left(cluster, lambda count: count < 6000, "gone")  # expiry has begun
    answers = []

    def revoke(node):
        for _ in range(10000):
            answer = node.call("PUT", "/v1/sys/leases/revoke-prefix/gone", {"sync": True})
            answers.append(answer.status)
            if answer.status != 202:
                return

    threads = [threading.Thread(target=revoke, args=(node,)) for node in cluster.nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert answers.count(204) == 3 and answers.count(202) == len(answers) - 3, answers[-9:]
    assert not burns(cluster.active(), "long.5", "gone")
    await_none(cluster, "gone")
    await_swept(cluster, 1)
    assert is_good(cluster.active(), kept[0])
    assert cluster.nodes[0].call("DELETE", "/v1/sys/mounts/gone").status == 204
    assert cluster.nodes[1].call("PUT", "/v1/sys/leases/revoke", {"lease_id": kept[0]}).status == 204


def fill(node):
    """Write values until the state is full. A change of the leader may refuse some."""
    deadline = time.monotonic() + PATIENCE_S
    for n in range(10000):
        answer = node.call("PUT", f"/v1/kv/full/{n}", {"pad": "x" * 290000})
        if answer.status == 507:
            return
        assert answer.status in (204, 503) and time.monotonic() < deadline, answer.body


def test_in_a_full_state_leases_still_end():
    """By id, prefix, force, token and mount, through a standby; audit devices come and go."""
    with SampleCluster(config={"state_bytes_max": 1 << 20}, program=PROGRAM) as cluster:
        for path in ("lamp", "gone"):
            mount(cluster, path)
        cluster.await_feature_level()
        node = cluster.standbys()[0]
        holder = cluster.limited(LAMPS)
        held = take(node, "held", holder, 40)
        one, two, three = (take(node, name, cluster.token)[0] for name in ("one", "two", "three"))
        take(node, "many", cluster.token, 501)
        take(node, "brief", cluster.token, 20, ttl="10s")
        take(node, "x", cluster.token, 40, path="gone")
        assert node.call("PUT", "/v1/sys/quotas/lease-count/q", {"path": "lamp", "max_leases": 9000}).status == 204
        device = {"type": "file", "options": {"file_path": "discard"}}
        assert node.call("PUT", "/v1/sys/audit/first", device).status == 204
        fill(node)

        def done(method, path, body=None, status=204):
            answer = node.call(method, f"/v1/{path}", body)
            assert answer.status == status, (path, answer.status, answer.body)
            fill(node)  # what has ended may have left room
            assert node.call("POST", "/v1/lamp/take/more", {}).status == 507
            return answer

        renewed = done("PUT", "sys/leases/renew", {"lease_id": one, "increment": 600}, 200)
        assert renewed.json["lease_duration"] >= 590
        done("PUT", "sys/audit/second", device)
        done("DELETE", "sys/audit/first")
        done("PUT", "sys/leases/revoke", {"lease_id": one})
        done("PUT", f"sys/leases/revoke-prefix/{two.rpartition('/')[0]}")
        done("PUT", "sys/leases/revoke-force/lamp/take/three")
        assert not any(is_good(node, lease) for lease in (one, two, three))
        assert is_good(node, held[0]) and burns(node, "held.39")
        done("POST", "auth/token/revoke", {"token": holder})
        assert not is_good(node, held[0]) and not burns(node, "held.39")
        done("DELETE", "sys/mounts/gone")
        await_none(cluster, "gone")
        await_swept(cluster, 501)  # the brief ones have ended too
        assert burns(node, "many.500")
        answer = node.call("PUT", "/v1/sys/leases/revoke-prefix/lamp/take")
        assert answer.status == 202 and b"More than 500 leases" in answer.body
        await_none(cluster)
        assert not burns(node, "many.500")
        assert node.call("DELETE", "/v1/sys/audit/second").status == 204
        assert node.call("DELETE", "/v1/sys/quotas/lease-count/q").status == 204
        cluster.await_equal_roots()
