"""Requests of the registry that wait for a newer result, on nodes of a cluster: what wakes them,
what ends them early, and that none is lost or woken with an index below its own."""

import contextlib
import json
import socket
import threading
import time
import uuid

import pytest

from cluster import PATIENCE_S, STEADY
from registry import RegistryCluster, index_of

ABSENT = "00000000-1111-2222-3333-444444444444"  # id of no policy


class WaitingCluster(RegistryCluster):
    def init(self):
        super().init()
        self.await_feature_level()
        # The active node makes the builtin policies soon after: a change that would end waits.
        self.await_until(lambda: all(len(ask(node, "GET", "policies").json) == 2
                                     for node in self.nodes))


@pytest.fixture(scope="module")
def cluster():
    with WaitingCluster(config=STEADY) as cluster:
        yield cluster


def ask(node, method, path, body=None, token=None):
    headers = {"X-Consul-Token": token or node.cluster.token}
    return node.call(method, "/v1/acl/" + path, body, "", headers)


def put(node, policy, **fields):
    body = {"Name": policy["Name"], **fields}
    answer = ask(node, "PUT", "policy/" + policy["ID"], body)
    assert answer.status == 200, answer.body
    return answer.json


def make(node, **fields):
    answer = ask(node, "PUT", "policy", {"Name": f"p-{uuid.uuid4()}", **fields})
    assert answer.status == 200, answer.body
    return answer.json


class Waiter:
    """One request that waits, on a thread of its own."""

    def __init__(self, node, path, index, wait="60s", token=None, more=""):
        self.node, self.answer, self.error = node, None, None
        before = waiting(node)
        query = f"?index={index}&wait={wait}{more}"
        self.index, self.begun = index, time.monotonic()
        self.thread = threading.Thread(target=self.run, args=(path + query, token), daemon=True)
        self.thread.start()
        await_waiting(node, before + 1)

    def run(self, path, token):
        try:
            self.answer = ask(self.node, "GET", path, token=token)
        except Exception as error:  # shown by `end`
            self.error = error
        self.took = time.monotonic() - self.begun

    @property
    def waits(self):
        return self.thread.is_alive()

    def end(self):
        """The reply; never with an index below the one waited for."""
        self.thread.join(PATIENCE_S)
        assert not self.waits and self.error is None, self.error
        if self.answer.status in (200, 404):
            assert index_of(self.answer) >= self.index
        return self.answer


def waiting(node):
    return node.metric("holdfast_blocking_waiting")


def await_waiting(node, count):
    deadline = time.monotonic() + PATIENCE_S
    while waiting(node) != count:
        assert time.monotonic() < deadline, (waiting(node), count)
        time.sleep(0.02)


def test_a_change_wakes_its_waiters_on_every_node(cluster):
    policy = make(cluster.active())
    path = "policy/" + policy["ID"]
    waiters = [Waiter(node, path, policy["ModifyIndex"]) for node in cluster.nodes]
    by_name = Waiter(cluster.nodes[0], "policy/name/" + policy["Name"], policy["ModifyIndex"])
    make(cluster.active())  # another policy
    assert all(w.waits for w in (*waiters, by_name))
    changed = put(cluster.standbys()[0], policy, Description="new")
    for waiter in (*waiters, by_name):
        answer = waiter.end()
        assert answer.status == 200 and answer.json == changed
        assert index_of(answer) == changed["ModifyIndex"] > policy["ModifyIndex"]


def test_an_equal_write_is_a_change_and_a_deletion_is_one(cluster):
    policy = make(cluster.active())
    waiter = Waiter(cluster.nodes[1], "policy/" + policy["ID"], policy["ModifyIndex"])
    same = put(cluster.active(), policy)
    assert waiter.end().json["ModifyIndex"] == same["ModifyIndex"] > policy["ModifyIndex"]
    waiter = Waiter(cluster.nodes[2], "policy/" + policy["ID"], same["ModifyIndex"])
    everything = Waiter(cluster.nodes[2], "policies", same["ModifyIndex"])
    assert ask(cluster.nodes[0], "DELETE", "policy/" + policy["ID"]).json is True
    assert waiter.end().status == 404
    assert policy["ID"] not in [each["ID"] for each in everything.end().json]


def test_what_is_absent_wakes_its_waiters_when_it_is_made(cluster):
    name = f"later-{uuid.uuid4()}"
    node = cluster.nodes[1]
    absent = ask(node, "GET", "policy/name/" + name)
    assert absent.status == 404
    waiter = Waiter(node, "policy/name/" + name, index_of(absent))
    short = Waiter(node, "policy/" + ABSENT, index_of(ask(node, "GET", "policy/" + ABSENT)), "1s")
    other = make(cluster.active())
    assert short.end().status == 404 and short.took >= 1
    assert waiter.waits, "another policy has woken it"
    made = ask(cluster.active(), "PUT", "policy", {"Name": name}).json
    answer = waiter.end()
    assert answer.status == 200 and answer.json == made
    assert index_of(answer) == made["ModifyIndex"] > other["ModifyIndex"]


