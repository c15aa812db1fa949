"""Groups, their aliases, inherited policies, and templates of policies, on three nodes."""

import threading

import pytest

from people import People, allow, call, login, may, policy, read, user, write

CLUSTER = People


def group(node, **fields):
    return write(node, "identity/group", fields, 200)["id"]


def person(cluster, name, **fields):
    """The token and the entity of a user who has just logged in."""
    user(cluster.nodes[0], name, **fields)
    got = login(cluster.nodes[0], name)
    return got["client_token"], got["entity_id"]


def test_group_is_created_changed_read_and_deleted(cluster):
    one, two, three = cluster.nodes
    _, id = person(cluster, "member")
    made = write(one, "identity/group", {"name": "Crew", "policies": "p", "metadata": {"a": "b"},
                                         "member_entity_ids": [id]}, 200)
    assert made["name"] == "Crew"
    got = read(two, "identity/group/id/" + made["id"])
    assert got["type"] == "internal" and got["policies"] == ["p"] and got["metadata"] == {"a": "b"}
    assert got["member_entity_ids"] == [id] and got["member_group_ids"] == [] and got["parent_group_ids"] == []
    assert got["alias"] == {} and got["modify_index"] > 0 and got["creation_time"] and got["last_update_time"]
    assert read(three, "identity/entity/id/" + id)["direct_group_ids"] == [made["id"]]
    write(one, "identity/group", {"name": "CREW", "policies": ["q"]})
    assert read(two, "identity/group/name/crew")["policies"] == ["q"]
    assert read(two, "identity/group/name/crew")["member_entity_ids"] == [id]
    write(one, "identity/group/id/" + made["id"], {"name": "team", "member_entity_ids": []})
    assert read(two, "identity/group/name/team")["member_entity_ids"] == []
    call(two, "GET", "identity/group/name/crew", status=404)
    listed = call(one, "LIST", "identity/group/id", status=200).data
    assert listed["key_info"][made["id"]]["name"] == "team"
    assert "team" in call(one, "LIST", "identity/group/name", status=200).data["keys"]
    assert write(one, "identity/lookup/group", {"name": "TEAM"}, 200)["id"] == made["id"]
    write(one, "identity/group", {"name": "team", "type": "external"}, 400, "type cannot be changed")
    call(one, "DELETE", "identity/group/name/team", status=204)
    call(one, "DELETE", "identity/group/name/team", status=204)
    call(two, "GET", "identity/group/id/" + made["id"], status=404)
    assert write(one, "identity/group/name/by-name", {"metadata": {"x": "y"}}, 200)["name"] == "by-name"
    call(one, "DELETE", "identity/group/name/by-name", status=204)


def test_policies_of_parents_reach_members_of_members(cluster):
    one, two, three = cluster.nodes
    allow(one, "of-top", "sys/policies/acl/of-top")
    token, id = person(cluster, "deep")
    leaf = group(one, name="leaf", member_entity_ids=[id])
    middle = group(one, name="middle", member_group_ids=[leaf])
    top = group(one, name="top", member_group_ids=[middle], policies="of-top")
    for node in cluster.nodes:
        assert may(node, token, "sys/policies/acl/of-top")
    got = read(two, "identity/entity/id/" + id)
    assert got["direct_group_ids"] == [leaf] and set(got["inherited_group_ids"]) == {middle, top}
    assert set(got["group_ids"]) == {leaf, middle, top}
    assert read(three, "identity/group/id/" + middle)["parent_group_ids"] == [top]
    look = read(two, "auth/token/lookup-self", token)
    assert look["identity_policies"] == ["of-top"]
    write(one, "identity/group/id/" + top, {"member_group_ids": []})
    for node in cluster.nodes:
        assert not may(node, token, "sys/policies/acl/of-top")
    write(one, "identity/group/id/" + top, {"member_group_ids": [leaf]})
    assert may(three, token, "sys/policies/acl/of-top")
    call(two, "DELETE", "identity/group/id/" + top, status=204)
    assert not may(one, token, "sys/policies/acl/of-top")
    assert read(one, "identity/group/id/" + leaf)["parent_group_ids"] == [middle]


def test_change_of_one_group_leaves_members_of_others_alone(cluster):
    one = cluster.nodes[0]
    allow(one, "of-blue", "sys/policies/acl/of-blue")
    token, id = person(cluster, "blue")
    group(one, name="blue", member_entity_ids=[id], policies="of-blue")
    for round in range(3):
        call(one, "POST", "identity/group/name/red", {"metadata": {"round": str(round)}})
        for node in cluster.nodes:
            assert may(node, token, "sys/policies/acl/of-blue")


def test_cycle_is_refused(cluster):
    one = cluster.nodes[0]
    ids = [group(one, name="ring-0")]
    for i in range(1, 64):
        ids.append(group(one, name=f"ring-{i}", member_group_ids=[ids[-1]]))
    write(one, "identity/group/id/" + ids[0], {"member_group_ids": [ids[-1]]}, 400, "cyclic")
    write(one, "identity/group/id/" + ids[0], {"member_group_ids": [ids[0]]}, 400, "cyclic")


def test_two_writers_cannot_close_a_cycle_together(cluster):
    one, two, three = cluster.nodes
    for round in range(5):
        a, b = group(one, name=f"a{round}"), group(one, name=f"b{round}")
        got = {}

        def join(node, parent, child):
            got[parent] = call(node, "POST", "identity/group/id/" + parent, {"member_group_ids": [child]}).status

        tasks = [threading.Thread(target=join, args=each) for each in ((two, a, b), (three, b, a))]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
        assert sorted(got.values()) == [204, 400], got


