"""The auth method approle on three nodes."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from commands import Cli
from people import People, call, read, write

CLUSTER = People
ROLE = "auth/approle/role/"


def role(node, name, **fields):
    write(node, ROLE + name, fields)
    return read(node, f"{ROLE}{name}/role-id")["role_id"]


def secret(node, name, **fields):
    return write(node, f"{ROLE}{name}/secret-id", fields, 200)


def enter(node, role_id, secret_id=None, status=200, error=None):
    body = {"role_id": role_id, **({"secret_id": secret_id} if secret_id else {})}
    answer = call(node, "POST", "auth/approle/login", body, status, error, token="")
    return answer.json["auth"] if status == 200 else answer


def test_role_is_created_read_changed_and_deleted(cluster):
    one, two, three = cluster.nodes
    id = role(one, "Build", token_policies="a,b", token_ttl="1h", secret_id_num_uses=3, secret_id_ttl="10m")
    got = read(two, ROLE + "build")
    assert got["token_policies"] == ["a", "b"] and got["token_ttl"] == 3600 and got["bind_secret_id"] is True
    assert got["secret_id_num_uses"] == 3 and got["secret_id_ttl"] == 600 and got["local_secret_ids"] is False
    assert got["secret_id_bound_cidrs"] == [] and got["token_type"] == "default" and "role_id" not in got
    write(three, ROLE + "BUILD", {"token_max_ttl": 7200})
    assert read(one, ROLE + "build")["token_ttl"] == 3600
    assert read(one, ROLE + "build/role-id")["role_id"] == id
    assert call(one, "LIST", "auth/approle/role", status=200).data["keys"] == ["build"]
    made = secret(one, "build")
    call(one, "DELETE", ROLE + "build", status=204)
    call(one, "DELETE", ROLE + "build", status=204)
    call(two, "GET", ROLE + "build", status=404)
    enter(two, id, made["secret_id"], 400, "invalid role or secret ID")
    assert role(one, "build") != id
    call(two, "LIST", ROLE + "build/secret-id", status=404)
    call(two, "DELETE", ROLE + "build", status=204)


def test_login_gives_a_whole_reply_on_every_node(cluster):
    id = role(cluster.nodes[0], "whole", token_policies="p", token_ttl=600)
    made = secret(cluster.nodes[0], "whole", metadata='{"app": "web", "role_name": "forged"}')
    for node in cluster.nodes:
        got = enter(node, id, made["secret_id"])
        assert got["metadata"] == {"app": "web", "role_name": "whole"} and got["lease_duration"] == 600
        assert got["token_policies"] == ["default", "p"] and got["orphan"] is True and got["entity_id"]
        look = read(node, "auth/token/lookup-self", got["client_token"])
        assert look["display_name"] == "approle-" + id and look["meta"]["role_name"] == "whole"
    found = read(node, "identity/entity/id/" + got["entity_id"])["aliases"]
    assert [(alias["name"], alias["mount_type"]) for alias in found] == [(id, "approle")]
    assert found[0]["metadata"] == {"app": "web", "role_name": "whole"}


def test_uses_of_a_secret_id_are_counted_exactly_in_the_cluster(cluster):
    id = role(cluster.nodes[0], "counted", secret_id_num_uses=5)
    made = secret(cluster.nodes[1], "counted")
    assert made["secret_id_num_uses"] == 5

    def attempt(i):
        body = {"role_id": id, "secret_id": made["secret_id"]}
        return call(cluster.nodes[i % 3], "POST", "auth/approle/login", body, token="").status

    with ThreadPoolExecutor(12) as pool:
        got = sorted(pool.map(attempt, range(18)))
    assert got == [200] * 5 + [400] * 13
    call(cluster.nodes[2], "LIST", ROLE + "counted/secret-id", status=404)


def test_login_that_fails_takes_no_use(cluster):
    one = cluster.nodes[0]
    id = role(one, "kept", token_policies="root")
    made = secret(one, "kept", num_uses=1)
    enter(one, id, made["secret_id"], 400, "root")
    write(one, ROLE + "kept", {"token_policies": "p"})
    enter(one, id, made["secret_id"])
    enter(one, id, made["secret_id"], 400, "invalid role or secret ID")


def test_secret_id_ends_by_time(cluster):
    one, two, three = cluster.nodes
    id = role(one, "brief", secret_id_ttl="1s")
    made = secret(one, "brief")
    assert made["secret_id_ttl"] == 1
    deadline = time.monotonic() + 30
    while call(two, "POST", "auth/approle/login", {"role_id": id, "secret_id": made["secret_id"]}, token="").status == 200:
        assert time.monotonic() < deadline
    write(three, ROLE + "brief/secret-id/lookup", {"secret_id": made["secret_id"]}, 204)
    assert call(one, "LIST", ROLE + "brief/secret-id", status=200).data["keys"] == [made["secret_id_accessor"]]
    call(one, "POST", "auth/approle/tidy/secret-id", {}, status=202)
    call(one, "LIST", ROLE + "brief/secret-id", status=404)


def test_secret_ids_are_looked_up_listed_and_destroyed(cluster):
    one, two, three = cluster.nodes
    id = role(one, "looked")
    first, second = secret(one, "looked", metadata={"k": "v"}), secret(one, "looked", ttl="1h", num_uses=9)
    by_secret, by_accessor = ROLE + "looked/secret-id/", ROLE + "looked/secret-id-accessor/"
    got = write(two, by_secret + "lookup", {"secret_id": first["secret_id"]}, 200)
    assert got["metadata"] == {"k": "v"} and got["secret_id_accessor"] == first["secret_id_accessor"]
    got = write(two, by_accessor + "lookup", {"secret_id_accessor": second["secret_id_accessor"]}, 200)
    assert got["secret_id_num_uses"] == 9 and got["secret_id_ttl"] == 3600 and got["expiration_time"]
    listed = call(three, "LIST", ROLE + "looked/secret-id", status=200).data["keys"]
    assert sorted(listed) == sorted(made["secret_id_accessor"] for made in (first, second))
    write(one, by_secret + "destroy", {"secret_id": first["secret_id"]})
    write(one, by_secret + "destroy", {"secret_id": first["secret_id"]})
    write(one, by_accessor + "destroy", {"secret_id_accessor": second["secret_id_accessor"]})
    write(one, by_secret + "lookup", {"secret_id": first["secret_id"]}, 204)
    write(one, by_accessor + "lookup", {"secret_id_accessor": second["secret_id_accessor"]}, 404)
    for made in (first, second):
        enter(two, id, made["secret_id"], 400)
    third, fourth = secret(one, "looked"), secret(one, "looked")
    call(one, "DELETE", f"{by_secret}destroy?secret_id={third['secret_id']}", status=204)
    call(one, "DELETE", f"{by_accessor}destroy?secret_id_accessor={fourth['secret_id_accessor']}", status=204)
    for made in (third, fourth):
        enter(two, id, made["secret_id"], 400)


def test_ids_can_be_chosen(cluster):
    one, two, three = cluster.nodes
    role(one, "own", role_id="the-id")
    made = write(one, ROLE + "own/custom-secret-id", {"secret_id": "chosen by a client/1"}, 200)
    assert made["secret_id"] == "chosen by a client/1"
    enter(two, "the-id", "chosen by a client/1")
    write(one, ROLE + "own/custom-secret-id", {"secret_id": "chosen by a client/1"}, 400, "already registered")
    write(one, ROLE + "own/role-id", {"role_id": "another"})
    enter(two, "the-id", "chosen by a client/1", 400)
    enter(three, "another", "chosen by a client/1")
    write(one, ROLE + "other", {"role_id": "another"}, 400, "role_id already in use")


@pytest.mark.parametrize("path,body,status,error", [
    ("role/bad", {"bind_secret_id": False}, 400, "at least one constraint"),
    ("role/bad", {"secret_id_num_uses": -1}, 400, "secret_id_num_uses"),
    ("role/bad", {"secret_id_bound_cidrs": "nonsense"}, 400, "secret_id_bound_cidrs"),
    ("role/bad", {"token_ttl": "x"}, 400, "token_ttl"),
    ("role/bad", {"role_id": "x" * 600}, 400, "role_id"),
    ("role/limits/secret-id", {"num_uses": 4}, 400, "num_uses"),
    ("role/limits/secret-id", {"num_uses": 0}, 400, "num_uses"),
    ("role/limits/secret-id", {"ttl": "2h"}, 400, "ttl"),
    ("role/limits/secret-id", {"metadata": "no json"}, 400, "metadata"),
    ("role/limits/secret-id", {"metadata": {"a": {}}}, 400, "metadata"),
    ("role/limits/secret-id", {"cidr_list": "10.0.0.0/7"}, 400, "cidr_list"),
    ("role/limits/custom-secret-id", {}, 400, "missing secret_id"),
    ("role/limits/secret-id/lookup", {}, 400, "missing secret_id"),
    ("role/limits/local-secret-ids", {"local_secret_ids": True}, 405, "unsupported"),
    ("role/limits", {"local_secret_ids": True}, 400, "creation"),
    ("role/limits/token-ttl", {}, 400, "missing token_ttl"),
    ("role/limits/nothing", {"token_ttl": 1}, 404, ""),
    ("role/nothing/secret-id", {}, 404, "does not exist"),
    ("login", {}, 400, "missing role_id"),
    ("login", {"role_id": "x", "secret_id": "y"}, 400, "invalid role or secret ID"),
])
def test_bad_field_is_refused_by_name(cluster, path, body, status, error):
    role(cluster.nodes[0], "limits", secret_id_num_uses=3, secret_id_ttl="1h", secret_id_bound_cidrs="10.0.0.0/8")
    write(cluster.nodes[1], "auth/approle/" + path, body, status, error)


@pytest.mark.parametrize("path,name,value,fresh", [
    ("policies", "token_policies", ["x"], []),
    ("bind-secret-id", "bind_secret_id", False, True),
    ("secret-id-bound-cidrs", "secret_id_bound_cidrs", ["127.0.0.0/8"], []),
    ("bound-cidr-list", "bound_cidr_list", ["127.0.0.0/8"], []),
    ("secret-id-num-uses", "secret_id_num_uses", 7, 0),
    ("secret-id-ttl", "secret_id_ttl", 70, 0),
    ("token-ttl", "token_ttl", 60, 0),
    ("token-max-ttl", "token_max_ttl", 90, 0),
    ("token-num-uses", "token_num_uses", 5, 0),
    ("token-bound-cidrs", "token_bound_cidrs", ["10.0.0.0/8"], []),
    ("period", "token_period", 30, 0),
    ("token-period", "token_period", 30, 0),
    ("token-explicit-max-ttl", "token_explicit_max_ttl", 50, 0),
    ("token-no-default-policy", "token_no_default_policy", True, False),
    ("token-type", "token_type", "service", ""),
])
def test_each_field_has_a_path_of_its_own(cluster, path, name, value, fresh):
    one, two, three = cluster.nodes
    role(one, "single", secret_id_bound_cidrs="127.0.0.1")
    at = f"{ROLE}single/{path}"
    write(one, at, {name: value})
    assert read(two, at)[name] == value
    call(three, "DELETE", at, status=204)
    assert read(one, at)[name] == fresh
    assert read(one, ROLE + "single/local-secret-ids") == {"local_secret_ids": False}
    call(one, "DELETE", ROLE + "single", status=204)
    call(two, "GET", at, status=404)


def test_addresses_bind_roles_and_secret_ids(cluster):
    one, two, three = cluster.nodes
    id = role(one, "near", secret_id_bound_cidrs="10.1.0.0/16")
    enter(two, id, secret(one, "near")["secret_id"], 400, "source address")
    id = role(one, "local")
    enter(two, id, secret(one, "local", cidr_list="10.1.2.3/32")["secret_id"], 400, "source address")
    got = enter(two, id, secret(one, "local", token_bound_cidrs="127.0.0.0/8")["secret_id"])
    assert read(one, "auth/token/lookup-self", got["client_token"])["bound_cidrs"] == ["127.0.0.0/8"]
    id = role(one, "open", bind_secret_id=False, secret_id_bound_cidrs="127.0.0.0/8")
    enter(three, id)


def test_secret_id_is_wrapped_with_its_accessor(cluster):
    role(cluster.nodes[0], "wrapped")
    answer = call(cluster.nodes[1], "POST", ROLE + "wrapped/secret-id", {}, 200, headers={"X-Vault-Wrap-TTL": "60"})
    wrap = answer.json["wrap_info"]
    got = call(cluster.nodes[2], "POST", "sys/wrapping/unwrap", {}, 200, token=wrap["token"]).data
    assert got["secret_id_accessor"] == wrap["wrapped_accessor"]


def test_batch_tokens_and_renewals_follow_the_role(cluster):
    one, two, three = cluster.nodes
    id = role(one, "batch", token_type="batch")
    assert enter(two, id, secret(one, "batch")["secret_id"])["client_token"].startswith("hvb.")
    id = role(one, "renews", token_ttl="10m", token_period="20m")
    token = enter(two, id, secret(one, "renews")["secret_id"])["client_token"]
    write(one, ROLE + "renews", {"token_period": "5m"})
    renewed = call(three, "POST", "auth/token/renew-self", {}, 200, token=token).json["auth"]
    assert renewed["lease_duration"] == 300
    call(one, "DELETE", ROLE + "renews", status=204)
    call(two, "POST", "auth/token/renew-self", {}, 400, "role", token=token)


def test_command_line_logs_in(cluster, tmp_path):
    id = role(cluster.nodes[0], "shell")
    made = secret(cluster.nodes[0], "shell")
    done = Cli(cluster, tmp_path, node=2)("login", "-method=approle", "-no-store", "-field=token", f"role_id={id}",
                                          f"secret_id={made['secret_id']}", token="")
    assert read(cluster.nodes[0], "auth/token/lookup-self", done.stdout.strip())["display_name"] == "approle-" + id
