"""Error conditions that the interface documents, as tables, unless another test has them."""

import time
import uuid

import pytest

from cluster import Cluster

NO_ERRORS = {"errors": []}
CREATE = "auth/token/create"


def ask(node, row, token=None, **more):
    """One row: "METHOD path", a body, headers."""
    line, body, headers = (*row, None, None)[:3]
    method, path = line.split(" ", 1)
    return node.call(method, f"/v1/{path}", body, token, headers, **more)


def refused(answer, status, text=""):
    assert answer.status == status, answer.body
    said = " ".join(answer.json["errors"])
    assert text in said and (status == 404 or said), answer.body


def made(cluster, body, token=None):
    answer = cluster.nodes[0].call("POST", f"/v1/{CREATE}", body, token)
    assert answer.status == 200, answer.body
    return answer.json["auth"]


@pytest.fixture(scope="module")
def world(cluster):
    """Things to be wrong about."""
    node = cluster.nodes[0]
    for row in (("PUT kv/file", {"a": 1}), ("PUT cubbyhole/file", {"a": 1}),
                ("POST sys/mounts/one", {"type": "kv", "options": {"version": "1"}}),
                ("POST sys/mounts/two", {"type": "kv", "options": {"version": "2"}}),
                ("POST auth/token/roles/bound", {"allowed_policies": "a", "disallowed_policies": "b",
                                                 "token_type": "service"}),
                ("POST auth/token/roles/batch", {"token_type": "batch", "orphan": True,
                                                 "renewable": False})):
        assert ask(node, row).status == 204
    return cluster


