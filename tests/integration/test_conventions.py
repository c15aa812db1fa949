"""Rules for every request: probes, health, headers in both spellings, maintenance, log lines."""

import email.utils
import json
import socket
import time

import pytest

from cluster import Cluster

EDGE = {
    "enable_response_header_hostname": True,
    "enable_response_header_raft_node_id": True,
    "log_requests_level": "info",
}


@pytest.fixture(scope="module")
def edge():
    with Cluster(config=EDGE) as made:
        yield made


def await_status(node, path, codes, timeout_s=120, **kind):
    deadline = time.monotonic() + timeout_s
    while (answer := node.call("GET", path, **kind)).status not in codes:
        assert time.monotonic() < deadline, (path, answer.status, answer.body)
        time.sleep(0.05)
    return answer


def test_probes_need_no_token_and_answer_get_and_head(cluster):
    active, standby = cluster.active(), cluster.standbys()[0]
    for node, path, code in [
        (active, "/livez", 200), (active, "/readyz", 200), (active, "/activez", 200),
        (standby, "/livez", 200), (standby, "/readyz", 200), (standby, "/activez", 503),
    ]:
        assert await_status(node, path, {code}, token="").headers["Cache-Control"] == "no-store"
        head = node.call("HEAD", path, token="")
        assert (head.status, head.body) == (code, b"")
    refused = active.call("POST", "/livez", {}, token="")
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")
    assert standby.call("GET", "/activez", token="").json["errors"] == ["this node is not active"]
    for path in ("/", "/livez/", "/v1", "/ui/", "/healthz"):
        answer = active.call("GET", path)
        assert (answer.status, answer.json) == (404, {"errors": []}), path


def test_each_reply_has_one_date(cluster):
    """Also what a standby passes on, and errors."""
    standby = cluster.standbys()[0]
    calls = [("GET", "sys/health", None), ("PUT", "kv/dated", {"a": 1}), ("GET", "kv/dated", None),
             ("GET", "sys/storage/raft/snapshot", None), ("GET", "kv/none", None),
             ("PUT", "kv/dated", b"{"), ("GET", "%", None)]
    for method, path, body in calls:
        answer = standby.call(method, f"/v1/{path}", body)
        dates = answer.headers.get_all("Date")
        assert dates and len(dates) == 1, (path, answer.status, dates)
        told = email.utils.parsedate_to_datetime(dates[0])
        assert email.utils.format_datetime(told, usegmt=True) == dates[0]


def test_a_standby_that_hears_no_active_node_says_so():
    with Cluster() as cluster:
        left = cluster.standbys()[0]
        for node in cluster.nodes:
            if node is not left:
                node.kill()
        answer = await_status(left, "/v1/sys/health", {474}, token="")
        assert answer.json["ha_connection_healthy"] is False
        assert left.call("GET", "/v1/sys/health?haunhealthycode=299", token="").status == 299
        assert left.call("HEAD", "/v1/sys/health", token="").status == 474
        assert await_status(left, "/readyz", {503}, token="").status == 503
        assert left.call("GET", "/livez", token="").status == 200
        for node in cluster.nodes:
            if not node.alive:
                node.start()
        cluster.await_up()


def test_health_takes_every_code_and_refuses_what_is_none(cluster):
    active = cluster.active()
    names = ("active", "standby", "performancestandby", "drsecondary", "haunhealthy", "removed",
             "sealed", "uninit", "maintenance")
    for name in names:
        for bad in ("abc", "99", "600", "0", "-1", ""):
            answer = active.call("GET", f"/v1/sys/health?{name}code={bad}", token="")
            assert answer.status == 400, (name, bad)
    everything = "&".join(f"{name}code=222" for name in names)
    assert active.call("GET", f"/v1/sys/health?{everything}", token="").status == 222
    assert active.call("HEAD", f"/v1/sys/health?{everything}", token="").status == 222


def test_maintenance_turns_clients_away_until_it_ends(cluster):
    node, active = cluster.standbys()[0], cluster.active()
    assert node.call("POST", "/v1/sys/maintenance", {}).status == 400
    assert node.call("POST", "/v1/sys/maintenance", {"enabled": True}, token="").status == 403
    assert node.call("POST", "/v1/sys/maintenance", {"enabled": True}).status == 204
    try:
        assert node.call("GET", "/v1/sys/maintenance").data == {"enabled": True}
        for method, path in [("GET", "kv/a"), ("PUT", "kv/a"), ("GET", "sys/mounts"),
                             ("GET", "auth/token/lookup-self")]:
            answer = node.call(method, f"/v1/{path}", {"a": 1} if method == "PUT" else None)
            assert (answer.status, answer.json["errors"]) == (503, ["this node is in maintenance"])
        answer = node.call("GET", "/v1/sys/health", token="")
        assert (answer.status, answer.json["maintenance"]) == (503, True)
        assert node.call("GET", "/v1/sys/health?maintenancecode=299", token="").status == 299
        assert node.call("GET", "/readyz", token="").status == 503
        assert node.call("GET", "/livez", token="").status == 200
        assert node.call("GET", "/v1/sys/leader", token="").status == 200
        assert node.call("GET", "/v1/sys/storage/raft/configuration").status == 200
        assert active.call("PUT", "/v1/kv/a", {"a": 1}).status == 204
    finally:
        assert node.call("POST", "/v1/sys/maintenance", {"enabled": False}).status == 204
    assert node.call("GET", "/v1/kv/a").data == {"a": 1}


