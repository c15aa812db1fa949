"""Nodes whose cluster port moves: a node is known by its name and its certificate."""

import time

import pytest

from cluster import PATIENCE_S, Cluster, free_ports


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as cluster:
        yield cluster


def stored(node):
    answer = node.call("GET", "/v1/sys/storage/raft/configuration")
    assert answer.status == 200, answer.body
    return {s["node_id"]: s["address"] for s in answer.data["config"]["servers"]}


def await_stored(cluster, node):
    """The members are stored where they are configured to be."""
    wanted = {n.name: f"127.0.0.1:{n.cluster_port}" for n in cluster.nodes}
    deadline = time.monotonic() + PATIENCE_S
    while (have := stored(node)) != wanted:
        assert time.monotonic() < deadline, f"members are {have}, wanted {wanted}"
        time.sleep(0.05)


def restart_at(cluster, ports):
    for node in cluster.nodes:
        assert node.stop() == 0
    for node, port in zip(cluster.nodes, ports):
        node.cluster_port = port
    for node in cluster.nodes:
        node.start()
    cluster.await_up()
    for node in cluster.nodes:
        await_stored(cluster, node)
        assert node.call("PUT", "/v1/kv/moved", {"to": node.cluster_port}).status == 204
    cluster.await_equal_roots()


def test_a_cluster_whose_addresses_all_changed_forms_again(cluster):
    restart_at(cluster, free_ports(3))


def test_a_stored_address_that_is_another_nodes_by_now_does_no_harm(cluster):
    ports = [node.cluster_port for node in cluster.nodes]
    restart_at(cluster, ports[1:] + ports[:1])


def test_the_others_learn_where_a_node_that_moved_is(cluster):
    third, moved = cluster.standbys()
    # One that names no address which another node could dial keeps its stored one.
    assert third.stop() == 0
    third.config = {"cluster": {"advertise": f"0.0.0.0:{third.cluster_port}"}}
    third.start()
    cluster.await_up()
    assert moved.stop() == 0
    moved.cluster_port = free_ports(1)[0]
    moved.start()  # the others keep a configuration that names its old address
    cluster.await_up()
    await_stored(cluster, third)
    nodes = cluster.active().call("GET", "/v1/sys/ha-status").data["nodes"]
    shown = {n["hostname"]: n["cluster_address"] for n in nodes}
    assert shown[moved.name].endswith(f"127.0.0.1:{moved.cluster_port}")
    # They dial it there: it becomes the active node, and a request to another is sent on to it.
    vote = {"server_id": third.name}
    assert third.call("POST", "/v1/sys/storage/raft/demote", vote).status == 204
    assert cluster.active().call("PUT", "/v1/sys/step-down").status == 204
    deadline = time.monotonic() + PATIENCE_S
    while moved.health() != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert third.call("PUT", "/v1/kv/moved", {"to": moved.name}).status == 204
