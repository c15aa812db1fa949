"""Fields in odd forms, on every route of the OpenAPI documents: required fields that are absent, and
durations, limits and texts from which no form may make a weaker setting than the client asked for."""

import re

import pytest

APIS = ("", "?api=registry")
SPECS = "/v1/sys/internal/specs/openapi"
WRITES = ("post", "put", "patch")
FOREIGN = {"dr_operation_token"}  # takes the place of the client's token, which the tests send

# Routes that do something useful without any of their fields. A new route without a required field
# belongs here, or it refuses an empty body.
NEEDS_NOTHING = {
    "/auth/token/create", "/auth/token/create-orphan", "/auth/token/create/{role}",
    "/auth/token/lookup", "/auth/token/renew-self", "/auth/token/roles/{role}",
    "/identity/entity", "/identity/entity/name/{name}", "/identity/group", "/identity/group/name/{name}",
    "/secret/config", "/secret/metadata/{path}",
    "/sys/config/auditing/request-headers/{name}", "/sys/generate-root-token/attempt",
    "/sys/generate-root/attempt", "/sys/init", "/sys/quotas/config",
    "/sys/leases/renew/{lease_id}", "/sys/leases/revoke-force/{prefix}",
    "/sys/leases/revoke-prefix/{prefix}", "/sys/leases/revoke/{lease_id}",
    "/sys/renew/{lease_id}", "/sys/revoke-force/{prefix}", "/sys/revoke-prefix/{prefix}",
    "/sys/revoke/{lease_id}", "/sys/rotate/config", "/sys/rotate/keyring/config",
    "/sys/replication/dr/primary/enable", "/sys/replication/dr/primary/settings",
    "/sys/replication/dr/secondary/drill", "/sys/replication/dr/secondary/promote",
    "/sys/replication/dr/secondary/generate-operation-token/attempt",
    "/sys/storage/raft/autopilot/configuration", "/sys/storage/raft/join-token",
    "/sys/tools/hash", "/sys/tools/hash/{algorithm}", "/sys/tools/random",
    "/sys/tools/random/{source}", "/sys/tools/random/{source}/{urlbytes}",
    "/acl/bootstrap", "/acl/token", "/acl/token/{accessor}", "/acl/token/{accessor}/clone",
}
# Never a duration, whatever the field.
ODD = ("500ms", "1.5s", "0.000000001s", 0.5, -1, "-1s", "-500ms", "soon", [1], {"a": 1}, True, False,
       10**20, 1e30, "99999999999999999999", "300y", " 5")


def writes(cluster):
    """Path, method and body schema of every route that takes fields."""
    for api in APIS:
        document = cluster.nodes[0].call("GET", SPECS + api).json
        for path, item in document["paths"].items():
            for verb in WRITES:
                operation = item.get(verb, {})
                content = operation.get("requestBody", {}).get("content", {})
                schema = next(iter(content.values()), {}).get("schema", {})
                fields = set(schema.get("properties", ())) - FOREIGN
                if fields:
                    yield path, operation["x-holdfast-method"], schema


def ask(node, path, method, body):
    target = "/v1" + re.sub(r"\{[^}]*\}", "sample", path)
    patch = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None
    return node.call(method, target, body, headers=patch)


def sample(kind):
    return {"integer": 1, "boolean": True, "array": ["a"]}.get(kind, "text")


def required(schema):
    return {name: sample(schema["properties"][name].get("type")) for name in schema.get("required", ())}


def names(answer, field):
    return answer.status == 400 and field in answer.body.decode()


def test_a_required_field_is_absent_null_or_misspelled_on_no_route(cluster):
    node, seen = cluster.nodes[0], 0
    for path, method, schema in writes(cluster):
        whole = required(schema)
        for field, value in whole.items():
            others = {name: whole[name] for name in whole if name != field}
            for body in (others, others | {field: None}, others | {field + "x": value},
                         others | {field[:-1]: value}):
                answer = ask(node, path, method, body)
                assert names(answer, field), (method, path, body, answer.status, answer.body)
            if isinstance(value, str):  # an empty text may have an error of its own
                answer = ask(node, path, method, others | {field: ""})
                assert 400 <= answer.status < 500, (method, path, field, answer.body)
            seen += 1
    assert seen > 40