REQUESTS = [
    # headers
    (("GET kv/file", None, {"X-Secrets-Namespace": "none/"}), 404, ""),
    (("GET kv/file", None, {"X-Vault-Namespace": "none"}), 404, ""),
    (("GET kv/file", None, {"X-Secrets-Wrap-TTL": "-5s"}), 400, ""),
    (("GET kv/file", None, {"X-Vault-Wrap-TTL": "-1"}), 400, ""),
    # fields
    ((f"POST {CREATE}", {"num_uses": "many"}), 400, "Field validation failed"),
    ((f"POST {CREATE}", {"ttl": -5}), 400, "ttl"),
    ((f"POST {CREATE}", {"ttl": "-5s"}), 400, "ttl"),
    ((f"POST {CREATE}", {"ttl": {"a": 1}}), 400, "Field validation failed"),
    ((f"POST {CREATE}", {"meta": "x"}), 400, "Field validation failed"),
    ((f"POST {CREATE}", {"policies": {"a": 1}}), 400, "Field validation failed"),
    ((f"POST {CREATE}", {"renewable": "perhaps"}), 400, "Field validation failed"),
    (("POST sys/mounts/three", {"type": ["kv"]}), 400, "Field validation failed"),
    # bodies
    ((f"POST {CREATE}", "[]"), 400, "object"),
    ((f"POST {CREATE}", '"text"'), 400, "object"),
    ((f"POST {CREATE}", "7"), 400, "object"),
    ((f"POST {CREATE}", "{} {}"), 400, ""),
    ((f"POST {CREATE}", '{"ttl":'), 400, ""),
    # paths
    ("GET auth/token/roles/-x", 404, "unsupported path"),
    ("GET auth/token/roles/x.", 404, "unsupported path"),
    (("POST auth/token/roles/a%20b", {}), 404, "unsupported path"),
    ("GET sys/none", 404, "unsupported path"),
    (("POST auth/token/none", {}), 404, "unsupported path"),
    ("GET none/x", 404, 'no handler for route "none/x". route entry not found.'),
    ("GET auth/none/x", 404, "no handler for route"),
    (("POST sys/policies/acl/", {"policy": ""}), 400, "cannot write to a path ending in '/'"),
    ("GET kv/a/../b", 400, ""),
    ("GET kv/a%2f..%2fb", 400, ""),
    ("GET kv/a%1fb", 400, ""),
    # methods
    ("DELETE sys/mounts", 405, "unsupported operation"),
    (("POST sys/mounts", {"type": "kv"}), 405, "unsupported operation"),
    (("POST sys/leader", {}), 405, "unsupported operation"),
    (("POST sys/health", {}), 405, "unsupported operation"),
    ("DELETE sys/seal", 405, "unsupported operation"),
    ("GET sys/seal", 405, "unsupported operation"),
    ("LIST sys/step-down", 405, "unsupported operation"),
    ("GET sys/rotate", 405, "unsupported operation"),
    ("GET auth/token/create", 405, "unsupported operation"),
    ("GET auth/token/revoke-self", 405, "unsupported operation"),
    ("DELETE auth/token/roles", 405, "unsupported operation"),
    ("LIST sys/policies/acl/x/y/", 405, "unsupported operation"),
    ("GET sys/wrapping/wrap", 405, "unsupported operation"),
]
NOT_THERE = [
    ("GET kv/none", 404), ("LIST kv/none", 404), ("LIST kv/file", 404),
    ("GET cubbyhole/none", 404), ("LIST cubbyhole/none", 404), ("LIST cubbyhole/file", 404),
    ("GET sys/policies/acl/none", 404), ("GET sys/policy/none", 404),
    ("GET auth/token/roles/none", 404), ("GET sys/remount/status/none", 404),
    ("GET two/data/none", 404), ("GET two/metadata/none", 404), ("LIST two/metadata", 404),
]
SYSTEM = [
    ("GET sys/mounts/none", 400, "No secret engine mount at none/"),
    ("GET sys/mounts/none/tune", 400, "No secret engine mount at none/"),
    (("POST sys/mounts/none/tune", {"description": "x"}), 400, "No secret engine mount at none/"),
    ("GET sys/auth/none", 400, "No auth engine mount at none/"),
    ("GET sys/auth/none/tune", 400, "No auth engine mount at none/"),
    (("POST sys/auth/none/tune", {"description": "x"}), 400, "No auth engine mount at none/"),
    (("POST sys/mounts/two/tune", {"options": {"version": "1"}}), 400, "version"),
    (("POST sys/remount", {"from": "one", "to": "two"}), 400, "already in use at two/"),
    (("POST sys/remount", {"from": "auth/token", "to": "auth/other"}), 400, ""),
    (("PUT sys/policy/wrong", {"rules": "path {"}), 400, ""),
    (("PUT sys/policy/root", {"rules": 'path "x" {}'}), 400, "cannot update"),
    (("PUT sys/init", {}), 400, "already initialized"),
    (("PUT sys/unseal", {"reset": True}), 400, ""),
    (("PUT sys/unseal", {"key": ""}), 400, ""),
    (("POST sys/storage/raft/remove-peer", {}), 400, "server_id"),
    (("POST sys/storage/raft/readmit", {"server_id": "none"}), 400, "no node of this name"),
]
WRAPPING = [
    (("POST sys/wrapping/wrap", {"a": 1}), 400, "endpoint requires response wrapping to be used"),
    *[
        ((f"POST sys/wrapping/{verb}", {"token": token}), 400, text)
        for verb in ("unwrap", "rewrap", "lookup")
        for token, text in (("hvs.none", "wrapping token is not valid or does not exist"),
                            ("x" * 5000, "wrapping token is not valid or does not exist"))
    ],
    ("GET sys/wrapping/lookup?token=hvs.none", 400, "wrapping token is not valid"),
]
TOKENS = [
    ((f"POST {CREATE}", {"type": "batch", "policies": "a", "num_uses": 2}), 400, "batch"),
    ((f"POST {CREATE}", {"type": "batch", "policies": "a", "explicit_max_ttl": "1h"}), 400, "batch"),
    ((f"POST {CREATE}", {"id": "with space"}), 400, "id"),
    ((f"POST {CREATE}", {"id": "a.b"}), 400, "id"),
    ((f"POST {CREATE}/bound", {"policies": "b"}), 400, ""),
    ((f"POST {CREATE}/bound", {"policies": "c"}), 400, ""),
    (("POST auth/token/roles/wrong", {"token_type": "other"}), 400, "token_type"),
    (("POST auth/token/roles/wrong", {"token_num_uses": -1}), 400, "token_num_uses"),
    (("POST auth/token/roles/wrong", {"token_period": -1}), 400, "token_period"),
    (("POST auth/token/roles/wrong", {"token_type": "batch", "token_period": 5}), 400, "batch"),
    (("POST auth/token/roles/batch", {"token_num_uses": 5}), 400, "batch"),
    (("POST auth/token/roles/wrong", {"path_suffix": "a/b"}), 400, "path_suffix"),
    (("POST auth/token/roles/wrong", {"path_suffix": "x" * 201}), 400, "path_suffix"),
    (("POST auth/token/renew", {"token": "hvs.none", "increment": "soon"}), 400, "increment"),
    (("POST auth/token/renew", {"token": "hvs.none"}), 400, "token not found"),
    (("POST auth/token/lookup", {"token": "hvs.none"}), 403, "bad token"),
]
KEY_VALUE = [
    (("POST two/config", {"max_versions": -1}), 400, "max_versions"),
    (("POST two/config", {"max_versions": "x"}), 400, "max_versions"),
    (("POST two/config", {"cas_required": "x"}), 400, "cas_required"),
    (("POST two/config", {"delete_version_after": "soon"}), 400, "delete_version_after"),
    (("POST two/metadata/x", {"max_versions": -1}), 400, "max_versions"),
    (("POST two/metadata/x", {"delete_version_after": "soon"}), 400, "delete_version_after"),
    (("PATCH two/metadata/none", {"max_versions": 1},
      {"Content-Type": "application/merge-patch+json"}), 404, ""),
    (("PATCH two/metadata/none", {"max_versions": 1}), 400, ""),
    (("PATCH two/metadata/none", {"max_versions": 1}, {"Content-Type": "text/plain"}), 415, ""),
    (("PATCH two/data/none", {"data": {}}, {"Content-Type": "text/plain"}), 415, ""),
    (("POST two/undelete/none", {}), 400, ""),
]


