"""Two clusters whose states part: the secondary fetches the difference alone."""

import base64
import json

import pytest

from activation import (
    DR, await_mode, become_primary, call, enable, make_token, operation_token, status,
)
from cluster import Recoverable
from test_dr_activation import Single
from test_dr_pair import await_equal, await_state, follow, promote, seen
from test_reload import await_log

SECRETS = 2000
CHANGED = 20


def facts(cluster):
    """The status of the node that follows."""
    return max((seen(n) for n in cluster.nodes), key=lambda s: s.get("difference_syncs", 0))


def put_many(cluster, names, value):
    """Several keys in one request: one secret with a value of its own each."""
    for i, name in enumerate(names):
        call(cluster.nodes[i % 3], "PUT", f"/v1/kv/{name}", {"x": value + name}, status=204)


def stop(cluster):
    for node in cluster.nodes:
        node.kill()


def start(cluster):
    for node in cluster.nodes:
        node.start()


@pytest.fixture(scope="module")
def pair():
    with Recoverable() as primary, Recoverable() as secondary:
        become_primary(primary)
        put_many(primary, [f"many/{i:05}" for i in range(SECRETS)], "first" * 40)
        follow(primary, secondary)
        await_equal(primary, secondary)
        yield primary, secondary


def overrun(primary):
    """More writes than the WAL in memory holds, to one key."""
    for i in range(72):
        call(primary.nodes[i % 3], "PUT", "/v1/kv/large", {"x": f"{i:07}" * 140000}, status=204)
    call(primary.nodes[0], "PUT", "/v1/kv/large", {"x": "small"}, status=204)


def test_a_secondary_that_fell_behind_fetches_few_bytes(pair):
    primary, secondary = pair
    stop(secondary)
    overrun(primary)
    put_many(primary, [f"many/{i * 97:05}" for i in range(CHANGED)], "second")
    call(primary.nodes[0], "DELETE", "/v1/kv/many/00005", status=204)
    start(secondary)
    secondary.await_until(lambda: facts(secondary).get("difference_syncs", 0) > 0)
    call(primary.nodes[0], "PUT", "/v1/kv/after", {"x": "1"}, status=204)
    await_equal(primary, secondary)
    told = facts(secondary)
    assert told["difference_keys"] < 20 * CHANGED
    assert 0 < told["difference_bytes"] < 500 * SECRETS * 0.3, told


def test_a_restore_of_an_older_state_is_followed(pair):
    primary, secondary = pair
    saved = primary.nodes[0].call("GET", "/v1/sys/storage/raft/snapshot")
    assert saved.status == 200
    before = facts(secondary)["difference_syncs"]
    put_many(primary, [f"later/{i}" for i in range(10)], "gone")
    await_equal(primary, secondary)
    restored = primary.nodes[0].call("POST", "/v1/sys/storage/raft/snapshot", saved.body)
    assert restored.status in (200, 204), restored.body
    primary.await_up()
    secondary.await_until(lambda: facts(secondary).get("difference_syncs", 0) > before)
    await_equal(primary, secondary)
    assert primary.nodes[0].call("GET", "/v1/kv/later/3").status == 404


def checked(cluster):
    told = call(cluster.nodes[-1], "POST", "/v1/sys/replication/merkle-check").data
    assert told["node"] == cluster.active().name
    return told["merkle_corruption_report"]


def test_a_standby_has_the_active_node_run_a_drill(pair):
    primary, secondary = pair
    body = {"dr_operation_token": operation_token(secondary.nodes, primary.recovery_keys)}
    for node in secondary.nodes:
        told = call(node, "POST", f"{DR}/secondary/drill", body, "").data
        assert told["passed"] and told["keys"] == told["keys_total"] > SECRETS, told


def root_of(report):
    return base64.b64decode(report["corrupted_tree_map"]["1"]["root_hash"]).hex()


