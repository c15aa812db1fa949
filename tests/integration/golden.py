"""A state that has a record of every kind: filled through the API, and compared with what an earlier
build said of it. Standard library only."""

import json

YEARS = "876000h"  # a hundred years: nothing that the tests use expires by the day they run

APP_POLICY = """
path "kv/app/*" { capabilities = ["create", "read", "update", "delete", "list"] }
path "secret/data/+/shared" { capabilities = ["read"] }
path "kv/app/fixed" {
  capabilities = ["create", "update", "read"]
  required_parameters = ["owner"]
  allowed_parameters = { "owner" = ["ann", "bob"], "note" = [] }
}
path "kv/app/forbidden" { capabilities = ["deny"] }
path "sys/storage/raft/autopilot/state" { capabilities = ["read", "sudo"] }
"""
JSON_POLICY = json.dumps({"path": {"secret/*": {"capabilities": ["read", "list"],
                                                "min_wrapping_ttl": "1m"}}})
PASSWORD_POLICY = """
length = 24
rule "charset" { charset = "abcdefghij" min-chars = 4 }
rule "charset" { charset = "0123456789" min-chars = 3 }
"""


class Filler:
    """Fills one cluster, through its first node."""

    def __init__(self, cluster, tokens=None):
        self.cluster, self.node = cluster, cluster.nodes[0]
        self.tokens = dict(tokens or {"root": cluster.token})
        self.accessors = {}

    def call(self, method, path, body=None, token="root", headers=None):
        answer = self.node.call(method, f"/v1/{path}", body, self.tokens.get(token, token), headers)
        assert answer.status in (200, 204), f"{method} {path}: {answer.status} {answer.body}"
        return answer.json if answer.body else None

    def token(self, name, path="auth/token/create", by="root", **body):
        made = self.call("POST", path, {"display_name": name, **body}, by)
        self.tokens[name] = made["auth"]["client_token"]
        self.accessors[name] = made["auth"]["accessor"]


def fill_mounts(m):
    m.call("POST", "sys/mounts/team/red/kv", {
        "type": "kv", "description": "of the red team", "options": {"version": "1"},
        "config": {"default_lease_ttl": "1h", "max_lease_ttl": "24h"}})
    m.call("POST", "sys/mounts/before", {"type": "kv", "options": {"version": "2"}})
    m.call("POST", "before/data/moved", {"data": {"v": "it was moved with its mount"}})
    m.call("POST", "sys/remount", {"from": "before", "to": "after"})
    m.call("POST", "sys/mounts/raised", {"type": "kv", "options": {"version": "1"}})
    m.call("POST", "raised/old", {"v": "of version 1"})
    m.call("POST", "sys/mounts/raised/tune", {"options": {"version": "2"}})
    m.call("POST", "sys/mounts/after/tune", {
        "description": "moved", "default_lease_ttl": "2h", "max_lease_ttl": "40h",
        "listing_visibility": "unauth", "audit_non_hmac_request_keys": ["a", "b"]})
    m.call("POST", "sys/mounts/gone", {"type": "kv", "options": {"version": "1"}})
    m.call("POST", "gone/x", {"v": "unmounted"})
    m.call("DELETE", "sys/mounts/gone")


def fill_kv1(m):
    m.call("PUT", "kv/plain", {"v": "a value", "n": 1})
    m.call("PUT", "kv/plain", {"v": "written over", "n": 2})
    m.call("PUT", "kv/unicode/%D0%BA%D0%BB%D1%8E%D1%87", {"значение": "☃ \u0001 \"quoted\""})
    m.call("PUT", "kv/digits", b'{"exact": 12345678901234567890.12345, "list": [1, null, true, {}]}')
    m.call("PUT", "kv/a/b/c/d", {"v": "deep"})
    m.call("PUT", "kv/large", {"v": "large " * 3000})
    m.call("PUT", "kv/deleted", {"v": "it will be deleted"})
    m.call("DELETE", "kv/deleted")
    m.call("PUT", "team/red/kv/a", {"v": "red", "ttl": "30m"})


