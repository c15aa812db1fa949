"""Key ceremonies whose shares and tokens are encrypted with PGP keys, read by gpg."""

import base64

import pytest

from cluster import Cluster, Recoverable
from commands import Cli
from gnupg import ALGORITHMS, Gpg
from test_ceremonies import ATTEMPT, call, generate, give, is_root
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
            ([fit, "keybase:someone"], ("pgp_keys[1]: a key is expected", "gpg --export")),
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


def test_the_command_line_encrypts_recovery_keys(gpg, tmp_path):
    armour, binary = tmp_path / "curve25519.asc", tmp_path / "rsa.gpg"
    armour.write_bytes(gpg.public("curve25519", "--armor"))
    binary.write_bytes(gpg.public("rsa"))
    with FreshStatic() as cluster:
        cli = Cli(cluster, tmp_path)
        init = ("operator", "init", "-recovery-shares=2", "-recovery-threshold=2")
        assert "keybase" in cli(*init, "-recovery-pgp-keys=keybase:x", code=1).stderr
        assert "count mismatch" in cli(*init, f"-recovery-pgp-keys={armour}", code=2).stderr
        shown = cli(*init, f"-recovery-pgp-keys={armour},{binary}").stdout
        coded = [line.split(": ")[1] for line in shown.splitlines() if "Recovery Key " in line]
        shares = [gpg.decrypt(base64.b64decode(each)) for each in coded]
        cluster.token = shown.split("Initial Root Token: ")[1].split("\n")[0]
        assert len(set(shares)) == 2
        cluster.await_up()
        assert is_root(cluster.nodes[0], generate(cluster.nodes, shares))


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


REKEY, RECOVERY = "/v1/sys/rekey", "/v1/sys/rekey-recovery-key"


def wishes(gpg, *kinds, **more):
    """The body of a rekey: a share for each of these keys, all of which are needed."""
    return {"secret_shares": len(kinds), "secret_threshold": len(kinds),
            "pgp_keys": [text(gpg.public(kind)) for kind in kinds], **more}


def by_fingerprint(gpg, backup):
    """The texts of a backup, in the order of the listing of each holder."""
    assert list(backup["keys"]) == list(backup["keys_base64"])
    found = {}
    for print_, messages in backup["keys_base64"].items():
        assert [bytes.fromhex(key) for key in backup["keys"][print_]] == [
            base64.b64decode(key) for key in messages]
        found[print_] = [gpg.decrypt(base64.b64decode(key)) for key in messages]
    return found


def test_new_shares_are_encrypted_and_their_backup_is_kept(gpg):
    with ShamirCluster() as cluster:
        cluster.open_all()
        node, token = cluster.nodes[0], cluster.token
        backup = f"{REKEY}/backup"
        assert node.call("GET", backup, token="").status == 403
        refused(node.call("GET", backup, token=token), "no backed-up keys found")
        body = wishes(gpg, "rsa", "curve25519", "nistp256", "rsa", backup=True)
        begun = call(node, "PUT", f"{REKEY}/init", body)
        prints = [gpg.fingerprint(kind) for kind in ("rsa", "curve25519", "nistp256", "rsa")]
        assert begun["pgp_fingerprints"] == prints and begun["backup"] is True
        give(node, begun["nonce"], cluster.keys[:2], path=f"{REKEY}/update")
        refused(node.call("GET", backup, token=token), "no backed-up keys found")
        node.call("PUT", "/v1/sys/step-down", token=token)
        cluster.await_up()
        other = cluster.nodes[1]
        status = call(other, "GET", f"{REKEY}/init")
        assert (status["progress"], status["pgp_fingerprints"]) == (2, prints)
        last = {"key": cluster.keys[2], "nonce": begun["nonce"]}
        made = call(other, "PUT", f"{REKEY}/update", last)
        assert made["complete"] and made["pgp_fingerprints"] == prints and made["backup"] is True
        shares = decrypted(gpg, made)
        assert len(set(shares)) == 4 and not set(shares) & set(cluster.keys)
        again = call(node, "PUT", f"{REKEY}/update", last)
        assert decrypted(gpg, again) == shares
        envelope = call(node, "GET", backup, token=token)
        kept = envelope["data"]
        assert {name: envelope[name] for name in kept} == kept  # as clients of old read them
        assert kept["nonce"] == begun["nonce"]
        assert by_fingerprint(gpg, kept) == {
            prints[0]: [shares[0], shares[3]], prints[1]: [shares[1]], prints[2]: [shares[2]]}
        newer = call(cluster.nodes[2], "GET", "/v1/sys/rotate/root/backup", token=token)["data"]
        assert newer == kept
        refused(node.call("GET", f"{REKEY}/recovery-key-backup", token=token), "no backed-up")

        cluster.keys, cluster.shares, cluster.threshold = shares, 4, 4
        standby = cluster.standbys()[0]
        call(standby, "PUT", "/v1/sys/seal", token=token, status=204)
        cluster.open(standby)
        assert node.call("DELETE", backup, token="").status == 403
        for path in (backup, "/v1/sys/rotate/root/backup"):  # the second finds nothing to delete
            call(node, "DELETE", path, token=token, status=204)
        refused(node.call("GET", backup, token=token), "no backed-up keys found")


