"""The role of a cluster in disaster recovery: what changes it, and what each role serves."""

import base64
import re

import pytest

from cluster import Recoverable
from commands import Cli

DR = "/v1/sys/replication/dr"
ATTEMPT = f"{DR}/secondary/generate-operation-token/attempt"
UPDATE = f"{DR}/secondary/generate-operation-token/update"
DISABLED = {"errors": ["path disabled in replication DR secondary mode"]}


def status(node):
    answer = node.call("GET", f"{DR}/status", token="")
    assert answer.status == 200
    return answer.data


def call(node, method, path, body=None, token=None, status=200):
    answer = node.call(method, path, body, token=token)
    assert answer.status == status, (method, path, answer.status, answer.body)
    return answer


def decode(encoded, otp):
    mixed = base64.b64decode(encoded + "=" * (-len(encoded) % 4))
    return bytes(a ^ b for a, b in zip(mixed, otp.encode(), strict=True)).decode()


def operation_token(nodes, keys):
    """A DR operation token, by shares that are given to one node after the other."""
    attempt = call(nodes[0], "POST", ATTEMPT, {}, "").json
    assert attempt["started"] and attempt["progress"] == 0
    for i, key in enumerate(keys[: attempt["required"]]):
        body = {"key": key, "nonce": attempt["nonce"]}
        last = call(nodes[i % len(nodes)], "POST", UPDATE, body, "").json
    assert last["complete"] and last["encoded_root_token"] == ""
    return decode(last["encoded_token"], attempt["otp"])


def await_mode(cluster, mode):
    cluster.await_until(lambda: all(status(n)["mode"] == mode for n in cluster.nodes))


@pytest.fixture
def pair_half():
    with Recoverable() as made:
        made.await_feature_level()
        yield made


def test_a_new_cluster_has_its_feature_level_when_a_request_needs_it():
    for _ in range(2):
        cluster = Recoverable()
        try:
            cluster.start()
            cluster.await_formed()
            made = cluster.nodes[0].call("PUT", "/v1/sys/init", cluster.init_body)
            cluster.token = made.json["root_token"]
            answer = cluster.nodes[1].call("POST", f"{DR}/primary/enable", {})  # not a moment later
            assert answer.status == 200, answer.body
            cluster.await_up()
        finally:
            cluster.__exit__(None, None, None)


def test_a_cluster_begins_disabled(pair_half):
    for node in pair_half.nodes:
        assert status(node) == {"mode": "disabled"}
        both = call(node, "GET", "/v1/sys/replication/status", token="").data
        assert both == {"mode": "disabled", "dr": {"mode": "disabled"},
                        "performance": {"mode": "disabled"}}
        health = call(node, "GET", "/v1/sys/health?standbyok=true&perfstandbyok=true", token="")
        assert health.json["replication_dr_mode"] == "disabled"