def fill_kv2(m):
    m.call("POST", "secret/config", {"max_versions": 7})
    for size, name in ((10, "inline"), (1500, "appended"), (9000, "separate")):
        for n in range(1, 4):
            m.call("POST", f"secret/data/sizes/{name}", {"data": {"n": n, "v": "x" * size}})
    for n in range(1, 10):
        m.call("POST", "secret/data/many", {"data": {"n": n}})
    m.call("DELETE", "secret/data/many")
    m.call("POST", "secret/delete/many", {"versions": [4, 5]})
    m.call("POST", "secret/undelete/many", {"versions": [5]})
    m.call("POST", "secret/destroy/many", {"versions": [6]})
    m.call("POST", "secret/metadata/described", {
        "max_versions": 3, "cas_required": True, "delete_version_after": YEARS,
        "custom_metadata": {"owner": "ann", "ключ": "значение"}})
    m.call("POST", "secret/data/described", {"data": {"v": 1}, "options": {"cas": 0}})
    m.call("POST", "secret/data/described", {"data": {"v": 2}, "options": {"cas": 1}})
    m.call("POST", "secret/metadata/brief", {"delete_version_after": "1s"})
    m.call("POST", "secret/data/brief", {"data": {"v": "it expires"}})
    m.call("POST", "secret/data/unmade", {"data": {"v": 1}})
    m.call("DELETE", "secret/metadata/unmade")
    m.call("POST", "secret/data/app/shared", {"data": {"v": "shared"}})


def fill_policies(m):
    m.call("PUT", "sys/policies/acl/app", {"policy": APP_POLICY})
    m.call("PUT", "sys/policies/acl/written-as-json", {"policy": JSON_POLICY})
    m.call("PUT", "sys/policies/acl/dropped", {"policy": APP_POLICY})
    m.call("DELETE", "sys/policies/acl/dropped")
    m.call("PUT", "sys/policies/password/people", {"policy": PASSWORD_POLICY})


def fill_tokens(m):
    m.call("POST", "sys/auth/token/tune", {"max_lease_ttl": YEARS, "description": "for a century"})
    m.call("POST", "auth/token/roles/batch", {
        "token_type": "batch", "orphan": True, "renewable": False, "allowed_policies": ["app"]})
    m.call("POST", "auth/token/roles/narrow", {
        "allowed_policies": ["app"], "disallowed_policies": ["default"], "token_num_uses": 50,
        "token_bound_cidrs": ["127.0.0.0/8"], "token_explicit_max_ttl": YEARS, "path_suffix": "v1"})
    m.call("POST", "auth/token/roles/dropped", {"allowed_policies": ["app"]})
    m.call("DELETE", "auth/token/roles/dropped")
    m.token("service", policies=["app"], ttl=YEARS, meta={"team": "red"})
    m.token("parent", policies=["app", "written-as-json"], ttl=YEARS)
    m.call("PUT", "sys/policies/acl/maker", {
        "policy": 'path "auth/token/create" { capabilities = ["update"] }'})
    m.token("maker", policies=["maker", "app"], ttl=YEARS)
    m.token("child", by="maker", policies=["app"], ttl=YEARS)
    m.token("periodic", policies=["app"], period=YEARS)
    m.token("orphan", no_parent=True, policies=["app"], ttl=YEARS, explicit_max_ttl=YEARS,
            renewable=False)
    m.token("few uses", policies=["app"], num_uses=4, ttl=YEARS)
    m.call("GET", "auth/token/lookup-self", token="few uses")
    m.token("by role", "auth/token/create/narrow", ttl=YEARS)
    m.token("batch", "auth/token/create/batch", ttl=YEARS)
    m.token("second root", policies=["root"])
    m.token("revoked", policies=["app"], ttl=YEARS)
    m.call("POST", "auth/token/revoke", {"token": m.tokens["revoked"]})
    m.token("expired", policies=["app"], ttl="1s")
    m.call("PUT", "cubbyhole/mine", {"v": "of the service token"}, "service")
    m.call("PUT", "cubbyhole/mine", {"v": "of the root token"})


