"""Nodes that are killed between the record of a request and its commit: the trail says what was
asked, and never less than what happened."""

import contextlib
import http.client
import json
import subprocess
import threading

import pytest
from cluster import HOLDFAST, Unaudited
from test_audit import await_true
from test_audit_trail import about


@pytest.fixture(scope="module")
def cluster():
    """Each node has a chained file of its own from the start."""
    with Unaudited() as made:
        for node in made.nodes:
            node.stop()
        for node in made.nodes:
            own = {"file_path": str(trail_of(node)), "hash_chain": True}
            node.config = {"audit": {"file": {"own": {"options": own}}}}
            node.start()
        made.await_up()
        yield made


def trail_of(node):
    return node.dir / "own.log"


def verified(path):
    done = subprocess.run([HOLDFAST, "audit", "verify", str(path)], capture_output=True, text=True,
                          timeout=60)
    return done.returncode == 0, done.stdout + done.stderr


def asked(node, key):
    return [kind for kind, _ in about(trail_of(node), f"kv/{key}")]


def test_the_creation_of_an_object_is_recorded_as_such(cluster):
    """Where the path has an existence check: by the sender's body, and also where the sender is refused."""
    node, weak = cluster.active(), cluster.limited('path "kv/made" { capabilities = ["update"] }')
    cluster.mount("second", {"version": "2"})

    def said(method, path, body=None, token=None):
        status = node.call(method, f"/v1/{path}", body, token).status
        return status, {record["request"]["operation"] for _, record in about(trail_of(node), path)[-2:]}

    assert said("PUT", "kv/made", {"a": "b"}, weak) == (403, {"create"})
    assert said("PUT", "kv/made", {"a": "b"}) == (204, {"create"})
    assert said("POST", "kv/made", {"a": "c"}) == (204, {"update"})
    assert said("PUT", "kv/made", {"a": "b"}, weak) == (204, {"update"})
    assert said("DELETE", "kv/made") == (204, {"delete"})
    assert said("PUT", "kv/made", {"a": "b"}) == (204, {"create"})
    for path, body in (("second/data/x", {"data": {}}), ("cubbyhole/x", {"a": "b"}),
                       ("auth/token/roles/x", {"orphan": True})):
        assert [said("POST", path, body)[1] for _ in range(2)] == [{"create"}, {"update"}], path
    assert said("POST", "sys/tools/hash", {"input": "YQ=="})[1] == {"update"}  # no existence check


@pytest.mark.parametrize("known", [True, False])
def test_a_request_whose_commit_did_not_come_stands_in_the_trail(cluster, known):
    """`known`: whether its entry can have reached the standbys, which stand still meanwhile."""
    key = f"cut/{known}"
    active, standbys = cluster.active(), cluster.standbys()
    for node in standbys:
        node.pause()
    told = []

    def write():
        with contextlib.suppress(OSError, http.client.HTTPException):
            told.append(active.call("PUT", f"/v1/kv/{key}", {"a": "b"}).status)

    thread = threading.Thread(target=write)
    thread.start()
    await_true(lambda: asked(active, key))
    active.kill()
    thread.join()
    assert told == []
    for node in standbys:
        if known:
            node.resume()
        else:
            node.kill()
            node.start()
    cluster.await_health({200, 429, 473}, standbys)
    there = cluster.active().call("GET", f"/v1/kv/{key}").status
    assert there in ((200, 404) if known else (404,))
    active.start()
    cluster.await_up()
    assert active.call("GET", f"/v1/kv/{key}").status == there
    found = [(kind, record["request"]["operation"]) for node in cluster.nodes
             for kind, record in about(trail_of(node), f"kv/{key}")]
    assert [kind for kind, operation in found if operation in ("create", "update")] == ["request"]
    # the chain goes on over the end of the process, with the read
    assert len(asked(active, key)) == 3
    fits, text = verified(trail_of(active))
    assert fits, text


def test_what_a_killed_node_stored_stands_in_its_trail(cluster):
    """Writers, each with one connection, while the active node is killed."""
    told, done = [], threading.Event()

    def write(writer, node):
        n = 0
        while not done.is_set():
            n += 1
            key = f"killed/{writer}-{n}"
            with contextlib.suppress(OSError, http.client.HTTPException):
                told.append((key, node.call("PUT", f"/v1/kv/{key}", {"a": "b"}).status))

    killed = cluster.active()
    threads = [threading.Thread(target=write, args=(i, node))
               for i, node in enumerate(2 * cluster.nodes)]
    for thread in threads:
        thread.start()
    for times in (1, 2):
        await_true(lambda n=times: len(told) > 150 * n)
        killed.kill()
        await_true(lambda n=times: len(told) > 150 * n + 50)
        killed.start()
        cluster.await_up()
        killed = cluster.active()
    done.set()
    for thread in threads:
        thread.join()

    stored = cluster.active().call("LIST", "/v1/kv/killed").data["keys"]
    kinds = {}
    for node in cluster.nodes:
        for line in trail_of(node).read_text().splitlines():
            with contextlib.suppress(ValueError):  # a line that the kill tore
                record = json.loads(line)
                if record["request"]["operation"] in ("create", "update"):
                    kinds.setdefault(record["request"]["path"], []).append(record["type"])
        if trail_of(node).stat().st_size != 0:
            fits, text = verified(trail_of(node))
            assert fits or "no line is missing here" in text, text
    for name in stored:
        assert "request" in kinds.get(f"kv/killed/{name}", []), name
    for key, status in told:
        if status == 204:
            assert key.removeprefix("killed/") in stored
            assert {"request", "response"} <= set(kinds[f"kv/{key}"]), key
    for path, found in kinds.items():
        assert found.count("response") <= found.count("request"), path
