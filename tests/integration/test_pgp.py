"""Key ceremonies whose shares and tokens are encrypted with PGP keys, read by gpg."""

import base64

import pytest

from cluster import Cluster
from commands import Cli
from gnupg import ALGORITHMS, Gpg
from test_ceremonies import ATTEMPT, call, give, is_root
from test_shamir import SHAMIR, ShamirCluster, refused, unseal

KINDS = list(ALGORITHMS)


@pytest.fixture(scope="module")
def gpg():
    with Gpg() as made:
        for kind in KINDS:
            made.make(kind, kind)
        yield made


def text(key):
    return base64.b64encode(key).decode()


class Fresh(ShamirCluster):
    """Not yet initialised."""

    def init(self):
        self.await_formed()


class FreshStatic(Cluster):
    """Unseals itself; not yet initialised."""

    def init(self):
        self.await_formed()


def initialise(cluster, body, status=200):
    answer = cluster.nodes[0].call("PUT", "/v1/sys/init", body, token="")
    assert answer.status == status, answer.body
    return answer.json


def decrypted(gpg, answer, hex_name="keys", base64_name="keys_base64"):
    """The shares of a reply, whose two forms hold the same messages."""
    messages = [bytes.fromhex(key) for key in answer[hex_name]]
    assert messages == [base64.b64decode(key) for key in answer[base64_name]]
    return [gpg.decrypt(message) for message in messages]


def test_init_encrypts_each_share_and_the_token_for_its_holder(gpg):
    with Fresh() as cluster:
        body = {
            "secret_shares": 3, "secret_threshold": 3,
            "pgp_keys": [text(gpg.public("rsa")), text(gpg.public("curve25519", "--armor")),
                         gpg.public("nistp256", "--armor").decode()],
            "root_token_pgp_key": text(gpg.public("curve25519")),
        }
        answer = initialise(cluster, body)
        keys = decrypted(gpg, answer)
        assert len(set(keys)) == 3 and all(len(bytes.fromhex(key)) == 33 for key in keys)
        cluster.token = gpg.decrypt(base64.b64decode(answer["root_token"]))
        assert cluster.token.startswith("hvs.")
        cluster.keys, cluster.shares = keys, 3
        cluster.open_all()
        own = cluster.nodes[0].call("GET", "/v1/auth/token/lookup-self", token=cluster.token)
        assert own.data["policies"] == ["root"]


def test_each_holder_reads_the_own_share_only(gpg):
    with Fresh() as cluster, Gpg() as other:
        other.make("other")
        body = {"secret_shares": 2, "secret_threshold": 2,
                "pgp_keys": [text(gpg.public("curve25519")), text(other.public("other"))]}
        answer = initialise(cluster, body)
        first, second = [base64.b64decode(key) for key in answer["keys_base64"]]
        with pytest.raises(Exception):
            other.decrypt(first)
        with pytest.raises(Exception):
            gpg.decrypt(second)
        status = unseal(cluster.nodes[0], gpg.decrypt(first))
        assert status["progress"] == 1
        assert unseal(cluster.nodes[0], other.decrypt(second))["sealed"] is False
        cluster.token = answer["root_token"]


def test_recovery_keys_are_encrypted_too(gpg):
    with FreshStatic() as cluster:
        node = cluster.nodes[0]
        key = text(gpg.public("nistp256"))
        refused(node.call("PUT", "/v1/sys/init", {"pgp_keys": [key]}), "not applicable")
        refused(node.call("PUT", "/v1/sys/init", {"recovery_pgp_keys": [key]}),
                "recovery_pgp_keys: count mismatch", "1 keys for 5 shares")
        answer = initialise(cluster, {"recovery_pgp_keys": [key] * 5})
        cluster.token = answer["root_token"]
        shares = decrypted(gpg, answer, "recovery_keys", "recovery_keys_base64")
        assert len(set(shares)) == 5 and answer["keys"] == []
        cluster.await_up()


def test_unfit_keys_are_refused_by_name_and_nothing_is_initialised(gpg):
    with Fresh() as cluster, Gpg() as scratch:
        node = cluster.nodes[0]
        fit = text(gpg.public("curve25519"))
        scratch.run("--quick-gen-key", "signs", "ed25519", "sign", "never")
        scratch.run("--faked-system-time", "20200101T000000!", "--quick-gen-key", "old",
                    "future-default", "default", "1y")
        scratch.make("revoked")
        revocation = f"{scratch.home}/openpgp-revocs.d/{scratch.fingerprint('revoked').upper()}.rev"
        with open(revocation, encoding="ascii") as file:
            scratch.run("--import", stdin=file.read().replace(":---", "---").encode())
        for keys, words in (
            ([fit], ("pgp_keys: count mismatch", "1 keys for 2 shares")),
            ([fit] * 40, ("pgp_keys: count mismatch", "40 keys for 2 shares")),
            ([fit, "keybase:someone"], ("pgp_keys[1]: a key is expected", "command line")),
            ([fit, "not a key!"], ("pgp_keys[1]: the key is neither",)),
            ([fit, ""], ("pgp_keys[1]: the key is empty",)),
            ([fit, text(scratch.public("signs"))], ("pgp_keys[1]: the key is for signatures only",)),
            ([text(scratch.public("old")), fit], ("pgp_keys[0]: the key expired on 2020-12-31",)),
            ([text(scratch.public("revoked")), fit], ("pgp_keys[0]: the key was revoked",)),
            ([text(gpg.private("curve25519")), fit], ("pgp_keys[0]: the key is a private key",)),
            ([text(gpg.public("curve25519") + gpg.public("rsa")), fit], ("one key at a time",)),
        ):
            body = {"secret_shares": 2, "secret_threshold": 2, "pgp_keys": keys}
            refused(node.call("PUT", "/v1/sys/init", body, token=""), *words)
        body = {"secret_shares": 1, "secret_threshold": 1, "root_token_pgp_key": "keybase:x"}
        refused(node.call("PUT", "/v1/sys/init", body, token=""), "root_token_pgp_key")
        body = {"secret_shares": 1, "secret_threshold": 1, "recovery_pgp_keys": [fit]}
        refused(node.call("PUT", "/v1/sys/init", body, token=""), "not applicable")
        body = {"secret_shares": 1, "secret_threshold": 1, "pgp_keys": ["A" * (1 << 20)]}
        assert node.call("PUT", "/v1/sys/init", body, token="").status in (400, 413)
        assert node.call("GET", "/v1/sys/init", token="").json == {"initialized": False}


