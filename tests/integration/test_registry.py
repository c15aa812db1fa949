"""The registry on nodes of a cluster: its dialect, its routes, and listeners by API."""

import time

import pytest

from registry import JSON, RegistryCluster, ask, everywhere

ENDPOINT = ("Invalid URL path: not a recognized HTTP API endpoint\n"
            "holdfast serves acl/, agent/self and status/ of this API: see docs/compatibility.md\n")
ANONYMOUS = (
    "Permission denied: anonymous token lacks permission '{}'. The anonymous token is used "
    "implicitly when a request does not specify a token."
)
READS = ("acl/roles", "acl/auth-methods", "acl/binding-rules", "agent/self")


@pytest.fixture(scope="module")
def cluster():
    with RegistryCluster() as cluster:
        yield cluster


def test_the_status_names_cluster_ports(cluster):
    ports = sorted(f"127.0.0.1:{node.cluster_port}" for node in cluster.nodes)
    for at in everywhere(cluster):
        answer = at.call("GET", "/v1/status/leader", token="")
        assert answer.status == 200 and answer.json in ports
        assert sorted(at.call("GET", "/v1/status/peers", token="").json) == ports


def test_every_read_needs_its_right(cluster):
    for at in everywhere(cluster):
        for path in READS:
            right = "agent:read" if path == "agent/self" else "acl:read"
            status, text, headers = ask(at, "GET", path)
            assert status == 403 and "X-Consul-Index" not in headers
            assert ANONYMOUS.format(right)[:60] in text, text
            assert ask(at, "GET", path, token="unknown")[:2] == (403, "ACL not found")
            status, text, headers = ask(at, "GET", path, token=cluster.token)
            assert status == 200 and headers["Content-Type"] == JSON
            for name in ("X-Registry-", "X-Consul-"):
                assert int(headers[name + "Index"]) >= 1
                assert headers[name + "KnownLeader"] == "true"
                assert headers[name + "LastContact"] == "0"
                assert headers[name + "Effective-Consistency"] == "leader"


def test_the_agent_is_the_node_that_was_asked(cluster):
    for node in cluster.nodes:
        for at in (node, node.registry):
            answer = at.call("GET", f"/v1/agent/self?token={cluster.token}", token="")
            assert answer.status == 200, answer.body
            config, member = answer.json["Config"], answer.json["Member"]
            assert config["NodeName"] == member["Name"] == node.name
            assert config["Datacenter"] == "east"
            assert (member["Addr"], member["Port"]) == ("127.0.0.1", node.cluster_port)


def test_paths_and_methods_are_told_without_a_token(cluster):
    for at in everywhere(cluster):
        assert ask(at, "GET", "acl/none/such")[:2] == (404, ENDPOINT)
        status, text, headers = ask(at, "POST", "acl/roles", {})
        assert (status, text) == (405, "method POST not allowed")
        assert headers["Allow"] == "OPTIONS,GET"
        status, text, headers = ask(at, "OPTIONS", "acl/roles")
        assert (status, text, headers["Allow"]) == (200, "", "OPTIONS,GET")
        assert ask(at, "GET", "acl/roles?help=1")[0] == 200


def test_parameters_are_checked(cluster):
    for at in everywhere(cluster):
        for query, text in (
            ("index=x", "Invalid index"),
            ("wait=x", "Invalid wait time"),
            ("max_stale=x", 'Invalid max_stale value "x"'),
            ("stale&consistent", "Cannot specify ?stale with ?consistent, conflicting semantics."),
        ):
            assert ask(at, "GET", "acl/roles?" + query, token=cluster.token)[:2] == (400, text)
        other = ask(at, "GET", "acl/roles?dc=west", token=cluster.token)
        assert other[:2] == (500, "No path to datacenter")
        assert ask(at, "GET", "acl/roles?dc=east", token=cluster.token)[0] == 200
        assert ask(at, "GET", "acl/roles?ns=other", token=cluster.token)[:2] == (200, "[]")


def test_a_listener_serves_its_apis_alone(cluster):
    for node in cluster.nodes:
        assert ask(node.registry, "GET", "sys/health")[:2] == (404, ENDPOINT)
        assert ask(node.registry, "GET", "secret/data/a", token=cluster.token)[:2] == (404, ENDPOINT)
        for probe in ("/livez", "/readyz"):
            assert node.registry.call("GET", probe, token="").status == 200
        reply = node.call("GET", "/v1/none/such")
        assert reply.status == 404 and reply.json["errors"]


def test_a_sealed_node_and_one_in_maintenance_refuse(cluster):
    node = next(n for n in cluster.nodes if n.health() == 473)
    assert node.call("POST", "/v1/sys/maintenance", {"enabled": True}).status in (200, 204)
    for at in (node, node.registry):
        assert ask(at, "GET", "acl/roles", token=cluster.token)[:2] == (
            503, "this node is in maintenance")
        assert ask(at, "GET", "status/leader")[0] == 200
    assert node.call("POST", "/v1/sys/maintenance", {"enabled": False}).status in (200, 204)
    assert node.call("PUT", "/v1/sys/seal").status == 204
    for at in (node, node.registry):
        status, text, _ = ask(at, "GET", "acl/roles?stale", token=cluster.token)
        assert status == 503 and text.startswith("this node is sealed")
        for path in ("status/leader", "status/peers"):
            assert ask(at, "GET", path)[:2] == (503, "this node is sealed")
    node.end()
    node.start()
    cluster.await_health({200, 429, 473}, [node])


def test_a_stale_read_needs_no_leader(cluster):
    one, *others = cluster.nodes
    for node in others:
        node.pause()
    try:
        status, text, headers = ask(one.registry, "GET", "acl/roles?stale", token=cluster.token)
        assert (status, text) == (200, "[]")
        assert headers["X-Consul-Effective-Consistency"] == "stale"
        status, text, _ = ask(one.registry, "GET", "acl/roles?consistent", token=cluster.token)
        assert status == 500 and "No cluster leader" in text
    finally:
        for node in others:
            node.resume()
    cluster.await_health({200, 429, 473}, cluster.nodes)


def test_a_plain_standby_forwards_with_the_api(cluster):
    node = next(n for n in cluster.nodes if n.health() == 473)
    node.end()
    node.config["performance_standby"] = False
    node.start()
    cluster.await_health({429}, [node])
    for at in (node, node.registry):
        assert ask(at, "GET", "acl/roles", token=cluster.token)[:2] == (200, "[]")
        assert ask(at, "GET", "acl/roles", token="unknown")[:2] == (403, "ACL not found")
        lied = at.call("GET", "/v1/acl/roles", token="",
                       headers={"X-Holdfast-API": "secrets", "X-Consul-Token": cluster.token})
        assert (lied.status, lied.json) == (200, [])
    assert node.call("GET", "/v1/sys/mounts", headers={"X-Holdfast-API": "registry"}).status == 200


def test_a_quota_of_the_registry_is_told_in_its_words(cluster):
    node, path = cluster.nodes[0], "/v1/sys/quotas/rate-limit/registry"
    quota = {"path": "registry/acl/roles", "rate": 2, "interval": "1h"}
    assert node.call("POST", path, quota).status == 204
    for at in everywhere(cluster):  # each worker of a node learns of the quota by itself
        deadline = time.monotonic() + 60
        while (reply := ask(at, "GET", "acl/roles", token=cluster.token))[0] == 200:
            assert time.monotonic() < deadline
        assert reply[:2] == (429, "rate limit exceeded")
        assert ask(at, "GET", "acl/auth-methods", token=cluster.token)[0] == 200
    assert node.call("DELETE", path).status == 204
