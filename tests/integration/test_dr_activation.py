"""Activation of a DR secondary: the token, both steps, and what each step refuses."""

import base64
import pathlib
import re
import socket
import ssl
import struct
import subprocess
import time

import pytest

from activation import (
    BOOTSTRAP, DR, ENABLE, TOKEN, UNWRAP, UPDATE, api, at_cluster_port, await_mode, become_primary,
    call, ca_of, claim, claims_of, enable, error, make_token, new_key, new_pair, operation_token,
    status, unwrap, with_der_signature, wrapped,
)
from cluster import Keyless, Recoverable
from test_shamir import SHAMIR

REVOKE = f"{DR}/primary/revoke-secondary"
PUBLIC_KEY = f"{DR}/secondary/generate-public-key"
SYNCED = ("merkle-sync", "merkle-diff", "stream-wals")  # the sync goes on meanwhile
DISABLED = {"errors": ["path disabled in replication DR secondary mode"]}


class Single(Recoverable):
    def __init__(self, **options):
        super().__init__(size=1, **options)


class SingleShamir(Single):
    """Unsealed by the only key share."""

    init_body = {"secret_shares": 1, "secret_threshold": 1}

    def __init__(self):
        super().__init__(config=SHAMIR)

    def init(self):
        self.await_formed()
        made = self.nodes[0].call("PUT", "/v1/sys/init", self.init_body).json
        self.token, self.recovery_keys = made["root_token"], made["keys"]
        call(self.nodes[0], "PUT", "/v1/sys/unseal", {"key": made["keys"][0]}, "")
        self.await_up()


@pytest.fixture(scope="module")
def primary():
    with Recoverable() as made:
        become_primary(made)
        yield made


@pytest.fixture(scope="module")
def other():
    """A cluster that no test makes a secondary."""
    with Single() as made:
        made.await_feature_level()
        yield made


@pytest.fixture
def fresh():
    with Single() as made:
        made.await_feature_level()
        yield made


def test_three_nodes_follow_three_nodes(primary):
    with Recoverable() as b:
        b.await_feature_level()
        call(b.nodes[0], "PUT", "/v1/kv/mine", {"x": "1"}, status=204)
        token = make_token(primary, "three", node=primary.standbys()[0])
        trusted = b.dir / "authorities"
        trusted.mkdir()
        (trusted / "the primary's").write_bytes(pathlib.Path(ca_of(primary)).read_bytes())
        told = b.standbys()[0].call("POST", ENABLE, {"token": token, "ca_path": str(trusted)})
        assert told.status == 200 and told.json["data"] is None, told.body
        assert len(told.json["warnings"]) == 1 and "initial sync" in told.json["warnings"][0]
        await_mode(b, "secondary")
        first = status(primary.nodes[0])
        for node in b.nodes:
            now = status(node)
            assert now["state"] in SYNCED and now["secondary_id"] == "three"
            assert now["cluster_id"] == first["cluster_id"] and now["epoch"] == first["epoch"]
            ports = {f"https://127.0.0.1:{n.cluster_port}" for n in primary.nodes}
            assert now["primary_cluster_addr"] in ports
            assert node.health() == 472
            assert enable(node, token, primary).json == DISABLED
        assert any("activated" in n.log_text() for n in primary.nodes)
        error(enable(primary.nodes[0], token, primary), 400, "is a DR primary already")
        again = primary.nodes[0].call("POST", TOKEN, {"id": "three"})
        error(again, 400, '"three" is activated already')


def test_a_token_says_what_upstreams_say(primary):
    for i, node in enumerate(primary.nodes):
        answer = call(node, "POST", TOKEN, {"id": f"form{i}", "ttl": "2m"})
        assert answer.json["data"] is None and answer.json["auth"] is None
        assert not answer.json["warnings"]
        info = answer.json["wrap_info"]
        assert info["ttl"] == 120 and info["wrapped_accessor"] == ""
        assert info["creation_path"] == "sys/replication/dr/primary/secondary-token"
        claims = claims_of(info["token"])
        assert claims["type"] == "wrapping" and claims["exp"] - claims["iat"] == 120
        assert claims["addr"] == primary.active().url
        bundle = unwrap(node, info["token"])
        assert bundle["id"] == f"form{i}" and bundle["epoch"] == 1
        ports = [f"127.0.0.1:{n.cluster_port}" for n in primary.nodes]
        assert sorted(bundle["known_primary_cluster_addrs"]) == sorted(ports)
        assert bundle["primary_cluster_addr"] == f"127.0.0.1:{primary.active().cluster_port}"
        ca = (primary.dir / "tls" / "ca.pem").read_text()
        assert bundle["ca"] == ca and "KEY" not in ca
        error(node.call("POST", TOKEN, {"id": f"form{i}"}), 400, "was not used yet")
        call(node, "POST", REVOKE, {"id": f"form{i}"}, status=204)