def test_a_primary_can_be_demoted_and_promoted_again(pair_half):
    c, node = pair_half, pair_half.nodes[1]
    call(node, "PUT", "/v1/kv/a", {"x": "1"}, status=204)
    enabled = call(node, "POST", f"{DR}/primary/enable", {"primary_cluster_addr": "a:1"}).json
    assert enabled["data"] is None and "enabled as a primary" in enabled["warnings"][0]
    await_mode(c, "primary")
    first = status(node)
    assert first["state"] == "running" and first["epoch"] == 1
    assert first["primary_cluster_addr"] == "https://a:1" and first["last_dr_wal"] == first["version"]
    twice = call(node, "POST", f"{DR}/primary/enable", {}, status=400).json["errors"][0]
    assert "is a DR primary already" in twice
    call(node, "PUT", "/v1/kv/a", {"x": "2"}, status=204)

    assert "demoted" in call(node, "POST", f"{DR}/primary/demote").json["warnings"][0]
    await_mode(c, "secondary")
    for each in c.nodes:
        now = status(each)
        assert now["state"] == "idle" and now["cluster_id"] == first["cluster_id"]
        assert each.health() == 472
        assert each.call("GET", "/v1/sys/health?drsecondarycode=299").status == 299
        for method, path in (
            ("GET", "/v1/kv/a"),
            ("PUT", "/v1/kv/a"),
            ("GET", "/v1/auth/token/lookup-self"),
            ("GET", "/v1/sys/mounts"),
            ("PUT", "/v1/sys/step-down"),
            ("GET", "/v1/acl/policies"),
        ):
            answer = each.call(method, path, {"x": "3"} if method == "PUT" else None)
            assert answer.status == 400, (path, answer.status)
            assert b"path disabled in replication DR secondary mode" in answer.body
        assert call(each, "GET", "/v1/sys/seal-status", token="").json["sealed"] is False
        assert call(each, "GET", "/v1/sys/leader", token="")
        assert call(each, "GET", "/v1/sys/init", token="").json["initialized"]

    promote = f"{DR}/secondary/promote"
    for bad in ({}, {"dr_operation_token": ""}, {"dr_operation_token": c.token}):
        call(node, "POST", promote, bad, status=400)
    token = operation_token(c.nodes, c.recovery_keys)
    for wrong in (token[:-1], token + "x", "hvs." + "0" * 24):
        call(node, "POST", promote, {"dr_operation_token": wrong}, "", status=400)
    assert node.call("GET", "/v1/sys/mounts", token=token).json == DISABLED

    done = call(node, "POST", promote, {"dr_operation_token": token}, "").json
    assert done["complete"] and done["data"]["complete"] and done["required"] == 1
    await_mode(c, "primary")
    last = status(node)
    assert last["epoch"] == 2 and last["cluster_id"] == first["cluster_id"]
    c.await_up()
    assert call(node, "GET", "/v1/kv/a").data["x"] == "2"
    call(node, "PUT", "/v1/kv/a", {"x": "4"}, status=204)
    assert node.call("GET", "/v1/sys/mounts", token=token).status == 403


def test_the_document_marks_what_a_secondary_serves(pair_half):
    c, node = pair_half, pair_half.active()
    document = call(node, "GET", "/v1/sys/internal/specs/openapi").json
    text = call(node, "GET", "/v1/sys/health?help=1").json["help"]
    assert "A DR secondary serves this too." in text
    text = call(node, "GET", "/v1/sys/storage/raft/autopilot/state?help=1").json["help"]
    assert "A DR secondary serves this to a DR operation token." in text
    assert "A DR secondary" not in call(node, "GET", "/v1/sys/mounts?help=1").json["help"]
    call(node, "POST", f"{DR}/primary/enable", {})
    await_mode(c, "primary")
    call(node, "POST", f"{DR}/primary/demote")
    await_mode(c, "secondary")
    served = 0
    for path, item in document["paths"].items():
        if "get" not in item:
            continue
        told = node.call("GET", "/v1" + re.sub(r"\{[^}]*\}", "sample", path), token="")
        marked = item["get"].get("x-holdfast-dr-secondary", False)
        refused = told.status == 400 and told.json == DISABLED
        # for a DR operation token alone: without one, the text of the other paths
        assert refused != marked or item["get"].get("x-holdfast-dr-token"), (path, told.body)
        served += marked
    assert served > 10


def test_a_secondary_ends_by_either_authority(pair_half):
    c, node = pair_half, pair_half.nodes[0]
    disable = f"{DR}/secondary/disable"
    for authority in ("body", "header"):
        call(node, "POST", f"{DR}/primary/enable", {})
        await_mode(c, "primary")
        call(node, "POST", f"{DR}/primary/demote")
        await_mode(c, "secondary")
        call(node, "POST", disable, {}, "", status=400)
        call(node, "POST", disable, {"dr_operation_token": "hvs.wrong"}, "", status=400)
        if authority == "body":
            token = operation_token(c.nodes, c.recovery_keys)
            said = Cli(c, c.dir)("operator", "dr", "disable", env={"HOLDFAST_DR_TOKEN": token}).stdout
            assert "follows no primary" in said
        else:
            call(node, "POST", disable)
        await_mode(c, "disabled")
        c.await_up()
        call(node, "PUT", "/v1/kv/b", {"x": authority}, status=204)


