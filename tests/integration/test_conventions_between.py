"""A client of one API at a path of another: the reply is in the form that this client reads."""

import pytest

from registry import RegistryCluster, ask

ABSENT = ("kv/a", "catalog/services", "health/service/web", "agent/members", "session/list", "event/list",
          "operator/raft/configuration", "txn", "coordinate/nodes", "query", "snapshot", "connect/ca/roots",
          "config/service-defaults", "internal/ui/nodes")
RESERVED = ("catalog/services", "session/list", "event/list", "operator/raft/configuration", "txn")


class Between(RegistryCluster):
    recorded = False  # no document has the paths that are asked for


@pytest.fixture(scope="module")
def cluster():
    with Between() as cluster:
        yield cluster


def test_a_client_of_the_registry_is_told_which_paths_are_served(cluster):
    for node in cluster.nodes:
        for path in ABSENT:
            status, text, _ = ask(node, "GET", path, token=cluster.token)
            assert status == 404 and "holdfast serves acl/, agent/self and status/" in text, path
        for path in RESERVED:  # no mount can have the name
            assert ask(node, "GET", path)[0] == 404, path


def test_a_client_of_the_scheduler_is_told_which_paths_are_served(cluster):
    for headers in ({}, {"X-Nomad-Token": cluster.token}):
        for path in ("deployments", "namespaces", "regions", "search", "system/gc", "deployment/a"):
            reply = cluster.nodes[0].call("GET", f"/v1/{path}", None, "", headers)
            assert reply.status == 404 and b"holdfast serves allocation(s)" in reply.body, path
    reply = cluster.nodes[0].call("GET", "/v1/volumes", None, "", {"X-Nomad-Token": cluster.token})
    assert reply.status == 404 and b"holdfast serves allocation(s)" in reply.body


def test_a_client_of_secrets_learns_nothing_about_mounts(cluster):
    for headers in ({}, {"X-Vault-Token": "s.none"}, {"X-Vault-Token": "s.none", "X-Consul-Token": "a"}):
        for path in ("kv/a", "health/service/web", "none/at/all"):
            reply = cluster.nodes[0].call("GET", f"/v1/{path}", None, "", headers)
            assert reply.status == 403 and "permission denied" in reply.json["errors"][0], path