@pytest.mark.parametrize(
    "row, status, text", REQUESTS + SYSTEM + WRAPPING + TOKENS + KEY_VALUE)
def test_it_is_refused_with_a_reason_by_every_node(world, row, status, text):
    row = (row,) if isinstance(row, str) else row
    for node in world.nodes:
        answer = ask(node, row)
        refused(answer, status, text)
        assert answer.headers["Content-Type"] == "application/json"
        if status == 405:
            assert answer.headers["Allow"]


@pytest.mark.parametrize("row, status", NOT_THERE)
def test_what_is_not_there_has_no_errors(world, row, status):
    for node in world.nodes:
        answer = ask(node, (row,))
        assert (answer.status, answer.json) == (status, NO_ERRORS)


OPEN = ("sys/init", "sys/seal-status", "sys/leader", "sys/health", "sys/internal/ui/mounts",
        "sys/internal/specs/openapi", "sys/replication/status", "sys/replication/dr/status",
        "sys/replication/performance/status")
CLOSED = ("sys/mounts", "sys/auth", "sys/key-status", "sys/metrics", "sys/ha-status", "kv/file",
          "cubbyhole/file", "sys/internal/ui/resultant-acl", "sys/storage/raft/configuration",
          "sys/storage/raft/snapshot", "kv/file?help=1", "sys?help=1", "none/x", "none/x?help=1",
          "auth/token/lookup-self", "two/data/none", "two/config", "sys/policies/acl/default")


