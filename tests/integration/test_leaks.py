"""The search for leaked secrets, which ends every cluster of the tests, finds planted secrets."""

import base64

import pytest

import leaks
from cluster import Answer, Cluster

SECRET = "an-unmistakable-secret-0123456789"


def search(tmp_path, text, name="log"):
    secrets = leaks.Secrets()
    secrets.add("the secret", SECRET)
    folder = tmp_path / "node"
    folder.mkdir()
    (folder / name).write_bytes(text)
    return secrets.search([folder], tmp_path / "wanted")


@pytest.mark.parametrize("pad", range(3))
def test_a_secret_is_found_in_base64_wherever_it_begins(tmp_path, pad):
    text = base64.b64encode(b"x" * pad + SECRET.encode() + b"tail")
    assert search(tmp_path, text) == [f"the secret in {tmp_path}/node/log"]


@pytest.mark.parametrize("text", [SECRET, SECRET.encode().hex(), SECRET.encode().hex().upper()])
def test_a_secret_is_found_between_other_bytes(tmp_path, text):
    found = search(tmp_path, b"\0\xff" + text.encode() + b"\n\0")
    assert found == [f"the secret in {tmp_path}/node/log"]


def test_a_token_that_nobody_named_is_found(tmp_path):
    assert search(tmp_path, b"got hvs.0123456789abcdefABCDEFGH!") == [
        f"a token in {tmp_path}/node/log"]


def test_nothing_is_found_where_nothing_is(tmp_path):
    assert search(tmp_path, b"hvs. an-unmistakable-secret \n" * 100) == []


def test_what_was_given_to_a_node_is_not_its_leak(tmp_path):
    assert search(tmp_path, SECRET.encode(), "holdfast.json") == []


def test_calls_tell_which_tokens_keys_and_values_are_secret():
    secrets = leaks.Secrets()
    share = "00112233445566778899aabb"
    token = {"X-Vault-Token": "hvs.asking-0123456789"}
    made = b'{"auth": {"client_token": "hvs.client-0123456789"}}'
    secrets.note("/v1/auth/token/create", None, token, Answer(200, {}, made))
    secrets.note("/v1/kv/a", '{"p": "%s"}' % SECRET, {}, Answer(204, {}, b""))
    secrets.note("/v1/sys/init", "{}", {}, Answer(200, {}, b'{"keys": ["%s"]}' % share.encode()))
    secrets.note("/v1/kv/", None, {}, Answer(200, {}, b'{"data": {"keys": ["the-name-of-a-secret"]}}'))
    assert set(secrets.known) == {
        b"hvs.client-0123456789", b"hvs.asking-0123456789", SECRET.encode(), share.encode()}
    assert secrets.errors == []
    secrets.note("/v1/x", None, {}, Answer(400, {}, b"no good: " + SECRET.encode()))
    assert secrets.errors == ["a stored value in an error of /v1/x"]


def test_a_cluster_with_a_leak_does_not_end_well():
    with pytest.raises(AssertionError, match="a stored value in .*/node1/log"):
        with Cluster(size=1) as cluster:
            node = cluster.nodes[0]
            assert node.call("PUT", "/v1/kv/x", {"a": SECRET}).status == 204
            with open(node.log, "a") as log:
                log.write(SECRET)
