"""The auth method userpass on three nodes."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from commands import Cli
from people import People, call, login, read, user, write

CLUSTER = People


def test_user_is_created_read_changed_and_deleted(cluster):
    one, two, three = cluster.nodes
    user(one, "Olga", token_policies=["a", "b"], token_ttl="1h", token_bound_cidrs="127.0.0.0/8")
    got = read(two, "auth/userpass/users/olga")
    assert got["token_policies"] == ["a", "b"] and got["token_ttl"] == 3600
    assert not any("password" in field for field in got)
    write(three, "auth/userpass/users/OLGA", {"token_max_ttl": 7200})
    got = read(one, "auth/userpass/users/olga")
    assert got["token_ttl"] == 3600 and got["token_max_ttl"] == 7200
    assert call(one, "LIST", "auth/userpass/users", status=200).data["keys"] == ["olga"]
    call(one, "DELETE", "auth/userpass/users/olga", status=204)
    call(one, "DELETE", "auth/userpass/users/olga", status=204)
    call(two, "GET", "auth/userpass/users/olga", status=404)
    call(two, "LIST", "auth/userpass/users", status=404)


def test_login_gives_a_whole_reply_on_every_node(cluster):
    user(cluster.nodes[0], "Nina", policies="old,names", ttl=600)
    for node in cluster.nodes:
        got = login(node, "NINA")
        assert got["metadata"] == {"username": "nina"} and got["lease_duration"] == 600
        assert got["token_policies"] == ["default", "names", "old"] and got["orphan"] is True
        assert got["renewable"] is True and got["token_type"] == "service" and got["entity_id"]
        assert got["mfa_requirement"] is None and got["num_uses"] == 0 and got["accessor"]
        look = read(node, "auth/token/lookup-self", got["client_token"])
        assert look["display_name"] == "userpass-nina" and look["path"] == "auth/userpass/login/NINA"
        assert look["entity_id"] == got["entity_id"]


@pytest.mark.parametrize("name,body,error", [
    ("anna", {}, "missing password"),
    ("anna", {"password": ""}, "missing password"),
    ("anna", {"password": "wrong"}, "invalid username or password"),
    ("anna", {"password": "x" * 4000}, "invalid username or password"),
    ("nobody", {"password": "wrong"}, "invalid username or password"),
])
def test_bad_login_is_refused(cluster, name, body, error):
    user(cluster.nodes[0], "anna")
    call(cluster.nodes[1], "POST", f"auth/userpass/login/{name}", body, 400, error, token="")


@pytest.mark.parametrize("body,error", [
    ({}, "missing password"),
    ({"password": "x" * 1025}, "password: longer than 1024"),
    ({"password": "a", "password_hash": "b"}, "not both"),
    ({"password_hash": "$1$abc$def"}, "cannot be checked"),
    ({"password_hash": "$argon2id$v=19$m=4194304,t=2,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA"}, "cannot be checked"),
    ({"password": "a", "token_ttl": "2h", "token_max_ttl": "1h"}, "token_ttl"),
    ({"password": "a", "token_bound_cidrs": "nonsense"}, "token_bound_cidrs"),
    ({"password": "a", "token_type": "odd"}, "token_type"),
    ({"password": "a", "token_num_uses": -1}, "token_num_uses"),
])
def test_bad_field_of_a_user_is_refused_by_name(cluster, body, error):
    write(cluster.nodes[2], "auth/userpass/users/bad", body, 400, error)
    call(cluster.nodes[2], "GET", "auth/userpass/users/bad", status=404)


def test_password_and_policies_have_paths_of_their_own(cluster):
    one, two, three = cluster.nodes
    user(one, "self", token_policies="x")
    write(two, "auth/userpass/users/self/password", {"password": "new one"})
    login(three, "self", status=400, error="invalid")
    write(two, "auth/userpass/users/self/policies", {"token_policies": "y"})
    assert login(three, "self", password="new one")["token_policies"] == ["default", "y"]
    write(two, "auth/userpass/users/self/policies", {"policies": "z"})
    assert login(three, "self", password="new one")["token_policies"] == ["default", "z"]
    write(one, "auth/userpass/users/self/password", {}, 400, "missing password")
    write(one, "auth/userpass/users/nobody/password", {"password": "x"}, 400, "does not exist")
    write(one, "auth/userpass/users/nobody/policies", {"policies": "x"}, 400, "does not exist")


def test_bcrypt_hash_is_taken_and_made_anew_at_login(cluster):
    # made by htpasswd -bnBC 5 "" secret; a bcrypt text of another tool
    text = "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
    write(cluster.nodes[0], "auth/userpass/users/moved", {"password_hash": text})
    login(cluster.nodes[1], "moved", password="U*", status=400)
    for _ in range(2):
        login(cluster.nodes[1], "moved", password="U*U")


def test_root_policy_is_refused(cluster):
    user(cluster.nodes[0], "king", token_policies="root")
    login(cluster.nodes[0], "king", status=400, error="root")


def test_renewal_reads_the_user_again(cluster):
    one, two, three = cluster.nodes
    user(one, "renews", token_ttl="10m", token_max_ttl="1h")
    got = login(one, "renews")
    write(one, "auth/userpass/users/renews", {"token_explicit_max_ttl": "5m"})
    renewed = call(two, "POST", "auth/token/renew-self", {}, 200, token=got["client_token"]).json["auth"]
    assert renewed["lease_duration"] <= 300
    call(one, "DELETE", "auth/userpass/users/renews", status=204)
    call(three, "POST", "auth/token/renew-self", {}, 400, "user", token=got["client_token"])


def test_addresses_and_uses_of_the_user_bind_its_tokens(cluster):
    one, two, three = cluster.nodes
    user(one, "far", token_bound_cidrs="10.9.8.7/32")
    login(two, "far", status=403)
    user(one, "once", token_num_uses=1)
    token = login(two, "once")["client_token"]
    read(cluster.active(), "auth/token/lookup-self", token)
    call(three, "GET", "auth/token/lookup-self", status=403, token=token)


def test_reply_is_wrapped_when_asked(cluster):
    user(cluster.nodes[0], "wraps")
    answer = call(cluster.nodes[1], "POST", "auth/userpass/login/wraps", {"password": "correct horse"}, 200,
                  token="", headers={"X-Vault-Wrap-TTL": "60"})
    wrap = answer.json["wrap_info"]
    assert answer.json["auth"] is None and wrap["wrapped_accessor"]
    got = call(cluster.nodes[2], "POST", "sys/wrapping/unwrap", {}, 200, token=wrap["token"]).json["auth"]
    assert got["accessor"] == wrap["wrapped_accessor"]


def test_disabled_method_ends_its_tokens_and_a_new_one_makes_new_entities(cluster):
    one, two, three = cluster.nodes
    write(one, "sys/auth/brief", {"type": "userpass"})
    user(one, "brief", "brief")
    got = login(two, "brief", "brief")
    call(one, "DELETE", "sys/auth/brief", status=204)
    call(three, "GET", "auth/token/lookup-self", status=403, token=got["client_token"])
    write(one, "sys/auth/brief", {"type": "userpass"})
    login(two, "brief", "brief", status=400)
    user(one, "brief", "brief")
    assert login(two, "brief", "brief")["entity_id"] != got["entity_id"]


def test_moved_method_keeps_users_and_entities(cluster):
    one, two, three = cluster.nodes
    write(one, "sys/auth/here", {"type": "userpass"})
    user(one, "mover", "here")
    before = login(one, "mover", "here")
    for body in ({"from": "auth/here", "to": "here"}, {"from": "auth/here", "to": "auth/token"},
                 {"from": "auth/token", "to": "auth/there"}, {"from": "auth/here", "to": "auth/a*"}):
        write(one, "sys/remount", body, 400)
    write(one, "sys/remount", {"from": "auth/here", "to": "auth/there"}, 200)
    call(three, "GET", "auth/token/lookup-self", status=403, token=before["client_token"])
    after = login(two, "mover", "there")
    assert after["entity_id"] == before["entity_id"]
    assert read(three, "identity/entity/id/" + after["entity_id"])["aliases"][0]["mount_path"] == "auth/there/"


def test_logins_at_once_make_one_token_each(cluster):
    user(cluster.nodes[0], "crowd")
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda i: login(cluster.nodes[i % 3], "crowd"), range(24)))
    assert len({got["client_token"] for got in answers}) == 24
    assert len({got["entity_id"] for got in answers}) == 1


def test_command_line_logs_in(cluster, tmp_path):
    node = cluster.nodes[1]
    user(cluster.nodes[0], "shell")
    cli = Cli(cluster, tmp_path, node=1)
    done = cli("login", "-method=userpass", "-no-store", "-field=token", "username=shell",
               "password=correct horse", token="")
    assert read(node, "auth/token/lookup-self", done.stdout.strip())["display_name"] == "userpass-shell"
    cli("login", "-method=userpass", "-no-store", "username=shell", "password=wrong", token="", code=2)
