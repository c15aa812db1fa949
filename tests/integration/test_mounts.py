"""Mounting, tuning, moving and removing engines, through any node of a real cluster."""

import re
import threading
import uuid

import pytest

KV1 = {"type": "kv", "options": {"version": "1"}}


def errors(answer):
    return " ".join(answer.json["errors"])


def mounts(node, path=""):
    return node.call("GET", f"/v1/sys/mounts{path}")


def mount(node, path, body=None):
    return node.call("POST", f"/v1/sys/mounts/{path}", body or KV1)


def unmount(node, path):
    return node.call("DELETE", f"/v1/sys/mounts/{path}")


def tune(node, path, body=None):
    if body is None:
        return node.call("GET", f"/v1/sys/mounts/{path}/tune")
    return node.call("POST", f"/v1/sys/mounts/{path}/tune", body)


def remount(node, start, end):
    return node.call("POST", "/v1/sys/remount", {"from": start, "to": end})


def test_initialisation_mounts_what_is_always_there(cluster):
    for node in cluster.nodes:
        answer = mounts(node)
        assert answer.status == 200
        types = {path: entry["type"] for path, entry in answer.data.items()}
        for path, kind in (("cubbyhole/", "cubbyhole"), ("identity/", "identity"),
                           ("secret/", "kv"), ("sys/", "system")):
            assert types[path] == kind
        assert not any(path.startswith("auth/") or path == "token/" for path in types)
        # old clients read the members at the top
        for path, entry in answer.data.items():
            assert answer.json[path] == entry


def test_a_mount_shows_every_member(cluster):
    body = {**KV1, "description": "mine", "config": {"default_lease_ttl": "1h", "max_lease_ttl": 7200}}
    assert mount(cluster.nodes[0], "shape", body).status == 204
    for node in cluster.nodes:
        answer = mounts(node, "/shape")
        entry = dict(answer.data)
        uuid.UUID(entry.pop("uuid"))
        assert re.fullmatch("kv_[0-9a-f]{8}", entry.pop("accessor"))
        entry.pop("running_plugin_version")
        assert entry == {
            "type": "kv",
            "description": "mine",
            "config": {"default_lease_ttl": 3600, "max_lease_ttl": 7200, "force_no_cache": False},
            "options": {"version": "1"},
            "local": False,
            "seal_wrap": False,
            "external_entropy_access": False,
            "plugin_version": "",
            "running_sha256": "",
            "deprecation_status": "supported",
        }
        assert answer.json["type"] == "kv"
        assert mounts(node).data["shape/"] == answer.data
        answer = mounts(node, "/none")
        assert answer.status == 400 and "No secret engine mount at none/" in errors(answer)


def test_an_engine_works_where_it_is_mounted_and_not_after(cluster):
    first, second, third = cluster.nodes
    assert mount(first, "team/red/kv").status == 204
    assert mount(second, "team/red/two", {"type": "kv-v2"}).status == 204
    assert third.call("PUT", "/v1/team/red/kv/a/b", {"x": 1}).status == 204
    assert first.call("GET", "/v1/team/red/kv/a/b").data == {"x": 1}
    assert second.call("PUT", "/v1/team/red/two/data/a", {"data": {"x": 2}}).status == 200
    assert mounts(first, "/team/red/two").data["options"] == {"version": "2"}
    assert unmount(second, "team/red/kv/").status == 204
    for node in cluster.nodes:
        answer = node.call("GET", "/v1/team/red/kv/a/b")
        assert answer.status == 404 and "no handler for route" in errors(answer)
        assert node.call("GET", "/v1/team/red/two/data/a").status == 200
    assert unmount(third, "team/red/kv").status == 204, "none is fine too"
    assert mount(third, "team/red/kv").status == 204
    assert first.call("GET", "/v1/team/red/kv/a/b").status == 404, "a new mount is empty"