def test_orders_are_checked(primary, other):
    node = primary.nodes[0]
    for body, word in (
        ({}, "id"), ({"id": ""}, "id:"), ({"id": "a/b"}, "id:"), ({"id": "-a"}, "id:"),
        ({"id": "a" * 65}, "id:"), ({"id": "t", "ttl": "0s"}, "ttl:"),
        ({"id": "t", "ttl": "31d"}, "ttl:"), ({"id": "t", "ttl": "x"}, "ttl"),
        ({"id": "t", "secondary_public_key": "AAAA"}, "secondary_public_key:"),
        ({"id": "t", "secondary_public_key": base64.b64encode(bytes(32)).decode()}, "usable"),
    ):
        error(node.call("POST", TOKEN, body), 400, word)
    error(other.nodes[0].call("POST", TOKEN, {"id": "x"}), 400, "no DR primary")
    error(other.nodes[0].call("POST", REVOKE, {"id": "x"}), 400, "no DR primary")
    error(node.call("POST", REVOKE, {"id": "nobody"}), 400, "no secondary of this id")
    error(node.call("POST", PUBLIC_KEY, {}), 400, "is a DR primary")
    plain = primary.limited(f'path "{TOKEN[4:]}" {{ capabilities = ["update"] }}')
    assert node.call("POST", TOKEN, {"id": "t"}, token=plain).status == 403


def test_so_many_secondaries_are_possible(fresh):
    become_primary(fresh)
    for i in range(16):
        make_token(fresh, f"s{i}")
    error(fresh.nodes[0].call("POST", TOKEN, {"id": "s16"}), 400, "16 secondaries", "revoke")
    call(fresh.nodes[0], "POST", REVOKE, {"id": "s3"}, status=204)
    make_token(fresh, "s16", ttl="1s")
    time.sleep(1.5)
    make_token(fresh, "s16")


def test_the_configured_address_is_tried_first(fresh):
    fresh.await_feature_level()
    node = fresh.nodes[0]
    bad = {"primary_cluster_addr": "https://x/y"}
    error(node.call("POST", f"{DR}/primary/enable", bad), 400, "primary_cluster_addr:")
    become_primary(fresh, primary_cluster_addr="https://lb.example:8201")
    bundle = unwrap(node, make_token(fresh, "x"))
    assert bundle["primary_cluster_addr"] == "lb.example:8201"
    assert bundle["known_primary_cluster_addrs"][1:] == [f"127.0.0.1:{node.cluster_port}"]
    assert status(node)["primary_cluster_addr"] == "https://lb.example:8201"


def test_any_node_takes_the_second_step_and_a_repeated_request(primary):
    bundle = unwrap(primary.nodes[0], make_token(primary, "direct"))
    asked = claim(bundle)
    for wrong, word in (
        ({"secret": "x" * 32}, "knows no such"), ({"secret": ""}, "knows no such"),
        ({"id": "elsewhere"}, "knows no such"), ({"public_key": "x"}, "public_key:"),
        ({"feature": 0}, "upgrade every node of the secondary"), ({"protocol": 0}, "protocol:"),
        ({"version": 2**62 + 1}, "version: impossible"), ({"box_key": "AAAA"}, "box_key:"),
        ({"version": 2**43}, "version: impossible"),  # the primary would take the version over
        ({"box_key": base64.b64encode(bytes(32)).decode()}, "box_key:"),
    ):
        got, body = at_cluster_port(primary.nodes[0], "POST", BOOTSTRAP, asked | wrong)
        assert got == 400 and word in body["errors"][0], (wrong, body)
    names = set()
    for node in primary.nodes:  # none of the refusals has used the secret up
        got, body = at_cluster_port(node, "POST", BOOTSTRAP, asked)
        assert got == 200, body
        text = subprocess.run(["openssl", "x509", "-noout", "-ext", "subjectAltName"], check=True,
                              input=body["certificate"].encode(), capture_output=True).stdout
        names.add(re.search(rb"URI:(\S+)", text)[1])
        assert len(base64.b64decode(body["root_key"])) == 32 + 48
        assert body["seal"] == "static" and body["recovery"] and body["keys"] > 0
        assert len(body["addresses"]) == 3 and body["version"] >= 1
    assert len(names) == 1 and names.pop().endswith(b"/1/direct")
    for other in ({"public_key": new_key()}, {"box_key": claim(bundle)["box_key"]}):
        got, body = at_cluster_port(primary.nodes[0], "POST", BOOTSTRAP, asked | other)
        assert got == 400 and "used already" in body["errors"][0]
    call(primary.nodes[1], "POST", REVOKE, {"id": "direct"}, status=204)
    got, body = at_cluster_port(primary.nodes[0], "POST", BOOTSTRAP, asked)
    assert got == 400 and "knows no such" in body["errors"][0]
    for method, path in (("GET", BOOTSTRAP), ("POST", TOKEN), ("POST", f"{BOOTSTRAP}/x")):
        got, body = at_cluster_port(primary.nodes[0], method, path, {})
        assert got == 403, (method, path, body)


