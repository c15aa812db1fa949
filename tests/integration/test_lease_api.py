"""The paths of leases and quotas, on three real nodes: the build with tests/unit/sample lends
lamps. Requests go to every node in turn, so most of them are forwarded by a standby."""

import itertools
import os
import pathlib
import subprocess
import threading

import hvac
import pytest

from cluster import HOLDFAST, Cluster
from test_hvac import connect

PROGRAM = str(pathlib.Path(HOLDFAST).with_name("holdfast-sample"))
EVERYTHING = 'path "*" { capabilities = ["create", "read", "update", "delete", "list", "sudo"] }'
USER = 'path "*" { capabilities = ["create", "read", "update", "delete", "list"] }'


class SampleCluster(Cluster):
    recorded = False  # the document of the API has no lamp

    def any(self):
        """The nodes in turn."""
        if not hasattr(self, "turn"):
            self.turn = itertools.cycle(self.nodes)
        return next(self.turn)

    def ask(self, method, path, body=None, status=200, **more):
        answer = self.any().call(method, f"/v1/{path}", body, **more)
        assert answer.status == status, (path, answer.status, answer.body)
        return answer

    def refused(self, method, path, body=None, status=400, **more):
        return self.ask(method, path, body, status, **more).json["errors"]

    def take(self, name, token, mount="lamp", **body):
        return self.ask("POST", f"{mount}/take/{name}", {"ttl": "10m", **body}, token=token).json

    def burns(self, name, mount="lamp"):
        return self.any().call("GET", f"/v1/{mount}/take/{name}").status == 200


@pytest.fixture(scope="module")
def cluster():
    with SampleCluster(program=PROGRAM) as made:
        made.ask("POST", "sys/mounts/lamp", {"type": "lamp"}, 204)
        made.ask("PUT", "sys/policies/acl/user", {"policy": USER}, 204)
        made.ask("PUT", "sys/policies/acl/sudo", {"policy": EVERYTHING}, 204)
        made.await_feature_level()  # leases of engines need it
        yield made


@pytest.fixture()
def user(cluster):
    """A token without sudo; the leases of a test end with it."""
    token = cluster.ask("POST", "auth/token/create-orphan", {"policies": ["user"]}).json["auth"]["client_token"]
    yield token
    cluster.ask("POST", "auth/token/revoke", {"token": token}, 204)
    cluster.ask("PUT", "sys/leases/revoke-prefix/lamp", None, 204)


# Each operation at its present path and at upstream's older one.
RENEW = ["sys/leases/renew", "sys/renew"]
REVOKE = ["sys/leases/revoke", "sys/revoke"]
PREFIX = ["sys/leases/revoke-prefix", "sys/revoke-prefix"]
FORCE = ["sys/leases/revoke-force", "sys/revoke-force"]


def test_a_lease_is_looked_up(cluster, user):
    taken = cluster.take("red", user)
    lease = taken["lease_id"]
    assert lease.startswith("lamp/take/red/") and len(lease.rpartition("/")[2]) == 24
    assert taken["renewable"] is True and 590 < taken["lease_duration"] <= 600
    shown = cluster.ask("PUT", "sys/leases/lookup", {"lease_id": lease}, token=user).data
    assert set(shown) == {"id", "issue_time", "expire_time", "last_renewal", "renewable", "ttl"}
    assert shown["id"] == lease and shown["last_renewal"] is None and shown["renewable"] is True
    assert 0 < shown["ttl"] <= 600 and shown["issue_time"] < shown["expire_time"]
    assert cluster.ask("LIST", "sys/leases/lookup/lamp/take").data["keys"] == ["red/"]
    assert cluster.ask("GET", "sys/leases/lookup/lamp/take/red/?list=true").data["keys"] == [
        lease.rpartition("/")[2]]
    cluster.refused("LIST", "sys/leases/lookup/lamp", None, 403, token=user)  # sudo
    assert {"lease_id": lease} in cluster.ask("LIST", "sys/leases").data["leases"]
    cluster.refused("LIST", "sys/leases", None, 403, token=user)
    for unknown in ("lamp/take/red/none", "none", lease + "x", lease[:-1], "/" + lease, "a" * 5000):
        assert cluster.refused("PUT", "sys/leases/lookup", {"lease_id": unknown}) == ["invalid lease"]
    assert "lease_id" in cluster.refused("PUT", "sys/leases/lookup", {})[0]


