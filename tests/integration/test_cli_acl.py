"""The acl commands, against the registry of real nodes over TLS, with their exit codes."""

import json
import re
import time
import uuid

import pytest

from cluster import Cluster
from commands import Cli, not_seen

RULES = 'key_prefix "app/" {\n  policy = "read"\n}\n'
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
DUPLICATE = 'Unexpected response code: 500 (Invalid Policy: A Policy with Name "{}" already exists)'


class RegistryCluster(Cluster):
    recorded = False  # the document of the secrets service does not have these paths


CLUSTER = RegistryCluster


@pytest.fixture(scope="module")
def ready(cluster):
    """A cluster whose active node has made the builtin policies, soon after its start."""
    deadline = time.monotonic() + 60
    headers = {"X-Consul-Token": cluster.token}
    while len(cluster.nodes[0].call("GET", "/v1/acl/policies", headers=headers, token="").json) < 2:
        assert time.monotonic() < deadline, "there are no builtin policies"
        time.sleep(0.1)
    return cluster


@pytest.fixture
def cli(ready, tmp_path):
    return Cli(ready, tmp_path)


@pytest.fixture
def policy(cli):
    """Creates policies by name, and deletes them after the test."""
    made = []

    def create(name, *flags):
        made.append(name)
        return cli.json("acl", "policy", "create", f"-name={name}", *flags)

    yield create
    for name in made:
        cli("acl", "policy", "delete", f"-name={name}")


def api(cli, path, token=None):
    """What the registry replies to a client that is no command."""
    headers = {"X-Consul-Token": cli.cluster.token if token is None else token}
    return cli.cluster.nodes[-1].call("GET", "/v1/acl/" + path, headers=headers, token="")


def rows(text):
    """The rows "Name: value" of an output."""
    return dict(re.findall(r"^ *(\w[\w ]*): +(\S.*)$", text, re.M))


def test_policies_from_creation_to_deletion(cli, tmp_path):
    (tmp_path / "rules.hcl").write_text(RULES)
    created = cli("acl", "policy", "create", "-name=web", "-description=for the web",
                  f"-rules=@{tmp_path}/rules.hcl", "-valid-datacenter=dc1",
                  "-valid-datacenter=dc2").stdout
    id = rows(created)["ID"]
    assert re.fullmatch(UUID, id)
    assert created == (f"ID:           {id}\nName:         web\nDescription:  for the web\n"
                       f"Datacenters:  dc1, dc2\nRules:\n{RULES}\n")
    stored = api(cli, f"policy/{id}").json
    for by in (f"-id={id}", f"-id={id[:13]}", "-name=web"):
        assert cli("acl", "policy", "read", by).stdout == created
        assert cli.json("acl", "policy", "read", by) == stored
    meta = rows(cli("acl", "policy", "read", "-meta", "-name=web").stdout)
    assert meta["Modify Index"] == str(stored["ModifyIndex"]) and len(meta["Hash"]) == 64

    refused = cli("acl", "policy", "create", "-name=web", code=2).stderr
    assert refused == "Failed to create new policy: " + DUPLICATE.format("web") + "\n"
    cli("acl", "policy", "update", f"-id={id[:13]}", "-name=web2", "-description=")
    changed = api(cli, f"policy/{id}").json
    assert changed["Name"] == "web2" and changed["Description"] == ""
    assert changed["Rules"] == RULES and changed["Datacenters"] == ["dc1", "dc2"]
    cli("acl", "policy", "update", "-name=web2", "-rules=-", "-no-merge", stdin='acl = "read"')
    changed = api(cli, f"policy/{id}").json
    assert changed["Rules"] == 'acl = "read"' and "Datacenters" not in changed

    listed = cli.json("acl", "policy", "list")
    assert listed == api(cli, "policies").json
    assert [one["Name"] for one in listed].count("web2") == 1
    assert f"web2:\n   ID:           {id}\n" in cli("acl", "policy", "list").stdout
    assert cli("acl", "policy", "delete", f"-id={id}").stdout == (
        f'Policy "{id}" deleted successfully\n')
    assert "there is no policy" in cli("acl", "policy", "delete", f"-id={id}", code=2).stderr
    gone = cli("acl", "policy", "read", f"-id={id}", code=2).stderr
    assert gone.startswith("Error reading policy: Unexpected response code: 404 (")
    assert "no policy has this name" in cli("acl", "policy", "read", "-name=web2", code=2).stderr


