"""Commands of operators: keys, members, snapshots."""

import re
import stat
import tarfile

import pytest

from cluster import Cluster
from commands import UNREACHABLE, Cli, not_seen, typed


@pytest.fixture
def cli(cluster, tmp_path):
    return Cli(cluster, tmp_path)


def test_operators_see_and_turn_the_keys(cli):
    before = cli.json("operator", "key-status")["term"]
    assert f"{before + 1}" in cli("operator", "rotate").stdout
    assert cli.json("operator", "key-status")["term"] == before + 1
    assert "Key Term" in cli("operator", "key-status").stdout
    cli("operator", "init", "-status")
    assert cli.json("operator", "init", "-status") == {"initialized": True}
    again = cli("operator", "init", code=2)
    assert "already initialized" in again.stderr
    cli("operator", "init", "-key-shares=3", code=1)
    status = cli.json("status")
    assert status["sealed"] is False and status["ha_enabled"] is True
    peers = cli("operator", "raft", "list-peers").stdout
    assert all(node.name in peers for node in cli.cluster.nodes) and "leader" in peers
    assert len(cli.json("operator", "raft", "list-peers")["data"]["config"]["servers"]) == 3
    cli("operator", "raft", "remove-peer", "no-such-node")
    cli("operator", "raft", "remove-peer", code=1)
    plain = cli.cluster.standbys()[0].name
    assert "no vote" in cli("operator", "raft", "demote", plain).stdout
    state = cli.json("operator", "raft", "autopilot", "state")["data"]
    assert state["non_voters"] == [plain]
    assert "a vote" in cli("operator", "raft", "promote", plain).stdout
    cli("operator", "raft", "demote", "no-such-node")
    assert cli("operator", "raft", "autopilot", "set-config", "-max-trailing-logs=900").stdout
    cli("operator", "raft", "autopilot", "set-config", "-cleanup-dead-servers=true", code=2)
    config = cli.json("operator", "raft", "autopilot", "get-config")["data"]
    assert config["max_trailing_logs"] == 900 and not config["cleanup_dead_servers"]
    active, standby = cli.cluster.active(), cli.cluster.standbys()[0]
    said = cli("operator", "step-down", env={"HOLDFAST_ADDR": standby.url}).stdout
    assert said == f"Success! Stepped down: {active.url}\n"
    cli.cluster.await_up()
    powerless = cli("token", "create", "-policy=default", "-field=token").stdout
    for command in (["rotate"], ["step-down"], ["seal"]):
        assert "403" in cli("operator", *command, token=powerless, code=2).stderr


def test_nested_values_are_rows_of_their_own(cli):
    shown = cli("operator", "raft", "autopilot", "state").stdout
    assert "{" not in shown and '"' not in shown
    names = [node.name for node in cli.cluster.nodes]
    assert re.search(rf"^voters +{', '.join(names)}$", shown, re.M), shown
    assert re.search(rf"^servers$\n(  .*\n)*?^  {names[0]}$\n^    \S.* +\S", shown, re.M), shown
    shown = cli("read", "sys/metrics").stdout
    assert "{" not in shown.replace("{}", "") and '"' not in shown
    assert re.search(r"^Gauges$\n^- Name +\S+$\n^  Value +\S+$", shown, re.M), shown[:400]


def test_a_cluster_that_unseals_itself_gets_recovery_keys(tmp_path):
    class Fresh(Cluster):
        def init(self):
            self.await_formed()

    with Fresh(size=1) as cluster:
        cli = Cli(cluster, tmp_path)
        cli("operator", "init", "-recovery-shares=2", "-recovery-threshold=3", code=2)
        shown = cli("operator", "init").stdout
        keys = re.findall(r"^Recovery Key \d: (\S+)$", shown, re.M)
        cluster.token = re.search(r"^Initial Root Token: (\S+)$", shown, re.M).group(1)
        assert len(keys) == 5 and "generate-root" in shown
        cluster.await_up()
        assert re.search(r"^Total Recovery Shares +5\nRecovery Threshold +3$",
                         cli("status").stdout, re.M)
        root = ("operator", "generate-root")
        otp = cli.json(*root, "-init", token="")["otp"]
        for key in keys[:3]:
            made = cli.json(*root, key, token="")
        token = cli(*root, f"-decode={made['encoded_token']}", f"-otp={otp}").stdout.strip()
        assert cli.json("token", "lookup", token=token)["data"]["policies"] == ["root"]
    with Fresh(size=1) as cluster:
        made = Cli(cluster, tmp_path).json("operator", "init", "-recovery-shares=0")
        assert made["recovery_keys_b64"] == [] and made["root_token"]