@pytest.mark.parametrize("path", RENEW)
def test_a_lease_is_renewed(cluster, user, path):
    lease = cluster.take("red", user)["lease_id"]
    renewed = cluster.ask("PUT", path, {"lease_id": lease, "increment": 1200}, token=user).json
    assert renewed["lease_id"] == lease and renewed["renewable"] is True and renewed["data"] is None
    assert 1190 < renewed["lease_duration"] <= 1200 and renewed["warnings"] is None
    renewed = cluster.ask("PUT", f"{path}/{lease}", {"increment": "20s"}, token=user).json
    assert renewed["lease_id"] == lease and 10 < renewed["lease_duration"] <= 20
    assert cluster.ask("PUT", "sys/leases/lookup", {"lease_id": lease}).data["last_renewal"] is not None
    for unknown in ("none", lease + "x"):
        assert cluster.refused("PUT", path, {"lease_id": unknown}) == ["lease not found"]
    assert "increment" in cluster.refused("PUT", path, {"lease_id": lease, "increment": "soon"})[0]
    token = cluster.ask("POST", "auth/token/create", {"ttl": "1h"}).json["auth"]["client_token"]
    (name,) = [n for n in cluster.ask("LIST", "sys/leases/lookup/auth/token/create").data["keys"]]
    assert "auth/token/renew" in cluster.refused("PUT", path, {"lease_id": f"auth/token/create/{name}"})[0]
    cluster.ask("POST", "auth/token/revoke", {"token": token}, 204)


def test_a_renewal_names_the_limit_that_cut_it(cluster, user):
    lease = cluster.take("red", user)["lease_id"]
    for limit in (None, 3600):
        if limit is not None:
            cluster.ask("POST", "sys/mounts/lamp/tune", {"max_lease_ttl": limit}, 204)
        renewed = cluster.ask("PUT", "sys/leases/renew", {"lease_id": lease, "increment": "9000h"}, token=user).json
        longest = limit or 768 * 3600
        assert longest - 60 < renewed["lease_duration"] <= longest, renewed  # counted from the issue
        assert len(renewed["warnings"]) == 1 and f'"{longest // 3600}h"' in renewed["warnings"][0], renewed
    cluster.ask("POST", "sys/mounts/lamp/tune", {"max_lease_ttl": 0}, 204)


@pytest.mark.parametrize("path", REVOKE)
def test_a_lease_is_revoked(cluster, user, path):
    for body, status in (({}, 204), ({"sync": True}, 204), ({"sync": False}, 202)):
        lease = cluster.take("red", user)["lease_id"]
        assert cluster.burns("red")
        cluster.ask("PUT", path, {"lease_id": lease, **body}, status, token=user)
        assert not cluster.burns("red")
        cluster.ask("PUT", f"{path}/{lease}", body, status, token=user)  # unknown: no error
        assert cluster.refused("PUT", "sys/leases/lookup", {"lease_id": lease}) == ["invalid lease"]
    assert "lease_id" in cluster.refused("PUT", path, {})[0]


@pytest.mark.parametrize("path", PREFIX + FORCE)
def test_leases_below_a_path_are_revoked(cluster, user, path):
    cluster.take("red", user), cluster.take("reddish", user), cluster.take("blue", user)
    cluster.refused("PUT", f"{path}/lamp/take/red", None, 403, token=user)
    cluster.ask("PUT", f"{path}/lamp/take/red", None, 204)
    assert [cluster.burns(name) for name in ("red", "reddish", "blue")] == [False, True, True]
    cluster.ask("PUT", f"{path}/lamp", {"sync": True}, 204)
    assert not any(cluster.burns(name) for name in ("red", "reddish", "blue"))
    cluster.ask("PUT", f"{path}/lamp/none", None, 204)
    cluster.ask("PUT", f"{path}/lamp", {"sync": False}, 202)
    assert "prefix" in cluster.refused("PUT", path, {})[0]



def test_leases_are_counted(cluster, user):
    # Mounts with paths that begin alike, and an auth method below a folder.
    for mount in ("lamps/a", "lamps/ab", "lampsother"):
        cluster.ask("POST", f"sys/mounts/{mount}", {"type": "lamp"}, 204)
    for method in ("team/words", "team/words2"):
        cluster.ask("POST", f"sys/auth/{method}", {"type": "sample"}, 204)
        cluster.ask("POST", f"auth/{method}/users/ann", {"word": "x"}, 204)
        cluster.ask("POST", f"auth/{method}/login/ann", {"word": "x"}, token="")
    before = cluster.ask("GET", "sys/leases/count").data
    for mount in ("lamps/a", "lamps/ab", "lampsother", "lamp"):
        cluster.take("red", user, mount)
        cluster.take("blue", user, mount)
    for node in cluster.nodes:
        node.call("GET", "/v1/kv/none")  # a confirmed read: what comes next sees the leases
        counted = node.call("GET", "/v1/sys/leases/count").data
        have = {mount: counted["counts"][mount] for mount in
                ("lamps/a/", "lamps/ab/", "lampsother/", "lamp/", "auth/team/words/", "auth/team/words2/")}
        assert have == dict.fromkeys(("lamps/a/", "lamps/ab/", "lampsother/", "lamp/"), 2) | {
            "auth/team/words/": 1, "auth/team/words2/": 1}
        assert sum(counted["counts"].values()) == counted["lease_count"] == before["lease_count"] + 8
        assert counted["namespaces"] == {"root": counted["lease_count"]}
        assert "creators" not in counted
    none = cluster.ask("GET", "sys/leases/count?type=irrevocable").data
    assert (none["counts"], none["lease_count"]) == ({}, 0)
    assert "type" in cluster.refused("GET", "sys/leases/count?type=other")[0]
    cluster.refused("GET", "sys/leases/count", None, 403, token=user)
    for mount in ("lamps/a", "lamps/ab", "lampsother", "auth/team/words", "auth/team/words2"):
        cluster.ask("DELETE", f"sys/{'' if 'auth' in mount else 'mounts/'}{mount}", None, 204)
    assert cluster.ask("GET", "sys/leases/count").data["counts"].keys() <= {"lamp/", "auth/token/"}