def test_a_route_needs_a_field_unless_it_is_known_to_need_none(cluster):
    known = set()
    for path, method, schema in writes(cluster):
        known.add(path)
        if path in NEEDS_NOTHING or required(schema):
            continue
        for body in ({}, {"mistaken": "x"}, dict.fromkeys(schema["properties"])):
            answer = ask(cluster.nodes[0], path, method, body)
            assert 400 <= answer.status < 500, (method, path, body, answer.status, answer.body)
    assert NEEDS_NOTHING <= known, NEEDS_NOTHING - known


def test_no_duration_loses_its_fraction_or_its_sign(cluster):
    node, seen = cluster.nodes[0], 0
    for path, method, schema in writes(cluster):
        for field, kind in schema["properties"].items():
            if kind.get("format") != "seconds":
                continue
            seen += 1
            for value in ODD:
                answer = ask(node, path, method, required(schema) | {field: value})
                assert names(answer, field), (method, path, field, value, answer.status, answer.body)
    assert seen > 25


def created(node, **body):
    return node.call("POST", "/v1/auth/token/create", body)


@pytest.mark.parametrize("field", ["default_lease_ttl", "max_lease_ttl"])
def test_the_ttl_of_a_mount_is_whole_seconds_and_empty_is_not_given(cluster, field):
    node, path = cluster.nodes[0], f"/v1/sys/mounts/ttl-{field[:3]}"
    config = {"default_lease_ttl": "10m", "max_lease_ttl": "1h"}
    assert node.call("POST", path, {"type": "kv", "config": config}).status == 204
    for value in ODD:
        assert names(node.call("POST", f"{path}/tune", {field: value}), field), value
        new = node.call("POST", f"/v1/sys/mounts/none-{field[:3]}", {"type": "kv", "config": {field: value}})
        assert names(new, field), value
    shown = {"default_lease_ttl": 600, "max_lease_ttl": 3600}
    for value in ("", None):  # clients in Go send both fields, empty if they are not given
        body = {"default_lease_ttl": value, "max_lease_ttl": value, "description": "changed"}
        assert node.call("POST", f"{path}/tune", body).status == 204
        assert shown.items() <= node.call("GET", f"{path}/tune").data.items()
    for value in ("system", "0", 0):
        assert node.call("POST", f"{path}/tune", {field: "30m"}).status == 204
        assert node.call("GET", f"{path}/tune").data[field] == 1800
        assert node.call("POST", f"{path}/tune", config | {field: value}).status == 204
        assert node.call("GET", f"{path}/tune").data[field] == 2764800, value
    keys = {"audit_non_hmac_request_keys": ["a"], "default_lease_ttl": "", "max_lease_ttl": ""}
    assert node.call("POST", "/v1/sys/mounts/sys/tune", keys).status == 204
    assert node.call("POST", "/v1/sys/mounts/sys/tune", {"audit_non_hmac_request_keys": []}).status == 204
    assert node.call("DELETE", path).status == 204


def test_empty_and_null_durations_of_a_token_are_not_given(cluster):
    node = cluster.nodes[0]
    for value in ("", None, 0, "0", "0s"):
        answer = created(node, ttl=value, period=value, explicit_max_ttl=value, policies=["default"])
        assert answer.status == 200 and answer.json["auth"]["lease_duration"] == 2764800
    for value, seconds in (("1h", 3600), ("1.5m", 90), ("2d", 172800), (90, 90), ("90", 90), ("2000ms", 2)):
        auth = created(node, ttl=value, policies=["default"]).json["auth"]
        assert seconds - 1 <= auth["lease_duration"] <= seconds
    for kind in ("service", "batch"):
        assert names(created(node, ttl="500ms", type=kind), "ttl")


