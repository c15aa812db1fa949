"""System paths that not every cluster needs."""

import base64
import hashlib
import json
import os
import socket
import threading
import time

import absent_paths
from cluster import STEADY, Cluster, call_on

SITE = "https://app.example"


def test_pages_of_allowed_origins_may_read_answers_of_every_node():
    with Cluster() as cluster:
        node, path = cluster.standbys()[0], "/v1/sys/config/cors"
        assert node.call("GET", path).data == {"enabled": False}
        assert node.call("POST", path, {"allowed_origins": []}).status == 400
        body = {"allowed_origins": [SITE], "allowed_headers": "X-Mine"}
        assert node.call("PUT", path, body).status == 204
        shown = node.call("GET", path).json
        assert shown["enabled"] is True and shown["data"]["allowed_origins"] == [SITE]
        assert {"X-Mine", "X-Vault-Token"} <= set(shown["allowed_headers"])
        for each in cluster.nodes:
            each.call("GET", "/v1/kv/none")  # a confirmed read: what comes next sees the settings
            preflight = {"Origin": SITE, "Access-Control-Request-Method": "PUT"}
            answer = each.call("OPTIONS", "/v1/kv/a", token="", headers=preflight)
            assert answer.status == 200 and answer.body == b""
            assert answer.headers["Access-Control-Max-Age"] == "300"
            assert "X-Mine" in answer.headers["Access-Control-Allow-Headers"]
            written = each.call("PUT", "/v1/kv/a", {"a": 1}, headers={"Origin": SITE})
            assert written.status == 204 and written.headers["Vary"] == "Origin"
            assert written.headers.get_all("Access-Control-Allow-Origin") == [SITE]
            other = each.call("GET", "/v1/kv/a", headers={"Origin": "https://evil.example"})
            assert other.status == 403 and other.json == {"errors": ["origin not allowed"]}
            assert other.headers["Access-Control-Allow-Origin"] is None
        assert node.call("DELETE", path).status == 204
        assert node.call("GET", path, headers={"Origin": "https://evil.example"}).status in (200, 403)


EMPTY = {
    "GET internal/counters/entities": {"counters": {"entities": {"total": 0}}},
    "GET internal/ui/namespaces": {"keys": []},
    "GET locked-users": {"by_namespace": [], "total": 0}, "LIST namespaces": {"keys": []},
}


def test_what_is_not_built_is_an_empty_list_where_a_list_is_asked(cluster):
    for node in cluster.nodes:
        for asked, data in EMPTY.items():
            method, path = asked.split()
            answer = node.call(method, f"/v1/sys/{path}")
            assert (answer.status, answer.data) == (200, data), asked


def test_every_path_that_is_not_built_says_so_by_every_method(cluster):
    node, weak = cluster.standbys()[0], cluster.limited('path "none" { capabilities = ["read"] }')
    document = node.call("GET", "/v1/sys/internal/specs/openapi").json
    absent = absent_paths.read()
    off = {"/v1/sys/raw/path": (404, "unsupported path"),
           "/v1/sys/internal/inspect/path": (400, "introspection_endpoint")}
    assert not [path for path in document["paths"] if path in absent]  # clients read it as what is served
    kinds = ("GET", None), ("LIST", None), ("POST", {"any": 1}), ("PUT", {"any": 1}), ("DELETE", None)
    for path in absent:
        path = "/v1" + path.replace("{", "").replace("}", "").rstrip("/")
        for method, body in kinds:
            answer = node.call(method, path, body)
            status, text = off.get(path, (404, "are not built in holdfast: see docs/compatibility.md"))
            assert answer.status == status, (method, path, answer.status, answer.body)
            assert text in answer.json["errors"][0]
            assert node.call(method, path, body, token=weak).status == 403
            assert node.call(method, path, body, token="").status == 403