def test_encrypted_shares_are_verified_by_their_holders(gpg):
    with ShamirCluster() as cluster:
        cluster.open_all()
        node = cluster.nodes[0]
        body = wishes(gpg, "curve25519", "nistp256", require_verification=True)
        begun = call(node, "PUT", f"{REKEY}/init", body)
        made = give(node, begun["nonce"], cluster.keys[:3], path=f"{REKEY}/update")
        shares = decrypted(gpg, made)
        for share in shares:
            last = call(node, "PUT", f"{REKEY}/verify",
                        {"key": share, "nonce": made["verification_nonce"]})
        assert last["complete"] is True
        assert is_root(node, generate(cluster.nodes, shares))


def test_unfit_wishes_for_new_shares_begin_nothing(gpg, shamir):
    node, rsa = shamir.nodes[2], text(gpg.public("rsa"))
    call(node, "DELETE", f"{REKEY}/init", status=204)
    two = {"secret_shares": 2, "secret_threshold": 2}
    for body, words in (
        ({**two, "backup": True}, ("backup", "PGP")),
        ({**two, "pgp_keys": [rsa]}, ("count mismatch", "1 keys for 2 shares")),
        ({**two, "pgp_keys": [rsa, "keybase:x"]}, ("pgp_keys[1]: a key is expected",)),
        ({**two, "pgp_keys": [rsa, text(gpg.private("rsa"))]}, ("pgp_keys[1]: the key is a priv",)),
        ({"secret_shares": 5, "secret_threshold": 3, "pgp_keys": ["x"] * 40},
         ("40 keys for 5 shares",)),
    ):
        refused(node.call("PUT", f"{REKEY}/init", body, token=""), *words)
        status = call(node, "GET", f"{REKEY}/init")
        assert status["started"] is False and status["pgp_fingerprints"] is None


def test_forty_holders_get_their_shares(gpg):
    """Paths without a token take short bodies; those with a token take these keys."""
    with ShamirCluster() as cluster:
        cluster.open_all()
        node, token, path = cluster.nodes[0], cluster.token, "/v1/sys/rotate/root"
        body = wishes(gpg, *["rsa"] * 40, backup=True)
        assert node.call("PUT", f"{REKEY}/init", body, token="").status == 413
        nonce = call(node, "PUT", f"{path}/init", body, token)["data"]["nonce"]
        made = give(node, nonce, cluster.keys[:3], f"{path}/update", token)["data"]
        assert len(made["keys"]) == 40 and len("".join(made["keys"])) > 40 * 1024
        last = {"key": cluster.keys[2], "nonce": nonce}
        again = call(cluster.nodes[1], "PUT", f"{path}/update", last, token)["data"]
        assert gpg.decrypt(bytes.fromhex(again["keys"][39])) == gpg.decrypt(
            bytes.fromhex(made["keys"][39]))
        kept = call(node, "GET", f"{path}/backup", token=token)["data"]
        assert kept["keys"] == {gpg.fingerprint("rsa"): made["keys"]}


