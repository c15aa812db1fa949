"""Key shares: making them, unsealing with them, sealing on request, recovery, rotation."""

import base64
import datetime
import itertools
import time

import pytest

from cluster import PATIENCE_S, Cluster, Keyless

SHAMIR = {"seal": {"static": None, "shamir": {}}}


def unseal(node, key):
    answer = node.call("PUT", "/v1/sys/unseal", {"key": key}, token="")
    assert answer.status == 200, answer.body
    return answer.json


def refused(answer, *words, status=400):
    assert answer.status == status, answer.body
    text = answer.json["errors"][0]
    for word in words:
        assert word in text, text


class ShamirCluster(Cluster):
    """Initialised with 5 shares of which 3 unseal; still sealed."""

    shares, threshold = 5, 3

    def __init__(self):
        super().__init__(config=SHAMIR)

    def init(self):
        self.await_formed()
        refused(self.nodes[0].call("PUT", "/v1/sys/unseal", {"key": "00" * 33}, token=""),
                "not initialised")
        body = {"secret_shares": self.shares, "secret_threshold": self.threshold}
        answer = self.nodes[0].call("PUT", "/v1/sys/init", body)
        assert answer.status == 200, answer.body
        self.token = answer.json["root_token"]
        self.keys = answer.json["keys"]
        self.keys_base64 = answer.json["keys_base64"]
        self.await_health({503}, self.nodes)

    def await_seal(self, node):
        """A node that starts again learns from the others' log how it is sealed."""
        deadline = time.monotonic() + 120
        while node.call("GET", "/v1/sys/seal-status", token="").json["n"] != self.shares:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def open(self, node, keys=None):
        self.await_seal(node)
        for key in (keys or self.keys)[: self.threshold]:
            status = unseal(node, key)
        assert status["sealed"] is False
        return status

    def open_all(self):
        for node in self.nodes:
            self.open(node)
        self.await_up()
        self.await_feature_level()  # PGP attempts need it


@pytest.fixture
def cluster():
    with ShamirCluster() as c:
        yield c


def test_shares_unseal_each_node_by_itself(cluster):
    first, second, third = cluster.nodes
    assert len(cluster.keys) == 5 and len(set(cluster.keys)) == 5
    for key, text in zip(cluster.keys, cluster.keys_base64):
        assert bytes.fromhex(key) == base64.b64decode(text) and len(key) == 66
    status = first.call("GET", "/v1/sys/seal-status", token="").json
    assert (status["type"], status["n"], status["t"]) == ("shamir", 5, 3)
    assert (status["sealed"], status["progress"], status["nonce"]) == (True, 0, "")

    one = unseal(first, cluster.keys[4])
    assert (one["sealed"], one["progress"]) == (True, 1) and len(one["nonce"]) == 36
    again = unseal(first, cluster.keys_base64[4])
    assert (again["progress"], again["nonce"]) == (1, one["nonce"])
    assert second.call("GET", "/v1/sys/seal-status", token="").json["progress"] == 0
    assert unseal(first, cluster.keys_base64[0])["progress"] == 2
    done = unseal(first, cluster.keys[2])
    assert (done["sealed"], done["progress"], done["nonce"]) == (False, 0, "")
    cluster.await_health({200}, [first])
    assert first.call("PUT", "/v1/cubbyhole/x", {"n": 1}).status == 204
    assert second.health() == 503
    assert unseal(first, cluster.keys[0])["sealed"] is False

    for keys in itertools.islice(itertools.combinations(cluster.keys, 3), 1):
        cluster.open(second, list(keys))
    cluster.open(third, list(reversed(cluster.keys)))
    cluster.await_up()
    for node in cluster.nodes:
        assert node.call("GET", "/v1/cubbyhole/x").data == {"n": 1}
    refused(first.call("PUT", "/v1/sys/unseal", {"reset": True}, token=""), "unsealed")


def test_a_restarted_node_waits_for_its_shares(cluster):
    cluster.open_all()
    assert cluster.active().call("PUT", "/v1/cubbyhole/x", {"n": 1}).status == 204
    for node in cluster.nodes:
        node.kill()
    cluster.start()
    cluster.await_health({503}, cluster.nodes)
    answer = cluster.nodes[0].call("GET", "/v1/cubbyhole/x")
    assert answer.status == 503
    cluster.open_all()
    assert cluster.nodes[2].call("GET", "/v1/cubbyhole/x").data == {"n": 1}