def test_what_upstream_switches_off_is_off_here(cluster):
    node = cluster.standbys()[0]
    sudo = 'path "sys/*" { capabilities = ["create", "read", "update", "delete", "list"%s] }'
    weak, strong = cluster.limited(sudo % ""), cluster.limited(sudo % ', "sudo"')
    for method in ("GET", "LIST", "PUT", "DELETE"):
        for path, status in (("raw/core/mounts", 404), ("internal/inspect/router/root", 400),
                             ("pprof", 404), ("pprof/heap", 404)):
            body = {"value": "x"} if method == "PUT" else None
            assert node.call(method, f"/v1/sys/{path}", body, strong).status == status
            assert node.call(method, f"/v1/sys/{path}", body, weak).status == 403
    for path in ("", "/monthly", "/export"):
        answer = node.call("GET", f"/v1/sys/internal/counters/activity{path}?start_time=1")
        assert (answer.status, answer.body) == (204, b"")
        assert node.call("POST", f"/v1/sys/internal/counters/activity{path}", {}).status == 405
    answer = node.call("GET", "/v1/sys/pprof/heap")
    assert answer.status == 404 and answer.json["errors"] == [
        "Profiles of a running node are not built in holdfast: see docs/compatibility.md"]


def test_the_settings_of_rotation_are_the_cluster_s(cluster):
    node = cluster.standbys()[0]
    for path in ("rotate/config", "rotate/keyring/config"):
        assert node.call("POST", f"/v1/sys/{path}", {"max_operations": 1000000}).status == 204
        shown = cluster.active().call("GET", f"/v1/sys/{path}").data
        assert shown == {"max_operations": 1000000, "enabled": True, "interval": 0}
        assert node.call("POST", f"/v1/sys/{path}", {"max_operations": 1}).status == 400
        assert node.call("GET", f"/v1/sys/{path}", token="").status == 403


def test_headers_for_web_pages_are_kept_by_the_cluster(cluster):
    node, path = cluster.standbys()[0], "/v1/sys/config/ui/headers"
    assert node.call("LIST", path).status == 404
    csp = "default-src 'self', img-src *"
    assert node.call("PUT", f"{path}/content-security-policy", {"values": csp}).status == 204
    assert node.call("POST", f"{path}/Link", {"values": ["<a>", "<b>"]}).status == 204
    for each in cluster.nodes:
        names = {"keys": ["Content-Security-Policy", "Link"]}
        assert each.call("LIST", path).data == each.call("GET", f"{path}?list=true").data == names
        assert each.call("GET", f"{path}/Content-Security-Policy").data == {"value": csp}
        assert each.call("GET", f"{path}/link?multivalue=true").data == {"values": ["<a>", "<b>"]}
    for name, values in (("X-Vault-Token", "a"), ("Connection", "a"), ("a%0Ab", "a"), ("A", []),
                         ("A", ["a\r\nSet-Cookie: b"]), ("A", ["a" * 4096]), ("A" * 129, "a")):
        refused = node.call("POST", f"{path}/{name}", {"values": values})
        assert refused.status == 400 and refused.json["errors"][0], name
    for name in ("Content-Security-Policy", "link", "none"):
        assert node.call("DELETE", f"{path}/{name}").status == 204
    assert node.call("LIST", path).status == node.call("GET", f"{path}/Link").status == 404


def test_the_catalog_shows_the_engines_of_the_program(cluster):
    path = "/v1/sys/plugins/catalog"
    for node in cluster.nodes:
        shown = node.call("GET", path).data
        assert shown["auth"] == ["approle", "userpass"] and shown["database"] == []
        assert shown["secret"] == ["generic", "kv", "ssh", "transform"]
        version = node.call("GET", "/v1/sys/health", token="").json["version"]
        assert {"type": "secret", "name": "kv", "version": version, "builtin": True,
                "deprecation_status": "supported"} in shown["detailed"]
        assert node.call("LIST", f"{path}/secret").data == {"keys": shown["secret"]}
        assert node.call("LIST", f"{path}/auth").data == {"keys": shown["auth"]}
        one = node.call("GET", f"{path}/secret/kv").data
        assert one == {"name": "kv", "args": [], "command": "", "sha256": "", "builtin": True,
                       "version": version, "deprecation_status": "supported"}
        assert node.call("GET", f"{path}/kv").data == one
        assert node.call("GET", f"{path}/secret/kv?version={version}").data == one
        assert node.call("GET", f"{path}/secret/kv?version=v0").status == 404
    assert node.call("LIST", f"{path}/database").status == 404
    assert node.call("GET", f"{path}/auth/kv").status == node.call("GET", f"{path}/aws").status == 404
    assert node.call("LIST", f"{path}/some").status == node.call("GET", f"{path}/some/kv").status == 400
    for method in ("PUT", "POST", "DELETE"):
        refused = node.call(method, f"{path}/secret/kv", {"sha256": "00", "command": "kv"})
        assert refused.status == 405 and refused.headers["Allow"] == "GET"
    weak = cluster.limited('path "sys/*" { capabilities = ["read", "list", "update"] }')
    assert node.call("GET", path, token=weak).status == 200  # as upstream: no sudo
    for method, below in ("LIST", "secret"), ("GET", "secret/kv"), ("GET", "kv"):
        assert node.call(method, f"{path}/{below}", token=weak).status == 403