def test_the_largest_creators_are_named(cluster, user):
    made = {}
    for n in range(1, 13):
        auth = cluster.ask("POST", "auth/token/create-orphan",
                           {"policies": ["user"], "display_name": f"n{n}"}).json["auth"]
        made[auth["accessor"]] = n
        for i in range(n):
            cluster.take(f"lamp{n}-{i}", auth["client_token"])
    counted = cluster.ask("GET", "sys/leases/count?creators=true").data
    assert counted["creators_exact"] is True
    assert [row["lease_count"] for row in counted["creators"]] == list(range(12, 2, -1))
    assert [made[row["accessor"]] for row in counted["creators"]] == list(range(12, 2, -1))
    assert [row["display_name"] for row in counted["creators"]] == [f"token-n{n}" for n in range(12, 2, -1)]
    for accessor in made:
        cluster.ask("POST", "auth/token/revoke-accessor", {"accessor": accessor}, 204)


def test_tidy_says_that_there_is_nothing_to_do(cluster, user):
    answer = cluster.ask("POST", "sys/leases/tidy", None, 202)
    assert "Nothing to do" in answer.json["warnings"][0]
    cluster.refused("POST", "sys/leases/tidy", None, 403, token=user)


def test_the_command_line_renews_and_revokes(cluster, user, tmp_path):
    env = {"HOME": str(tmp_path), "HOLDFAST_ADDR": cluster.any().url, "HOLDFAST_TOKEN": cluster.token,
           "HOLDFAST_CACERT": str(cluster.dir / "tls" / "tls-ca.pem"), "PATH": os.environ["PATH"]}

    def run(*args):
        return subprocess.run([PROGRAM, "lease", *args], env=env, capture_output=True, text=True,
                              timeout=60, check=True)

    lease = cluster.take("red", user)["lease_id"]
    renewed = run("renew", "-increment=20m", lease).stdout.splitlines()
    assert [line.split() for line in renewed[2:]] == [
        ["lease_id", lease], ["lease_duration", "20m0s"], ["lease_renewable", "true"]]
    assert run("renew", "-increment=90", "-field=lease_duration", lease).stdout == "1m30s"
    assert run("lookup", "-field=id", lease).stdout == lease
    assert run("revoke", "-sync", lease).stdout == f"Success! Revoked lease: {lease}\n"
    assert not cluster.burns("red")
    # More leases than one request ends: the command waits for all of them.
    taken = cluster.ask("POST", "lamp/take/many", {"count": 1000}, token=user).data["leases"]
    cluster.take("red", user)
    assert run("revoke", "-prefix", "-sync", "lamp").stdout.startswith("Success! Revoked any leases")
    assert "lamp/" not in cluster.ask("GET", "sys/leases/count").data["counts"], len(taken)
    assert not cluster.burns("many.999")


# Quotas

QUOTA = "sys/quotas/lease-count"
FULL = 'request path "lamp/take/%s": lease count quota exceeded'


@pytest.fixture()
def quota(cluster, user):
    yield lambda name, **body: cluster.ask("POST", f"{QUOTA}/{name}", body, 204)
    answer = cluster.any().call("LIST", f"/v1/{QUOTA}")
    for name in answer.data["keys"] if answer.status == 200 else ():
        cluster.ask("DELETE", f"{QUOTA}/{name}", None, 204)


