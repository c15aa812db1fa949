"""The cubbyhole: a private tree for each service token."""

import pytest

NO_ERRORS = {"errors": []}


def errors(answer):
    return " ".join(answer.json["errors"])


def make_token(cluster, **body):
    answer = cluster.nodes[0].call("POST", "/v1/auth/token/create", {"policies": ["root"], **body})
    assert answer.status == 200, answer.body
    return answer.json["auth"]["client_token"]


def test_an_object_is_written_read_listed_and_deleted(cluster):
    first, second, third = cluster.nodes
    assert first.call("PUT", "/v1/cubbyhole/a/b", {"x": "1"}).status == 204
    assert second.call("POST", "/v1/cubbyhole/a", {"y": "2"}).status == 204
    for node in cluster.nodes:
        answer = node.call("GET", "/v1/cubbyhole/a/b")
        assert answer.status == 200 and answer.data == {"x": "1"}
        assert (answer.json["lease_id"], answer.json["lease_duration"]) == ("", 0)
        assert answer.json["renewable"] is False
        assert node.call("LIST", "/v1/cubbyhole").data == {"keys": ["a", "a/"]}
        assert node.call("LIST", "/v1/cubbyhole/").data == {"keys": ["a", "a/"]}
        assert node.call("GET", "/v1/cubbyhole/a?list=true").data == {"keys": ["b"]}
        assert node.call("GET", "/v1/cubbyhole/none").json == NO_ERRORS
        assert node.call("LIST", "/v1/cubbyhole/a/b").json == NO_ERRORS
    assert third.call("PUT", "/v1/cubbyhole/a/b", {"z": 3}).status == 204
    assert first.call("GET", "/v1/cubbyhole/a/b").data == {"z": 3}
    for path in ("a/b", "a", "none"):
        assert third.call("DELETE", f"/v1/cubbyhole/{path}").status == 204
    assert first.call("LIST", "/v1/cubbyhole").json == NO_ERRORS


def test_any_json_is_kept_with_every_digit(cluster):
    text = b'{"big":9007199254740993,"f":1.10,"o":{"l":[1,null,true]},"s":"\\u0000"}'
    assert cluster.nodes[0].call("PUT", "/v1/cubbyhole/types", text).status == 204
    assert b'"data":' + text in cluster.nodes[1].call("GET", "/v1/cubbyhole/types").body


@pytest.mark.parametrize(
    "method, path, body, status, text",
    [
        ("PUT", "x", {}, 400, "missing data fields"),
        ("PUT", "x", "", 400, "missing data fields"),
        ("PUT", "x", "[1]", 400, "object"),
        ("PUT", "x/", {"a": 1}, 400, "ending in '/'"),
        ("PUT", "", {"a": 1}, 400, "ending in '/'"),
        ("PUT", "../secret", {"a": 1}, 400, ""),
        ("PUT", "%00", {"a": 1}, 400, ""),
        ("PUT", "large", {"x": "y" * (1 << 20)}, 413, ""),
        ("GET", "", None, 405, "unsupported operation"),
        ("DELETE", "", None, 405, "unsupported operation"),
    ],
)
def test_bad_requests_are_refused_with_a_reason(cluster, method, path, body, status, text):
    for node in cluster.nodes:
        answer = node.call(method, f"/v1/cubbyhole/{path}", body)
        assert answer.status == status, answer.body
        assert text in errors(answer)
        assert node.call("GET", "/v1/cubbyhole/x").status == 404


def test_nobody_else_sees_it(cluster):
    first, second, third = cluster.nodes
    child = make_token(cluster)
    sibling = make_token(cluster)
    assert first.call("PUT", "/v1/cubbyhole/mine", {"of": "root"}).status == 204
    assert second.call("PUT", "/v1/cubbyhole/mine", {"of": "child"}, token=child).status == 204
    for node in cluster.nodes:
        assert node.call("GET", "/v1/cubbyhole/mine").data == {"of": "root"}
        assert node.call("GET", "/v1/cubbyhole/mine", token=child).data == {"of": "child"}
        assert node.call("GET", "/v1/cubbyhole/mine", token=sibling).json == NO_ERRORS
        assert node.call("LIST", "/v1/cubbyhole", token=sibling).json == NO_ERRORS
    assert third.call("DELETE", "/v1/cubbyhole/mine", token=sibling).status == 204
    assert third.call("GET", "/v1/cubbyhole/mine", token=child).data == {"of": "child"}
    first.call("DELETE", "/v1/cubbyhole/mine")


def test_it_ends_with_its_token(cluster):
    first, second, third = cluster.nodes
    token = make_token(cluster)
    assert first.call("PUT", "/v1/cubbyhole/short", {"x": 1}, token=token).status == 204
    assert second.call("POST", "/v1/auth/token/revoke", {"token": token}).status == 204
    for node in cluster.nodes:
        assert node.call("GET", "/v1/cubbyhole/short", token=token).status == 403


def test_a_batch_token_has_none(cluster):
    parent = make_token(cluster)
    answer = cluster.nodes[0].call(
        "POST", "/v1/auth/token/create", {"type": "batch", "policies": ["default"], "ttl": "1h"},
        token=parent,
    )
    assert answer.status == 200, answer.body
    batch = answer.json["auth"]["client_token"]
    for node in cluster.nodes:
        for method in ("GET", "PUT", "LIST", "DELETE"):
            answer = node.call(method, "/v1/cubbyhole/x", {"a": 1}, token=batch)
            assert answer.status == 400, (method, answer.body)
            assert "only supported by" in errors(answer)


def test_the_default_policy_gives_one_to_every_token(cluster):
    token = make_token(cluster, policies=["default"])
    for node in cluster.nodes:
        assert node.call("PUT", "/v1/cubbyhole/own/x", {"of": node.name}, token=token).status == 204
        assert node.call("GET", "/v1/cubbyhole/own/x", token=token).data == {"of": node.name}
        assert node.call("LIST", "/v1/cubbyhole/own", token=token).data == {"keys": ["x"]}
        assert node.call("DELETE", "/v1/cubbyhole/own/x", token=token).status == 204


def test_create_and_update_are_told_apart(cluster):
    rule = 'path "cubbyhole/*" { capabilities = ["create"] }'
    token = cluster.limited(rule)
    first, second, third = cluster.nodes
    assert first.call("PUT", "/v1/cubbyhole/x", {"a": 1}, token=token).status == 204
    assert second.call("PUT", "/v1/cubbyhole/x", {"a": 2}, token=token).status == 403
    assert third.call("PUT", "/v1/cubbyhole/y", {"a": 1}, token=token).status == 204


@pytest.mark.parametrize("token", ["", "hvs.wrong", "powerless"])
def test_without_a_good_token_nothing_is_answered(cluster, token):
    if token == "powerless":
        token = cluster.limited('path "kv/elsewhere" { capabilities = ["read"] }')
    for node in cluster.nodes:
        for method in ("GET", "PUT", "LIST", "DELETE"):
            assert node.call(method, "/v1/cubbyhole/x", {"a": 1}, token=token).status == 403
