"""Ceremonies with key shares: a new root token, and new shares."""

import base64
import http.client
import threading
import time

import pytest

from cluster import Keyless, Recoverable, call_on
from test_shamir import ShamirCluster, refused, unseal

ATTEMPT = "/v1/sys/generate-root/attempt"
UPDATE = "/v1/sys/generate-root/update"
CEREMONIES = 'path "sys/generate-root/*" { capabilities = ["read", "update", "delete"] }'


def call(node, method, path, body=None, token="", status=200):
    answer = node.call(method, path, body, token=token)
    assert answer.status == status, (method, path, answer.status, answer.body)
    return answer.json if answer.body else None


def decode(encoded, otp):
    mixed = base64.b64decode(encoded + "=" * (-len(encoded) % 4))
    return bytes(a ^ b for a, b in zip(mixed, otp.encode(), strict=True)).decode()


def give(node, nonce, keys, path=UPDATE, token=""):
    """All of them; the last answer."""
    for key in keys:
        last = call(node, "PUT", path, {"key": key, "nonce": nonce}, token)
    return last


def generate(nodes, keys, token=""):
    """A root token, by shares that are given to one node after the other."""
    attempt = call(nodes[0], "PUT", ATTEMPT, {}, token)
    for i, key in enumerate(keys):
        body = {"key": key, "nonce": attempt["nonce"]}
        last = call(nodes[i % len(nodes)], "PUT", UPDATE, body, token)
    assert last["complete"] and last["progress"] == last["required"] == len(keys)
    return decode(last["encoded_token"], attempt["otp"])


@pytest.fixture(scope="module")
def shamir():
    with ShamirCluster() as c:
        c.open_all()
        yield c


@pytest.fixture
def fresh():
    with ShamirCluster() as c:
        c.open_all()
        yield c


@pytest.fixture
def idle(shamir):
    """Nothing is under way, in either slot."""
    for token in (shamir.token, ""):
        call(shamir.nodes[0], "DELETE", ATTEMPT, token=token, status=204)
    return shamir


def is_root(node, token):
    answer = node.call("GET", "/v1/auth/token/lookup-self", token=token)
    assert answer.status == 200, answer.body
    return answer.data["policies"] == ["root"] and answer.data["ttl"] == 0


def test_enough_shares_make_a_root_token(idle):
    node = idle.nodes[0]
    status = call(node, "GET", ATTEMPT)
    assert status == {"nonce": "", "started": False, "progress": 0, "required": 3,
                      "complete": False, "encoded_token": "", "encoded_root_token": "",
                      "pgp_fingerprint": "", "otp": "", "otp_length": 28}
    begun = call(node, "PUT", ATTEMPT, {})
    assert begun["started"] and len(begun["otp"]) == 28 and begun["progress"] == 0
    for i, key in enumerate(idle.keys[:2]):
        status = call(idle.nodes[i], "PUT", UPDATE, {"Key": key, "Nonce": begun["nonce"]})
        assert (status["progress"], status["complete"], status["otp"]) == (i + 1, False, "")
    for each in idle.nodes:
        status = call(each, "GET", ATTEMPT)
        assert (status["progress"], status["otp"], status["nonce"]) == (2, "", begun["nonce"])
    done = give(idle.nodes[2], begun["nonce"], idle.keys_base64[4:])
    assert done["complete"] and done["encoded_token"] == done["encoded_root_token"]
    token = decode(done["encoded_token"], begun["otp"])
    assert is_root(node, token)
    body = {"encoded_token": done["encoded_token"], "otp": begun["otp"]}
    assert call(node, "PUT", "/v1/sys/decode-token", body)["data"] == {"token": token}
    assert call(node, "GET", ATTEMPT)["started"] is False
    refused(node.call("PUT", UPDATE, {"key": idle.keys[0], "nonce": begun["nonce"]}, token=""),
            "no root generation")


def test_the_pad_may_be_ones_own(idle):
    otp = "0123456789abcdefghijABCDEFGH"
    begun = call(idle.nodes[1], "POST", ATTEMPT, {"otp": otp})
    assert begun["otp"] == ""
    done = give(idle.nodes[0], begun["nonce"], idle.keys[2:])
    assert is_root(idle.nodes[0], decode(done["encoded_token"], otp))


