"""Merging entities, and entities of tokens that roles create, on three nodes."""

import threading

from people import People, allow, call, login, may, read, user, write

CLUSTER = People


def person(cluster, name, mount="userpass"):
    user(cluster.nodes[0], name, mount)
    got = login(cluster.nodes[0], name, mount)
    return got["client_token"], got["entity_id"]


def merge(node, to, *sources, status=204, **more):
    return write(node, "identity/entity/merge", {"to_entity_id": to, "from_entity_ids": sources, **more}, status)


def test_aliases_groups_and_tokens_move_and_policies_do_not(cluster):
    one, two, three = cluster.nodes
    allow(one, "of-target", "sys/policies/acl/of-target")
    allow(one, "of-source", "sys/policies/acl/of-source")
    allow(one, "of-shared", "sys/policies/acl/of-shared")
    target_token, target = person(cluster, "m1")
    source_token, source = person(cluster, "m2", "team/pass")
    write(one, "identity/entity/id/" + target, {"policies": "of-target"}, 200)
    write(one, "identity/entity/id/" + source, {"policies": "of-source", "metadata": {"k": "v"}}, 200)
    shared = write(one, "identity/group", {"name": "shared", "policies": "of-shared", "member_entity_ids": [source]},
                   200)["id"]
    merge(two, target, source)
    got = read(three, "identity/entity/id/" + target)
    assert got["merged_entity_ids"] == [source] and got["policies"] == ["of-target"] and not got["metadata"]
    assert {alias["name"] for alias in got["aliases"]} == {"m1", "m2"}
    moved = next(alias for alias in got["aliases"] if alias["name"] == "m2")
    assert moved["canonical_id"] == target and moved["merged_from_canonical_ids"] == [source]
    assert got["direct_group_ids"] == [shared]
    assert read(one, "identity/group/id/" + shared)["member_entity_ids"] == [target]
    assert read(one, "identity/entity/id/" + source)["id"] == target
    for node in cluster.nodes:
        for name, allowed in (("of-target", True), ("of-shared", True), ("of-source", False)):
            assert may(node, source_token, "sys/policies/acl/" + name) is allowed
            assert may(node, target_token, "sys/policies/acl/" + name) is allowed
    assert login(two, "m2", "team/pass")["entity_id"] == target
    write(one, "identity/entity/id/" + target, {"disabled": True}, 200)
    for node in cluster.nodes:
        call(node, "GET", "auth/token/lookup-self", status=403, token=source_token)


def test_merge_gives_a_disabled_entity_no_rights_back(cluster):
    one, two, three = cluster.nodes
    token, source = person(cluster, "off", "team/pass")
    _, target = person(cluster, "on")
    write(one, "identity/entity/id/" + source, {"disabled": True}, 200)
    answer = merge(two, target, source, status=400)
    assert f"entity {source} is disabled" in answer.json["errors"][0]
    call(three, "GET", "auth/token/lookup-self", status=403, token=token)
    write(one, "identity/entity/id/" + target, {"disabled": True}, 200)
    merge(two, target, source)
    call(three, "GET", "auth/token/lookup-self", status=403, token=token)


def test_second_merge_leads_to_the_last_target(cluster):
    one, two, three = cluster.nodes
    token, first = person(cluster, "chain")
    last = write(one, "identity/entity", {"name": "chain-end"}, 200)["id"]
    third = write(one, "identity/entity", {"name": "chain-middle"}, 200)["id"]
    merge(one, third, first)
    merge(two, last, third)
    got = read(three, "identity/entity/id/" + last)
    assert set(got["merged_entity_ids"]) == {first, third}
    assert read(two, "identity/entity/id/" + first)["id"] == last
    call(three, "GET", "auth/token/lookup-self", status=200, token=token)
    listed = call(one, "LIST", f"identity/entity/id/{last}/tokens", status=200).data["keys"]
    assert len(listed) == 1
    call(one, "DELETE", "identity/entity/id/" + last, status=204)
    call(three, "GET", "auth/token/lookup-self", status=403, token=token)


def test_two_aliases_on_one_mount_are_refused_with_all_of_them(cluster):
    one, two, three = cluster.nodes
    _, left = person(cluster, "left")
    _, right = person(cluster, "right")
    _, more = person(cluster, "more")
    answer = merge(one, left, right, more, status=400)
    assert answer.json["errors"]
    data = answer.json["data"]
    assert {item["entity_id"] for item in data} == {left, right, more}
    assert all(item["mount"] == "userpass" and item["mount_path"] == "auth/userpass/" for item in data)
    assert read(two, "identity/entity/id/" + right)["id"] == right
    keep = next(item["alias"] for item in data if item["entity_id"] == right)
    merge(three, left, right, more, conflicting_alias_ids_to_keep=[keep])
    got = read(one, "identity/entity/id/" + left)
    assert [alias["id"] for alias in got["aliases"]] == [keep]


def test_merge_during_logins_of_both_loses_no_login(cluster):
    one, two, three = cluster.nodes
    _, target = person(cluster, "busy")
    _, source = person(cluster, "busy2", "team/pass")
    got = []

    def enter(node, name, mount):
        for _ in range(4):
            got.append((login(node, name, mount), node))

    tasks = [threading.Thread(target=enter, args=each)
             for each in ((two, "busy", "userpass"), (three, "busy2", "team/pass"))]
    for task in tasks:
        task.start()
    merge(one, target, source)
    for task in tasks:
        task.join()
    for auth, node in got:
        call(node, "GET", "auth/token/lookup-self", status=200, token=auth["client_token"])
        assert read(one, "identity/entity/id/" + auth["entity_id"])["id"] == target


def test_role_creates_tokens_of_an_entity_by_its_alias(cluster):
    one, two, three = cluster.nodes
    allow(one, "of-alias", "sys/policies/acl/of-alias")
    accessor = read(one, "sys/auth")["token/"]["accessor"]
    id = write(one, "identity/entity", {"name": "robot", "policies": "of-alias"}, 200)["id"]
    write(one, "identity/entity-alias", {"name": "arm-1", "canonical_id": id, "mount_accessor": accessor}, 200)
    write(one, "auth/token/roles/arms", {"allowed_entity_aliases": ["arm-*", "Leg"]})
    assert read(two, "auth/token/roles/arms")["allowed_entity_aliases"] == ["arm-*", "Leg"]
    made = call(two, "POST", "auth/token/create/arms", {"entity_alias": "arm-1", "policies": ["default"]},
                200).json["auth"]
    assert made["entity_id"] == id and made["identity_policies"] == ["of-alias"]
    assert may(three, made["client_token"], "sys/policies/acl/of-alias")
    fresh = call(two, "POST", "auth/token/create/arms", {"entity_alias": "arm-2"}, 200).json["auth"]
    assert fresh["entity_id"] not in ("", id)
    write(one, "auth/token/create/arms", {"entity_alias": "head"}, 400, "invalid 'entity_alias' value")
    write(one, "auth/token/create", {"entity_alias": "arm-1"}, 400, "role")
    write(one, "identity/entity/id/" + id, {"disabled": True}, 200)
    write(one, "auth/token/create/arms", {"entity_alias": "arm-1"}, 403)
