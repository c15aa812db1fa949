"""Commands for secrets, tokens, policies and engines, against real nodes over TLS, with their exit
codes."""

import json
import re
import stat

import pytest

from commands import SECRET, Cli, not_seen, typed


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
    assert 'holdfast kv list secret/' in cli("kv", "get", "secret", code=1).stderr
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
    for flags, says in ((["-prefix"], "All revocation operations queued successfully!\n"),
                        (["-prefix", "-sync"], "Success! Revoked any leases with prefix: auth/token\n"),
                        (["-prefix", "-force"], "Success! Force revoked any leases with prefix: auth/token\n")):
        token, leases = make()
        assert "create/" in cli("lease", "list", "auth/token").stdout
        assert cli.json("lease", "list", "auth/token/create") == [l.rpartition("/")[2] for l in leases]
        assert cli.json("lease", "count")["data"]["counts"]["auth/token/"] >= len(leases)
        done = cli("lease", "revoke", *flags, "auth/token")
        assert done.stdout == says and ("Warning!" in done.stderr) == ("-force" in flags)
        cli("token", "lookup", token=token, code=2)
    assert "No value found" in cli("lease", "list", "auth/token", code=2).stderr
    assert cli.json("lease", "count", "-creators")["data"]["creators"] == []
    assert cli("lease", "count", "-field=lease_count").stdout.isdigit()
    assert "Nothing to do" in cli("lease", "tidy").stderr


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
    cli("secrets", "tune", "-max-lease-ttl=wrong", "cli-f", code=1)
    cli("secrets", "disable", "cli-f/")
    assert "cli-f/" not in cli.json("secrets", "list")
    cli("secrets", "move", "one", code=1)
    cli("secrets", "enable", code=1)


def test_auth_methods_are_mounted_tuned_moved_and_unmounted(cli):
    assert "Enabled the userpass auth method at: cli-u/" in cli(
        "auth", "enable", "-path=cli-u", "-description=people", "-max-lease-ttl=3h", "userpass").stdout
    assert re.search(r"^cli-u/ +userpass .* people$", cli("auth", "list").stdout, re.M)
    assert "10800" in cli("auth", "list", "-detailed").stdout
    cli("auth", "tune", "-default-lease-ttl=1h", "-token-type=batch", "cli-u")
    config = cli.json("auth", "list")["cli-u/"]["config"]
    assert config["default_lease_ttl"] == 3600 and config["token_type"] == "batch"
    cli("write", "auth/cli-u/users/ann", "password=x", "token_policies=default")
    assert "Finished moving auth method cli-u/ to cli-v/" in cli("auth", "move", "cli-u", "cli-v").stdout
    login = ["login", "-method=userpass", "-no-store", "username=ann", "password=x"]
    assert cli(*login, "-path=cli-v", "-field=token").stdout.startswith("hvb.")
    cli(*login, "-path=cli-u", code=2)
    cli("auth", "enable", "-path=cli-v", "userpass", code=2)
    cli("auth", "enable", "no-such-type", code=2)
    cli("auth", "disable", "cli-v/")
    assert "cli-v/" not in cli.json("auth", "list")
    assert "token/" in cli.json("auth", "list")


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


def test_a_typed_token_is_not_shown(cli, tmp_path):
    token = cli("token", "create", "-policy=default", "-field=token").stdout
    code, shown = typed(cli, ["login"], token.encode() + b"\r")
    assert code == 0 and token not in shown and "Success" in shown
    assert (tmp_path / ".holdfast-token").read_text() == token
    code, shown = typed(cli, ["login"], b"\x03")
    assert code == 1


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


def test_what_is_below_a_path_is_scanned(cli):
    for path in ("kv/cli-scan/a", "kv/cli-scan/b/c"):
        cli("write", path, "x=1")
    assert cli("scan", "kv/cli-scan").stdout.split() == ["Keys", "----", "a", "b/c"]
    assert cli.json("scan", "kv/cli-scan") == ["a", "b/c"]
    assert cli.json("list", "kv/cli-scan") == ["a", "b/"]
    cli("scan", "kv/cli-none", code=2)
    cli("scan", code=1)


def test_every_command_was_seen_to_work():
    """Those of this file, by the tests above, all of them."""
    assert not not_seen(__file__)