def test_what_is_wrong_is_refused_and_changes_nothing(idle):
    node = idle.nodes[0]
    refused(node.call("PUT", ATTEMPT, {"otp": "short"}, token=""), "wrong length")
    refused(node.call("PUT", ATTEMPT, {"pgp_key": "x"}, token=""), "pgp_key: the key is")
    refused(node.call("PUT", UPDATE, {"key": idle.keys[0], "nonce": "x"}, token=""), "no root")
    nonce = call(node, "PUT", ATTEMPT, {})["nonce"]
    refused(node.call("PUT", ATTEMPT, {}, token=""), "already in progress")
    give(node, nonce, idle.keys[:1])
    for body, word in (
        ({"key": idle.keys[1], "nonce": "x"}, "nonce"),
        ({"key": idle.keys[1]}, "nonce"),
        ({"key": idle.keys[0], "nonce": nonce}, "given before"),
        ({"key": idle.keys_base64[0], "nonce": nonce}, "given before"),
        ({"key": "", "nonce": nonce}, "'key'"),
        ({"key": "zz", "nonce": nonce}, "hex or base64"),
        ({"key": "00" * 32, "nonce": nonce}, "33 bytes"),
        ({"key": {"a": 1}, "nonce": nonce}, "key"),
    ):
        refused(node.call("PUT", UPDATE, body, token=""), word)
        assert call(node, "GET", ATTEMPT)["progress"] == 1
    refused(node.call("PUT", "/v1/sys/decode-token", {"encoded_token": "YQ", "otp": "bb"},
                      token=""), "otp")
    refused(node.call("PUT", "/v1/sys/decode-token", {"otp": "b"}, token=""), "encoded token")


def test_wrong_shares_have_to_be_given_anew(idle):
    node = idle.nodes[0]
    begun = call(node, "PUT", ATTEMPT, {})
    wrong = bytearray(bytes.fromhex(idle.keys[2]))
    wrong[0] ^= 1
    give(node, begun["nonce"], idle.keys[:2])
    body = {"key": wrong.hex(), "nonce": begun["nonce"]}
    refused(node.call("PUT", UPDATE, body, token=""), "given anew")
    status = call(node, "GET", ATTEMPT)
    assert (status["started"], status["progress"]) == (True, 0)
    done = give(node, begun["nonce"], idle.keys[:3])
    assert is_root(node, decode(done["encoded_token"], begun["otp"]))


def test_who_has_a_token_has_a_slot_of_his_own(idle):
    node, token = idle.nodes[0], idle.token
    mine = call(node, "PUT", ATTEMPT, {}, token)
    powerless = idle.limited('path "nothing" { capabilities = ["read"] }')
    for stranger in ("", "hvs.lost-lost-lost-lost-lost-los", powerless):
        status = call(node, "GET", ATTEMPT, token=stranger)
        assert (status["started"], status["nonce"]) == (False, "")
        call(node, "DELETE", ATTEMPT, token=stranger, status=204)
        body = {"key": idle.keys[0], "nonce": mine["nonce"]}
        refused(node.call("PUT", UPDATE, body, token=stranger), "no root generation")
    assert call(node, "GET", ATTEMPT, token=token)["nonce"] == mine["nonce"]
    theirs = call(node, "PUT", ATTEMPT, {})
    assert theirs["nonce"] != mine["nonce"]
    assert call(node, "GET", ATTEMPT)["nonce"] == theirs["nonce"]
    refused(node.call("PUT", ATTEMPT, {}, token=token), "already in progress")
    helper = idle.limited(CEREMONIES)
    give(node, mine["nonce"], idle.keys[:2], token=helper)
    assert give(node, theirs["nonce"], idle.keys[:1], token=token)["progress"] == 1
    done = give(node, mine["nonce"], idle.keys[2:3], token=helper)
    assert is_root(node, decode(done["encoded_token"], mine["otp"]))
    call(node, "DELETE", ATTEMPT, token=token, status=204)  # theirs, now that there is no other
    assert call(node, "GET", ATTEMPT)["started"] is False


def test_a_listener_may_want_a_token():
    config = {"listener": {"tcp": {"authenticated_ceremonies": True}}}
    with Recoverable(size=2, config=config) as cluster:
        powerless = cluster.limited('path "nothing" { capabilities = ["read"] }')
        for node in cluster.nodes:  # the standby says it to the active node
            for token in ("", powerless):
                for method, path in (("GET", ATTEMPT), ("PUT", ATTEMPT), ("PUT", UPDATE),
                                     ("DELETE", ATTEMPT)):
                    body = {} if method == "PUT" else None
                    refused(node.call(method, path, body, token=token), "denied", status=403)
            refused(node.call("PUT", "/v1/sys/unseal", {"reset": True}, token=""),
                    "authenticated_ceremonies", status=403)
        keys = cluster.recovery_keys[:2]
        assert is_root(cluster.nodes[0], generate(cluster.nodes, keys, cluster.token))


