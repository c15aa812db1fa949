"""New nodes join with a one-time token; certificates of the cluster port renew themselves."""

import base64
import os
import re
import shutil
import socket
import ssl
import subprocess
import time

import pytest

from cluster import STEADY, Cluster
from test_members import await_voters, fill, is_out, vote_at_once
from test_reload import der_of, shown, traffic

RAFT = "/v1/sys/storage/raft"


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        yield made


def give_authority(cluster, node=None):
    tls = cluster.dir / "tls"
    body = {
        "certificate": (tls / "ca.pem").read_text(),
        "private_key": (tls / "ca-key.pem").read_text(),
    }
    return (node or cluster.nodes[0]).call("POST", f"{RAFT}/certificates/authority", body)


def make_token(cluster, node=None, **fields):
    answer = (node or cluster.nodes[1]).call("POST", f"{RAFT}/join-token", fields)
    assert answer.status == 200, answer.body
    return answer.data["token"]


def joiner(cluster, name, token):
    """A node that has a certificate for clients, a token, and nothing of the cluster's own."""
    node = cluster.add_bare(name)
    path = node.dir / "own" / "token"
    path.write_text(f"{token}\n")
    node.config["cluster"]["join_token_file"] = str(path)
    return node


def openssl(*words, text=None):
    made = subprocess.run(
        ["openssl", *words], check=True, capture_output=True, text=True, input=text
    )
    return made.stdout


def public_key():
    made = openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    return openssl("pkey", "-pubout", text=made)


def ask(cluster, token, name, key=None, node=None):
    body = {"join_token": token, "node_id": name, "public_key": key or public_key()}
    return (node or cluster.nodes[0]).call("POST", f"{RAFT}/bootstrap/join", body, token="")


def give_up(cluster, node):
    if node.alive:
        node.kill()
    cluster.nodes.remove(node)
    assert not node.complaints()


def await_end(node, text, timeout_s=120):
    """The node ends by itself, with this explanation."""
    assert node.process.wait(timeout_s) != 0
    assert text in node.log_text(), node.log_text()[-2000:]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def token_text(ca_sha256, secret):
    raw = ca_sha256 + secret
    raw += crc32c(raw).to_bytes(4, "little")
    return "hfj1-" + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def parts_of(token):
    raw = base64.urlsafe_b64decode(token.removeprefix("hfj1-") + "=")
    return raw[:32], raw[32:64]


def test_without_the_authority_nothing_can_be_signed():
    with Cluster(size=1) as made:
        node, tls = made.nodes[0], made.dir / "tls"
        for path in ("join-token", "certificates/rotate"):
            answer = node.call("POST", f"{RAFT}/{path}", {})
            assert answer.status == 400, answer.body
            assert "certificates/authority" in answer.json["errors"][0]
        path = f"{RAFT}/certificates/authority"
        read = lambda name: (tls / name).read_text()
        for cert, key in (
            ("tls-ca.pem", "tls-ca-key.pem"),  # another authority
            ("ca.pem", "tls-ca-key.pem"),  # not its key
            ("node1.pem", "node1-key.pem"),  # no authority
            ("ca-key.pem", "ca-key.pem"),  # no certificate
        ):
            body = {"certificate": read(cert), "private_key": read(key)}
            answer = node.call("POST", path, body)
            assert answer.status == 400, (cert, key, answer.body)
        for body in ({}, {"certificate": read("ca.pem")}, {"private_key": read("ca-key.pem")}):
            assert node.call("POST", path, body).status == 400
        assert node.call("POST", f"{RAFT}/join-token", {}).status == 400
        assert give_authority(made, node).status == 204
        assert give_authority(made, node).status == 204
        key = "".join(read("ca-key.pem").split("\n")[1:-2])
        assert key not in node.log_text()


def test_an_authority_of_another_cluster_is_refused(cluster):
    with Cluster(size=1) as other:
        assert give_authority(other, cluster.nodes[0]).status == 400