def fill_system(m):
    m.call("POST", "sys/quotas/rate-limit/slow", {
        "path": "team/red/kv/", "rate": 1000.5, "interval": "2s", "block_interval": "3s"})
    m.call("POST", "sys/quotas/rate-limit/all", {"path": "", "rate": 100000})
    m.call("POST", "sys/quotas/rate-limit/dropped", {"path": "kv/", "rate": 1})
    m.call("DELETE", "sys/quotas/rate-limit/dropped")
    m.call("POST", "sys/quotas/config", {
        "rate_limit_exempt_paths": ["sys/health"], "enable_rate_limit_response_headers": True})
    m.call("POST", "sys/config/cors", {
        "allowed_origins": ["https://pages.example"], "allowed_headers": ["X-Of-Pages"]})
    m.call("POST", "sys/storage/raft/autopilot/configuration", {
        "cleanup_dead_servers": False, "dead_server_last_contact_threshold": "25h", "min_quorum": 3})


def fill_of_level_2(m):
    """Records of feature level 2: audit devices, lease quotas, policies that end."""
    m.call("PUT", "sys/audit/golden", {"type": "file", "description": "of an earlier build", "options": {
        "file_path": "discard", "prefix": "golden ", "hmac_accessor": "false"}})
    m.call("PUT", "sys/audit/dropped", {"type": "file", "options": {"file_path": "discard"}})
    m.call("DELETE", "sys/audit/dropped")
    m.call("PUT", "sys/config/auditing/request-headers/x-golden", {"hmac": True})
    m.call("PUT", "sys/config/auditing/request-headers/x-shown", {"hmac": False})
    m.call("POST", "sys/mounts/after/tune", {"audit_non_hmac_response_keys": ["c"]})
    m.call("POST", "sys/quotas/lease-count/tokens", {"path": "auth/token/", "max_leases": 500})
    m.call("POST", "sys/quotas/lease-count/dropped", {"path": "", "max_leases": 5})
    m.call("DELETE", "sys/quotas/lease-count/dropped")
    m.call("PUT", "sys/policies/acl/passing", {"policy": APP_POLICY, "ttl": YEARS})
    m.call("PUT", "sys/policies/acl/passed", {"policy": APP_POLICY, "ttl": "1s"})


def audit_hash(m):
    """The hash that finds a text in the lines of the device: the salt is a record too."""
    return m.call("POST", "sys/audit-hash/golden", {"input": "found again"})["data"]["hash"]


def fill_after_rotation(m):
    m.call("PUT", "sys/rotate")
    m.call("PUT", "kv/after/rotation", {"v": "under the second key"})
    m.call("PUT", "kv/app/fixed", {"owner": "ann"}, "service")
    m.call("PUT", "kv/app/note", {"v": "by a token"}, "service")


def fill(m):
    for part in (fill_mounts, fill_policies, fill_kv1, fill_kv2, fill_tokens, fill_after_rotation,
                 fill_system, bring_authority):
        part(m)


def bring_authority(m):
    tls = m.cluster.dir / "tls"
    m.call("POST", "sys/storage/raft/certificates/authority", {
        "certificate": (tls / "ca.pem").read_text(), "private_key": (tls / "ca-key.pem").read_text()})


def remove_a_member(m):
    """The record of a node that was removed; its name stays refused."""
    other = m.cluster.add_node("node2")
    other.start()
    m.cluster.await_health({200, 429, 473}, [other])
    m.call("POST", "sys/storage/raft/remove-peer", {"server_id": "node2"})
    other.kill()
    m.cluster.nodes.remove(other)