def test_too_many_calls_of_nobody_are_refused_but_not_those_with_a_token(fresh):
    node = fresh.active()
    codes, deadline = [], time.monotonic() + 300
    while 429 not in codes:  # one is forgiven each second
        assert time.monotonic() < deadline, len(codes)
        codes.append(node.call("DELETE", ATTEMPT, token="").status)
    assert len(codes) > 25 and set(codes) == {204, 429}
    # Another address still has its half: the operator who has lost the token.
    operator = http.client.HTTPSConnection("127.0.0.1", node.client_port, timeout=120,
                                           context=fresh.tls, source_address=("127.0.0.2", 0))
    begun = call_on(operator, "PUT", ATTEMPT, {}, "")
    assert begun.status == 200, begun.body
    for key in fresh.keys[:3]:
        body = {"key": key, "nonce": begun.json["nonce"]}
        done = call_on(operator, "PUT", UPDATE, body, "")
        assert done.status == 200, done.body
    assert is_root(node, decode(done.json["encoded_token"], begun.json["otp"]))
    operator.close()
    assert call(node, "GET", ATTEMPT)["started"] is False
    assert is_root(node, generate([node], fresh.keys[:3], fresh.token))


def from_elsewhere(node, method, path, body=None, token=None, address="127.0.0.2"):
    """A request from another address of this machine."""
    connection = http.client.HTTPSConnection("127.0.0.1", node.client_port, timeout=60,
                                             context=node.cluster.tls, source_address=(address, 0))
    try:
        return call_on(connection, method, path, body, token)
    finally:
        connection.close()


@pytest.mark.parametrize("path, body", [
    (ATTEMPT, {}), ("/v1/sys/rekey/init", {"secret_shares": 1, "secret_threshold": 1})])
def test_an_attempt_is_cancelled_by_its_own_address_or_a_token(idle, path, body):
    node = idle.active()
    own = call(node, "PUT", path, body)["nonce"]
    for at in idle.nodes:
        assert from_elsewhere(at, "DELETE", path).status == 204
        assert call(at, "GET", path)["nonce"] == own
        assert from_elsewhere(at, "GET", path).json["nonce"] == own  # a holder of a share sees it
    other = from_elsewhere(node, "PUT", path, body)
    assert other.status == 200 and other.json["nonce"] != own
    assert from_elsewhere(node, "PUT", path, body).status == 400  # one for each address
    assert from_elsewhere(node, "GET", path).json["nonce"] == other.json["nonce"]
    assert call(node, "GET", path)["nonce"] == own
    third = from_elsewhere(node, "GET", path, address="127.0.0.3").json
    assert third["nonce"] == own  # the one that was begun first
    call(node, "DELETE", path, status=204)
    assert from_elsewhere(node, "GET", path).json["nonce"] == other.json["nonce"]
    assert node.call("DELETE", path).status == 204  # a token with the right ends each attempt
    assert call(node, "GET", path)["started"] is False


def test_shares_of_an_attempt_come_from_many_addresses(idle):
    node, keys = idle.active(), idle.keys[:3]
    stranger = from_elsewhere(node, "PUT", ATTEMPT, {}, address="127.0.0.9").json
    attempt = call(node, "PUT", ATTEMPT, {})
    for i, key in enumerate(keys):
        body = {"key": key, "nonce": attempt["nonce"]}
        last = from_elsewhere(node, "PUT", UPDATE, body, address=f"127.0.0.{i + 2}").json
    assert last["complete"] and decode(last["encoded_token"], attempt["otp"]).startswith("hvs.")
    assert call(node, "GET", ATTEMPT)["nonce"] == stranger["nonce"]
    assert from_elsewhere(node, "DELETE", ATTEMPT, address="127.0.0.9").status == 204


def test_only_who_gave_the_first_share_resets(fresh):
    node = fresh.standbys()[0]
    node.stop()
    node.start()
    fresh.await_health({503}, [node])
    fresh.await_seal(node)
    reset = {"reset": True}
    assert unseal(node, fresh.keys[0])["progress"] == 1
    answer = from_elsewhere(node, "PUT", "/v1/sys/unseal", reset)
    assert answer.status == 403 and "another address" in answer.json["errors"][0]
    assert node.call("GET", "/v1/sys/seal-status").json["progress"] == 1
    assert node.call("PUT", "/v1/sys/unseal", reset).json["progress"] == 0
    assert from_elsewhere(node, "PUT", "/v1/sys/unseal", reset).status == 200  # there is none to forget