def test_a_listener_may_insist_on_the_request_header():
    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        assert node.stop() == 0
        node.config = {"listener": {"tcp": {"require_request_header": True}}, "maintenance": True}
        node.start()
        deadline = time.monotonic() + 120
        while True:
            try:
                node.call("GET", "/livez", token="")
                break
            except OSError:
                assert time.monotonic() < deadline
        for headers in ({}, {"X-Vault-Request": "false"}, {"X-Secrets-Request": ""}):
            answer = node.call("GET", "/v1/sys/health", token="", headers=headers)
            assert answer.status == 412
            assert answer.json["errors"] == ["missing 'X-Secrets-Request' header"]
        for name in ("X-Vault-Request", "x-secrets-request"):
            answer = node.call("GET", "/v1/sys/leader", token="", headers={name: "true"})
            assert answer.status == 200
        health = node.call("GET", "/v1/sys/health", token="", headers={"X-Vault-Request": "true"})
        assert health.status in (503, 501)
        assert node.call("GET", "/readyz", token="").status == 503


def test_answers_say_which_node_and_namespace_in_both_spellings(edge):
    for node in edge.nodes:
        headers = node.call("GET", "/v1/kv/none", headers={"X-Vault-Namespace": "root"}).headers
        for prefix in ("X-Vault-", "X-Secrets-"):
            assert headers[prefix + "Raft-Node-ID"] == node.name
            assert headers[prefix + "Hostname"] == socket.gethostname()
            assert headers[prefix + "Namespace"] == "root"


def test_the_node_that_was_asked_signs_what_another_one_answered(edge):
    standby = edge.standbys()[0]
    answer = standby.call("PUT", "/v1/kv/signed", {"a": 1})
    assert answer.status == 204
    assert answer.headers.get_all("X-Vault-Raft-Node-ID") == [standby.name]


def test_nothing_more_is_told_unless_configured(cluster):
    headers = cluster.nodes[0].call("GET", "/v1/kv/none").headers
    told = {name.lower() for name in headers}
    assert told == {"cache-control", "content-type", "content-length", "date",
                    "x-secrets-request-id", "x-vault-request-id"}  # a refusal names its request
    assert headers["Content-Type"] == "application/json"


def test_each_request_leaves_a_line_without_secrets(edge):
    node = edge.active()
    secret = "planted-in-a-body-and-a-query"
    assert node.call("PUT", "/v1/kv/logged", {"a": secret}).status == 204
    assert node.call("GET", f"/v1/kv/logged?x={secret}").status == 200
    assert node.call("GET", "/v1/kv/logged", token="hvs.planted-wrong-token").status == 403
    deadline = time.monotonic() + 120
    while True:
        lines = [json.loads(line) for line in node.log_lines() if '"request"' in line]
        mine = [line for line in lines if line.get("path") == "kv/logged"]
        if len(mine) >= 3:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [line["status"] for line in mine] == [204, 200, 403]
    assert [line["operation"] for line in mine] == ["update", "read", "read"]
    assert all(line["client"].startswith("127.0.0.1:") for line in mine)
    assert len({line["request_id"] for line in mine}) == 3
    assert mine[0]["mount_type"] == "kv" and mine[0]["accessor"]
    for planted in (secret, "planted-wrong-token", edge.token):
        assert planted not in node.log_text()


def test_head_is_for_health_alone(cluster):
    for path in ("kv/x", "sys/mounts", "auth/token/lookup-self", "sys/leader"):
        answer = cluster.nodes[0].call("HEAD", f"/v1/{path}")
        assert answer.status == 405, path


def test_lists_by_query_and_by_verb(cluster):
    node = cluster.nodes[0]
    assert node.call("PUT", "/v1/kv/listed/a", {"a": 1}).status == 204
    for method, path in [("LIST", "listed"), ("LIST", "listed/"), ("GET", "listed?list=true"),
                         ("GET", "listed/?list=1"), ("GET", "listed?list=T")]:
        assert node.call(method, f"/v1/kv/{path}").data == {"keys": ["a"]}, path
    assert node.call("GET", "/v1/kv/listed?list=maybe").status == 400
    assert node.call("GET", "/v1/kv/listed?list=true&scan=true").status == 400
    assert node.call("GET", "/v1/kv/listed?list=0").status == 404
    assert node.call("POST", "/v1/kv/listed/", {"a": 1}).status == 400


def test_a_standby_that_may_not_forward_names_the_active_node(cluster):
    standby, active = cluster.standbys()[0], cluster.active()
    for name in ("X-Vault-No-Request-Forwarding", "X-Secrets-No-Request-Forwarding"):
        deadline = time.monotonic() + 120
        while True:  # a new leader's address comes with its first write
            answer = standby.call("PUT", "/v1/kv/a?b=c", {"a": 1}, headers={name: "true"})
            if answer.status == 307 or time.monotonic() > deadline:
                break
        assert (answer.status, answer.headers["Location"]) == (307, f"{active.url}/v1/kv/a?b=c")


def test_the_active_node_knows_where_the_others_are(cluster):
    deadline = time.monotonic() + 120
    wanted = {node.name: node.url for node in cluster.nodes}
    while True:
        answer = cluster.standbys()[0].call("GET", "/v1/sys/ha-status")
        nodes = answer.json["data"]["nodes"] if answer.status == 200 else []
        if {n["hostname"]: n["api_address"] for n in nodes} == wanted:
            break
        assert time.monotonic() < deadline, answer.body
        time.sleep(0.1)
    assert answer.json["nodes"] == nodes
    active = [n for n in nodes if n["active_node"]]
    assert len(active) == 1 and active[0]["last_echo"] is None
    assert all(n["last_echo"] for n in nodes if not n["active_node"])
    assert len({n["version"] for n in nodes}) == 1 and nodes[0]["version"]
    addresses = {f"https://127.0.0.1:{node.cluster_port}" for node in cluster.nodes}
    assert {n["cluster_address"] for n in nodes} == addresses
    assert cluster.nodes[0].call("GET", "/v1/sys/ha-status", token="").status == 403