def test_the_time_of_a_wait_ends_it_with_the_present_result(cluster):
    policy = make(cluster.active())
    for node in cluster.nodes:
        waiter = Waiter(node, "policy/" + policy["ID"], policy["ModifyIndex"], "500ms")
        answer = waiter.end()
        assert answer.status == 200 and answer.json == policy and waiter.took >= 0.5
        assert index_of(answer) == policy["ModifyIndex"]


def test_an_older_or_huge_index_is_served(cluster):
    policy = make(cluster.active())
    node = cluster.nodes[2]
    for index in (1, policy["ModifyIndex"] - 1):
        answer = ask(node, "GET", f"policy/{policy['ID']}?index={index}&wait=60s")
        assert answer.status == 200 and index_of(answer) == policy["ModifyIndex"]
    for index in ("-1", "1.5", "x", str(1 << 64)):
        answer = ask(node, "GET", f"policies?index={index}")
        assert (answer.status, answer.body) == (400, b"Invalid index")
    for wait in ("-1s", "1", "x", "s"):
        answer = ask(node, "GET", f"policies?index=1&wait={wait}")
        assert (answer.status, answer.body) == (400, b"Invalid wait time"), wait
    huge = f"policy/{policy['ID']}?index={(1 << 64) - 1}&wait=100ms"
    answer = ask(node, "GET", huge)
    assert answer.status == 200 and index_of(answer) == policy["ModifyIndex"]


def test_the_end_of_the_token_ends_the_wait(cluster):
    node = cluster.nodes[0]
    policy = make(node)
    body = {"policies": ["root"], "ttl": "1h"}
    token = node.call("POST", "/v1/auth/token/create", body).json["auth"]["client_token"]
    waiters = [Waiter(n, "policy/" + policy["ID"], policy["ModifyIndex"], token=token)
               for n in cluster.nodes]
    assert node.call("POST", "/v1/auth/token/revoke", {"token": token}).status == 204
    for waiter in waiters:
        answer = waiter.end()
        assert (answer.status, answer.body) == (403, b"ACL not found")


def test_a_client_that_goes_frees_its_wait(cluster):
    node = cluster.nodes[1]
    policy = make(node)
    with contextlib.ExitStack() as stack:
        for i in range(5):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", node.client_port)))
            line = stack.enter_context(cluster.tls.wrap_socket(line, server_hostname="127.0.0.1"))
            line.sendall(f"GET /v1/acl/policy/{policy['ID']}?index={policy['ModifyIndex']} HTTP/1.1"
                         f"\r\nHost: a\r\nX-Consul-Token: {cluster.token}\r\n\r\n".encode())
            await_waiting(node, i + 1)
    await_waiting(node, 0)


def test_no_pin_is_held_while_requests_wait(cluster):
    node = cluster.standbys()[0]
    policy = make(node)
    waiters = [Waiter(node, "policy/" + policy["ID"], policy["ModifyIndex"]) for _ in range(20)]
    deadline = time.monotonic() + PATIENCE_S
    while node.metric("holdfast_store_pins") > 2:  # a hash and this request
        assert time.monotonic() < deadline
        time.sleep(0.05)
    put(node, policy, Description="done")
    for waiter in waiters:
        assert waiter.end().json["Description"] == "done"


def test_too_many_waits_are_refused(cluster):
    node = cluster.standbys()[0]
    node.end()
    before = dict(node.config)
    node.config = {**before, "max_blocking_queries": 4, "max_blocking_queries_per_address": 3}
    node.start()
    cluster.await_up()
    policy = make(cluster.active())
    path = "policy/" + policy["ID"]
    ask(node, "GET", path)
    waiters = [Waiter(node, path, policy["ModifyIndex"]) for _ in range(3)]
    refused = ask(node, "GET", f"{path}?index={policy['ModifyIndex']}")
    assert refused.status == 429 and b"too many requests wait" in refused.body
    changed = put(cluster.active(), policy, Description="x")
    assert [w.end().json["ModifyIndex"] for w in waiters] == [changed["ModifyIndex"]] * 3
    node.end()
    node.config = before
    node.start()
    cluster.await_up()


