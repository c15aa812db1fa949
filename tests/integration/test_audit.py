"""Audit devices of the cluster and of a node: enabled, seen, disabled, opened and closed."""

import json
import stat
import threading
import time

from cluster import PATIENCE_S, Unaudited
from test_hvac import connect

CLUSTER = Unaudited


def enable(node, path, options=None, kind="file", token=None, **more):
    body = {"type": kind, "options": options or {"file_path": "discard"}, **more}
    return node.call("PUT", f"/v1/sys/audit/{path}", body, token)


def disable(node, path):
    return node.call("DELETE", f"/v1/sys/audit/{path}")


def devices(node):
    answer = node.call("GET", "/v1/sys/audit")
    assert answer.status == 200, answer.body
    assert answer.data == {k: v for k, v in answer.json.items() if k.endswith("/")}
    return answer.data


def await_true(check, what=""):
    deadline = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < deadline, what or check
        time.sleep(0.02)


def metrics(node):
    return node.call("GET", "/v1/sys/metrics?format=prometheus").body.decode()


def test_a_device_is_enabled_seen_and_disabled_through_every_node(cluster):
    for i, node in enumerate(cluster.nodes):
        path = f"team/d{i}"
        made = enable(node, path, {"file_path": str(cluster.dir / f"{path.replace('/', '-')}.log")},
                      description="for people", local=i == 1)
        assert made.status == 204, made.body
        for other in cluster.nodes:
            shown = devices(other)[f"{path}/"]
            assert shown.pop("status") in ("open", "opening")
            assert shown == {
                "path": f"{path}/", "type": "file", "description": "for people", "local": i == 1,
                "options": {"file_path": str(cluster.dir / f"team-d{i}.log")}}
        assert disable(node, path).status == 204
        assert disable(node, path).status == 204  # absent: no error
        for other in cluster.nodes:
            assert devices(other) == {}


def test_a_first_device_writes_a_test_record(cluster):
    path = cluster.dir / "first.log"
    assert enable(cluster.nodes[1], "first", {"file_path": str(path)}).status == 204
    first = json.loads(path.read_text().splitlines()[0])
    assert first["request"]["path"] == "sys/audit/test"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert disable(cluster.nodes[1], "first").status == 204


def test_what_cannot_be_enabled_is_refused_with_the_reason(cluster):
    node = cluster.nodes[0]
    folder = cluster.dir / "a-folder"
    folder.mkdir()
    inside = cluster.dir / "into-data.log"
    inside.symlink_to(cluster.active().data / "audit.log")
    for body, part in [
        ({}, "unknown backend type"),
        ({"type": "paper"}, 'unknown backend type: "paper"'),
        ({"type": "file"}, "file_path"),
        ({"type": "file", "options": {"file_path": str(folder)}}, str(folder)),
        ({"type": "file", "options": {"file_path": "/no/such/folder/audit.log"}}, "/no/such/folder"),
        ({"type": "file", "options": {"file_path": str(inside)}}, "symbolic link"),
        ({"type": "file", "options": {"file_path": "audit.log"}}, "absolute path"),
        ({"type": "file", "options": {"file_path": f"{cluster.dir}/../x.log"}}, "absolute path"),
        ({"type": "file", "options": {"file_path": "/proc/self/fd/2"}}, "audit { directories"),
        ({"type": "file", "options": {"file_path": "discard", "mode": "0644"}}, "mode: at most 0640"),
        ({"type": "file", "options": {"file_path": "discard", "prefix": "a"}}, "allow_prefix"),
        ({"type": "file", "options": {"file_path": "discard", "path": "discard"}}, "path: is the old"),
        ({"type": "file", "options": {"file_path": "discard", "skip_test": "x"}}, "skip_test"),
        ({"type": "file", "options": {"file_path": "discard", "format": "jsonx"}}, "format"),
        ({"type": "file", "options": {"file_path": "discard", "colour": "red"}}, "colour"),
        ({"type": "socket", "options": {"address": "127.0.0.1:9"}}, "127.0.0.1:9"),
        ({"type": "file", "options": 7}, "options"),
    ]:
        answer = node.call("PUT", "/v1/sys/audit/bad", body)
        assert answer.status == 400, (body, answer.body)
        assert part in answer.json["errors"][0], (body, answer.body)
    for path in ("%20a", "x" * 300):
        assert enable(node, path).status in (400, 404)
    assert devices(node) == {}