def test_group_alias_belongs_to_an_external_group(cluster):
    one, two, three = cluster.nodes
    accessor = cluster.accessors["userpass"]
    inside, outside = group(one, name="inside"), group(one, name="outside", type="external")
    body = {"name": "ops", "mount_accessor": accessor}
    write(one, "identity/group-alias", {**body, "canonical_id": inside}, 400, "internal")
    made = write(one, "identity/group-alias", {**body, "canonical_id": outside}, 200)
    assert made["canonical_id"] == outside
    write(one, "identity/group-alias", {**body, "name": "second", "canonical_id": outside}, 400, "alias already")
    path = "identity/group-alias/id/" + made["id"]
    assert read(two, path)["name"] == "ops" and read(two, path)["mount_path"] == "auth/userpass/"
    assert read(three, "identity/group/id/" + outside)["alias"]["id"] == made["id"]
    assert write(one, path, {"name": "operators"}, 200)["id"] == made["id"]
    assert write(one, "identity/lookup/group", {"alias_name": "operators", "alias_mount_accessor": accessor},
                 200)["name"] == "outside"
    assert write(one, "identity/lookup/group", {"alias_id": made["id"]}, 200)["id"] == outside
    assert made["id"] in call(one, "LIST", "identity/group-alias/id", status=200).data["keys"]
    call(one, "DELETE", path, status=204)
    call(one, "GET", path, status=404)
    assert read(one, "identity/group/id/" + outside)["alias"] == {}
    fresh = write(one, "identity/group-alias", {**body, "name": "fresh"}, 200)
    assert read(one, "identity/group/id/" + fresh["canonical_id"])["type"] == "external"
    call(one, "DELETE", "identity/group/id/" + outside, status=204)


TEMPLATES = [
    ("entity.id", lambda facts: facts["id"]),
    ("entity.name", lambda facts: "filled"),
    ("entity.metadata.team", lambda facts: "red"),
    ("entity.aliases.{accessor}.name", lambda facts: "templated"),
    ("entity.aliases.{accessor}.metadata.username", lambda facts: "templated"),
    ("entity.aliases.{accessor}.custom_metadata.desk", lambda facts: "d7"),
    ("groups.names.tpl.id", lambda facts: facts["group"]),
    ("groups.names.tpl.metadata.floor", lambda facts: "3"),
    ("groups.ids.{group}.name", lambda facts: "tpl"),
]


@pytest.fixture(scope="module")
def templated(cluster):
    one = cluster.nodes[0]
    token, id = person(cluster, "templated", token_policies="tpl")
    write(one, "identity/entity/id/" + id, {"name": "filled", "metadata": {
        "team": "red", "slash": "a/b", "star": "*", "plus": "+", "braces": "{{identity.entity.id}}"}}, 200)
    alias = read(one, "identity/entity/id/" + id)["aliases"][0]["id"]
    write(one, "identity/entity-alias/id/" + alias, {"custom_metadata": {"desk": "d7"}}, 200)
    made = group(one, name="tpl", member_entity_ids=[id], metadata={"floor": "3"})
    write(one, "sys/mounts/tkv", {"type": "kv"})
    return {"token": token, "id": id, "group": made, "accessor": cluster.accessors["userpass"]}


@pytest.mark.parametrize("name,value", TEMPLATES)
def test_template_is_filled_in_a_path(cluster, templated, name, value):
    name = name.format(**templated)
    policy(cluster.nodes[0], "tpl", f'path "tkv/{{{{identity.{name}}}}}/*" {{ capabilities = ["read"] }}')
    for node in cluster.nodes:
        call(node, "GET", f"tkv/{value(templated)}/x", status=404, token=templated["token"])
        call(node, "GET", "tkv/other/x", status=403, token=templated["token"])


@pytest.mark.parametrize("name", ["entity.metadata.slash", "entity.metadata.star", "entity.metadata.plus",
                                  "entity.metadata.missing", "groups.names.nothing.id", "nonsense"])
def test_template_without_a_plain_value_drops_its_rule_alone(cluster, templated, name):
    policy(cluster.nodes[0], "tpl", f'path "tkv/{{{{identity.{name}}}}}" {{ capabilities = ["read"] }}\n'
                                    'path "tkv/beside" { capabilities = ["read"] }')
    node = cluster.nodes[1]
    call(node, "GET", "tkv/beside", status=404, token=templated["token"])
    for path in ("a/b", "a", "anything", "*", "+"):
        assert not may(node, templated["token"], "tkv/" + path.replace("+", "%2B"))


def test_template_is_filled_once_and_in_allowed_parameters(cluster, templated):
    one, two, three = cluster.nodes
    policy(one, "tpl", 'path "tkv/{{identity.entity.metadata.braces}}" { capabilities = ["read"] }\n'
                       'path "tkv/params" { capabilities = ["create", "update"]\n'
                       '  allowed_parameters = { "team" = ["{{identity.entity.metadata.team}}"] } }')
    assert not may(two, templated["token"], "tkv/" + templated["id"])
    call(two, "POST", "tkv/params", {"team": "red"}, 204, token=templated["token"])
    call(three, "POST", "tkv/params", {"team": "blue"}, 403, token=templated["token"])
    write(one, "identity/entity/id/" + templated["id"], {"metadata": {"team": "blue"}}, 200)
    call(three, "POST", "tkv/params", {"team": "blue"}, 204, token=templated["token"])
    call(two, "POST", "tkv/params", {"team": "red"}, 403, token=templated["token"])


def test_default_policy_lets_an_entity_read_itself(cluster):
    token, id = person(cluster, "itself")
    _, other = person(cluster, "other-one")
    for node in cluster.nodes:
        got = read(node, "identity/entity/id/" + id, token)
        assert read(node, "identity/entity/name/" + got["name"], token)["id"] == id
        call(node, "GET", "identity/entity/id/" + other, status=403, token=token)
