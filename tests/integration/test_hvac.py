"""Upstream's Python client, unmodified, against three nodes: every function of the client that the server
supports."""

import base64
import json
import time
import urllib.parse

import hvac
import pytest
from hvac import adapters, exceptions

from activation import DR, await_mode, become_primary, call
from cluster import PATIENCE_S, Answer, Cluster, Recoverable, note
from gnupg import Gpg

SHAMIR = {"seal": {"static": None, "shamir": {}}}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:hvac")
POLICY = 'path "secret/data/app/*" { capabilities = ["create", "read", "update"] }'


def heard(response, **_):
    """What the client asked and was told goes where the calls of all other tests go."""
    asked = response.request
    url = urllib.parse.urlsplit(asked.url)
    endless = url.path == "/v1/sys/monitor" and response.status_code == 200
    body = None if endless else response.content
    answer = Answer(response.status_code, response.headers, body)
    target = urllib.parse.urlunsplit(("", "", url.path, url.query, ""))
    note(url.port, asked.method, target, asked.body, asked.headers, answer, "hvac")


def connect(node, token=None, **more):
    """A client of one node, as a user makes it: address, certificate authority, token."""
    node.cluster.secrets.add("a token", token or "")
    ca = str(node.cluster.dir / "tls" / "tls-ca.pem")
    client = hvac.Client(url=node.url, token=token, verify=ca, timeout=120, **more)
    client.session.hooks["response"].append(heard)
    return client


def as_token(node, answer):
    return connect(node, answer["auth"]["client_token"])


@pytest.fixture
def client(cluster):
    return connect(cluster.standbys()[0], cluster.token)


@pytest.fixture(scope="module")
def v2(cluster):
    return connect(cluster.standbys()[0], cluster.token).secrets.kv.v2


def test_health_leader_and_seal_status_of_every_node(cluster):
    for node in cluster.nodes:
        client = connect(node)
        health = client.sys.read_health_status(
            method="GET", active_code=200, performance_standby_code=200)
        assert health["initialized"] and not health["sealed"]
        assert client.sys.read_health_status(method="HEAD").status_code in (200, 473)
        other = client.sys.read_health_status(
            method="GET", active_code=299, performance_standby_code=299)
        assert other.status_code == 299 and other.json()["initialized"]
        status = client.sys.read_seal_status()
        assert (status["initialized"], status["sealed"]) == (True, False)
        assert client.seal_status["version"] == status["version"]
        assert client.sys.is_sealed() is False and client.sys.is_initialized() is True
        assert client.sys.read_init_status() == {"initialized": True}
        leader = client.sys.read_leader_status()
        assert leader["ha_enabled"] and leader["leader_address"] in {n.url for n in cluster.nodes}
        leader = client.ha_status
        assert leader["is_self"] is (leader["leader_address"] == node.url)


def test_who_has_no_good_token_is_not_authenticated(cluster):
    node = cluster.nodes[0]
    assert connect(node, cluster.token).is_authenticated()
    assert not connect(node).is_authenticated()
    stranger = connect(node, "hvs.nobody-nobody-nobody-nobody")
    assert not stranger.is_authenticated()
    with pytest.raises(exceptions.Forbidden, match="permission denied"):
        stranger.secrets.kv.v2.read_secret_version("x", raise_on_deleted_version=True)


def test_init_unseal_and_seal_with_key_shares():
    made = Cluster(config=SHAMIR)
    try:
        made.start()
        made.await_formed()
        client = connect(made.nodes[0])
        assert client.sys.is_initialized() is False
        with pytest.raises(exceptions.InvalidRequest):
            client.sys.initialize(secret_shares=3, secret_threshold=4)
        result = client.sys.initialize(secret_shares=3, secret_threshold=2)
        made.token = result["root_token"]
        keys = result["keys"]
        assert [base64.b64decode(k).hex() for k in result["keys_base64"]] == keys
        for node in made.nodes:
            client = connect(node, made.token)
            deadline = time.monotonic() + 120
            while client.sys.read_seal_status()["n"] != 3:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            with pytest.raises(exceptions.VaultDown):
                client.secrets.kv.v2.list_secrets("")
            status = client.sys.submit_unseal_key(keys[0])
            assert (status["t"], status["progress"], status["sealed"]) == (2, 1, True)
            assert client.sys.submit_unseal_key(reset=True)["progress"] == 0
            assert client.sys.submit_unseal_keys(keys[1:])["sealed"] is False
        made.await_up()
        client.secrets.kv.v2.create_or_update_secret("sealed", {"a": 1})
        with pytest.raises(exceptions.InvalidRequest):
            client.sys.initialize(secret_shares=1, secret_threshold=1)
        assert client.sys.seal().status_code == 204
        assert client.sys.is_sealed()
        assert client.sys.submit_unseal_keys(result["keys_base64"])["sealed"] is False
        made.await_up()
        assert client.secrets.kv.v2.read_secret("sealed")["data"]["data"] == {"a": 1}
    finally:
        made.__exit__(None, None, None)