def test_an_attempt_goes_on_after_a_failover(fresh):
    begun = call(fresh.standbys()[0], "PUT", ATTEMPT, {})
    give(fresh.standbys()[1], begun["nonce"], fresh.keys[:2])
    active = fresh.active()
    active.kill()
    other = fresh.active()
    status = call(other, "GET", ATTEMPT)
    assert (status["nonce"], status["progress"]) == (begun["nonce"], 2)
    done = give(other, begun["nonce"], fresh.keys[2:3])
    assert is_root(other, decode(done["encoded_token"], begun["otp"]))


def test_recovery_shares_make_a_root_token_where_the_seal_has_none():
    with Recoverable(size=1) as cluster:
        assert is_root(cluster.nodes[0], generate(cluster.nodes, cluster.recovery_keys[1:]))


def ask(node, method, path, body=None, status=200):
    """Data of the reply to the cluster's own token."""
    answer = node.call(method, f"/v1/sys/{path}", body)
    assert answer.status == status, (method, path, answer.status, answer.body)
    return answer.data if answer.body else None


def rotate(nodes, keys, shares, threshold, kind, **wishes):
    """As rekey, by the paths that ask for a token."""
    body = {"secret_shares": shares, "secret_threshold": threshold, **wishes}
    begun = ask(nodes[0], "POST", f"rotate/{kind}/init", body)
    assert (begun["started"], begun["t"], begun["n"]) == (True, threshold, shares)
    assert ask(nodes[-1], "GET", f"rotate/{kind}/init") == begun
    for i, key in enumerate(keys):
        last = ask(nodes[i % len(nodes)], "PUT", f"rotate/{kind}/update",
                   {"key": key, "nonce": begun["nonce"]})
    assert last["complete"] is True and len(last["keys"]) == shares
    return last


def test_a_token_makes_a_root_token_with_enough_shares(fresh):
    first, last = fresh.nodes[0], fresh.nodes[-1]
    path = "generate-root-token"
    assert ask(first, "GET", f"{path}/attempt")["started"] is False
    begun = ask(last, "POST", f"{path}/attempt", {})
    assert begun["otp"] and begun["required"] == fresh.threshold
    assert call(first, "GET", ATTEMPT)["started"] is False  # without a token it is not seen
    ask(first, "DELETE", f"{path}/attempt", status=204)
    begun = ask(first, "PUT", f"{path}/attempt", {})
    for number, key in enumerate(fresh.keys[: fresh.threshold], 1):
        done = ask(last, "PUT", f"{path}/update", {"key": key, "nonce": begun["nonce"]})
        assert done["progress"] == number
    assert done["complete"] is True
    assert is_root(last, decode(done["encoded_token"], begun["otp"]))
    for method, at in (("GET", "attempt"), ("PUT", "attempt"), ("PUT", "update")):
        answer = first.call(method, f"/v1/sys/{path}/{at}", {} if method == "PUT" else None, token="")
        assert answer.status == 403


def test_a_token_rotates_the_key_shares(fresh):
    old = fresh.keys
    made = rotate(fresh.nodes, old[: fresh.threshold], 4, 2, "root")
    adopt(fresh, made, 2)
    assert_serves(fresh, 1)
    made = rotate(fresh.nodes, fresh.keys[:2], 2, 2, "root", require_verification=True)
    nonce = ask(fresh.nodes[1], "GET", "rotate/root/verify")["nonce"]
    assert nonce == made["verification_nonce"]
    nonce = ask(fresh.nodes[1], "DELETE", "rotate/root/verify")["nonce"]
    for key in made["keys"]:
        done = ask(fresh.nodes[2], "PUT", "rotate/root/verify", {"key": key, "nonce": nonce})
    assert done == {"nonce": nonce, "complete": True}
    standby = fresh.standbys()[0]
    assert standby.call("PUT", "/v1/sys/seal").status == 204
    assert_refuses(standby, old[: fresh.threshold])
    adopt(fresh, made, 2)
    fresh.open(standby)
    assert_serves(fresh, 2)
    answer = fresh.nodes[0].call("PUT", "/v1/sys/rotate/root")
    assert answer.status == 400 and "rotate/root/init" in answer.json["errors"][0]
    refused(fresh.nodes[0].call("GET", "/v1/sys/rotate/recovery/init"), "no recovery key")
    begun = ask(fresh.nodes[0], "POST", "rotate/root/init",
                {"secret_shares": 1, "secret_threshold": 1})
    assert call(fresh.nodes[0], "GET", "/v1/sys/rekey/init", token=fresh.token) == begun
    ask(fresh.nodes[0], "DELETE", "rotate/root/init", status=204)


