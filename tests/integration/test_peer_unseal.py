"""Peer unseal: a restarted node gets the root key from the active node, each condition tried."""

import base64
import http.client
import shutil
import ssl
import subprocess
import time

import pytest

from cluster import call_on, note
from test_join import stranger
from test_join_seal import SHAMIR, Shared, unseal
from test_members import is_out, set_vote

RAFT = "/v1/sys/storage/raft"
PEER = f"{RAFT}/peer-unseal"
ASKS_S = 2  # a sealed node asks at its start and a second later, then less and less often


class Peers(Shared):
    def __init__(self):
        super().__init__()
        for node in self.nodes:
            node.config = {**SHAMIR, "peer_unseal": True}


@pytest.fixture(scope="module")
def cluster():
    with Peers() as made:
        made.await_feature_level()
        yield made


def turn(cluster, on):
    answer = cluster.active().call("POST", PEER, {"enabled": on})
    assert answer.status == 204, answer.body


def state_of(cluster):
    answer = cluster.standbys()[0].call("GET", PEER)
    assert answer.status == 200, answer.body
    return answer.data


def approve(cluster, node, **fields):
    return cluster.active().call("POST", f"{PEER}/approve", {"server_id": node.name, **fields})


def restart(cluster, node, health=503, **config):
    assert node.stop() == 0
    node.config = {**node.config, **config}
    node.start()
    cluster.await_health({health}, [node])


