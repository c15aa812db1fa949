"""Wrapping tokens in the form of a JSON Web Token, on real nodes."""

import base64
import json
import threading
import time

import pytest

from cluster import Cluster

WRAP = "/v1/sys/wrapping/"
NOT_VALID = "wrapping token is not valid or does not exist"


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        made.await_feature_level()
        assert made.active().call("PUT", "/v1/kv/secret", {"n": 7}).status == 204
        yield made


def wrap(node, ttl="60s", prefix="X-Vault", path="kv/secret", method="GET", body=None):
    headers = {f"{prefix}-Wrap-TTL": ttl, f"{prefix}-Wrap-Format": "jwt"}
    answer = node.call(method, f"/v1/{path}", body, headers=headers)
    assert answer.status == 200, answer.body
    assert answer.json["data"] is None and answer.json["auth"] is None
    return answer.json["wrap_info"]


def part_of(token, at):
    part = token.split(".")[at]
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def use(node, verb, token):
    who = {"token": ""} if verb == "lookup" else {}
    return node.call("POST", WRAP + verb, {"token": token}, **who)


def refused(answer):
    assert (answer.status, answer.json["errors"]) == (400, [NOT_VALID])


def at_once(calls):
    """Make all calls at the same time; returns their results in order."""
    results, start = [None] * len(calls), threading.Barrier(len(calls))

    def run(i):
        start.wait()
        results[i] = calls[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_the_first_makers_share_one_key():
    with Cluster() as fresh:
        fresh.await_feature_level()
        assert fresh.active().call("PUT", "/v1/kv/secret", {"n": 7}).status == 204
        tokens = at_once([lambda n=node: wrap(n)["token"] for node in fresh.nodes * 4])
        for i, token in enumerate(tokens):
            opened = use(fresh.nodes[i % 3], "unwrap", token)
            assert opened.status == 200 and opened.data == {"n": 7}


@pytest.mark.parametrize("prefix", ["X-Vault", "X-Secrets"])
def test_a_jwt_says_where_and_how_long_it_is_good(cluster, prefix):
    for node in cluster.nodes:
        info = wrap(node, prefix=prefix)
        assert json.loads(part_of(info["token"], 0)) == {"alg": "ES512", "typ": "JWT"}
        claims = json.loads(part_of(info["token"], 1))
        assert set(claims) == {"accessor", "addr", "exp", "iat", "jti", "nbf", "type"}
        assert len(part_of(info["token"], 2)) == 132
        leader = node.call("GET", "/v1/sys/leader", token="").json["leader_address"]
        assert claims["addr"] == leader and leader.startswith("https://")
        assert claims["exp"] - claims["iat"] == 60 and claims["nbf"] == claims["iat"] - 5
        assert abs(claims["iat"] - time.time()) < 120
        assert claims["type"] == "wrapping" and claims["jti"].startswith("hvs.")
        assert claims["accessor"] == "" and info["accessor"]
        assert (info["ttl"], info["creation_path"]) == (60, "kv/secret")
        refused(use(node, "unwrap", claims["jti"][:-1] + "?"))
        assert use(node, "unwrap", claims["jti"]).status == 200
        refused(use(node, "unwrap", info["token"]))


def test_a_jwt_is_looked_up_rewrapped_and_unwrapped_once(cluster):
    one, other = cluster.standbys()
    for node in cluster.nodes:
        token = wrap(node)["token"]
        looked = use(other, "lookup", token).data
        assert (looked["creation_ttl"], looked["creation_path"]) == (60, "kv/secret")
        query = other.call("GET", f"{WRAP}lookup?token={token}", token="")
        assert query.status == 200 and query.data == looked
        again = use(one, "rewrap", token).json["wrap_info"]["token"]
        assert again.count(".") == 2
        refused(use(other, "unwrap", token))
        by_header = [lambda n=n: n.call("POST", WRAP + "unwrap", token=again) for n in cluster.nodes * 2]
        results = at_once(by_header)
        assert sorted(r.status for r in results) == [200] + [400] * 5
        (good,) = [r for r in results if r.status == 200]
        assert good.data == {"n": 7}


def test_a_login_is_wrapped_as_a_jwt(cluster):
    info = wrap(cluster.nodes[0], path="auth/token/create", method="POST", body={"ttl": "5m"})
    assert json.loads(part_of(info["token"], 1))["accessor"] == info["wrapped_accessor"]
    opened = cluster.nodes[1].call("POST", WRAP + "unwrap", token=info["token"])
    assert opened.json["auth"]["accessor"] == info["wrapped_accessor"]


def test_a_jwt_is_no_token_for_anything_else(cluster):
    token = wrap(cluster.nodes[0])["token"]
    for node in cluster.nodes:
        for path in ("kv/secret", "cubbyhole/response", "auth/token/lookup-self"):
            assert node.call("GET", f"/v1/{path}", token=token).status == 403
    assert use(cluster.nodes[0], "unwrap", token).status == 200


def encode(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def test_forged_jwts_are_refused(cluster):
    node = cluster.standbys()[0]
    token = wrap(node)["token"]
    header, claims, signature = token.split(".")
    said = json.loads(part_of(token, 1))
    longer = encode(json.dumps({**said, "exp": said["exp"] + 3600}).encode())
    none = encode(b'{"alg":"none","typ":"JWT"}')
    flipped = bytearray(part_of(token, 2))
    flipped[70] ^= 1
    zero = bytes(132)
    for forged in (
            f"{header}.{longer}.{signature}", f"{none}.{claims}.", f"{none}.{claims}.{signature}",
            f"{header}.{claims}.{encode(flipped)}", f"{header}.{claims}.{encode(zero)}",
            f"{header}.{claims}.", f"{header}.{claims}", f"{token}=", f"{token}.{signature}",
            token + "A", f"{header}.{claims}.{signature[:-4]}", "eyJ." + "a" * 5000 + ".b"):
        for verb in ("unwrap", "rewrap", "lookup"):
            for each in cluster.nodes:
                refused(use(each, verb, forged))
    assert use(node, "unwrap", token).status == 200


def test_an_expired_jwt_is_refused(cluster):
    node = cluster.standbys()[0]
    token = wrap(node, ttl="2s")["token"]
    deadline = time.monotonic() + 60
    while use(node, "lookup", token).status == 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for verb in ("unwrap", "rewrap", "lookup"):
        refused(use(node, verb, token))


def test_another_form_is_refused_and_the_form_alone_wraps_nothing(cluster):
    node = cluster.standbys()[0]
    bad = node.call("GET", "/v1/kv/secret", headers={"X-Vault-Wrap-TTL": "60", "X-Vault-Wrap-Format": "x"})
    assert bad.status == 400 and "X-Secrets-Wrap-Format" in bad.json["errors"][0]
    bare = node.call("GET", "/v1/kv/secret", headers={"X-Vault-Wrap-Format": "jwt"})
    assert bare.status == 200 and bare.data == {"n": 7} and bare.json["wrap_info"] is None


def test_a_jwt_outlives_its_leader_and_a_restart_and_is_never_logged():
    with Cluster() as made:
        made.await_feature_level()
        assert made.active().call("PUT", "/v1/kv/secret", {"n": 7}).status == 204
        first, second = (wrap(made.standbys()[0], ttl="30m")["token"] for _ in range(2))
        made.active().kill()
        survivor = made.active()
        assert use(survivor, "unwrap", first).data == {"n": 7}
        for node in made.nodes:
            node.kill()
        made.start()
        made.await_up()
        assert use(made.standbys()[0], "unwrap", second).data == {"n": 7}
        for node in made.nodes:
            log = node.log_text()
            assert not [token for token in (first, second) if token in log]
            assert json.loads(part_of(first, 1))["jti"] not in log
