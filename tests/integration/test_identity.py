"""Entities, aliases and lookups on three nodes."""

import json
import threading

import pytest

from people import People, allow, call, login, may, read, user, write

CLUSTER = People


def entity(node, **fields):
    return write(node, "identity/entity", fields, 200)["id"]


def test_entity_is_created_changed_read_and_deleted(cluster):
    one, two, three = cluster.nodes
    made = write(one, "identity/entity", {"name": "Ada", "metadata": {"team": "red"}, "policies": ["P1", "p2"]}, 200)
    assert made["name"] == "Ada" and made["aliases"] is None
    got = read(two, "identity/entity/id/" + made["id"])
    assert got["policies"] == ["p1", "p2"] and got["metadata"] == {"team": "red"}
    for field in ("creation_time", "last_update_time", "bucket_key_hash"):
        assert got[field]
    for field in ("direct_group_ids", "group_ids", "inherited_group_ids"):
        assert got[field] == []
    assert got["merged_entity_ids"] is None and got["disabled"] is False and got["namespace_id"] == "root"
    again = write(three, "identity/entity", {"name": "ADA", "metadata": {"x": "y"}}, 200)
    assert again["id"] == made["id"]
    assert read(one, "identity/entity/name/ada")["metadata"] == {"x": "y"}
    assert read(one, "identity/entity/name/ada")["policies"] == ["p1", "p2"]
    write(one, "identity/entity/id/" + made["id"], {"name": "Grace", "disabled": True}, 200)
    assert read(two, "identity/entity/name/GRACE")["disabled"] is True
    call(one, "GET", "identity/entity/name/ada", status=404)
    call(one, "DELETE", "identity/entity/name/grace", status=204)
    call(two, "GET", "identity/entity/id/" + made["id"], status=404)
    call(one, "DELETE", "identity/entity/id/" + made["id"], status=204)


def test_entity_without_a_name_is_named_by_its_id(cluster):
    node = cluster.nodes[1]
    id = entity(node)
    assert read(node, "identity/entity/id/" + id)["name"] == "entity-" + id


def test_entities_are_listed_with_details_and_in_pages(cluster):
    node = cluster.nodes[0]
    ids = {name: entity(node, name=name) for name in ("list-a", "List-B", "list-c")}
    names = call(node, "LIST", "identity/entity/name", status=200).data
    assert {"list-a", "List-B", "list-c"} <= set(names["keys"])
    assert names["key_info"][ids["List-B"]] == {"name": "List-B", "aliases": []}
    page = call(node, "GET", "identity/entity/name?list=true&after=list-a&limit=1", status=200).data
    assert page["keys"] == ["List-B"]
    by_id = call(node, "LIST", "identity/entity/id", status=200).data
    assert set(ids.values()) <= set(by_id["keys"]) and by_id["key_info"][ids["list-a"]]["name"] == "list-a"
    write(node, "identity/entity/batch-delete", {"entity_ids": [*ids.values(), "unknown"]})
    for id in ids.values():
        call(node, "GET", "identity/entity/id/" + id, status=404)


