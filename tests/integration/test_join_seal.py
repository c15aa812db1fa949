"""A node joins without a token, because it can open the cluster's seal: upstream's client sends no token."""

import base64
import contextlib
import http.server
import json
import os
import ssl
import threading
import time

import pytest

from cluster import Cluster
from test_join import RAFT, give_authority, public_key
from test_join_api import drop, join, refused, remove, tls_ca, waiting
from test_members import await_voters, fill, vote_at_once

SHAMIR = {"seal": {"static": None, "shamir": {}}}


class Shared(Cluster):
    """Its seal is opened by two of three shares."""

    def __init__(self):
        super().__init__(config=SHAMIR)

    def init(self):
        self.await_formed()
        body = {"secret_shares": 3, "secret_threshold": 2}
        answer = self.nodes[0].call("PUT", "/v1/sys/init", body)
        assert answer.status == 200, answer.body
        self.token, self.keys = answer.json["root_token"], answer.json["keys_base64"]
        self.await_health({503}, self.nodes)
        for node in self.nodes:
            for key in self.keys[:2]:
                assert unseal(node, key).status == 200
        self.await_up()
        self.mount("kv", {"version": "1"})


def unseal(node, key):
    return node.call("PUT", "/v1/sys/unseal", {"key": key}, token="")


def status(node):
    return node.call("GET", "/v1/sys/seal-status", token="").json


@pytest.fixture(scope="module")
def shared():
    with Shared() as made:
        assert give_authority(made).status == 204
        vote_at_once(made)
        yield made


@pytest.fixture(scope="module")
def static():
    with Cluster() as made:
        assert give_authority(made).status == 204
        vote_at_once(made)
        yield made


def test_a_node_joins_by_key_shares_and_is_unsealed_by_them(shared):
    fill(shared, 20)
    node = waiting(shared, "node4")
    answer = join(node, leader_api_addr=shared.standbys()[0].url, leader_ca_cert=tls_ca(shared))
    assert (answer.status, answer.json) == (200, {"joined": True})
    # It knows the cluster's seal and nothing else: it is no member, and has no certificate.
    shared.await_health({503}, [node])
    seal = status(node)
    assert (seal["initialized"], seal["sealed"], seal["t"], seal["n"]) == (True, True, 2, 3)
    assert not (node.dir / "own" / "node.pem").exists()
    refused(node.call("GET", "/v1/kv/members/1"), "", 503)
    # Wrong shares do not leave it, and the attempt begins anew.
    wrong = base64.b64encode(os.urandom(33)).decode()
    assert unseal(node, shared.keys[0]).json["progress"] == 1
    refused(unseal(node, wrong), "do not make the key")
    assert status(node)["progress"] == 0
    refused(unseal(node, base64.b64encode(os.urandom(32)).decode()), "33 bytes")
    assert not (node.dir / "own" / "node.pem").exists()
    # The same share twice is one; right ones are enough for all the rest.
    for _ in range(2):
        assert unseal(node, shared.keys[2]).json["progress"] == 1
    assert unseal(node, shared.keys[1]).status == 200
    shared.await_up()
    await_voters(shared, ["node1", "node2", "node3", "node4"])
    assert node.call("GET", "/v1/kv/members/19").data == {"n": 19}
    refused(join(node, leader_api_addr=shared.nodes[0].url), "already joined")
    shared.await_equal_roots()
    # What they made is not kept: after a start they are asked for again.
    assert node.stop() == 0
    node.start()
    shared.await_health({503}, [node])
    deadline = time.monotonic() + 120
    while status(node)["t"] != 2:  # until it has read its log
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for key in shared.keys[:2]:
        assert unseal(node, key).status == 200
    shared.await_up()


def test_shares_that_were_given_serve_the_newest_request_alone(shared):
    node = waiting(shared, "node5")
    body = {"leader_api_addr": shared.nodes[0].url, "leader_ca_cert": tls_ca(shared)}
    assert join(node, **body).json == {"joined": True}
    assert unseal(node, shared.keys[0]).json["progress"] == 1
    refused(join(node, **{**body, "leader_api_addr": "https://127.0.0.1:1"}), "", 503)
    assert (status(node)["initialized"], status(node)["progress"], node.health()) == (False, 0, 501)
    assert join(node, **body).json == {"joined": True}
    # Nobody is there when the last share comes: it asks on until somebody is.
    for each in shared.founders:
        each.pause()
    for key in shared.keys[:2]:
        assert unseal(node, key).status == 200
    time.sleep(1)  # so that it has tried
    assert (status(node)["progress"], node.health()) == (0, 503)
    for each in shared.founders:
        each.resume()
    shared.await_up()
    await_voters(shared, ["node1", "node2", "node3", "node4", "node5"])


def test_a_name_that_is_taken_or_was_removed_is_refused(shared):
    asked = lambda **fields: shared.nodes[1].call(
        "POST", f"{RAFT}/bootstrap/challenge", {"public_key": public_key(), **fields}, token="")
    refused(asked(node_id="node1"), "is a member")
    refused(asked(node_id="../x"), "the name of a node")
    refused(asked(), "node_id")
    remove(shared, "node5")
    refused(asked(node_id="node5"), "readmit", 403)
    answer = asked(node_id="node9")
    assert answer.status == 200, answer.body
    assert set(answer.json) == {"challenge", "seal"}