def test_the_command_line_reads_keys_from_files(gpg, tmp_path):
    armour, binary = tmp_path / "rsa.asc", tmp_path / "nistp256.gpg"
    armour.write_bytes(gpg.public("rsa", "--armor"))
    binary.write_bytes(gpg.public("nistp256"))
    with Fresh() as cluster:
        cli = Cli(cluster, tmp_path)
        init = ("operator", "init", "-key-shares=2", "-key-threshold=2")
        assert "keybase" in cli(*init, "-pgp-keys=keybase:x", code=1).stderr
        assert "pgp-keys" in cli(*init, f"-pgp-keys={tmp_path}/none", code=1).stderr
        assert "count mismatch" in cli(*init, f"-pgp-keys={armour}", code=2).stderr
        shown = cli(*init, f"-pgp-keys={armour},{binary}", f"-root-token-pgp-key={binary}").stdout
        assert "base64 -d | gpg -d" in shown
        coded = [line.split(": ")[1] for line in shown.splitlines() if "Key " in line]
        token = shown.split("Initial Root Token: ")[1].split("\n")[0]
        cluster.token = gpg.decrypt(base64.b64decode(token))
        for each in coded:
            cli("operator", "unseal", gpg.decrypt(base64.b64decode(each)))
        assert cli.json("status")["sealed"] is False


@pytest.fixture(scope="module")
def shamir():
    with ShamirCluster() as c:
        c.open_all()
        yield c


@pytest.mark.parametrize("kind", KINDS)
def test_a_root_token_is_encrypted_for_its_holder(gpg, shamir, kind):
    node = shamir.nodes[0]
    begun = call(node, "PUT", ATTEMPT, {"pgp_key": text(gpg.public(kind))})
    assert begun["pgp_fingerprint"] == gpg.fingerprint(kind) and begun["otp"] == ""
    refused(node.call("PUT", ATTEMPT, {}, token=""), "already in progress")
    assert call(shamir.nodes[1], "GET", ATTEMPT)["pgp_fingerprint"] == gpg.fingerprint(kind)
    done = give(node, begun["nonce"], shamir.keys[:3])
    assert done["complete"] and done["encoded_token"] == done["encoded_root_token"]
    assert done["pgp_fingerprint"] == gpg.fingerprint(kind)
    assert is_root(node, gpg.decrypt(base64.b64decode(done["encoded_token"])))
    assert call(node, "GET", ATTEMPT)["pgp_fingerprint"] == ""


def test_a_key_for_a_root_token_is_judged_at_the_beginning(gpg, shamir):
    node = shamir.nodes[1]
    for body, word in (
        ({"pgp_key": "keybase:x"}, "pgp_key: a key is expected"),
        ({"pgp_key": text(gpg.private("rsa"))}, "pgp_key: the key is a private key"),
        ({"pgp_key": text(gpg.public("rsa")), "otp": "0" * 28}, "exclude each other"),
    ):
        refused(node.call("PUT", ATTEMPT, body, token=""), word)
        assert call(node, "GET", ATTEMPT)["started"] is False


def test_an_attempt_with_a_key_goes_on_with_another_active_node(gpg):
    with ShamirCluster() as cluster:
        cluster.open_all()
        old = cluster.active()
        nonce = call(old, "PUT", ATTEMPT, {"pgp_key": text(gpg.public("curve25519"))})["nonce"]
        give(old, nonce, cluster.keys[:1])
        call(old, "PUT", "/v1/sys/step-down", token=cluster.token, status=204)
        while (new := cluster.active()) is old:
            pass
        done = give(new, nonce, cluster.keys[1:3])
        assert done["complete"] and done["progress"] == 3
        assert is_root(new, gpg.decrypt(base64.b64decode(done["encoded_token"])))


def test_the_command_line_makes_a_root_token_for_a_key(gpg, shamir, tmp_path):
    cli = Cli(shamir, tmp_path)
    key = tmp_path / "key"
    key.write_bytes(gpg.public("rsa"))
    root = ("operator", "generate-root")
    assert "keybase" in cli(*root, "-init", "-pgp-key=keybase:x", code=1).stderr
    shown = cli(*root, "-init", f"-pgp-key={key}").stdout
    assert gpg.fingerprint("rsa") in shown and "OTP  " not in shown
    for share in shamir.keys[:3]:
        done = cli.json(*root, share)
    assert is_root(shamir.nodes[0], gpg.decrypt(base64.b64decode(done["encoded_token"])))
