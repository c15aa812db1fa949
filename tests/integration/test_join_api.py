"""A node without certificates waits for a join request, and then joins, as upstream's nodes do."""

import json
import os
import signal
import subprocess
import time

import pytest

from cluster import Cluster, HOLDFAST
from test_join import RAFT, await_end, give_authority, joiner, make_token, parts_of, token_text
from test_members import await_voters, fill, servers, set_vote, vote_at_once, voters
from test_systemd import Listener


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        assert give_authority(made).status == 204
        vote_at_once(made)
        yield made


def waiting(cluster, name, env=None, **config):
    """A node that has nothing of a cluster's, started and waiting."""
    node = cluster.add_bare(name, join="api")
    node.config.update(config)
    node.start(env=env)
    cluster.await_health({501}, [node])
    return node


def join(node, timeout_s=70, **body):
    return node.call("POST", f"{RAFT}/join", body, token="", timeout_s=timeout_s)


def tls_ca(cluster):
    return (cluster.dir / "tls" / "tls-ca.pem").read_text()


def drop(cluster, node):
    assert node.stop() == 0
    cluster.nodes.remove(node)
    assert not node.complaints()


def remove(cluster, name):
    """Once no other change of the members is under way."""
    deadline = time.monotonic() + 120
    while True:
        body = {"server_id": name}
        answer = cluster.active().call("POST", f"{RAFT}/remove-peer", body)
        if answer.status == 204:
            return
        assert answer.status == 503 and time.monotonic() < deadline, answer.body
        time.sleep(0.2)


def refused(answer, text, status=400):
    assert answer.status == status, answer.body
    assert text in answer.json["errors"][0], answer.body


def test_a_waiting_node_joins_by_the_client_port(cluster):
    fill(cluster, 50)
    token = make_token(cluster, node_id="node4")
    node = waiting(cluster, "node4")
    # It says what it is, and serves nothing.
    seal = node.call("GET", "/v1/sys/seal-status", token="").json
    assert (seal["initialized"], seal["sealed"], seal["progress"]) == (False, True, 0)
    assert node.call("GET", "/v1/sys/init", token="").json == {"initialized": False}
    assert node.call("GET", "/v1/sys/leader", token="").json["leader_address"] == ""
    for method, path in (("GET", "/v1/kv/x"), ("PUT", "/v1/kv/x"), ("PUT", "/v1/sys/init"),
                         ("POST", f"{RAFT}/bootstrap/join"), ("GET", "/v1/sys/metrics")):
        refused(node.call(method, path, {} if method != "GET" else None), "in no cluster yet", 503)
    assert node.call("PUT", "/v1/kv/x", b"{" + b" " * (2 << 20) + b"}").status == 503
    assert node.call("PUT", "/v1/sys/unseal", {"key": "00" * 32}, token="").status == 400
    assert [node.call("GET", p, token="").status for p in ("/livez", "/readyz")] == [200, 503]
    node.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 120
    while "reading certificates" not in node.log_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert node.health() == 501

    answer = join(node, leader_api_addr=cluster.standbys()[0].url, leader_ca_cert=tls_ca(cluster),
                  join_token=token)
    assert (answer.status, answer.json) == (200, {"joined": True})
    # It is a member now, serves as soon as it is unsealed, and gets its vote when it is healthy.
    assert "node4" in [s["node_id"] for s in servers(cluster.active())]
    cluster.await_up()
    await_voters(cluster, ["node1", "node2", "node3", "node4"])
    assert node.call("GET", "/v1/kv/members/49").data == {"n": 49}
    assert node.call("PUT", "/v1/kv/joined", {"n": 1}).status == 204
    own = node.dir / "own"
    assert (own / "ca.pem").read_text() == (cluster.dir / "tls" / "ca.pem").read_text()
    assert (own / "node-key.pem").stat().st_mode & 0o77 == 0
    refused(join(node, leader_api_addr=cluster.nodes[0].url, join_token=token), "already joined")
    for each in cluster.nodes:
        assert token not in each.log_text()
    # It starts again by its certificate, and waits for nobody.
    assert node.stop() == 0
    node.start()
    cluster.await_up()
    await_voters(cluster, ["node1", "node2", "node3", "node4"])
    cluster.await_equal_roots()