STREAM, WELCOME, REFUSE, FEATURE = 1, 16, 17, 6  # of cluster/dr/WIRE.md


def greet(node, identity, set_id, name, feature, position):
    """Say HELLO for a stream as a secondary; returns type and payload of the reply."""
    context = ssl.create_default_context(cafile=str(node.cluster.dir / "tls" / "ca.pem"))
    context.check_hostname = False
    context.set_alpn_protocols(["holdfast-dr/1"])
    context.load_cert_chain(identity)
    hello = struct.pack("<HHB16sQQQB", 1, feature, STREAM, set_id, 1, position, 0, len(name)) + name
    with socket.create_connection(("127.0.0.1", node.cluster_port), timeout=60) as raw, \
            context.wrap_socket(raw) as connection, connection.makefile("rb") as replies:
        connection.sendall(struct.pack("<IB", len(hello), 1) + hello)
        size, kind = struct.unpack("<IB", replies.read(5))
        return kind, replies.read(size)


def test_an_older_build_is_refused_as_a_secondary_and_a_newer_one_is_not(primary, tmp_path):
    """By the level that its HELLO names. Every build that knows disaster recovery has the level of
    this build or a higher one, so no program can play the older one: test_upgrade.py has the one
    before, which knows none."""
    node, level = primary.active(), primary.feature_level()[0]
    private, public = new_pair()
    bundle = unwrap(node, make_token(primary, "older"))
    got, body = at_cluster_port(node, "POST", BOOTSTRAP, claim(bundle, public_key=public))
    assert got == 200, body
    identity = tmp_path / "identity.pem"
    identity.write_text(private + body["certificate"])
    text = subprocess.run(["openssl", "x509", "-noout", "-ext", "subjectAltName"], check=True,
                          input=body["certificate"], capture_output=True, text=True).stdout
    set_id = bytes.fromhex(re.search(r"/dr/([0-9a-f]{32})/1/older", text)[1])

    def refused():
        text = node.call("GET", "/v1/sys/metrics?format=prometheus").body.decode()
        return float(re.search(r'holdfast_dr_refusals_total\{reason="feature"\} (\S+)', text)[1])

    before = refused()
    kind, payload = greet(node, identity, set_id, b"older", level - 1, body["version"])
    assert kind == REFUSE and payload[0] == FEATURE
    assert refused() == before + 1
    for feature in (level, level + 1, 1000):
        kind, payload = greet(node, identity, set_id, b"older", feature, body["version"])
        assert kind == WELCOME, payload
    assert refused() == before + 1
    call(node, "POST", REVOKE, {"id": "older"}, status=204)


def test_the_second_step_is_limited_in_rate(fresh):
    become_primary(fresh)
    body = claim({"id": "x", "secret": "x" * 32})
    answers = [fresh.nodes[0].call("POST", BOOTSTRAP, body, token="").status for _ in range(80)]
    assert set(answers) == {400, 429}


def test_the_second_step_needs_a_primary(other):
    bundle = {"id": "x", "secret": "x" * 32}
    error(other.nodes[0].call("POST", BOOTSTRAP, claim(bundle), token=""), 400, "no DR primary")