def test_a_limit_of_uses_is_a_number_or_absent(cluster):
    node, role = cluster.nodes[0], "/v1/auth/token/roles/uses"
    for value in ("", True, False, 0.5, -1, "many", [1], 10**20):
        assert names(created(node, num_uses=value), "number of uses" if value == -1 else "num_uses"), value
        assert names(node.call("POST", role, {"token_num_uses": value}), "token_num_uses"), value
        assert names(node.call("POST", "/v1/secret/metadata/x", {"metadata_cas": value}),
                     "metadata_cas") or value == -1
        if value != -1:  # the policy must not exist
            body = {"policy": 'path "x" { capabilities = ["read"] }', "cas": value}
            assert names(node.call("POST", "/v1/sys/policies/acl/odd", body), "cas"), value
            assert node.call("POST", "/v1/secret/data/odd", {"data": {}, "options": {"cas": value}}).status == 400
    assert names(node.call("POST", "/v1/sys/policies/acl/odd", {"policy": 'path "x" {}', "ttl": ""}), "ttl")


def test_an_empty_text_changes_no_limit_of_a_role(cluster):
    node, role = cluster.nodes[0], "/v1/auth/token/roles/kept"
    first = {"token_explicit_max_ttl": "1h", "token_period": "10m", "token_no_default_policy": True,
             "token_bound_cidrs": "127.0.0.0/8", "renewable": False}
    assert node.call("POST", role, first).status == 204
    for body in ({"token_explicit_max_ttl": "", "period": "", "token_no_default_policy": "", "renewable": ""},
                 {"explicit_max_ttl": None, "token_period": "", "token_no_default_policy": None}):
        assert node.call("POST", role, body).status == 204
        shown = node.call("GET", role).data
        assert (shown["token_explicit_max_ttl"], shown["token_period"]) == (3600, 600)
        assert shown["token_no_default_policy"] is True and shown["renewable"] is False
    for value in (",", " ", " , ", [""], ["x"], [None], {"a": "b"}, True, "127.0.0.1/33"):
        assert names(node.call("POST", role, {"token_bound_cidrs": value}), "token_bound_cidrs"), value
    assert node.call("GET", role).data["token_bound_cidrs"] == ["127.0.0.0/8"]
    assert node.call("DELETE", role).status == 204


def test_versions_are_deleted_at_no_later_age_than_asked(cluster):
    node, config = cluster.nodes[0], "/v1/secret/config"
    assert node.call("POST", config, {"delete_version_after": "1h", "cas_required": True}).status == 204
    for value in ("500ms", "1.5s", 0.5, "soon", "-", [1], {}, True, False, 10**20):
        assert names(node.call("POST", config, {"delete_version_after": value}), "delete_version_after"), value
    for body in ({"delete_version_after": "", "cas_required": ""}, {"delete_version_after": None}):
        assert node.call("POST", config, body).status == 204
        shown = node.call("GET", config).data
        assert shown["delete_version_after"] == "1h0m0s" and shown["cas_required"] is True
    body = {"delete_version_after": "0s", "cas_required": False}
    assert node.call("POST", config, body).status == 204


@pytest.mark.parametrize("ttl", ["500ms", "1.5s", "-1", "soon", "0.5", "99999999999999999999", "[1]"])
def test_a_wrap_ttl_is_whole_seconds(cluster, ttl):
    answer = cluster.nodes[0].call("GET", "/v1/auth/token/lookup-self", headers={"X-Vault-Wrap-TTL": ttl})
    assert names(answer, "Wrap-TTL")


def test_empty_texts_of_settings_are_not_given(cluster):
    node, quota = cluster.nodes[0], "/v1/sys/quotas/rate-limit/empty"
    body = {"rate": 1000, "interval": "", "block_interval": "", "path": "", "role": "", "inheritable": ""}
    assert node.call("POST", quota, body).status == 204
    shown = node.call("GET", quota).data
    assert (shown["interval"], shown["block_interval"]) == (1, 0)
    assert node.call("DELETE", quota).status == 204
    autopilot = "/v1/sys/storage/raft/autopilot/configuration"
    before = node.call("GET", autopilot).data
    empty = dict.fromkeys(before, "")
    assert node.call("POST", autopilot, empty).status == 204
    assert node.call("GET", autopilot).data == before
    rotation = "/v1/sys/rotate/config"
    assert node.call("POST", rotation, {"interval": "48h"}).status == 204
    assert node.call("POST", rotation, {"interval": "", "enabled": "", "max_operations": ""}).status == 204
    assert node.call("GET", rotation).data["interval"] == "48h0m0s"
    assert node.call("POST", rotation, {"interval": 0}).status == 204