def test_a_waiting_node_joins_by_the_cluster_port_and_the_tokens_hash(cluster):
    node = waiting(cluster, "node5", seal={"shamir": {}, "static": None})
    active = cluster.active()
    token = make_token(cluster)
    # At the client port nobody shows the authority of the hash.
    refused(join(node, leader_api_addr=active.url, join_token=token), "leader_ca_cert", 503)
    answer = join(node, leader_api_addr=f"https://localhost:{active.cluster_port}/",
                  join_token=f" {token}\n")
    assert (answer.status, answer.json) == (200, {"joined": True})
    cluster.await_health({503}, [node])  # without the seal's key it stays sealed
    drop(cluster, node)
    remove(cluster, "node5")


def test_a_node_joins_without_a_vote(cluster):
    node = waiting(cluster, "node20")
    before = voters(cluster)
    answer = join(node, leader_api_addr=cluster.active().url, leader_ca_cert=tls_ca(cluster),
                  join_token=make_token(cluster), non_voter=True)
    assert (answer.status, answer.json) == (200, {"joined": True})
    cluster.await_health({473}, [node])
    assert voters(cluster) == before
    assert node.call("PUT", "/v1/kv/members/8", {"n": 8}).status == 204
    assert node.stop() == 0
    node.start()
    cluster.await_health({473}, [node])
    assert voters(cluster) == before
    assert set_vote(node, "promote", "node20").status == 204
    assert voters(cluster) == sorted([*before, "node20"])
    drop(cluster, node)
    remove(cluster, "node20")


def test_what_cannot_work_is_refused_and_leaves_the_node_waiting(cluster):
    node = waiting(cluster, "node6")
    token, url, ca = make_token(cluster, node_id="node6"), cluster.nodes[0].url, tls_ca(cluster)
    good = {"leader_api_addr": url, "leader_ca_cert": ca, "join_token": token}
    with_ = lambda **fields: join(node, **{**good, **fields})
    refused(join(node), "leader_api_addr: missing")
    # Without a token: the system's authorities, who know nothing of this one.
    refused(join(node, leader_api_addr=url), "", 503)
    refused(with_(join_token="hfj1-rubbish"), "not a join token")
    for address in ("http://127.0.0.1:1", "127.0.0.1:8200", "ftp://x", "https://", "https://:1",
                    "https://a b:1", "https://u@h:1", "https://h:0", "https://h:1/v1",
                    "https://h:1?x", "https://[::1:1", "https://" + "x" * 300, "https://h\r\nX: y:1"):
        refused(with_(leader_api_addr=address), "leader_api_addr: https://HOST:PORT")
    refused(with_(leader_api_addr="https://127.0.0.1:1"), "", 503)  # nobody listens there
    refused(with_(leader_ca_cert="rubbish"), "")
    ours = (cluster.dir / "tls" / "ca.pem").read_text()
    refused(with_(leader_ca_cert=ours), "", 503)  # not the authority of the client port
    refused(with_(leader_tls_servername="other.example"), "", 503)
    refused(with_(leader_client_cert="x"), "go together")
    refused(with_(leader_client_cert="x", leader_client_key="y"), "")
    refused(with_(auto_join="provider=aws"), "give one of the two")
    hash_, secret = parts_of(token)
    refused(with_(join_token=token_text(os.urandom(32), secret)), "of another cluster")
    refused(with_(join_token=token_text(hash_, os.urandom(32))), "not one of this cluster")
    refused(with_(join_token=make_token(cluster, node_id="node7")), "made for another node")
    for body in (b"{", b"[]", b"\xff", b'{"retry": "x"}'):
        assert node.call("POST", f"{RAFT}/join", body, token="").status == 400
    assert node.call("POST", f"{RAFT}/join", b"x" * (1 << 20), token="").status == 413
    assert node.health() == 501
    # After all that, the same node and token still do; a second time they do not.
    assert with_().json == {"joined": True}
    refused(with_(), "already joined")
    await_voters(cluster, ["node1", "node2", "node3", "node4", "node6"])
    again = waiting(cluster, "node8")
    refused(join(again, **good), "made for another node")
    used = make_token(cluster)
    assert join(again, **{**good, "join_token": used}).json == {"joined": True}
    last = waiting(cluster, "node9")
    refused(join(last, **{**good, "join_token": used}), "was used already")
    drop(cluster, last)
    for each in cluster.nodes:
        assert token not in each.log_text() and used not in each.log_text()