def at_once(node, method, path, body=None):
    """The first reply of a node that starts."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return node.call(method, path, body, token="")
        except OSError:
            assert time.monotonic() < deadline and node.alive


def test_a_node_that_starts_judges_the_first_share_and_tells_its_seal(cluster):
    cluster.open_all()
    cluster.await_up()
    node = cluster.standbys()[0]
    for path in ("unseal", "seal-status", "init"):
        assert node.stop() == 0
        node.start()
        body = {"key": cluster.keys[0]} if path == "unseal" else None
        answer = at_once(node, "PUT" if body else "GET", f"/v1/sys/{path}", body)
        assert answer.status == 200, answer.body
        told = answer.json
        assert told["initialized"] is True
        if path != "init":
            assert (told["t"], told["n"], told["progress"]) == (3, 5, 1 if body else 0), told
    cluster.open(node)
    cluster.await_up()


def test_wrong_shares_begin_the_attempt_anew(cluster):
    node = cluster.nodes[0]
    wrong = bytearray(bytes.fromhex(cluster.keys[2]))
    wrong[0] ^= 1
    unseal(node, cluster.keys[0])
    unseal(node, cluster.keys[1])
    refused(node.call("PUT", "/v1/sys/unseal", {"key": wrong.hex()}, token=""), "begins anew")
    status = node.call("GET", "/v1/sys/seal-status", token="").json
    assert (status["sealed"], status["progress"], status["nonce"]) == (True, 0, "")

    twin = bytearray(bytes.fromhex(cluster.keys[0]))
    twin[5] ^= 1  # the same point with other values
    unseal(node, cluster.keys[0])
    unseal(node, twin.hex())
    refused(node.call("PUT", "/v1/sys/unseal", {"key": cluster.keys[1]}, token=""), "begins anew")

    unseal(node, cluster.keys[0])
    reset = node.call("PUT", "/v1/sys/unseal", {"reset": True}, token="")
    assert (reset.status, reset.json["progress"], reset.json["nonce"]) == (200, 0, "")
    cluster.open(node)


@pytest.mark.parametrize(
    "body, words",
    [
        ({}, ["key"]),
        ({"key": ""}, ["key"]),
        ({"key": "zz"}, ["hex or base64"]),
        ({"key": "00" * 31}, ["32 or 33"]),
        ({"key": "00" * 34}, ["32 or 33"]),
        ({"key": "00" * 32}, ["33 bytes"]),
        ({"key": "0" * 60000}, ["32 or 33"]),
        ({"key": {"a": 1}}, ["key"]),
        ({"migrate": True, "key": "00" * 33}, ["no migration seal found"]),
        ([], ["object"]),
    ],
)
def test_what_is_no_share_is_refused(shared, body, words):
    answer = shared.nodes[0].call("PUT", "/v1/sys/unseal", body, token="")
    assert answer.status == 400, answer.body
    assert all(word in answer.json["errors"][0] for word in words), answer.body
    assert shared.nodes[0].call("GET", "/v1/sys/seal-status", token="").json["progress"] == 0


@pytest.fixture(scope="module")
def shared():
    with ShamirCluster() as c:
        yield c


@pytest.mark.parametrize(
    "body, words",
    [
        ({}, ["secret_shares"]),
        ({"secret_shares": 0, "secret_threshold": 0}, ["secret_shares"]),
        ({"secret_shares": 256, "secret_threshold": 3}, ["secret_shares"]),
        ({"secret_shares": -1, "secret_threshold": -1}, ["secret_shares"]),
        ({"secret_shares": 3, "secret_threshold": 4}, ["secret_threshold"]),
        ({"secret_shares": 3, "secret_threshold": 0}, ["secret_threshold"]),
        ({"secret_shares": 3, "secret_threshold": 1}, ["greater than one"]),
        ({"secret_shares": 1, "secret_threshold": 1, "recovery_shares": 1}, ["not applicable"]),
    ],
)
def test_counts_that_cannot_be_are_refused(fresh, body, words):
    answer = fresh.nodes[0].call("PUT", "/v1/sys/init", body, token="")
    assert answer.status == 400, answer.body
    assert all(word in answer.json["errors"][0] for word in words), answer.body


@pytest.fixture(scope="module")
def fresh():
    cluster = Cluster(size=1, config=SHAMIR)
    try:
        cluster.start()
        cluster.await_formed()
        yield cluster
    finally:
        cluster.__exit__(None, None, None)


def test_a_single_share_is_the_key_itself(fresh):
    body = {"secret_shares": 1, "secret_threshold": 1}
    answer = fresh.nodes[0].call("PUT", "/v1/sys/init", body, token="")
    assert answer.status == 200 and len(answer.json["keys"][0]) == 64
    fresh.token = answer.json["root_token"]
    refused(fresh.nodes[0].call("PUT", "/v1/sys/init", body, token=""), "already")
    refused(
        fresh.nodes[0].call("PUT", "/v1/sys/unseal", {"key": "00" * 32}, token=""), "begins anew"
    )
    assert unseal(fresh.nodes[0], answer.json["keys"][0])["sealed"] is False
    fresh.await_health({200}, fresh.nodes)


def test_sealing_one_node_leaves_the_others(cluster):
    cluster.open_all()
    active = cluster.active()
    assert active.call("PUT", "/v1/cubbyhole/x", {"n": 1}).status == 204
    refused(active.call("PUT", "/v1/sys/seal", token="none"), "denied", status=403)
    assert active.call("PUT", "/v1/sys/seal").status == 204
    assert active.health() == 503
    assert active.call("GET", "/v1/cubbyhole/x").status == 503
    other = cluster.active()
    assert other is not active
    assert other.call("GET", "/v1/cubbyhole/x").data == {"n": 1}
    assert other.call("PUT", "/v1/cubbyhole/x", {"n": 2}).status == 204
    assert active.health() == 503
    cluster.open(active)
    cluster.await_up()
    assert active.call("GET", "/v1/cubbyhole/x").data == {"n": 2}


def test_a_static_seal_stays_sealed_on_request_until_restart_or_recovery():
    cluster = Cluster()
    try:
        cluster.start()
        cluster.await_formed()
        refused(cluster.nodes[0].call("PUT", "/v1/sys/init", {"secret_shares": 1}, token=""),
                "not applicable")
        refused(cluster.nodes[0].call("PUT", "/v1/sys/init", {"recovery_shares": 2}, token=""),
                "recovery_threshold")
        body = {"recovery_shares": 3, "recovery_threshold": 2}
        answer = cluster.nodes[0].call("PUT", "/v1/sys/init", body)
        assert answer.status == 200, answer.body
        cluster.token, keys = answer.json["root_token"], answer.json["recovery_keys"]
        assert answer.json["keys"] == [] and len(keys) == 3
        cluster.await_up()
        node = cluster.standbys()[0]
        status = node.call("GET", "/v1/sys/seal-status", token="").json
        assert (status["type"], status["n"], status["t"]) == ("static", 3, 2)
        assert status["recovery_seal"] is True

        assert node.call("PUT", "/v1/sys/seal").status == 204
        time.sleep(1)  # several looks of the node at its seal
        assert node.health() == 503
        unseal(node, keys[0])
        bad = bytearray(bytes.fromhex(keys[1]))
        bad[0] ^= 1
        refused(node.call("PUT", "/v1/sys/unseal", {"key": bad.hex()}, token=""), "begins anew")
        unseal(node, keys[2])
        assert unseal(node, keys[1])["sealed"] is False
        cluster.await_up()

        assert node.call("PUT", "/v1/sys/seal").status == 204
        assert node.health() == 503
        node.kill()
        node.start()
        cluster.await_up()
    finally:
        cluster.__exit__(None, None, None)


def test_without_recovery_shares_only_a_restart_unseals():
    with Keyless() as cluster:
        node = cluster.standbys()[0]
        assert node.call("PUT", "/v1/sys/seal").status == 204
        refused(node.call("PUT", "/v1/sys/unseal", {"key": "00" * 32}, token=""), "no recovery key")
        node.kill()
        node.start()
        cluster.await_up()


def test_rotation_reaches_every_node_and_survives():
    with Cluster() as cluster:
        active = cluster.active()
        assert active.call("PUT", "/v1/kv/old", {"n": 1}).status == 204
        before = active.call("GET", "/v1/sys/key-status")
        assert before.status == 200 and before.data["term"] == before.json["term"] == 1
        installed = datetime.datetime.fromisoformat(before.data["install_time"][:19] + "+00:00")
        age = datetime.datetime.now(datetime.timezone.utc) - installed
        assert abs(age) < datetime.timedelta(minutes=10), before.data
        for n in range(20):
            assert active.call("PUT", "/v1/kv/counted", {"n": n}).status == 204
        for node in cluster.nodes:  # those of the writes, and nothing that nobody asked for
            uses = node.call("GET", "/v1/sys/key-status").data["encryptions"]
            assert 20 <= uses - before.data["encryptions"] < 100
        refused(active.call("PUT", "/v1/sys/rotate", token="none"), "denied", status=403)
        standby = cluster.standbys()[0]
        assert standby.call("PUT", "/v1/sys/rotate").status == 204
        assert active.call("PUT", "/v1/sys/rotate/keyring").status == 204
        for node in cluster.nodes:
            status = node.call("GET", "/v1/sys/key-status").data
            assert status["term"] == 3 and status["install_time"].endswith("Z")
        assert active.call("PUT", "/v1/kv/new", {"n": 2}).status == 204
        for node in cluster.nodes:
            assert node.call("GET", "/v1/kv/old").data == {"n": 1}
            assert node.call("GET", "/v1/kv/new").data == {"n": 2}
        for node in cluster.nodes:
            node.kill()
        cluster.start()
        cluster.await_up()
        assert cluster.nodes[0].call("GET", "/v1/kv/new").data == {"n": 2}
        assert cluster.nodes[0].call("GET", "/v1/kv/old").data == {"n": 1}
        assert cluster.active().call("PUT", "/v1/kv/newer", {"n": 3}).status == 204
