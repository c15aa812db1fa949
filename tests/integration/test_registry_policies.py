"""ACL policies of the registry on three nodes: writers, readers that wait, restarts, a restore."""

import threading
import time
import uuid

import pytest

from cluster import PATIENCE_S
from registry import RegistryCluster, index_of
from test_snapshot import restored, save

MANAGEMENT = "00000000-0000-0000-0000-000000000001"
READ_ONLY = "00000000-0000-0000-0000-000000000002"
ABSENT = "Requested policy does not exist: ACL not found"
WAIT = "60s"
SHORT_S = 1  # how long a reader is watched that must not be woken
CLASH = 'Invalid Policy: A Policy with Name "{}" already exists'


class PolicyCluster(RegistryCluster):
    def init(self):
        super().init()
        self.await_feature_level()
        deadline = time.monotonic() + PATIENCE_S
        while len(ask(self.nodes[0], "GET", "policies").json) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)


CLUSTER = PolicyCluster


def ask(node, method, path, body=None, timeout_s=PATIENCE_S):
    headers = {"X-Consul-Token": node.cluster.token}
    return node.call(method, f"/v1/acl/{path}", body, "", headers, timeout_s)


def write(node, body, path="policy"):
    answer = ask(node, "PUT", path, body)
    assert answer.status == 200, answer.body
    return answer.json


def fresh_name(stem="policy"):
    return f"{stem}-{uuid.uuid4().hex[:12]}"


class Reader(threading.Thread):
    """A read that waits for a newer result than that of the same read now."""

    def __init__(self, node, path, wait=WAIT, mode=""):
        super().__init__(daemon=True)
        self.node, self.answer, self.took_s = node, None, 0
        first = ask(node, "GET", path)
        self.index = index_of(first)
        self.path = f"{path}?index={self.index}&wait={wait}{mode}"
        waiting = node.metric("holdfast_blocking_waiting")
        self.start()
        deadline = time.monotonic() + PATIENCE_S
        while node.metric("holdfast_blocking_waiting") == waiting:
            assert self.is_alive() and time.monotonic() < deadline
            time.sleep(0.02)

    def run(self):
        begun = time.monotonic()
        self.answer = ask(self.node, "GET", self.path, timeout_s=120)
        self.took_s = time.monotonic() - begun

    def woken(self):
        """The reply of a reader that a write must wake."""
        self.join(PATIENCE_S)
        assert not self.is_alive(), f"{self.node.name} does not wake {self.path}"
        assert index_of(self.answer) > self.index
        return self.answer

    def sleeps(self):
        self.join(SHORT_S)
        return self.is_alive()


def test_the_builtin_policies_are_there(cluster):
    for node in cluster.nodes:
        items = ask(node, "GET", "policies").json
        ids = [item["ID"] for item in items]
        assert ids == sorted(ids) and ids[:2] == [MANAGEMENT, READ_ONLY]
        assert all("Rules" not in item and item["Datacenters"] is None for item in items[:2])
        policy = ask(node, "GET", f"policy/{MANAGEMENT}").json
        assert policy["Name"] == "global-management"
        assert 'key_prefix "" {\n\tpolicy = "write"\n}' in policy["Rules"]
        by_name = ask(node, "GET", "policy/name/builtin%2Fglobal-read-only")
        assert by_name.json["ID"] == READ_ONLY
        refused = ask(node, "DELETE", f"policy/{READ_ONLY}")
        assert refused.status == 500 and b"not permitted" in refused.body


