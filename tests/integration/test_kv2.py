"""Key/value version 2 at secret/, through any node of a real cluster."""

import json
import threading
import time

import pytest

PATCH = {"Content-Type": "application/merge-patch+json"}
NO_ERRORS = {"errors": []}


def put(node, path, data, **options):
    body = {"data": data}
    if options:
        body["options"] = options
    return node.call("POST", f"/v1/secret/data/{path}", body)


def get(node, path, query=""):
    return node.call("GET", f"/v1/secret/data/{path}{query}")


def metadata(node, path, body=None):
    if body is None:
        return node.call("GET", f"/v1/secret/metadata/{path}")
    return node.call("POST", f"/v1/secret/metadata/{path}", body)


def patch(node, path, body):
    return node.call("PATCH", f"/v1/secret/{path}", body, headers=PATCH)


def errors(answer):
    return " ".join(answer.json["errors"])


def test_initialisation_mounts_it_at_secret(cluster):
    for node in cluster.nodes:
        info = node.call("GET", "/v1/sys/internal/ui/mounts/secret/any/path").data
        assert (info["path"], info["type"], info["options"]) == ("secret/", "kv", {"version": "2"})


def test_a_version_written_through_any_node_is_read_through_every_node(cluster):
    for number, writer in enumerate(cluster.nodes, 1):
        answer = put(writer, "any", {"n": number})
        assert answer.status == 200
        assert answer.data["version"] == number
        assert answer.data["deletion_time"] == ""
        assert answer.data["destroyed"] is False and answer.data["custom_metadata"] is None
        for reader in cluster.nodes:
            read = get(reader, "any")
            assert read.status == 200
            assert read.data == {"data": {"n": number}, "metadata": answer.data}
    for number in (1, 2, 3):
        assert get(cluster.nodes[number - 1], "any", f"?version={number}").data["data"] == {"n": number}


def test_values_keep_their_types_and_their_digits(cluster):
    text = (
        '{"data":{"big":9007199254740993,"huge":123456789012345678901234567890,"f":1.10,"e":1E400,'
        '"text":"k\u00e4se \\u0000 <&>","list":[1,"two",null,true,{"a":[]}],"null":null,"o":{}}}'
    )
    first, second, third = cluster.nodes
    assert first.call("POST", "/v1/secret/data/types", text.encode()).status == 200
    body = second.call("GET", "/v1/secret/data/types").body.decode()
    assert '"big":9007199254740993,"huge":123456789012345678901234567890,"f":1.10,"e":1E400' in body
    assert json.loads(body)["data"]["data"]["text"] == "k\u00e4se \u0000 <&>"
    assert patch(third, "data/types", '{"data":{"more":18446744073709551617}}').status == 200
    body = first.call("GET", "/v1/secret/data/types").body.decode()
    assert '"big":9007199254740993,"huge":123456789012345678901234567890' in body
    assert '"more":18446744073709551617' in body


def test_a_deep_value_is_kept_and_a_deeper_one_refused(cluster):
    deep = '{"data":{"x":' + "[" * 150 + "]" * 150 + "}}"
    assert cluster.nodes[0].call("PUT", "/v1/secret/data/deep", deep).status == 200
    for node in cluster.nodes:
        assert "[" * 150 in get(node, "deep").body.decode()
        assert node.call("GET", "/v1/secret/subkeys/deep").data["subkeys"] == {"x": None}
    nested = '{"data":' + '{"x":' * 150 + "1" + "}" * 150 + "}"
    assert cluster.nodes[0].call("PUT", "/v1/secret/data/nested", nested).status == 200
    assert cluster.nodes[1].call("GET", "/v1/secret/subkeys/nested").status == 200
    assert patch(cluster.nodes[2], "data/nested", nested).status == 200
    for many in (300, 100000):
        answer = cluster.nodes[0].call(
            "PUT", "/v1/secret/data/deep", '{"data":{"x":' + "[" * many + "]" * many + "}}"
        )
        assert answer.status == 400 and errors(answer)


