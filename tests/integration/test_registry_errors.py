"""Every documented error of the registry: its status and text, through every node and listener."""

import pytest

from registry import RegistryCluster, ask, everywhere

STRANGE = "5d4e1c0a-3b2f-4a6d-8c7e-9f0a1b2c3d4e"  # an id of nothing
SECRET = "c3f1d2b4-7a6e-4f58-9b0c-d1e2f3a4b5c6"  # of no token
ANONYMOUS = "00000000-0000-0000-0000-000000000002"
MANAGEMENT = "00000000-0000-0000-0000-000000000001"
LONG = "n" * 129
NAMES = "Invalid Policy: invalid Name. Only alphanumeric characters, '-' and '_' are allowed"

# Method, path, body, sender, status, text. {policy} is a policy with the name {name}, {other} another one;
# {token} is a token without rights, {manager} one with all. A text that ends in "…" continues.
POLICIES = [
    ("PUT", "acl/policy", {"ID": STRANGE, "Name": "x"}, "good", 400,
     "Cannot specify the ID when creating a new policy"),
    ("PUT", "acl/policy", {"Name": "{name}"}, "good", 500,
     'Invalid Policy: A Policy with Name "{name}" already exists'),
    ("PUT", "acl/policy", {}, "good", 500, "Invalid Policy: no Name is set"),
    ("PUT", "acl/policy", {"Name": "a b"}, "good", 500, NAMES),
    ("PUT", "acl/policy", {"Name": LONG}, "good", 500, "Invalid Policy: invalid Name…"),
    ("PUT", "acl/policy", {"Name": "a/b"}, "good", 500, "Invalid Policy: invalid Name…"),
    ("PUT", "acl/policy", {"Name": "builtin/x"}, "good", 500, "Invalid Policy: …"),
    ("PUT", "acl/policy", {"Name": "x", "Rule": ""}, "good", 400,
     'Policy decoding failed: json: unknown field "Rule"'),
    ("PUT", "acl/policy", b"", "good", 400, "Policy decoding failed: EOF"),
    ("PUT", "acl/policy", b"{", "good", 400, "Policy decoding failed: …"),
    ("PUT", "acl/policy", {"Name": "x", "Rules": "acl = "}, "good", 500,
     "Failed to parse ACL rules: …"),
    ("PUT", "acl/policy", {"Name": "x", "Rules": 'acl = "all"'}, "good", 500,
     'Invalid acl policy: "all"…'),
    ("PUT", "acl/policy", {"Name": "x", "Rules": 'key_prefix "a" { policy = "all" }'}, "good", 500,
     "Invalid key_prefix policy: …"),
    ("PUT", "acl/policy",
     {"Name": "x", "Rules": 'service "a" { policy = "read" intentions = "all" }'}, "good", 500,
     "Invalid service intentions policy: …"),
    ("PUT", "acl/policy", {"Name": "x"}, "weak", 403,
     "Permission denied: token with AccessorID '{token}' lacks permission 'acl:write'"),
    ("PUT", "acl/policy/{policy}", {"ID": "{other}", "Name": "x"}, "good", 400,
     "Policy ID in URL and payload do not match"),
    ("PUT", "acl/policy/short", {"Name": "x"}, "good", 500, "Policy ID invalid UUID"),
    ("PUT", f"acl/policy/{STRANGE}", {"Name": "x"}, "good", 500, f"cannot find policy {STRANGE}"),
    ("PUT", "acl/policy/{other}", {"Name": "{name}"}, "good", 500,
     'Invalid Policy: A policy with name "{name}" already exists'),
    ("PUT", f"acl/policy/{MANAGEMENT}", {"Name": "global-management"}, "good", 500,
     "Changing the Rules for the builtin global-management policy is not permitted"),
    ("GET", f"acl/policy/{STRANGE}", None, "good", 404,
     "Requested policy does not exist: ACL not found"),
    ("GET", "acl/policy/", None, "good", 400, "Missing policy ID"),
    ("GET", "acl/policy/short", None, "good", 500, "…"),
    ("GET", "acl/policy/name/none", None, "good", 404,
     "Requested policy does not exist: ACL not found"),
    ("GET", "acl/policy/name/", None, "good", 400, "Missing policy Name"),
    ("GET", "acl/policies", None, "weak", 403,
     "Permission denied: token with AccessorID '{token}' lacks permission 'acl:read'"),
    ("GET", "acl/policies", None, "none", 403,
     "Permission denied: anonymous token lacks permission 'acl:read'. …"),
    ("GET", "acl/policies", None, "strange", 403, "ACL not found"),
    ("DELETE", f"acl/policy/{STRANGE}", None, "good", 200, "false"),
    ("DELETE", f"acl/policy/{MANAGEMENT}", None, "good", 500,
     "Delete operation not permitted on the builtin global-management policy"),
]
TOKENS = [
    ("PUT", "acl/bootstrap", None, "none", 403,
     "Permission denied: ACL bootstrap no longer allowed (reset index: …"),
    ("PUT", "acl/token", {"AccessorID": "{token}"}, "good", 500,
     "Invalid Token: AccessorID is already in use"),
    ("PUT", "acl/token", {"AccessorID": "short"}, "good", 500,
     "Invalid Token: AccessorID - not a valid UUID"),
    ("PUT", "acl/token", {"Policies": [{"Name": "none"}]}, "good", 500,
     'No such ACL policy with name "none"'),
    ("PUT", "acl/token", {"Policies": [{"ID": STRANGE}]}, "good", 500,
     f'No such ACL policy with ID "{STRANGE}"'),
    ("PUT", "acl/token", {"ExpirationTTL": "25h"}, "good", 500,
     "…ExpirationTime cannot be more than 24h0m0s in the future…"),
    ("PUT", "acl/token", {"ExpirationTTL": "1s"}, "good", 500, "…less than 1m0s…"),
    ("PUT", "acl/token", {"ExpirationTTL": 1}, "good", 500, "…less than 1m0s…"),
    *(("PUT", "acl/token", {"ExpirationTTL": odd}, "good", 400,
       'Token decoding failed: json: field ExpirationTTL: a duration such as "5m" is expected, or nanoseconds')
      for odd in ("", "90", 0.5, True, ["1h"], 10**20, "soon")),
    ("PUT", "acl/token", {"ExpirationTTL": "-1h"}, "good", 500, "…should be > 0"),
    ("PUT", "acl/token", {"ExpirationTime": ""}, "good", 400,
     'Token decoding failed: json: field ExpirationTime: a time such as "2024-02-29T12:00:00Z" is expected'),
    ("PUT", "acl/token", {"Polices": []}, "good", 400,
     'Token decoding failed: json: unknown field "Polices"'),
    ("PUT", "acl/token", b"", "good", 400, "Token decoding failed: EOF"),
    ("PUT", "acl/token", {}, "weak", 403,
     "Permission denied: token with AccessorID '{token}' lacks permission 'acl:write'"),
    ("GET", f"acl/token/{STRANGE}", None, "good", 403, "token does not exist: ACL not found"),
    ("GET", "acl/token/{manager}", None, "weak", 403, "Permission denied: …"),
    ("PUT", "acl/token/{token}", {"AccessorID": "{manager}"}, "good", 400,
     "Token Accessor ID in URL and payload do not match"),
    ("PUT", "acl/token/{token}", {"SecretID": SECRET}, "good", 500,
     "Changing a token's SecretID is not permitted"),
    ("PUT", "acl/token/{token}", {"Local": True}, "good", 500, "Cannot toggle local mode of {token}"),
    ("PUT", f"acl/token/{STRANGE}", {}, "good", 500, f'Cannot find token "{STRANGE}"'),
    ("DELETE", "acl/token/{manager}", None, "manager", 500,
     "Deletion of the request's authorization token is not permitted"),
    ("DELETE", f"acl/token/{STRANGE}", None, "good", 404, "Cannot find token to delete"),
    ("DELETE", f"acl/token/{ANONYMOUS}", None, "good", 500, "…"),
]
# Every field of a body with a value of another JSON type: clients and servers in Go convert none.
WRONG_TYPES = [
    *(("acl/policy", "Policy", {"Name": "typed", field: value}, field)
      for field, values in {"ID": (5, True, []), "Name": (5, True, {}), "Description": (5, False, ["a"]),
                            "Rules": (5, True), "Namespace": (5,), "Datacenters": ("a,b", 5, {"a": "b"}, [5])
                            }.items() for value in values),
    *(("acl/token", "Token", {field: value}, field)
      for field, values in {"AccessorID": (5, True), "SecretID": (5,), "Description": (5, True, ["a"]),
                            "Local": (1, 0, "true", "", []), "AuthMethod": (5,), "ExpirationTime": (5,),
                            "Namespace": (5,), "Rules": (5,), "Type": (5,)}.items() for value in values),
    *(("acl/token", "Token", {field: [item]}, wrong) for field, item, wrong in (
        ("Policies", {"ID": 5}, "ID"), ("Policies", {"Name": True}, "Name"), ("Roles", {"Name": 5}, "Name"),
        ("ServiceIdentities", {"ServiceName": 5}, "ServiceName"),
        ("ServiceIdentities", {"ServiceName": "a", "Datacenters": "a,b"}, "Datacenters"),
        ("NodeIdentities", {"NodeName": "a", "Datacenter": 5}, "Datacenter"))),
    ("acl/bootstrap", "Request", {"BootstrapSecret": 5}, "BootstrapSecret"),
]
COMMON = [
    ("GET", "acl/none/such", None, "good", 404,
     "Invalid URL path: not a recognized HTTP API endpoint\n…"),
    ("GET", "acl/policy", None, "good", 405, "method GET not allowed"),
    ("DELETE", "acl/policy", None, "good", 405, "method DELETE not allowed"),
    ("DELETE", "acl/policy/name/{name}", None, "good", 405, "method DELETE not allowed"),
    ("DELETE", "acl/token/self", None, "good", 405, "method DELETE not allowed"),
    ("PUT", "acl/token/self", {}, "good", 405, "method PUT not allowed"),
    ("POST", "acl/policies", {}, "good", 405, "method POST not allowed"),
    ("GET", "acl/policies?index=x", None, "good", 400, "Invalid index"),
    ("GET", "acl/policies?index=-1", None, "good", 400, "Invalid index"),
    ("GET", "acl/policies?wait=x", None, "good", 400, "Invalid wait time"),
    ("GET", "acl/policies?max_stale=x", None, "good", 400, 'Invalid max_stale value "x"'),
    ("GET", "acl/policies?stale&consistent", None, "good", 400,
     "Cannot specify ?stale with ?consistent, conflicting semantics."),
    ("GET", "acl/policies?dc=west", None, "good", 500, "No path to datacenter"),
    ("GET", "acl/policies?token=" + SECRET, None, "good", 403, "ACL not found"),
    ("GET", "agent/self", None, "weak", 403,
     "Permission denied: token with AccessorID '{token}' lacks permission 'agent:read'"),
]