@pytest.mark.parametrize("path,body,error", [
    ("entity", {"id": "nobody"}, "entity not found from id"),
    ("entity", {"name": "x", "policies": ["root"]}, "root"),
    ("entity", {"name": "x" * 1024}, "name: longer than 512 bytes"),
    ("entity", {"name": "a\nb"}, "printable"),
    ("entity", {"metadata": {f"k{i}": "v" for i in range(65)}}, "metadata"),
    ("entity", {"metadata": {"k" * 129: "v"}}, "metadata"),
    ("entity", {"metadata": {"k": "v" * 513}}, "metadata"),
    ("entity/batch-delete", {}, "entity_ids"),
    ("entity/batch-delete", {"entity_ids": []}, "entity_ids"),
    ("entity-alias", {"name": "x"}, "mount_accessor"),
    ("entity-alias", {"mount_accessor": "x"}, "name"),
    ("entity-alias", {"name": "x", "mount_accessor": "nothing"}, "invalid mount accessor"),
    ("entity-alias", {"id": "nothing", "name": "x"}, "invalid alias id"),
    ("group", {"id": "nothing"}, "invalid group ID"),
    ("group", {"name": "g", "type": "odd"}, "type"),
    ("group", {"name": "g", "type": "external", "member_entity_ids": ["x"]}, "external"),
    ("group", {"name": "g", "member_entity_ids": ["x"]}, "member_entity_ids"),
    ("group", {"name": "g", "member_group_ids": ["x"]}, "member_group_ids"),
    ("group", {"name": "g", "policies": "root"}, "root"),
    ("group-alias", {"name": "g"}, "mount_accessor"),
    ("lookup/entity", {}, "required"),
    ("lookup/entity", {"id": "a", "name": "b"}, "only one"),
    ("lookup/entity", {"alias_name": "a"}, "alias_mount_accessor"),
    ("lookup/group", {}, "required"),
    ("entity/merge", {}, "from"),
    ("entity/merge", {"from_entity_ids": ["a"]}, "merge to"),
    ("entity/merge", {"from_entity_ids": ["a"], "to_entity_id": "a"}, "to_entity_id"),
    ("entity/merge", {"from_entity_ids": ["a"], "to_entity_id": "b"}, "invalid"),
])
def test_bad_field_is_refused_by_name(cluster, path, body, error):
    write(cluster.nodes[2], "identity/" + path, body, 400, error)
    call(cluster.nodes[2], "GET", "identity/group/name/g", status=404)


def test_name_in_another_case_is_one_entity_when_made_at_once(cluster):
    names = ["Twin", "twin", "TWIN", "tWiN"]
    got = [None] * 24

    def make(i):
        node = cluster.nodes[i % 3]
        got[i] = write(node, "identity/entity", {"name": names[i % 4]}, 200)["id"]

    tasks = [threading.Thread(target=make, args=(i,)) for i in range(len(got))]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    assert len(set(got)) == 1


def test_login_makes_one_entity_also_when_logins_race(cluster):
    user(cluster.nodes[0], "racer")
    got = [None] * 12

    def enter(i):
        got[i] = login(cluster.nodes[i % 3], "racer")["entity_id"]

    tasks = [threading.Thread(target=enter, args=(i,)) for i in range(len(got))]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    assert len(set(got)) == 1 and got[0]
    found = read(cluster.nodes[1], "identity/entity/id/" + got[0])
    assert [alias["name"] for alias in found["aliases"]] == ["racer"]
    alias = found["aliases"][0]
    assert alias["mount_path"] == "auth/userpass/" and alias["mount_type"] == "userpass"
    assert alias["canonical_id"] == got[0] and alias["metadata"] == {"username": "racer"}


def test_alias_is_created_moved_and_deleted(cluster):
    node = cluster.nodes[0]
    accessor = cluster.accessors["userpass"]
    first, second = entity(node, name="alias-1"), entity(node, name="alias-2")
    body = {"name": "someone", "mount_accessor": accessor, "canonical_id": first, "custom_metadata": {"k": "v"}}
    made = write(node, "identity/entity-alias", body, 200)
    assert made["canonical_id"] == first
    write(node, "identity/entity-alias", body, 204)
    path = "identity/entity-alias/id/" + made["id"]
    assert read(cluster.nodes[1], path)["custom_metadata"] == {"k": "v"}
    write(node, "identity/entity-alias", {**body, "name": "other"}, 400, "already exists")
    assert write(node, path, {"canonical_id": second}, 200)["canonical_id"] == second
    assert read(node, "identity/entity/id/" + first)["aliases"] == []
    assert read(node, "identity/entity/id/" + second)["aliases"][0]["id"] == made["id"]
    listed = call(node, "LIST", "identity/entity-alias/id", status=200).data
    assert listed["key_info"][made["id"]]["canonical_id"] == second
    assert login_entity(cluster, "someone") == second
    call(node, "DELETE", path, status=204)
    call(node, "DELETE", path, status=204)
    call(node, "GET", path, status=404)
    fresh = write(node, "identity/entity-alias", {"name": "fresh", "mount_accessor": accessor}, 200)
    assert read(node, "identity/entity/id/" + fresh["canonical_id"])["aliases"][0]["name"] == "fresh"


