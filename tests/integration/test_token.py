"""Tokens on a real cluster: every route through every node, and tokens after crashes."""

import threading
import time

import pytest

from cluster import Cluster

BASE = "/v1/auth/token/"


def create(cluster, node=None, by=None, path="create", **fields):
    """`auth` of a new token."""
    node = node or cluster.active()
    answer = node.call("POST", BASE + path, fields, token=by)
    assert answer.status == 200, answer.body
    return answer.json["auth"]


def lookup_self(node, token):
    return node.call("GET", BASE + "lookup-self", token=token)


def post(node, path, body=None, token=None):
    return node.call("POST", BASE + path, body, token=token)


def settled(read, wanted, timeout_s=120):
    """Wait until `read()` gives `wanted`."""
    deadline = time.monotonic() + timeout_s
    while (have := read()) != wanted:
        assert time.monotonic() < deadline, f"have {have}, wanted {wanted}"
        time.sleep(0.1)


def accessors(cluster, node=None):
    node = node or cluster.active()
    return node.call("LIST", BASE + "accessors").data["keys"]


def test_every_route_through_every_node(cluster):
    for node in cluster.nodes:
        auth = create(cluster, node, ttl="1h", meta={"who": node.name}, display_name="t")
        token, accessor = auth["client_token"], auth["accessor"]
        assert token.startswith("hvs.") and auth["lease_duration"] == 3600
        assert auth["token_policies"] == auth["policies"] == ["root"]
        for each in cluster.nodes:
            data = lookup_self(each, token).data
            assert (data["id"], data["accessor"]) == (token, accessor)
            assert (data["meta"], data["display_name"]) == ({"who": node.name}, "token-t")
            assert (data["type"], data["orphan"], data["creation_ttl"]) == ("service", False, 3600)
            assert 3500 < data["ttl"] <= 3600
        assert post(node, "lookup", {"token": token}).data["accessor"] == accessor
        assert node.call("GET", BASE + f"lookup?token={token}").data["accessor"] == accessor
        by_accessor = post(node, "lookup-accessor", {"accessor": accessor}).data
        assert (by_accessor["id"], by_accessor["path"]) == ("", "auth/token/create")
        for path, body, by in (
            ("renew", {"token": token, "increment": "30m"}, None),
            ("renew-self", {"increment": 1800}, token),
            ("renew-accessor", {"accessor": accessor, "increment": "1800"}, None),
        ):
            renewed = post(node, path, body, token=by)
            assert renewed.status == 200, renewed.body
            assert renewed.json["auth"]["lease_duration"] == 1800
        assert post(node, "roles/some", {"allowed_policies": ["root"], "orphan": True}).status == 204
        assert node.call("GET", BASE + "roles/some").data["allowed_policies"] == ["root"]
        assert node.call("LIST", BASE + "roles").data["keys"] == ["some"]
        by_role = create(cluster, node, path="create/some", ttl=60)
        assert by_role["orphan"] is True
        assert node.call("DELETE", BASE + "roles/some").status == 204
        orphan = create(cluster, node, path="create-orphan", ttl=60)
        assert orphan["orphan"] is True
        listed = node.call("GET", BASE + "accessors?list=true").data["keys"]
        assert {accessor, orphan["accessor"], by_role["accessor"]} <= set(listed)
        assert post(node, "tidy").status == 202
        assert post(node, "revoke", {"token": token}).status == 204
        assert post(node, "revoke-accessor", {"accessor": orphan["accessor"]}).status == 204
        assert post(node, "revoke-self", token=by_role["client_token"]).status == 204
        for each in cluster.nodes:
            assert lookup_self(each, token).status == 403
            assert lookup_self(each, orphan["client_token"]).status == 403


def test_errors_say_what_is_wrong(cluster):
    node = cluster.standbys()[0]
    cases = [
        ("create", {"type": "other"}, 400, "type"),
        ("create", {"ttl": "soon"}, 400, "ttl"),
        ("create", {"num_uses": -1}, 400, "negative"),
        ("create", {"entity_alias": "x"}, 400, "entity_alias"),
        ("create", {"type": "batch", "policies": "a", "period": 5}, 400, "period"),
        ("create/none", {}, 400, "unknown role none"),
        ("lookup", {"token": "hvs.none"}, 403, "bad token"),
        ("lookup-accessor", {"accessor": "none"}, 400, "invalid accessor"),
        ("renew", {"token": "hvs.none"}, 400, "token not found"),
        ("renew-self", {}, 400, "lease is not renewable"),
        ("renew-accessor", {"accessor": "none"}, 400, "invalid accessor"),
        ("revoke-accessor", {"accessor": "none"}, 400, "invalid accessor"),
        ("revoke-orphan", {"token": "none"}, 400, "not found"),
        ("revoke", {}, 400, "missing token"),
    ]
    for path, body, status, part in cases:
        answer = post(node, path, body)
        assert answer.status == status and part in answer.json["errors"][0], (path, answer.body)
    assert post(node, "revoke", {"token": "hvs.none"}).status == 204
    for path in ("create", "lookup", "revoke-self", "accessors", "roles/x"):
        assert node.call("LIST", BASE + path, token="hvs.none").status == 403
        assert node.call("POST", BASE + path, {}, token="").status == 403
    assert node.call("DELETE", BASE + "create").status == 405
    assert node.call("GET", BASE + "nothing").status == 404