def test_builtin_policies_have_names_with_a_slash(cli):
    shown = cli.json("acl", "policy", "read", "-name=builtin/global-read-only")
    assert shown["ID"].endswith("2")
    assert cli.json("acl", "policy", "read", "-id=global-management")["ID"].endswith("1")
    ambiguous = cli("acl", "policy", "read", "-id=00000000", code=2).stderr
    assert "more than one policy" in ambiguous
    kept = cli("acl", "policy", "delete", "-id=global-management", code=2).stderr
    assert "Delete operation not permitted on the builtin global-management policy" in kept


def test_upstreams_environment_is_understood(cli, tmp_path):
    node = cli.cluster.nodes[1]
    (tmp_path / "token").write_text(cli.cluster.token + "\n")
    theirs = {
        "HOLDFAST_ADDR": "", "HOLDFAST_CACERT": "", "HOLDFAST_TOKEN": "",
        "CONSUL_HTTP_ADDR": f"127.0.0.1:{node.client_port}", "CONSUL_HTTP_SSL": "true",
        "CONSUL_CACERT": str(cli.cluster.dir / "tls" / "tls-ca.pem"),
        "CONSUL_HTTP_TOKEN": cli.cluster.token,
    }
    command = ("acl", "policy", "list")
    shown = cli(*command).stdout
    assert "global-management:" in shown
    assert cli(*command, env=theirs).stdout == shown
    unverified = {**theirs, "CONSUL_CACERT": "", "CONSUL_HTTP_SSL_VERIFY": "false"}
    assert cli(*command, env=unverified).stdout == shown
    untrusted = cli(*command, env={**theirs, "CONSUL_CACERT": ""}, code=2).stderr
    assert "certificate is not trusted" in untrusted
    wrong = {**theirs, "CONSUL_HTTP_TOKEN": str(uuid.uuid4())}
    refused = cli(*command, env=wrong, code=2).stderr
    assert refused == ("Failed to retrieve the policy list: Unexpected response code: 403 "
                       "(ACL not found)\n")
    assert cli(*command, env={**wrong, "CONSUL_HTTP_TOKEN_FILE": f"{tmp_path}/token"}).stdout == shown
    assert cli(*command, f"-token-file={tmp_path}/token", env=wrong).stdout == shown
    assert cli(*command, f"-token={cli.cluster.token}", env=wrong).stdout == shown
    without_tls = cli(*command, env={**theirs, "CONSUL_HTTP_SSL": ""}, code=2).stderr
    assert "this port expects TLS: use https" in without_tls
    hint = cli(*command, env={**theirs, "CONSUL_HTTP_TOKEN": ""}, code=2).stderr
    assert "anonymous token lacks permission 'acl:read'" in hint and "CONSUL_HTTP_TOKEN" in hint


def test_datacenter_namespace_and_stale(cli):
    shown = cli("acl", "policy", "list").stdout
    assert cli("acl", "policy", "list", "-stale", "-dc=dc1", "-ns=default").stdout == shown
    other = cli("acl", "policy", "list", "-datacenter=none", code=2).stderr
    assert "No path to datacenter" in other
    assert cli("acl", "policy", "list", "-namespace=none").stdout == ""
    cli("acl", "policy", "create", "-name=x", "-namespace=none", code=2)


