"""Requests that try to be served without a record, or to bring a secret into the trail in clear."""

import base64
import collections
import contextlib
import itertools
import json
import ssl
import socket
import urllib.parse

import pytest
from cluster import Unaudited
from test_audit import disable, enable
from test_audit_trail import hash_of, records

PLANTED = "Pl4nted-{}-nobody-may-read-this"


class Planted:
    """Texts that no file may have in any spelling."""

    def __init__(self):
        self.texts = []

    def __call__(self, what):
        self.texts.append(PLANTED.format(f"{what}-{len(self.texts)}"))
        return self.texts[-1]

    def found_in(self, text):
        return [each for each in self.texts if any(
            spelled in text for spelled in (
                each, urllib.parse.quote(each), each.encode().hex(), each.lower(),
                each.replace("-", "\\u002d"),
                base64.b64encode(each.encode()).decode()[:-4]))]


def id_in(body):
    """The id in the envelope of a success."""
    with contextlib.suppress(ValueError, TypeError):
        return json.loads(body[body.index("{"):body.rindex("}") + 1]).get("request_id")


def raw(node, request):
    """The status and the id of the reply to bytes on a connection of its own. A reply without a body
    has no id."""
    with socket.create_connection(("127.0.0.1", node.client_port), 60) as tcp:
        with node.cluster.tls.wrap_socket(tcp, server_hostname="127.0.0.1") as connection:
            connection.sendall(request)
            reply = b""
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while part := connection.recv(1 << 16):
                    reply += part
    head, _, body = reply.decode(errors="replace").partition("\r\n\r\n")
    lines = head.split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), headers.get("x-secrets-request-id") or id_in(body)


def ask(node, method, target, body=b"", token=None, headers=()):
    token = node.cluster.token if token is None else token
    lines = [f"{method} {target} HTTP/1.1".encode(), b"Host: a", b"Connection: close",
             f"Content-Length: {len(body)}".encode(), *headers]
    if token:
        lines.append(f"X-Secrets-Token: {token}".encode())
    return raw(node, b"\r\n".join(lines) + b"\r\n\r\n" + body)


@pytest.fixture(scope="module")
def cluster():
    with Unaudited() as made:
        made.mount("kv2", {"version": "2"})
        yield made


@pytest.fixture
def trail(cluster):
    """The trail of all nodes, and texts to plant; judged when the test ends."""
    path, planted = cluster.dir / "attack.log", Planted()
    assert enable(cluster.active(), "attack", {"file_path": str(path)}).status == 204
    yield path, planted
    assert disable(cluster.active(), "attack").status == 204
    text = path.read_text()
    assert planted.found_in(text) == []
    assert cluster.token not in text
    logs = "".join(node.log_text() for node in cluster.nodes)
    assert planted.found_in(logs) == []
    path.unlink()


def unrecorded(path, told):
    """Which of (what, status, id) the trail lacks. Of answers without an id it has as many."""
    found = collections.defaultdict(list)
    for record in records(path):
        found[record["request"]["id"]].append(record["type"])
    wrong = [each for each in told if each[2] and found.pop(each[2], []) != ["request", "response"]]
    nameless = [each for each in told if not each[2]]
    twice = [kinds for kinds in found.values() if kinds == ["request", "response"]]
    return wrong if len(nameless) <= len(twice) else wrong + nameless