def test_settings_of_the_system_need_sudo(cluster):
    rules = 'path "sys/*" { capabilities = ["create", "read", "update", "delete", "list"] }'
    token = cluster.limited(rules)
    for method in ("GET", "POST", "DELETE"):
        body = {"allowed_origins": "*"} if method == "POST" else None
        assert cluster.nodes[0].call(method, "/v1/sys/config/cors", body, token).status == 403
        body = {"values": "a"} if method == "POST" else None
        headers = "/v1/sys/config/ui/headers"
        assert cluster.nodes[0].call(method, f"{headers}/A", body, token).status == 403
        assert cluster.nodes[0].call("LIST", headers, None, token).status == 403


def test_a_scan_gives_all_that_is_below_a_folder(cluster):
    folders = ("kv/scan", "secret/metadata/scan", "cubbyhole/scan")
    listing = 'path "+/scan" { capabilities = ["list"] }\npath "+/+/scan" { capabilities = ["list"] }'
    weak = cluster.limited(listing)
    for folder in folders:
        path = folder.replace("metadata", "data")
        for name in ("a", "b/c"):
            answer = cluster.nodes[0].call("PUT", f"/v1/{path}/{name}", {"data": {"x": "1"}})
            assert answer.status in (200, 204)
    for node in cluster.nodes:
        for folder in folders:
            for method, query in (("SCAN", ""), ("GET", "?scan=true")):
                answer = node.call(method, f"/v1/{folder}{query}")
                assert answer.status == 200 and answer.data == {"keys": ["a", "b/c"]}
                assert node.call(method, f"/v1/{folder}{query}", None, weak).status == 403
            assert node.call("GET", f"/v1/{folder}?scan=true&list=true").status == 400
    answer = cluster.nodes[1].call("SCAN", "/v1/secret/scan")
    assert answer.status == 404 and "secret/metadata/scan" in answer.json["warnings"][0]
    assert cluster.nodes[1].call("SCAN", "/v1/sys/policies/acl").status == 405


def test_random_bytes_are_as_many_as_asked_for_and_new_each_time(cluster):
    seen = set()
    for node in cluster.nodes:
        path = "/v1/sys/tools/random"
        for where, body, count in (
            ("", {}, 32), ("", {"bytes": 100}, 100), ("/16", {}, 16), ("/platform", {}, 32),
            ("/all/7", {"bytes": 9}, 7), ("", {"bytes": 131072}, 131072),
        ):
            text = node.call("POST", path + where, body).data["random_bytes"]
            assert len(base64.b64decode(text, validate=True)) == count
            seen.add(text)
        hexed = node.call("POST", path, {"format": "hex", "bytes": 20}).data["random_bytes"]
        assert len(bytes.fromhex(hexed)) == 20
        for where, body in (
            ("", {"bytes": 0}), ("", {"bytes": 131073}), ("/131073", {}), ("/seal", {}),
            ("/1x", {}), ("", {"format": "raw"}), ("", {"bytes": -1}),
        ):
            assert node.call("POST", path + where, body).status == 400, (where, body)
    assert len(seen) == 6 * len(cluster.nodes)