def test_hashes_are_checked_and_built_anew(pair):
    primary, secondary = pair
    report = checked(primary)
    assert report["corrupted_root"] is False
    trees = report["corrupted_tree_map"]
    assert trees["1"]["tree_type"] == "replicated" and trees["2"]["tree_type"] == "local"
    assert trees["1"]["corrupted_index_tuples_map"] is None
    primary.await_until(  # the root of the status is the last computed one
        lambda: root_of(checked(primary)) == status(primary.active())["merkle_root"])
    told = call(primary.nodes[0], "POST", "/v1/sys/replication/reindex", {"diff": True}).json
    words = f"tree of {primary.active().name} were computed anew"
    assert any(words in warning for warning in told["warnings"])
    assert int(status(primary.active())["last_reindex_epoch"]) > 0
    assert "nothing" in call(primary.nodes[0], "POST", "/v1/sys/replication/recover").json["warnings"][0]
    body = {"file": "dr-lost-1"}
    assert primary.nodes[0].call("POST", f"{DR}/lost-writes", body).status == 404
    for path in ("recover", "reindex", "merkle-check", "lost-writes"):  # a root token is no DR token
        assert primary.nodes[0].call("POST", f"{DR}/secondary/{path}", {"file": "dr-lost-1"}).status == 400
    node = secondary.nodes[2]
    for path in ("recover", "reindex", "merkle-check"):
        assert node.call("POST", f"{DR}/secondary/{path}", {}, token="").status == 400
        assert node.call("POST", f"/v1/sys/replication/{path}").status == 400
    body = {"dr_operation_token": operation_token(secondary.nodes, primary.recovery_keys)}
    report = call(node, "POST", f"{DR}/secondary/merkle-check", body, "").data
    assert report["merkle_corruption_report"]["corrupted_tree_map"]["1"]["root_hash"]
    call(node, "POST", f"{DR}/secondary/reindex", body, "")
    before = facts(secondary)["difference_syncs"]
    call(node, "POST", f"{DR}/secondary/recover", body, "")
    secondary.await_until(lambda: facts(secondary).get("difference_syncs", 0) > before)
    await_equal(primary, secondary)
    call(secondary.nodes[0], "POST", f"{DR}/secondary/operation-token/delete", body, "", status=204)


def flip_behind(process, mark):
    """Flip a bit of what follows the mark, wherever it is in the memory of a process."""
    flipped = 0
    with open(f"/proc/{process.pid}/maps") as maps:
        ranges = [line.split()[0] for line in maps if " rw-p " in line]
    with open(f"/proc/{process.pid}/mem", "r+b", buffering=0) as memory:
        for low, high in ((int(n, 16) for n in part.split("-")) for part in ranges):
            try:
                memory.seek(low)
                content = memory.read(high - low)
            except OSError:
                continue  # reserved, and not there
            at = content.find(mark)
            while at >= 0:
                place = at + len(mark) + 24  # within the encrypted value
                if place < len(content):
                    memory.seek(low + place)
                    memory.write(bytes([content[place] ^ 1]))
                    flipped += 1
                at = content.find(mark, at + 1)
    return flipped


def is_known(told):
    """A checkpoint may find damage faster than the check, and its repair begins with new facts."""
    return told.get("corrupted_merkle_tree") or told.get("repaired_differences", 0) > 0


def test_a_flipped_bit_is_named_and_repaired(pair):
    primary, secondary = pair
    mark = "flipped-0123456789abcdef-0123456789abcdef"
    call(primary.nodes[0], "PUT", f"/v1/kv/{mark}", {"x": "y" * 100}, status=204)
    await_equal(primary, secondary)
    body = {"dr_operation_token": operation_token(secondary.nodes, primary.recovery_keys)}
    node = next(n for n in secondary.nodes if seen(n).get("connection_state") == "ready")

    def pages():
        told = call(node, "POST", f"{DR}/secondary/merkle-check", body, "").data
        return told["merkle_corruption_report"]["corrupted_tree_map"]["1"]["corrupted_index_tuples_map"]

    assert pages() is None  # now every hash is stored
    assert flip_behind(node.process, mark[20:].encode()) > 0
    assert pages()
    secondary.await_until(lambda: is_known(seen(node)))
    call(node, "POST", f"{DR}/secondary/reindex", body, "")
    stop(primary)  # the next stream compares the roots soon
    start(primary)
    primary.await_up()
    secondary.await_until(lambda: seen(node).get("repaired_differences", 0) > 0)
    assert mark in node.log_text()
    await_equal(primary, secondary)
    assert pages() is None
    call(node, "POST", f"{DR}/secondary/operation-token/delete", body, "", status=204)