def test_check_and_set_is_exact_through_all_nodes(cluster):
    """Writers that each name the version they follow: every number is given once, none is lost."""
    rounds, path = 12, "cas"
    given, faults = [], []

    def write(node, name):
        done = 0
        deadline = time.monotonic() + 120
        while done < rounds and time.monotonic() < deadline:
            read = get(node, path)
            now = read.data["metadata"]["version"] if read.status == 200 else 0
            log = read.data["data"]["log"] if read.status == 200 else []
            answer = put(node, path, {"log": [*log, f"{name}{done}"]}, cas=now)
            if answer.status == 200:
                given.append(answer.data["version"])
                done += 1
            elif answer.status != 400 or "did not match" not in errors(answer):
                faults.append(answer.body)
                return
        if done < rounds:
            faults.append("too slow")

    threads = [
        threading.Thread(target=write, args=(node, f"{node.name}-{i}."))
        for node in cluster.nodes
        for i in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults
    total = rounds * len(threads)
    assert sorted(given) == list(range(1, total + 1))
    log = get(cluster.nodes[0], path).data["data"]["log"]
    assert len(log) == len(set(log)) == total


def test_check_and_set_0_makes_a_secret_once(cluster):
    wins = []

    def write(node):
        if put(node, "once", {"by": node.name}, cas=0).status == 200:
            wins.append(node.name)

    threads = [threading.Thread(target=write, args=(n,)) for n in cluster.nodes * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1
    assert get(cluster.nodes[0], "once").data["data"] == {"by": wins[0]}


@pytest.mark.parametrize(
    "body, text",
    [
        ({}, "no data provided"),
        ("", "no data provided"),
        ({"data": None}, "no data provided"),
        ({"options": {"cas": 0}}, "no data provided"),
        ({"data": "text"}, "an object is expected"),
        ({"data": [1]}, "an object is expected"),
        ({"data": {}, "options": 1}, "options"),
        ({"data": {}, "options": {"cas": "x"}}, "error parsing check-and-set"),
        ({"data": {}, "options": {"cas": -1}}, "error parsing check-and-set"),
        ({"data": {}, "options": {"cas": 7}}, "did not match the current version"),
        ("[1]", "object"),
        ('{"data":', ""),
        (b'{"data":{"a":"\xff"}}', ""),
    ],
)
def test_bad_writes_are_400_and_write_nothing(cluster, body, text):
    for node in cluster.nodes:
        answer = node.call("PUT", "/v1/secret/data/bad", body)
        assert answer.status == 400
        assert text in errors(answer)
        answer = patch(node, "data/bad", body)
        assert answer.status in (400, 404), answer.body
        assert get(node, "bad").json == NO_ERRORS


@pytest.mark.parametrize(
    "method, path, status",
    [
        ("GET", "data/../../sys/mounts", 400),
        ("GET", "data/%2e%2e/x", 400),
        ("PUT", "data/a%00b", 400),
        ("PUT", "data/a%0ab", 400),
        ("PUT", "data/%ff", 400),
        ("PUT", "data/%zz", 400),
        ("PUT", "data/folder/", 400),
        ("GET", "data/none", 404),
        ("GET", "data/none?version=1", 404),
        ("GET", "data/any?version=99", 404),
        ("GET", "data/any?version=x", 400),
        ("GET", "data/any?version=-1", 400),
        ("GET", "metadata/none", 404),
        ("GET", "subkeys/none", 404),
        ("GET", "subkeys/any?depth=x", 400),
        ("LIST", "metadata/none", 404),
        ("LIST", "metadata/?limit=x", 400),
        ("DELETE", "data/none", 204),
        ("DELETE", "metadata/none", 204),
        ("LIST", "data/any", 405),
        ("DELETE", "config", 405),
        ("GET", "destroy/any", 405),
        ("PUT", "data/" + "p" * 4000, 400),
    ],
)
def test_requests_that_find_nothing_to_do(cluster, method, path, status):
    put(cluster.nodes[0], "any", {"x": 1})
    for node in cluster.nodes:
        answer = node.call(method, f"/v1/secret/{path}", {"data": {}} if method == "PUT" else None)
        assert answer.status == status, answer.body
        if status == 404:
            assert answer.json == NO_ERRORS


def test_an_encoded_slash_is_a_slash(cluster):
    assert put(cluster.nodes[0], "enc%2Foded/x%20y", {"x": 1}).status == 200
    assert get(cluster.nodes[1], "enc/oded/x%20y").data["data"] == {"x": 1}
    assert cluster.nodes[2].call("LIST", "/v1/secret/metadata/enc").data == {"keys": ["oded/"]}


def test_a_patch_merges_and_needs_its_type(cluster):
    first, second, third = cluster.nodes
    assert patch(first, "data/p", {"data": {"a": 1}}).json == NO_ERRORS
    put(first, "p", {"a": 1, "o": {"x": 1, "y": 2}})
    answer = patch(second, "data/p", {"data": {"a": None, "o": {"y": None, "z": 3}}, "options": {"cas": 1}})
    assert answer.status == 200 and answer.data["version"] == 2
    assert get(third, "p").data["data"] == {"o": {"x": 1, "z": 3}}
    assert "did not match" in errors(patch(third, "data/p", {"data": {}, "options": {"cas": 1}}))
    body = {"data": {}}
    url = "/v1/secret/data/p"
    assert first.call("PATCH", url, body).status == 400
    assert first.call("PATCH", url, body, headers={"Content-Type": "application/json"}).status == 415
    first.call("DELETE", url)
    gone = patch(second, "data/p", {"data": {"b": 1}})
    assert gone.status == 404 and gone.data["version"] == 2 and gone.data["deletion_time"]
    assert get(third, "p").data["metadata"]["version"] == 2


def test_what_was_deleted_is_404_with_its_metadata_until_undeleted(cluster):
    first, second, third = cluster.nodes
    put(first, "del", {"x": 1})
    put(first, "del", {"x": 2})
    assert second.call("DELETE", "/v1/secret/data/del").status == 204
    for node in cluster.nodes:
        answer = get(node, "del")
        assert answer.status == 404
        assert answer.data["data"] is None
        assert answer.data["metadata"]["version"] == 2
        assert answer.data["metadata"]["deletion_time"].endswith("Z")
        assert answer.data["metadata"]["destroyed"] is False
        assert set(answer.json) >= {"request_id", "lease_id", "data", "warnings", "auth"}
        keys = node.call("GET", "/v1/secret/subkeys/del")
        assert keys.status == 404 and keys.data["subkeys"] is None
        assert get(node, "del", "?version=1").status == 200
    assert third.call("PUT", "/v1/secret/undelete/del", {"versions": [2]}).status == 204
    assert get(first, "del").data["data"] == {"x": 2}
    assert first.call("POST", "/v1/secret/delete/del", {"versions": ["1", 2, 7]}).status == 204
    assert [get(second, "del", f"?version={n}").status for n in (1, 2)] == [404, 404]
    # deleted before, it stays what it is
    assert put(third, "del", {}, cas=0).status == 400
    assert put(third, "del", {"x": 3}, cas=2).status == 200


def test_what_was_destroyed_is_gone(cluster):
    first, second, third = cluster.nodes
    put(first, "des", {"planted": "short"})
    put(first, "des", {"planted": "long" * 1000})
    assert second.call("POST", "/v1/secret/destroy/des", {"versions": [1, 2]}).status == 204
    assert second.call("POST", "/v1/secret/undelete/des", {"versions": [1, 2]}).status == 204
    for number in (1, 2):
        answer = get(third, "des", f"?version={number}")
        assert answer.status == 404
        assert answer.data["data"] is None and answer.data["metadata"]["destroyed"] is True
    versions = metadata(third, "des").data["versions"]
    assert [versions[n]["destroyed"] for n in ("1", "2")] == [True, True]


@pytest.mark.parametrize("verb", ["delete", "undelete", "destroy"])
def test_versions_must_be_named(cluster, verb):
    node = cluster.nodes[0]
    for body in ({}, {"versions": []}, {"versions": ["x"]}, {"versions": [-1]}, {"versions": {}}):
        answer = node.call("POST", f"/v1/secret/{verb}/any", body)
        assert answer.status == 400 and errors(answer)
    assert node.call("POST", f"/v1/secret/{verb}/none", {"versions": [1]}).status == 204


def test_old_versions_are_dropped_on_write(cluster):
    first, second, third = cluster.nodes
    sizes = [10, 2000, 300, 5, 1500, 700, 700, 10, 10, 3000, 10, 400, 20]
    for number, size in enumerate(sizes, 1):
        assert put(cluster.nodes[number % 3], "many", {"n": number, "pad": "x" * size}).status == 200
    data = metadata(second, "many").data
    assert (data["current_version"], data["oldest_version"]) == (13, 4)
    assert sorted(map(int, data["versions"])) == list(range(4, 14))
    assert get(third, "many", "?version=3").json == NO_ERRORS
    for number in range(4, 14):
        read = get(first, "many", f"?version={number}").data["data"]
        assert read == {"n": number, "pad": "x" * sizes[number - 1]}
    assert metadata(first, "many", {"max_versions": 2}).status == 204
    # the larger of the mount's and the secret's own: the mount says nothing
    put(second, "many", {"n": 14})
    assert sorted(map(int, metadata(third, "many").data["versions"])) == [13, 14]


def test_versions_end_by_age_on_every_node(cluster):
    first, second, third = cluster.nodes
    assert metadata(first, "age", {"delete_version_after": "2s"}).status == 204
    assert metadata(second, "age").data["delete_version_after"] == "2s"
    answer = put(third, "age", {"x": 1})
    assert answer.data["deletion_time"] > answer.data["created_time"]
    deadline = time.monotonic() + 120
    pending = set(cluster.nodes)
    while pending and time.monotonic() < deadline:
        for node in list(pending):
            read = get(node, "age")
            assert read.data["metadata"]["version"] == 1
            if read.status == 404:
                assert read.data["data"] is None
                pending.discard(node)
                # what one node has seen end, no node shows any more
                assert all(get(other, "age").status == 404 for other in cluster.nodes)
        time.sleep(0.05)
    assert not pending
    assert first.call("POST", "/v1/secret/undelete/age", {"versions": [1]}).status == 204
    assert get(second, "age").data["metadata"]["deletion_time"] > answer.data["deletion_time"]
    answer = metadata(first, "age", {"delete_version_after": "-1s"})
    assert answer.status == 400


def test_the_mounts_settings_hold_for_every_secret(cluster):
    cluster.mount("conf", {"version": "2"})
    first, second, third = cluster.nodes

    def config(body=None):
        if body is None:
            return third.call("GET", "/v1/conf/config").data
        return first.call("POST", "/v1/conf/config", body).status

    assert config() == {"max_versions": 0, "cas_required": False, "metadata_cas_required": False,
                        "delete_version_after": "0s"}
    assert config({"max_versions": 3}) == 204
    assert config({"cas_required": True}) == 204
    assert config({"delete_version_after": "1h30m"}) == 204
    assert config() == {"max_versions": 3, "cas_required": True, "metadata_cas_required": False,
                        "delete_version_after": "1h30m0s"}
    assert config({}) == 204
    for bad in ({"max_versions": -1}, {"max_versions": 70000}, {"max_versions": "x"},
                {"cas_required": "x"}, {"delete_version_after": "soon"}):
        assert config(bad) == 400
    answer = first.call("POST", "/v1/conf/data/a", {"data": {}})
    assert answer.status == 400 and "check-and-set parameter required" in errors(answer)
    for number in range(5):
        body = {"data": {"n": number}, "options": {"cas": number}}
        answer = second.call("POST", "/v1/conf/data/a", body)
        assert answer.status == 200 and answer.data["deletion_time"] != ""
    assert sorted(third.call("GET", "/v1/conf/metadata/a").data["versions"]) == ["3", "4", "5"]
    answer = first.call("POST", "/v1/conf/metadata/a", {"cas_required": False, "max_versions": 4})
    assert answer.status == 200 and "mandated" in answer.json["warnings"][0]
    assert config({"delete_version_after": "-1s"}) == 204
    assert config()["delete_version_after"] == "-1s"
    body = {"data": {}, "options": {"cas": 5}}
    assert second.call("POST", "/v1/conf/data/a", body).data["deletion_time"] == ""
    assert sorted(third.call("GET", "/v1/conf/metadata/a").data["versions"]) == ["3", "4", "5", "6"]


def test_metadata_is_written_patched_and_removed(cluster):
    first, second, third = cluster.nodes
    assert patch(first, "metadata/meta", {"max_versions": 1}).json == NO_ERRORS
    body = {"max_versions": 5, "cas_required": True, "custom_metadata": {"owner": "me", "n": 7}}
    assert metadata(first, "meta", body).status == 204
    data = metadata(second, "meta").data
    assert (data["current_version"], data["oldest_version"], data["versions"]) == (0, 0, {})
    assert data["custom_metadata"] == {"owner": "me", "n": "7"}
    assert (data["max_versions"], data["cas_required"]) == (5, True)
    assert get(third, "meta").json == NO_ERRORS
    assert put(third, "meta", {"a": 1}, cas=0).data["custom_metadata"] == {"owner": "me", "n": "7"}
    change = {"custom_metadata": {"n": None, "team": "x"}, "cas_required": None, "max_versions": None}
    assert patch(second, "metadata/meta", change).status == 204
    data = metadata(first, "meta").data
    assert data["custom_metadata"] == {"owner": "me", "team": "x"}
    assert (data["max_versions"], data["cas_required"]) == (0, False)
    assert metadata(first, "meta", {"custom_metadata": {"only": "this"}}).status == 204
    assert metadata(third, "meta").data["custom_metadata"] == {"only": "this"}
    assert metadata(third, "meta").data["updated_time"] > data["created_time"]
    put(first, "meta", {"long": "x" * 5000})
    assert second.call("DELETE", "/v1/secret/metadata/meta").status == 204
    for node in cluster.nodes:
        assert metadata(node, "meta").json == NO_ERRORS
        assert get(node, "meta", "?version=1").json == NO_ERRORS
    assert put(third, "meta", {}, cas=0).data["version"] == 1


@pytest.mark.parametrize(
    "custom",
    [
        {f"k{n}": "v" for n in range(65)},
        {"k" * 129: "v"},
        {"k": "v" * 513},
        {"": "v"},
        {"k": ""},
        {"k": "line\nbreak"},
        {"k": {"not": "a string"}},
        [1],
        "text",
    ],
)
def test_custom_metadata_is_bounded(cluster, custom):
    for node in cluster.nodes:
        answer = metadata(node, "custom", {"custom_metadata": custom})
        assert answer.status == 400
        assert "custom_metadata validation failed" in errors(answer)
        assert metadata(node, "custom").status == 404
    fits = {f"{n:0128}": "v" * 512 for n in range(64)}
    assert metadata(cluster.nodes[0], "bounds", {"custom_metadata": fits}).status == 204
    assert metadata(cluster.nodes[1], "bounds").data["custom_metadata"] == fits


def test_a_detailed_listing_shows_the_settings_of_each_secret(cluster):
    first, second, third = cluster.nodes
    assert put(first, "many/a", {"x": 1}).status == 200
    assert put(first, "many/b/c", {}).status == 200
    settings = {"custom_metadata": {"k": "v"}, "metadata_cas": 0}
    assert metadata(second, "many/a", settings).status == 204
    assert metadata(second, "many/a", settings).status == 400  # it was written meanwhile
    data = third.call("LIST", "/v1/secret/detailed-metadata/many").data
    assert data["keys"] == ["a", "b/"] and data["key_info"]["b/"] == {}
    assert data["key_info"]["a"] == metadata(third, "many/a").data
    assert data["key_info"]["a"]["current_metadata_version"] == 1
    data = third.call("SCAN", "/v1/secret/detailed-metadata/many").data
    assert data["keys"] == ["a", "b/c"] and data["key_info"]["b/c"]["current_version"] == 1


def test_subkeys_show_no_value(cluster):
    value = {"s": "planted", "o": {"p": {"q": "planted"}, "e": {}}, "l": [{"x": "planted"}]}
    put(cluster.nodes[0], "sub", value)
    put(cluster.nodes[0], "sub", {"other": 1})
    for node in cluster.nodes:
        answer = node.call("GET", "/v1/secret/subkeys/sub?version=1")
        assert answer.data["subkeys"] == {"s": None, "o": {"p": {"q": None}, "e": None}, "l": None}
        assert answer.data["metadata"]["version"] == 1
        assert b"planted" not in answer.body
        flat = node.call("GET", "/v1/secret/subkeys/sub?version=1&depth=1").data["subkeys"]
        assert flat == {"s": None, "o": None, "l": None}
        assert node.call("GET", "/v1/secret/subkeys/sub").data["subkeys"] == {"other": None}


def test_a_wrong_prefix_is_told_the_right_one(cluster):
    for node in cluster.nodes:
        for method, body in (("GET", None), ("PUT", {"a": 1}), ("DELETE", None)):
            answer = node.call(method, "/v1/secret/any", body)
            assert answer.status == 404
            assert "secret/data/any" in answer.json["warnings"][0]
        answer = node.call("LIST", "/v1/secret/folder")
        assert answer.status == 404 and "secret/metadata/folder" in answer.json["warnings"][0]


def test_a_value_above_one_mebibyte_is_413(cluster):
    for node in cluster.nodes:
        answer = put(node, "large", {"x": "y" * (1 << 20)})
        assert answer.status == 413 and errors(answer)
        assert get(node, "large").status == 404
    fits = {"x": "y" * ((1 << 20) - 100)}
    assert put(cluster.nodes[1], "large", fits).status == 200
    assert metadata(cluster.nodes[0], "large", {"custom_metadata": {"k": "v" * 512}}).status == 204
    assert get(cluster.nodes[2], "large").data["data"] == fits
    assert patch(cluster.nodes[0], "data/large", {"data": {"more": "z" * 200}}).status == 413
    assert get(cluster.nodes[2], "large").data["metadata"]["version"] == 1


def test_a_huge_listing_comes_whole_or_in_pages(cluster):
    names = [f"key{n:05}" for n in range(10000)]

    def write(node, part):
        connection = node.connect()
        for name in part:
            headers = {"X-Secrets-Token": cluster.token}
            connection.request("PUT", f"/v1/secret/data/huge/{name}", '{"data":{}}', headers)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            response.read()
        connection.close()

    active = cluster.active()
    threads = [threading.Thread(target=write, args=(active, names[i::8])) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for node in cluster.nodes:
        answer = node.call("LIST", "/v1/secret/metadata/huge")
        assert answer.status == 200 and answer.data["keys"] == names
    pages, after = [], ""
    while True:
        query = f"?list=true&limit=3000&after={after}"
        answer = cluster.nodes[0].call("GET", f"/v1/secret/metadata/huge{query}")
        if answer.status == 404:
            break
        assert len(answer.data["keys"]) <= 3000
        pages += answer.data["keys"]
        after = pages[-1]
    assert pages == names


ELSEWHERE = 'path "kv/elsewhere" { capabilities = ["read"] }'


def test_create_and_update_are_told_apart(cluster):
    first, second, third = cluster.nodes
    rule = 'path "secret/data/caps/*" { capabilities = ["%s"] }'
    creator, updater = cluster.limited(rule % "create"), cluster.limited(rule % "update")
    url = "/v1/secret/data/caps/a"
    assert first.call("PUT", url, {"data": {"n": 1}}, token=updater).status == 403
    assert second.call("PUT", url, {"data": {"n": 1}}, token=creator).status == 200
    assert third.call("PUT", url, {"data": {"n": 2}}, token=creator).status == 403
    assert first.call("PUT", url, {"data": {"n": 2}}, token=updater).status == 200
    # a deleted secret still exists; one without metadata does not
    assert second.call("DELETE", url).status == 204
    assert third.call("PUT", url, {"data": {}}, token=creator).status == 403
    assert first.call("DELETE", url.replace("data", "metadata")).status == 204
    assert second.call("PUT", url, {"data": {}}, token=updater).status == 403
    assert third.call("PUT", url, {"data": {}}, token=creator).status == 200
    for token in (creator, updater):
        assert first.call("GET", url, token=token).status == 403
        assert first.call("GET", "/v1/secret/metadata/caps/a", token=token).status == 403


@pytest.mark.parametrize("token", ["", "hvs.wrong", "powerless"])
def test_without_a_good_token_nothing_is_answered(cluster, token):
    if token == "powerless":
        token = cluster.limited(ELSEWHERE)
    rows = [
        ("GET", "config"), ("POST", "config"), ("GET", "data/any"), ("POST", "data/any"),
        ("PATCH", "data/any"), ("DELETE", "data/any"), ("POST", "delete/any"),
        ("POST", "undelete/any"), ("POST", "destroy/any"), ("GET", "subkeys/any"),
        ("LIST", "metadata/any"), ("LIST", "detailed-metadata/any"), ("GET", "metadata/any"),
        ("POST", "metadata/any"), ("PATCH", "metadata/any"), ("DELETE", "metadata/any"), ("GET", "any"),
    ]
    for node in cluster.nodes:
        for method, path in rows:
            answer = node.call(method, f"/v1/secret/{path}", {}, token=token, headers=PATCH)
            assert answer.status == 403, (method, path, answer.body)