def test_a_token_rotates_the_recovery_key_and_the_root_key():
    with Recoverable(size=2) as cluster:
        keys = cluster.recovery_keys
        ask(cluster.nodes[1], "POST", "rotate/root", {}, 204)
        made = rotate(cluster.nodes, keys[1:], 1, 1, "recovery")
        ask(cluster.nodes[0], "POST", "rotate/root", {}, 204)
        made = rotate(cluster.nodes, made["keys"], 1, 1, "recovery", require_verification=True)
        verify = "rotate/recovery/verify"
        assert ask(cluster.nodes[0], "GET", verify)["nonce"] == made["verification_nonce"]
        nonce = ask(cluster.nodes[0], "DELETE", verify)["nonce"]
        share = {"key": made["keys"][0], "nonce": nonce}
        assert ask(cluster.nodes[1], "PUT", verify, share)["complete"] is True
        ask(cluster.nodes[1], "DELETE", "rotate/recovery/init", status=204)
        for node in cluster.nodes:
            node.kill()
        cluster.start()
        cluster.await_up()
        assert is_root(cluster.nodes[0], generate(cluster.nodes, made["keys"]))


def test_without_recovery_shares_there_is_no_root_token():
    with Keyless(size=1) as cluster:
        for method, path in (("GET", ATTEMPT), ("PUT", ATTEMPT), ("PUT", UPDATE)):
            body = {} if method == "PUT" else None
            refused(cluster.nodes[0].call(method, path, body, token=""), "recovery key")


def rekey(nodes, keys, shares, threshold, kind="rekey", token="", **wishes):
    """The last answer: with the new shares."""
    body = {"secret_shares": shares, "secret_threshold": threshold, **wishes}
    begun = call(nodes[0], "PUT", f"/v1/sys/{kind}/init", body, token)
    for i, key in enumerate(keys):
        body = {"key": key, "nonce": begun["nonce"]}
        last = call(nodes[i % len(nodes)], "PUT", f"/v1/sys/{kind}/update", body, token)
    assert last["complete"] is True and len(last["keys"]) == len(last["keys_base64"]) == shares
    return last


def seal_status(node):
    return call(node, "GET", "/v1/sys/seal-status")


def adopt(cluster, made, threshold):
    cluster.keys, cluster.shares, cluster.threshold = made["keys"], len(made["keys"]), threshold


def assert_serves(cluster, n):
    """Every node reads what any of them writes."""
    for i, node in enumerate(cluster.nodes):
        assert node.call("PUT", f"/v1/cubbyhole/n{i}", {"n": n}).status == 204
    for node in cluster.nodes:
        for i in range(len(cluster.nodes)):
            assert node.call("GET", f"/v1/cubbyhole/n{i}").data == {"n": n}


def assert_refuses(node, keys):
    """These shares, enough of them by number, unseal no more."""
    call(node, "PUT", "/v1/sys/unseal", {"reset": True})
    for key in keys:
        answer = node.call("PUT", "/v1/sys/unseal", {"key": key}, token="")
    assert answer.status == 400 or answer.json["sealed"] is True, answer.body
    call(node, "PUT", "/v1/sys/unseal", {"reset": True})
    assert seal_status(node)["sealed"] is True


def await_counts(node, shares, threshold):
    """Until the node, which may have just been started, knows the seal of now."""
    node.cluster.await_health({200, 429, 473, 503}, [node])
    deadline = time.monotonic() + 120
    while (seal_status(node)["n"], seal_status(node)["t"]) != (shares, threshold):
        assert time.monotonic() < deadline, seal_status(node)
        time.sleep(0.05)


