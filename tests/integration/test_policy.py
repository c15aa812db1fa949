"""What tokens may do with their policies, on every node."""

import base64
import concurrent.futures
import json

import pytest

BOTH = 'path "%s" { capabilities = ["create", "read", "update", "delete", "list"] }\n'


def put(cluster, name, text, node=None, status=204):
    node = node or cluster.nodes[0]
    answer = node.call("PUT", f"/v1/sys/policies/acl/{name}", {"policy": text})
    assert answer.status == status, answer.body
    return answer


def token(cluster, *policies):
    body = {"policies": list(policies), "ttl": "1h"}
    answer = cluster.nodes[0].call("POST", "/v1/auth/token/create", body)
    assert answer.status == 200, answer.body
    return answer.json["auth"]["client_token"]


def errors(answer):
    return " ".join(answer.json["errors"])


def denied(answer):
    return answer.status == 403 and "permission denied" in errors(answer)


def test_a_policy_is_written_read_listed_and_deleted_through_any_node(cluster):
    text = BOTH % "kv/lifecycle/*"
    for i, node in enumerate(cluster.nodes):
        name = f"Life-{i}"
        put(cluster, name, text, node)
        for other in cluster.nodes:
            answer = other.call("GET", f"/v1/sys/policies/acl/{name}")
            shown = {"name": name.lower(), "policy": text, "version": 1, "cas_required": False}
            assert answer.data == {**shown, "modified": answer.data["modified"]}
            answer = other.call("GET", f"/v1/sys/policy/{name}")
            assert answer.json["name"] == name.lower() and answer.data["rules"] == text
            for method, path in (
                ("LIST", "/v1/sys/policies/acl"),
                ("GET", "/v1/sys/policies/acl?list=true"),
                ("GET", "/v1/sys/policy"),
                ("LIST", "/v1/sys/policy"),
            ):
                keys = other.call(method, path).data["keys"]
                assert keys == sorted(keys)
                assert {"root", "default", name.lower()} <= set(keys)
                assert "response-wrapping" not in keys
        assert node.call("DELETE", f"/v1/sys/policies/acl/{name}").status == 204
        for other in cluster.nodes:
            answer = other.call("GET", f"/v1/sys/policies/acl/{name}")
            assert answer.status == 404 and answer.json == {"errors": []}
        assert node.call("DELETE", f"/v1/sys/policy/{name}").status == 204


def test_a_patch_keeps_what_it_does_not_name_on_every_node(cluster):
    text = BOTH % "kv/patched/*"
    put(cluster, "patched", text)
    for i, node in enumerate(cluster.nodes):
        body = {"cas_required": True, "cas": i + 1}
        answer = node.call("PATCH", "/v1/sys/policies/acl/patched", body,
                           headers={"Content-Type": "application/merge-patch+json"})
        assert answer.status == 204, answer.body
        for other in cluster.nodes:
            data = other.call("GET", "/v1/sys/policies/acl/patched").data
            assert data["policy"] == text and data["cas_required"] is True
            assert data["version"] == i + 2


def test_base64_json_and_the_older_field_are_accepted(cluster):
    node = cluster.nodes[1]
    text = json.dumps({"path": {"kv/*": {"capabilities": ["read"]}}})
    put(cluster, "forms", text)
    assert node.call("GET", "/v1/sys/policies/acl/forms").data["policy"] == text
    put(cluster, "forms", base64.b64encode(text.encode()).decode())
    assert node.call("GET", "/v1/sys/policies/acl/forms").data["policy"] == text
    assert node.call("PUT", "/v1/sys/policy/forms", {"rules": text}).status == 204


@pytest.mark.parametrize(
    "text, part",
    [
        ("", "not supplied or empty"),
        ('path "a" {\n  capabilities = ["reed"]\n}', 'line 2: path "a": invalid capability "reed"'),
        ('path "a" {\n  capabilites = []\n}', 'line 2: path "a": invalid key "capabilites"'),
        ('paths "a" {}', 'line 1: invalid key "paths"'),
        ('path "a/+*" {}', '"+*"'),
        ('path "a" {', "line 1"),
        ('path "a/{{x" {}', "template"),
        ('path "a" { policy = "all" }', "invalid policy"),
        ('path "a" { min_wrapping_ttl = 5\n max_wrapping_ttl = 1 }', "max_wrapping_ttl"),
        ('path "a" { allowed_parameters = { "x" = ' + "[" * 500 + "]" * 500 + "} }", "deeper"),
        ('{"path":{"a":{"capabilities":["read"]', "line 1"),
    ],
)
def test_what_is_wrong_with_a_policy_is_told(cluster, text, part):
    for node in cluster.nodes:
        answer = put(cluster, "wrong", text, node, 400)
        assert part in errors(answer)
        assert node.call("GET", "/v1/sys/policies/acl/wrong").status == 404