def test_what_is_open_and_what_is_not(world):
    weak = world.limited('path "nothing" { capabilities = ["read"] }')
    for node in world.nodes:
        for path in OPEN:
            assert ask(node, (f"GET {path}",), token="").status in (200, 473)
        for path in CLOSED:
            refused(ask(node, (f"GET {path}",), token=""), 403)
            refused(ask(node, (f"GET {path}",), token="hvs.none"), 403, "permission denied")
            if not path.startswith("sys?help"):
                refused(ask(node, (f"GET {path}",), token=weak), 403, "permission denied")


def test_what_is_open_says_without_a_token_that_the_method_is_another(world):
    for node in world.nodes:
        for path in ("sys/init", "sys/seal-status", "sys/leader", "sys/health", "sys/unseal"):
            answer = ask(node, (f"DELETE {path}",), token="")
            refused(answer, 405, "unsupported operation")
            assert "DELETE" not in answer.headers["Allow"]


def test_of_two_tokens_the_header_of_its_own_wins(world):
    good, bad = f"Bearer {world.token}", "Bearer hvs.none"
    for node in world.nodes:
        assert ask(node, ("GET kv/file", None, {"Authorization": bad})).status == 200
        refused(ask(node, ("GET kv/file", None, {"Authorization": good}), token="hvs.none"), 403)


def test_a_form_is_a_body_unless_it_looks_like_json(world):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for number, node in enumerate(world.nodes):
        path = f"kv/form/{number}"
        assert ask(node, (f"PUT {path}", "a=1&b=x+y%21", form)).status == 204
        assert ask(node, (f"GET {path}",)).data == {"a": "1", "b": "x y!"}
        assert ask(node, (f"PUT {path}", '{"a": 2}', form)).status == 204
        assert ask(node, (f"GET {path}",)).data == {"a": 2}
        refused(ask(node, (f"PUT {path}", "[1]", form)), 400, "object")
        assert ask(node, (f"GET {path}",)).data == {"a": 2}


def test_what_is_not_known_is_a_warning_where_there_is_a_body(world):
    for node in world.nodes:
        answer = ask(node, ("POST sys/policies/acl/known", {"policy": "#", "x": 1}))
        assert (answer.status, answer.body) == (204, b"")
        answer = ask(node, (f"POST {CREATE}", {"ttl": "1m", "unknown": 1, "policies": "default"}))
        assert answer.status == 200
        assert any("unknown" in warning for warning in answer.json["warnings"])


def test_a_name_in_the_path_beats_the_one_in_the_body(world):
    for node in world.nodes:
        body = {"name": "other", "policy": 'path "x" {}'}
        assert ask(node, ("POST sys/policies/acl/path-name", body)).status == 204
        assert ask(node, ("GET sys/policies/acl/path-name",)).data["name"] == "path-name"
        assert ask(node, ("GET sys/policies/acl/other",)).status == 404


def test_a_token_that_wraps_nothing_unwraps_nothing(world):
    other = made(world, {"policies": ["default"]})["client_token"]
    for node in world.nodes:
        for verb in ("unwrap", "rewrap", "lookup"):
            row = (f"POST sys/wrapping/{verb}", {"token": other})
            refused(ask(node, row), 400, "wrapping token is not valid or does not exist")
            if verb == "lookup":  # the one that needs no other token
                refused(ask(node, row, token=""), 400, "wrapping token is not valid or does not exist")
                refused(ask(node, (f"POST sys/wrapping/{verb}", {}), token=""), 400, "token")
            else:
                for stranger in ("", world.limited('path "nothing" { capabilities = ["read"] }')):
                    refused(ask(node, row, token=stranger), 403, "permission denied")
    assert ask(world.nodes[0], ("GET auth/token/lookup-self",), token=other).status == 200


def wrapped(node, ttl):
    answer = ask(node, ("GET kv/file", None, {"X-Secrets-Wrap-TTL": ttl}))
    assert answer.status == 200, answer.body
    return answer.json["wrap_info"]["token"]


