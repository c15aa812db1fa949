"""The key of a static seal changes while the cluster serves, without key shares, and no node is locked out."""

import json
import os
import time

import pytest

import trail
from cluster import PATIENCE_S, Keyless, merged
from commands import Cli

REWRAP = "sys/seal/rewrap"
SNAPSHOT = "/v1/sys/storage/raft/snapshot"


class Changing(Keyless):
    """A cluster without recovery keys, first under the key "test"; "next" and "last" are at hand."""

    def __init__(self, **options):
        super().__init__(**options)
        for name in ("next", "last"):
            key = self.dir / f"{name}.key"
            key.write_bytes(os.urandom(32))
            key.chmod(0o600)

    def file(self, name):
        return str(self.dir / ("seal.key" if name == "test" else f"{name}.key"))

    def seal(self, name, previous=None):
        """The configuration of a node that has a key, maybe with the key of before."""
        config = {"key_file": self.file(name), "key_id": name}
        if previous is not None:
            config |= {"previous_key_file": self.file(previous), "previous_key_id": previous}
        return {"seal": {"static": config}}

    def restart(self, node, config, codes=(200, 429, 473)):
        node.stop()
        node.config = merged({}, config)
        node.start()
        self.await_health(set(codes), [node])

    def step_down_to(self, nodes):
        deadline = time.monotonic() + PATIENCE_S
        while (active := self.active()) not in nodes:
            assert time.monotonic() < deadline
            active.call("PUT", "/v1/sys/step-down")
            time.sleep(0.2)

    def changes(self):
        """The records of the changes of the key: (type, error)."""
        found = []
        for node in self.nodes:
            for line in (node.dir / trail.FILE).read_text().splitlines():
                record = json.loads(line)
                if record["request"]["path"] == REWRAP and not record.get("error"):
                    found.append(record["type"])
        return found


def seal_status(node):
    return node.call("GET", "/v1/sys/seal-status", token="").json


def await_text(node, text, since=0):
    deadline = time.monotonic() + PATIENCE_S
    while text not in node.log_text()[since:]:
        assert time.monotonic() < deadline, text
        time.sleep(0.05)


def await_warning(node, text):
    deadline = time.monotonic() + PATIENCE_S
    while text not in " ".join(seal_status(node).get("warnings", [])):
        assert time.monotonic() < deadline, seal_status(node)
        time.sleep(0.05)


@pytest.fixture(scope="module")
def changing():
    with Changing() as made:
        yield made


def test_a_rolling_restart_changes_the_key_and_locks_nobody_out(changing, tmp_path):
    both, old, new = changing.seal("next", "test"), changing.seal("test"), changing.seal("next")
    first, second = changing.standbys()
    third = changing.active()
    assert third.call("PUT", "/v1/kv/kept", {"n": 1}).status == 204
    archive = third.call("GET", SNAPSHOT).body

    changing.restart(first, both)
    # one that has the new key alone waits, and says for what
    changing.restart(second, new, codes=[503])
    await_text(second, "wrapped by the seal key 'test', this node is configured for 'next'")
    assert "previous_key_file" in " ".join(seal_status(second)["warnings"])
    # the new configuration leads: nothing changes while a member knows the old key alone
    changing.step_down_to([first])
    await_warning(first, "the cluster keeps the seal key 'test' until these members are started "
                         f"with 'next', or removed: {third.name}")
    told = Cli(changing, tmp_path, changing.nodes.index(first))("status")
    assert third.name in told.stdout
    # that member is not locked out by a restart in the middle
    changing.restart(third, old)
    assert changing.changes() == []
    # a member that is down holds the change too: it may come back with the old key
    third.stop()
    await_warning(first, f"or removed: {third.name}")
    assert changing.changes() == []

    third.config = both
    third.start()
    await_text(first, "the seal key 'next' wraps the root key now, in place of 'test'")
    changing.await_up()  # the one with the new key alone, too
    assert changing.changes() == ["request", "response"]
    assert all("warnings" not in seal_status(node) for node in changing.nodes)
    assert changing.active().call("GET", "/v1/kv/kept").data == {"n": 1}

    # a snapshot of before the change is taken back, and the key changes again
    changing.step_down_to([first, third])
    active = changing.active()
    assert active.call("PUT", "/v1/kv/kept", {"n": 2}).status == 204
    mark = len(active.log_text())
    answer = active.call("POST", SNAPSHOT, archive)
    assert answer.status == 204, answer.body
    await_text(active, "the seal key 'next' wraps the root key now", mark)
    assert active.call("GET", "/v1/kv/kept").data == {"n": 1}

    # the old key goes: the new one alone opens every node
    for node in changing.nodes:
        node.kill()
        node.config = new
    changing.start()
    changing.await_up()
    changing.await_equal_roots()
    late = changing.standbys()[0]
    changing.restart(late, old, codes=[503])
    await_text(late, "wrapped by the seal key 'next', this node is configured for 'test'")
    changing.restart(late, new)


def test_another_key_of_the_same_name_holds_the_change(changing):
    """A mistyped file on one node must not lock that node out."""
    active = changing.active()
    now = "next"
    wrong = merged({}, changing.seal("last", now))
    wrong["seal"]["static"]["key_file"] = changing.file("test")
    others = changing.standbys()
    changing.restart(others[0], wrong)
    for node in (others[1], active):
        changing.restart(node, changing.seal("last", now))
    changing.step_down_to([others[1], active])
    await_warning(changing.active(), f"or removed: {others[0].name}")
    changing.restart(others[0], changing.seal("last", now))
    await_text(changing.active(), "the seal key 'last' wraps the root key now, in place of 'next'")
    changing.await_up()


def test_a_client_cannot_ask_for_the_change(changing):
    answer = changing.active().call("POST", f"/v1/{REWRAP}")
    assert answer.status == 403 and b"previous_key_file" in answer.body


def test_a_single_node_changes_its_key_at_once_and_init_warns():
    with Changing(size=1) as one:
        node = one.nodes[0]
        one.restart(node, one.seal("next", "test"))
        await_text(node, "the seal key 'next' wraps the root key now")
        # with the file of the previous key gone, and without the fields
        os.unlink(one.file("test"))
        one.restart(node, one.seal("next", "test"))
        await_text(node, "this node does without the previous key")
        one.restart(node, one.seal("next"))
        assert one.changes() == ["request", "response"]
        told, = one.init_warnings
        assert "previous_key_file" in told and "key shares" in told


def test_a_dr_secondary_changes_the_key_of_its_own_seal():
    dr = "/v1/sys/replication/dr"
    with Changing(size=1) as one:
        node = one.nodes[0]
        one.await_feature_level()
        for step in ("enable", "demote"):
            answer = node.call("POST", f"{dr}/primary/{step}", {})
            assert answer.status == 200, answer.body
        one.await_health({472}, [node])
        one.restart(node, one.seal("next", "test"), codes=[472])
        await_text(node, "the seal key 'next' wraps the root key now")
        one.restart(node, one.seal("next"), codes=[472])
        assert one.changes() == ["request", "response"]