def test_new_recovery_keys_are_encrypted_and_kept(gpg):
    with Recoverable() as cluster:
        node, token = cluster.nodes[0], cluster.token
        body = wishes(gpg, "nistp256", "curve25519", backup=True)
        begun = call(node, "PUT", f"{RECOVERY}/init", body)
        made = give(node, begun["nonce"], cluster.recovery_keys[:2], f"{RECOVERY}/update")
        shares = decrypted(gpg, made)
        for path in ("/v1/sys/rekey/recovery-key-backup", "/v1/sys/rotate/recovery/backup"):
            envelope = call(node, "GET", path, token=token)
            kept = envelope["data"]
            assert envelope.get("keys") == (kept["keys"] if "rekey" in path else None)
            assert sum(by_fingerprint(gpg, kept).values(), []) == shares
        refused(node.call("GET", "/v1/sys/rekey/backup", token=token), "no backed-up")
        assert is_root(node, generate(cluster.nodes, shares))
        for path in ("/v1/sys/rotate/recovery/backup", "/v1/sys/rekey/recovery-key-backup"):
            call(node, "DELETE", path, token=token, status=204)
        refused(node.call("GET", "/v1/sys/rekey/recovery-key-backup", token=token), "no backed-up")

        # the newer paths, with a token
        path = "/v1/sys/rotate/recovery"
        refused(node.call("PUT", f"{path}/init", {**wishes(gpg, "rsa"), "pgp_keys": ["keybase:x"]},
                          token=token), "pgp_keys[0]: a key is expected")
        begun = call(node, "PUT", f"{path}/init", wishes(gpg, "rsa", "nistp256", backup=True),
                     token)["data"]
        assert begun["pgp_fingerprints"] == [gpg.fingerprint("rsa"), gpg.fingerprint("nistp256")]
        made = give(node, begun["nonce"], shares, f"{path}/update", token)["data"]
        newer = decrypted(gpg, made)
        assert made["backup"] is True and not set(newer) & set(shares)
        kept = call(node, "GET", f"{path}/backup", token=token)["data"]
        assert sum(by_fingerprint(gpg, kept).values(), []) == newer
        assert is_root(node, generate(cluster.nodes, newer))


def test_the_command_line_makes_keys_for_holders_and_shows_their_backup(gpg, tmp_path):
    files = []
    for kind in ("rsa", "curve25519"):
        files.append(tmp_path / kind)
        files[-1].write_bytes(gpg.public(kind, "--armor"))
    with ShamirCluster() as cluster:
        cluster.open_all()
        cli = Cli(cluster, tmp_path)
        rekey = ("operator", "rekey")
        assert "no backed-up keys" in cli(*rekey, "-backup-retrieve", code=2).stderr
        shown = cli(*rekey, "-init", "-backup", "-key-shares=2", "-key-threshold=2",
                    f"-pgp-keys={files[0]}", f"-pgp-keys={files[1]}").stdout
        assert gpg.fingerprint("rsa") in shown
        for share in cluster.keys[:3]:
            shown = cli(*rekey, share).stdout
        for kind in ("rsa", "curve25519"):
            assert f"fingerprint: {gpg.fingerprint(kind)}; value: " in shown
        values = [line.split("; value: ")[1] for line in shown.splitlines() if "; value: " in line]
        kept = cli(*rekey, "-backup-retrieve").stdout
        assert [line.split("; value: ")[1] for line in kept.splitlines()] == values
        data = cli.json(*rekey, "-backup-retrieve")["data"]
        assert [key for keys in data["keys_base64"].values() for key in keys] == values
        shares = [gpg.decrypt(base64.b64decode(value)) for value in values]
        assert is_root(cluster.nodes[0], generate(cluster.nodes, shares))
        assert "Deleted" in cli(*rekey, "-backup-delete").stdout
        cli(*rekey, "-backup-retrieve", code=2)
        cli(*rekey, "-backup-retrieve", "-target=recovery", code=2)
