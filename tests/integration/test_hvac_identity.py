"""Upstream's Python client, unmodified: entities, groups, userpass and approle."""

import pytest
from hvac import exceptions

from people import People
from test_hvac import connect

CLUSTER = People
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:hvac")


@pytest.fixture(scope="module")
def client(cluster):
    return connect(cluster.nodes[1], cluster.token)


def test_entities_and_their_aliases(cluster, client):
    identity, accessor = client.secrets.identity, cluster.accessors["userpass"]
    id = identity.create_or_update_entity("hvac-one", metadata={"k": "v"}, policies="p")["data"]["id"]
    identity.update_entity(id, name="hvac-two", disabled=False)
    assert identity.read_entity(id)["data"]["name"] == "hvac-two"
    assert identity.read_entity_by_name("HVAC-two")["data"]["id"] == id
    identity.create_or_update_entity_by_name("hvac-two", metadata={"a": "b"})
    assert id in identity.list_entities()["data"]["keys"]
    assert "hvac-two" in identity.list_entities_by_name()["data"]["keys"]
    alias = identity.create_or_update_entity_alias("hvac-name", id, accessor)["data"]["id"]
    assert identity.read_entity_alias(alias)["data"]["canonical_id"] == id
    identity.update_entity_alias(alias, "hvac-name-2", id, accessor)
    assert alias in identity.list_entity_aliases()["data"]["keys"]
    assert identity.lookup_entity(alias_name="hvac-name-2", alias_mount_accessor=accessor)["data"]["id"] == id
    other = identity.create_or_update_entity("hvac-other")["data"]["id"]
    identity.merge_entities(other, id)
    identity.delete_entity_alias(alias)
    identity.delete_entity(id)
    with pytest.raises(exceptions.InvalidPath):
        identity.read_entity_by_name("hvac-two")


def test_groups_and_their_aliases(cluster, client):
    identity, accessor = client.secrets.identity, cluster.accessors["userpass"]
    entity = identity.create_or_update_entity("hvac-member")["data"]["id"]
    group = identity.create_or_update_group("hvac-group", policies="p", member_entity_ids=[entity])["data"]["id"]
    identity.update_group(group, name="hvac-group-2", member_entity_ids=[entity])
    assert identity.read_group(group)["data"]["member_entity_ids"] == [entity]
    assert identity.read_group_by_name("hvac-group-2")["data"]["id"] == group
    identity.create_or_update_group_by_name("hvac-group-2", policies="q")
    assert group in identity.list_groups()["data"]["keys"]
    assert "hvac-group-2" in identity.list_groups_by_name()["data"]["keys"]
    assert identity.lookup_group(name="hvac-group-2")["data"]["id"] == group
    outside = identity.create_or_update_group("hvac-outside", group_type="external")["data"]["id"]
    alias = identity.create_or_update_group_alias("hvac-alias", mount_accessor=accessor, canonical_id=outside)
    alias = alias["data"]["id"]
    assert identity.read_group_alias(alias)["data"]["canonical_id"] == outside
    assert alias in identity.list_group_aliases()["data"]["keys"]
    identity.delete_group_alias(alias)
    identity.delete_group(outside)
    identity.delete_group_by_name("hvac-group-2")
    identity.delete_entity(entity)


def test_userpass(cluster, client):
    userpass = client.auth.userpass
    userpass.create_or_update_user("hvac", password="a password", policies="p", token_ttl="5m")
    assert "hvac" in userpass.list_user()["data"]["keys"]
    assert userpass.read_user("hvac")["data"]["token_policies"] == ["p"]
    userpass.update_password_on_user("hvac", "another one")
    person = connect(cluster.nodes[2])
    with pytest.raises(exceptions.InvalidRequest):
        person.auth.userpass.login("hvac", "a password")
    got = person.auth.userpass.login("hvac", "another one")
    assert got["auth"]["lease_duration"] == 300 and person.is_authenticated()
    person.logout(revoke_token=True)
    userpass.delete_user("hvac")


def test_approle(cluster, client):
    approle = client.auth.approle
    approle.create_or_update_approle("hvac", token_policies=["p"], token_ttl="5m", secret_id_num_uses=4)
    assert "hvac" in approle.list_roles()["data"]["keys"]
    assert approle.read_role("hvac")["data"]["token_policies"] == ["p"]
    approle.update_role_id("hvac", "hvac-role-id")
    role_id = approle.read_role_id("hvac")["data"]["role_id"]
    made = approle.generate_secret_id("hvac", metadata={"app": "x"}, cidr_list=["127.0.0.0/8"])["data"]
    machine = connect(cluster.nodes[0])
    got = machine.auth.approle.login(role_id, made["secret_id"])
    assert got["auth"]["metadata"] == {"role_name": "hvac", "app": "x"} and machine.is_authenticated()
    chosen = approle.create_custom_secret_id("hvac", "a chosen secret id")["data"]
    assert approle.read_secret_id("hvac", "a chosen secret id")["data"]["secret_id_num_uses"] == 4
    assert len(approle.list_secret_id_accessors("hvac")["data"]["keys"]) == 2
    assert approle.read_secret_id_accessor("hvac", made["secret_id_accessor"])["data"]["secret_id_num_uses"] == 3
    approle.destroy_secret_id("hvac", made["secret_id"])
    approle.destroy_secret_id_accessor("hvac", chosen["secret_id_accessor"])
    wrapped = approle.generate_secret_id("hvac", wrap_ttl="60s")["wrap_info"]
    fresh = connect(cluster.nodes[0], wrapped["token"]).sys.unwrap()
    assert fresh["data"]["secret_id_accessor"] == wrapped["wrapped_accessor"]
    approle.delete_role("hvac")