def test_files_of_the_host_are_left_alone(cluster):
    """Keys and configuration: no line, no other mode, no other name, whatever the options."""
    node, active = cluster.nodes[0], cluster.active()
    files = [cluster.dir / "seal.key", active.config_path, active.log,
             *sorted((cluster.dir / "tls").glob("*.pem"))]
    assert len(files) > 5

    def seen():
        return [(f.read_bytes()[:100], f.stat().st_mode) for f in files]

    before = seen()
    for file in files:
        for more in ({}, {"mode": "0640"}, {"hash_chain": "true"}, {"rotate_bytes": "4KiB"}):
            answer = enable(node, "bad", {"file_path": str(file), **more})
            assert answer.status == 400 and "no audit device made" in answer.body.decode(), file
    assert seen() == before and devices(node) == {}


def test_the_old_name_of_a_path_and_a_folder_to_be_made_are_taken(cluster):
    node, path = cluster.nodes[0], cluster.dir / "made" / "below" / "old.log"
    assert enable(node, "old", {"path": str(path), "skip_test": "false"}).status == 204
    assert devices(node)["old/"]["options"] == {"file_path": str(path)}
    assert path.exists() and disable(node, "old").status == 204
    for name in ("stdout", "stderr", "/dev/null", "/dev/stderr", "DISCARD"):
        assert enable(node, "named", {"file_path": name}).status == 204
        await_true(lambda: devices(node)["named/"]["status"] == "open")
        assert disable(node, "named").status == 204
    assert enable(node, "kept").status == 204  # the next device takes no record
    nowhere = {"address": "127.0.0.1:9", "skip_test": "true"}
    assert enable(node, "late", nowhere, kind="socket").status == 204
    assert disable(node, "late").status == disable(node, "kept").status == 204


def test_a_path_is_taken_once_and_does_not_nest(cluster):
    node = cluster.nodes[2]
    assert enable(node, "a/b").status == 204
    for path in ("a/b", "a", "a/b/c"):
        answer = enable(cluster.nodes[0], path)
        assert answer.status == 400 and "path already in use" in answer.body.decode()
    assert enable(node, "a/bc").status == 204  # beside it
    assert disable(node, "a/b").status == disable(node, "a/bc").status == 204


def test_a_file_has_one_device(cluster):
    path = cluster.dir / "one.log"
    beside = cluster.dir / "link.log"
    beside.symlink_to(path)
    node = cluster.nodes[1]
    assert enable(node, "one", {"file_path": str(path)}).status == 204
    for same in (path, beside, f"{path.parent}/./{path.name}"):
        answer = enable(node, "two", {"file_path": str(same)})
        assert answer.status == 400 and "one/" in answer.json["errors"][0]
    assert disable(node, "one").status == 204
    answer = enable(node, "two", {"file_path": str(beside)})
    assert answer.status == 400 and "symbolic link" in answer.json["errors"][0]