def test_a_wrapping_token_that_was_used_or_has_ended_is_not_valid(world):
    for node in world.nodes:
        used, short = wrapped(node, "5m"), wrapped(node, "1s")
        assert ask(node, ("POST sys/wrapping/unwrap", {"token": used})).status == 200
        for token in (used, short):
            for verb in ("unwrap", "rewrap", "lookup"):
                row, deadline = (f"POST sys/wrapping/{verb}", {"token": token}), time.monotonic() + 120
                answer = ask(node, row) if token == used else None
                while answer is None or answer.status == 200:  # only looking, until it has ended
                    assert time.monotonic() < deadline
                    answer = ask(node, ("POST sys/wrapping/lookup", {"token": token}), token="")
                refused(ask(node, row), 400, "wrapping token is not valid")


def test_wrapping_is_for_as_long_as_the_policy_says(world):
    weak = world.limited('path "kv/file" { capabilities = ["read"]\n'
                         ' min_wrapping_ttl = "1m"\n max_wrapping_ttl = "1h" }')
    for node in world.nodes:
        for ttl, status in ((None, 403), ("59s", 403), ("3601", 403), ("1m", 200), ("1h", 200)):
            headers = {"X-Secrets-Wrap-TTL": ttl} if ttl else {}
            answer = ask(node, ("GET kv/file", None, headers), token=weak)
            assert answer.status == status, (ttl, answer.body)


PARAMETERS = """
path "kv/denied-all" { capabilities = ["create", "update"]
  denied_parameters = { "*" = [] } }
path "kv/denied-one" { capabilities = ["create", "update"]
  denied_parameters = { "a" = [], "b" = ["1", "x*"] } }
path "kv/allowed" { capabilities = ["create", "update"]
  allowed_parameters = { "a" = [], "b" = ["1", "*y"] } }
path "kv/allowed-any" { capabilities = ["create", "update"]
  allowed_parameters = { "*" = [], "b" = ["1"] } }
path "kv/required" { capabilities = ["create", "update"]
  required_parameters = ["a", "b"] }
"""
JUDGED = [
    ("denied-all", {"a": 1}, 403), ("denied-all", {}, 400),  # allowed, and then there is nothing
    ("denied-one", {"a": 1}, 403), ("denied-one", {"A": 1}, 403), ("denied-one", {"b": "1"}, 403),
    ("denied-one", {"b": "xyz"}, 403), ("denied-one", {"b": "2", "c": 1}, 204),
    ("allowed", {"a": "any"}, 204), ("allowed", {"b": "1"}, 204), ("allowed", {"b": "xy"}, 204),
    ("allowed", {"b": "2"}, 403), ("allowed", {"a": 1, "c": 1}, 403),
    ("allowed-any", {"c": 1}, 204), ("allowed-any", {"b": "1"}, 204),
    ("allowed-any", {"b": "2"}, 403),
    ("required", {"a": 1}, 403), ("required", {"A": 1, "b": 1, "c": 1}, 204), ("required", {}, 403),
]


def test_parameters_are_judged_by_their_rules(world):
    weak = world.limited(PARAMETERS)
    for node in world.nodes:
        for path, body, status in JUDGED:
            answer = ask(node, (f"PUT kv/{path}", body), token=weak)
            assert answer.status == status, (path, body, answer.body)


# What a token may give to its children; without sudo on the path.
PLAIN = 'path "auth/token/*" { capabilities = ["create", "update"] }'
BEYOND = [
    ({"policies": ["root"]}, 400, "root"),
    ({"policies": ["default"]}, 400, "default"),
    ({"policies": ["more"]}, 400, "more"),
    ({"no_parent": True}, 400, "sudo"),
    ({"id": "mine"}, 400, "sudo"),
    ({"period": "1h"}, 400, "sudo"),
]