def login_entity(cluster, name, mount="userpass"):
    user(cluster.nodes[0], name, mount)
    return login(cluster.nodes[0], name, mount)["entity_id"]


def test_lookup_finds_by_id_name_and_alias(cluster):
    node = cluster.nodes[1]
    id = login_entity(cluster, "lookup")
    alias = read(node, "identity/entity/id/" + id)["aliases"][0]
    write(node, "identity/entity/id/" + id, {"name": "Found"}, 200)
    for body in ({"id": id}, {"name": "found"}, {"alias_id": alias["id"]},
                 {"alias_name": "lookup", "alias_mount_accessor": alias["mount_accessor"]}):
        assert write(node, "identity/lookup/entity", body, 200)["name"] == "Found"
    for body in ({"id": "x"}, {"name": "x"}, {"alias_id": "x"},
                 {"alias_name": "x", "alias_mount_accessor": alias["mount_accessor"]}):
        write(node, "identity/lookup/entity", body, 204)


def test_disabled_entity_is_refused_on_every_node_and_keeps_its_tokens(cluster):
    one = cluster.nodes[0]
    user(one, "switch")
    got = login(one, "switch")
    batch = write_batch(cluster, "switch-batch")
    for token, id in ((got["client_token"], got["entity_id"]), batch):
        assert may(cluster.nodes[1], token, "auth/token/lookup-self")
        write(one, "identity/entity/id/" + id, {"disabled": True}, 200)
        for node in cluster.nodes:
            call(node, "GET", "auth/token/lookup-self", status=403, token=token)
        write(one, "identity/entity/id/" + id, {"disabled": False}, 200)
        for node in cluster.nodes:
            call(node, "GET", "auth/token/lookup-self", status=200, token=token)
    write(one, "identity/entity/id/" + got["entity_id"], {"disabled": True}, 200)
    login(one, "switch", status=403, error="disabled")


def write_batch(cluster, name):
    user(cluster.nodes[0], name, token_type="batch")
    got = login(cluster.nodes[0], name)
    assert got["token_type"] == "batch" and got["client_token"].startswith("hvb.")
    return got["client_token"], got["entity_id"]


def test_token_of_a_deleted_entity_is_refused(cluster):
    one, two, three = cluster.nodes
    user(one, "gone")
    got = login(two, "gone")
    call(one, "DELETE", "identity/entity/id/" + got["entity_id"], status=204)
    call(three, "GET", "auth/token/lookup-self", status=403, token=got["client_token"])
    assert login(one, "gone")["entity_id"] != got["entity_id"]


def test_entity_policies_apply_at_once_and_show_in_replies(cluster):
    one, two, three = cluster.nodes
    allow(one, "of-entity", "sys/policies/acl/of-entity")
    user(one, "rights", token_policies="of-token")
    got = login(one, "rights")
    assert "identity_policies" not in got
    assert not may(two, got["client_token"], "sys/policies/acl/of-entity")
    write(one, "identity/entity/id/" + got["entity_id"], {"policies": "of-entity"}, 200)
    for node in cluster.nodes:
        assert may(node, got["client_token"], "sys/policies/acl/of-entity")
    look = read(two, "auth/token/lookup-self", got["client_token"])
    assert look["identity_policies"] == ["of-entity"] and look["policies"] == ["default", "of-token"]
    assert look["external_namespace_policies"] == {}
    again = login(three, "rights")
    assert again["policies"] == ["default", "of-entity", "of-token"]
    assert again["token_policies"] == ["default", "of-token"] and again["identity_policies"] == ["of-entity"]
    caps = call(two, "POST", "sys/capabilities-self", {"path": "sys/policies/acl/of-entity"}, 200,
                token=got["client_token"]).json["capabilities"]
    assert caps == ["read"]
    write(one, "identity/entity/id/" + got["entity_id"], {"policies": []}, 200)
    for node in cluster.nodes:
        assert not may(node, got["client_token"], "sys/policies/acl/of-entity")