def test_digests_are_those_of_the_standards(cluster):
    node, text = cluster.standbys()[0], b"what is hashed" * 1000
    body = {"input": base64.b64encode(text).decode()}
    for bits in (224, 256, 384, 512):
        for kind, name in (("sha2", f"sha{bits}"), ("sha3", f"sha3_{bits}")):
            want = hashlib.new(name, text)
            answer = node.call("POST", f"/v1/sys/tools/hash/{kind}-{bits}", body)
            assert answer.data == {"sum": want.hexdigest()}
            more = {**body, "algorithm": f"{kind}-{bits}", "format": "base64"}
            answer = node.call("POST", "/v1/sys/tools/hash", more)
            assert answer.data == {"sum": base64.b64encode(want.digest()).decode()}
    assert node.call("POST", "/v1/sys/tools/hash", body).data["sum"] == hashlib.sha256(text).hexdigest()
    for bad in ({"input": "?"}, {**body, "algorithm": "md5"}, {**body, "format": "text"}):
        assert node.call("POST", "/v1/sys/tools/hash", bad).status == 400


PASSWORDS = """
length = 24
rule "charset" {
  charset = "abcdefghij"
}
rule "charset" {
  charset   = "0123456789"
  min-chars = 3
}
"""


def test_passwords_are_made_as_their_policy_says(cluster):
    node, path = cluster.standbys()[0], "/v1/sys/policies/password"
    assert node.call("LIST", path).status == 404
    assert node.call("PUT", f"{path}/people", {"policy": PASSWORDS}).status == 204
    coded = base64.b64encode(PASSWORDS.encode()).decode()
    assert node.call("POST", f"{path}/coded", {"policy": coded}).status == 204
    made = set()
    for each in cluster.nodes:
        assert each.call("LIST", path).data == {"keys": ["coded", "people"]}
        assert each.call("GET", f"{path}/coded").data == {"policy": PASSWORDS}
        for _ in range(20):
            password = each.call("GET", f"{path}/people/generate").data["password"]
            made.add(password)
            assert len(password) == 24 and set(password) <= set("abcdefghij0123456789")
            assert sum(c in "0123456789" for c in password) >= 3
    assert len(made) == 20 * len(cluster.nodes)
    for bad in ("", "length = 3", 'length = 20 rule "charset" {}', "length = 20", "length = 101",
                PASSWORDS.replace("= 3", "= 25"), PASSWORDS + 'rule "words" {}', "{"):
        assert node.call("PUT", f"{path}/bad", {"policy": bad}).status == 400, bad
    for gone in ("GET", f"{path}/bad"), ("GET", f"{path}/bad/generate"):
        answer = node.call(*gone)
        assert answer.status == 404 and answer.json == {"errors": []}
    for name in ("coded", "people", "bad"):
        assert node.call("DELETE", f"{path}/{name}").status == 204
    assert node.call("LIST", path).status == 404


def test_tokens_are_leases_that_operators_find_and_end(cluster):
    node = cluster.standbys()[0]
    made = node.call("POST", "/v1/auth/token/create-orphan", {"ttl": "1h"}).json["auth"]
    token, folder = made["client_token"], "auth/token/create-orphan"
    for each in cluster.nodes:
        (name,) = each.call("LIST", f"/v1/sys/leases/lookup/{folder}").data["keys"]
        shown = each.call("PUT", "/v1/sys/leases/lookup", {"lease_id": f"{folder}/{name}"}).data
        assert shown["id"] == f"{folder}/{name}" and 0 < shown["ttl"] <= 3600
        assert shown["renewable"] is True and shown["last_renewal"] is None
    counts = node.call("GET", "/v1/sys/leases/count").data
    assert counts["counts"]["auth/token/"] == counts["lease_count"] >= 1
    assert node.call("POST", "/v1/sys/leases/tidy").status == 202
    for path in ("leases/renew", "renew"):
        for where, body in ((path, {"lease_id": shown["id"]}), (f"{path}/{shown['id']}", {})):
            assert node.call("PUT", f"/v1/sys/{where}", body).status == 400
    for revoke in ("leases/revoke", "revoke", "leases/revoke-prefix", "leases/revoke-force",
                   "revoke-prefix", "revoke-force"):
        assert node.call("PUT", f"/v1/sys/{revoke}/{shown['id']}").status == 204
        assert node.call("GET", "/v1/auth/token/lookup-self", None, token).status == 403
    for revoke in ("leases/revoke", "revoke"):
        assert node.call("PUT", f"/v1/sys/{revoke}", {"lease_id": shown["id"]}).status == 204
    assert node.call("LIST", f"/v1/sys/leases/lookup/{folder}").status == 404