def test_a_token_that_is_no_good_changes_nothing(primary, other):
    node = other.nodes[0]
    for token, word in (("", "token"), ("hvs.x", "neither"), ("a.b.c", "neither"),
                        ("hdr1.AAAA", "none: see secondary/generate-public-key")):
        error(enable(node, token, primary), 400, word)
    used = make_token(primary, "used")
    unwrap(primary.nodes[0], used)
    error(enable(node, used, primary), 400,
          "error response unwrapping secondary token; status code is 400")
    revoked = make_token(primary, "revoked")
    call(primary.nodes[2], "POST", REVOKE, {"id": "revoked"}, status=204)
    error(enable(node, revoked, primary), 400, "knows no such activation token", "revoked")
    short = make_token(primary, "short", ttl="1s")
    time.sleep(2)
    error(enable(node, short, primary), 400,
          "error response unwrapping secondary token; status code is 400")
    call(primary.nodes[0], "POST", REVOKE, {"id": "used"}, status=204)
    assert status(node) == {"mode": "disabled"}
    call(node, "PUT", "/v1/kv/still", {"x": "1"}, status=204)


def test_a_secret_expires_with_its_token(primary):
    bundle = unwrap(primary.nodes[0], make_token(primary, "late", ttl="2s"))
    time.sleep(2.5)
    got, body = at_cluster_port(primary.nodes[1], "POST", BOOTSTRAP, claim(bundle))
    assert got == 400 and "has expired" in body["errors"][0]


def test_the_primarys_api_must_be_trusted_and_behave(primary, other, tmp_path):
    node, token = other.nodes[0], make_token(primary, "api")
    (tmp_path / "another.crt").write_bytes(pathlib.Path(ca_of(other)).read_bytes())
    for body in ({}, {"ca_file": ca_of(other)}, {"ca_path": str(tmp_path)}):
        answer = node.call("POST", ENABLE, {"token": token, **body})
        error(answer, 500, "error unwrapping secondary token: ")
    empty = tmp_path / "empty"
    empty.mkdir()
    answer = node.call("POST", ENABLE, {"token": token, "ca_path": str(empty)})
    error(answer, 400, "error unwrapping secondary token: ", "has no certificate")
    absent = {"token": token, "ca_file": "/nowhere/ca.pem"}
    assert node.call("POST", ENABLE, absent).status in (400, 500)
    for address, code in (("ftp://x", 400), ("https://127.0.0.1:1", 500),
                          ("http://169.254.169.254", 400)):
        error(enable(node, token, primary, primary_api_addr=address), code,
              "error unwrapping secondary token: ")
    elsewhere = []

    def redirected(path, body):
        elsewhere.append(path)
        return 307, {"Location": f"{url}/elsewhere"}, b""

    with api(redirected) as (url, _):
        error(enable(node, token, primary, primary_api_addr=url), 400, "status code is 307")
    assert elsewhere == [UNWRAP]
    for reply, code in (
        ((200, {}, b"{" + b" " * 200000 + b"}"), 500), ((200, {}, b"no json"), 500),
        ((200, {}, b'{"data":null}'), 500), ((200, {}, b'{"data":{"id":"x"}}'), 500),
        ((403, {}, b'{"errors":["permission denied"]}'), 400), ((500, {}, b"<html>"), 400),
    ):
        with api(lambda path, body, reply=reply: reply) as (url, _):
            text = error(enable(node, token, primary, primary_api_addr=f"{url}/"), code,
                         "unwrapping secondary token")
        assert "status code is 403: permission denied" in text or reply[0] != 403
    assert status(node) == {"mode": "disabled"}
    unwrap(primary.nodes[0], token)  # nobody has used it
    call(primary.nodes[0], "POST", REVOKE, {"id": "api"}, status=204)


def test_a_primary_that_is_not_the_tokens_is_refused(primary, other):
    """The authority of the bundle is not that of the port that answers."""
    bundle = unwrap(primary.nodes[0], make_token(primary, "ports"))
    bundle["ca"] = (other.dir / "tls" / "ca.pem").read_text()
    token = make_token(primary, "carrier")
    with api(lambda path, body: wrapped(bundle)) as (url, _):
        error(enable(other.nodes[0], token, primary, primary_api_addr=url), 502,
              "no node of the primary gives the activation", "same token")
    assert status(other.nodes[0]) == {"mode": "disabled"}
    for name in ("ports", "carrier"):
        call(primary.nodes[0], "POST", REVOKE, {"id": name}, status=204)


def test_a_der_signature_is_accepted(primary, fresh):
    token = with_der_signature(make_token(primary, "der"))
    told = enable(fresh.nodes[0], token, primary)
    assert told.status == 200, told.body
    await_mode(fresh, "secondary")