# (whose token, path)
READS = [("root", path) for path in (
    "kv/plain", "kv/unicode/%D0%BA%D0%BB%D1%8E%D1%87", "kv/digits", "kv/a/b/c/d", "kv/large",
    "kv/deleted", "kv?list=true", "kv/a?list=true", "kv?scan=true", "team/red/kv/a",
    "after/data/moved", "before/data/moved", "raised/data/old", "raised/metadata/old", "gone/x",
    "secret/config", "secret/metadata?list=true", "secret/data/many", "secret/metadata/many",
    *(f"secret/data/many?version={n}" for n in range(2, 10)),
    *(f"secret/data/sizes/{size}?version={n}" for size in ("inline", "appended", "separate")
      for n in (1, 2, 3)),
    "secret/data/described", "secret/metadata/described", "secret/data/brief",
    "secret/metadata/brief", "secret/data/unmade", "secret/metadata/unmade", "sys/mounts",
    "sys/mounts/after/tune", "sys/mounts/team/red/kv/tune", "sys/policies/acl?list=true",
    "sys/policies/acl/app", "sys/policies/acl/written-as-json", "sys/policies/acl/dropped",
    "sys/policies/password?list=true", "sys/policies/password/people", "sys/auth",
    "sys/auth/token/tune", "auth/token/roles?list=true", "auth/token/roles/narrow",
    "auth/token/roles/batch", "auth/token/roles/dropped", "auth/token/accessors?list=true",
    "sys/quotas/rate-limit?list=true", "sys/quotas/rate-limit/slow", "sys/quotas/rate-limit/all",
    "sys/quotas/config", "sys/config/cors", "sys/storage/raft/autopilot/configuration",
    "sys/leases/lookup/auth/token/create?list=true", "cubbyhole/mine")
] + [
    ("service", "cubbyhole/mine"), ("service", "kv/app/note"), ("child", "secret/data/app/shared"),
    ("batch", "kv/app/note"), ("by role", "kv/app/note"), ("orphan", "kv/app/forbidden"),
    ("periodic", "kv/plain"), ("revoked", "kv/app/note"), ("expired", "kv/app/note"),
] + [(name, "auth/token/lookup-self") for name in (
    "root", "second root", "service", "parent", "maker", "child", "periodic", "orphan", "batch")]
# Of fill_of_level_2
READS_OF_LEVEL_2 = [("root", path) for path in (
    "sys/audit", "sys/config/auditing/request-headers", "sys/config/auditing/request-headers/x-golden",
    "sys/mounts/after/tune", "sys/quotas/lease-count?list=true", "sys/quotas/lease-count/tokens",
    "sys/policies/acl/passing", "sys/policies/acl/passed")]
# A time to live falls while time passes; the version is that of the build.
PASSING = ("ttl", "running_plugin_version")


def replies(m, reads=READS):
    """What each read says; what a later build must say too."""
    found = []
    for token, path in reads:
        answer = m.node.call("GET", f"/v1/{path}", token=m.tokens[token])
        # A number that a float would change is kept as its text.
        data = json.loads(answer.body, parse_float=str).get("data")
        found.append({"token": token, "path": path, "status": answer.status, "data": data})
    return found


def lost(before, after, where=""):
    """What `before` said and `after` does not. Objects may have gained members."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [text for name, value in before.items() if name not in PASSING
                for text in lost(value, after.get(name), f"{where}.{name}")]
    if where.endswith(".allowed_headers") and set(before) <= set(after):
        return []  # headers that a later build knows
    return [] if before == after else [f"{where}: {before} is now {after}"]


def changed(m, before):
    """A line for each difference between the replies of an earlier build and those of this one."""
    after = replies(m, [(reply["token"], reply["path"]) for reply in before])
    return [f"{old['token']} {old['path']}{text}" for old, new in zip(before, after)
            for text in lost(old, new)]