def test_more_leases_than_a_request_ends_are_ended_by_the_active_node(cluster):
    node, path = cluster.active(), "auth/token/create/many"
    assert node.call("POST", "/v1/auth/token/roles/many", {"orphan": True}).status == 204
    connection = node.connect()
    for _ in range(520):
        body = {"ttl": "1h", "policies": ["default"]}
        assert call_on(connection, "POST", f"/v1/{path}", body, cluster.token).status == 200
    connection.close()
    assert node.call("PUT", f"/v1/sys/leases/revoke-prefix/{path}").status == 202
    deadline = time.monotonic() + 120
    while node.call("LIST", f"/v1/sys/leases/lookup/{path}").status != 404:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_bound_token_is_of_use_from_its_addresses_alone():
    trusted = {"x_forwarded_for_authorized_addrs": ["127.0.0.1/32"],
               "x_forwarded_for_reject_not_present": False}
    with Cluster(config={"listener": {"tcp": trusted}}) as cluster:
        role = {"token_bound_cidrs": ["192.0.2.0/24"], "allowed_policies": ["default"]}
        assert cluster.nodes[0].call("POST", "/v1/auth/token/roles/near", role).status == 204
        made = cluster.nodes[0].call("POST", "/v1/auth/token/create/near", {}).json["auth"]
        for node in cluster.nodes:
            for method, path in (("GET", "lookup-self"), ("POST", "renew-self")):  # here, there
                for address, want in (("192.0.2.7", 200), ("192.0.3.7", 403), (None, 403)):
                    headers = {"X-Forwarded-For": address} if address else {}
                    answer = node.call(method, f"/v1/auth/token/{path}",
                                       {} if method == "POST" else None,
                                       made["client_token"], headers)
                    assert answer.status == want, (node.name, method, address)


def test_tuning_the_mount_of_tokens_counts_at_once():
    with Cluster() as cluster:
        body = {"default_lease_ttl": "10m", "max_lease_ttl": "1h"}
        assert cluster.nodes[0].call("POST", "/v1/sys/auth/token/tune", body).status == 204
        for node in cluster.nodes:
            create = {"policies": ["default"]}
            answer = node.call("POST", "/v1/auth/token/create", create)
            assert answer.json["auth"]["lease_duration"] == 600
            answer = node.call("POST", "/v1/auth/token/create", {**create, "ttl": "2h"})
            assert answer.json["auth"]["lease_duration"] == 3600 and answer.json["warnings"]


def await_status(node, want, headers, path="/v1/kv/quota"):
    """Settings count on a node a moment after they were made."""
    deadline = time.monotonic() + 120
    while True:
        answer = node.call("GET", path, headers=headers)
        if answer.status == want:
            return answer
        assert time.monotonic() < deadline, answer.body
        time.sleep(0.02)


def test_a_client_that_asks_too_often_is_refused_by_each_node():
    trusted = {"x_forwarded_for_authorized_addrs": ["127.0.0.1/32"],
               "x_forwarded_for_reject_not_present": False}
    with Cluster(config={"listener": {"tcp": trusted}}) as cluster:
        node, path = cluster.standbys()[0], "/v1/sys/quotas"
        config = {"enable_rate_limit_response_headers": True}
        assert node.call("POST", f"{path}/config", config).status == 204
        assert node.call("GET", f"{path}/config").data["enable_rate_limit_response_headers"]
        quota = {"path": "kv/quota", "rate": 2, "interval": "1h"}
        assert node.call("POST", f"{path}/rate-limit/few", quota).status == 204
        assert node.call("GET", f"{path}/rate-limit/few").data["rate"] == 2
        assert node.call("LIST", f"{path}/rate-limit").data == {"keys": ["few"]}
        for n, each in enumerate(cluster.nodes):
            client = {"X-Forwarded-For": f"192.0.2.{n + 1}"}
            refused = await_status(each, 429, client)
            assert refused.json["errors"] == [
                'request path "kv/quota": rate limit quota exceeded']
            assert refused.headers["X-Ratelimit-Limit"] == "2"
            assert 0 < int(refused.headers["Retry-After"]) <= 3600
            other = each.call("GET", "/v1/kv/quota", headers={"X-Forwarded-For": "192.0.2.99"})
            assert other.status == 404 and other.headers["X-Ratelimit-Remaining"] == "1"
            written = each.call("PUT", "/v1/kv/other", {"a": 1}, headers=client)
            assert written.status == 204
            assert each.call("GET", "/v1/sys/health", headers=client).status in (200, 473)
        assert node.call("DELETE", f"{path}/rate-limit/few").status == 204
        for n, each in enumerate(cluster.nodes):
            await_status(each, 404, {"X-Forwarded-For": f"192.0.2.{n + 1}"})