def test_only_an_operator_makes_tokens(cluster):
    for path in ("join-token", "certificates/rotate", "certificates/authority", "readmit"):
        assert cluster.nodes[0].call("POST", f"{RAFT}/{path}", {}, token="").status == 403
        made = cluster.nodes[0].call("POST", "/v1/auth/token/create", {"policies": ["default"]})
        weak = made.json["auth"]["client_token"]
        assert cluster.nodes[0].call("POST", f"{RAFT}/{path}", {}, token=weak).status == 403


def test_bad_tokens_are_refused_and_buy_nothing(cluster):
    assert give_authority(cluster).status == 204
    good = make_token(cluster)
    ca, secret = parts_of(good)
    flipped = good[:-1] + ("A" if good[-1] != "A" else "B")
    for text in ("", "x", "hfj1-", good[:-1], flipped, good + "A", "hfj2" + good[4:], "\0" * 96):
        answer = ask(cluster, text, "node9")
        assert answer.status == 400, (text, answer.body)
    foreign = ask(cluster, token_text(os.urandom(32), secret), "node9")
    assert (foreign.status, "another cluster" in foreign.json["errors"][0]) == (400, True)
    unknown = ask(cluster, token_text(ca, os.urandom(32)), "node9")
    assert (unknown.status, "not one of this cluster" in unknown.json["errors"][0]) == (403, True)
    for name in ("", "../x", "a b", "x" * 64, "node1"):
        assert ask(cluster, good, name).status == 400, name
    for key in ("x", "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n", "x" * 70000):
        assert ask(cluster, good, "node9", key).status in (400, 413)
    bound = make_token(cluster, node_id="node8")
    other = ask(cluster, bound, "node9")
    assert (other.status, "another node" in other.json["errors"][0]) == (403, True)
    for ttl in (0, 31 * 86400, "x", -1):
        assert cluster.nodes[0].call("POST", f"{RAFT}/join-token", {"ttl": ttl}).status == 400
    assert cluster.nodes[0].call("POST", f"{RAFT}/join-token", {"node_id": "/"}).status == 400
    # Nothing of that has used the token up. It serves one key and one name, as often as need be.
    key = public_key()
    first = ask(cluster, good, "node9", key)
    assert first.status == 200, first.body
    assert ask(cluster, good, "node9", key, cluster.standbys()[0]).status == 200
    for name, again in (("node9", None), ("node7", key)):
        used = ask(cluster, good, name, again)
        assert (used.status, "used already" in used.json["errors"][0]) == (403, True), used.body
    for node in cluster.nodes:
        assert good not in node.log_text() and good[5:40] not in node.log_text()


def test_a_token_ends_with_its_time(cluster):
    assert give_authority(cluster).status == 204
    token = make_token(cluster, ttl=1)
    deadline = time.monotonic() + 120
    while True:
        answer = ask(cluster, token, "!")  # a name that uses nothing up
        assert answer.status in (400, 403), answer.body
        if answer.status == 403:
            assert "expired" in answer.json["errors"][0]
            break
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_tokens_in_wait_are_bounded():
    with Cluster(size=1) as made:
        node = made.nodes[0]
        assert give_authority(made, node).status == 204
        codes = [node.call("POST", f"{RAFT}/join-token", {}).status for _ in range(66)]
        assert codes == [200] * 64 + [429] * 2


def stranger(cluster, node, protocol="http/1.1"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cluster.dir / "tls" / "ca.pem")
    context.set_alpn_protocols([protocol])
    tcp = socket.create_connection(("127.0.0.1", node.cluster_port), 120)
    return context.wrap_socket(tcp)


def test_who_has_no_certificate_may_join_at_the_cluster_port_and_nothing_else(cluster):
    token = cluster.token
    for line in (
        "GET /v1/kv/x",
        "PUT /v1/kv/x",
        "GET /v1/sys/health",
        f"GET {RAFT}/bootstrap/join",
        f"POST {RAFT}/bootstrap/join/",
        f"POST {RAFT}/bootstrap/../bootstrap/join",
        f"POST {RAFT}/join-token",
    ):
        with stranger(cluster, cluster.nodes[0]) as conn:
            conn.sendall(
                f"{line} HTTP/1.1\r\nHost: a\r\nX-Vault-Token: {token}\r\n"
                f"X-Holdfast-Client: 127.0.0.1:1\r\nContent-Length: 0\r\n\r\n".encode()
            )
            assert re.match(rb"HTTP/1.1 40[03] ", conn.recv(4096)), line
    with stranger(cluster, cluster.nodes[0], "holdfast-raft/1") as conn:
        with pytest.raises((OSError, ssl.SSLError)):
            while conn.recv(4096) == b"":
                raise ConnectionResetError