def test_a_token_gives_no_more_than_it_has(world):
    weak = world.limited(PLAIN)
    for node in world.nodes:
        assert ask(node, (f"POST {CREATE}", {"ttl": "1m"}), token=weak).status == 200
        for body, status, text in BEYOND:
            answer = ask(node, (f"POST {CREATE}", body), token=weak)
            assert answer.status in (status, 403), (body, answer.body)
            refused(answer, answer.status)
        answer = ask(node, ("POST auth/token/revoke-orphan", {"token": weak}), token=weak)
        assert answer.status in (400, 403), answer.body
        assert ask(node, ("LIST auth/token/accessors",), token=weak).status == 403


def test_batch_and_counted_tokens_have_no_children(world):
    may = 'path "auth/token/*" { capabilities = ["create", "update", "sudo"] }'
    assert ask(world.nodes[0], ("PUT sys/policies/acl/full", {"policy": may})).status == 204
    batch = made(world, {"type": "batch", "policies": ["full"], "ttl": "1h"})["client_token"]
    for node in world.nodes:
        counted = made(world, {"policies": ["full"], "num_uses": 5})["client_token"]
        for token in (batch, counted):
            refused(ask(node, (f"POST {CREATE}", {"policies": ["full"]}), token=token), 400)
        for verb, body in (("renew-self", {}), ("renew", {"token": batch})):
            by = batch if verb == "renew-self" else None
            refused(ask(node, (f"POST auth/token/{verb}", body), token=by), 400)
        refused(ask(node, ("POST auth/token/revoke", {"token": batch})), 400)


def test_a_token_that_ends_makes_none_that_does_not(world):
    short = made(world, {"policies": ["root"], "ttl": "1h"})["client_token"]
    for node in world.nodes:
        refused(ask(node, (f"POST {CREATE}", {"policies": ["root"]}), token=short), 400)
        answer = ask(node, (f"POST {CREATE}", {"policies": ["root"], "ttl": "30m"}), token=short)
        assert answer.status == 200, answer.body


def test_a_token_may_be_made_once(world):
    for number, node in enumerate(world.nodes):
        body = {"id": f"mine-{number}-{uuid.uuid4()}", "policies": ["default"], "ttl": "1h"}
        assert ask(node, (f"POST {CREATE}", body)).status == 200
        refused(ask(node, (f"POST {CREATE}", body)), 400)


def test_too_long_and_unknown_are_warnings(world):
    for node in world.nodes:
        answer = ask(node, (f"POST {CREATE}", {"policies": ["no-such-policy"], "ttl": "9000h"}))
        assert answer.status == 200
        assert answer.json["auth"]["lease_duration"] == 768 * 3600
        said = " ".join(answer.json["warnings"])
        assert "no-such-policy" in said and "ttl" in said.lower()


def test_a_static_seal_has_no_shares_to_give():
    cluster = Cluster(size=1)
    try:
        cluster.start()
        cluster.await_formed()
        node = cluster.nodes[0]
        body = {"secret_shares": 1, "secret_threshold": 1}
        refused(ask(node, ("PUT sys/init", body), token=""), 400, "secret_shares")
        for recovery in ({"recovery_shares": 3, "recovery_threshold": 4},
                         {"recovery_shares": 256, "recovery_threshold": 2},
                         {"recovery_shares": 3, "recovery_threshold": 1}):
            refused(ask(node, ("PUT sys/init", recovery), token=""), 400, "recovery")
        refused(ask(node, ("PUT sys/unseal", {"key": "00" * 33}), token=""), 400, "initialised")
        refused(ask(node, ("GET kv/x",)), 503)
        assert node.health() == 501
    finally:
        cluster.__exit__(None, None, None)


def test_a_share_for_a_node_that_is_open_changes_nothing(world):
    for node in world.nodes:
        answer = ask(node, ("PUT sys/unseal", {"key": "00" * 33}), token="")
        assert (answer.status, answer.json["sealed"], answer.json["progress"]) == (200, False, 0)