def test_a_quota_is_written_read_and_deleted(cluster, user, quota):
    quota("lamps", path="lamp", max_leases=3)
    cluster.take("red", user)
    assert cluster.ask("GET", f"{QUOTA}/lamps").data == {
        "name": "lamps", "type": "lease-count", "path": "lamp/", "max_leases": 3, "counter": 1, "role": "",
        "inheritable": False}
    assert cluster.ask("LIST", QUOTA).data["keys"] == ["lamps"]
    cluster.ask("DELETE", f"{QUOTA}/lamps", None, 204)
    cluster.refused("GET", f"{QUOTA}/lamps", None, 404)
    cluster.refused("LIST", QUOTA, None, 404)
    for body in ({}, {"max_leases": 0}, {"max_leases": "x"}, {"max_leases": 1, "path": "none/"},
                 {"max_leases": 1, "role": "r", "path": "auth/token"}):
        cluster.refused("POST", f"{QUOTA}/bad", body)


def test_a_lease_too_many_is_refused_on_every_node(cluster, user, quota):
    quota("lamps", path="lamp/", max_leases=2)
    first = cluster.take("red", user)["lease_id"]
    cluster.take("blue", user)
    for node in cluster.nodes:
        answer = node.call("POST", "/v1/lamp/take/green", {}, token=user)
        assert (answer.status, answer.json["errors"]) == (429, [FULL % "green"])
    wrapped = cluster.any().call("POST", "/v1/lamp/take/green", {}, token=user, headers={"X-Vault-Wrap-TTL": "60"})
    assert wrapped.status == 429
    cluster.ask("PUT", "sys/leases/renew", {"lease_id": first}, token=user)
    assert cluster.ask("POST", "lamp/take/root", {}).json["lease_id"]  # root is exempt
    assert cluster.ask("GET", f"{QUOTA}/lamps").data["counter"] == 3
    cluster.ask("PUT", "sys/leases/revoke-prefix/lamp/take/root", None, 204)
    cluster.ask("PUT", "sys/leases/revoke", {"lease_id": first}, 204, token=user)
    cluster.take("green", user)
    cluster.refused("POST", "lamp/take/red", {}, 429, token=user)


def test_logins_and_new_tokens_count(cluster, user, quota):
    cluster.ask("POST", "sys/auth/words", {"type": "sample"}, 204)
    cluster.ask("POST", "auth/words/users/ann", {"word": "x"}, 204)
    quota("words", path="auth/words/", max_leases=1)
    cluster.ask("POST", "auth/words/login/ann", {"word": "x"}, token="")
    assert cluster.refused("POST", "auth/words/login/ann", {"word": "x"}, 429, token="") == [
        'request path "auth/words/login/ann": lease count quota exceeded']
    cluster.refused("POST", "auth/words/login/ann", {"word": "wrong"}, 400, token="")
    counter = cluster.ask("GET", "sys/leases/count").data["counts"]["auth/token/"]
    quota("tokens", path="auth/token/", max_leases=counter)
    cluster.refused("POST", "auth/token/create", {}, 429, token=user)
    cluster.refused("POST", "auth/token/create", {"type": "batch"}, 429, token=user)
    cluster.ask("POST", "auth/token/renew-self", {}, token=user)
    cluster.ask("DELETE", "sys/auth/words", None, 204)


def test_clients_in_parallel_do_not_exceed_a_quota(cluster, user, quota):
    quota("lamps", path="lamp/", max_leases=10)
    answers = []

    def take(number):
        node = cluster.nodes[number % len(cluster.nodes)]
        answers.append(node.call("POST", f"/v1/lamp/take/l{number}", {}, token=user).status)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (answers.count(200), answers.count(429)) == (10, 30), answers
    assert cluster.ask("GET", f"{QUOTA}/lamps").data["counter"] == 10


def test_the_python_client_knows_every_path(cluster, user):
    node = cluster.any()
    client = connect(node, cluster.token)
    lease = client.write("lamp/take/red", ttl="10m")["lease_id"]
    assert client.sys.read_lease(lease)["data"]["id"] == lease
    assert client.sys.list_leases("lamp/take")["data"]["keys"] == ["red/"]
    assert 1190 < client.sys.renew_lease(lease, increment=1200)["lease_duration"] <= 1200
    assert client.sys.revoke_lease(lease).status_code == 204
    with pytest.raises(hvac.exceptions.InvalidRequest, match="lease not found"):
        client.sys.renew_lease(lease)
    for revoke in (client.sys.revoke_prefix, client.sys.revoke_force):
        client.write("lamp/take/red", ttl="10m")
        assert revoke("lamp/take").status_code == 204
        with pytest.raises(hvac.exceptions.InvalidPath):
            client.sys.list_leases("lamp/take")
    client.write_data(QUOTA + "/q", data={"path": "lamp", "max_leases": 7})
    assert client.read(QUOTA + "/q")["data"]["max_leases"] == 7
    assert client.list(QUOTA)["data"]["keys"] == ["q"]
    client.delete(QUOTA + "/q")
    assert client.read(QUOTA + "/q") is None