def test_a_megabyte_of_policy_is_413(cluster):
    line = BOTH % "kv/*"
    for node in cluster.nodes:
        answer = put(cluster, "long", line * (2**20 // len(line) + 1), node, 413)
        assert "longer than" in errors(answer)
        put(cluster, "long", "#" * (2**20), node, 413)
        assert node.call("GET", "/v1/sys/policies/acl/long").status == 404
    put(cluster, "long", line * (2**18 // len(line)))
    assert cluster.nodes[1].call("DELETE", "/v1/sys/policies/acl/long").status == 204


@pytest.mark.parametrize("name", ["root", "Root", "response-wrapping"])
def test_reserved_policies_cannot_be_changed(cluster, name):
    for node in cluster.nodes:
        assert "cannot update" in errors(put(cluster, name, 'path "a" {}', node, 400))
        for kind in ("policies/acl", "policy"):
            answer = node.call("DELETE", f"/v1/sys/{kind}/{name}")
            assert answer.status == 400 and "cannot delete" in errors(answer)


def test_the_default_policy_is_there_and_may_be_changed_but_not_deleted(cluster):
    first, second, third = cluster.nodes
    text = first.call("GET", "/v1/sys/policies/acl/default").data["policy"]
    assert "auth/token/lookup-self" in text and "cubbyhole/*" in text
    mine = token(cluster, "default")
    assert second.call("GET", "/v1/auth/token/lookup-self", token=mine).status == 200
    assert "cannot delete" in errors(first.call("DELETE", "/v1/sys/policies/acl/default"))
    try:
        put(cluster, "default", 'path "kv/def" { capabilities = ["create"] }', second)
        assert denied(third.call("GET", "/v1/auth/token/lookup-self", token=mine))
    finally:
        put(cluster, "default", text)
    assert third.call("GET", "/v1/auth/token/lookup-self", token=mine).status == 200


def test_edits_count_for_living_tokens_on_every_node_at_once(cluster):
    mine = token(cluster, "edits")
    cluster.nodes[0].call("PUT", "/v1/kv/edits/x", {"v": 1})
    for round_ in range(4):
        for writer in cluster.nodes:
            allowed = round_ % 2 == 0
            caps = '["read", "list"]' if allowed else '["read", "deny"]'
            put(cluster, "edits", 'path "kv/edits/*" { capabilities = %s }' % caps, writer)
            for reader in cluster.nodes:
                answer = reader.call("GET", "/v1/kv/edits/x", token=mine)
                assert answer.status == 200 if allowed else denied(answer)
    assert cluster.nodes[2].call("DELETE", "/v1/sys/policies/acl/edits").status == 204
    for reader in cluster.nodes:
        assert denied(reader.call("GET", "/v1/kv/edits/x", token=mine))


def test_a_policy_that_does_not_exist_yet_grants_when_it_comes(cluster):
    mine = token(cluster, "later")
    for node in cluster.nodes:
        assert denied(node.call("PUT", "/v1/kv/later/x", {"v": 1}, token=mine))
    put(cluster, "later", BOTH % "kv/later/*", cluster.nodes[2])
    for node in cluster.nodes:
        assert node.call("PUT", "/v1/kv/later/x", {"v": 1}, token=mine).status == 204


def test_create_update_read_delete_and_list_are_told_apart(cluster):
    calls = {
        "create": ("PUT", "/v1/kv/op/new", {"v": 1}),
        "update": ("PUT", "/v1/kv/op/old", {"v": 1}),
        "read": ("GET", "/v1/kv/op/old", None),
        "delete": ("DELETE", "/v1/kv/op/gone", None),
        "list": ("LIST", "/v1/kv/op", None),
    }
    node, other = cluster.standbys()
    for granted in calls:
        node.call("PUT", "/v1/kv/op/old", {"v": 1})
        node.call("DELETE", "/v1/kv/op/new")
        put(cluster, "one", 'path "kv/op/*" { capabilities = ["%s"] }' % granted)
        mine = token(cluster, "one")
        for name, (method, path, body) in calls.items():
            answer = other.call(method, path, body, token=mine)
            assert answer.status in (200, 204) if name == granted else denied(answer), name


def test_the_narrowest_rule_decides_and_deny_beats_all(cluster):
    node = cluster.nodes[0]
    for path in ("a", "b/c", "b/d/e", "secret"):
        node.call("PUT", f"/v1/kv/rules/{path}", {"v": 1})
    put(cluster, "wide", 'path "kv/rules/*" { capabilities = ["read", "list"] }')
    put(
        cluster,
        "narrow",
        'path "kv/rules/secret" { capabilities = ["deny"] }\n'
        'path "kv/rules/b/+" { capabilities = ["list"] }\n'
        'path "kv/rules/+/d/*" { capabilities = ["delete"] }\n',
    )
    put(cluster, "again", 'path "kv/rules/secret" { capabilities = ["read", "sudo"] }')
    mine = token(cluster, "wide", "narrow", "again")
    for n in cluster.nodes:
        assert n.call("GET", "/v1/kv/rules/a", token=mine).status == 200
        assert denied(n.call("GET", "/v1/kv/rules/secret", token=mine))
        assert denied(n.call("GET", "/v1/kv/rules/b/c", token=mine))
        # "kv/rules/*" has its first wildcard where "kv/rules/+/d/*" has, and no "+"
        assert n.call("GET", "/v1/kv/rules/b/d/e", token=mine).status == 200


def test_parameters_are_allowed_denied_and_required(cluster):
    put(
        cluster,
        "params",
        'path "kv/params/*" {\n  capabilities = ["create", "update", "read"]\n'
        '  allowed_parameters = { "kind" = ["x*", 5], "note" = [] }\n'
        '  denied_parameters = { "note" = ["bad"] }\n  required_parameters = ["kind"]\n}',
    )
    mine = token(cluster, "params")
    fine = [{"kind": "xy"}, {"Kind": "x2", "note": [1]}, {"kind": 5}, {"kind": "5"}]
    wrong = [{"kind": "y"}, {"note": 1}, {"kind": "x2", "n": 1}, {"kind": "x2", "NOTE": "bad"}, {}]
    for node in cluster.nodes:
        for body in fine:
            assert node.call("PUT", "/v1/kv/params/a", body, token=mine).status == 204, body
        for body in wrong:
            assert denied(node.call("PUT", "/v1/kv/params/a", body, token=mine)), body
        assert denied(node.call("GET", "/v1/kv/params/a", token=mine))
        assert node.call("GET", "/v1/kv/params/a?kind=x1", token=mine).status == 200


def test_a_path_that_asks_for_wrapping_is_not_answered_bare(cluster):
    put(cluster, "wrap", 'path "kv/wrap" { capabilities = ["read"]\n max_wrapping_ttl = "1h" }')
    cluster.nodes[0].call("PUT", "/v1/kv/wrap", {"v": 1})
    mine = token(cluster, "wrap")
    for node in cluster.nodes:
        assert denied(node.call("GET", "/v1/kv/wrap", token=mine))


SUDO = [
    ("PUT", "sys/step-down", "update"),
    ("PUT", "sys/seal", "update"),
    ("POST", "sys/rotate", "update"),
    ("POST", "sys/remount", "update"),
    ("GET", "sys/auth/token", "read"),
    ("GET", "sys/auth/token/tune", "read"),
    ("LIST", "auth/token/accessors", "list"),
]


@pytest.mark.parametrize("method, path, capability", SUDO)
def test_protected_paths_need_sudo_besides(cluster, method, path, capability):
    put(cluster, "nosudo", 'path "*" { capabilities = ["create", "read", "update", "list"] }')
    put(cluster, "onlysudo", 'path "*" { capabilities = ["sudo"] }')
    for name in ("nosudo", "onlysudo"):
        mine = token(cluster, name)
        for node in cluster.nodes:
            answer = node.call(method, f"/v1/{path}", {}, token=mine)
            assert denied(answer), (capability, answer.status, answer.body)


def test_sudo_with_the_capability_is_enough(cluster):
    put(cluster, "sudo", 'path "auth/token/accessors" { capabilities = ["list", "sudo"] }')
    mine = token(cluster, "sudo")
    for node in cluster.nodes:
        assert node.call("LIST", "/v1/auth/token/accessors", token=mine).status == 200


def test_another_spelling_of_a_path_does_not_escape_its_rule(cluster):
    put(cluster, "guarded", 'path "x" { capabilities = ["read"] }')
    every = 'capabilities = ["create", "read", "update", "delete", "list"]'
    guarded = ["policies/acl/guarded", "policy/guarded", "mounts/kv", "storage/raft/configuration"]
    rules = 'path "sys/*" { %s }\n' % every
    rules += "".join('path "sys/%s" { capabilities = ["deny"] }\n' % path for path in guarded)
    mine = cluster.limited(rules)
    spellings = [
        *guarded,
        *(path + "/" for path in guarded),
        "policies/acl/GUARDED",
        "policies/acl/%20guarded",
        "policies/acl/Guarded%20",
        "policy/Guarded",
    ]
    for node in cluster.nodes:
        for path in spellings:
            assert denied(node.call("GET", f"/v1/sys/{path}", token=mine)), path
            assert denied(node.call("DELETE", f"/v1/sys/{path}", token=mine)), path
        body = {"policy": 'path "*" { capabilities = ["read"] }'}
        assert denied(node.call("PUT", "/v1/sys/policies/acl/GuardeD", body, token=mine))
        assert node.call("GET", "/v1/sys/policies/acl/Default", token=mine).status == 200
        assert node.call("GET", "/v1/sys/mounts/", token=mine).status == 200
    below = cluster.limited('path "sys/mounts/kv/*" { %s }' % every)
    assert denied(cluster.nodes[0].call("DELETE", "/v1/sys/mounts/kv/", token=below))


def test_denied_comes_before_what_is_not_there(cluster):
    put(cluster, "tell", 'path "nowhere/*" { capabilities = ["read"] }')
    mine = token(cluster, "tell")
    for node in cluster.nodes:
        assert node.call("GET", "/v1/nowhere/x", token=mine).status == 404
        assert denied(node.call("PUT", "/v1/nowhere/x", {"a": 1}, token=mine))
        assert denied(node.call("GET", "/v1/elsewhere/x", token=mine))
        assert denied(node.call("PATCH", "/v1/sys/mounts", {}, token=mine))
        assert denied(node.call("GET", "/v1/sys/policies/acl/tell", token=mine))


def test_capabilities_are_told_in_both_shapes(cluster):
    put(
        cluster,
        "caps",
        'path "kv/caps/*" { capabilities = ["update", "read"] }\n'
        'path "kv/caps/no" { capabilities = ["deny"] }\n',
    )
    mine = token(cluster, "caps")
    accessor = (
        cluster.nodes[0].call("POST", "/v1/auth/token/lookup", {"token": mine}).data["accessor"]
    )
    one, many = ["read", "update"], ["kv/caps/a", "kv/caps/no", "other"]
    for node in cluster.nodes:
        for path, who, by in (
            ("capabilities-self", {}, mine),
            ("capabilities", {"token": mine}, None),
            ("capabilities-accessor", {"accessor": accessor}, None),
        ):
            answer = node.call("POST", f"/v1/sys/{path}", {"path": "kv/caps/a", **who}, token=by)
            assert answer.data == {"kv/caps/a": one, "capabilities": one}
            assert answer.json["capabilities"] == one
            answer = node.call("POST", f"/v1/sys/{path}", {"paths": many, **who}, token=by)
            assert answer.data == {many[0]: one, many[1]: ["deny"], many[2]: ["deny"]}
        answer = node.call("POST", "/v1/sys/capabilities-self", {"paths": "x"})
        assert answer.data["x"] == ["root"]


def test_many_long_paths_are_asked_about_at_once(cluster):
    paths = ["a/" * 1400 + f"{i % 500}" for i in range(1000)]
    mine = token(cluster, "default")
    for body in ({"paths": paths}, {"paths": list(reversed(paths))}):
        answer = cluster.nodes[1].call("POST", "/v1/sys/capabilities-self", body, token=mine)
        assert list(answer.data) == body["paths"][:500]
        assert all(value == ["deny"] for value in answer.data.values())
    body = {"paths": ["x" * 3001]}
    answer = cluster.nodes[1].call("POST", "/v1/sys/capabilities-self", body, token=mine)
    assert answer.status == 400 and "longer" in errors(answer)


@pytest.mark.parametrize(
    "path, body, part",
    [
        ("capabilities", {"path": "x"}, "token"),
        ("capabilities", {"path": "x", "token": "hvs.none"}, "invalid token"),
        ("capabilities-accessor", {"path": "x"}, "accessor"),
        ("capabilities-accessor", {"path": "x", "accessor": "none"}, "invalid accessor"),
        ("capabilities-self", {}, "paths"),
        ("capabilities-self", {"paths": {"a": 1}}, "Field validation failed"),
    ],
)
def test_questions_about_capabilities_may_be_wrong(cluster, path, body, part):
    for node in cluster.nodes:
        answer = node.call("POST", f"/v1/sys/{path}", body)
        assert answer.status == 400 and part in errors(answer)
        assert node.call("POST", f"/v1/sys/{path}", body, token="").status == 403


def test_the_merged_rules_are_shown(cluster):
    put(
        cluster,
        "shown",
        'path "kv/shown" { capabilities = ["read"] }\npath "kv/shown/+/x*" { policy = "deny" }\n'
        'path "identity/{{identity.entity.id}}" { capabilities = ["read"] }\n',
    )
    mine = token(cluster, "shown")
    for node in cluster.nodes:
        data = node.call("GET", "/v1/sys/internal/ui/resultant-acl", token=mine).data
        assert data["root"] is False
        assert data["exact_paths"]["kv/shown"] == {"capabilities": ["read"]}
        assert data["glob_paths"]["kv/shown/+/x"] == {"capabilities": ["deny"]}
        assert not any("{{" in path for part in data.values() if part for path in part)
        assert node.call("GET", "/v1/sys/internal/ui/resultant-acl").data["root"] is True


def test_what_a_denied_policy_stopped_stays_stopped(cluster):
    """Writers go on while their policy is taken away: what is acknowledged after the edit was
    acknowledged was not."""
    node = cluster.active()
    grant, deny = BOTH % "kv/race/*", 'path "kv/race/*" { capabilities = ["deny"] }'
    put(cluster, "race", grant)
    mine = token(cluster, "race")

    def write(i):
        writer = cluster.nodes[i % 3]
        statuses = []
        for n in range(15):
            answer = writer.call("PUT", f"/v1/kv/race/{i}", {"n": n}, token=mine)
            if answer.status < 500:  # else its fate is not known
                assert answer.status == 204 or denied(answer), answer.body
                statuses.append(answer.status)
        return statuses

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, i) for i in range(3)]
        put(cluster, "race", deny, node)
        before = {i: node.call("GET", f"/v1/kv/race/{i}").body for i in range(3)}
        for writer in writers:
            statuses = writer.result()
            assert statuses == sorted(statuses)  # once denied, denied
    for i in range(3):
        after = node.call("GET", f"/v1/kv/race/{i}")
        first = json.loads(before[i])
        assert first.get("data") == after.json.get("data")


def test_policies_are_edited_at_once_by_many(cluster):
    """Who edits is judged by policies himself, so editors run into each other."""
    put(cluster, "admin", 'path "sys/policies/acl/*" { capabilities = ["update", "delete"] }')
    mine = token(cluster, "admin")

    def edit(i):
        node = cluster.nodes[i % 3]
        for n in range(8):
            path = f"/v1/sys/policies/acl/many-{i}-{n}"
            body = {"policy": BOTH % f"kv/many/{i}/{n}"}
            answer = node.call("PUT", path, body, token=mine)
            assert answer.status == 204, answer.body

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(edit, i) for i in range(4)]:
            done.result()
    keys = cluster.nodes[1].call("LIST", "/v1/sys/policies/acl").data["keys"]
    assert len([key for key in keys if key.startswith("many-")]) == 32