def test_a_node_with_the_key_of_the_seal_joins_at_once(static):
    node = waiting(static, "node4")
    answer = join(node, leader_api_addr=static.standbys()[0].url, leader_ca_cert=tls_ca(static))
    assert (answer.status, answer.json) == (200, {"joined": True})
    static.await_up()
    await_voters(static, ["node1", "node2", "node3", "node4"])
    assert node.call("PUT", "/v1/kv/challenged", {"n": 1}).status == 204
    own = node.dir / "own"
    assert (own / "ca.pem").read_text() == (static.dir / "tls" / "ca.pem").read_text()


def test_a_node_without_that_key_is_refused_and_told_why(static, tmp_path):
    body = {"leader_api_addr": static.nodes[0].url, "leader_ca_cert": tls_ca(static)}
    node = waiting(static, "node5", **SHAMIR)
    refused(join(node, **body), "join_token: missing")
    assert node.health() == 501
    drop(static, node)
    other = tmp_path / "key"
    other.write_bytes(os.urandom(32))
    other.chmod(0o600)
    node = waiting(static, "node6", seal={"static": {"key_file": str(other), "key_id": "test"}})
    refused(join(node, **body), "does not open")
    drop(static, node)
    node = waiting(static, "node7", seal={"static": {"key_file": str(other), "key_id": "other"}})
    refused(join(node, **body), "seal key 'test'")
    drop(static, node)


class Liar(http.server.BaseHTTPRequestHandler):
    """Passes the challenge of a real cluster on; what it answers then lacks the proof, or without
    an answer of its own is the cluster's."""

    protocol_version = "HTTP/1.1"

    def certificate(self, asked):
        """All is in order, the name and the key and who signed it, but for who hands it out."""
        node = self.server.node
        token = node.call("POST", f"{RAFT}/join-token", {}).data["token"]
        body = {"join_token": token, "node_id": asked["node_id"], "public_key": asked["public_key"]}
        return node.call("POST", f"{RAFT}/bootstrap/join", body, token="").json

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/answer"):
            self.server.told.append(json.loads(body))
        if self.path.endswith("/challenge") or self.server.answer is None:
            said = self.server.node.call("POST", self.path, body, token="").body
        else:
            answer = self.server.answer
            if isinstance(answer, dict) and answer.pop("real", False):
                answer.update(self.certificate(self.server.told[0]))
            said = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def liar(cluster, answer):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made = cluster.dir / "tls" / "tls-node1"
    tls.load_cert_chain(f"{made}.pem", f"{made}-key.pem")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.node, server.answer, server.told = cluster.nodes[0], answer, []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_who_does_not_have_the_root_key_is_not_believed(static):
    node = waiting(static, "node8")
    proof = base64.b64encode(os.urandom(32)).decode()
    for answer in (
        {"real": True, "proof": proof}, {"real": True, "proof": ""}, {"real": True},
        {"certificate": 1, "ca_certificate": [], "proof": {}}, {}, [], "x",
    ):
        with liar(static, answer) as server:
            body = {"leader_api_addr": f"https://127.0.0.1:{server.server_port}"}
            refused(join(node, leader_ca_cert=tls_ca(static), **body), "not the one asked for")
            # What it was told lets nobody else in.
            told = server.told[0]
            for field, other in (("node_id", "node9"), ("public_key", public_key())):
                refused(static.nodes[0].call("POST", f"{RAFT}/bootstrap/answer",
                                             {**told, field: other}, token=""), "another node", 403)
    assert not (node.dir / "own" / "node.pem").exists() and node.health() == 501
    drop(static, node)


def test_who_passes_the_words_on_can_do_no_more_with_them(static):
    node = waiting(static, "node10")
    with liar(static, None) as server:
        url = f"https://127.0.0.1:{server.server_port}"
        answer = join(node, leader_api_addr=url, leader_ca_cert=tls_ca(static))
        assert (answer.status, answer.json) == (200, {"joined": True})
        static.await_up()
        for each in static.nodes:
            again = each.call("POST", f"{RAFT}/bootstrap/answer", server.told[0], token="")
            refused(again, "was used already", 403)


def test_answers_that_are_made_up_buy_nothing(static):
    key = public_key()
    post = lambda path, **fields: static.nodes[0].call(
        "POST", f"{RAFT}/bootstrap/{path}", {"public_key": key, "node_id": "node9", **fields},
        token="")
    challenge = post("challenge").json["challenge"]
    answer = base64.b64encode(os.urandom(32)).decode()
    refused(post("answer", challenge=challenge, answer=answer), "answer: wrong", 403)
    refused(post("answer", challenge=challenge, answer=""), "answer: wrong", 403)
    refused(post("answer", challenge=challenge, answer="!"), "base64")
    refused(post("answer", challenge=challenge, answer="AAAA"), "answer: wrong", 403)
    refused(post("answer", challenge=challenge, answer=answer, node_id="node8"), "another node", 403)
    refused(post("answer", challenge=challenge, answer=answer, public_key=public_key()),
            "another node", 403)
    raw = bytearray(base64.urlsafe_b64decode(challenge + "=" * (-len(challenge) % 4)))
    raw[7] ^= 0x40
    late = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    refused(post("answer", challenge=late, answer=answer), "not of this cluster", 403)
    for text in ("x", "A" * 75, "A" * 4000, challenge + "AAAA"):
        assert post("answer", challenge=text, answer=answer).status in (400, 403)


def test_how_often_a_challenge_may_be_asked_for_is_bounded(static):
    key = public_key()
    body = {"public_key": key, "node_id": "node9"}
    active = static.active()
    codes = [active.call("POST", f"{RAFT}/bootstrap/challenge", body, token="").status
             for _ in range(300)]
    assert set(codes) == {200, 429}, codes
    assert active.call("PUT", "/v1/kv/meanwhile", {"n": 1}).status == 204