def test_a_join_token_is_made(cli):
    tls = cli.cluster.dir / "tls"
    cli("write", "sys/storage/raft/certificates/authority", f"certificate=@{tls}/ca.pem",
        f"private_key=@{tls}/ca-key.pem")
    token = cli("operator", "raft", "join-token", "-ttl=5m", "-field=token", "node9").stdout
    assert re.fullmatch(r"\S{40,}", token)
    assert cli.json("operator", "raft", "join-token")["data"]["token"] != token
    refused = cli("operator", "raft", "join", f"-join-token={token}", "https://127.0.0.1:1", code=2)
    assert token not in refused.stderr
    powerless = cli("token", "create", "-policy=default", "-field=token").stdout
    cli("operator", "raft", "join-token", token=powerless, code=2)


def test_a_node_is_removed_and_readmitted(tmp_path):
    with Cluster() as cluster:
        cli = Cli(cluster, tmp_path, node=cluster.nodes.index(cluster.active()))
        gone = cluster.standbys()[0]
        assert "removed" in cli("operator", "raft", "remove-peer", gone.name).stdout
        assert gone.name not in cli("operator", "raft", "list-peers").stdout
        removed = Cli(cluster, tmp_path, node=cluster.nodes.index(gone))
        cluster.await_health({530}, [gone])
        shown = removed("status", code=2).stdout
        assert re.search(r"^Removed From Cluster +true$", shown, re.M), shown
        assert "Removed" not in cli("status").stdout
        cli("operator", "raft", "readmit", gone.name)
        cli("operator", "raft", "readmit", code=1)


class Sealed(Cluster):
    """One node of the kind with key shares, not yet initialised."""

    def __init__(self):
        super().__init__(size=1, config={"seal": {"static": None, "shamir": {}}})

    def init(self):
        self.await_formed()


def test_a_cluster_of_key_shares_is_initialised_unsealed_and_sealed(tmp_path):
    with Sealed() as cluster:
        cli = Cli(cluster, tmp_path)
        cli("operator", "init", "-status", code=2)
        cli("status", code=2)
        cli("operator", "init", "-recovery-shares=3", code=1)
        cli("operator", "init", "-key-shares=2", code=2)
        made = cli.json("operator", "init")
        keys = made["unseal_keys_b64"]
        assert len(keys) == 5 == len(made["unseal_keys_hex"]) == made["unseal_shares"]
        assert made["unseal_threshold"] == 3
        cluster.token = made["root_token"]

        assert "Sealed" in cli("status", code=2).stdout
        cli("operator", "unseal", stdin="not a key\n", code=2)
        cli("operator", "unseal", stdin="", code=1)
        first = cli("operator", "unseal", stdin=keys[0] + "\n").stdout
        assert re.search(r"^Unseal Progress +1/3$", first, re.M) and keys[0] not in first
        assert cli.json("operator", "unseal", "-reset")["progress"] == 0
        cli("operator", "unseal", keys[1])
        code, shown = typed(cli, ["operator", "unseal"], keys[2].encode() + b"\r")
        assert code == 0 and keys[2] not in shown and "2/3" in shown
        assert cli.json("operator", "unseal", "-", stdin=keys[3])["sealed"] is False
        cluster.await_up()
        cli("status")
        assert "opens by itself" not in cli("operator", "seal").stdout
        assert cli.json("status", code=2)["sealed"] is True
        cli("read", "secret/config", code=2)


