"""Tokens of the registry on three nodes: bootstrap, use, expiry, end, restart and audit trail."""

import concurrent.futures
import json
import re
import time
import uuid

import pytest
from registry import RegistryCluster
from test_audit_trail import about, hash_of, trail

MANAGEMENT = "00000000-0000-0000-0000-000000000001"
ANONYMOUS = "00000000-0000-0000-0000-000000000002"
MISSING = "token does not exist: ACL not found"
REFUSED = r"Permission denied: ACL bootstrap no longer allowed \(reset index: (\d+)\)"


@pytest.fixture
def fresh():
    with RegistryCluster() as made:
        yield made


@pytest.fixture(scope="module")
def cluster():
    """With the secret of the bootstrap as `management`."""
    with RegistryCluster() as made:
        made.management = done(made.nodes[0], "PUT", "acl/bootstrap")["SecretID"]
        yield made


def ask(node, method, path, body=None, token=None):
    """Status, and the reply: parsed if it is JSON."""
    headers = {"X-Consul-Token": token} if token else {}
    reply = node.call(method, "/v1/" + path, body, "", headers)
    text = reply.body.decode()
    return reply.status, json.loads(text) if reply.status == 200 else text


def done(node, method, path, body=None, token=None):
    status, value = ask(node, method, path, body, token)
    assert status == 200, value
    return value


def await_reply(node, method, path, token, wanted):
    """Ask until the reply is this one."""
    deadline = time.monotonic() + 60
    while (found := ask(node, method, path, token=token)) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_of_two_bootstraps_at_once_one_wins(fresh):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        replies = list(pool.map(lambda node: ask(node, "PUT", "acl/bootstrap"), fresh.nodes))
    won = [value for status, value in replies if status == 200]
    lost = [text for status, text in replies if status == 403]
    assert len(won) == 1 and len(lost) == 2, replies
    index = {re.fullmatch(REFUSED, text)[1] for text in lost}
    assert index == {str(won[0]["CreateIndex"])}
    assert won[0]["ID"] == won[0]["SecretID"]
    for node in fresh.nodes:
        tokens = done(node, "GET", "acl/tokens", token=won[0]["SecretID"])
        assert [t["AccessorID"] for t in tokens] == sorted([ANONYMOUS, won[0]["AccessorID"]])


def test_a_reset_file_allows_another(fresh):
    first = done(fresh.nodes[0], "PUT", "acl/bootstrap")
    status, text = ask(fresh.nodes[1], "PUT", "acl/bootstrap")
    assert status == 403
    index = re.fullmatch(REFUSED, text)[1]
    file = fresh.active().data / "acl-bootstrap-reset"
    file.write_text(str(int(index) + 1))
    assert ask(fresh.nodes[2], "PUT", "acl/bootstrap") == (403, text)
    assert file.exists()
    file.write_text(index)
    secret = str(uuid.uuid4())
    second = done(fresh.standbys()[0], "PUT", "acl/bootstrap", {"BootstrapSecret": secret})
    assert second["SecretID"] == secret and not file.exists()
    assert int(re.fullmatch(REFUSED, ask(fresh.nodes[0], "PUT", "acl/bootstrap")[1])[1]) > int(
        index)
    for node in fresh.nodes:
        for token in (first, second):
            own = done(node, "GET", "acl/token/self", token=token["SecretID"])
            assert own["AccessorID"] == token["AccessorID"]


def test_the_configured_secret_makes_the_first_token():
    secret = str(uuid.uuid4())
    with RegistryCluster(config={"registry": {"initial_management": secret}}) as cluster:
        for node in cluster.nodes:
            deadline = time.monotonic() + 60
            while ask(node, "GET", "acl/token/self", token=secret)[0] != 200:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert re.fullmatch(REFUSED, ask(node, "PUT", "acl/bootstrap")[1])