def test_a_policy_written_on_one_node_is_read_on_all(cluster):
    for writer in cluster.nodes:
        body = {"Name": fresh_name(), "Description": f"é <&> {uuid.uuid4()}", "Rules": 'key_prefix "a/" { policy = "list" }',
                "Datacenters": ["dc1", "dc9"]}
        policy = write(writer, body)
        assert {name: policy[name] for name in body} == body
        assert policy["CreateIndex"] == policy["ModifyIndex"] > 1
        for node in cluster.nodes:
            answer = ask(node, "GET", f"policy/{policy['ID']}")
            assert answer.json == policy and index_of(answer) == policy["ModifyIndex"]
            assert ask(node, "GET", f"policy/name/{body['Name'].upper()}").json == policy
            listed = [p for p in ask(node, "GET", "policies").json if p["ID"] == policy["ID"]]
            assert listed == [{name: value for name, value in policy.items() if name != "Rules"}]
        changed = write(writer, {**policy, "Description": "changed"}, f"policy/{policy['ID']}")
        assert changed["ModifyIndex"] > policy["ModifyIndex"] == changed["CreateIndex"]
        assert changed["Hash"] != policy["Hash"]
        for node in cluster.nodes:
            assert ask(node, "GET", f"policy/{policy['ID']}").json == changed


def test_a_deleted_policy_is_gone_everywhere(cluster):
    one, two, three = cluster.nodes
    policy = write(one, {"Name": fresh_name()})
    assert ask(two, "DELETE", f"policy/{policy['ID']}").json is True
    assert ask(three, "DELETE", f"policy/{policy['ID']}").json is False
    for node in cluster.nodes:
        for path in (policy["ID"], f"name/{policy['Name']}"):
            answer = ask(node, "GET", f"policy/{path}")
            assert (answer.status, answer.body.decode()) == (404, ABSENT)
            assert index_of(answer) > policy["ModifyIndex"]
            assert answer.headers["X-Consul-KnownLeader"] == "true"