def test_a_deleted_operation_token_authorises_nothing(pair_half):
    c, node = pair_half, pair_half.nodes[2]
    call(node, "POST", f"{DR}/primary/enable", {})
    await_mode(c, "primary")
    call(node, "GET", ATTEMPT, token="", status=400)  # no secondary
    call(node, "POST", f"{DR}/primary/demote")
    await_mode(c, "secondary")
    token = operation_token(c.nodes, c.recovery_keys)
    delete = f"{DR}/secondary/operation-token/delete"
    call(node, "POST", delete, {"dr_operation_token": token}, "", status=204)
    call(node, "POST", delete, {"dr_operation_token": token}, "", status=400)
    call(node, "POST", f"{DR}/secondary/promote", {"dr_operation_token": token}, "", status=400)


def test_the_attempt_survives_the_active_node_and_its_pad_is_shown_once(pair_half):
    c = pair_half
    node = c.nodes[0]
    call(node, "POST", f"{DR}/primary/enable", {})
    await_mode(c, "primary")
    call(node, "POST", f"{DR}/primary/demote")
    await_mode(c, "secondary")
    call(node, "POST", ATTEMPT, {"otp": "short"}, "", status=400)
    begun = call(node, "POST", ATTEMPT, {}, "").json
    assert begun["otp"] and begun["otp_length"] == len(begun["otp"]) == 28
    call(node, "POST", ATTEMPT, {}, "", status=400)
    seen = call(c.nodes[1], "GET", ATTEMPT, token="").json
    assert seen["otp"] == "" and seen["nonce"] == begun["nonce"]
    call(node, "POST", UPDATE, {"key": c.recovery_keys[0], "nonce": "no"}, "", status=400)
    call(node, "POST", UPDATE, {"key": c.recovery_keys[0], "nonce": begun["nonce"]}, "")
    again = {"key": c.recovery_keys[0], "nonce": begun["nonce"]}
    call(node, "POST", UPDATE, again, "", status=400)
    leads = [n for n in c.nodes if call(n, "GET", "/v1/sys/leader", token="").json["is_self"]]
    leads[0].kill()
    live = next(n for n in c.nodes if n.alive)
    c.await_until(lambda: live.call("GET", ATTEMPT, token="").status == 200)
    assert call(live, "GET", ATTEMPT, token="").json["progress"] == 1
    for key in c.recovery_keys[1:2]:
        last = call(live, "POST", UPDATE, {"key": key, "nonce": begun["nonce"]}, "").json
    assert last["complete"]
    assert decode(last["encoded_token"], begun["otp"]).startswith("hvs.")
    call(live, "DELETE", ATTEMPT, token="", status=204)


def test_a_primary_ends_and_client_tokens_count_for_nothing_on_paths_of_a_secondary(pair_half):
    c, node = pair_half, pair_half.nodes[0]
    call(node, "POST", f"{DR}/primary/disable", status=400)
    call(node, "POST", f"{DR}/primary/enable", {})
    await_mode(c, "primary")
    for path in ("license/status", "operation-token/delete", "promote", "update-primary"):
        told = node.call("POST", f"{DR}/secondary/{path}", {})
        assert told.status == (200 if path == "license/status" else 400), told.body
        assert node.call("POST", f"{DR}/secondary/{path}", {}, token="").status in (400, 403)
    cli = Cli(c, c.dir)
    assert "no secondary of this id" in cli("operator", "dr", "revoke-secondary", "nobody", code=2).stderr
    assert "is no DR primary any more" in cli("operator", "dr", "disable").stdout
    await_mode(c, "disabled")
    call(node, "POST", f"{DR}/primary/enable", {})
    await_mode(c, "primary")
    call(node, "POST", f"{DR}/primary/disable")
    await_mode(c, "disabled")
    assert "no part in disaster recovery" in cli("operator", "dr", "disable", code=2).stderr
    call(node, "PUT", "/v1/kv/after", {"x": "1"}, status=204)