def test_tokens_from_creation_to_deletion(cli, policy):
    first, second = policy("cli-first", '-rules=acl = "read"'), policy("cli-second")
    created = cli("acl", "token", "create", "-description=d", "-policy-name=cli-first",
                  "-service-identity=web:dc1", "-node-identity=n1:dc1", "-expires-ttl=2h").stdout
    own = rows(created)
    accessor, secret = own["AccessorID"], own["SecretID"]
    assert re.fullmatch(UUID, accessor) and re.fullmatch(UUID, secret)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d [0-9:.]+ \+0000 UTC", own["Expiration Time"])
    assert created.endswith(
        f"Policies:\n   {first['ID']} - cli-first\nService Identities:\n   web (Datacenters: dc1)\n"
        "Node Identities:\n   n1 (Datacenter: dc1)\n\n")
    for by in (f"-accessor-id={accessor}", f"-id={accessor[:13]}"):
        assert cli("acl", "token", "read", by).stdout == created

    mine = {"CONSUL_HTTP_TOKEN": secret}
    assert cli("acl", "token", "read", "-self", env=mine).stdout == created
    hidden = cli.json("acl", "token", "list", env=mine)
    assert {one["SecretID"] for one in hidden} == {"<hidden>"}
    assert accessor in [one["AccessorID"] for one in hidden]
    assert "lacks permission 'acl:write'" in cli("acl", "policy", "create", "-name=x", env=mine,
                                                 code=2).stderr
    expanded = cli("acl", "token", "read", f"-id={accessor}", "-expanded").stdout
    assert '\t\tRules:\n\t\t\tacl = "read"\n' in expanded and "Default Policy: deny" in expanded

    cli("acl", "token", "update", f"-accessor-id={accessor[:13]}", "-description=new",
        f"-append-policy-id={second['ID'][:13]}", "-append-policy-name=cli-first")
    changed = api(cli, f"token/{accessor}").json
    assert changed["Description"] == "new" and changed["SecretID"] == secret
    assert {one["Name"] for one in changed["Policies"]} == {"cli-first", "cli-second"}
    assert changed["ServiceIdentities"] == [{"ServiceName": "web", "Datacenters": ["dc1"]}]
    assert changed["NodeIdentities"] == [{"NodeName": "n1", "Datacenter": "dc1"}]
    cli("acl", "token", "update", f"-id={accessor}", "-policy-name=cli-second",
        "-append-service-identity=db")
    changed = api(cli, f"token/{accessor}").json
    assert [one["Name"] for one in changed["Policies"]] == ["cli-second"]
    assert {one["ServiceName"] for one in changed["ServiceIdentities"]} == {"web", "db"}

    clone = rows(cli("acl", "token", "clone", f"-accessor-id={accessor}", "-description=c").stdout)
    assert clone["SecretID"] != secret and clone["Description"] == "c"
    assert clone["AccessorID"] in cli("acl", "token", "list", "-meta").stdout
    for one in (clone["AccessorID"], accessor):
        assert cli("acl", "token", "delete", f"-accessor-id={one}").stdout == (
            f'Token "{one}" deleted successfully\n')
    gone = cli("acl", "token", "read", f"-accessor-id={accessor}", code=2).stderr
    assert "Unexpected response code: 403 (token does not exist: ACL not found)" in gone
    assert "ACL not found" in cli("acl", "token", "read", "-self", env=mine, code=2).stderr


def test_ids_of_a_new_token_may_be_chosen(cli, policy):
    policy("cli-chosen")
    accessor, secret = str(uuid.uuid4()), str(uuid.uuid4())
    cli("acl", "token", "create", "-policy-name=cli-chosen", f"-accessor={accessor}", "-secret=-",
        "-local", stdin=secret + "\n")
    shown = cli.json("acl", "token", "read", "-self", env={"CONSUL_HTTP_TOKEN": secret})
    assert shown["AccessorID"] == accessor and shown["Local"] is True
    taken = cli("acl", "token", "create", "-policy-name=cli-chosen", f"-accessor={accessor}",
                code=2).stderr
    assert "Invalid Token: AccessorID is already in use" in taken
    cli("acl", "token", "delete", f"-id={accessor}")


def test_the_anonymous_token_can_have_policies(cli, policy):
    policy("cli-anonymous", '-rules=acl = "read"')
    no_token = {"HOLDFAST_TOKEN": ""}
    cli("acl", "policy", "list", env=no_token, code=2)
    cli("acl", "token", "update", "-accessor-id=anonymous", "-policy-name=cli-anonymous")
    assert "cli-anonymous" in cli("acl", "policy", "list", env=no_token).stdout


def test_a_bootstrap_works_once(cli, tmp_path):
    secret = str(uuid.uuid4())
    (tmp_path / "secret").write_text(secret + "\n")
    first = cli.json("acl", "bootstrap", str(tmp_path / "secret"))
    assert first["SecretID"] == secret == first["ID"]
    assert "global-management" in cli("acl", "policy", "list", token=secret).stdout
    again = cli("acl", "bootstrap", "-", stdin=str(uuid.uuid4()), code=2).stderr
    assert re.search(r"^Failed ACL bootstrapping: Unexpected response code: 403 \(Permission denied: "
                     r"ACL bootstrap no longer allowed \(reset index: \d+\)\)$", again, re.M)
    cli("acl", "bootstrap", str(tmp_path / "none"), code=1)
    assert json.loads(cli("acl", "token", "list", "-format=json", token=secret).stdout)


def test_every_command_was_seen_to_work():
    """Those of this file, by the tests above, all of them."""
    assert not not_seen(__file__)