def test_many_strangers_do_not_keep_nodes_from_each_other(cluster):
    held = [stranger(cluster, cluster.active()) for _ in range(60)]
    try:
        for n in range(10):
            assert cluster.standbys()[0].call("PUT", "/v1/kv/held", {"n": n}).status == 204
    finally:
        for conn in held:
            conn.close()


def test_a_node_joins_with_a_token_and_nothing_else():
    with Cluster() as cluster:
        vote_at_once(cluster)
        fill(cluster, 50)
        assert give_authority(cluster).status == 204
        token = make_token(cluster)
        fourth = joiner(cluster, "node4", token)
        fourth.start()
        cluster.await_up()
        await_voters(cluster, ["node1", "node2", "node3", "node4"])
        assert fourth.call("GET", "/v1/kv/members/49").data == {"n": 49}
        own = fourth.dir / "own"
        assert (own / "ca.pem").read_text() == (cluster.dir / "tls" / "ca.pem").read_text()
        assert (own / "node-key.pem").stat().st_mode & 0o77 == 0
        for node in cluster.nodes:
            assert token not in node.log_text()
        # The same token does not let in another one.
        fifth = joiner(cluster, "node5", token)
        fifth.start()
        await_end(fifth, "join_token: was used already")
        give_up(cluster, fifth)
        # It starts again by its certificate; the token has done its work.
        assert fourth.stop() == 0
        (own / "token").unlink()
        fourth.start()
        cluster.await_up()
        # Removed, it stays out; its token does not help, a new one does.
        removed = {"server_id": "node4"}
        answer = cluster.nodes[0].call("POST", f"{RAFT}/remove-peer", removed)
        assert answer.status == 204, answer.body
        is_out(cluster, fourth)
        fourth.kill()
        shutil.rmtree(fourth.data)
        (own / "node.pem").unlink()
        (own / "token").write_text(token)
        fourth.start()
        await_end(fourth, "join_token: was used already")
        (own / "token").write_text(make_token(cluster, node_id="node4"))
        fourth.start()
        cluster.await_up()
        await_voters(cluster, ["node1", "node2", "node3", "node4"])
        cluster.await_equal_roots()


def test_a_node_that_cannot_join_yet_waits_and_one_that_may_not_ends():
    with Cluster() as cluster:
        vote_at_once(cluster)
        assert give_authority(cluster).status == 204
        token = make_token(cluster)
        # Nobody is there: it waits, and stops when asked to.
        for node in cluster.nodes:
            node.pause()
        fourth = joiner(cluster, "node4", token)
        fourth.start()
        deadline = time.monotonic() + 120
        while "asks the cluster" not in fourth.log_text():
            assert fourth.alive and time.monotonic() < deadline
            time.sleep(0.05)
        assert fourth.stop() == 0
        for node in cluster.nodes:
            node.resume()
        cluster.await_health({200, 429, 473}, cluster.founders)
        # A token of another cluster's authority: the secret is said to nobody.
        own = fourth.dir / "own"
        ca, secret = parts_of(token)
        (own / "token").write_text(token_text(os.urandom(32), secret))
        fourth.start()
        while "waits to join" not in fourth.log_text():
            assert fourth.alive and time.monotonic() < deadline + 60
            time.sleep(0.05)
        assert fourth.stop() == 0
        (own / "token").write_text("hfj1-rubbish")
        fourth.start()
        await_end(fourth, "not a join token, or mistyped")
        # What was begun is taken up: the key of the first start gets the certificate.
        key = (own / "node-key.pem").read_text()
        (own / "token").write_text(token)
        fourth.start()
        cluster.await_up()
        assert (own / "node-key.pem").read_text() == key
        await_voters(cluster, ["node1", "node2", "node3", "node4"])


