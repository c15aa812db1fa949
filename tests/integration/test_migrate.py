"""The cluster is moved to another seal: between key shares and two static seals, to and fro."""

import os
import random
import re
import threading
import time

import pytest

from cluster import PATIENCE_S, STEADY, Keyless, Recoverable, merged
from commands import Cli, typed
from test_shamir import SHAMIR, ShamirCluster, refused
from writers import Writer

LONG = bool(os.environ.get("HOLDFAST_LONG"))  # the rest of what takes long
NO_MIGRATE = "migrate option not provided and seal migration is pending"
NO_SEAL = "can't perform a seal migration, no migration seal found"


def seal_status(node):
    return node.call("GET", "/v1/sys/seal-status", token="").json


def give(node, key, **more):
    return node.call("PUT", "/v1/sys/unseal", {"key": key, **more}, token="")


class Movable(ShamirCluster):
    """Sealed by two of three key shares at first. Seals are named "shamir", "a" and "b"."""

    shares, threshold = 3, 2
    pace = STEADY

    def __init__(self):
        super().__init__()
        for name in "ab":
            key = self.dir / f"{name}.key"
            key.write_bytes(os.urandom(32))
            key.chmod(0o600)
        for node in self.nodes:
            node.config = merged(SHAMIR, self.pace)

    def __enter__(self):
        super().__enter__()
        try:
            self.open_all()
            self.mount("kv", {"version": "1"})
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def static(self, name, **more):
        return {"key_file": str(self.dir / f"{name}.key"), "key_id": name, **more}

    def only(self, seal):
        """The configuration of a node that knows one seal."""
        return SHAMIR if seal == "shamir" else {"seal": {"static": self.static(seal)}}

    def both(self, old, new):
        """The configuration of a node that moves the cluster from one seal to another."""
        if old == "shamir":
            return {"seal": {"static": self.static(new), "shamir": {"disabled": "true"}}}
        if new == "shamir":
            return {"seal": {"static": self.static(old, disabled=True)}}
        return {"seal": {"static": [self.static(old, disabled=True), self.static(new)]}}

    def restart(self, node, config, end="stop"):
        getattr(node, end)()
        node.config = merged(config, self.pace)
        node.start()

    def await_state(self, node):
        """It has found the others and knows how the cluster is sealed."""
        deadline = time.monotonic() + PATIENCE_S
        while (health := node.health()) not in (200, 429, 473):
            if health == 503 and seal_status(node)["n"] != 0:
                return
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def unseal(self, node):
        """By the shares, if it is sealed; they also migrate where that is pending."""
        self.await_state(node)
        for key in self.keys[: self.threshold]:
            answer = give(node, key, migrate=seal_status(node)["migration"])
            if answer.status == 400:  # the node has heard since of the migration, or of its end
                answer = give(node, key, migrate=seal_status(node)["migration"])
            assert answer.status == 200, answer.body
        self.await_health({200, 429, 473}, [node])

    def restart_each(self, order, config):
        """One by one, so that the cluster serves all the time."""
        for node in order:
            self.restart(node, config)
            self.unseal(node)

    def step_down_to(self, nodes):
        """Until one of them is active."""
        deadline = time.monotonic() + PATIENCE_S
        while (active := self.active()) not in nodes:
            assert time.monotonic() < deadline
            active.call("PUT", "/v1/sys/step-down")
            time.sleep(0.2)

    def await_sealed_by(self, seal):
        """Every node says so, and that no migration is pending."""
        deadline = time.monotonic() + PATIENCE_S
        wanted = ("shamir" if seal == "shamir" else "static", seal != "shamir", 3, 2, False)
        while True:
            have = [tuple(seal_status(node)[field] for field in
                          ("type", "recovery_seal", "n", "t", "migration")) for node in self.nodes]
            if set(have) == {wanted}:
                return
            assert time.monotonic() < deadline, have
            time.sleep(0.05)

    def check_after_a_crash(self, seal):
        """All nodes lose their memory, and come back by this seal alone."""
        for node in self.nodes:
            node.kill()
            node.config = merged(self.only(seal), self.pace)
        self.start()
        if seal == "shamir":
            self.await_health({503}, self.nodes)
            self.await_sealed_by(seal)  # a node knows what is committed once there is a leader
            for node in self.nodes:
                for key in self.keys[-2:]:
                    answer = give(node, key)
                    assert answer.status == 200, answer.body
        self.await_up()
        self.await_sealed_by(seal)