def test_new_shares_take_the_place_of_the_old_on_every_node(fresh):
    old, (down, sealed) = fresh.keys, fresh.standbys()
    active = fresh.active()
    assert_serves(fresh, 1)
    down.kill()
    assert sealed.call("PUT", "/v1/sys/seal").status == 204
    assert unseal(sealed, old[0])["progress"] == 1
    made = rekey([active], old[1:4], 4, 2)
    assert (made["verification_required"], made["backup"]) == (False, False)
    assert not set(made["keys"]) & set(old)
    await_counts(sealed, 4, 2)
    status = seal_status(sealed)
    assert (status["progress"], status["nonce"], status["sealed"]) == (0, "", True)
    assert_refuses(sealed, old[:3])
    down.start()
    await_counts(down, 4, 2)
    assert_refuses(down, old[:3])
    adopt(fresh, made, 2)
    fresh.open(down, [made["keys"][3], made["keys"][1]])
    fresh.open(sealed)
    fresh.await_up()
    assert_serves(fresh, 2)
    active.kill()
    fresh.active()
    active.start()
    await_counts(active, 4, 2)
    assert_refuses(active, old[:3])
    fresh.open(active)
    fresh.await_up()
    assert_serves(fresh, 3)


def test_unsealed_nodes_follow_and_may_lead(fresh):
    for shares, threshold in ((1, 1), (3, 2), (255, 2), (5, 3)):
        made = rekey(fresh.nodes, fresh.keys[: fresh.threshold], shares, threshold)
        adopt(fresh, made, threshold)
        assert_serves(fresh, shares)
    assert [seal_status(n)["sealed"] for n in fresh.nodes] == [False] * 3
    assert fresh.active().call("PUT", "/v1/sys/rotate").status == 204
    for _ in range(2):
        leader = fresh.active()
        assert leader.call("PUT", "/v1/sys/step-down").status == 204
        fresh.await_up()
    assert_serves(fresh, 6)
    for node in fresh.nodes:
        node.kill()
    fresh.start()
    fresh.await_health({503}, fresh.nodes)
    fresh.open_all()
    assert_serves(fresh, 7)
    fresh.await_equal_roots()


def test_a_node_that_missed_it_follows_or_seals_itself(fresh):
    """Two at once while a node stands still: it may get from one to the next, or not."""
    late = fresh.standbys()[0]
    active = fresh.active()
    old = fresh.keys
    late.pause()
    for _ in range(2):
        adopt(fresh, rekey([active], fresh.keys[:3], 5, 3), 3)
    late.resume()
    fresh.await_health({473, 503}, [late])
    deadline = time.monotonic() + 120
    time.sleep(1)  # it hears of them
    while True:
        if seal_status(late)["sealed"]:
            assert_refuses(late, old[:3])
            fresh.open(late)
        if late.call("PUT", "/v1/cubbyhole/late", {"n": 1}).status == 204:
            break
        assert time.monotonic() < deadline
    fresh.await_up()
    assert_serves(fresh, 1)


def test_new_shares_are_inert_until_they_are_verified(fresh):
    node, old = fresh.nodes[0], fresh.keys
    verify = "/v1/sys/rekey/verify"
    refused(node.call("GET", verify, token=""), "no rekey verification")
    refused(node.call("PUT", verify, {"key": old[0], "nonce": "x"}, token=""), "no rekey")
    made = rekey([node], old[:3], 3, 2, require_verification=True)
    assert made["verification_required"] and made["verification_nonce"] != made["nonce"]
    again = {"key": old[2], "nonce": made["nonce"]}
    assert call(node, "PUT", "/v1/sys/rekey/update", again) == made
    refused(node.call("PUT", "/v1/sys/rekey/update", {**again, "key": old[0]}, token=""),
            "already finished")
    refused(node.call("PUT", "/v1/sys/rekey/init",
                      {"secret_shares": 1, "secret_threshold": 1}, token=""), "in progress")
    standby = fresh.standbys()[0]
    standby.kill()
    standby.start()
    await_counts(standby, 5, 3)
    fresh.open(standby)  # by the shares that still count
    fresh.await_up()

    status = call(node, "GET", verify)
    assert status == {"nonce": made["verification_nonce"], "started": True, "t": 2, "n": 3,
                      "progress": 0}
    give(node, status["nonce"], made["keys"][:1], path=verify)
    restarted = call(node, "DELETE", verify)
    assert restarted["progress"] == 0 and restarted["nonce"] != status["nonce"]
    refused(node.call("PUT", verify, {"key": made["keys"][0], "nonce": status["nonce"]}, token=""),
            "nonce")
    nonce = restarted["nonce"]
    give(node, nonce, made["keys"][:1], path=verify)
    refused(node.call("PUT", verify, {"key": made["keys"][0], "nonce": nonce}, token=""), "before")
    refused(node.call("PUT", verify, {"key": old[0], "nonce": nonce}, token=""), "given anew")
    assert call(node, "GET", verify)["progress"] == 0
    done = give(node, nonce, made["keys_base64"][1:], path=verify)
    assert done == {"nonce": nonce, "complete": True}
    adopt(fresh, made, 2)
    standby.kill()
    standby.start()
    await_counts(standby, 3, 2)
    assert_refuses(standby, old[:3])
    fresh.open(standby)
    fresh.await_up()

    adopted = fresh.keys
    made = rekey([node], adopted[:2], 3, 2, require_verification=True)
    call(node, "DELETE", "/v1/sys/rekey/init", status=204)
    refused(node.call("GET", verify, token=""), "no rekey verification")
    assert call(node, "GET", "/v1/sys/rekey/init")["started"] is False
    assert is_root(node, generate([node], adopted[:2]))