def test_a_plain_standby_forwards_a_wait_with_its_whole_time(cluster):
    node = cluster.standbys()[0]
    node.end()
    before = dict(node.config)
    node.config = {**before, "performance_standby": False}
    node.start()
    cluster.await_health({429}, [node])
    policy = make(cluster.active())
    active, path = cluster.active(), "policy/" + policy["ID"]
    count = waiting(active)
    results = []
    thread = threading.Thread(target=lambda: results.append(
        ask(node, "GET", f"{path}?index={policy['ModifyIndex']}&wait=60s")))
    thread.start()
    await_waiting(active, count + 1)
    time.sleep(2)
    assert thread.is_alive() and waiting(node) == 0
    changed = put(active, policy, Description="forwarded")
    thread.join(PATIENCE_S)
    assert results[0].status == 200 and results[0].json == changed
    short = time.monotonic()
    answer = ask(node, "GET", f"{path}?index={changed['ModifyIndex']}&wait=1s")
    assert answer.status == 200 and time.monotonic() - short >= 1
    node.end()
    node.config = before
    node.start()
    cluster.await_up()


def test_a_wait_outlives_its_leader(cluster):
    """The waiters of the other nodes are woken by a write through the next leader."""
    policy = make(cluster.active())
    leader, others = cluster.active(), cluster.standbys()
    path = "policy/" + policy["ID"]
    waiters = [Waiter(node, path, policy["ModifyIndex"], "120s") for node in others]
    leader.kill()
    cluster.active()
    assert all(w.waits for w in waiters)
    changed = put(cluster.active(), policy, Description="after the leader")
    for waiter in waiters:
        assert waiter.end().json == changed
    leader.start()
    cluster.await_up()


def test_a_node_alone_ends_confirmed_waits_and_keeps_stale_ones(cluster):
    policy = make(cluster.active())
    node = cluster.standbys()[0]
    others = [n for n in cluster.nodes if n is not node]
    path, index = "policy/" + policy["ID"], policy["ModifyIndex"]
    default = Waiter(node, path, index, "300s")
    consistent = Waiter(node, path, index, "300s", more="&consistent")
    stale = Waiter(node, path, index, "30s", more="&stale")
    for other in others:
        other.pause()
    try:
        for waiter in (default, consistent):
            answer = waiter.end()
            assert answer.status == 500 and answer.body.startswith(b"No cluster leader")
            assert waiter.took < 60
        answer = stale.end()
        assert answer.status == 200 and answer.json == policy and stale.took >= 30
        assert answer.headers["X-Consul-Effective-Consistency"] == "stale"
        assert answer.headers["X-Consul-KnownLeader"] == "false"
        assert int(answer.headers["X-Consul-LastContact"]) > 0
    finally:
        for other in others:
            other.resume()
    cluster.await_up()


def test_sealing_a_node_ends_its_waits(cluster):
    policy = make(cluster.active())
    node = cluster.standbys()[0]
    waiter = Waiter(node, "policy/" + policy["ID"], policy["ModifyIndex"], "300s")
    try:
        assert node.call("PUT", "/v1/sys/seal").status == 204
        answer = waiter.end()
        assert answer.status == 503, answer.body
    finally:  # the tests behind this one need the node
        node.end()
        node.start()
        cluster.await_up()


def test_a_node_that_stops_replies_with_the_present_result(cluster):
    policy = make(cluster.active())
    node = cluster.standbys()[0]
    waiter = Waiter(node, "policy/" + policy["ID"], policy["ModifyIndex"], "300s")
    assert node.stop() == 0
    answer = waiter.end()
    assert answer.status == 200 and answer.json == policy
    assert index_of(answer) == policy["ModifyIndex"]
    node.start()
    cluster.await_up()


def test_a_restore_wakes_every_waiter(cluster):
    active = cluster.active()
    policy = make(active)
    archive = active.call("GET", "/v1/sys/storage/raft/snapshot")
    assert archive.status == 200
    newer = put(active, policy, Description="after the snapshot")
    path = "policy/" + policy["ID"]
    waiters = [Waiter(node, path, newer["ModifyIndex"], "300s") for node in cluster.nodes]
    absent = ask(active, "GET", "policy/" + ABSENT)
    waiters.append(Waiter(active, "policy/" + ABSENT, index_of(absent), "300s"))
    answer = active.call("POST", "/v1/sys/storage/raft/snapshot", archive.body)
    assert answer.status == 204, answer.body
    for waiter in waiters[:-1]:
        answer = waiter.end()
        assert answer.status == 200 and answer.json["Description"] == ""
        assert index_of(answer) >= newer["ModifyIndex"]
    assert waiters[-1].end().status == 404
    cluster.await_up()


def test_indexes_never_fall(cluster):
    """Not from node to node, and not over a new leader."""
    highest = 0
    for step in range(3):
        policy = make(cluster.active())
        for node in cluster.nodes:
            index = index_of(ask(node, "GET", "policies"))
            assert index >= max(highest, policy["ModifyIndex"])
            highest = index
        leader = cluster.active()
        answer = leader.call("PUT", "/v1/sys/step-down")
        assert answer.status == 204, (step, json.dumps(answer.json))
        cluster.await_up()