def test_a_failback_names_and_keeps_what_was_lost(pair):
    primary, secondary = pair
    stop(secondary)
    lost = [f"lost/{i}" for i in range(5)]
    put_many(primary, lost, "never shipped")
    stop(primary)
    start(secondary)
    secondary.await_until(lambda: all(seen(n).get("mode") == "secondary" for n in secondary.nodes))
    secondary.await_until(lambda: all(n.health() == 472 for n in secondary.nodes))
    token = operation_token(secondary.nodes, primary.recovery_keys)
    promote(secondary.nodes[0], token, force=True)
    await_mode(secondary, "primary")
    secondary.token = primary.token
    secondary.await_up()
    put_many(secondary, ["new/1", "many/00001"], "third")
    start(primary)
    primary.await_until(lambda: all(seen(n).get("state") == "idle" for n in primary.nodes))
    call(primary.nodes[0], "POST", f"{DR}/primary/demote")
    await_mode(primary, "secondary")
    token = operation_token(primary.nodes, primary.recovery_keys)
    body = {"dr_operation_token": token, "token": make_token(secondary, "a"),
            "ca_file": str(secondary.dir / "tls" / "tls-ca.pem")}
    call(primary.nodes[0], "POST", f"{DR}/secondary/update-primary", body, "")
    await_state(primary, "stream-wals")
    await_equal(secondary, primary)
    primary.await_until(lambda: facts(primary)["difference_syncs"] > 0)  # counted after the swap
    told = facts(primary)
    assert told["lost_writes"] >= len(lost), json.dumps(told)
    kept = [f for n in primary.nodes for f in n.dir.rglob(told["lost_writes_file"])]
    assert len(kept) == 1
    assert kept[0].stat().st_mode & 0o777 == 0o600
    content = kept[0].read_bytes()
    assert b"never shipped" not in content and b"lost/" not in content
    body = {"dr_operation_token": token, "file": told["lost_writes_file"]}
    read = call(primary.nodes[0], "POST", f"{DR}/secondary/lost-writes", body, "").data
    assert not read["more"] and len(read["writes"]) == told["lost_writes"]
    values = b"".join(base64.b64decode(w["value"]) for w in read["writes"])
    assert values.count(b"never shipped") == len(lost)
    assert any(base64.b64decode(w["key"]).endswith(b"lost/3") for w in read["writes"])
    body["file"] = "../" + body["file"]
    assert primary.nodes[0].call("POST", f"{DR}/secondary/lost-writes", body, token="").status == 404
    for name in lost:
        assert secondary.nodes[0].call("GET", f"/v1/kv/{name}").status == 404
    promote(primary.nodes[0], token, force=True)
    await_mode(primary, "primary")
    primary.await_up()
    body = {"file": told["lost_writes_file"]}
    again = call(primary.active(), "POST", f"{DR}/lost-writes", body).data
    assert again["writes"] == read["writes"]


def test_a_first_sync_of_damaged_content_is_not_swapped_in():
    mark = "damaged-0123456789abcdef-0123456789abcdef"
    with Single() as primary, Single() as secondary:
        node = primary.nodes[0]
        become_primary(primary)
        call(node, "PUT", f"/v1/kv/{mark}", {"x": "y" * 100}, status=204)
        assert not checked(primary)["corrupted_root"]  # now every hash is stored
        assert flip_behind(node.process, mark[20:].encode()) > 0
        secondary.await_feature_level()
        told = enable(secondary.nodes[0], make_token(primary, "b"), primary)
        assert told.status == 200, told.body
        await_log(secondary.nodes[0], "leads to another root than the primary's", count=2)
        assert seen(secondary.nodes[0])["state"] == "merkle-sync"
        call(node, "POST", "/v1/sys/replication/reindex", {})
        await_state(secondary, "stream-wals")
        await_equal(primary, secondary)