def test_a_token_may_be_sealed_for_a_public_key(primary, fresh):
    node = fresh.nodes[0]
    first = call(node, "POST", PUBLIC_KEY, {}).data["secondary_public_key"]
    stale = call(primary.nodes[0], "POST", TOKEN, {"id": "stale", "secondary_public_key": first})
    assert stale.json["wrap_info"] is None and stale.data["token"].startswith("hdr1.")
    key = call(node, "POST", PUBLIC_KEY, {}).data["secondary_public_key"]
    assert len(base64.b64decode(key)) == 32 and key != first
    error(enable(node, stale.data["token"], primary), 400, "sealed for another public key")
    sealed = call(primary.nodes[0], "POST", TOKEN, {"id": "boxed", "secondary_public_key": key})
    told = node.call("POST", ENABLE, {"token": sealed.data["token"]})  # no API is asked
    assert told.status == 200, told.body
    await_mode(fresh, "secondary")
    assert status(node)["secondary_id"] == "boxed"


def test_there_must_be_room(primary):
    with Single(config={"state_bytes_max": "20KiB"}) as small:
        small.await_feature_level()
        token = make_token(primary, "small")
        call(primary.nodes[0], "PUT", "/v1/kv/big", {"x": "y" * 100000}, status=204)
        error(enable(small.nodes[0], token, primary), 400, "state_bytes_max")
        assert status(small.nodes[0]) == {"mode": "disabled"}


def test_a_secondary_must_be_able_to_unseal():
    with Keyless(size=1) as a, SingleShamir() as b:
        become_primary(a)
        b.await_feature_level()
        error(enable(b.nodes[0], make_token(a, "x"), a), 400, "recovery keys", "static seal")
        assert status(b.nodes[0]) == {"mode": "disabled"}


def test_a_shamir_cluster_follows_one_with_recovery_keys(primary):
    with SingleShamir() as b:
        b.await_feature_level()
        assert enable(b.nodes[0], make_token(primary, "shamir"), primary).status == 200
        await_mode(b, "secondary")


def test_update_primary(primary, fresh):
    node = fresh.nodes[0]
    assert enable(node, make_token(primary, "updates"), primary).status == 200
    await_mode(fresh, "secondary")
    fresh.await_until(lambda: status(node)["state"] == "stream-wals")
    dr = {"dr_operation_token": operation_token(fresh.nodes, primary.recovery_keys)}
    error(node.call("POST", UPDATE, {"token": "x"}, token=""), 400, "dr_operation_token: missing")
    error(node.call("POST", UPDATE, dr | {"token": "hvs.x"}, token=""), 400, "neither")
    for body in ({}, {"tokn": "x"}, {"token": None}, {"update_primary_addrs": []}):
        error(node.call("POST", UPDATE, dr | body, token=""), 400, "token: is required")
    assert status(node)["secondary_id"] == "updates"  # it did not forget its primary
    with Single() as stranger:
        become_primary(stranger)
        token = make_token(stranger, "x")
        body = dr | {"token": token, "ca_file": ca_of(stranger)}
        error(node.call("POST", UPDATE, body, token=""), 400, "another replication set")
    body = dr | {"token": make_token(primary, "again"), "ca_file": ca_of(primary)}
    told = call(node, "POST", UPDATE, body, "")
    assert told.json["warnings"] and status(node)["secondary_id"] == "again"
    assert status(node)["state"] in SYNCED

    good = f"127.0.0.1:{primary.nodes[1].cluster_port}"
    for addresses, code, word in (
        (["nonsense"], 400, "nonsense"), (["127.0.0.1:1"], 502, "no address"),
        ([f"127.0.0.1:{node.cluster_port}"], 502, "no address"),  # another cluster's port
        ([f"127.0.0.1:{i + 1}" for i in range(17)], 400, "at most"),
    ):
        body = dr | {"update_primary_addrs": addresses}
        error(node.call("POST", UPDATE, body, token=""), code, word)
    both = dr | {"update_primary_addrs": [good], "token": "x"}
    error(node.call("POST", UPDATE, both, token=""), 400, "either")
    body = dr | {"update_primary_addrs": ["127.0.0.1:1", f"https://{good}"]}
    assert call(node, "POST", UPDATE, body, "").json["warnings"]

    key = call(node, "POST", PUBLIC_KEY, dr, "").data["secondary_public_key"]
    sealed = call(primary.nodes[0], "POST", TOKEN, {"id": "third", "secondary_public_key": key})
    call(node, "POST", UPDATE, dr | {"token": sealed.data["token"]}, "")
    assert status(node)["secondary_id"] == "third"