@pytest.mark.parametrize(
    "path, body, text",
    [
        ("secret", KV1, "path is already in use at secret/"),
        ("secret/below", KV1, "path is already in use at secret/"),
        ("bad", {}, "type"),
        ("bad", {"type": "none"}, "plugin not found"),
        ("bad", {"type": "cubbyhole"}, "plugin not found"),
        ("bad", {"type": "system"}, "plugin not found"),
        ("bad", {"type": "kv", "options": {"version": "3"}}, "version"),
        ("bad", {"type": "kv", "options": {"version": "x"}}, "version"),
        ("bad", {**KV1, "config": "x"}, "config"),
        ("bad", {**KV1, "config": {"default_lease_ttl": "soon"}}, "default_lease_ttl"),
        ("bad", {**KV1, "config": {"max_lease_ttl": "-1s"}}, "max_lease_ttl"),
        ("bad", {**KV1, "config": {"default_lease_ttl": "2h", "max_lease_ttl": "1h"}}, "greater"),
        ("bad", {**KV1, "config": {"listing_visibility": "all"}}, "listing_visibility"),
        ("bad", {**KV1, "local": "perhaps"}, "local"),
        ("a/b/c/d/e/f/g/h/i", KV1, "segments"),
        ("p" * 600, KV1, "512"),
        ("%20x", KV1, "segments"),
        ("a/%20/b", KV1, "segments"),
    ],
)
def test_bad_mounts_are_400(cluster, path, body, text):
    for node in cluster.nodes:
        answer = node.call("POST", f"/v1/sys/mounts/{path}", body)
        assert answer.status == 400, answer.body
        assert text in errors(answer)
    assert "bad/" not in mounts(cluster.nodes[0]).data


def test_mounts_do_not_nest(cluster):
    first, second, third = cluster.nodes
    assert mount(first, "nest/a").status == 204
    for path in ("nest", "nest/a", "nest/a/b", "nest/a/b/c"):
        answer = mount(second, path)
        assert answer.status == 400 and "path is already in use at nest/a/" in errors(answer)
    assert mount(third, "nest/ab").status == 204
    assert mount(third, "nest/b").status == 204


RESERVED = """acl agent allocation allocations client status job jobs node nodes evaluation evaluations
deployment deployments namespace namespaces operator regions system event search catalog session txn
auth sys cubbyhole identity audit""".split()


def test_reserved_first_segments_are_refused(cluster):
    for number, segment in enumerate(RESERVED):
        node = cluster.nodes[number % 3]
        for path in (segment, f"{segment}/x"):
            answer = mount(node, path)
            assert answer.status == 400 and "reserved" in errors(answer), (path, answer.body)
        answer = remount(node, "secret", f"{segment}/x")
        assert answer.status == 400 and "reserved" in errors(answer)
    assert mount(cluster.nodes[0], "acls").status == 204


def test_no_mount_moves_where_no_request_can_name_it(cluster):
    for node in cluster.nodes:
        for path in ("..", ".", "a/../b", "./a", "a/..", "a/./b"):
            answer = remount(node, "secret", path)
            assert answer.status == 400 and "segments" in errors(answer), (path, answer.body)


@pytest.mark.parametrize("path", ["cubbyhole", "sys", "identity", "auth", "auth/token"])
def test_what_is_always_there_stays(cluster, path):
    for node in cluster.nodes:
        assert unmount(node, path).status == 400
        assert remount(node, path, "elsewhere").status == 400
        assert remount(node, "secret", path).status == 400
    if not path.startswith("auth"):
        assert tune(cluster.nodes[0], path, {"description": "mine"}).status == 400
        assert tune(cluster.nodes[0], path, {"default_lease_ttl": "1h"}).status == 400
        body = {"audit_non_hmac_request_keys": ["a"]}
        assert tune(cluster.nodes[0], path, body).status == 204
        assert tune(cluster.nodes[1], path).data["audit_non_hmac_request_keys"] == ["a"]


def test_tuning_changes_what_it_names(cluster):
    first, second, third = cluster.nodes
    assert mount(first, "tuned/x", {**KV1, "description": "before"}).status == 204
    answer = tune(second, "tuned/x")
    assert answer.data == {
        "default_lease_ttl": 2764800,
        "max_lease_ttl": 2764800,
        "force_no_cache": False,
        "description": "before",
        "options": {"version": "1"},
    }
    assert answer.json["default_lease_ttl"] == 2764800
    body = {
        "default_lease_ttl": "30m",
        "max_lease_ttl": "2h",
        "description": "after",
        "listing_visibility": "unauth",
        "audit_non_hmac_request_keys": "a,b",
        "audit_non_hmac_response_keys": ["c"],
        "passthrough_request_headers": ["X-One"],
        "allowed_response_headers": ["X-Two"],
        "force_no_cache": True,
    }
    assert tune(third, "tuned/x", body).status == 204
    want = {**body, "default_lease_ttl": 1800, "max_lease_ttl": 7200,
            "audit_non_hmac_request_keys": ["a", "b"], "options": {"version": "1"}}
    for node in cluster.nodes:
        assert tune(node, "tuned/x").data == want
    assert tune(first, "tuned/x", {"default_lease_ttl": "system", "max_lease_ttl": 0}).status == 204
    assert tune(second, "tuned/x").data["default_lease_ttl"] == 2764800
    assert tune(second, "tuned/x").data["description"] == "after"
    for bad, text in (
        ({"default_lease_ttl": "soon"}, "default_lease_ttl"),
        ({"default_lease_ttl": "2h", "max_lease_ttl": "1h"}, "greater"),
        ({"default_lease_ttl": "800h"}, "greater"),
        ({"listing_visibility": "x"}, "listing_visibility"),
        ({"token_type": "service"}, "token_type"),
        ({"options": {"version": "7"}}, "version"),
    ):
        answer = tune(third, "tuned/x", bad)
        assert answer.status == 400 and text in errors(answer)
    for method in (lambda: tune(first, "tuned"), lambda: tune(first, "none/x", {"description": ""})):
        answer = method()
        assert answer.status == 400 and "No secret engine mount" in errors(answer)