def test_what_is_wrong_with_a_rekey_is_refused(fresh):
    node = fresh.nodes[0]
    init, update = "/v1/sys/rekey/init", "/v1/sys/rekey/update"
    call(node, "DELETE", init, status=204)
    for body, word, status in (
        ({}, "secret_shares", 400),
        ({"secret_shares": 256, "secret_threshold": 2}, "secret_shares", 400),
        ({"secret_shares": 3, "secret_threshold": 1}, "greater than one", 400),
        ({"secret_shares": 2, "secret_threshold": 3}, "secret_threshold", 400),
        ({"secret_shares": 1, "secret_threshold": 1, "backup": True}, "PGP", 400),
        ({"secret_shares": 1, "secret_threshold": 1, "pgp_keys": ["x"]}, "pgp_keys[0]: the key is", 400),
    ):
        refused(node.call("PUT", init, body, token=""), word, status=status)
    refused(node.call("PUT", update, {"key": fresh.keys[0], "nonce": "x"}, token=""), "no rekey")
    assert call(node, "GET", init) == {
        "nonce": "", "started": False, "t": 0, "n": 0, "progress": 0, "required": 3,
        "pgp_fingerprints": None, "backup": False, "verification_required": False}
    body = {"secret_shares": 4, "secret_threshold": 2}
    begun = call(node, "PUT", init, body)
    assert (begun["started"], begun["t"], begun["n"], begun["required"]) == (True, 2, 4, 3)
    refused(node.call("PUT", init, body, token=""), "rekey already in progress")
    nonce = begun["nonce"]
    refused(node.call("PUT", update, {"key": fresh.keys[0], "nonce": "x"}, token=""), "nonce")
    assert give(node, nonce, fresh.keys[:1], path=update)["progress"] == 1
    refused(node.call("PUT", update, {"key": fresh.keys[0], "nonce": nonce}, token=""), "before")
    wrong = bytearray(bytes.fromhex(fresh.keys[2]))
    wrong[0] ^= 1
    give(node, nonce, fresh.keys[1:2], path=update)
    refused(node.call("PUT", update, {"key": wrong.hex(), "nonce": nonce}, token=""), "given anew")
    assert call(node, "GET", init)["progress"] == 0
    call(node, "DELETE", init, status=204)
    for method, path in (("GET", "init"), ("PUT", "init"), ("PUT", "update"), ("GET", "verify"),
                         ("PUT", "verify"), ("DELETE", "verify")):
        answer = node.call(method, f"/v1/sys/rekey-recovery-key/{path}", token="",
                           body=body if method == "PUT" else None)
        refused(answer, "no recovery key")


def test_a_rekey_goes_on_after_a_failover(fresh):
    begun = call(fresh.standbys()[0], "PUT", "/v1/sys/rekey/init",
                 {"secret_shares": 2, "secret_threshold": 2})
    give(fresh.active(), begun["nonce"], fresh.keys[:2], path="/v1/sys/rekey/update")
    old, gone = fresh.keys, fresh.active()
    gone.kill()
    other = fresh.active()
    made = give(other, begun["nonce"], fresh.keys[4:], path="/v1/sys/rekey/update")
    adopt(fresh, made, 2)
    gone.start()
    await_counts(gone, 2, 2)
    assert_refuses(gone, old[:3])
    fresh.open(gone)
    fresh.await_up()
    assert_serves(fresh, 1)


def final_step(node, body, delay_s):
    """The answer to the last share, of a node that is killed meanwhile; None: there was none."""
    connection = node.connect()
    connection.connect()
    killer = threading.Timer(delay_s, node.kill)
    killer.start()
    try:
        token = node.cluster.token
        answer = call_on(connection, "PUT", "/v1/sys/rekey/update", body, token)
        return answer.json if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        killer.join()
        connection.close()