def test_a_token_counts_on_every_node_at_once(cluster):
    management = cluster.management
    done(cluster.nodes[0], "PUT", "acl/policy", {"Name": "reader", "Rules": 'acl = "read"'},
         management)
    for i, node in enumerate(cluster.nodes):
        made = done(node, "PUT", "acl/token", {"Policies": [{"Name": "reader"}]}, management)
        path, secret = f"acl/token/{made['AccessorID']}", made["SecretID"]
        for other in cluster.nodes:
            found = done(other, "GET", path, token=secret)
            assert found["SecretID"] == "<hidden>"
            assert found["Policies"][0]["Name"] == "reader"
            assert found["ModifyIndex"] == made["ModifyIndex"]
            assert done(other, "GET", path, token=management)["SecretID"] == secret
            assert ask(other, "PUT", path, {}, secret)[0] == 403
        last = cluster.nodes[i - 1]
        assert done(last, "DELETE", path, token=management) is True
        for other in cluster.nodes:
            assert ask(other, "GET", "acl/tokens", token=secret) == (403, "ACL not found")
            assert ask(other, "GET", path, token=management) == (403, MISSING)
            assert ask(other, "DELETE", path, token=management) == (
                404, "Cannot find token to delete")


def test_one_of_two_tokens_with_the_same_ids_is_made(cluster):
    management = cluster.management
    for field in ("AccessorID", "SecretID"):
        body = {field: str(uuid.uuid4())}
        with concurrent.futures.ThreadPoolExecutor() as pool:
            replies = list(pool.map(
                lambda node: ask(node, "PUT", "acl/token", body, management), cluster.nodes))
        assert sorted(status for status, _ in replies) == [200, 500, 500], replies
        assert {text for status, text in replies if status == 500} == {
            f"Invalid Token: {field} is already in use"}


def test_the_anonymous_token_gets_a_policy(cluster):
    management = cluster.management
    for node in cluster.nodes:
        assert ask(node, "GET", "acl/policies")[0] == 403
    done(cluster.nodes[1], "PUT", "acl/policy", {"Name": "all", "Rules": 'acl = "read"'}, management)
    done(cluster.nodes[2], "PUT", f"acl/token/{ANONYMOUS}", {"Policies": [{"Name": "all"}]},
         management)
    for node in cluster.nodes:
        assert ask(node, "GET", "acl/policies")[0] == 200
        assert ask(node, "GET", "acl/policies", token="anonymous")[0] == 200
        assert ask(node, "PUT", "acl/token", {})[0] == 403
        assert ask(node, "DELETE", f"acl/token/{ANONYMOUS}", token=management)[0] == 500
    done(cluster.nodes[0], "DELETE", "acl/policy/" + next(
        p["ID"] for p in done(cluster.nodes[0], "GET", "acl/policies") if p["Name"] == "all"),
        token=management)
    for node in cluster.nodes:
        assert ask(node, "GET", "acl/policies")[0] == 403


def test_a_restart_keeps_tokens(cluster):
    made = done(cluster.nodes[0], "PUT", "acl/token", {
        "Description": "kept",
        "ServiceIdentities": [{"ServiceName": "web", "Datacenters": ["east"]}],
        "NodeIdentities": [{"NodeName": "n1", "Datacenter": "east"}],
        "ExpirationTTL": "24h",
    }, cluster.management)
    for node in cluster.nodes:
        node.end()
    for node in cluster.nodes:
        node.start()
    cluster.await_up()
    for node in cluster.nodes:
        path = f"acl/token/{made['AccessorID']}"
        await_reply(node, "GET", path, cluster.management, (200, made))
        assert re.fullmatch(REFUSED, ask(node, "PUT", "acl/bootstrap")[1])