def test_of_two_nodes_that_take_a_name_at_once_one_wins(cluster):
    one, two = cluster.nodes[:2]
    for round_ in range(20):
        name, start = fresh_name("race"), threading.Barrier(2)
        answers = []

        def create(node, spelling):
            start.wait()
            answers.append((ask(node, "PUT", "policy", {"Name": spelling}), spelling))

        threads = [threading.Thread(target=create, args=args)
                   for args in ((one, name), (two, name.upper()))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (won, _), (lost, spelling) = sorted(answers, key=lambda each: each[0].status)
        assert (won.status, lost.status) == (200, 500), [a.body for a, _ in answers]
        assert lost.body.decode() == CLASH.format(spelling)
        found = [p["ID"] for p in ask(two, "GET", "policies").json
                 if p["Name"].lower() == name]
        assert found == [won.json["ID"]]


@pytest.mark.parametrize("mode", ["", "&consistent", "&stale"])
def test_a_change_wakes_readers_of_its_policy_alone(cluster, mode):
    policy, other = (write(cluster.nodes[0], {"Name": fresh_name()}) for _ in range(2))
    path = f"policy/{policy['ID']}"
    readers = [Reader(node, each, mode=mode) for node in cluster.nodes
               for each in (path, f"policy/name/{policy['Name']}")]
    write(cluster.nodes[1], {"Name": other["Name"]}, f"policy/{other['ID']}")
    write(cluster.nodes[1], {"Name": fresh_name()})
    assert all(reader.sleeps() for reader in readers)
    changed = write(cluster.nodes[2], {"Name": policy["Name"], "Description": "2"}, path)
    for reader in readers:
        answer = reader.woken()
        assert answer.json == changed and index_of(answer) == changed["ModifyIndex"]
    readers = [Reader(node, path) for node in cluster.nodes]
    again = write(cluster.nodes[0], changed, path)  # an equal write is a change
    assert all(reader.woken().json == again for reader in readers)
    readers = [Reader(node, path) for node in cluster.nodes]
    assert ask(cluster.nodes[0], "DELETE", path).json is True
    assert all(reader.woken().status == 404 for reader in readers)


def test_a_reader_of_an_absent_policy_is_woken_by_its_creation(cluster):
    name = fresh_name("late")
    readers = [Reader(node, f"policy/name/{name}") for node in cluster.nodes]
    write(cluster.nodes[0], {"Name": fresh_name()})
    assert all(reader.sleeps() for reader in readers)
    policy = write(cluster.nodes[1], {"Name": name})
    assert all(reader.woken().json == policy for reader in readers)


def test_readers_of_the_list_are_woken_by_every_change(cluster):
    policy = write(cluster.nodes[0], {"Name": fresh_name()})
    for act in (lambda: write(cluster.nodes[0], {"Name": fresh_name()}),
                lambda: write(cluster.nodes[1], {"Name": policy["Name"]}, f"policy/{policy['ID']}"),
                lambda: ask(cluster.nodes[2], "DELETE", f"policy/{policy['ID']}")):
        readers = [Reader(node, "policies") for node in cluster.nodes]
        act()
        newest = {index_of(reader.woken()) for reader in readers}
        assert len(newest) == 1
    assert policy["ID"] not in [p["ID"] for p in readers[0].answer.json]


def test_a_wait_ends_with_the_same_result(cluster):
    policy = write(cluster.nodes[0], {"Name": fresh_name()})
    for path, status in ((f"policy/{policy['ID']}", 200), ("policies", 200),
                         (f"policy/name/{fresh_name('none')}", 404)):
        for node in cluster.nodes:
            reader = Reader(node, path, wait="1s")
            reader.join(PATIENCE_S)
            assert reader.answer.status == status and 1 <= reader.took_s < 5
            assert index_of(reader.answer) == reader.index


def test_policies_outlive_a_restart_and_indexes_never_fall(cluster):
    policy = write(cluster.nodes[0], {"Name": fresh_name()})
    paths = (f"policy/{policy['ID']}", f"policy/name/{policy['Name']}", "policies",
             f"policy/{uuid.uuid4()}")
    before = [index_of(ask(cluster.nodes[0], "GET", path)) for path in paths]
    for node in cluster.nodes:
        node.stop()
    cluster.start()
    cluster.await_up()
    for node in cluster.nodes:
        assert ask(node, "GET", paths[0]).json == policy
        answers = [ask(node, "GET", path) for path in paths]
        assert all(index_of(answer) >= old for answer, old in zip(answers, before))
        assert index_of(answers[0]) == before[0]
        assert len([p for p in answers[2].json if p["ID"] in (MANAGEMENT, READ_ONLY)]) == 2


def test_a_restore_takes_policies_back_and_wakes_all(cluster):
    kept = write(cluster.nodes[0], {"Name": fresh_name("kept")})
    archive = save(cluster.active())
    lost = write(cluster.nodes[0], {"Name": fresh_name("lost")})
    write(cluster.nodes[0], {"Name": fresh_name()})
    readers = [Reader(node, path) for node in cluster.nodes
               for path in (f"policy/{kept['ID']}", f"policy/{lost['ID']}", "policies",
                            f"policy/{uuid.uuid4()}")]
    restored(cluster.active(), archive)
    cluster.await_up()
    for reader in readers:
        answer = reader.woken()
        path = reader.path.partition("?")[0]
        wanted = 404 if path.startswith("policy/") and kept["ID"] not in path else 200
        assert answer.status == wanted, (path, answer.body)
    again = write(cluster.nodes[1], {"Name": lost["Name"]})
    assert again["ModifyIndex"] > lost["ModifyIndex"]
    for node in cluster.nodes:
        assert ask(node, "GET", f"policy/{MANAGEMENT}").status == 200


def test_unknown_blocks_warn(cluster):
    for node in cluster.nodes:
        answer = ask(node, "PUT", "policy", {"Name": fresh_name(), "Rules": 'kye "a" {}'})
        assert answer.status == 200
        for name in ("X-Consul-Warning", "X-Registry-Warning"):
            assert answer.headers[name] == 'the rules have "kye", which grants nothing'


def test_rights_are_asked_for_on_every_node(cluster):
    for node in cluster.nodes:
        for method, path, right in (("GET", "policies", "acl:read"), ("PUT", "policy", "acl:write"),
                                    ("DELETE", f"policy/{MANAGEMENT}", "acl:write")):
            body = {"Name": fresh_name("none")} if method == "PUT" else None
            answer = node.call(method, f"/v1/acl/{path}", body, "")
            assert answer.status == 403 and f"'{right}'" in answer.body.decode()
            answer = node.call(method, f"/v1/acl/{path}", body, "", {"X-Consul-Token": "unknown"})
            assert (answer.status, answer.body) == (403, b"ACL not found")
