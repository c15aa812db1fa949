"""Every route of the registry in every state of a node, with every kind of token, on both listeners."""

import pytest

import routes
from registry import RegistryCluster, ask, everywhere
from test_contract import SPECS, powerless, powerless_in_registry

UNKNOWN = "4b0b8a4e-9c6c-4b4e-8d6e-1f2f3f4f5f6f"


@pytest.fixture(scope="module")
def cluster():
    with RegistryCluster() as made:
        document = made.nodes[0].call("GET", SPECS + "?api=registry", token="").json
        made.operations = routes.operations(document)
        made.kinds = {"none": None, "unknown": UNKNOWN, "good": made.token,
                      "powerless": powerless_in_registry(made), "other kind": powerless(made)}
        yield made


def each(cluster, ats):
    """Every operation, as every kind of sender, at every listener: (what, operation, kind, reply)."""
    for op in cluster.operations:
        path = op.sample().removeprefix("/v1/")
        for kind, token in cluster.kinds.items():
            for at in ats:
                if kind == "good" and op.method != "GET":
                    continue  # the routes' own tests write
                yield f"{op} with {kind}", op, kind, ask(at, op.method, path, op.body(), token)


def is_about_the_node(op):
    return op.path.startswith("/status/")


def test_each_route_asks_for_its_right_on_active_and_standby(cluster):
    for what, op, kind, (status, text, _) in each(cluster, everywhere(cluster)):
        if op.auth == "token" and kind in ("none", "powerless"):
            assert status in (400, 403), (what, status, text)
            assert status != 403 or "ermission denied" in text or text == "ACL not found", (what, text)
        elif kind in ("unknown", "other kind") and op.auth != "none":
            assert (status, text) == (403, "ACL not found"), (what, status, text)
        elif op.auth == "none" and op.method == "GET":
            assert status == 200, (what, status, text)
        elif kind == "good":
            assert status != 403 or "ACL not found" in text, (what, status, text)


def assert_refused(cluster, node, words, told=()):
    """`told`: of which operations the node replies as ever."""
    for what, op, _, (status, text, _) in each(cluster, (node, node.registry)):
        if op in told:
            assert status == 200, (what, status, text)
        else:
            assert status == 503 and text.startswith(words), (what, status, text)
    for op in cluster.operations:  # what everybody may know is told in any state
        path = op.sample().removeprefix("/v1/")
        for at in (node, node.registry):
            assert ask(at, "GET", path + "?help=1")[0] == 200, op
            status, text, headers = ask(at, "OPTIONS", path)
            assert (status, text) == (200, "") and op.method in headers["Allow"].split(","), op
            status, text, headers = ask(at, "PATCH", path, {})
            assert (status, text) == (405, "method PATCH not allowed"), op
            assert op.method in headers["Allow"].split(","), op


@pytest.mark.parametrize("which", ["active", "standby"])
def test_each_route_refuses_in_maintenance(cluster, which):
    node = cluster.active() if which == "active" else cluster.standbys()[0]
    assert node.call("POST", "/v1/sys/maintenance", {"enabled": True}).status in (200, 204)
    assert_refused(cluster, node, "this node is in maintenance",
                   [op for op in cluster.operations if is_about_the_node(op)])
    assert node.call("POST", "/v1/sys/maintenance", {"enabled": False}).status in (200, 204)


def test_each_route_refuses_on_a_sealed_node(cluster):
    node = cluster.standbys()[0]
    assert node.call("PUT", "/v1/sys/seal").status == 204
    assert_refused(cluster, node, "this node is sealed")
    node.end()
    node.start()
    cluster.await_up()


def test_each_route_says_that_acls_are_off():
    off = {"registry": {"acl": False}}
    with RegistryCluster(1, config=off, open=True) as cluster:
        node = cluster.nodes[0]
        found = routes.operations(node.call("GET", SPECS + "?api=registry", token="").json)
        for op in found:
            path = op.sample().removeprefix("/v1/")
            for at in (node, node.registry):
                for token in (None, UNKNOWN, cluster.token):
                    status, text, _ = ask(at, op.method, path, op.body(), token)
                    if path.startswith("acl/"):
                        assert (status, text) == (401, "ACL support disabled"), op
                    else:
                        assert status == 200, (op, status, text)
