"""Uploads of states while nodes are killed, cut or sealed: a version is whole or absent."""

import json
import urllib.parse

from platform_cluster import PlatformCluster, make
from test_platform_state import get, put, state, store, workspace

CLUSTER = PlatformCluster


def begin_put(cluster, url, raw, node, part):
    """An upload whose body stops after `part` bytes; returns the open connection."""
    parts = urllib.parse.urlsplit(url)
    connection = cluster.nodes[node].connect()
    connection.putrequest("PUT", f"{parts.path}?{parts.query}")
    connection.putheader("Content-Length", str(len(raw)))
    connection.endheaders()
    connection.send(raw[:part])
    return connection


def test_an_upload_that_breaks_off_leaves_the_version_pending(cluster):
    ws = workspace(cluster, "cut")
    before = state()
    store(cluster, ws, before)
    raw = state(serial=2, padding=3 << 20)
    for node in (0, 1):
        made = store(cluster, ws, raw, serial=2, inline=False)["data"]
        begin_put(cluster, made["attributes"]["hosted-state-upload-url"], raw, node, 1 << 20).close()
        current = cluster.ask("GET", f"workspaces/{ws}/current-state-version", who="olga")["data"]
        assert get(cluster, current["attributes"]["hosted-state-download-url"]).body == before
        again = store(cluster, ws, raw, serial=2, inline=False)["data"]
        assert again["id"] == made["id"]
    put(cluster, again["attributes"]["hosted-state-upload-url"], raw, node=2)


def test_a_state_that_is_too_long_is_refused_before_it_is_read(cluster):
    ws = workspace(cluster, "long")
    url = store(cluster, ws, b"{}", inline=False)["data"]["attributes"]["hosted-state-upload-url"]
    parts = urllib.parse.urlsplit(url)
    for node in range(3):
        connection = cluster.nodes[node].connect()
        connection.putrequest("PUT", f"{parts.path}?{parts.query}")
        connection.putheader("Content-Length", str(65 << 20))
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()


def test_a_kill_of_the_active_node_leaves_the_version_before_or_the_whole_next_one(cluster):
    ws = workspace(cluster, "killed")
    before, raw = state(), state(serial=2, padding=8 << 20)
    store(cluster, ws, before)
    made = store(cluster, ws, raw, serial=2, inline=False)["data"]
    active = cluster.active()
    others = [number for number, node in enumerate(cluster.nodes) if node is not active]
    connection = begin_put(cluster, made["attributes"]["hosted-state-upload-url"], raw, others[0], len(raw))
    active.kill()
    try:
        status = connection.getresponse().status
    except OSError:
        status = None
    connection.close()
    cluster.active()
    for number in others:
        current = cluster.ask("GET", f"workspaces/{ws}/current-state-version", who="olga", node=number)["data"]
        content = get(cluster, current["attributes"]["hosted-state-download-url"], node=number).body
        assert content == (raw if current["id"] == made["id"] else before)
        assert status != 204 or content == raw
    if current["id"] != made["id"]:
        again = store(cluster, ws, raw, serial=2, inline=False, node=others[1])["data"]
        assert again["id"] == made["id"]
        put(cluster, again["attributes"]["hosted-state-upload-url"], raw, node=others[1])
    active.start()
    cluster.await_up()
    number = cluster.nodes.index(active)
    current = cluster.ask("GET", f"workspaces/{ws}/current-state-version", who="olga", node=number)["data"]
    assert get(cluster, current["attributes"]["hosted-state-download-url"], node=number).body == raw


def test_a_failover_during_a_verification_calls_the_destination_once(cluster):
    receiver = cluster.receiver
    receiver.reply()
    active = cluster.active()
    standby = next(node for node in cluster.nodes if node is not active)
    receiver.hold.clear()
    connection = standby.connect()
    body = make("notification-configuration", name="n", enabled=True, url=receiver.url, destination_type="generic")
    connection.request("POST", f"/api/v2/workspaces/{cluster.ws}/notification-configurations", json.dumps(body),
                       {"Authorization": f"Bearer {cluster.token}"})
    cluster.await_until(lambda: len(receiver.got) == 1)
    active.kill()
    receiver.hold.set()
    answer = connection.getresponse()
    assert answer.status in (500, 503), answer.status
    connection.close()
    assert len(receiver.got) == 1
    cluster.active()
    active.start()
    cluster.await_up()
    assert cluster.ask("GET", f"workspaces/{cluster.ws}/notification-configurations")["data"] == []


def test_a_sealed_node_says_so_in_the_form_of_the_platform(cluster):
    node = cluster.standbys()[0]
    number = cluster.nodes.index(node)
    assert node.call("PUT", "/v1/sys/seal").status == 204
    error = cluster.ask("GET", "organizations/acme", status=503, node=number)
    assert error["title"] == "service unavailable"
    assert cluster.answer("GET", "/.well-known/jwks", node=number).status == 503
    node.end()
    node.start()
    cluster.await_up()
    cluster.ask("GET", "organizations/acme", node=number)