def test_a_demoted_cluster_has_no_primary_whose_address_could_change(fresh):
    become_primary(fresh)
    node = fresh.nodes[0]
    call(node, "POST", f"{DR}/primary/demote")
    await_mode(fresh, "secondary")
    dr = {"dr_operation_token": operation_token(fresh.nodes, fresh.recovery_keys)}
    body = dr | {"update_primary_addrs": ["127.0.0.1:1"]}
    error(node.call("POST", UPDATE, body, token=""), 400, "has no primary")
    call(node, "POST", UPDATE, dr | {"token": ""}, "")


def test_what_a_secondary_serves_for_an_operation_token():
    with Recoverable() as c:
        become_primary(c)
        call(c.nodes[0], "POST", f"{DR}/primary/demote")
        await_mode(c, "secondary")
        dr = {"dr_operation_token": operation_token(c.nodes, c.recovery_keys)}
        raft = "/v1/sys/storage/raft"
        license_path = f"{DR}/secondary/license/status"
        for path in (f"{raft}/configuration", f"{raft}/autopilot/state",
                     f"{raft}/autopilot/configuration", "/v1/sys/step-down", "/v1/sys/seal",
                     f"{raft}/remove-peer"):
            assert c.nodes[0].call("PUT", path, {"server_id": "x"}).json == DISABLED
        for node in c.nodes:
            servers = call(node, "PUT", f"{raft}/configuration", dr, "").data["config"]["servers"]
            assert {s["node_id"] for s in servers} == {n.name for n in c.nodes}
            assert call(node, "POST", f"{raft}/autopilot/state", dr, "").data["healthy"] in (
                True, False)
            by_header = dr["dr_operation_token"]  # as upstream's clients read, which has no body
            assert call(node, "GET", f"{raft}/autopilot/state", token=by_header).data["servers"]
            for token in ("", c.token, by_header + "x"):
                assert node.call("GET", f"{raft}/autopilot/state", token=token).json == DISABLED
            assert node.call("POST", f"{raft}/autopilot/state", {}, token=by_header).json == DISABLED
            told = call(node, "POST", f"{raft}/autopilot/configuration", dr, "").data
            assert told["server_stabilization_time"]
            license_told = call(node, "POST", license_path, dr, "").data["autoloaded"]
            assert "DR Replication" in license_told["features"]
            reload = f"{DR}/secondary/config/reload/license"
            assert node.call("POST", reload, dr, token="").status == 204
            error(node.call("POST", reload, {}, token=""), 400, "missing")
        error(c.nodes[0].call("GET", license_path, token=""), 400, "missing")
        change = dr | {"server_stabilization_time": "11s"}
        assert c.nodes[1].call("POST", f"{raft}/autopilot/configuration", change,
                               token="").status == 204
        told = call(c.nodes[2], "POST", f"{raft}/autopilot/configuration", dr, "").data
        assert told["server_stabilization_time"] == "11s"
        unknown = dr | {"server_id": "nobody"}
        assert c.nodes[1].call("POST", f"{raft}/remove-peer", unknown, token="").status == 204
        leader = [n for n in c.nodes
                  if call(n, "GET", "/v1/sys/leader", token="").json["is_self"]][0]
        assert c.nodes[0].call("PUT", "/v1/sys/step-down", dr, token="").status == 204
        c.await_until(
            lambda: not call(leader, "GET", "/v1/sys/leader", token="").json["is_self"])
        assert leader.call("PUT", "/v1/sys/seal", dr, token="").status == 204
        c.await_until(lambda: call(leader, "GET", "/v1/sys/seal-status", token="").json["sealed"])


def test_a_cluster_that_is_no_secondary_has_these_paths_too(other):
    node = other.nodes[0]
    assert call(node, "GET", f"{DR}/secondary/license/status").data["autoloading_used"]
    assert node.call("POST", f"{DR}/secondary/config/reload/license", {}).status == 204
    raft = "/v1/sys/storage/raft"
    read, posted = (call(node, method, f"{raft}/configuration", body).data["config"]["servers"]
                    for method, body in (("GET", None), ("POST", {})))
    assert read == posted
    assert call(node, "POST", f"{raft}/autopilot/state", {}).data["leader"] == "node1"
    error(node.call("POST", UPDATE, {"token": ""}), 400, "no DR secondary")