def test_a_root_token_is_made_by_key_shares(tmp_path):
    with Sealed() as cluster:
        cli = Cli(cluster, tmp_path)
        made = cli.json("operator", "init", "-key-shares=3", "-key-threshold=2")
        keys = made["unseal_keys_b64"]
        for key in keys[:2]:
            cli("operator", "unseal", key)
        cluster.await_up()
        root = ("operator", "generate-root")
        assert cli.json(*root, "-status")["started"] is False
        cli(*root, keys[0], code=1)
        otp = cli(*root, "-generate-otp").stdout.strip()
        assert len(otp) == 28 and otp != cli(*root, "-generate-otp").stdout.strip()
        cli(*root, "-init", "-otp=short", code=2)
        cli(*root, "-init", "-pgp-key=keybase:x", code=1)
        begun = cli(*root, "-init", f"-otp={otp}").stdout
        assert re.search(r"^Progress +0/2$", begun, re.M) and otp not in begun
        cli(*root, "-init", code=2)
        cli(*root, "-cancel")
        begun = cli.json(*root, "-init")
        shown = cli(*root, stdin=keys[0] + "\n").stdout
        assert re.search(r"^Progress +1/2$", shown, re.M) and keys[0] not in shown
        cli(*root, "-nonce=other", keys[1], code=2)
        code, shown = typed(cli, list(root), keys[2].encode() + b"\r")
        assert code == 0 and keys[2] not in shown
        coded = re.search(r"^Encoded Token +(\S+)\s*$", shown, re.M).group(1)
        decoded = (*root, f"-decode={coded}")
        token = cli(*decoded, f"-otp={begun['otp']}").stdout.strip()
        assert cli.json(*root, "-decode=-", f"-otp={begun['otp']}", stdin=coded) == {"token": token}
        cli(*decoded, code=1)
        cli(*decoded, "-otp=short", code=1)
        cli(*root, "-decode=%%", "-otp=x", code=1)
        assert cli.json("token", "lookup", token=token)["data"]["policies"] == ["root"]


def test_new_keys_are_made_and_verified(tmp_path):
    with Sealed() as cluster:
        cli = Cli(cluster, tmp_path)
        made = cli.json("operator", "init", "-key-shares=1", "-key-threshold=1")
        cli("operator", "unseal", made["unseal_keys_b64"][0])
        cluster.await_up()
        cluster.token = made["root_token"]
        rekey = ("operator", "rekey")
        assert "false" in cli(*rekey, "-status").stdout
        cli(*rekey, made["unseal_keys_b64"][0], code=1)
        cli(*rekey, "-init", "-key-threshold=9", code=2)
        cli(*rekey, "-init", "-pgp-keys=keybase:x", code=1)
        cli(*rekey, "-status", "-target=other", code=1)
        cli(*rekey, "-status", "-target=recovery", code=2)
        begun = cli(*rekey, "-init", "-key-shares=3", "-key-threshold=2").stdout
        assert re.search(r"^Rekey Progress +0/1$", begun, re.M)
        assert re.search(r"^New Shares +3$", begun, re.M)
        assert "Canceled" in cli(*rekey, "-cancel").stdout
        nonce = cli.json(*rekey, "-init", "-key-shares=3", "-key-threshold=2")["nonce"]
        first = cli.json(*rekey, "-", stdin=made["unseal_keys_b64"][0])
        again = cli.json(*rekey, f"-nonce={nonce}", made["unseal_keys_b64"][0])
        assert again == first and len(first["keys"]) == 3
        cli(*rekey, "-init", "-verify")
        shown = cli(*rekey, first["keys"][0]).stdout
        assert re.search(r"^Rekey Progress +1/2$", shown, re.M)
        shown = cli(*rekey, stdin=first["keys"][2] + "\n").stdout
        new = re.findall(r"^Key \d: (\S+)$", shown, re.M)
        assert len(new) == 5 and "-verify" in shown
        shown = cli(*rekey, "-verify", new[0]).stdout
        assert re.search(r"^Rekey Progress +1/3$", shown, re.M) and new[0] not in shown
        assert "forgotten" in cli(*rekey, "-verify", "-cancel").stdout
        assert cli.json(*rekey, "-verify", "-status")["progress"] == 0
        for key in new[1:4]:
            shown = cli(*rekey, "-verify", key).stdout
        assert "were verified" in shown
        cli("operator", "seal")
        for key, code in zip(first["keys"], (0, 0, 2)):
            cli("operator", "unseal", key, code=code)
        for key in new[:3]:
            cli("operator", "unseal", key)
        cluster.await_up()