def test_a_seal_moves_to_a_key_by_its_shares():
    made = Cluster(size=1, config=SHAMIR)
    try:
        made.start()
        made.await_formed()
        node = made.nodes[0]
        client = connect(node)
        keys = client.sys.initialize(secret_shares=3, secret_threshold=2)["keys"]
        with pytest.raises(exceptions.InvalidRequest, match="no migration seal found"):
            client.sys.submit_unseal_key(keys[0], migrate=True)
        node.stop()
        node.config = {}
        node.start()
        made.await_health({503}, [node])
        client = connect(node)
        deadline = time.monotonic() + 120
        while not client.sys.read_seal_status()["migration"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(exceptions.InvalidRequest, match="migrate option not provided"):
            client.sys.submit_unseal_key(keys[0])
        assert client.sys.submit_unseal_key(keys[0], migrate=True)["progress"] == 1
        assert client.sys.submit_unseal_key(keys[1], migrate=True)["sealed"] is False
        while client.sys.read_seal_status()["type"] != "static":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert client.sys.read_seal_status()["migration"] is False
    finally:
        made.__exit__(None, None, None)


def test_key_shares_make_a_root_token():
    made = Cluster(size=1, config=SHAMIR)
    try:
        made.start()
        made.await_formed()
        client = connect(made.nodes[0])
        result = client.sys.initialize(secret_shares=3, secret_threshold=2)
        client.sys.submit_unseal_keys(result["keys"])
        made.await_up()
        assert client.sys.read_root_generation_progress()["started"] is False
        client.sys.start_root_token_generation(otp="0123456789abcdefghijABCDEFGH")
        assert client.sys.cancel_root_generation()
        assert client.sys.read_root_generation_progress()["started"] is False
        begun = client.sys.start_root_token_generation(otp="0123456789abcdefghijABCDEFGH")
        with pytest.raises(exceptions.InvalidRequest, match="already in progress"):
            client.sys.start_root_token_generation(otp="0123456789abcdefghijABCDEFGH")
        one = client.sys.generate_root(key=result["keys"][0], nonce=begun["nonce"])
        assert (one["progress"], one["required"]) == (1, 2)
        done = client.sys.generate_root(key=result["keys"][2], nonce=begun["nonce"])
        mixed = base64.b64decode(done["encoded_token"] + "==")
        token = bytes(a ^ b for a, b in zip(mixed, b"0123456789abcdefghijABCDEFGH")).decode()
        assert connect(made.nodes[0], token).auth.token.lookup_self()["data"]["policies"] == ["root"]
    finally:
        made.__exit__(None, None, None)


def test_key_shares_are_replaced():
    made = Cluster(size=1, config=SHAMIR)
    try:
        made.start()
        made.await_formed()
        client = connect(made.nodes[0])
        keys = client.sys.initialize(secret_shares=3, secret_threshold=2)["keys"]
        client.sys.submit_unseal_keys(keys)
        made.await_up()
        sys = client.sys
        assert sys.read_rekey_progress()["started"] is False
        wanted = {"secret_shares": 3, "secret_threshold": 2}
        assert sys.start_rekey(**wanted)["required"] == 2
        with pytest.raises(exceptions.InvalidRequest, match="rekey already in progress"):
            sys.start_rekey(**wanted)
        assert sys.cancel_rekey().status_code == 204
        nonce = sys.start_rekey(**wanted)["nonce"]
        assert sys.rekey(key=keys[0], nonce=nonce)["progress"] == 1
        keys = sys.rekey(key=keys[2], nonce=nonce)["keys"]
        nonce = sys.start_rekey(**wanted, require_verification=True)["nonce"]
        new = sys.rekey_multi(keys=keys[:2], nonce=nonce)
        verify = sys.read_rekey_verify_progress()
        assert (verify["nonce"], verify["t"]) == (new["verification_nonce"], 2)
        assert sys.cancel_rekey_verify()
        nonce = sys.read_rekey_verify_progress()["nonce"]
        assert sys.rekey_verify_multi(keys=new["keys"][1:], nonce=nonce)["complete"] is True
        with pytest.raises(exceptions.InvalidRequest, match="no recovery key"):
            sys.start_rekey(**wanted, recovery_key=True)
    finally:
        made.__exit__(None, None, None)


def test_shares_and_tokens_are_encrypted_for_their_holders():
    made = Cluster(size=1, config=SHAMIR)
    with Gpg() as gpg:
        key, text = gpg.make("holder"), base64.b64encode(gpg.public("holder")).decode()
        try:
            made.start()
            made.await_formed()
            sys = connect(made.nodes[0]).sys
            answer = sys.initialize(secret_shares=2, secret_threshold=2, pgp_keys=[text] * 2,
                                    root_token_pgp_key=text)
            keys = [gpg.decrypt(bytes.fromhex(share)) for share in answer["keys"]]
            made.token = gpg.decrypt(base64.b64decode(answer["root_token"]))
            sys.submit_unseal_keys(keys)
            made.await_up()
            made.await_feature_level()
            begun = sys.start_root_token_generation(pgp_key=text)
            assert begun["pgp_fingerprint"] == key
            sys.generate_root(key=keys[0], nonce=begun["nonce"])
            done = sys.generate_root(key=keys[1], nonce=begun["nonce"])
            token = gpg.decrypt(base64.b64decode(done["encoded_token"]))
            sys = connect(made.nodes[0], token).sys
            with pytest.raises(exceptions.InvalidRequest, match="no backed-up keys"):
                sys.read_backup_keys()
            begun = sys.start_rekey(secret_shares=1, secret_threshold=1, pgp_keys=[text],
                                    backup=True)
            assert begun["pgp_fingerprints"] == [key]
            new = sys.rekey_multi(keys=keys, nonce=begun["nonce"])
            kept = sys.read_backup_keys()
            assert kept["keys"] == kept["data"]["keys"] == {key: new["keys"]}
            with pytest.raises(exceptions.InvalidRequest, match="no backed-up keys"):
                sys.read_backup_keys(recovery_key=True)
            client = connect(made.nodes[0], token)
            client.delete("sys/rekey/backup")  # the client has no function for it
            with pytest.raises(exceptions.InvalidRequest, match="no backed-up keys"):
                sys.read_backup_keys()
            rotate(client, "root", gpg, [gpg.decrypt(bytes.fromhex(new["keys"][0]))])
        finally:
            made.__exit__(None, None, None)


def rotate(client, what, gpg, keys):
    """Replace the shares by the newer paths, for which the client has no functions; the new ones."""
    path, text = f"sys/rotate/{what}", base64.b64encode(gpg.public("holder")).decode()
    wanted = {"secret_shares": 2, "secret_threshold": 2, "pgp_keys": [text] * 2, "backup": True,
              "require_verification": True}
    assert client.read(f"{path}/init")["data"]["started"] is False
    client.write_data(f"{path}/init", data=wanted)
    with pytest.raises(exceptions.InvalidRequest, match="already in progress"):
        client.write_data(f"{path}/init", data=wanted)
    client.delete(f"{path}/init")
    with pytest.raises(exceptions.InvalidRequest, match=r"pgp_keys\[1\]: the key"):
        client.write_data(f"{path}/init", data={**wanted, "pgp_keys": [text, "none"]})
    begun = client.write_data(f"{path}/init", data=wanted)["data"]
    assert begun["pgp_fingerprints"] == [gpg.fingerprint("holder")] * 2
    for key in keys:
        given = {"key": key, "nonce": begun["nonce"]}
        made = client.write_data(f"{path}/update", data=given)["data"]
    assert made["complete"] and made["backup"]
    shares = [gpg.decrypt(bytes.fromhex(share)) for share in made["keys"]]
    kept = client.read(f"{path}/backup")["data"]
    assert kept["keys"] == {gpg.fingerprint("holder"): made["keys"]}
    client.delete(f"{path}/backup")
    with pytest.raises(exceptions.InvalidRequest, match="no backed-up keys"):
        client.read(f"{path}/backup")
    client.delete(f"{path}/verify")
    nonce = client.read(f"{path}/verify")["data"]["nonce"]
    for share in shares:
        done = client.write_data(f"{path}/verify", data={"key": share, "nonce": nonce})["data"]
    assert done["complete"]
    return shares


def test_recovery_shares_are_encrypted_backed_up_and_replaced():
    made = Cluster(size=1)
    with Gpg() as gpg:
        key, text = gpg.make("holder"), base64.b64encode(gpg.public("holder")).decode()
        try:
            made.start()
            made.await_formed()
            answer = connect(made.nodes[0]).sys.initialize(
                recovery_shares=2, recovery_threshold=2, recovery_pgp_keys=[text] * 2)
            made.token = answer["root_token"]
            keys = [gpg.decrypt(bytes.fromhex(share)) for share in answer["recovery_keys"]]
            made.await_up()
            made.await_feature_level()
            client = connect(made.nodes[0], made.token)
            sys = client.sys
            assert sys.read_rekey_progress(recovery_key=True)["started"] is False
            wanted = {"secret_shares": 2, "secret_threshold": 2, "pgp_keys": [text] * 2,
                      "backup": True, "recovery_key": True}
            sys.start_rekey(**wanted)
            assert sys.cancel_rekey(recovery_key=True).status_code == 204
            begun = sys.start_rekey(**wanted)
            assert begun["pgp_fingerprints"] == [key] * 2
            new = sys.rekey_multi(keys=keys, nonce=begun["nonce"], recovery_key=True)
            keys = [gpg.decrypt(bytes.fromhex(share)) for share in new["keys"]]
            kept = sys.read_backup_keys(recovery_key=True)
            assert kept["keys"] == kept["data"]["keys"] == {key: new["keys"]}
            client.delete("sys/rekey/recovery-key-backup")
            with pytest.raises(exceptions.InvalidRequest, match="no backed-up keys"):
                sys.read_backup_keys(recovery_key=True)
            keys = rotate(client, "recovery", gpg, keys)
            begun = sys.start_root_token_generation(pgp_key=text)
            sys.generate_root(key=keys[0], nonce=begun["nonce"])
            done = sys.generate_root(key=keys[1], nonce=begun["nonce"])
            token = gpg.decrypt(base64.b64decode(done["encoded_token"]))
            assert connect(made.nodes[0], token).is_authenticated()
        finally:
            made.__exit__(None, None, None)


def test_a_node_joins_by_no_other_provider_than_dns():
    with Cluster(size=1) as made:
        bare = made.add_bare("node2", join="api")
        bare.start()
        made.await_health({501}, [bare])
        client = connect(bare)
        with pytest.raises(exceptions.InvalidRequest, match="dns is available, not aws"):
            client.write_data("sys/storage/raft/join",
                              data={"auto_join": "provider=aws tag_key=a tag_value=b"})
        with pytest.raises(exceptions.InvalidRequest, match="leader_api_addr"):
            client.sys.join_raft_cluster("")


def test_a_step_down_gives_another_node_the_lead():
    with Cluster() as made:
        active = made.active()
        assert connect(active, made.token).sys.step_down().status_code == 204
        first = connect(made.nodes[0])
        deadline = time.monotonic() + PATIENCE_S
        while not first.sys.read_leader_status()["leader_address"]:  # none during the election
            assert time.monotonic() < deadline
            time.sleep(0.02)
        made.await_up()
        assert made.active() is not active


def test_the_keyring_is_rotated(client):
    before = client.sys.get_encryption_key_status()["data"]
    assert client.sys.rotate_encryption_key().status_code == 204
    after = client.sys.get_encryption_key_status()
    assert after["data"]["term"] == before["term"] + 1 == after["term"]
    assert client.key_status["term"] == after["term"]


def test_the_keyring_is_rotated_by_itself(client):
    before = client.read("sys/rotate/config")["data"]
    wanted = {"enabled": True, "max_operations": 2000000, "interval": "24h"}
    assert client.write_data("sys/rotate/config", data=wanted).status_code == 204
    after = client.read("sys/rotate/config")["data"]
    assert after == {"enabled": True, "max_operations": 2000000, "interval": "24h0m0s"}
    with pytest.raises(exceptions.InvalidRequest, match="max_operations"):
        client.write_data("sys/rotate/config", data={"max_operations": 1})
    client.write_data("sys/rotate/config", data=before)


def test_a_node_is_reloaded_and_its_log_followed(cluster):
    node = cluster.standbys()[0]
    client, raw = connect(node, cluster.token), connect(node, cluster.token,
                                                        adapter=adapters.RawAdapter)
    with pytest.raises(exceptions.InvalidRequest, match="unknown log level"):
        raw.adapter.get("/v1/sys/monitor?log_level=loud")
    path = "/v1/sys/monitor?log_level=debug&log_format=json"
    with raw.adapter.get(path, stream=True) as reply:
        assert client.write_data("sys/config/reload/log_level").status_code == 204
        for line in reply.iter_lines(chunk_size=1):
            if json.loads(line)["@message"] == "an operator reloads log_level":
                break
    with pytest.raises(exceptions.InvalidRequest, match="log_level or license is expected"):
        client.write_data("sys/config/reload/nothing")


def test_headers_for_web_pages_and_the_catalog(client):
    path = "sys/config/ui/headers"
    client.write_data(f"{path}/X-Py", data={"values": ["one", "two"]})
    assert client.list(path)["data"]["keys"] == ["X-Py"]
    assert client.read(f"{path}/X-Py")["data"]["value"] == "one"
    with pytest.raises(exceptions.InvalidRequest, match="X-Vault"):
        client.write_data(f"{path}/X-Vault-Py", data={"values": "one"})
    client.delete(f"{path}/X-Py")
    assert client.read(f"{path}/X-Py") is None
    assert "kv" in client.read("sys/plugins/catalog")["data"]["secret"]


def test_what_is_switched_off_replies_as_upstream_does(client):
    assert client.read("sys/raw/core/mounts") is client.list("sys/raw/core") is None
    with pytest.raises(exceptions.InvalidPath):
        client.write_data("sys/raw/core/mounts", data={"value": "x"})
    with pytest.raises(exceptions.InvalidRequest, match="introspection_endpoint"):
        client.read("sys/internal/inspect/router/root")
    for which in ("", "/monthly", "/export"):
        assert client.read(f"sys/internal/counters/activity{which}").status_code == 204
    for which in ("", "/heap", "/profile"):
        assert client.read(f"sys/pprof{which}") is None
        with pytest.raises(exceptions.InvalidPath, match="Profiles of a running node are not built"):
            client.write_data(f"sys/pprof{which}", data={})


def test_mounts_are_made_tuned_moved_and_removed(client):
    sys = client.sys
    v1 = {"version": "1"}
    assert sys.enable_secrets_engine("kv", path="hvac/one", description="one", options=v1,
                                     config={"default_lease_ttl": "1h"}).status_code == 204
    mounts = sys.list_mounted_secrets_engines()
    entry = mounts["data"]["hvac/one/"]
    assert (entry["type"], entry["description"], entry["options"]) == ("kv", "one", v1)
    assert entry["config"]["default_lease_ttl"] == 3600
    assert mounts["hvac/one/"] == entry
    assert sys.retrieve_mount_option("hvac/one", "version") == "1"
    assert sys.tune_mount_configuration("hvac/one", default_lease_ttl="2h", max_lease_ttl="3h",
                                        description="two", listing_visibility="unauth").ok
    tuned = sys.read_mount_configuration("hvac/one")["data"]
    assert (tuned["default_lease_ttl"], tuned["max_lease_ttl"]) == (7200, 10800)
    assert tuned["description"] == "two"
    client.secrets.kv.v1.create_or_update_secret("a", {"b": "c"}, mount_point="hvac/one")
    assert sys.move_backend("hvac/one", "hvac-two")["data"]["migration_id"]
    deadline = time.monotonic() + 120
    while "hvac-two/" not in sys.list_mounted_secrets_engines()["data"]:
        assert time.monotonic() < deadline
    assert client.secrets.kv.v1.read_secret("a", mount_point="hvac-two")["data"] == {"b": "c"}
    with pytest.raises(exceptions.InvalidPath):
        client.secrets.kv.v1.read_secret("a", mount_point="hvac/one")
    with pytest.raises(exceptions.InvalidRequest, match="in use"):
        sys.enable_secrets_engine("kv", path="hvac-two")
    assert sys.disable_secrets_engine("hvac-two").status_code == 204
    assert sys.disable_secrets_engine("hvac-two").status_code == 204


def test_auth_mounts_are_listed_and_tuned(client):
    assert "token/" in client.sys.list_auth_methods()["data"]
    assert client.sys.tune_auth_method("token", description="tuned").status_code == 204
    assert client.sys.read_auth_method_tuning("token")["data"]["description"] == "tuned"


@pytest.mark.parametrize("legacy", [False, True])
def test_policies(client, legacy):
    sys = client.sys
    put = sys.create_or_update_policy if legacy else sys.create_or_update_acl_policy
    read = sys.read_policy if legacy else sys.read_acl_policy
    listed = sys.list_policies if legacy else sys.list_acl_policies
    delete = sys.delete_policy if legacy else sys.delete_acl_policy
    text = "rules" if legacy else "policy"
    assert put("hvac-text", POLICY).status_code == 204
    assert put("hvac-json", {"path": {"secret/*": {"capabilities": ["list"]}}}).status_code == 204
    shown = read("hvac-text")["data"]
    assert (shown["name"], shown[text]) == ("hvac-text", POLICY)
    assert json.loads(read("hvac-json")["data"][text])["path"]["secret/*"]
    assert set(listed()["data"]["policies" if legacy else "keys"]) >= {
        "default", "hvac-json", "hvac-text", "root"}
    assert client.get_policy("hvac-text") == POLICY
    with pytest.raises(exceptions.InvalidRequest):
        put("hvac-bad", 'path "x" { capabilities = ["fly"] }')
    for name in ("hvac-text", "hvac-json"):
        assert delete(name).status_code == 204
        with pytest.raises(exceptions.InvalidPath):
            read(name)
    assert client.get_policy("hvac-text") is None


def test_capabilities_of_tokens_accessors_and_oneself(cluster, client):
    client.sys.create_or_update_policy("hvac-app", POLICY)
    auth = client.auth.token.create(policies=["hvac-app"])["auth"]
    path, want = "secret/data/app/x", ["create", "read", "update"]
    assert client.sys.get_capabilities(path, token=auth["client_token"])["data"][path] == want
    assert client.sys.get_capabilities(path, accessor=auth["accessor"])["data"][path] == want
    both = client.sys.get_capabilities([path, "secret/data/b"], token=auth["client_token"])
    assert both["data"] == {path: want, "secret/data/b": ["deny"]} == {
        key: both[key] for key in both["data"]}
    mine = connect(cluster.nodes[0], auth["client_token"])
    assert mine.sys.get_capabilities(path)["data"] == {path: want, "capabilities": want}
    assert mine.sys.get_capabilities(path)["capabilities"] == want
    assert client.sys.get_capabilities(path)["data"][path] == ["root"]
    mine.secrets.kv.v2.create_or_update_secret("app/x", {"a": "b"})
    with pytest.raises(exceptions.Forbidden, match="permission denied"):
        mine.secrets.kv.v2.delete_latest_version_of_secret("app/x")


def test_a_token_is_made_looked_up_renewed_and_revoked(cluster, client):
    token = client.auth.token
    made = token.create(policies=["default"], ttl="1h", explicit_max_ttl="4h", meta={"who": "hvac"},
                        display_name="robot", num_uses=0, renewable=True)
    auth = made["auth"]
    assert auth["policies"] == ["default"] and auth["metadata"] == {"who": "hvac"}
    assert (auth["lease_duration"], auth["renewable"]) == (3600, True)
    assert auth["token_type"] == "service"
    data = token.lookup(auth["client_token"])["data"]
    assert data["display_name"] == "token-robot" and data["meta"] == {"who": "hvac"}
    assert data["explicit_max_ttl"] == 4 * 3600 and 0 < data["ttl"] <= 3600
    by_accessor = token.lookup_accessor(auth["accessor"])["data"]
    assert by_accessor["accessor"] == auth["accessor"] and by_accessor["id"] == ""
    assert auth["accessor"] in token.list_accessors()["data"]["keys"]
    mine = as_token(cluster.nodes[0], made)
    assert mine.auth.token.lookup_self()["data"]["id"] == auth["client_token"]
    assert mine.lookup_token()["data"]["accessor"] == auth["accessor"]
    assert mine.auth.token.renew_self(increment="2h")["auth"]["lease_duration"] == 7200
    assert token.renew(auth["client_token"], increment="30m")["auth"]["lease_duration"] == 1800
    assert token.renew_accessor(auth["accessor"], increment=60)["auth"]["lease_duration"] == 60
    assert token.revoke(auth["client_token"]).status_code == 204
    assert not mine.is_authenticated()
    with pytest.raises(exceptions.Forbidden, match="bad token"):
        token.lookup(auth["client_token"])
    with pytest.raises(exceptions.InvalidRequest):
        token.renew(auth["client_token"])


def test_tokens_end_by_accessor_by_themselves_and_by_their_uses(cluster, client):
    made = client.auth.token.create(policies=["default"])
    assert client.auth.token.revoke_accessor(made["auth"]["accessor"]).status_code == 204
    assert not as_token(cluster.nodes[1], made).is_authenticated()
    mine = as_token(cluster.nodes[1], client.auth.token.create(policies=["default"]))
    assert mine.auth.token.revoke_self().status_code == 204
    assert not mine.is_authenticated()
    mine = as_token(cluster.nodes[1], client.auth.token.create(policies=["default"], num_uses=2))
    assert [mine.is_authenticated() for _ in range(3)] == [True, True, False]
    mine = as_token(cluster.nodes[1], client.auth.token.create(policies=["default"]))
    mine.logout(revoke_token=True)
    assert mine.token is None


def test_children_end_with_their_parent_unless_they_are_orphans(cluster, client):
    parent = client.auth.token.create(policies=["root"], ttl="1h")
    mine = as_token(cluster.nodes[0], parent)
    child = mine.auth.token.create(policies=["default"])
    orphan = mine.auth.token.create_orphan(policies=["default"])
    other = mine.auth.token.create(policies=["default"], no_parent=True)
    assert orphan["auth"]["orphan"] is True and child["auth"]["orphan"] is False
    client.auth.token.revoke(parent["auth"]["client_token"])
    alive = [as_token(cluster.nodes[2], t).is_authenticated() for t in (child, orphan, other)]
    assert alive == [False, True, True]
    parent = client.auth.token.create(policies=["root"], ttl="1h")
    child = as_token(cluster.nodes[0], parent).auth.token.create(policies=["default"])
    client.auth.token.revoke_and_orphan_children(parent["auth"]["client_token"])
    assert as_token(cluster.nodes[2], child).auth.token.lookup_self()["data"]["orphan"] is True


def test_batch_and_periodic_tokens(cluster, client):
    batch = client.auth.token.create(policies=["default"], type="batch", ttl="1h")
    assert batch["auth"]["token_type"] == "batch" and batch["auth"]["accessor"] == ""
    mine = as_token(cluster.nodes[2], batch)
    assert mine.auth.token.lookup_self()["data"]["type"] == "batch"
    with pytest.raises(exceptions.InvalidRequest):
        mine.auth.token.renew_self()
    periodic = client.auth.token.create(policies=["default"], period="1h")
    renewed = as_token(cluster.nodes[2], periodic).auth.token.renew_self()
    assert renewed["auth"]["lease_duration"] == 3600


def test_roles_of_tokens(client):
    token = client.auth.token
    assert token.create_or_update_role("hvac", allowed_policies="default,app", orphan=True,
                                       token_period="1h", path_suffix="tail").status_code == 204
    role = token.read_role("hvac")["data"]
    assert role["allowed_policies"] == ["default", "app"] and role["orphan"] is True
    assert token.list_roles()["data"]["keys"] == ["hvac"]
    made = token.create(role_name="hvac", policies=["default"])
    assert made["auth"]["orphan"] is True and made["auth"]["lease_duration"] == 3600
    assert token.delete_role("hvac").status_code == 204
    with pytest.raises(exceptions.InvalidPath):
        token.read_role("hvac")
    assert token.tidy().status_code in (202, 204)


def test_key_value_version_1(client):
    v1 = client.secrets.kv.v1
    at = {"mount_point": "kv"}
    for n, method in ((1, "POST"), (2, "PUT")):
        put = v1.create_or_update_secret("hvac/a", {"n": n, "s": "ü"}, method=method, **at)
        assert put.status_code == 204
    assert v1.create_or_update_secret("hvac/b/c", {"x": [True, None]}, **at).status_code == 204
    read = v1.read_secret("hvac/a", **at)
    assert read["data"] == {"n": 2, "s": "ü"} and read["lease_duration"] == 2764800
    assert v1.list_secrets("hvac", **at)["data"]["keys"] == ["a", "b/"]
    assert v1.delete_secret("hvac/a", **at).status_code == 204
    with pytest.raises(exceptions.InvalidPath):
        v1.read_secret("hvac/a", **at)
    with pytest.raises(exceptions.InvalidPath):
        v1.list_secrets("hvac/nothing", **at)


def test_key_value_version_2_writes_reads_and_lists(v2):
    assert v2.create_or_update_secret("hvac/a", {"n": 1})["data"]["version"] == 1
    assert v2.create_or_update_secret("hvac/a", {"n": 2}, cas=1)["data"]["version"] == 2
    with pytest.raises(exceptions.InvalidRequest, match="check-and-set"):
        v2.create_or_update_secret("hvac/a", {"n": 3}, cas=1)
    v2.create_or_update_secret("hvac/b/c", {"x": "y"}, cas=0)
    assert v2.read_secret("hvac/a")["data"]["data"] == {"n": 2}
    read = v2.read_secret_version("hvac/a", version=1, raise_on_deleted_version=True)["data"]
    assert read["data"] == {"n": 1} and read["metadata"]["version"] == 1
    assert v2.list_secrets("hvac")["data"]["keys"] == ["a", "b/"]
    with pytest.raises(exceptions.InvalidPath):
        v2.read_secret("hvac/none")
    with pytest.raises(exceptions.InvalidPath):
        v2.list_secrets("hvac/none")


def test_key_value_version_2_patches(v2):
    with pytest.raises(exceptions.InvalidPath):
        v2.patch("hvac/patch", {"a": 1})
    v2.create_or_update_secret("hvac/patch", {"a": 1, "b": 2})
    assert v2.patch("hvac/patch", {"b": 3, "c": 4})["data"]["version"] == 2
    assert v2.read_secret("hvac/patch")["data"]["data"] == {"a": 1, "b": 3, "c": 4}


def test_key_value_version_2_deletes_undeletes_and_destroys(v2):
    for n in range(1, 4):
        v2.create_or_update_secret("hvac/del", {"n": n})
    assert v2.delete_latest_version_of_secret("hvac/del").status_code == 204
    with pytest.raises(exceptions.InvalidPath):
        v2.read_secret_version("hvac/del", raise_on_deleted_version=True)
    gone = v2.read_secret_version("hvac/del", raise_on_deleted_version=False)["data"]
    assert gone["data"] is None and gone["metadata"]["deletion_time"]
    assert v2.delete_secret_versions("hvac/del", [1]).status_code == 204
    assert v2.undelete_secret_versions("hvac/del", [1, 3]).status_code == 204
    assert v2.read_secret("hvac/del")["data"]["data"] == {"n": 3}
    assert v2.destroy_secret_versions("hvac/del", [1, 2]).status_code == 204
    versions = v2.read_secret_metadata("hvac/del")["data"]["versions"]
    assert [versions[str(n)]["destroyed"] for n in (1, 2, 3)] == [True, True, False]
    assert v2.delete_metadata_and_all_versions("hvac/del").status_code == 204
    with pytest.raises(exceptions.InvalidPath):
        v2.read_secret_metadata("hvac/del")


def test_key_value_version_2_settings(client, v2):
    client.sys.enable_secrets_engine("kv", path="hvac-v2", options={"version": "2"})
    at = {"mount_point": "hvac-v2"}
    done = v2.configure(max_versions=3, cas_required=True, delete_version_after="1h", **at)
    assert done.status_code == 204
    config = v2.read_configuration(**at)["data"]
    assert config == {"max_versions": 3, "cas_required": True, "metadata_cas_required": False,
                      "delete_version_after": "1h0m0s"}
    with pytest.raises(exceptions.InvalidRequest, match="check-and-set"):
        v2.create_or_update_secret("a", {"n": 0}, **at)
    for n in range(5):
        v2.create_or_update_secret("a", {"n": n}, cas=n, **at)
    data = v2.read_secret_metadata("a", **at)["data"]
    assert sorted(data["versions"]) == ["3", "4", "5"] and data["oldest_version"] == 3
    assert v2.update_metadata("a", max_versions=2, cas_required=True, delete_version_after="30m",
                              custom_metadata={"owner": "hvac"}, **at).status_code == 204
    data = v2.read_secret_metadata("a", **at)["data"]
    assert data["custom_metadata"] == {"owner": "hvac"} and data["max_versions"] == 2
    assert data["delete_version_after"] == "30m0s"
    client.sys.disable_secrets_engine("hvac-v2")


def test_generic_calls_and_the_cubbyhole(cluster, client):
    assert client.write("cubbyhole/a/b", x="1").status_code == 204
    assert client.write_data("cubbyhole/c", data={"path": "p"}).status_code == 204
    assert client.read("cubbyhole/a/b")["data"] == {"x": "1"}
    assert client.list("cubbyhole")["data"]["keys"] == ["a/", "c"]
    other = as_token(cluster.nodes[0], client.auth.token.create(policies=["default"]))
    assert other.read("cubbyhole/a/b") is None and other.list("cubbyhole") is None
    client.delete("cubbyhole/a/b")
    assert client.read("cubbyhole/a/b") is None
    assert client.list("cubbyhole")["data"]["keys"] == ["c"]
    client.write_data("secret/data/hvac/generic", data={"data": {"a": 1}})
    assert client.read("secret/data/hvac/generic")["data"]["data"] == {"a": 1}
    with pytest.raises(exceptions.InvalidPath):
        client.write("nowhere/x", a="b")


def test_answers_are_wrapped_and_unwrapped_once(cluster, client):
    wrapped = client.sys.wrap({"secret": "inside"}, ttl=120)["wrap_info"]
    assert wrapped["ttl"] == 120
    assert client.sys.unwrap(wrapped["token"])["data"] == {"secret": "inside"}
    with pytest.raises(exceptions.InvalidRequest):
        client.sys.unwrap(wrapped["token"])
    created = client.auth.token.create(policies=["default"], wrap_ttl="60s")
    assert created["auth"] is None and created["wrap_info"]["wrapped_accessor"]
    bearer = connect(cluster.nodes[0], created["wrap_info"]["token"])
    auth = bearer.sys.unwrap()["auth"]
    assert auth["accessor"] == created["wrap_info"]["wrapped_accessor"]
    assert connect(cluster.nodes[1], auth["client_token"]).is_authenticated()
    client.write_data("cubbyhole/wrap", data={"k": "v"})
    info = client.read("cubbyhole/wrap", wrap_ttl="1m")["wrap_info"]
    assert client.sys.unwrap(info["token"])["data"] == {"k": "v"}
    created = client.auth.token.create(policies=["default"], wrap_ttl="60s")
    hole = connect(cluster.nodes[2])
    hole.auth_cubbyhole(created["wrap_info"]["token"])
    assert hole.is_authenticated()


def test_a_wrapping_token_may_be_a_jwt(cluster, client):
    cluster.await_feature_level()
    headers = {"X-Vault-Wrap-TTL": "60s", "X-Vault-Wrap-Format": "jwt"}
    for token in (None, client.token):  # the JWT in the header, and in the body
        made = client.adapter.post("/v1/sys/wrapping/wrap", json={"k": "v"}, headers=headers)
        jwt = made["wrap_info"]["token"]
        assert jwt.count(".") == 2
        taker = connect(cluster.nodes[1], token or jwt)
        assert taker.sys.unwrap(jwt if token else None)["data"] == {"k": "v"}
        with pytest.raises(exceptions.InvalidRequest):
            taker.sys.unwrap(jwt if token else None)


def test_a_snapshot_is_taken_and_restored():
    with Cluster() as made:
        client = connect(made.standbys()[0], made.token)
        taken = client.sys.take_raft_snapshot()
        assert taken.status_code == 200
        snapshot = taken.content
        client.write_data("cubbyhole/later", data={"a": "b"})
        assert client.sys.restore_raft_snapshot(snapshot).status_code == 204
        made.await_up()
        assert client.read("cubbyhole/later") is None
        with pytest.raises(exceptions.InvalidRequest):
            client.sys.restore_raft_snapshot(snapshot[: len(snapshot) // 2])
        assert client.sys.force_restore_raft_snapshot(snapshot).status_code == 204
        made.await_up()


def test_snapshots_are_saved_by_a_schedule(cluster, client, tmp_path):
    cluster.await_feature_level()
    with pytest.raises(exceptions.InvalidRequest, match="storage_type"):
        client.sys.create_or_update_raft_auto_snapshot_config("py", "1h", "google-gcs")
    client.sys.create_or_update_raft_auto_snapshot_config(
        "py", "1h", "local", retain=3, path_prefix=str(tmp_path), local_max_space="1GiB")
    assert client.sys.list_raft_auto_snapshot_configs()["data"]["keys"] == ["py"]
    config = client.sys.read_raft_auto_snapshot_config("py")["data"]
    assert (config["interval"], config["retain"]) == (3600, 3)
    deadline = time.monotonic() + 60
    while not client.sys.read_raft_auto_snapshot_status("py")["data"]["last_snapshot_url"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(list(tmp_path.glob("*.snap"))) == 1
    client.sys.delete_raft_auto_snapshot_config("py")
    with pytest.raises(exceptions.InvalidPath):
        client.sys.read_raft_auto_snapshot_config("py")


def test_members_are_shown_and_removed():
    with Cluster(size=3) as made:
        client = connect(made.active(), made.token)
        servers = client.sys.read_raft_config()["data"]["config"]["servers"]
        assert sorted(s["node_id"] for s in servers) == ["node1", "node2", "node3"]
        assert len([s for s in servers if s["leader"]]) == 1
        victim = made.standbys()[0]
        victim.stop()
        assert client.sys.remove_raft_node(victim.name).status_code == 204
        servers = client.sys.read_raft_config()["data"]["config"]["servers"]
        assert victim.name not in [s["node_id"] for s in servers]


def test_errors_are_of_upstreams_kinds(client):
    with pytest.raises(exceptions.UnexpectedError, match="unsupported operation"):
        client.adapter.post("/v1/sys/key-status")
    with pytest.raises(exceptions.InvalidRequest):
        client.adapter.request("post", "/v1/sys/policy/x", data=b"{", headers={})
    with pytest.raises(exceptions.InvalidPath, match="no handler for route"):
        client.adapter.get("/v1/nowhere/x")


def test_leases_of_tokens(cluster, client):
    node = cluster.nodes[0]
    folder = "auth/token/create-orphan"
    assert client.sys.revoke_prefix(folder).status_code == 204  # those of other tests
    made = client.auth.token.create_orphan(ttl="1h", policies=["default"])
    token = as_token(node, made)
    (name,) = client.sys.list_leases(folder)["data"]["keys"]
    lease = client.sys.read_lease(f"{folder}/{name}")["data"]
    assert lease["id"] == f"{folder}/{name}" and 0 < lease["ttl"] <= 3600
    with pytest.raises(exceptions.InvalidRequest, match="tokens cannot be renewed"):
        client.sys.renew_lease(lease["id"])
    assert client.sys.revoke_lease(lease["id"]).status_code == 204
    assert not token.is_authenticated()
    with pytest.raises(exceptions.InvalidRequest, match="invalid lease"):
        client.sys.read_lease(lease["id"])
    for revoke in (client.sys.revoke_prefix, client.sys.revoke_force):
        token = as_token(node, client.auth.token.create_orphan(ttl="1h"))
        assert token.is_authenticated()
        assert revoke(folder).status_code == 204
        assert not token.is_authenticated()


def test_the_other_paths_of_leases(client):
    """Those for which the client has no function of its own."""
    folder = "auth/token/create-orphan"

    def lease():
        client.sys.revoke_prefix(folder)
        client.auth.token.create_orphan(ttl="1h", policies=["default"])
        (name,) = client.sys.list_leases(folder)["data"]["keys"]
        return f"{folder}/{name}"

    for path in ("sys/revoke", "sys/revoke/{}", "sys/leases/revoke", "sys/leases/revoke/{}",
                 f"sys/revoke-prefix/{folder}", f"sys/revoke-force/{folder}"):
        one = lease()
        body = {} if "{}" in path or folder in path else {"lease_id": one}
        assert client.adapter.put(f"/v1/{path.format(one)}", json=body).status_code == 204
        with pytest.raises(exceptions.InvalidPath):
            client.sys.list_leases(folder)
    one = lease()
    for path in ("sys/renew", "sys/leases/renew", f"sys/renew/{one}", f"sys/leases/renew/{one}"):
        with pytest.raises(exceptions.InvalidRequest, match="tokens cannot be renewed"):
            client.write_data(path, data={"lease_id": one, "increment": 60})
    found = client.adapter.list("/v1/sys/leases")["data"]
    assert {"lease_id": one} in found["leases"] and found["lease_count"] == len(found["leases"])
    limited = client.adapter.get("/v1/sys/leases", params={"limit": "1"})["data"]
    assert len(limited["leases"]) == 1 and limited["lease_count"] == found["lease_count"]
    for path in ("sys/leases", "sys/leases/count"):
        none = client.adapter.get(f"/v1/{path}", params={"type": "irrevocable"})["data"]
        assert none["lease_count"] == 0, path
    tidied = client.write_data("sys/leases/tidy")
    assert tidied.status_code == 202 and "Nothing to do" in tidied.json()["warnings"][0]
    client.sys.revoke_prefix(folder)


def test_quotas_of_leases(cluster, client):
    cluster.await_feature_level()
    path = "sys/quotas/lease-count"
    client.write_data(f"{path}/q", data={"path": "auth/token", "max_leases": 100000})
    shown = client.read(f"{path}/q")["data"]
    assert (shown["type"], shown["path"], shown["max_leases"]) == ("lease-count", "auth/token/", 100000)
    assert shown["counter"] == client.read("sys/leases/count")["data"]["counts"].get("auth/token/", 0)
    assert client.adapter.list(f"/v1/{path}")["data"]["keys"] == ["q"]
    client.delete(f"{path}/q")
    assert client.read(f"{path}/q") is None


def test_quotas(client):
    client.sys.create_or_update_quota("q", rate=1000.5, path="kv/", interval="2s",
                                      block_interval="1s")
    shown = client.sys.read_quota("q")["data"]
    assert (shown["rate"], shown["interval"], shown["path"]) == (1000.5, 2, "kv/")
    assert client.sys.list_quotas()["data"]["keys"] == ["q"]
    assert client.sys.delete_quota("q").status_code == 204
    with pytest.raises(exceptions.InvalidPath):
        client.sys.read_quota("q")


def test_a_secondary_of_disaster_recovery():
    with Recoverable(1) as made:
        become_primary(made)
        call(made.nodes[0], "POST", f"{DR}/primary/demote")
        await_mode(made, "secondary")
        client = connect(made.nodes[0])
        assert client.sys.read_health_status().status_code == 472
        health = client.sys.read_health_status(method="GET", dr_secondary_code=200)
        assert health["replication_dr_mode"] == "secondary" and not health["sealed"]
        assert client.read("sys/replication/dr/status")["data"]["mode"] == "secondary"
        with pytest.raises(exceptions.InvalidRequest, match="path disabled in replication DR secondary"):
            client.read("secret/x")