def test_a_node_shows_its_configuration_without_secrets(cluster):
    for node in cluster.nodes:
        answer = node.call("GET", "/v1/sys/config/state/sanitized")
        shown = answer.data
        assert shown["api_addr"] == node.url and shown["cluster_name"] == "test"
        assert shown["storage"]["raft"] == {"node_id": node.name}
        assert shown["seals"] == [{"type": "static", "disabled": False}]
        (listener,) = shown["listeners"]
        assert listener["config"]["address"] == f"127.0.0.1:{node.client_port}"
        assert listener["config"]["tls_disable"] is False
        assert shown.pop("audit_rules")["directories"] == [str(cluster.dir)]
        shown = json.dumps(shown)
        for secret in ("key_file", "seal.key", "-key.pem", str(cluster.dir)):
            assert secret not in shown


def test_what_is_logged_is_set_for_each_module():
    with Cluster() as cluster:
        node, other, path = cluster.nodes[0], cluster.nodes[1], "/v1/sys/loggers"
        assert set(node.call("GET", path).data.values()) == {"info"}
        assert node.call("POST", f"{path}/raft", {"level": "trace"}).status == 204
        assert node.call("GET", f"{path}/raft").data == {"raft": "debug"}
        assert node.call("GET", path).data["mesh"] == "info"
        assert node.call("PUT", path, {"level": "err"}).status == 204
        assert set(node.call("GET", path).data.values()) == {"error"}
        assert set(other.call("GET", path).data.values()) == {"info"}
        assert node.call("POST", f"{path}/mesh", {"level": "warning"}).status == 204
        assert node.call("GET", path).data["mesh"] == "warn"
        assert node.call("DELETE", f"{path}/mesh").status == 204
        assert node.call("GET", f"{path}/mesh").data == {"mesh": "error"}
        assert node.call("DELETE", path).status == 204
        assert set(node.call("GET", path).data.values()) == {"info"}
        for name, body in (("raft", {"level": "loud"}), ("raft", {}), ("", {"level": ""})):
            assert node.call("POST", f"{path}/{name}".rstrip("/"), body).status == 400
        for method, body in (("GET", None), ("POST", {"level": "info"}), ("DELETE", None)):
            assert node.call(method, f"{path}/nothing", body).status == 404


def test_versions_that_were_active_and_tokens_are_counted(cluster):
    for node in cluster.nodes:
        history = node.call("LIST", "/v1/sys/version-history").data
        (version,) = history["keys"]
        assert history["key_info"][version]["previous_version"] is None
        assert history["key_info"][version]["timestamp_installed"].endswith("Z")
        path = "/v1/sys/internal/counters/tokens"
        before = node.call("GET", path).data["counters"]["service_tokens"]["total"]
        assert node.call("POST", "/v1/auth/token/create", {}).status == 200
        after = node.call("GET", path).data["counters"]["service_tokens"]["total"]
        assert after == before + 1 >= 2


def test_a_node_tells_what_its_machine_is(cluster):
    for node in cluster.nodes:
        shown = node.call("GET", "/v1/sys/host-info").data
        assert shown["host"]["hostname"] == socket.gethostname()
        assert shown["host"]["kernelVersion"] == os.uname().release
        assert len(shown["cpu_times"]) == os.cpu_count() == len(shown["cpu"])
        assert shown["cpu_times"][0]["cpu"] == "cpu0" and shown["cpu_times"][0]["idle"] > 0
        memory = shown["memory"]
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert memory["total"] == total and 0 < memory["usedPercent"] < 100
        (disk,) = shown["disk"]
        assert disk["path"] == str(node.data)
        about = os.statvfs(node.data)
        assert disk["total"] == about.f_blocks * about.f_frsize and disk["free"] > 0
        assert node.call("GET", "/v1/sys/host-info", token="").status == 403