@pytest.fixture
def movable():
    with Movable() as made:
        yield made


class Load:
    """Clients that write while the seal moves."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.over = threading.Event()
        self.writers = [Writer(cluster, i, self.over, seed=12) for i in range(2)]
        for writer in self.writers:
            writer.start()

    def check(self):
        """Every acknowledged write is on every node."""
        self.over.set()
        for writer in self.writers:
            writer.join(PATIENCE_S)
            assert not writer.wrong and writer.ok > 20, writer.wrong[:5]
        for node in self.cluster.nodes:
            connection = node.connect()
            for writer in self.writers:
                writer.check_end(node, connection)
            connection.close()


def in_order(cluster, order):
    """The nodes, the active one first, in the middle or last."""
    nodes = cluster.standbys()
    nodes.insert(order, cluster.active())
    return nodes


@pytest.mark.parametrize("order", [0, 1, 2] if LONG else [1])
def test_the_seal_moves_to_and_fro_under_load(movable, order):
    load = Load(movable)
    way = ["shamir", "a", "b", "shamir"]
    for old, new in zip(way, way[1:]):
        movable.restart_each(in_order(movable, order), movable.both(old, new))
        movable.step_down_to(movable.nodes)
        movable.await_sealed_by(new)
        movable.restart_each(in_order(movable, 2), movable.only(new))  # the old block goes
    movable.await_up()
    load.check()
    movable.await_equal_roots()
    movable.check_after_a_crash("shamir")
    assert any("seal migration complete" in node.log_text() for node in movable.nodes)


def move(cluster, old, new, nodes=None):
    """Restart these nodes with both seals; one of them migrates when it is active."""
    nodes = nodes or cluster.nodes
    cluster.restart_each(nodes, cluster.both(old, new))
    cluster.step_down_to(nodes)
    deadline = time.monotonic() + PATIENCE_S
    while any(seal_status(node)["migration"] for node in nodes):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_unseal_keys_become_recovery_keys_and_back(movable):
    move(movable, "shamir", "a")
    movable.await_sealed_by("a")
    node = movable.active()
    attempt = node.call("PUT", "/v1/sys/generate-root/attempt", {}, token="").json
    for key in movable.keys[1:]:
        done = node.call("PUT", "/v1/sys/generate-root/update",
                         {"key": key, "nonce": attempt["nonce"]}, token="").json
    assert done["complete"]
    # shares that replace the recovery key become key shares
    started = node.call("PUT", "/v1/sys/rekey-recovery-key/init",
                        {"secret_shares": 3, "secret_threshold": 2}, token="").json
    for key in movable.keys[:2]:
        made = node.call("PUT", "/v1/sys/rekey-recovery-key/update",
                         {"key": key, "nonce": started["nonce"]}, token="").json
    old, movable.keys = movable.keys, made["keys"]
    move(movable, "a", "shamir")
    movable.await_sealed_by("shamir")
    movable.check_after_a_crash("shamir")
    node = movable.nodes[0]
    movable.restart(node, SHAMIR)
    movable.await_state(node)
    assert give(node, old[0]).status == 200
    refused(give(node, old[1]), "do not make the key")
    movable.unseal(node)


@pytest.mark.parametrize("old, new, words", [
    ("shamir", "a", ["wrapped by the seal key 'a'", "configured for key shares"]),
    ("a", "b", ["wrapped by the seal key 'b'", "configured for 'a'"]),
    ("a", "shamir", ["sealed by key shares", "configured for the seal key 'a'"]),
])
def test_a_node_that_knows_only_the_old_seal_stays_sealed_and_says_why(movable, old, new, words,
                                                                       tmp_path):
    if old != "shamir":
        move(movable, "shamir", old)
        movable.await_sealed_by(old)
    late = movable.standbys()[0]
    others = [node for node in movable.nodes if node is not late]
    if old != "shamir":
        movable.restart(late, movable.only(old))
        movable.unseal(late)
    move(movable, old, new, others)
    # it was unsealed before, and goes on
    assert late.call("PUT", "/v1/kv/late", {"n": 1}).status == 204
    assert late.call("GET", "/v1/kv/late").data == {"n": 1}
    mark = len(late.log_text())  # what the node said before does not count
    movable.restart(late, movable.only(old), end="kill")
    movable.await_state(late)
    deadline = time.monotonic() + PATIENCE_S
    while "stays sealed: " not in late.log_text()[mark:]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    said = late.log_text()[mark:].rpartition("stays sealed: ")[2].splitlines()[0]
    status = seal_status(late)
    assert status["sealed"] and late.health() == 503
    for word in words:
        assert word in said and word in status["warnings"][0]
    answer = give(late, movable.keys[0])
    refused(answer, NO_MIGRATE if new == "shamir" else words[0])
    cli = Cli(movable, tmp_path, movable.nodes.index(late))
    assert words[0] in cli("status", code=2).stdout
    movable.restart(late, movable.only(new))
    movable.unseal(late)
    assert late.call("GET", "/v1/kv/late").data == {"n": 1}


@pytest.mark.parametrize("how", ["down", "paused"])
def test_a_node_that_slept_through_the_move_follows(movable, how):
    late = movable.standbys()[0]
    others = [node for node in movable.nodes if node is not late]
    getattr(late, "pause" if how == "paused" else "kill")()
    for node in others:
        movable.restart(node, movable.both("shamir", "a"))
    for node in others:
        movable.unseal(node)
    movable.step_down_to(others)
    deadline = time.monotonic() + PATIENCE_S
    while any(seal_status(node)["migration"] for node in others):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert movable.active().call("PUT", "/v1/kv/slept", {"n": 1}).status == 204
    if how == "paused":
        late.resume()
    else:
        late.config = merged(movable.both("shamir", "a"), movable.pace)
        late.start()
    movable.await_up()  # without shares: by the new seal, or because it was unsealed
    assert late.call("GET", "/v1/kv/slept").data == {"n": 1}
    movable.await_sealed_by("a")
    movable.check_after_a_crash("a")


@pytest.mark.parametrize("old, new", [("shamir", "a"), ("a", "shamir"), ("a", "b")] if LONG else
                         [("shamir", "a")])
def test_a_crash_at_any_time_leaves_one_of_both_seals(movable, old, new):
    """Every node is killed after each step of a move, then at random times around its commit."""
    if old != "shamir":
        move(movable, "shamir", old)
        movable.await_sealed_by(old)
    movable.pace = {}
    load = Load(movable)
    chance = random.Random(f"{old}-{new}")
    pauses = [0, 0, *(chance.uniform(0, 1.5) for _ in range(3))]
    for step, pause_s in enumerate(pauses):
        for node in movable.nodes:
            node.kill()
            node.config = merged(movable.both(old, new), movable.pace)
        movable.start()
        for node in movable.nodes:
            movable.await_state(node)
        status = seal_status(movable.nodes[0])
        moved = status["type"] == ("shamir" if new == "shamir" else "static") and not status["migration"]
        if not moved:
            assert status["migration"] and status["sealed"] and status["progress"] == 0
        if step == 0:
            answer = give(movable.nodes[0], movable.keys[0], migrate=not moved)
            assert answer.status == 200, answer.body
            continue  # killed with one share given
        for node in movable.nodes:
            for key in movable.keys[:2]:
                assert give(node, key, migrate=True).status == 200
        time.sleep(pause_s)
    movable.await_up()
    movable.await_sealed_by(new)
    load.check()
    movable.check_after_a_crash(new)


def shown(node):
    """The seals in its configuration: what they are, and whether they are disabled."""
    seals = node.call("GET", "/v1/sys/config/state/sanitized").data["seals"]
    return [(seal["type"], seal["disabled"]) for seal in seals]


def test_shares_are_taken_with_the_right_word_only(movable):
    node = movable.standbys()[0]
    movable.restart(node, SHAMIR)
    movable.await_state(node)
    refused(give(node, movable.keys[0], migrate=True), NO_SEAL)
    assert (seal_status(node)["migration"], seal_status(node)["progress"]) == (False, 0)

    movable.restart(node, movable.only("a"))  # as upstream, key shares need no block to go
    movable.await_state(node)
    status = seal_status(node)
    assert status["migration"] and status["sealed"] and status["type"] == "shamir"
    assert "with migrate" in status["warnings"][0]
    assert shown(movable.active()) == [("shamir", False)]
    refused(give(node, movable.keys[0]), NO_MIGRATE)
    assert seal_status(node)["progress"] == 0
    one = give(node, movable.keys[0], migrate=True).json
    assert (one["progress"], one["migration"], len(one["nonce"])) == (1, True, 36)
    refused(give(node, movable.keys[1]), NO_MIGRATE)
    wrong = bytearray(bytes.fromhex(movable.keys[1]))
    wrong[3] ^= 1
    refused(give(node, wrong.hex(), migrate=True), "begins anew")
    assert (seal_status(node)["progress"], seal_status(node)["nonce"]) == (0, "")
    give(node, movable.keys[0], migrate=True)
    reset = node.call("PUT", "/v1/sys/unseal", {"reset": True, "migrate": True}, token="")
    assert (reset.status, reset.json["progress"]) == (200, 0)
    movable.unseal(node)
    assert shown(node) == [("static", False)]
    assert seal_status(node)["migration"], "it is not active, so nothing has moved"
    assert seal_status(movable.active())["type"] == "shamir"


def test_sealing_a_node_forgets_the_migration(movable):
    node = movable.standbys()[0]
    movable.restart_each([node], movable.both("shamir", "a"))
    assert shown(node) == [("static", False), ("shamir", True)]
    assert node.call("PUT", "/v1/sys/seal").status == 204
    movable.await_health({503}, [node])
    refused(give(node, movable.keys[0]), NO_MIGRATE)
    movable.unseal(node)
    movable.step_down_to([node])
    movable.await_sealed_by("a")


def test_attempts_of_before_the_move_are_over(movable):
    node = movable.active()
    started = node.call("PUT", "/v1/sys/rekey/init",
                        {"secret_shares": 5, "secret_threshold": 3}, token="").json
    assert node.call("PUT", "/v1/sys/rekey/update",
                     {"key": movable.keys[0], "nonce": started["nonce"]}, token="").status == 200
    attempt = node.call("PUT", "/v1/sys/generate-root/attempt", {}, token="").json
    move(movable, "shamir", "a")
    node = movable.active()
    refused(node.call("PUT", "/v1/sys/rekey/update",
                      {"key": movable.keys[1], "nonce": started["nonce"]}, token=""),
            "has no key shares")
    assert not node.call("GET", "/v1/sys/generate-root/attempt", token="").json["started"]
    refused(node.call("PUT", "/v1/sys/generate-root/update",
                      {"key": movable.keys[0], "nonce": attempt["nonce"]}, token=""), "no root")


def test_a_snapshot_from_before_the_move_brings_the_former_seal_back(movable):
    assert movable.active().call("PUT", "/v1/kv/kept", {"n": 1}).status == 204
    archive = movable.active().call("GET", "/v1/sys/storage/raft/snapshot").body
    move(movable, "shamir", "a")
    movable.await_sealed_by("a")
    assert movable.active().call("PUT", "/v1/kv/kept", {"n": 2}).status == 204
    path = "/v1/sys/storage/raft/snapshot"
    refused(movable.active().call("POST", path, archive), "another seal, 'shamir'", "snapshot-force")
    assert movable.active().call("GET", "/v1/kv/kept").data == {"n": 2}
    assert movable.active().call("POST", path + "-force", archive).status == 204
    movable.await_up()  # of the same root key: no node is sealed
    assert movable.active().call("GET", "/v1/kv/kept").data == {"n": 1}
    movable.await_equal_roots()
    assert [seal_status(node)["migration"] for node in movable.nodes] == [True] * 3
    for node in movable.nodes:
        node.kill()
        node.config = merged(movable.both("shamir", "a"), movable.pace)
    movable.start()
    for node in movable.nodes:
        movable.await_state(node)
        for key in movable.keys[1:]:
            assert give(node, key, migrate=True).status == 200
    movable.await_up()
    movable.await_sealed_by("a")
    assert movable.active().call("GET", "/v1/kv/kept").data == {"n": 1}


def test_an_active_node_with_the_old_seal_does_not_move_the_cluster_back(movable):
    """Its own key would wrap the root key in a rekey of the recovery key."""
    move(movable, "shamir", "a")
    movable.await_sealed_by("a")
    late = movable.standbys()[0]
    others = [node for node in movable.nodes if node is not late]
    movable.restart(late, movable.only("a"))
    movable.unseal(late)
    move(movable, "a", "b", others)
    movable.step_down_to([late])
    refused(late.call("POST", "/v1/sys/rotate/root"), "sealed by the key 'b'", "the key 'a'")
    started = late.call("PUT", "/v1/sys/rekey-recovery-key/init",
                        {"secret_shares": 1, "secret_threshold": 1}, token="").json
    for key in movable.keys[:2]:
        last = late.call("PUT", "/v1/sys/rekey-recovery-key/update",
                         {"key": key, "nonce": started["nonce"]}, token="")
    refused(last, "sealed by the key 'b'")
    movable.step_down_to(others)
    assert movable.active().call("POST", "/v1/sys/rotate/root").status == 204
    movable.check_after_a_crash("b")


def restart_to_leave_the_seal(cluster, node):
    """With the cluster's static seal disabled; the node waits for shares that migrate."""
    node.stop()
    key = str(cluster.dir / "seal.key")
    node.config = {"seal": {"static": {"key_file": key, "key_id": "test", "disabled": True}}}
    node.start()
    deadline = time.monotonic() + PATIENCE_S
    while not (node.health() == 503 and seal_status(node)["migration"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_without_recovery_keys_the_seal_stays():
    with Keyless() as cluster:
        node = cluster.standbys()[0]
        restart_to_leave_the_seal(cluster, node)
        refused(give(node, "00" * 33, migrate=True), "there is no recovery key")


def test_the_command_line_migrates(tmp_path):
    with Recoverable() as cluster:
        node = cluster.standbys()[0]
        cli = Cli(cluster, tmp_path, cluster.nodes.index(node))
        restart_to_leave_the_seal(cluster, node)
        told = cli("status", code=2).stdout
        assert re.search(r"Seal Migration in Progress +true", told) and "with migrate" in told
        first, second = cluster.recovery_keys[:2]
        assert NO_MIGRATE in cli("operator", "unseal", first, code=2).stderr
        code, shown = typed(cli, ["operator", "unseal", "-migrate"], first.encode() + b"\n")
        assert code == 0 and re.search(r"Unseal Progress +1/2", shown), shown
        done = cli("operator", "unseal", "-migrate", "-", stdin=second + "\n").stdout
        assert re.search(r"Sealed +false", done)