def test_certificates_are_replaced_without_a_failed_request():
    with Cluster(config=STEADY) as cluster:
        tls = cluster.dir / "tls"
        assert give_authority(cluster).status == 204
        before = {n.name: der_of(tls / f"{n.name}.pem") for n in cluster.nodes}
        with traffic(cluster.nodes):
            answer = cluster.standbys()[0].call("POST", f"{RAFT}/certificates/rotate")
            assert answer.status == 204, answer.body
            deadline = time.monotonic() + 120
            for node in cluster.nodes:
                other = next(n for n in cluster.nodes if n is not node)
                while True:
                    try:
                        now = shown(cluster, node.cluster_port, other.name)
                    except (ssl.SSLError, OSError):
                        now = before[node.name]  # its files were being replaced
                    if now != before[node.name]:
                        break
                    assert time.monotonic() < deadline, node.name
                    time.sleep(0.1)
        for node in cluster.nodes:
            while "has a new certificate" not in node.log_text():
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert der_of(tls / f"{node.name}.pem") != before[node.name]
            assert not (tls / f"{node.name}.pem.new").exists()
        # A crash between the two files: the certificate follows its key.
        victim = cluster.standbys()[0]
        assert victim.stop() == 0
        (tls / f"{victim.name}.pem").rename(tls / f"{victim.name}.pem.new")
        (tls / f"{victim.name}.pem").write_text(ssl.DER_cert_to_PEM_cert(before[victim.name]))
        victim.start()
        cluster.await_up()
        # What is new is used from a start on, too.
        for node in cluster.nodes:
            assert node.stop() == 0
        cluster.start()
        cluster.await_up()
        cluster.await_equal_roots()


AGEING = """
[ca]
default_ca = d
[d]
database = {dir}/index
serial = {dir}/serial
new_certs_dir = {dir}
certificate = {tls}/ca.pem
private_key = {tls}/ca-key.pem
default_md = sha256
policy = p
x509_extensions = e
[p]
commonName = supplied
[e]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth,clientAuth
authorityKeyIdentifier = keyid
subjectAltName = {uri}
"""


def age_certificate(cluster, name):
    """A certificate for the node's own key that began a month ago and ends in five days."""
    tls, work = cluster.dir / "tls", cluster.dir / f"ageing-{name}"
    work.mkdir()
    said = openssl("x509", "-in", f"{tls}/{name}.pem", "-noout", "-ext", "subjectAltName")
    uri = re.search(r"URI:\S+", said)[0]
    (work / "index").write_text("")
    (work / "serial").write_text("1234\n")
    (work / "config").write_text(AGEING.format(dir=work, tls=tls, uri=uri))
    day, now = 86400, time.time()
    first, last = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(now + n * day)) for n in (-31, 5))
    key = f"{tls}/{name}-key.pem"
    openssl("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", f"{work}/request")
    openssl(
        *("ca", "-batch", "-notext", "-config", f"{work}/config", "-in", f"{work}/request"),
        *("-startdate", first, "-enddate", last, "-out", f"{tls}/{name}.pem"),
    )


def test_certificates_renew_themselves_well_before_they_expire():
    with Cluster() as cluster:
        tls = cluster.dir / "tls"
        assert give_authority(cluster).status == 204
        for node in cluster.nodes:  # whoever leads then signs for itself
            assert node.stop() == 0
            age_certificate(cluster, node.name)
        old = {n.name: der_of(tls / f"{n.name}.pem") for n in cluster.nodes}
        cluster.start()
        cluster.await_up()
        deadline = time.monotonic() + 120
        for node in cluster.nodes:
            while "has a new certificate" not in node.log_text():
                assert time.monotonic() < deadline, node.name
                time.sleep(0.1)
            assert der_of(tls / f"{node.name}.pem") != old[node.name]
            assert "expires in" in node.log_text().partition("has a new certificate")[0]
        # New ones do not ask again: there is one renewal each.
        assert cluster.active().call("PUT", "/v1/kv/aged", {"n": 1}).status == 204
        for node in cluster.nodes:
            assert node.log_text().count("has a new certificate") == 1