def test_child_has_the_entity_and_an_orphan_has_none(cluster):
    one = cluster.nodes[0]
    allow(one, "makes", "auth/token/create*", '"create","update","sudo"')
    user(one, "parent", token_policies="makes")
    got = login(one, "parent")
    token = got["client_token"]
    child = call(one, "POST", "auth/token/create", {}, 200, token=token).json["auth"]
    orphan = call(one, "POST", "auth/token/create-orphan", {}, 200, token=token).json["auth"]
    assert child["entity_id"] == got["entity_id"] and orphan["entity_id"] == ""


def test_tokens_of_an_entity_are_listed_and_revoked(cluster):
    one, two, three = cluster.nodes
    user(one, "many")
    tokens = [login(node, "many") for node in cluster.nodes]
    id = tokens[0]["entity_id"]
    listed = call(two, "LIST", f"identity/entity/id/{id}/tokens", status=200).data["keys"]
    assert set(listed) == {token["accessor"] for token in tokens}
    write(three, f"identity/entity/id/{id}/tokens/revoke-all")
    for token in tokens:
        call(one, "GET", "auth/token/lookup-self", status=403, token=token["client_token"])
    call(two, "LIST", f"identity/entity/id/{id}/tokens", status=404)
    call(two, "LIST", "identity/entity/id/unknown/tokens", status=404)


def test_rights_are_asked_for(cluster):
    one = cluster.nodes[0]
    allow(one, "reads-names", "identity/entity/name/*")
    token = call(one, "POST", "auth/token/create", {"policies": ["reads-names"]}, 200).json["auth"]["client_token"]
    entity(one, name="visible")
    assert read(one, "identity/entity/name/visible", token)["name"] == "visible"
    call(one, "POST", "identity/entity", {"name": "visible"}, 403, token=token)
    call(one, "DELETE", "identity/entity/name/visible", status=403, token=token)
    call(one, "LIST", "identity/entity/id", status=403, token=token)


def test_audit_records_name_the_entity_and_its_policies(cluster):
    one = cluster.nodes[0]
    user(one, "audited", token_policies="of-token")
    got = login(one, "audited")
    write(one, "identity/entity/id/" + got["entity_id"], {"policies": "of-audited"}, 200)
    call(one, "GET", "sys/policies/acl/audited-path", status=403, token=got["client_token"])
    again = login(one, "audited")
    records = [json.loads(line) for node in cluster.nodes
               for line in (node.dir / "audit.log").read_text().splitlines()]
    denied = [r for r in records if r["request"].get("path") == "sys/policies/acl/audited-path"]
    assert denied and all(r["auth"]["entity_id"] == got["entity_id"] for r in denied)
    assert all(r["auth"]["identity_policies"] == ["of-audited"] for r in denied)
    assert all(r["auth"]["policies"] == ["default", "of-audited", "of-token"] for r in denied)
    assert all(r["auth"]["token_policies"] == ["default", "of-token"] for r in denied)
    assert all(r["request"]["client_id"] == got["entity_id"] for r in denied)
    made = [r["response"]["auth"] for r in records if r["request"].get("path") == "auth/userpass/login/audited"
            and "auth" in r.get("response", {})]
    assert {auth["entity_id"] for auth in made} == {again["entity_id"]}
    assert made[-1]["identity_policies"] == ["of-audited"]


def test_help_and_openapi_know_the_paths(cluster):
    node = cluster.nodes[0]
    assert "entity" in call(node, "GET", "identity/entity?help=1", status=200).json["help"].lower()
    paths = call(node, "GET", "sys/internal/specs/openapi", status=200).json["paths"]
    for path in ("/identity/entity", "/identity/entity/merge", "/identity/group/id/{id}", "/identity/lookup/entity"):
        assert path in paths, sorted(path for path in paths if "identity" in path)
