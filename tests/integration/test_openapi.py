"""The OpenAPI document: the whole document, parts by path, and the verdict of a linter."""

import json
import subprocess

import pytest

from cluster import TOP

LINTER = TOP / "build" / "venv" / "bin" / "openapi-spec-validator"
SPECS = "/v1/sys/internal/specs/openapi"
METHODS = ("get", "head", "post", "put", "patch", "delete")


def lint(document, path):
    assert LINTER.exists(), "tests/run integration installs the linter"
    path.write_text(json.dumps(document))
    done = subprocess.run([LINTER, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def powerless(cluster):
    """A token whose one policy allows nothing."""
    node = cluster.nodes[0]
    policy = {"policy": 'path "nothing/here" { capabilities = ["read"] }'}
    assert node.call("PUT", "/v1/sys/policies/acl/nothing", policy).status == 204
    body = {"policies": ["nothing"], "no_default_policy": True}
    return node.call("POST", "/v1/auth/token/create", body).json["auth"]["client_token"]


@pytest.mark.parametrize("query", ["", "?generic_mount_paths=true"])
@pytest.mark.parametrize("root", [True, False])
def test_a_linter_accepts_the_document(cluster, tmp_path, query, root):
    answer = cluster.nodes[1].call("GET", SPECS + query, token=None if root else "")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    document = answer.json
    assert document["openapi"].startswith("3.0.")
    ids = [p[m]["operationId"] for p in document["paths"].values() for m in METHODS if m in p]
    assert len(ids) == len(set(ids)) > 60
    lint(document, tmp_path / "openapi.json")


def test_the_document_shows_the_mounts_that_the_token_can_use(cluster):
    node = cluster.nodes[0]
    whole = node.call("GET", SPECS).json["paths"]
    assert {"/secret/data/{path}", "/kv/{path}", "/cubbyhole/{path}", "/sys/health"} <= set(whole)
    for token in ("", powerless(cluster)):
        paths = node.call("GET", SPECS, token=token).json["paths"]
        assert "/sys/health" in paths and "/secret/data/{path}" not in paths
    generic = node.call("GET", SPECS + "?generic_mount_paths=1", token="").json["paths"]
    assert "/{kv_v2_mount_path}/data/{path}" in generic
    assert "/{kv_v1_mount_path}/{path}" in generic
    assert not any(path.startswith("/secret/") for path in generic)
    assert node.call("GET", SPECS + "?generic_mount_paths=maybe").status == 400
    assert node.call("GET", SPECS, token="hvs.wrong").status == 403


def test_the_document_says_what_an_operation_takes_and_answers(cluster):
    paths = cluster.nodes[0].call("GET", SPECS).json["paths"]
    create = paths["/auth/token/create"]["post"]
    fields = create["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert fields["ttl"]["type"] == "integer" and fields["policies"]["type"] == "array"
    assert fields["id"]["format"] == "password"
    assert create["x-holdfast-auth"] == "token"
    health = paths["/sys/health"]
    assert health["get"]["x-vault-unauthenticated"] is True and "head" in health
    listing = paths["/sys/policies/acl/"]["get"]
    assert listing["x-holdfast-method"] == "LIST"
    assert listing["parameters"][0]["name"] == "list" and listing["parameters"][0]["required"]
    read = paths["/secret/data/{path}"]
    assert read["parameters"][0] | {"description": ""} == {
        "name": "path", "in": "path", "required": True, "description": "",
        "schema": {"type": "string"},
    }


def reply_of(operation, status="200"):
    return operation["responses"][status]["content"]["application/json"]["schema"]["properties"]


def test_the_document_says_what_a_reply_holds(cluster):
    document = cluster.nodes[0].call("GET", SPECS).json
    paths = document["paths"]
    create = paths["/auth/token/create"]["post"]
    assert reply_of(create)["auth"] == {"$ref": "#/components/schemas/Auth"}
    assert "204" not in create["responses"]
    assert "token_policies" in document["components"]["schemas"]["Auth"]["required"]
    tidy = paths["/sys/leases/tidy"]["post"]
    assert reply_of(tidy, "202")["data"]["maxProperties"] == 0
    assert "204" not in tidy["responses"] and "200" not in tidy["responses"]
    peer = reply_of(paths["/sys/ha-status"]["get"])["data"]["properties"]["nodes"]["items"]
    assert peer["properties"]["last_echo"] == {"type": "string", "nullable": True}
    words = reply_of(paths["/sys/capabilities"]["post"])["data"]["additionalProperties"]
    assert words == {"type": "array", "items": {"type": "string"}}


def test_help_describes_a_path_and_those_below_it(cluster, tmp_path):
    node = cluster.nodes[0]
    for path, here, below in [
        ("sys/mounts", {"get"}, {"/{path}", "/{path}/tune"}),
        ("sys/mounts/kv", {"get", "post", "delete"}, {"/tune", "/{path}", "/{path}/tune"}),
        ("sys/rotate", {"post"}, {"/keyring"}),
        ("secret/data/some/secret", {"get", "post", "patch", "delete"}, {"/{path}"}),
        ("secret", None, {"/data/{path}", "/config", "/metadata/{path}/"}),
        ("sys", None, {"/health", "/mounts/{path}"}),
        ("auth/token", None, {"/create", "/lookup-self"}),
        ("sys/policies", None, {"/acl/", "/acl/{name}"}),
    ]:
        answer = node.call("GET", f"/v1/{path}?help=1")
        assert answer.status == 200, (path, answer.body)
        assert set(answer.json) == {"help", "see_also", "openapi"}
        assert answer.json["help"].startswith(f"# {path}\n")
        document = answer.json["openapi"]
        assert document["servers"] == [{"url": f"/v1/{path}"}]
        assert below <= set(document["paths"]), (path, list(document["paths"]))
        if here is not None:
            assert here == set(document["paths"]["/"]) & set(METHODS), path
        if path in ("sys", "secret/data/some/secret"):
            lint(document, tmp_path / "help.json")
    text = node.call("GET", "/v1/secret/data/x?help=1").json["help"]
    assert "## GET" in text and "## PATCH" in text and "| `options` |" in text


def test_help_is_for_those_who_may_do_something_there(cluster):
    node = cluster.nodes[0]
    weak = powerless(cluster)
    assert node.call("GET", "/v1/nothing/here?help=1", token=weak).status == 404
    assert node.call("GET", "/v1/kv/x?help=1", token=weak).status == 403
    assert node.call("GET", "/v1/sys/mounts?help=1", token=weak).status == 403
    assert node.call("GET", "/v1/sys/health?help=1", token=weak).status == 200
    for path in ("kv/x", "sys/mounts", "sys/health", "none/such"):
        assert node.call("GET", f"/v1/{path}?help=1", token="").status == 403
        assert node.call("GET", f"/v1/{path}?help=1", token="hvs.x").status == 403
    assert node.call("GET", "/v1/none/such?help=1").status == 404
    assert node.call("GET", "/v1/sys/none/such?help=1").status == 404
    assert node.call("GET", "/v1/sys/mounts?help=perhaps").status == 400
    assert "type" not in node.call("GET", "/v1/sys/mounts?help=0").json["data"]
    denied = {"policy": 'path "kv/*" { capabilities = ["read"] }\n'
                        'path "kv/no" { capabilities = ["deny"] }'}
    assert node.call("PUT", "/v1/sys/policies/acl/some", denied).status == 204
    some = node.call("POST", "/v1/auth/token/create", {"policies": ["some"]})
    some = some.json["auth"]["client_token"]
    assert node.call("GET", "/v1/kv/yes?help=1", token=some).status == 200
    assert node.call("GET", "/v1/kv/no?help=1", token=some).status == 403


def test_each_api_has_a_document(cluster, tmp_path):
    node = cluster.nodes[2]
    for token in ("", None):
        document = node.call("GET", SPECS + "?api=registry", token=token).json
        lint(document, tmp_path / "registry.json")
        paths = document["paths"]
        assert {"/status/leader", "/status/peers", "/agent/self", "/acl/roles"} <= set(paths)
        assert not any(path.startswith(("/sys", "/auth/", "/secret")) for path in paths)
    roles = paths["/acl/roles"]["get"]
    assert roles["x-holdfast-permission"] == "acl:read"
    assert {"stale", "consistent", "max_stale", "token"} <= {p["name"] for p in roles["parameters"]}
    assert paths["/status/leader"]["get"]["x-holdfast-auth"] == "none"
    assert "text/plain" in document["components"]["responses"]["Error"]["content"]
    assert node.call("GET", SPECS + "?api=secrets").json == node.call("GET", SPECS).json
    refused = node.call("GET", SPECS + "?api=none")
    assert refused.status == 400
    assert "'api' is invalid: one of secrets, registry, platform, scheduler is expected" in refused.json["errors"][0]


def test_help_of_the_registry_needs_no_token(cluster, tmp_path):
    node = cluster.nodes[1]
    for path, below in (("acl", "/roles"), ("acl/roles", "/"), ("status", "/leader"), ("agent", "/self")):
        answer = node.call("GET", f"/v1/{path}?help=1", token="")
        assert answer.status == 200, (path, answer.body)
        assert answer.json["help"].startswith(f"# {path}\n")
        assert answer.json["see_also"][-1] == "sys/internal/specs/openapi?api=registry"
        assert below in answer.json["openapi"]["paths"]
        lint(answer.json["openapi"], tmp_path / "help.json")
    assert "`acl:read`" in node.call("GET", "/v1/acl/roles?help=1", token="").json["help"]
    assert node.call("GET", "/v1/acl/none/such?help=1", token="").status == 404


def test_the_document_of_the_platform_describes_its_kinds(cluster, tmp_path):
    document = cluster.nodes[2].call("GET", SPECS + "?api=platform").json
    lint(document, tmp_path / "platform.json")
    kind = "application/vnd.api+json"
    create = document["paths"]["/organizations/{org}/tasks"]["post"]
    sent = create["requestBody"]["content"][kind]["schema"]["properties"]["data"]["properties"]["attributes"]
    assert {"name", "url", "hmac-key", "category"} <= set(sent["properties"])
    reply = create["responses"]["201"]["content"][kind]["schema"]["properties"]["data"]
    assert reply["properties"]["attributes"]["properties"]["description"]["nullable"] is True
    assert create["x-holdfast-permission"] == "organization: manage run tasks"
    listed = document["paths"]["/workspaces/{ws}/notification-configurations"]["get"]
    assert {"page[number]", "page[size]", "include"} <= {p["name"] for p in listed["parameters"]}
