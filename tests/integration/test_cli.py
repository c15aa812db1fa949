"""Every command of the command line, against real nodes over TLS, with its exit codes."""

import json
import os
import pathlib
import pty
import re
import select
import socket
import ssl
import stat
import subprocess
import tarfile
import threading
import time

import pytest

from cluster import HOLDFAST, Cluster

SECRET = "planted-7f3a-secret"
UNREACHABLE = "https://127.0.0.1:1"

ended = {}  # command: the exit codes it was seen with


def all_commands():
    text = subprocess.run([HOLDFAST, "help"], capture_output=True, text=True, timeout=120).stdout
    return [m.group(1) for m in re.finditer(r"^  ([a-z][a-z -]*?) +[A-Z]", text, re.M)]


COMMANDS = all_commands()


def command_of(args):
    """The longest command that the words begin with."""
    for n in range(len(args), 0, -1):
        if " ".join(args[:n]) in COMMANDS:
            return " ".join(args[:n])
    return None


class Cli:
    """Runs commands as one person: a home of their own, and nothing else of this environment."""

    def __init__(self, cluster, home, node=0):
        self.cluster, self.home, self.node = cluster, home, node

    def env(self, token=None, **more):
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "HOLDFAST_ADDR": self.cluster.nodes[self.node].url,
            "HOLDFAST_CACERT": str(self.cluster.dir / "tls" / "tls-ca.pem"),
            "HOLDFAST_TOKEN": self.cluster.token if token is None else token,
        }
        env.update(more)
        return {name: value for name, value in env.items() if value != ""}

    def __call__(self, *args, code=0, stdin="", token=None, env=None):
        done = subprocess.run(
            [HOLDFAST, *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env=self.env(token, **(env or {})),
        )
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        if not {"-help", "--help", "-h"} & set(args):
            ended.setdefault(command_of(args), set()).add(code)
        if code == 0:
            assert "Error" not in done.stderr
            assert "-format=json" not in args or done.stdout == "" or json.loads(done.stdout) != ""
        else:
            assert done.stderr != "" or args[0] == "status" or "-status" in args
        return done

    def json(self, *args, **more):
        return json.loads(self(args[0], *args[1:], "-format=json", **more).stdout)


@pytest.fixture
def cli(cluster, tmp_path):
    return Cli(cluster, tmp_path)


def test_kv_version_2_from_first_write_to_destruction(cli, tmp_path):
    written = cli("kv", "put", "secret/cli/a", "x=1", "y==2").stdout
    assert "secret/data/cli/a" in written and re.search(r"^version +1$", written, re.M)
    shown = cli("kv", "get", "secret/cli/a").stdout
    assert re.search(r"^x +1$", shown, re.M) and re.search(r"^y +=2$", shown, re.M)
    assert cli("kv", "get", "-field=x", "-mount=secret", "cli/a").stdout == "1"
    cli("kv", "get", "-field=none", "secret/cli/a", code=1)
    cli("kv", "put", "-cas=0", "secret/cli/a", "x=2", code=2)
    cli("kv", "put", "-cas=1", "secret/cli/a", "x=2")
    whole = cli.json("kv", "get", "-version=1", "secret/cli/a")["data"]
    assert whole["data"] == {"x": "1", "y": "=2"} and whole["metadata"]["version"] == 1

    cli("kv", "patch", "secret/cli/a", "z=3")
    cli("kv", "patch", "-method=rw", "-remove-data=x", "secret/cli/a", "z=4")
    assert cli.json("kv", "get", "secret/cli/a")["data"]["data"] == {"z": "4"}
    cli("kv", "patch", "-cas=1", "secret/cli/a", "z=5", code=2)
    cli("kv", "patch", "secret/cli/none", "z=3", code=2)
    cli("kv", "patch", "-method=other", "secret/cli/a", "z=3", code=1)

    cli("kv", "delete", "secret/cli/a")
    assert "deletion_time" in cli("kv", "get", "secret/cli/a").stdout
    cli("kv", "get", "-field=z", "secret/cli/a", code=2)
    cli("kv", "undelete", "-versions=4", "secret/cli/a")
    cli("kv", "rollback", "-version=1", "secret/cli/a")
    assert cli("kv", "get", "-field=y", "secret/cli/a").stdout == "=2"
    cli("kv", "rollback", "secret/cli/a", code=1)
    cli("kv", "delete", "-versions=1,2", "secret/cli/a")
    cli("kv", "rollback", "-version=1", "secret/cli/a", code=2)
    cli("kv", "destroy", "-versions=1", "-versions=2,3", "secret/cli/a")
    versions = cli.json("kv", "metadata", "get", "secret/cli/a")["data"]["versions"]
    assert [n for n in sorted(versions) if versions[n]["destroyed"]] == ["1", "2", "3"]
    for command in ("undelete", "destroy"):
        cli("kv", command, "secret/cli/a", code=1)
        cli("kv", command, "-versions=0", "secret/cli/a", code=1)


def test_kv_metadata_and_listings(cli):
    cli("kv", "metadata", "put", "-max-versions=3", "-cas-required", "-custom-metadata=a=1",
        "-custom-metadata=b=2", "-delete-version-after=72h", "secret/cli/m")
    cli("kv", "put", "secret/cli/m", "x=1", code=2)
    cli("kv", "put", "-cas=0", "secret/cli/m", "x=1")
    cli("kv", "metadata", "patch", "-cas-required=false", "-remove-custom-metadata=a",
        "-custom-metadata=c=3", "secret/cli/m")
    data = cli.json("kv", "metadata", "get", "-mount=secret", "cli/m")["data"]
    assert data["custom_metadata"] == {"b": "2", "c": "3"} and data["max_versions"] == 3
    assert data["cas_required"] is False and data["delete_version_after"] == "72h0m0s"
    assert "Version 1" in cli("kv", "metadata", "get", "secret/cli/m").stdout
    assert "m" in cli("kv", "list", "secret/cli").stdout.split()
    assert "cli/" in cli.json("kv", "list", "-mount=secret")
    cli("kv", "metadata", "delete", "secret/cli/m")
    for command in (["get"], ["metadata", "get"]):
        missing = cli("kv", *command, "secret/cli/m", code=2)
        assert "No value found at secret/" in missing.stderr
    cli("kv", "list", "secret/cli/nothing-here", code=2)
    cli("kv", "list", code=1)
    cli("kv", "metadata", "put", "-max-versions=many", "secret/cli/m", code=1)


def test_kv_version_1_and_raising_it(cli):
    cli("secrets", "enable", "-path=cli1", "kv")
    assert "Data written to: cli1/a" in cli("kv", "put", "cli1/a", "x=1").stdout
    assert re.search(r"^x +1$", cli("kv", "get", "cli1/a").stdout, re.M)
    assert cli.json("kv", "get", "-mount=cli1", "a")["data"] == {"x": "1"}
    assert cli.json("kv", "list", "cli1") == ["a"]
    for args in (["patch", "cli1/a", "x=2"], ["put", "-cas=1", "cli1/a", "x=2"],
                 ["rollback", "-version=1", "cli1/a"], ["metadata", "get", "cli1/a"],
                 ["destroy", "-versions=1", "cli1/a"]):
        assert "version 2" in cli("kv", *args, code=2).stderr
    cli("kv", "delete", "cli1/a")
    cli("kv", "get", "cli1/a", code=2)
    cli("kv", "enable-versioning", "cli1/")
    cli("kv", "put", "cli1/a", "x=1")
    assert cli.json("kv", "get", "cli1/a")["data"]["metadata"]["version"] == 1
    cli("secrets", "disable", "cli1")


def test_the_preflight_refuses_who_may_not_see_the_mount(cli):
    powerless = cli("token", "create", "-policy=default", "-field=token").stdout
    refused = cli("kv", "get", "secret/a", token=powerless, code=2)
    assert "sys/internal/ui/mounts/secret/a" in refused.stderr and "403" in refused.stderr


def test_data_from_files_and_standard_input(cli, tmp_path):
    (tmp_path / "text").write_text('two\n"lines"')
    (tmp_path / "json").write_text('{"n": 12345678901234567890, "deep": {"x": [1, null]}}')
    cli("kv", "put", "secret/cli/d", f"file=@{tmp_path}/text", "in=-", r"at=\@x", "l=1", "l=2",
        stdin="typed\n")
    assert cli.json("kv", "get", "secret/cli/d")["data"]["data"] == {
        "file": 'two\n"lines"', "in": "typed\n", "at": "@x", "l": ["1", "2"]}
    cli("kv", "put", "secret/cli/d", f"@{tmp_path}/json", "x=1")
    text = cli("kv", "get", "-format=json", "secret/cli/d").stdout
    assert "12345678901234567890" in text
    assert json.loads(text)["data"]["data"]["deep"] == {"x": [1, None]}
    cli("kv", "put", "secret/cli/d", "-", stdin='{"from": "stdin"}')
    assert cli("kv", "get", "-field=from", "secret/cli/d").stdout == "stdin"
    cli("kv", "put", "secret/cli/d", "a=-", "b=-", stdin="x", code=1)
    cli("kv", "put", "secret/cli/d", "-", stdin="[1]", code=1)
    cli("kv", "put", "secret/cli/d", f"a=@{tmp_path}/none", code=1)
    cli("kv", "put", "secret/cli/d", code=1)


def test_any_path_can_be_read_written_listed_and_deleted(cli):
    cli("write", "kv/cli/p", "a=1")
    assert re.search(r"^a +1$", cli("read", "kv/cli/p").stdout, re.M)
    assert cli("read", "-field=a", "kv/cli/p").stdout == "1"
    assert cli("list", "kv/cli").stdout.split() == ["Keys", "----", "p"]
    cli("delete", "kv/cli/p")
    assert "No value found at kv/cli/p" in cli("read", "kv/cli/p", code=2).stderr
    cli("list", "kv/cli/none", code=2)
    cli("write", "kv/cli/p", code=1)
    cli("write", "-force", "sys/step-down-not-a-path", code=2)
    cli("kv", "put", "secret/cli/q", "a=1")
    cli("patch", "secret/data/cli/q", "-", stdin='{"data": {"b": "2"}}')
    assert cli.json("read", "secret/data/cli/q", "version=2")["data"]["data"] == {
        "a": "1", "b": "2"}
    assert "secret/data/cli/q" in cli("read", "secret/cli/q", code=2).stderr


def test_tokens_are_made_looked_up_renewed_and_revoked(cli):
    made = cli.json("token", "create", "-policy=default", "-ttl=1h", "-metadata=who=me",
                    "-display-name=cli", "-use-limit=0", "-orphan", "-renewable")["auth"]
    token, accessor = made["client_token"], made["accessor"]
    assert made["lease_duration"] == 3600 and made["metadata"] == {"who": "me"}
    assert cli("token", "lookup", "-field=accessor", token).stdout == accessor
    assert cli("token", "lookup", "-field=accessor", "-", stdin=token + "\n").stdout == accessor
    assert cli.json("token", "lookup", "-accessor", accessor)["data"]["orphan"] is True
    assert cli("token", "lookup", "-field=display_name", token=token).stdout == "token-cli"
    assert cli.json("token", "renew", "-increment=2h", token)["auth"]["lease_duration"] == 7200
    assert cli.json("token", "renew", token=token)["auth"]["accessor"] == accessor
    assert cli.json("token", "renew", "-accessor", accessor)["auth"]["accessor"] == accessor
    assert cli("token", "capabilities", "sys/mounts").stdout == "root\n"
    assert cli("token", "capabilities", token, "auth/token/lookup-self").stdout == "read\n"
    assert cli.json("token", "capabilities", "-accessor", accessor, "sys/seal") == ["deny"]
    cli("token", "revoke", token)
    cli("token", "lookup", token, code=2)
    cli("token", "revoke", token)
    other = cli("token", "create", "-policy=default", "-field=token").stdout
    cli("token", "revoke", "-self", token=other)
    cli("token", "lookup", token=other, code=2)
    parent = cli("token", "create", "-policy=root", "-field=token").stdout
    child = cli("token", "create", "-policy=default", "-field=token", token=parent).stdout
    cli("token", "revoke", "-mode=orphan", parent)
    cli("token", "lookup", child)
    cli("token", "revoke", "-accessor", cli("token", "lookup", "-field=accessor", child).stdout)
    cli("token", "lookup", child, code=2)
    for args in (["revoke"], ["revoke", "-self", "x"], ["revoke", "-mode=some", "x"],
                 ["lookup", "-accessor"], ["renew", "-accessor"], ["capabilities"],
                 ["create", "-use-limit=few"], ["create", "-metadata=nothing"]):
        cli("token", *args, code=1)


def test_leases_are_looked_at_and_revoked(cli):
    def make():
        made = cli.json("token", "create", "-orphan", "-ttl=1h", "-policy=default")
        folder = "auth/token/create"
        keys = cli("list", "-format=json", f"sys/leases/lookup/{folder}")
        return made["auth"]["client_token"], [f"{folder}/{name}" for name in json.loads(keys.stdout)]

    token, leases = make()
    for lease in leases:
        shown = cli.json("lease", "lookup", lease)
        assert shown["data"]["id"] == lease
        assert "tokens cannot be renewed" in cli("lease", "renew", lease, code=2).stderr
    said = cli("lease", "revoke", leases[0]).stdout
    assert said == "All revocation operations queued successfully!\n"
    said = cli("lease", "revoke", "-sync", leases[0]).stdout
    assert said == f"Success! Revoked lease: {leases[0]}\n"
    assert "invalid lease" in cli("lease", "lookup", leases[0], code=2).stderr
    assert cli("lease", "revoke", "-force", "auth/token/create", code=1).stderr
    for flags in (["-prefix"], ["-prefix", "-force"]):
        token, leases = make()
        assert "with prefix: auth/token" in cli("lease", "revoke", *flags, "auth/token").stdout
        cli("token", "lookup", token=token, code=2)


def test_the_history_of_versions_is_shown(cli):
    version = cli("version").stdout.split()[1]
    assert re.search(rf"^{re.escape(version)} +20\d\d-", cli("version-history").stdout, re.M)
    assert cli.json("version-history")["data"]["keys"] == [version]


def test_keys_below_a_path_are_scanned(cli):
    for name in ("a", "b/c"):
        cli("write", f"kv/deep/{name}", "x=1")
    assert cli("scan", "kv/deep").stdout.split()[2:] == ["a", "b/c"]
    assert json.loads(cli("scan", "-format=json", "kv/deep").stdout) == ["a", "b/c"]
    cli("scan", "kv/none", code=2)


def test_policies_are_written_read_listed_and_deleted(cli, tmp_path):
    text = 'path "secret/*" { capabilities = ["read"] }\n'
    (tmp_path / "p.hcl").write_text(text)
    cli("policy", "write", "cli-p", str(tmp_path / "p.hcl"))
    assert cli("policy", "read", "cli-p").stdout.strip() == text.strip()
    assert cli.json("policy", "read", "cli-p") == {"policy": text}
    cli("policy", "write", "cli-p", "-", stdin='path "x" { capabilities = ["list"] }')
    assert "cli-p" in cli("policy", "list").stdout.split()
    assert "cli-p" in cli.json("policy", "list")
    cli("policy", "delete", "cli-p")
    assert "No policy named: cli-p" in cli("policy", "read", "cli-p", code=2).stderr
    cli("policy", "write", "cli-p", "-", stdin="path {", code=2)
    cli("policy", "write", "cli-p", str(tmp_path / "none"), code=1)
    cli("policy", "write", "cli-p", code=1)
    cli("policy", "delete", "root", code=2)


def test_policy_fmt_rewrites_the_file_and_nothing_else(cli, tmp_path):
    file = tmp_path / "p.hcl"
    file.write_text('\n\n# why\npath   "a/*"   {\ncapabilities=["read",   "list"]\n'
                    '  min_wrapping_ttl = "1m" # kept\n\n\n}\n')
    file.chmod(0o640)
    cli("policy", "fmt", str(file))
    done = ('# why\npath "a/*" {\n  capabilities     = ["read", "list"]\n'
            '  min_wrapping_ttl = "1m" # kept\n\n}\n')
    assert file.read_text() == done and stat.S_IMODE(file.stat().st_mode) == 0o640
    cli("policy", "fmt", str(file))
    assert file.read_text() == done
    file.write_text('path "a" {')
    assert "line 1" in cli("policy", "fmt", str(file), code=1).stderr
    assert file.read_text() == 'path "a" {'
    cli("policy", "fmt", str(tmp_path / "none"), code=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.hcl"]


def test_engines_are_mounted_tuned_moved_and_unmounted(cli):
    cli("secrets", "enable", "-path=cli-e", "-version=2", "-description=for a test",
        "-max-lease-ttl=3h", "kv")
    entry = cli.json("secrets", "list")["cli-e/"]
    assert entry["options"] == {"version": "2"} and entry["config"]["max_lease_ttl"] == 10800
    assert re.search(r"^cli-e/ +kv .* for a test$", cli("secrets", "list").stdout, re.M)
    assert "10800" in cli("secrets", "list", "-detailed").stdout
    cli("secrets", "tune", "-default-lease-ttl=1h", "-description=other", "cli-e")
    assert cli.json("secrets", "list")["cli-e/"]["description"] == "other"
    cli("kv", "put", "cli-e/a", "x=1")
    assert "migration ID" in cli("secrets", "move", "cli-e", "cli-f/").stdout
    assert cli("kv", "get", "-field=x", "cli-f/a").stdout == "1"
    cli("secrets", "move", "cli-e", "cli-g", code=2)
    cli("secrets", "enable", "-path=cli-f", "kv", code=2)
    cli("secrets", "enable", "no-such-type", code=2)
    cli("secrets", "tune", "-max-lease-ttl=wrong", "cli-f", code=2)
    cli("secrets", "disable", "cli-f/")
    assert "cli-f/" not in cli.json("secrets", "list")
    cli("secrets", "move", "one", code=1)
    cli("secrets", "enable", code=1)


def test_login_keeps_the_token_for_its_owner_alone(cli, tmp_path):
    token = cli("token", "create", "-policy=default", "-field=token").stdout
    kept = tmp_path / ".holdfast-token"
    said = cli("login", token="", stdin=token + "\n")
    assert token not in said.stdout + said.stderr
    assert kept.read_text() == token and stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert cli("token", "lookup", "-field=id", token="").stdout == token
    assert cli("token", "lookup", "-field=policies").stdout == '["root"]'  # the environment wins
    assert cli("login", "-token-only", token, token="").stdout == token
    cli("login", "-no-print", f"token={token}", token="")
    cli("login", "hvs.wrong", token="", code=2)
    assert kept.read_text() == token
    cli("login", token="", stdin="", code=1)
    warned = cli("login", token)
    assert "WARNING" in warned.stderr
    kept.unlink()
    cli("login", "-no-store", token, token="")
    assert not kept.exists()
    cli("login", token, token="", env={"HOME": ""}, code=1)
    cli("login", "-method=userpass", "username=nobody", f"password={SECRET}", token="", code=2)
    cli("login", "-method=userpass", f"password={SECRET}", token="", code=1)
    assert [path.name for path in tmp_path.iterdir()] == []


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
    cli("operator", "raft", "remove-peer", "no-such-node", code=2)
    cli("operator", "raft", "remove-peer", code=1)
    plain = cli.cluster.standbys()[0].name
    assert "no vote" in cli("operator", "raft", "demote", plain).stdout
    state = cli.json("operator", "raft", "autopilot", "state")["data"]
    assert state["non_voters"] == [plain]
    assert "a vote" in cli("operator", "raft", "promote", plain).stdout
    cli("operator", "raft", "demote", "no-such-node", code=2)
    assert cli("operator", "raft", "autopilot", "set-config", "-max-trailing-logs=900").stdout
    cli("operator", "raft", "autopilot", "set-config", "-cleanup-dead-servers=true", code=2)
    config = cli.json("operator", "raft", "autopilot", "get-config")["data"]
    assert config["max_trailing_logs"] == 900 and not config["cleanup_dead_servers"]
    active = cli.cluster.active()
    cli("operator", "step-down", env={"HOLDFAST_ADDR": active.url})
    cli.cluster.await_up()
    powerless = cli("token", "create", "-policy=default", "-field=token").stdout
    for command in (["rotate"], ["step-down"], ["seal"]):
        assert "403" in cli("operator", *command, token=powerless, code=2).stderr


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


def test_what_may_be_a_secret_is_never_repeated(cli):
    for args, code in (
        (["write", "kv/x", SECRET], 1), (["kv", "put", "secret/x", "a=1", SECRET], 1),
        (["token", "lookup", SECRET], 2), (["token", "renew", SECRET], 2),
        (["token", "capabilities", SECRET, "x"], 2), (["login", SECRET], 2),
        (["operator", "unseal", SECRET, "more"], 1), ([SECRET], 1), (["kv", SECRET], 1),
        (["read", f"-format={SECRET}", "x"], 1), (["kv", "put", f"-cas={SECRET}", "x", "a=1"], 1),
        (["read", f"-header={SECRET}", "x"], 1), (["token", "create", "x", SECRET], 1),
        (["kv", "put", "secret/x", "-" + SECRET], 1), (["-" + SECRET], 1),
        (["kv", "put", "secret/x", "password=@" + SECRET], 1),
        (["kv", "put", "secret/x", "@" + SECRET], 1),
        (["read", "sys/none", "password=" + SECRET], 2),
        (["read", "-header=A=b\r\nC: d", "x"], 2),
    ):
        done = cli(*args, stdin=SECRET, code=code)
        assert SECRET not in done.stdout + done.stderr, args
    bad_token = cli("token", "lookup", token=SECRET + "\nX: y", code=2)
    assert SECRET not in bad_token.stderr


def test_what_cannot_be_reached_gives_2(cli, tmp_path):
    cli("read", "x", env={"HOLDFAST_ADDR": "https://127.0.0.1:1"}, code=2)
    cli("read", "x", env={"HOLDFAST_CACERT": str(cli.cluster.dir / "tls" / "ca.pem")}, code=2)
    cli("status", env={"HOLDFAST_ADDR": "https://127.0.0.1:1"}, code=1)
    cli("read", "x", env={"HOLDFAST_CLIENT_TIMEOUT": "soon"}, code=1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"http://127.0.0.1:{mute.getsockname()[1]}"
        late = cli("read", "x", f"-address={address}", code=2,
                   env={"HOLDFAST_CLIENT_TIMEOUT": "200ms"})
        assert "timed out" in late.stderr


def test_a_token_never_leaves_tls(cli):
    own = cli.cluster.dir / "tls" / f"tls-{cli.cluster.nodes[0].name}"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{own}.pem", f"{own}-key.pem")
    with socket.create_server(("127.0.0.1", 0)) as server, \
            socket.create_server(("127.0.0.1", 0)) as plain:
        answer = ("HTTP/1.1 307 Temporary Redirect\r\nContent-Length: 0\r\n"
                  f"Location: http://127.0.0.1:{plain.getsockname()[1]}/v1/x\r\n\r\n")

        def point_elsewhere():
            with context.wrap_socket(server.accept()[0], server_side=True) as asked:
                asked.recv(65536)
                asked.sendall(answer.encode())

        server.settimeout(60)
        pointing = threading.Thread(target=point_elsewhere)
        pointing.start()
        refused = cli("read", f"-address=https://127.0.0.1:{server.getsockname()[1]}", "x", code=2)
        pointing.join()
        assert "which is not https" in refused.stderr
        plain.setblocking(False)
        with pytest.raises(BlockingIOError):
            plain.accept()


def test_upstreams_environment_and_flags_are_understood(cli):
    url, ca = cli.cluster.nodes[1].url, str(cli.cluster.dir / "tls" / "tls-ca.pem")
    theirs = {"HOLDFAST_ADDR": "", "HOLDFAST_CACERT": "", "HOLDFAST_TOKEN": "", "VAULT_ADDR": url,
              "VAULT_TOKEN": cli.cluster.token, "VAULT_CACERT": ca, "VAULT_FORMAT": "json"}
    json.loads(cli("secrets", "list", env=theirs).stdout)
    cli("secrets", "list", env={**theirs, "VAULT_CACERT": "", "VAULT_SKIP_VERIFY": "true"})
    cli("secrets", "list", "-tls-skip-verify", env={**theirs, "VAULT_CACERT": ""})
    cli("secrets", "list", f"-address={url}", f"-ca-cert={ca}", "--format=table",
        "-header=X-Extra=1", env={"HOLDFAST_ADDR": "", "HOLDFAST_CACERT": ""})
    cli("secrets", "list", "-namespace=none", code=2)


def test_every_command_has_help(cli):
    assert len(COMMANDS) > 50 and "kv metadata get" in COMMANDS
    for command in COMMANDS:
        done = cli(*command.split(), "-help")
        assert done.stdout.startswith(f"usage: holdfast {command}") and done.stderr == ""
    assert cli("help", "kv", "get").stdout == cli("kv", "get", "--help").stdout
    assert "kv put" in cli("kv", "-h").stdout
    assert "kv put" in cli("kv", code=1).stderr
    cli("kv", "no-such-command", code=1)
    cli("no-such-command", code=1)
    assert cli("version").stdout == cli("-version").stdout


def complete(*words):
    """What a real bash offers for the last word."""
    script = (f"source <('{HOLDFAST}' completion bash) || exit 3\n"
              'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()\n'
              "complete -p holdfast >/dev/null || exit 4\n"
              '_holdfast; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-uc", script, "bash", *words], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_every_command():
    wanted = {}
    for command in COMMANDS:
        words = command.split()
        for n in range(len(words)):
            wanted.setdefault(tuple(words[:n]), set()).add(words[n])
    for before, words in wanted.items():
        offered = complete("holdfast", *before, "")
        assert words <= set(offered) and len(offered) == len(set(offered)), before
    assert complete("holdfast", "kv", "me") == ["metadata"]
    assert complete("holdfast", "-address", "x", "operator", "raft", "sn") == ["snapshot"]
    assert "-mount=" in complete("holdfast", "kv", "get", "-m")
    assert complete("holdfast", "read", "-format", "=", "j") == ["json"]
    assert complete("holdfast", "read", "-format", "=") == ["table", "json"]
    assert complete("holdfast", "completion", "f") == ["fish"]


def test_the_other_shells_get_every_command_too(cli):
    for shell in ("zsh", "fish"):
        script = cli("completion", shell).stdout
        assert all(f"'{command}'" in script for command in COMMANDS)
    cli("completion", "csh", code=1)
    cli("completion", code=1)


def test_a_closed_output_is_an_error(cli):
    with open("/dev/full", "w") as full:
        done = subprocess.run([HOLDFAST, "secrets", "list"], stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=120, env=cli.env())
    assert done.returncode == 1 and "standard output" in done.stderr


def typed(cli, args, line):
    """Runs a command on a terminal and types a line at its prompt; (exit code, what was shown)."""
    terminal, its_side = pty.openpty()
    child = subprocess.Popen(["setsid", "--ctty", "--wait", HOLDFAST, *args], env=cli.env(),
                             stdin=its_side, stdout=its_side, stderr=its_side)
    os.close(its_side)
    shown, sent, deadline = b"", False, time.monotonic() + 100
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if part == b"":
            break
        shown += part
        if not sent and b"hidden" in shown:
            os.write(terminal, line)
            sent = True
    os.close(terminal)
    return child.wait(60), shown.decode()


def test_a_typed_token_is_not_shown(cli, tmp_path):
    token = cli("token", "create", "-policy=default", "-field=token").stdout
    code, shown = typed(cli, ["login"], token.encode() + b"\r")
    assert code == 0 and token not in shown and "Success" in shown
    assert (tmp_path / ".holdfast-token").read_text() == token
    code, shown = typed(cli, ["login"], b"\x03")
    assert code == 1


def test_a_node_is_removed_and_readmitted(tmp_path):
    with Cluster() as cluster:
        cli = Cli(cluster, tmp_path, node=cluster.nodes.index(cluster.active()))
        gone = cluster.standbys()[0]
        assert "removed" in cli("operator", "raft", "remove-peer", gone.name).stdout
        assert gone.name not in cli("operator", "raft", "list-peers").stdout
        cli("operator", "raft", "remove-peer", gone.name, code=2)
        cli("operator", "raft", "readmit", gone.name)
        cli("operator", "raft", "readmit", code=1)


class Sealed(Cluster):
    """One node of the kind with key shares, not yet initialised."""

    def __init__(self):
        super().__init__(size=1, config={"seal": {"static": None, "shamir": {}}})

    def init(self):
        self.await_health({501}, self.nodes)


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
        cli("operator", "seal")
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
        cli(*root, "-init", "-pgp-key=keybase:x", code=2)
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
        cli(*rekey, "-init", "-pgp-keys=x", code=2)
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


def test_an_answer_can_be_wrapped_and_unwrapped_once(cli):
    cli("kv", "put", "secret/cli/w", "x=1")
    token = cli("kv", "get", "-wrap-ttl=5m", "-field=wrapping_token", "secret/cli/w").stdout
    assert cli.json("unwrap", token)["data"]["data"] == {"x": "1"}
    again = cli("unwrap", token, code=2)
    assert token not in again.stderr
    token = cli.json("token", "create", "-policy=default", "-wrap-ttl=5m")["wrap_info"]["token"]
    made = cli("unwrap", "-field=token", token=token).stdout
    cli("token", "lookup", token=made)
    table = cli("read", "-wrap-ttl=60", "secret/data/cli/w").stdout
    token = re.search(r"^wrapping_token +(\S+)$", table, re.M).group(1)
    assert "x" in cli("unwrap", "-", stdin=token).stdout


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


def test_what_is_below_a_path_is_scanned(cli):
    for path in ("kv/cli-scan/a", "kv/cli-scan/b/c"):
        cli("write", path, "x=1")
    assert cli("scan", "kv/cli-scan").stdout.split() == ["Keys", "----", "a", "b/c"]
    assert cli.json("scan", "kv/cli-scan") == ["a", "b/c"]
    assert cli.json("list", "kv/cli-scan") == ["a", "b/"]
    cli("scan", "kv/cli-none", code=2)
    cli("scan", code=1)


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


# What makes commands ask the server; else "x" for each argument that is required.
GIVEN = {
    "write": ["x", "a=1"], "patch": ["x", "a=1"], "kv put": ["x", "a=1"], "kv patch": ["x", "a=1"],
    "kv list": ["x"], "kv undelete": ["x", "-versions=1"], "kv destroy": ["x", "-versions=1"],
    "kv rollback": ["x", "-version=1"], "login": ["x"], "token revoke": ["x"], "unwrap": ["x"],
    "policy write": ["x", "-"], "operator unseal": ["x"],
    "operator raft snapshot save": ["/dev/null/x"], "operator raft snapshot restore": ["/dev/null"],
}
ALONE = {"completion", "version", "policy fmt"}  # ask no server
NEVER = {"lease renew"}  # works: no lease can be renewed yet
WITHOUT_2 = {"status", "operator raft snapshot save"}  # 2 is for sealed; the file comes first


def client_commands():
    """Those that ask a server, with what their usage demands."""
    for command in COMMANDS:
        done = subprocess.run([HOLDFAST, *command.split(), "-help"], capture_output=True, text=True,
                              timeout=120)
        if "Flags of every command" in done.stdout:
            usage = done.stdout.splitlines()[0].removeprefix(f"usage: holdfast {command}")
            usage = usage.replace(" | ", "|")
            yield command, re.sub(r"\[[^]]*\]…?", "", usage).split()


@pytest.mark.parametrize("command, required", client_commands())
def test_what_is_given_wrongly_gives_1_and_no_server_2(cli, command, required):
    words = command.split()
    done = cli(*words, "-no-such-flag", code=1)
    assert done.stdout == ""
    if required:
        assert cli(*words, code=1).stdout == ""
    cli(*words, *required, "-format=neither", code=1)
    if command not in ALONE:
        for form in ("table", "json"):
            given = GIVEN.get(command, ["x"] * len(required))
            done = cli(*words, *given, f"-format={form}", stdin="x",
                       env={"HOLDFAST_ADDR": UNREACHABLE}, code=1 if command in WITHOUT_2 else 2)
            assert done.stdout == "" and done.stderr != ""


def test_every_command_was_seen_to_work():
    """By the tests above, all of them, or where another file of tests calls it."""
    here = pathlib.Path(__file__)
    others = " ".join(" ".join(path.read_text().split()) for path in here.parent.glob("*.py")
                      if path.name != here.name)

    def is_called(first, *rest):
        rest = ", ".join(f'"{word}"' for word in rest)
        return f'"{first}", {rest}' in others or (rest and f"{first}({rest}" in others)

    missing = [command for command in COMMANDS if command not in NEVER and
               0 not in ended.get(command, ()) and not is_called(*command.split())]
    assert not missing