def filled(value, known):
    if isinstance(value, str):
        for name, text in known.items():
            value = value.replace("{" + name + "}", text)
    elif isinstance(value, dict):
        value = {name: filled(item, known) for name, item in value.items()}
    return value


def made(cluster, path, body):
    answer = cluster.nodes[0].call("PUT", f"/v1/acl/{path}", body, "",
                                   {"X-Consul-Token": cluster.token})
    assert answer.status == 200, answer.body
    return answer.json


@pytest.fixture(scope="module")
def cluster():
    with RegistryCluster() as cluster:
        manager = cluster.nodes[0].call("PUT", "/v1/acl/bootstrap", None, "").json
        weak = made(cluster, "token", {"Description": "without rights"})
        cluster.known = {
            "name": "taken", "policy": made(cluster, "policy", {"Name": "taken"})["ID"],
            "other": made(cluster, "policy", {"Name": "other"})["ID"],
            "token": weak["AccessorID"], "manager": manager["AccessorID"],
        }
        cluster.senders = {"good": cluster.token, "none": None, "strange": SECRET,
                           "weak": weak["SecretID"], "manager": manager["SecretID"]}
        yield cluster


def fits(text, wanted):
    parts = wanted.split("…")
    return (text == wanted if len(parts) == 1 else
            text.startswith(parts[0]) and all(part in text for part in parts) and text != "")