def stays_sealed(node, text, seconds=ASKS_S):
    """The node asks, is told why not, and stays sealed."""
    deadline = time.monotonic() + 60
    while text not in node.log_text():
        assert node.health() == 503 and time.monotonic() < deadline, node.log_text()[-1500:]
        time.sleep(0.1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert node.health() == 503
        time.sleep(0.2)


def opens(cluster, node):
    cluster.await_health({200, 429, 473}, [node], 60)
    assert "was unsealed by the active node (peer unseal)" in node.log_text()


def by_shares(cluster, node):
    for key in cluster.keys[:2]:
        assert unseal(node, key).status == 200
    cluster.await_up()


def fresh_log(node):
    node.log.write_text("")


def test_it_is_off_until_an_operator_turns_it_on(cluster):
    node = cluster.standbys()[0]
    assert state_of(cluster) == {"enabled": False, "approvals": []}
    answer = approve(cluster, node)
    assert answer.status == 400 and "is off" in answer.json["errors"][0]
    fresh_log(node)
    restart(cluster, node)
    stays_sealed(node, "replies 403: peer unseal is off")
    by_shares(cluster, node)


def test_a_node_without_an_approval_stays_sealed_and_one_approval_serves_once(cluster):
    node = cluster.standbys()[0]
    turn(cluster, True)
    fresh_log(node)
    restart(cluster, node)
    stays_sealed(node, "has no approval")
    # An approval of another node does not help.
    other = next(n for n in cluster.standbys() if n is not node)
    assert approve(cluster, other).status == 200
    stays_sealed(node, "has no approval", 2 * ASKS_S)
    answer = approve(cluster, node)
    assert answer.status == 200 and answer.data["node_id"] == node.name
    assert {a["node_id"] for a in state_of_active(cluster)["approvals"]} == {node.name, other.name}
    opens(cluster, node)
    assert node.call("PUT", "/v1/kv/opened", {"n": 1}).status == 204
    # It is used up.
    assert [a["node_id"] for a in state_of_active(cluster)["approvals"]] == [other.name]
    giver = next(n for n in cluster.nodes if f"hands the root key to {node.name}" in n.log_text())
    assert giver is cluster.active()
    metrics = giver.call("GET", "/v1/sys/metrics?format=prometheus").body.decode()
    assert "holdfast_peer_unseals_total 1" in metrics
    fresh_log(node)
    restart(cluster, node)
    stays_sealed(node, "has no approval")
    # Approved before the restart, as in a rolling upgrade.
    by_shares(cluster, node)
    assert approve(cluster, node).status == 200
    fresh_log(node)
    restart(cluster, node, 473)
    opens(cluster, node)
    cluster.await_up()
    cluster.await_equal_roots()


def state_of_active(cluster):
    return cluster.active().call("GET", PEER).data


def test_an_approval_is_revoked_and_ends_and_goes_when_it_is_turned_off(cluster):
    node = cluster.standbys()[0]
    turn(cluster, True)
    assert approve(cluster, node).status == 200
    for _ in range(2):
        answer = cluster.active().call("POST", f"{PEER}/revoke", {"server_id": node.name})
        assert answer.status == 204, answer.body
    fresh_log(node)
    restart(cluster, node)
    stays_sealed(node, "has no approval")
    turn(cluster, False)
    fresh_log(node)
    by_shares(cluster, node)
    turn(cluster, True)
    assert approve(cluster, node, ttl="1s").status == 200
    time.sleep(1.5)
    fresh_log(node)
    restart(cluster, node)
    stays_sealed(node, "has ended")
    by_shares(cluster, node)
    assert approve(cluster, node).status == 200
    turn(cluster, False)
    assert state_of_active(cluster) == {"enabled": False, "approvals": []}
    turn(cluster, True)
    assert state_of_active(cluster) == {"enabled": True, "approvals": []}
    fresh_log(node)
    restart(cluster, node)
    stays_sealed(node, "has no approval")
    by_shares(cluster, node)


def test_a_node_that_is_not_configured_or_was_sealed_does_not_ask(cluster):
    node = cluster.standbys()[0]
    turn(cluster, True)
    # Sealed by an operator: it stays so, although it is approved.
    assert approve(cluster, node).status == 200
    assert node.call("PUT", "/v1/sys/seal").status == 204
    end = time.monotonic() + 2 * ASKS_S
    while time.monotonic() < end:
        assert node.health() == 503
        time.sleep(0.2)
    by_shares(cluster, node)
    fresh_log(node)
    restart(cluster, node, peer_unseal=False)
    end = time.monotonic() + 2 * ASKS_S
    while time.monotonic() < end:
        assert node.health() == 503
        time.sleep(0.2)
    assert "peer" not in node.log_text()
    fresh_log(node)
    restart(cluster, node, 473, peer_unseal=True)
    opens(cluster, node)
    cluster.await_up()


def test_it_takes_a_right_and_clients_get_no_key(cluster):
    turn(cluster, True)
    node = cluster.standbys()[0]
    assert approve(cluster, node).status == 200
    weak = cluster.limited('path "sys/storage/raft/peer-unseal*" { capabilities = ["read", "update"] }')
    good = cluster.limited(
        'path "sys/storage/raft/peer-unseal*" { capabilities = ["read", "update", "sudo"] }')
    requests = (("GET", PEER, None), ("POST", PEER, {"enabled": True}),
                ("POST", f"{PEER}/approve", {"server_id": node.name}),
                ("POST", f"{PEER}/revoke", {"server_id": node.name}))
    for method, path, body in requests:
        assert node.call(method, path, body, token="").status == 403
        assert node.call(method, path, body, token=weak).status == 403
        assert node.call(method, path, body, token=good).status in (200, 204)
    assert approve(cluster, node).status == 200
    key = {"node_id": node.name, "public_key": "A" * 43 + "="}
    for each in cluster.nodes:
        for token in ("", cluster.token):
            for headers in ({}, {"X-Holdfast-Own": "1"}, {"X-Holdfast-Own": "1",
                                                          "X-Holdfast-Client": "127.0.0.1:1"}):
                answer = each.call("POST", f"{PEER}/key", key, token=token, headers=headers)
                assert answer.status == 403, (answer.status, answer.body)
                assert "a member asks for itself" in answer.json["errors"][0]
    # Nor does a peer without a certificate at the cluster port.
    with stranger(cluster, cluster.active()) as conn:
        conn.sendall(f"POST {PEER}/key HTTP/1.1\r\nHost: a\r\nX-Holdfast-Own: 1\r\n"
                     "Content-Length: 0\r\n\r\n".encode())
        assert conn.recv(4096).startswith(b"HTTP/1.1 403 ")
    assert [a["node_id"] for a in state_of_active(cluster)["approvals"]] == [node.name]
    for body, text in (({"server_id": "../x"}, "cannot be the name"), ({"server_id": "node9"}, "no node"),
                       ({"server_id": node.name, "ttl": "11m"}, "ttl"), ({}, "server_id"),
                       ({"server_id": node.name, "ttl": 0}, "ttl")):
        answer = cluster.active().call("POST", f"{PEER}/approve", body)
        assert answer.status == 400 and text in answer.json["errors"][0], answer.body
    assert cluster.active().call("POST", PEER, {}).status == 400


def member_asks(cluster, name, as_name=None):
    """The request that a member makes for itself, made with its certificate; the reply."""
    active, tls = cluster.active(), cluster.dir / "tls"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(tls / "ca.pem")
    context.load_cert_chain(tls / f"{name}.pem", tls / f"{name}-key.pem")
    context.set_alpn_protocols(["http/1.1"])
    pem = subprocess.run(["openssl", "genpkey", "-algorithm", "X25519"], check=True,
                         capture_output=True).stdout
    public = subprocess.run(["openssl", "pkey", "-pubout", "-outform", "DER"], input=pem, check=True,
                            capture_output=True).stdout[-32:]
    body = {"node_id": as_name or name, "public_key": base64.b64encode(public).decode()}
    conn = http.client.HTTPSConnection("127.0.0.1", active.cluster_port, timeout=60, context=context)
    answer = call_on(conn, "POST", f"{PEER}/key", body, None, {"X-Holdfast-Own": "1"})
    conn.close()
    note(active.client_port, "POST", f"{PEER}/key", body, {}, answer)
    return answer


def test_a_member_gets_a_sealed_key_once_and_only_its_own(cluster):
    turn(cluster, True)
    one, other = cluster.standbys()
    assert approve(cluster, one).status == 200
    for name, as_name in ((other.name, None), (other.name, one.name), (one.name, other.name)):
        assert member_asks(cluster, name, as_name).status == 403
    answer = member_asks(cluster, one.name)
    assert answer.status == 200, answer.body
    # The key of the sender, 32 bytes of key that only the receiver opens, and a tag.
    assert len(base64.b64decode(answer.data["sealed_key"])) == 32 + 32 + 16
    again = member_asks(cluster, one.name)
    assert again.status == 403 and "has no approval" in again.json["errors"][0]
    # The trail has the approval and the hand-over; the sealed key is not in it in clear.
    trail = "".join(path.read_text() for path in cluster.active().dir.glob("audit*"))
    assert "peer-unseal/approve" in trail and "peer-unseal/key" in trail
    assert answer.data["sealed_key"] not in trail


def test_a_removed_node_gets_no_key():
    with Peers() as cluster:
        cluster.await_feature_level()
        turn(cluster, True)
        node = cluster.standbys()[0]
        assert approve(cluster, node).status == 200
        assert node.stop() == 0
        fresh_log(node)
        assert set_vote(cluster.active(), "remove-peer", node.name).status == 204
        node.start()
        is_out(cluster, node)
        time.sleep(ASKS_S)
        assert node.health() == 530 and "was unsealed" not in node.log_text()
        # Let in again with a new disk, it is another node to the old approval.
        node.kill()
        shutil.rmtree(node.data)
        assert set_vote(cluster.active(), "readmit", node.name).status == 204
        node.start()
        cluster.await_health({503}, [node])
        stays_sealed(node, "was for its earlier disk")
        assert approve(cluster, node).status == 200
        opens(cluster, node)
        cluster.await_up()
        cluster.await_equal_roots()
