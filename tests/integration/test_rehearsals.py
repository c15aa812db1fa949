"""The rehearsals of docs/rehearsals.md, line by line, against three real nodes under load."""

import time

import pytest

from cluster import PATIENCE_S
from rehearsal import Rehearsal, nodes_of, sections


@pytest.fixture
def rehearsal(tmp_path):
    with Rehearsal(tmp_path) as made:
        yield made


def test_every_rehearsal_has_a_test():
    tested = {"Prepare", "Forgotten root token", "Lost majority", "Restore elsewhere",
              "Seal moved to and fro"}
    assert set(sections()) == tested


def test_forgotten_root_token(rehearsal):
    printed = rehearsal.run("Forgotten root token")
    assert "root" in printed[3]  # the policy of the token that was made
    rehearsal.load.end()
    rehearsal.load.check()


def test_lost_majority(rehearsal):
    """The survivor was active, so it has all that the writers were told; they go on all the time."""
    load = rehearsal.load

    def before(text):
        if "kill -9" in text:
            make_active(load, "node1")

    printed = rehearsal.run("Lost majority", before)
    assert "node2 was not mentioned" in printed[1] and "Dropped from the cluster" in printed[1]
    assert "yes" in printed[3]
    load.end()
    load.check()
    for node in load.nodes:
        path = f"/v1/kv/after/{node.name}"
        assert node.call("PUT", path, {"n": 1}, load.token).status == 204
        assert node.call("GET", path, token=load.token).data == {"n": 1}


def make_active(load, name):
    """Have the active node step down until it is the one of this name."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        active = [n for n in load.nodes if n.call("GET", "/v1/sys/health").status == 200]
        if [node.name for node in active] == [name]:
            return
        for node in active:
            node.call("PUT", "/v1/sys/step-down", token=load.token)
        assert time.monotonic() < deadline
        time.sleep(0.3)


def test_restore_elsewhere(rehearsal):
    """What was acknowledged before the snapshot was asked for is at the other place."""
    kept = {}

    def before(text):
        if "snapshot save" in text:
            kept.update(rehearsal.load.acknowledged())
        if "deploy/quickstart --stop" in text:
            look(rehearsal, kept)

    printed = rehearsal.run("Restore elsewhere", before)
    assert "yes" in printed[3]
    rehearsal.load.end()
    rehearsal.load.check()


def look(rehearsal, kept):
    """On every node of the other place, with a token of the first."""
    assert kept
    for node in nodes_of(rehearsal.folder / "build" / "elsewhere", rehearsal.other_base):
        for key, number in kept.items():
            answer = node.call("GET", f"/v1/kv/chaos/{key}", token=rehearsal.load.token)
            assert answer.status == 200, (node.name, key, answer.body)
            assert answer.data["n"] >= number, (node.name, key)


def test_seal_moved_to_and_fro(rehearsal):
    printed = rehearsal.run("Seal moved to and fro")
    assert printed[1].count("waits for key shares") == 3
    assert "node2 waits for key shares" in printed[3]
    assert "node3 serves\nyes" in printed[5]
    rehearsal.load.end()
    rehearsal.load.check()