@pytest.mark.parametrize("case", [*POLICIES, *TOKENS, *COMMON],
                         ids=lambda case: f"{case[0]} {case[1]} {case[4]} {case[5][:30]}")
def test_an_error_is_as_documented(cluster, case):
    method, path, body, sender, status, text = case
    path, body, text = (filled(value, cluster.known) for value in (path, body, text))
    for at in everywhere(cluster):
        told = ask(at, method, path, body, cluster.senders[sender])
        assert told[0] == status and fits(told[1], text), told[:2]


@pytest.mark.parametrize("case", WRONG_TYPES, ids=lambda case: f"{case[0]} {case[2]}")
def test_a_value_of_another_type_is_refused(cluster, case):
    path, noun, body, field = case
    sender = "none" if path == "acl/bootstrap" else "good"
    status, text, _ = ask(cluster.nodes[0], "PUT", path, body, cluster.senders[sender])
    assert status == 400 and text.startswith(f"{noun} decoding failed: json: field {field}: "), text


def test_a_null_is_a_field_that_is_not_given(cluster):
    body = {"Description": None, "Local": None, "Policies": None, "ExpirationTTL": None}
    status, text, _ = ask(cluster.nodes[0], "PUT", "acl/token", body, cluster.senders["good"])
    assert status == 200, text