def test_a_token_ends_at_its_time_on_every_node(cluster):
    """The shortest life is a minute."""
    management = cluster.management
    made = done(cluster.nodes[0], "PUT", "acl/token",
                {"ExpirationTTL": "1m", "Policies": [{"ID": MANAGEMENT}]}, management)
    path, secret = f"acl/token/{made['AccessorID']}", made["SecretID"]
    for node in cluster.nodes:
        assert ask(node, "GET", "acl/tokens", token=secret)[0] == 200
    began = time.monotonic()
    while ask(cluster.nodes[0], "GET", "acl/tokens", token=secret)[0] == 200:
        assert time.monotonic() < began + 120
        time.sleep(0.5)
    for node in cluster.nodes:
        assert ask(node, "GET", "acl/tokens", token=secret) == (403, "ACL not found")
        assert ask(node, "GET", path, token=management) == (403, MISSING)


def test_the_trail_hides_every_secret(fresh):
    node, other = fresh.nodes[:2]
    with trail(fresh) as path:
        secret, chosen = str(uuid.uuid4()), str(uuid.uuid4())
        made = done(node, "PUT", "acl/bootstrap", {"BootstrapSecret": secret})
        token = done(other, "PUT", "acl/token", {"SecretID": chosen}, secret)
        accessor = token["AccessorID"]
        assert ask(node, "GET", f"acl/token/{accessor}?token={secret}")[0] == 200
        assert ask(node, "PUT", f"acl/token/{accessor}?token={secret}", {"SecretID": chosen})[0] == 200
        wrong = {"SecretID": str(uuid.uuid4())}
        assert ask(node, "PUT", f"acl/token/{accessor}", wrong, secret)[0] == 500
        bearer = {"Authorization": f"Bearer {secret}"}
        assert node.call("GET", "/v1/acl/tokens", token="", headers=bearer).status == 200
        assert ask(other, "GET", "acl/token/self", token=chosen)[0] == 200
        drawn = done(node, "PUT", f"acl/token/{accessor}/clone", {}, secret)["SecretID"]
        text = path.read_text()
        for hidden in (secret, chosen, drawn, wrong["SecretID"]):
            assert hidden not in text

        asked, told = (record for _, record in about(path, "acl/bootstrap"))
        assert asked["request"]["data"] == {"BootstrapSecret": hash_of(node, secret)}
        assert told["response"]["data"]["SecretID"] == hash_of(node, secret)
        assert told["response"]["data"]["CreateIndex"] == made["CreateIndex"]
        asked, told = (record for _, record in about(path, "acl/token"))
        assert asked["request"]["client_token"] == hash_of(node, secret)
        assert asked["request"]["client_token_accessor"] == hash_of(node, made["AccessorID"])
        assert asked["request"]["data"] == {"SecretID": hash_of(node, chosen)}
        assert told["response"]["data"]["AccessorID"] == hash_of(node, accessor)
        read = about(path, f"acl/token/{accessor}")[0][1]["request"]
        assert read["data"] == {"token": hash_of(node, secret)}
        assert [kind for kind, _ in about(path, "acl/tokens")] == ["request", "response"]


def test_readers_wait_for_a_token_and_for_the_list(cluster):
    one, two, three = cluster.nodes
    made = done(one, "PUT", "acl/token", {}, cluster.management)
    path = f"acl/token/{made['AccessorID']}"
    index = made["ModifyIndex"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        wait = f"index={index}&wait=60s"
        of_token = pool.submit(ask, two, "GET", f"{path}?{wait}", None, cluster.management)
        of_list = pool.submit(ask, three, "GET", f"acl/tokens?{wait}", None, cluster.management)
        other = done(one, "PUT", "acl/token", {}, cluster.management)
        tokens = of_list.result(50)[1]
        assert other["AccessorID"] in [t["AccessorID"] for t in tokens]
        time.sleep(0.5)
        assert not of_token.done()  # another token was written
        changed = done(three, "PUT", path, {"Description": "changed"}, cluster.management)
        assert of_token.result(50) == (200, changed)
        ended = pool.submit(ask, two, "GET", f"{path}?index={changed['ModifyIndex']}&wait=60s", None,
                            cluster.management)
        time.sleep(0.2)
        done(one, "DELETE", path, token=cluster.management)
        assert ended.result(50) == (403, MISSING)