def test_of_two_enablings_at_once_one_wins(cluster):
    results = []

    def run(node):
        results.append(enable(node, "once").status)

    threads = [threading.Thread(target=run, args=(cluster.nodes[i % 3],)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [204] + [400] * 5
    assert disable(cluster.nodes[0], "once").status == 204


def test_devices_are_bounded(cluster):
    node = cluster.active()
    for i in range(8):
        assert enable(node, f"n{i}").status == 204
    answer = enable(node, "one-more")
    assert answer.status == 400 and "more than 8" in answer.body.decode()
    for i in range(8):
        assert disable(node, f"n{i}").status == 204


def test_sudo_is_needed(cluster):
    rules = """path "sys/audit" { capabilities = ["read"] }
               path "sys/audit/*" { capabilities = ["create", "update", "delete"] }
               path "sys/audit-hash/*" { capabilities = ["update"] }
               path "sys/config/auditing/*" { capabilities = ["read", "update", "delete"] }"""
    token = cluster.limited(rules)
    node = cluster.nodes[0]
    assert node.call("GET", "/v1/sys/audit", token=token).status == 403
    assert enable(node, "mine", token=token).status == 403
    for method in ("GET", "PUT", "DELETE"):
        path = "/v1/sys/config/auditing/request-headers/x-a"
        assert node.call(method, path, {} if method == "PUT" else None, token=token).status == 403
    answer = node.call("POST", "/v1/sys/audit-hash/none", {"input": "x"}, token=token)
    assert answer.status == 400  # no sudo is needed; there is no such device


def test_a_hash_is_the_same_on_every_node_and_stands_in_the_lines(cluster):
    path = cluster.dir / "hashed.log"
    assert enable(cluster.nodes[0], "hashed", {"file_path": str(path)}).status == 204
    hashes = set()
    for node in cluster.nodes:
        answer = node.call("POST", "/v1/sys/audit-hash/hashed", {"input": "s3cret"})
        assert answer.data["hash"] == answer.json["hash"]
        hashes.add(answer.data["hash"])
    (shown,) = hashes
    number = cluster.nodes[0].call("POST", "/v1/sys/audit-hash/hashed", {"input": "1"}).data["hash"]
    assert shown.startswith("hmac-sha256:") and len(shown) == len("hmac-sha256:") + 64
    for node in cluster.nodes:  # whichever node is asked, the active one records the write
        assert node.call("PUT", "/v1/kv/hashed", {"a": "s3cret", "b": ["s3cret", 1]}).status == 204
    records = [json.loads(line) for line in path.read_text().splitlines()]
    written = [r["request"]["data"] for r in records if r["request"]["path"] == "kv/hashed"]
    assert written == [{"a": shown, "b": [shown, number]}] * 2 * len(cluster.nodes)
    asked = [r["request"]["data"] for r in records if r["request"]["path"] == "sys/audit-hash/hashed"]
    assert asked == [{"input": shown}] * 2 * len(cluster.nodes) + [{"input": number}] * 2
    node = cluster.nodes[1]
    assert node.call("POST", "/v1/sys/audit-hash/hashed", {"input": ""}).status == 400
    answer = node.call("POST", "/v1/sys/audit-hash/none", {"input": "x"})
    assert answer.status == 400 and "unknown audit backend" in answer.body.decode()
    assert disable(node, "hashed").status == 204


def test_upstreams_client_for_every_path(cluster):
    client = connect(cluster.standbys()[0], cluster.token)
    assert client.sys.list_enabled_audit_devices()["data"] == {}
    client.sys.enable_audit_device(
        device_type="file", options={"file_path": "discard"}, path="hvac", description="d")
    assert "hvac/" in client.sys.list_enabled_audit_devices()["data"]
    assert client.sys.calculate_hash(path="hvac", input_to_hash="x")["data"]["hash"]
    headers = "sys/config/auditing/request-headers"
    client.write_data(f"{headers}/X-Hvac", data={"hmac": True})
    assert client.read(headers)["data"] == {"headers": {"x-hvac": {"hmac": True}}}
    assert client.read(f"{headers}/x-hvac")["data"] == {"x-hvac": {"hmac": True}}
    client.delete(f"{headers}/X-Hvac")
    assert client.read(headers)["data"] == {"headers": {}}
    client.sys.disable_audit_device(path="hvac")
    assert client.sys.list_enabled_audit_devices()["data"] == {}


def test_request_headers_are_kept_in_lower_case(cluster):
    node, base = cluster.nodes[1], "/v1/sys/config/auditing/request-headers"
    assert node.call("GET", base).data == {"headers": {}}
    assert node.call("PUT", f"{base}/X-Trace-Id", {"hmac": True}).status == 204
    assert node.call("POST", f"{base}/x-plain", {}).status == 204
    answer = node.call("GET", base)
    assert answer.data == {"headers": {"x-plain": {"hmac": False}, "x-trace-id": {"hmac": True}}}
    assert answer.json["headers"] == answer.data["headers"]
    one = node.call("GET", f"{base}/X-TRACE-ID")  # the member has the name that was asked for
    assert one.data == {"X-TRACE-ID": {"hmac": True}} and one.json["X-TRACE-ID"] == {"hmac": True}
    for name in ("a%20b", "a:b", "x" * 200):
        assert node.call("PUT", f"{base}/{name}", {}).status == 400, name
    assert node.call("GET", f"{base}/x-other").status == 400
    for name in ("X-Vault-Token", "x-secrets-token", "Authorization", "cookie"):
        refused = node.call("PUT", f"{base}/{name}", {"hmac": False})
        assert refused.status == 400 and "set hmac" in refused.json["errors"][0]
        assert node.call("PUT", f"{base}/{name}", {"hmac": True}).status == 204
        assert node.call("DELETE", f"{base}/{name}").status == 204
    for name in ("x-trace-id", "X-PLAIN", "x-other"):
        assert node.call("DELETE", f"{base}/{name}").status == 204
    assert node.call("GET", base).data == {"headers": {}}


def test_keys_that_are_not_hashed_are_set_on_enabling_and_by_a_tune(cluster):
    node = cluster.nodes[0]
    keys = {"audit_non_hmac_request_keys": ["a"], "audit_non_hmac_response_keys": "b,c"}
    assert node.call("POST", "/v1/sys/mounts/shy", {"type": "kv", "config": keys}).status == 204
    tuned = node.call("GET", "/v1/sys/mounts/shy/tune").data
    assert tuned["audit_non_hmac_response_keys"] == ["b", "c"]
    for mount in ("shy", "sys"):
        body = {"audit_non_hmac_request_keys": ["d"]}
        assert node.call("POST", f"/v1/sys/mounts/{mount}/tune", body).status == 204
        tuned = node.call("GET", f"/v1/sys/mounts/{mount}/tune").data
        assert tuned["audit_non_hmac_request_keys"] == ["d"]
    assert node.call("DELETE", "/v1/sys/mounts/shy").status == 204


def test_the_record_of_an_unwrap_names_its_sender_and_the_token(cluster):
    node, path = cluster.active(), cluster.dir / "unwrap.log"
    accessor = node.call("GET", "/v1/auth/token/lookup-self").data["accessor"]
    assert enable(node, "unwrap", {"file_path": str(path), "hmac_accessor": "false"}).status == 204
    wrap = {"X-Vault-Wrap-TTL": "60s"}
    for by_header in (False, True):
        made = node.call("POST", "/v1/auth/token/create", {"ttl": "5m"}, headers=wrap)
        info = made.json["wrap_info"]
        body, who = ({}, info["token"]) if by_header else ({"token": info["token"]}, None)
        assert node.call("POST", "/v1/sys/wrapping/unwrap", body, token=who).status == 200
        sent, told = [json.loads(line) for line in path.read_text().splitlines()
                      if '"path":"sys/wrapping/unwrap"' in line][-2:]
        sender = info["accessor"] if by_header else accessor
        assert sent["auth"]["accessor"] == sent["request"]["client_token_accessor"] == sender
        assert sent["auth"]["policies"] == (["response-wrapping"] if by_header else ["root"])
        assert sent["auth"]["policy_results"]["allowed"] is True
        given = told["response"]["auth"]
        assert given["accessor"] == info["wrapped_accessor"] and given["policies"] == ["root"]
        assert given["client_token"].startswith("hmac-sha256:") and "data" not in told["response"]
    assert disable(node, "unwrap").status == 204