def test_a_leader_killed_in_the_last_step_leaves_the_old_shares_or_the_new(fresh):
    """Whoever had no answer asks again, and then has shares that unseal, whichever they are."""
    for i in range(8):
        active, old = fresh.active(), fresh.keys
        begun = call(active, "PUT", "/v1/sys/rekey/init",
                     {"secret_shares": 3, "secret_threshold": 3}, fresh.token)
        give(active, begun["nonce"], old[:2], path="/v1/sys/rekey/update", token=fresh.token)
        body = {"key": old[2], "nonce": begun["nonce"]}
        made = final_step(active, body, 0.0005 * i)
        other = fresh.active()
        again = call(other, "PUT", "/v1/sys/rekey/update", body, fresh.token)
        assert again["complete"] and (made is None or made == again)
        adopt(fresh, again, 3)
        active.start()
        await_counts(active, 3, 3)
        assert_refuses(active, old[:3])
        fresh.open(active)
        fresh.await_up()
        assert_serves(fresh, i)


def test_the_last_share_alone_gets_the_lost_answer_again(fresh):
    node, old, token = fresh.nodes[0], fresh.keys, fresh.token
    made = rekey([node], old[:3], 3, 2, token=token)
    update = "/v1/sys/rekey/update"
    again = {"key": old[2], "nonce": made["nonce"]}
    assert call(fresh.nodes[1], "PUT", update, again, token) == made
    refused(node.call("PUT", update, again, token=""), "no rekey")
    refused(node.call("PUT", update, {**again, "key": old[0]}), "no rekey")
    refused(node.call("PUT", update, {**again, "nonce": "x"}), "no rekey")
    rekey([node], made["keys"][:2], 3, 2)
    refused(node.call("PUT", update, again), "no rekey")


def test_recovery_shares_are_replaced_too():
    with Recoverable(size=2) as cluster:
        old = cluster.recovery_keys
        refused(cluster.nodes[0].call("GET", "/v1/sys/rekey/init", token=""), "no key shares")
        made = rekey(cluster.nodes, old[:2], 2, 2, kind="rekey-recovery-key",
                     require_verification=True)
        verify = "/v1/sys/rekey-recovery-key/verify"
        assert call(cluster.nodes[1], "GET", verify)["progress"] == 0
        nonce = call(cluster.nodes[0], "DELETE", verify)["nonce"]
        assert give(cluster.nodes[1], nonce, made["keys"], path=verify)["complete"]
        keys = made["keys"]
        for node in cluster.nodes:
            await_counts(node, 2, 2)
            assert seal_status(node)["sealed"] is False
        nonce = call(cluster.nodes[0], "PUT", ATTEMPT, {})["nonce"]
        give(cluster.nodes[0], nonce, old[:1])
        refused(cluster.nodes[0].call("PUT", UPDATE, {"key": old[1], "nonce": nonce}, token=""),
                "given anew")
        call(cluster.nodes[0], "DELETE", ATTEMPT, status=204)
        assert is_root(cluster.nodes[0], generate(cluster.nodes, keys))
        standby = cluster.standbys()[0]
        assert standby.call("PUT", "/v1/sys/seal").status == 204
        assert_refuses(standby, old[:2])
        unseal(standby, keys[0])
        assert unseal(standby, keys[1])["sealed"] is False
        made = rekey(cluster.nodes, keys, 1, 1, kind="rekey-recovery-key")
        call(cluster.nodes[0], "GET", "/v1/sys/rekey-recovery-key/init")
        call(cluster.nodes[0], "DELETE", "/v1/sys/rekey-recovery-key/init", status=204)
        assert is_root(cluster.nodes[0], generate(cluster.nodes, made["keys"]))
        for node in cluster.nodes:
            node.kill()
        cluster.start()
        cluster.await_up()


def test_a_snapshot_of_before_is_of_another_root_key(fresh):
    active = fresh.active()
    before = active.call("GET", "/v1/sys/storage/raft/snapshot").body
    adopt(fresh, rekey([active], fresh.keys[:3], 5, 3), 3)
    after = active.call("GET", "/v1/sys/storage/raft/snapshot").body
    answer = active.call("POST", "/v1/sys/storage/raft/snapshot", before)
    refused(answer, "root key")
    answer = active.call("POST", "/v1/sys/storage/raft/snapshot", after)
    assert answer.status == 204, answer.body
    fresh.await_up()
    assert_serves(fresh, 1)
    adopt(fresh, rekey([fresh.active()], fresh.keys[:3], 2, 2), 2)
    assert_serves(fresh, 2)