def test_a_member_and_a_founder_are_joined_already(cluster):
    body = {"leader_api_addr": cluster.nodes[0].url, "join_token": "x"}
    for node in cluster.nodes[:2]:
        refused(join(node, **body), "already joined")
        refused(join(node), "already joined")


def test_with_retry_it_goes_on_by_itself(cluster):
    node = waiting(cluster, "node10")
    body = {"leader_ca_cert": tls_ca(cluster), "join_token": make_token(cluster), "retry": True}
    answer = join(node, leader_api_addr="https://127.0.0.1:1", **body)
    assert (answer.status, answer.json) == (200, {"joined": False})
    assert node.health() == 501
    # A new request takes its place.
    stopped = cluster.standbys()[0]
    assert stopped.stop() == 0
    answer = join(node, leader_api_addr=stopped.url, **body)
    assert (answer.status, answer.json) == (200, {"joined": False})
    stopped.start()
    cluster.await_up()
    assert node.health() in (200, 429, 473)
    node.kill()
    cluster.nodes.remove(node)
    remove(cluster, "node10")


def test_a_waiting_node_ends_when_it_is_asked_to(cluster):
    node = waiting(cluster, "node11")
    body = {"leader_ca_cert": tls_ca(cluster), "join_token": make_token(cluster), "retry": True}
    assert join(node, leader_api_addr="https://127.0.0.1:1", **body).json == {"joined": False}
    drop(cluster, node)
    # Also in the middle of a call that nobody answers.
    node = waiting(cluster, "node12")
    for each in cluster.founders:
        each.pause()
    try:
        connection = node.connect(30)
        said = json.dumps({"leader_api_addr": cluster.founders[0].url, **body})
        connection.request("POST", f"{RAFT}/join", said)
        deadline = time.monotonic() + 120
        while "got a join request" not in node.log_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        other = join(node, leader_api_addr=cluster.founders[0].url, **body)
        refused(other, "under way", 503)
        assert node.stop() == 0
        assert connection.getresponse().status == 503
    finally:
        for each in cluster.founders:
            each.resume()
    cluster.nodes.remove(node)
    assert not node.complaints()


def test_the_command_line_lets_a_node_join(tmp_path):
    with Cluster(size=1) as made, Listener(tmp_path / "notify") as heard:
        assert give_authority(made).status == 204
        node = waiting(made, "node2", env={"NOTIFY_SOCKET": heard.name})
        said = heard.next()
        assert said["READY"] == "1" and said["STATUS"].startswith("Waiting"), said
        env = {**os.environ, "HOLDFAST_ADDR": node.url, "HOLDFAST_TOKEN": "",
               "HOLDFAST_CACERT": str(made.dir / "tls" / "tls-ca.pem")}
        (made.dir / "token").write_text(make_token(made, made.nodes[0]))

        def run(*words, text=None):
            return subprocess.run([HOLDFAST, "operator", "raft", "join", *words], env=env,
                                  input=text, capture_output=True, text=True, timeout=90)

        bare = run(made.nodes[0].url)
        assert bare.returncode == 2 and "certificate" in bare.stderr
        done = run(f"-leader-ca-cert=@{made.dir}/tls/tls-ca.pem", f"-join-token=@{made.dir}/token",
                   made.nodes[0].url)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[-2:] == ["joined", "true"], done.stdout
        made.await_up()
        assert heard.next() == {"STATUS": "Serving"}
        third = waiting(made, "node3")
        env["HOLDFAST_ADDR"] = third.url
        done = run(f"-leader-ca-cert=@{made.dir}/tls/tls-ca.pem", "-join-token=-",
                   made.nodes[0].url, text=make_token(made, made.nodes[0]))
        assert done.returncode == 0, done.stderr
        made.await_up()


def test_a_configuration_says_one_way_to_join(cluster):
    node = joiner(cluster, "node13", "unused")
    node.config["cluster"]["join"] = "api"
    node.start()
    await_end(node, "join_token_file already")
    node.config["cluster"]["join"] = "dns"
    node.start()
    await_end(node, '"api" is expected')
    cluster.nodes.remove(node)