def test_a_token_comes_in_any_of_its_headers(cluster):
    token = create(cluster, ttl=600)["client_token"]
    node = cluster.standbys()[0]
    for headers in (
        {"X-Secrets-Token": token},
        {"X-Vault-Token": token},
        {"Authorization": f"Bearer {token}"},
    ):
        answer = node.call("GET", BASE + "lookup-self", token="", headers=headers)
        assert answer.status == 200 and answer.data["id"] == token
    for headers in ({"Authorization": f"bearer {token}"}, {"Authorization": token}, {}):
        assert node.call("GET", BASE + "lookup-self", token="", headers=headers).status == 403
    assert post(node, "revoke-self", token=token).status == 204


def test_a_revocation_is_seen_by_all_once_it_is_acknowledged(cluster):
    for round_ in range(10):
        parent = create(cluster, ttl=600)["client_token"]
        child = create(cluster, by=parent, ttl=600)["client_token"]
        batch = create(cluster, by=child, ttl=600, type="batch", policies=["x"])
        assert False is batch["renewable"]
        for node in cluster.nodes:
            assert lookup_self(node, child).status == 200
            assert node.call("GET", "/v1/kv/none", token=child).status == 404
        by = cluster.nodes[round_ % 3]
        assert post(by, "revoke", {"token": parent}).status == 204
        for node in cluster.nodes:
            assert lookup_self(node, child).status == 403
            assert lookup_self(node, parent).status == 403
            assert node.call("PUT", "/v1/kv/x", {"a": 1}, token=child).status == 403
            found = post(node, "lookup", {"token": batch["client_token"]})
            assert found.status == 403


def test_orphans_live_on(cluster):
    parent = create(cluster, ttl=600)["client_token"]
    children = [create(cluster, by=parent, ttl=600)["client_token"] for _ in range(3)]
    assert post(cluster.nodes[0], "revoke-orphan", {"token": parent}).status == 204
    for node in cluster.nodes:
        assert lookup_self(node, parent).status == 403
        for child in children:
            assert lookup_self(node, child).data["orphan"] is True
    for child in children:
        assert post(cluster.nodes[1], "revoke", {"token": child}).status == 204


