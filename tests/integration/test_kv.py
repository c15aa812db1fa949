"""The requests of an application: write, read, list and delete through any node."""

import json
import uuid

import pytest


def test_a_write_through_any_node_is_read_through_every_node(cluster):
    for writer in cluster.nodes:
        path = f"/v1/kv/any/{writer.name}"
        value = str(uuid.uuid4())
        assert writer.call("PUT", path, {"value": value}).status == 204
        for reader in cluster.nodes:
            answer = reader.call("GET", path)
            assert answer.status == 200
            assert answer.data == {"value": value}


def test_the_envelope_has_every_key(cluster):
    node = cluster.nodes[0]
    node.call("PUT", "/v1/kv/envelope", {"a": 1})
    answer = node.call("GET", "/v1/kv/envelope")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json
    uuid.UUID(body.pop("request_id"))
    body.pop("mount_type", None)
    assert body == {
        "lease_id": "",
        "renewable": False,
        "lease_duration": 2764800,
        "data": {"a": 1},
        "wrap_info": None,
        "warnings": None,
        "auth": None,
    }


def test_values_keep_their_types_and_their_digits(cluster):
    value = {
        "big": 2**63 + 1,
        "small": -(2**63),
        "fraction": 0.1,
        "text": "käse \u0000 \U0001f512",
        "list": [1, "two", None, True],
        "object": {"deep": {"er": 1}},
        "null": None,
    }
    node = cluster.nodes[1]
    text = json.dumps(value).replace(str(2**63 + 1), "9007199254740993")
    assert node.call("POST", "/v1/kv/types", text).status == 204
    value["big"] = 9007199254740993
    assert cluster.nodes[2].call("GET", "/v1/kv/types").data == value


def test_ttl_is_the_lease_hint(cluster):
    node = cluster.nodes[0]
    node.call("PUT", "/v1/kv/ttl", {"ttl": "1h30m"})
    assert node.call("GET", "/v1/kv/ttl").json["lease_duration"] == 5400
    node.call("PUT", "/v1/kv/ttl", {"lease": "30"})
    assert node.call("GET", "/v1/kv/ttl").json["lease_duration"] == 30
    node.call("PUT", "/v1/kv/ttl", {"ttl": "soon"})
    assert node.call("GET", "/v1/kv/ttl").json["lease_duration"] == 2764800


def test_listing_folds_folders(cluster):
    node = cluster.nodes[0]
    for path in ("list/a", "list/a/b", "list/c/d/e", "list/z"):
        assert node.call("PUT", f"/v1/kv/{path}", {"x": 1}).status == 204
    want = {"keys": ["a", "a/", "c/", "z"]}
    for reader in cluster.nodes:
        assert reader.call("LIST", "/v1/kv/list").data == want
        assert reader.call("GET", "/v1/kv/list?list=true").data == want
        assert reader.call("LIST", "/v1/kv/list/").data == want
    assert node.call("LIST", "/v1/kv/list/c").data == {"keys": ["d/"]}


@pytest.mark.parametrize("method, path", [("GET", "/v1/kv/none"), ("LIST", "/v1/kv/none")])
def test_what_is_not_there_is_404_with_no_errors(cluster, method, path):
    for node in cluster.nodes:
        answer = node.call(method, path)
        assert answer.status == 404
        assert answer.json == {"errors": []}


def test_deleting_is_idempotent_and_visible_everywhere(cluster):
    first, second, third = cluster.nodes
    first.call("PUT", "/v1/kv/gone", {"x": 1})
    assert second.call("DELETE", "/v1/kv/gone").status == 204
    assert third.call("GET", "/v1/kv/gone").status == 404
    assert second.call("DELETE", "/v1/kv/gone").status == 204


@pytest.mark.parametrize(
    "method, path, body, status, text",
    [
        ("PUT", "/v1/kv/bad", "", 400, "missing data fields"),
        ("PUT", "/v1/kv/bad", "{}", 400, "missing data fields"),
        ("PUT", "/v1/kv/bad", "[1]", 400, ""),
        ("PUT", "/v1/kv/bad", '{"a":', 400, ""),
        ("PUT", "/v1/kv/bad", b'{"a":"\xff"}', 400, ""),
        ("PUT", "/v1/kv/bad", "[" * 100000, 400, ""),
        ("PUT", "/v1/kv/bad/", '{"a":1}', 400, "cannot write to a path ending in '/'"),
        ("PUT", "/v1/kv/../sys/x", '{"a":1}', 400, ""),
        ("GET", "/v1/kv/%00", None, 400, ""),
        ("GET", "/v1/none/such", None, 404, "no handler for route"),
        ("GET", "/elsewhere", None, 404, ""),
        ("PATCH", "/v1/kv/bad", '{"a":1}', 405, ""),
        ("BREW", "/v1/kv/bad", None, 0, ""),
    ],
)
def test_bad_requests_are_refused_with_a_reason(cluster, method, path, body, status, text):
    for node in cluster.nodes:
        answer = node.call(method, path, body)
        assert answer.status == status if status else answer.status in (400, 405)
        assert isinstance(answer.json["errors"], list)
        assert text in " ".join(answer.json["errors"])


def test_a_value_above_one_mebibyte_is_413(cluster):
    for node in cluster.nodes:
        answer = node.call("PUT", "/v1/kv/large", {"x": "y" * (1 << 20)})
        assert answer.status == 413
        assert answer.json["errors"]
    fits = {"x": "y" * ((1 << 20) - 100)}
    assert cluster.nodes[1].call("PUT", "/v1/kv/large", fits).status == 204
    assert cluster.nodes[2].call("GET", "/v1/kv/large").data == fits


@pytest.mark.parametrize("token", ["", "hvs.wrong", "x" * 5000])
def test_without_a_good_token_nothing_is_answered(cluster, token):
    for node in cluster.nodes:
        for method in ("GET", "PUT", "LIST", "DELETE"):
            answer = node.call(method, "/v1/kv/any/node1", '{"a":1}', token=token)
            assert answer.status in (400, 403), answer.body
            assert "value" not in answer.body.decode()
    assert cluster.nodes[0].call("GET", "/v1/kv/any/node1").status == 200


def test_every_spelling_of_the_token_header_works(cluster):
    node = cluster.nodes[0]
    for header, value in (
        ("X-Secrets-Token", cluster.token),
        ("X-Vault-Token", cluster.token),
        ("Authorization", f"Bearer {cluster.token}"),
    ):
        answer = node.call(
            "GET", "/v1/auth/token/lookup-self", token="", headers={header: value}
        )
        assert answer.status == 200, header
        assert answer.data["policies"] == ["root"]