def test_members_are_listed(cli):
    shown = cli("operator", "members").stdout
    assert re.search(r"^Host Name +API Address +Cluster Address +Active Node", shown)
    nodes = cli.json("operator", "members")["nodes"]
    assert {node["api_address"] for node in nodes} == {node.url for node in cli.cluster.nodes}
    active = [node["api_address"] for node in nodes if node["active_node"]]
    assert active == [cli.cluster.active().url]
    for node in nodes:
        row = next(line for line in shown.splitlines() if node["api_address"] in line)
        assert f" {str(node['active_node']).lower()} " in row and node["cluster_address"] in row
    powerless = cli("token", "create", "-policy=default", "-field=token").stdout
    cli("operator", "members", token=powerless, code=2)
    cli("operator", "members", "more", code=1)


SAVE = ("operator", "raft", "snapshot", "save")
RESTORE = ("operator", "raft", "snapshot", "restore")


def test_a_snapshot_is_saved_and_restored(tmp_path):
    home, files = tmp_path / "home", tmp_path / "files"
    home.mkdir()
    files.mkdir()
    file = files / "a.snap"
    with Cluster() as cluster, Cluster(size=1) as other:
        cli, theirs = Cli(cluster, home), Cli(other, home)
        cli("write", "kv/cli/s", "x=old")
        assert str(file) in cli(*SAVE, str(file)).stdout
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with tarfile.open(file) as tar:
            assert tar.getnames()[:3] == ["meta.json", "state.bin", "SHA256SUMS"]
        assert cli(*SAVE, "-format=json", str(file)).stdout == ""  # in place of the first
        whole = file.read_bytes()
        cli("write", "kv/cli/s", "x=new")
        powerless = cli("token", "create", "-policy=default", "-field=token").stdout
        for args, more in (
            ((*SAVE, str(file)), {"token": powerless, "code": 2}),
            ((*SAVE, str(files / "none" / "b.snap")), {"code": 1}),
            (SAVE, {"code": 1}),
            ((*SAVE, str(file)), {"env": {"HOLDFAST_ADDR": UNREACHABLE}, "code": 2}),
        ):
            cli(*args, **more)
            assert [path.name for path in files.iterdir()] == ["a.snap"], "something was left"
            assert file.read_bytes() == whole
        (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
        (tmp_path / "empty").write_bytes(b"")
        for args, more in (
            ((*RESTORE, str(file)), {"token": powerless, "code": 2}),
            ((*RESTORE, str(tmp_path / "cut")), {"code": 2}),
            ((*RESTORE, "-force", str(tmp_path / "cut")), {"code": 2}),
            ((*RESTORE, str(tmp_path / "empty")), {"code": 2}),
            ((*RESTORE, str(tmp_path / "none")), {"code": 1}),
            (RESTORE, {"code": 1}),
        ):
            cli(*args, **more)
            assert cli("read", "-field=x", "kv/cli/s").stdout == "new"
        assert str(file) in cli(*RESTORE, str(file)).stdout
        assert cli("read", "-field=x", "kv/cli/s").stdout == "old"
        cli("write", "kv/cli/s", "x=new")
        assert cli(*RESTORE, "-format=json", "-force", str(file)).stdout == ""
        assert cli("read", "-field=x", "kv/cli/s").stdout == "old"
        assert "snapshot-force" in theirs(*RESTORE, str(file), code=2).stderr
        theirs("read", "kv/cli/s", code=2)


def test_init_is_operator_init(tmp_path):
    with Sealed() as cluster:
        cli = Cli(cluster, tmp_path)
        cli("init", "-status", code=2)
        cli("init", "-key-shares=2", code=2)
        cli("init", "-recovery-shares=1", code=1)
        made = cli.json("init", "-key-shares=1", "-key-threshold=1")
        assert len(made["unseal_keys_b64"]) == 1
        cluster.token = made["root_token"]
        cli("init", "-status")
        cli("operator", "unseal", made["unseal_keys_b64"][0])
        cluster.await_up()


def test_every_command_was_seen_to_work():
    """Those of this file, by the tests above, all of them."""
    assert not not_seen(__file__)