def test_requests_under_way_are_shown():
    with Cluster(config=STEADY) as cluster:
        active, path = cluster.active(), "/v1/sys/in-flight-req"
        weak = cluster.limited('path "kv/*" { capabilities = ["update"] }')
        good = cluster.limited('path "sys/in-flight-req" { capabilities = ["read"] }')
        assert [active.call("GET", path, token=t).status for t in ("", weak)] == [403, 403]
        answer = active.call("GET", path + "?x=secret", token=good)
        (shown,) = answer.json.values()
        assert (shown["request_path"], shown["request_method"]) == (path, "GET")
        assert shown["client_remote_address"].startswith("127.0.0.1:") and shown["start_time"]
        assert b"secret" not in answer.body
        # What waits for a majority is seen, by its node alone.
        for node in cluster.standbys():
            node.pause()
        threads = [threading.Thread(target=active.call, args=("PUT", f"/v1/kv/wait-{i}", {"n": i}),
                                    daemon=True) for i in range(4)]
        for thread in threads:
            thread.start()
        wanted = {f"/v1/kv/wait-{i}" for i in range(4)}
        deadline = time.monotonic() + 120
        while not wanted <= (seen := {r["request_path"] for r in
                                      active.call("GET", path, token=good).json.values()}):
            assert time.monotonic() < deadline, seen
        for node in cluster.nodes:
            node.resume()
        for thread in threads:
            thread.join()
        cluster.await_up()
        assert len(active.call("GET", path, token=good).json) == 1


def test_all_leases_are_listed_for_who_may():
    with Cluster(size=1) as cluster:
        node, path = cluster.nodes[0], "/v1/sys/leases"
        weak = cluster.limited('path "sys/leases" { capabilities = ["list"] }')
        good = cluster.limited('path "sys/leases" { capabilities = ["list", "sudo"] }')
        assert [node.call("LIST", path, token=t).status for t in ("", weak)] == [403, 403]
        shown = node.call("LIST", path, token=good).data
        assert shown["lease_count"] == len(shown["leases"]) == 2
        assert all(r["lease_id"].startswith("auth/token/create/") for r in shown["leases"])
        assert node.call("GET", path + "?list=true&limit=1", token=good).data["lease_count"] == 2
        assert node.call("LIST", path + "?type=odd", token=good).status == 400
        reader = cluster.limited('path "sys/leases" { capabilities = ["read", "sudo"] }')
        assert [node.call("GET", path, token=t).status for t in ("", good)] == [403, 403]
        assert node.call("GET", path + "?limit=none", token=reader).data["lease_count"] == 3


def leader_of(node):
    """What a node says of the leader: its address, and whether that is the node itself."""
    said = node.call("GET", "/v1/sys/leader", token="").json
    return said["leader_address"], said["is_self"]


def test_a_standby_without_a_leader_names_none_and_then_the_next_one():
    with Cluster() as cluster:
        old, (one, other) = cluster.active(), cluster.standbys()
        for node in cluster.nodes:
            assert leader_of(node) == (old.url, node is old)
        other.kill()
        old.kill()
        deadline = time.monotonic() + 120
        while leader_of(one)[0] == old.url:  # until it misses it
            assert time.monotonic() < deadline
            time.sleep(0.02)
        for _ in range(50):  # while it stands for election, too
            assert leader_of(one) == ("", False)
            time.sleep(0.02)
        other.start()
        cluster.await_health({200, 473}, [one, other])
        new = cluster.active()
        assert new is not old
        while {leader_of(one), leader_of(other)} != {(new.url, True), (new.url, False)}:
            assert time.monotonic() < deadline + 60
            time.sleep(0.02)
        old.start()
        cluster.await_up()
        while leader_of(old) != (cluster.active().url, False):
            assert time.monotonic() < deadline + 120
            time.sleep(0.02)