def test_uses_are_counted_exactly_through_all_nodes(cluster):
    uses, each = 20, 6
    token = create(cluster, ttl=600, num_uses=uses)["client_token"]
    seen = []

    def use(node):
        for _ in range(each):
            seen.append(lookup_self(node, token).status)

    threads = [threading.Thread(target=use, args=(n,)) for n in cluster.nodes for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert len(seen) == 6 * each and set(seen) == {200, 403}
    assert seen.count(200) == uses
    for node in cluster.nodes:
        assert lookup_self(node, token).status == 403


def test_uses_count_what_fails_too(cluster):
    node = cluster.standbys()[0]
    token = create(cluster, ttl=600, num_uses=4)["client_token"]
    assert node.call("GET", "/v1/no/such", token=token).status == 404
    assert node.call("PUT", "/v1/kv/x", {}, token=token).status == 400
    assert post(node, "create", {}, token=token).status == 400
    assert node.call("GET", "/v1/sys/internal/state", token=token).status == 400  # not counted
    assert lookup_self(node, token).data["num_uses"] == 0
    assert lookup_self(node, token).status == 403


def test_what_tokens_leave_is_deleted(cluster):
    settled(lambda: len(accessors(cluster)), 1)
    parents = [create(cluster, ttl=600)["client_token"] for _ in range(3)]
    for parent in parents:
        for _ in range(40):
            create(cluster, by=parent, ttl=600)
    short = [create(cluster, ttl=1)["accessor"] for _ in range(20)]
    assert len(short) == 20
    for parent in parents:
        assert post(cluster.nodes[0], "revoke", {"token": parent}).status == 204
    settled(lambda: len(accessors(cluster)), 1)
    cluster.await_equal_roots()


def listed(node, limit):
    """The accessors in pages of `limit`."""
    found, path = [], f"{BASE}accessors?limit={limit}"
    while True:
        answer = node.call("LIST", path)
        if answer.status == 404:
            return found
        page = answer.data["keys"]
        found += page
        if len(page) < limit:
            return found
        path = f"{BASE}accessors?limit={limit}&after={page[-1]}"


def test_the_pages_of_accessors_are_complete(cluster):
    """Accessors are derived from ids or, where the client chose the bearer, in an index."""
    drawn = [create(cluster, ttl=600) for _ in range(30)]
    chosen = [create(cluster, ttl=600, id=f"paged-{n}") for n in range(30)]
    made = sorted(auth["accessor"] for auth in drawn + chosen)
    for node in cluster.nodes:
        assert set(made) < set(accessors(cluster, node))
        for limit in (1, 7, 1000):
            pages = listed(node, limit)
            assert pages == sorted(set(pages)), "out of order, or twice"
            assert [name for name in pages if name in made] == made
    for auth in drawn + chosen:
        by_accessor = post(cluster.standbys()[0], "lookup-accessor", {"accessor": auth["accessor"]})
        assert by_accessor.data["accessor"] == auth["accessor"]
        assert post(cluster.nodes[0], "revoke-accessor", {"accessor": auth["accessor"]}).status == 204
    assert not set(made) & set(accessors(cluster))
    again = create(cluster, ttl=600, id="paged-0")
    assert again["accessor"] not in made
    assert post(cluster.nodes[0], "revoke", {"token": "paged-0"}).status == 204


def test_expiry_and_revocation_hold_across_a_crash_of_the_leader():
    with Cluster() as cluster:
        top = create(cluster, ttl="10m")["client_token"]
        below = [create(cluster, by=top, ttl="10m")["client_token"] for _ in range(150)]
        kept = create(cluster, ttl="10m")["client_token"]
        began = time.monotonic()
        ending = create(cluster, ttl=8)["client_token"]
        made = time.monotonic()
        leader = cluster.active()
        assert post(leader, "revoke", {"token": top}).status == 204
        leader.kill()
        node = cluster.active()
        assert node is not leader
        for token in below[::10]:
            assert lookup_self(node, token).status == 403
        assert lookup_self(node, kept).status == 200
        while True:
            before = time.monotonic()
            status = lookup_self(node, ending).status
            after = time.monotonic()
            if after < began + 7.5:  # cluster time may be slewed by a twentieth
                assert status == 200, "ended early"
            if status == 403:
                break
            assert before < made + 120, "still good long after its time"
            time.sleep(0.05)
        leader.start()
        cluster.await_up()
        assert lookup_self(leader, ending).status == 403
        settled(lambda: len(accessors(cluster)), 2)
        assert lookup_self(leader, kept).status == 200
        cluster.await_equal_roots()


@pytest.mark.parametrize("kind", ["service", "batch"])
def test_tokens_survive_a_restart_of_all_nodes(kind):
    with Cluster() as cluster:
        fields = {"policies": ["a"]} if kind == "batch" else {}
        token = create(cluster, ttl="10m", type=kind, **fields)["client_token"]
        for node in cluster.nodes:
            node.kill()
        cluster.start()
        cluster.await_up()
        for node in cluster.nodes:
            assert post(node, "lookup", {"token": token}).data["type"] == kind


def test_a_wrapped_answer_is_unwrapped_once(cluster):
    node, other = cluster.standbys()
    assert node.call("PUT", "/v1/kv/wrapped", {"n": 7}).status == 204
    for header in ("X-Secrets-Wrap-TTL", "X-Vault-Wrap-TTL"):
        told = node.call("GET", "/v1/kv/wrapped", headers={header: "60s"}).json
        assert told["data"] is None and told["wrap_info"]["creation_path"] == "kv/wrapped"
        token = told["wrap_info"]["token"]
        looked = other.call("POST", "/v1/sys/wrapping/lookup", {"token": token}, token="").data
        assert (looked["creation_ttl"], looked["creation_path"]) == (60, "kv/wrapped")
        again = other.call("POST", "/v1/sys/wrapping/rewrap", {"token": token}).json
        token = again["wrap_info"]["token"]
        results = []

        def unwrap(at, by):
            results.append(at.call("POST", "/v1/sys/wrapping/unwrap", token=by))

        threads = [threading.Thread(target=unwrap, args=(n, token)) for n in cluster.nodes * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(r.status for r in results) == [200] + [400] * 5
        (good,) = [r for r in results if r.status == 200]
        assert good.data == {"n": 7}
    bad = node.call("GET", "/v1/kv/wrapped", headers={"X-Vault-Wrap-TTL": "soon"})
    assert bad.status == 400
    unasked = node.call("POST", "/v1/sys/wrapping/wrap", {"a": 1})
    assert unasked.status == 400 and "response wrapping" in unasked.json["errors"][0]


def test_policies_bound_what_a_token_gives(cluster):
    node = cluster.standbys()[0]
    rules = 'path "auth/token/create" { capabilities = ["update"] }'
    assert node.call("PUT", "/v1/sys/policies/acl/maker", {"policy": rules}).status == 204
    maker = create(cluster, node, policies=["maker"], ttl=600)["client_token"]
    child = create(cluster, node, by=maker, ttl=600)
    assert child["policies"] == ["default", "maker"]
    for fields, part in (
        ({"policies": ["other"]}, "subset"),
        ({"policies": ["root"]}, "subset"),
        ({"no_parent": True}, "sudo"),
        ({"id": "mine"}, "sudo"),
        ({"period": "1m"}, "sudo"),
    ):
        answer = post(node, "create", fields, token=maker)
        assert answer.status == 400 and part in answer.json["errors"][0], answer.body
    assert node.call("LIST", BASE + "accessors", token=maker).status == 403
    assert post(node, "revoke-accessor", {"accessor": child["accessor"]}, maker).status == 403
    assert post(node, "revoke-self", token=maker).status == 204
    assert lookup_self(node, child["client_token"]).status == 403