def test_without_a_token_only_what_is_marked_is_listed(cluster):
    first = cluster.nodes[0]
    assert mount(first, "shown", {**KV1, "config": {"listing_visibility": "unauth"}}).status == 204
    assert mount(first, "hidden", {**KV1, "config": {"listing_visibility": "hidden"}}).status == 204
    for node in cluster.nodes:
        answer = node.call("GET", "/v1/sys/internal/ui/mounts", token="")
        assert answer.status == 200
        assert set(answer.data) == {"secret", "auth"}
        entry = answer.data["secret"]["shown/"]
        assert entry == {"type": "kv", "description": "", "options": {"version": "1"}}
        assert not {"hidden/", "secret/"} & set(answer.data["secret"])
        assert node.call("GET", "/v1/sys/internal/ui/mounts", token="hvs.none").status == 403
        full = node.call("GET", "/v1/sys/internal/ui/mounts").data
        assert {"hidden/", "secret/", "shown/", "sys/"} <= set(full["secret"])
        assert full["auth"]["token/"]["type"] == "token"


def test_the_preflight_of_clients(cluster):
    assert mount(cluster.nodes[0], "pre/flight", {"type": "kv-v2"}).status == 204
    for node in cluster.nodes:
        for path in ("pre/flight", "pre/flight/", "pre/flight/deep/in/it"):
            data = node.call("GET", f"/v1/sys/internal/ui/mounts/{path}").data
            assert (data["path"], data["options"]) == ("pre/flight/", {"version": "2"})
        for path in ("none", "pre", "pre/fligh"):
            answer = node.call("GET", f"/v1/sys/internal/ui/mounts/{path}")
            assert answer.status == 403
            assert f'access to path "{path}/"' in errors(answer)
        assert node.call("GET", "/v1/sys/internal/ui/mounts/secret", token="").status == 403


def test_moving_a_mount_moves_no_data(cluster):
    first, second, third = cluster.nodes
    assert mount(first, "from/here", {"type": "kv-v2"}).status == 204
    assert first.call("PUT", "/v1/from/here/data/a", {"data": {"x": 1}}).status == 200
    before = mounts(second, "/from/here").data
    answer = remount(second, "from/here", "/to/there/")
    assert answer.status == 200
    migration = answer.data["migration_id"]
    assert answer.json["migration_id"] == migration
    for node in cluster.nodes:
        assert node.call("GET", "/v1/to/there/data/a").data["data"] == {"x": 1}
        assert node.call("GET", "/v1/from/here/data/a").status == 404
        assert mounts(node, "/to/there").data == before
        status = node.call("GET", f"/v1/sys/remount/status/{migration}")
        assert status.data == {
            "migration_id": migration,
            "migration_info": {"source_mount": "from/here/", "target_mount": "to/there/",
                               "status": "success"},
        }
        assert node.call("GET", f"/v1/sys/remount/status/{uuid.uuid4()}").status == 404
    # to below where it stood, and back
    assert remount(third, "to/there", "to/there/below").status == 200
    assert remount(third, "to/there/below", "to").status == 200
    assert first.call("GET", "/v1/to/data/a").data["data"] == {"x": 1}


@pytest.mark.parametrize(
    "start, end, text",
    [
        ("none", "new", "no matching mount"),
        ("secret", "secret", "already in use"),
        ("secret", "kv", "already in use"),
        ("secret", "kv/below", "already in use"),
        ("", "new", "from"),
        ("secret", "", "to"),
        ("secret", "a/b/c/d/e/f/g/h/i", "segments"),
    ],
)
def test_bad_moves_are_400(cluster, start, end, text):
    for node in cluster.nodes:
        answer = remount(node, start, end)
        assert answer.status == 400 and text in errors(answer)
        assert node.call("POST", "/v1/sys/remount", {}).status == 400
    assert "secret/" in mounts(cluster.nodes[0]).data