TARGETS = [
    "/v1/kv/x", "//v1//kv///x", "/v1/kv/%78", "/v1/%6bv/x", "/%76%31/kv/x", "/v1/kv/x/", "/v1/kv/./x",
    "/v1/kv/../kv/x", "/v1/kv/%2e%2e/kv/x", "/v1/kv/x%00", "/v1/kv/x%", "/v1/kv/x%zz", "/v1/kv/%ff",
    "/v1/kv/%c0%af", "/v1/kv/x?a=b", "/v1/kv/x?help=1", "/v1/kv/x?list=true", "/v1/kv/x?list=1&list=0",
    "/v1/kv/x;a=b", "/v1/kv/" + "x" * 2900, "/v1/kv/" + "x" * 3100,
    "/V1/kv/x", "/v1/KV/x", "/v1/none/x", "/v1/", "/v1", "/", "/v2/kv/x", "/v1/sys/health/x",
    "/v1/sys/leader/..", "/v1/sys/metrics",
    "/v1/kv/x\\..\\y", "https://a/v1/kv/x", "/v1/kv/x%0d%0aX-A:%20b",
]
METHODS = ["GET", "HEAD", "LIST", "SCAN", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"]


def test_every_answer_has_its_records_however_it_is_asked(cluster, trail):
    path, _ = trail
    told = []
    for number, target in enumerate(TARGETS):
        for k, method in enumerate(METHODS if number % 5 == 0 else METHODS[:3] + METHODS[4:6]):
            node = cluster.nodes[(number + k) % 3]
            body = b"{}" if method in ("PUT", "POST") else b""
            told.append(((method, target), *ask(node, method, target, body)))
    assert unrecorded(path, told) == []


def test_headers_do_not_hide_a_request(cluster, trail):
    path, plant = trail
    told = []
    for node in cluster.nodes:
        assert node.call("PUT", "/v1/kv/seen", {"a": "b"}).status == 204
        for headers in [
                [b"X-HTTP-Method-Override: DELETE"], [b"X-Forwarded-For: 1.2.3.4"],
                [b"X-Vault-No-Request-Forwarding: true"], [b"X-Vault-Wrap-TTL: 60s"],
                [b"X-Vault-Request-ID: " + b"1" * 36, b"X-Request-ID: mine"],
                [b"X-Vault-Namespace: " + plant("ns").encode()],
                [b"Authorization: Bearer " + plant("bearer").encode()]]:
            told.append((headers, *ask(node, "GET", "/v1/kv/seen", headers=headers)))
        assert node.call("GET", "/v1/kv/seen").data == {"a": "b"}
    assert unrecorded(path, told) == []


def bodies(plant):
    yield 'a string', lambda s: json.dumps({"a": s}), plant("string")
    yield 'deep', lambda s: '{"a":' * 90 + json.dumps(s) + "}" * 90, plant("deep")
    yield 'too deep', lambda s: '{"a":' * 5000 + json.dumps(s) + "}" * 5000, plant("deeper")
    yield 'list', lambda s: json.dumps({"a": [[{"b": [s, 1, None, True]}]]}), plant("list")
    yield 'twice', lambda s: json.dumps({"a": 1})[:-1] + f',"a":"{s}","a":2}}', plant("twice")
    yield 'escaped', lambda s: '{"a":"%s"}' % "".join(f"\\u{ord(c):04x}" for c in s), plant("escaped")
    yield 'not utf-8', lambda s: b'{"a":"\xff\xfe' + s.encode() + b'"}', plant("bytes")
    yield 'cut off', lambda s: '{"a":"' + s, plant("cut")
    yield 'no object', lambda s: json.dumps([s]), plant("array")
    yield 'a bare string', lambda s: json.dumps(s), plant("bare")
    yield 'no json', lambda s: s, plant("text")
    yield 'after the end', lambda s: '{"a":"b"}' + s, plant("after")
    yield 'wrong literal', lambda s: '{"a":' + s + '}', plant("literal")
    yield 'large', lambda s: json.dumps({"a": s * 3000}), plant("large")
    yield 'null byte', lambda s: '{"a":"\\u0000' + s + '"}', plant("null")


PLACES = ["/v1/kv/body", "/v1/kv2/data/body", "/v1/sys/policies/acl/body", "/v1/auth/token/create",
          "/v1/auth/token/lookup", "/v1/sys/wrapping/wrap", "/v1/sys/mounts/body",
          "/v1/sys/wrapping/unwrap", "/v1/sys/tools/hash", "/v1/sys/leases/revoke",
          "/v1/sys/audit-hash/attack", "/v1/sys/quotas/rate-limit/body", "/v1/none/body"]


def test_no_body_brings_a_secret_into_the_trail(cluster, trail):
    path, plant = trail
    told = []
    for i, place in enumerate(PLACES):
        for k, (what, body, secret) in enumerate(bodies(plant)):
            text = body(secret)
            text = text.encode() if isinstance(text, str) else text
            if place.endswith("kv2/data/body"):
                text = b'{"data":' + text + b"}"
            told.append(((place, what), *ask(cluster.nodes[(i + k) % 3], "POST", place, text)))
    assert unrecorded(path, told) == []


FIELDS = [
    ("auth/token/create", ["ttl", "explicit_max_ttl", "period", "num_uses", "type", "renewable",
                           "id"]),
    ("auth/token/lookup", ["token"]), ("auth/token/renew", ["token", "increment"]),
    ("auth/token/revoke", ["token"]), ("auth/token/revoke-accessor", ["accessor"]),
    ("auth/token/lookup-accessor", ["accessor"]), ("auth/token/revoke-orphan", ["token"]),
    ("sys/wrapping/unwrap", ["token"]), ("sys/wrapping/lookup", ["token"]),
    ("sys/wrapping/rewrap", ["token"]), ("sys/leases/lookup", ["lease_id"]),
    ("sys/leases/renew", ["lease_id", "increment"]), ("sys/leases/revoke", ["lease_id", "sync"]),
    ("sys/policies/acl/fields", ["policy"]), ("sys/capabilities", ["token"]), ("sys/capabilities-accessor", ["accessor"]),
    ("sys/tools/hash", ["input", "algorithm", "format"]),
    ("sys/tools/random", ["bytes", "format", "source"]), ("sys/loggers", ["level"]),
    ("sys/storage/raft/remove-peer", ["server_id"]), ("sys/storage/raft/readmit", ["server_id"]),
    ("sys/storage/raft/peer-unseal/approve", ["server_id", "ttl"]),
    ("sys/unseal", ["key", "reset"]), ("sys/generate-root/update", ["key", "nonce"]),
    ("sys/generate-root/attempt", ["otp", "pgp_key"]), ("sys/rekey/update", ["key", "nonce"]),
    ("sys/init", ["secret_shares", "root_token_pgp_key"]),
    ("sys/storage/raft/join", ["join_token", "leader_api_addr"]),
    ("kv2/config", ["max_versions", "cas_required", "delete_version_after"]),
    ("kv2/data/x", ["data", "options"]), ("kv2/metadata/x", ["custom_metadata", "max_versions"]),
    ("kv2/destroy/x", ["versions"]), ("cubbyhole/x", ["a"]),
    ("sys/audit-hash/attack", ["input"]),
]


def test_no_error_quotes_a_value_into_the_trail(cluster, trail):
    path, plant = trail
    for i, (place, names) in enumerate(FIELDS):
        for name in names:
            for k, value in enumerate((plant(name), [plant(name)], {"a": plant(name)},
                                       {"a": {"b": [plant(name)]}})):
                node = cluster.nodes[(i + k) % 3]
                body = json.dumps({name: value}).encode()
                ask(node, "POST", f"/v1/{place}", body)
                form = urllib.parse.urlencode({name: plant(name)}).encode()
                kind = [b"Content-Type: application/x-www-form-urlencoded"]
                ask(node, "POST", f"/v1/{place}", form, headers=kind)


def test_tokens_of_every_kind_are_hidden(cluster, trail):
    path, plant = trail
    node, standby = cluster.active(), cluster.standbys()[0]
    cluster.await_feature_level()
    hidden = []
    for body in ({"type": "batch", "ttl": "1h"}, {"type": "service", "num_uses": 5},
                 {"id": plant("id")}, {"period": "1h"}):
        made = standby.call("POST", "/v1/auth/token/create", {"policies": ["default"], **body})
        assert made.status == 200, made.body
        auth = made.json["auth"]
        hidden += [auth["client_token"], *filter(None, [auth["accessor"]])]  # a batch token has none
        for each in cluster.nodes:
            assert each.call("GET", "/v1/auth/token/lookup-self",
                             token=auth["client_token"]).status == 200
            query = urllib.parse.urlencode({"token": auth["client_token"]})
            each.call("GET", f"/v1/auth/token/lookup?{query}")
        standby.call("POST", "/v1/auth/token/renew", {"token": auth["client_token"]})
        standby.call("POST", "/v1/auth/token/revoke", {"token": auth["client_token"]})
    for wrong in (plant("token"), "hvs." + plant("hvs"), "hvb." + plant("hvb")):
        for each in cluster.nodes:
            assert each.call("GET", "/v1/kv/x", token=wrong).status == 403
    wraps = [("kv/x", "GET", None), ("auth/token/create", "POST", {"ttl": "1h"}),
             ("sys/wrapping/wrap", "POST", {"a": plant("wrapped")})]
    for (path_, method, body), form in itertools.product(wraps, ("", "jwt")):
        node.call("PUT", "/v1/kv/x", {"a": plant("stored")})
        headers = {"X-Vault-Wrap-TTL": "60s", "X-Vault-Wrap-Format": form}
        wrapped = standby.call(method, f"/v1/{path_}", body, headers=headers)
        info = wrapped.json["wrap_info"]
        hidden += [info["token"], info["accessor"]]
        assert standby.call("POST", "/v1/sys/wrapping/lookup", {"token": info["token"]}).status == 200
        again = standby.call("POST", "/v1/sys/wrapping/rewrap", {"token": info["token"]})
        token = again.json["wrap_info"]["token"]
        hidden.append(token)
        opened = node.call("PUT", "/v1/sys/wrapping/unwrap", token=token)
        assert opened.status == 200, opened.body
        if opened.json.get("auth"):
            hidden += [opened.json["auth"]["client_token"], opened.json["auth"]["accessor"]]
        assert node.call("PUT", "/v1/sys/wrapping/unwrap", token=token).status >= 400
    text = path.read_text()
    assert [each for each in hidden if each in text] == []


def test_headers_bring_no_secret_into_the_trail(cluster, trail):
    path, plant = trail
    base = "/v1/sys/config/auditing/request-headers"
    node = cluster.active()
    shy = ["X-Shy", "authorization", "X-Secrets-Token", "cookie"]
    for name in shy:
        assert node.call("PUT", f"{base}/{name}", {"hmac": True}).status == 204
    assert node.call("PUT", f"{base}/X-Open", {}).status == 204
    secret = plant("header")
    for each in cluster.nodes:
        status, given = ask(each, "GET", "/v1/kv/none", headers=[
            b"X-SHY: " + secret.encode(), b"Cookie: " + plant("cookie").encode(),
            b'X-Open: "\\\xff\xfe\t</script>', b"Authorization: Basic " + plant("basic").encode()])
        (asked,) = [r for r in records(path) if r["request"]["id"] == given and r["type"] == "request"]
        shown = asked["request"]["headers"]
        assert shown["x-shy"] == [hash_of(each, secret, "attack")]
        assert set(shown) >= {"x-shy", "cookie", "x-open", "authorization", "x-secrets-token"}, shown
        assert all(value.startswith("hmac-sha256:") for name, (value,) in shown.items()
                   if name != "x-open")
    for name in [*shy, "X-Open"]:
        assert node.call("DELETE", f"{base}/{name}").status == 204


def test_a_listing_that_is_elided_has_its_number_alone(cluster):
    path = cluster.dir / "elided.log"
    active = cluster.active()
    assert enable(active, "elided", {"file_path": str(path), "elide_list_responses": "true"}).status == 204
    names = [f"name-of-entry-{i}" for i in range(7)]
    for name in names:
        assert active.call("PUT", f"/v1/kv/elided/{name}", {"a": "b"}).status == 204
    for method, target in [("LIST", "/v1/kv/elided"), ("GET", "/v1/kv/elided?list=true")]:
        for node in cluster.nodes:
            status, given = ask(node, method, target)
            assert status == 200
            (told,) = [r for r in records(path) if r["request"]["id"] == given
                       and r["type"] == "response"]
            assert told["response"]["data"] == {"keys": len(names)}
            assert told["request"]["operation"] == "list"
    assert disable(active, "elided").status == 204