RATE, LEASES = "/v1/sys/quotas/rate-limit", "/v1/sys/quotas/lease-count"


def paths_of_quotas(node):
    found = {}
    for kind in (RATE, LEASES):
        keys = node.call("LIST", kind)
        for name in keys.data["keys"] if keys.status == 200 else ():
            found[name] = node.call("GET", f"{kind}/{name}").data["path"]
    return found


def move(node, start, end):
    return node.call("POST", "/v1/sys/remount", {"from": start, "to": end})


def test_quotas_move_and_end_with_their_mount(cluster):
    node = cluster.nodes[0]
    for path in ("team/kv", "team/other"):
        cluster.mount(path, {"version": "1"})
    for name, path in (("all", ""), ("mount", "team/kv"), ("below", "team/kv/a*"), ("other", "team/other/"),
                       ("part", "team/other/a")):
        assert node.call("POST", f"{RATE}/{name}", {"rate": 100000, "path": path}).status == 204, name
    assert node.call("POST", f"{LEASES}/leases", {"max_leases": 1000, "path": "team/kv/"}).status == 204
    before = paths_of_quotas(node)
    assert before["mount"] == before["leases"] == "team/kv/"
    assert move(node, "team/kv", "moved").status == 200
    assert paths_of_quotas(node) == before | {"mount": "moved/", "below": "moved/a*", "leases": "moved/"}
    assert move(node, "moved", "moved/deeper").status == 200
    assert paths_of_quotas(node) == before | {"mount": "moved/deeper/", "below": "moved/deeper/a*",
                                              "leases": "moved/deeper/"}
    quota = node.call("GET", f"{RATE}/mount").data
    assert quota["rate"] == 100000 and quota["interval"] == 1
    assert node.call("DELETE", "/v1/sys/mounts/moved/deeper").status == 204
    left = {name: path for name, path in before.items() if name in ("all", "other", "part")}
    assert paths_of_quotas(node) == left
    cluster.mount("moved/deeper", {"version": "1"})
    assert paths_of_quotas(node) == left  # the next mount of the path has no limit
    for path in ("moved/deeper", "team/other"):
        assert node.call("DELETE", f"/v1/sys/mounts/{path}").status == 204
    assert paths_of_quotas(node) == {"all": ""}
    assert node.call("DELETE", f"{RATE}/all").status == 204


def test_a_mount_with_a_quota_does_not_move_to_a_path_that_its_quota_cannot_have(cluster):
    node = cluster.nodes[0]
    cluster.mount("short", {"version": "1"})
    path = "short/" + "x" * 500
    assert node.call("POST", f"{RATE}/long", {"rate": 5, "path": path}).status == 204
    answer = move(node, "short", "longer-than-short")
    assert answer.status == 400 and "longer than 512" in answer.body.decode()
    assert paths_of_quotas(node) == {"long": path}
    assert node.call("GET", "/v1/sys/mounts/short/tune").status == 200
    assert node.call("DELETE", "/v1/sys/mounts/short").status == 204
    assert paths_of_quotas(node) == {}


def test_the_quota_of_an_api_outlives_a_mount_of_the_same_path(cluster):
    node = cluster.nodes[0]
    assert node.call("POST", f"{RATE}/api", {"rate": 100000, "path": "registry/acl/"}).status == 204
    cluster.mount("registry", {"version": "1"})
    assert node.call("DELETE", "/v1/sys/mounts/registry").status == 204
    assert paths_of_quotas(node) == {"api": "registry/acl/"}
    assert node.call("DELETE", f"{RATE}/api").status == 204