def test_of_mounts_at_one_path_only_one_succeeds(cluster):
    statuses = []

    def create(node, path):
        statuses.append(mount(node, path).status)

    paths = ["race", "race/a", "race", "race/a/b", "race", "race/a"]
    threads = [
        threading.Thread(target=create, args=(cluster.nodes[i % 3], path))
        for i, path in enumerate(paths * 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(statuses)) == [204, 400]
    standing = [path for path in mounts(cluster.nodes[0]).data if path.startswith("race")]
    assert statuses.count(204) == len(standing) == 1


def test_a_write_and_the_end_of_its_mount_do_not_cross(cluster):
    """What was acknowledged before the end is gone with it; nothing lands in the mount that follows."""
    first, second, third = cluster.nodes
    assert mount(first, "brief").status == 204
    stop = threading.Event()
    seen = []

    def write():
        number = 0
        while not stop.is_set():
            seen.append(second.call("PUT", f"/v1/brief/k{number}", {"n": number}).status)
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(5):
            assert unmount(third, "brief").status == 204
            assert mount(third, "brief", {"type": "kv-v2"}).status == 204
            assert third.call("LIST", "/v1/brief/metadata").status == 404
            assert unmount(third, "brief").status == 204
            assert mount(third, "brief").status == 204
    finally:
        stop.set()
        thread.join()
    assert set(seen) <= {204, 404}
    assert unmount(first, "brief").status == 204


def test_raising_the_version_keeps_what_was_written(cluster):
    first, second, third = cluster.nodes
    assert mount(first, "raise").status == 204
    assert first.call("PUT", "/v1/raise/a/b", b'{"n":9007199254740993}').status == 204
    assert first.call("PUT", "/v1/raise/long", {"x": "y" * 100000}).status == 204
    answer = tune(second, "raise", {"options": {"version": "2"}})
    assert answer.status == 200 and answer.json["warnings"]
    for node in cluster.nodes:
        assert b'{"n":9007199254740993}' in node.call("GET", "/v1/raise/data/a/b").body
        assert node.call("LIST", "/v1/raise/metadata").data == {"keys": ["a/", "long"]}
    body = {"data": {"n": 2}, "options": {"cas": 1}}
    assert third.call("PUT", "/v1/raise/data/long", body).data["version"] == 2
    old = first.call("GET", "/v1/raise/data/long?version=1").data
    assert old["data"] == {"x": "y" * 100000} and old["metadata"]["created_time"] > "2020"
    answer = tune(third, "raise", {"options": {"version": 1}})
    assert answer.status == 400 and "downgrade" in errors(answer)


def test_unmounting_ends_a_large_mount_at_once(cluster):
    node = cluster.active()
    cluster.mount("bulk", {"version": "1"})

    def write(part):
        connection = node.connect()
        for number in part:
            headers = {"X-Secrets-Token": cluster.token}
            connection.request("PUT", f"/v1/bulk/{number}", '{"n":1}', headers)
            response = connection.getresponse()
            assert response.status == 204, response.read()
            response.read()
        connection.close()

    threads = [threading.Thread(target=write, args=(range(i, 4000, 4),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(node.call("LIST", "/v1/bulk").data["keys"]) == 4000
    assert unmount(node, "bulk").status == 204
    cluster.mount("bulk", {"version": "1"})
    for each in cluster.nodes:
        assert each.call("LIST", "/v1/bulk").status == 404
    cluster.await_equal_roots()


def test_auth_methods_are_listed_read_and_tuned(cluster):
    first, second, third = cluster.nodes
    answer = first.call("GET", "/v1/sys/auth")
    assert set(answer.data) == {"token/"}
    assert answer.json["token/"] == answer.data["token/"]
    assert second.call("GET", "/v1/sys/auth/token").data == answer.data["token/"]
    answer = third.call("GET", "/v1/sys/auth/token/tune")
    assert answer.data["default_lease_ttl"] == answer.data["max_lease_ttl"] == 2764800
    body = {"max_lease_ttl": "1000h", "default_lease_ttl": "900h", "listing_visibility": "unauth"}
    assert first.call("POST", "/v1/sys/auth/token/tune", body).status == 204
    data = second.call("GET", "/v1/sys/auth/token/tune").data
    assert (data["max_lease_ttl"], data["default_lease_ttl"]) == (3600000, 3240000)
    assert data["listing_visibility"] == "unauth"
    body = {"max_lease_ttl": 0, "default_lease_ttl": 0, "listing_visibility": "hidden"}
    assert first.call("POST", "/v1/sys/auth/token/tune", body).status == 204
    answer = first.call("POST", "/v1/sys/auth/token/tune", {"token_type": "batch"})
    assert answer.status == 400 and "'token_type' cannot be set" in errors(answer)
    for path in ("none", "none/tune", "auth/token"):
        answer = third.call("GET", f"/v1/sys/auth/{path}")
        assert answer.status == 400 and "No auth engine mount at" in errors(answer)
    assert mounts(first, "/auth/token").status == 400


def test_only_known_auth_methods_are_enabled_and_the_token_method_stays(cluster):
    first, second, third = cluster.nodes
    for kind, why in (("unknown", "plugin not found in the catalog: unknown"),
                      ("kv", "plugin not found in the catalog: kv"),
                      ("token", "token credential backend cannot be instantiated")):
        for node in cluster.nodes:
            answer = node.call("POST", "/v1/sys/auth/some", {"type": kind})
            assert answer.status == 400 and why in errors(answer)
    assert second.call("POST", "/v1/sys/auth/some", {}).status == 400
    assert third.call("DELETE", "/v1/sys/auth/some").status == 204
    answer = first.call("DELETE", "/v1/sys/auth/token")
    assert answer.status == 400 and "token credential backend cannot be disabled" in errors(answer)
    assert set(first.call("GET", "/v1/sys/auth").data) == {"token/"}
    token = cluster.limited('path "sys/auth/*" { capabilities = ["create", "update", "delete"] }')
    for method, body in (("POST", {"type": "unknown"}), ("DELETE", None)):
        assert second.call(method, "/v1/sys/auth/some", body, token=token).status == 403


def test_a_client_sees_the_mounts_it_can_use(cluster):
    token = cluster.limited('path "secret/data/mine/*" { capabilities = ["read"] }')
    for node in cluster.nodes:
        seen = node.call("GET", "/v1/sys/internal/ui/mounts", token=token).data
        assert (set(seen["secret"]), set(seen["auth"])) == ({"secret/"}, set())
        answer = node.call("GET", "/v1/sys/internal/ui/mounts/secret/mine", token=token)
        assert answer.status == 200 and answer.data["path"] == "secret/"
        for path in ("kv/x", "none"):
            answer = node.call("GET", f"/v1/sys/internal/ui/mounts/{path}", token=token)
            assert answer.status == 403 and "preflight" in errors(answer)


def test_some_rows_need_sudo(cluster):
    rule = """path "sys/*" { capabilities = ["create", "read", "update", "delete", "list"] }
path "sys/remount/status/*" { capabilities = ["read"] }"""
    token = cluster.limited(rule)
    node = cluster.nodes[1]
    for method, path, status in (
        ("GET", "auth", 200),
        ("GET", "auth/token", 403),
        ("GET", "auth/token/tune", 403),
        ("POST", "auth/token/tune", 403),
        ("POST", "remount", 403),
        ("GET", "mounts", 200),
        ("GET", "mounts/secret", 200),
        ("GET", "mounts/secret/tune", 200),
        ("POST", "mounts/secret/tune", 204),
        ("GET", f"remount/status/{uuid.uuid4()}", 404),
    ):
        answer = node.call(method, f"/v1/sys/{path}", {}, token=token)
        assert answer.status == status, (method, path, answer.body)


@pytest.mark.parametrize("token", ["", "hvs.wrong", "powerless"])
def test_without_a_good_token_nothing_is_answered(cluster, token):
    if token == "powerless":
        token = cluster.limited('path "kv/elsewhere" { capabilities = ["read"] }')
    rows = [
        ("GET", "mounts"), ("GET", "mounts/secret"), ("POST", "mounts/x"), ("DELETE", "mounts/secret"),
        ("GET", "mounts/secret/tune"), ("POST", "mounts/secret/tune"), ("POST", "remount"),
        ("GET", "remount/status/x"), ("GET", "auth"), ("GET", "auth/token"),
        ("GET", "auth/token/tune"), ("POST", "auth/token/tune"),
        ("GET", "internal/ui/mounts/secret"),
    ]
    for node in cluster.nodes:
        for method, path in rows:
            assert node.call(method, f"/v1/sys/{path}", {}, token=token).status == 403, path
    assert "secret/" in mounts(cluster.nodes[0]).data
