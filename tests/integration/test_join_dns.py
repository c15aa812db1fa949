"""Nodes find a cluster by a name of the DNS: several addresses, wrong ones, names that change.

Each node has a resolver of its own: the tests answer its questions. Needs root."""

import contextlib
import http.server
import os
import socket
import ssl
import struct
import threading
import time

import pytest

from cluster import Cluster
from commands import Cli
from test_join import give_authority, joiner, make_token
from test_join_api import drop, join, refused, tls_ca
from test_members import await_voters, fill, servers, vote_at_once

A, NO_SUCH_NAME = 1, 3


class Names:
    """A DNS server with the records of `known`: name to IPv4 addresses, in order."""

    def __init__(self):
        self.known, self.asked = {}, []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.address = f"127.53.{os.getpid() // 250 % 250 + 1}.{os.getpid() % 250 + 1}"
        self.socket.bind((self.address, 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                question, peer = self.socket.recvfrom(4096)
            except OSError:
                return
            self.socket.sendto(self.answer(question), peer)

    def answer(self, question):
        labels, at = [], 12
        while question[at] != 0:
            labels.append(question[at + 1:at + 1 + question[at]].decode())
            at += 1 + question[at]
        kind = struct.unpack_from(">H", question, at + 1)[0]
        name = ".".join(labels)
        self.asked.append(name)
        found = self.known.get(name)
        addresses = found if found and kind == A else []
        head = struct.pack(">2sHHHHH", question[:2],
                           0x8180 | (NO_SUCH_NAME if found is None else 0), 1, len(addresses), 0, 0)
        return head + question[12:at + 5] + b"".join(
            struct.pack(">HHHIH", 0xC00C, A, 1, 0, 4) + socket.inet_aton(address)
            for address in addresses)

    def start(self, node):
        """Start a node that asks this server for names."""
        servers, order = node.dir / "resolv.conf", node.dir / "gai.conf"
        servers.write_text(f"nameserver {self.address}\noptions ndots:0 timeout:2 attempts:2\n")
        # The resolver puts 127.0.0.1 last: the other addresses are tried before it.
        order.write_text("precedence ::/0 40\nprecedence ::ffff:0:0/96 20\n"
                         "precedence ::ffff:127.0.0.1/128 5\n")
        node.start(prefix=["unshare", "-m", "sh", "-c",
                           'mount --bind "$0" /etc/resolv.conf && mount --bind "$1" /etc/gai.conf &&'
                           ' shift && exec "$@"', str(servers), str(order)])


@pytest.fixture(scope="module")
def names():
    made = Names()
    yield made
    made.socket.close()


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        assert give_authority(made).status == 204
        vote_at_once(made)
        fill(made, 10)
        yield made


def waiting(cluster, names, name):
    node = cluster.add_bare(name, join="api")
    names.start(node)
    cluster.await_health({501}, [node])
    return node


def members(cluster):
    return [s["node_id"] for s in servers(cluster.active())]


@contextlib.contextmanager
def no_member(cluster, address, port, name):
    """A web server with a certificate of the clients' authority, which is no member."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    tls, context = cluster.dir / "tls", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls / f"tls-{name}.pem", tls / f"tls-{name}-key.pem")
    context.set_alpn_protocols(["http/1.1"])
    server = http.server.ThreadingHTTPServer((address, port), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def test_each_address_of_a_name_is_tried(cluster, names):
    node = waiting(cluster, names, "node4")
    asked = cluster.standbys()[0]
    how = {"leader_ca_cert": tls_ca(cluster), "join_token": make_token(cluster),
           "auto_join_port": asked.client_port}
    # No process listens at any of these addresses.
    names.known = {asked.name: ["127.0.0.2", "127.0.0.3", "127.0.0.4"]}
    refused(join(node, auto_join=f"provider=dns name={asked.name}", **how), asked.name, 503)
    for address in names.known[asked.name]:
        assert f"{asked.name}:{asked.client_port} at {address}:" in node.log_text(), address
    assert node.health() == 501
    names.known = {asked.name: ["127.0.0.2", "127.0.0.3", "127.0.0.1"]}
    answer = join(node, auto_join=f"provider=dns name={asked.name}", **how)
    assert (answer.status, answer.json) == (200, {"joined": True})
    await_voters(cluster, ["node1", "node2", "node3", "node4"])
    cluster.await_up()
    assert node.call("GET", "/v1/kv/members/9").data == {"n": 9}


def test_a_name_in_a_url_has_several_addresses_too(cluster, names):
    node, asked = waiting(cluster, names, "node5"), cluster.active()
    names.known = {asked.name: ["127.0.0.2", "127.0.0.1"]}
    answer = join(node, leader_api_addr=f"https://{asked.name}:{asked.client_port}",
                  leader_ca_cert=tls_ca(cluster), join_token=make_token(cluster))
    assert (answer.status, answer.json) == (200, {"joined": True})
    assert "node5" in members(cluster)
    assert f"at 127.0.0.2:{asked.client_port}" in node.log_text()


def test_an_address_that_leads_to_no_member_is_passed_over(cluster, names):
    node, asked = waiting(cluster, names, "node6"), cluster.active()
    how = {"auto_join": asked.name, "auto_join_port": asked.client_port,
           "leader_ca_cert": tls_ca(cluster), "join_token": make_token(cluster)}
    # It refuses: that counts where no other address does better.
    with no_member(cluster, "127.0.0.9", asked.client_port, asked.name):
        names.known = {asked.name: ["127.0.0.9"]}
        refused(join(node, **how), "refuses with 404", 400)
        names.known = {asked.name: ["127.0.0.2", "127.0.0.9"]}
        refused(join(node, **how), f"at 127.0.0.9:{asked.client_port}", 400)
        assert node.health() == 501 and "node6" not in members(cluster)
        names.known = {asked.name: ["127.0.0.9", "127.0.0.1"]}
        before = node.log_text().count("refuses with 404")
        assert join(node, **how).json == {"joined": True}
        assert node.log_text().count("refuses with 404") == before + 1
    assert "node6" in members(cluster)


def test_the_name_is_still_checked_in_the_certificate(cluster, names, tmp_path):
    node, asked = waiting(cluster, names, "node7"), cluster.active()
    names.known = {"other.test": ["127.0.0.1"]}
    how = {"auto_join": "provider=dns name=other.test", "auto_join_port": asked.client_port,
           "leader_ca_cert": tls_ca(cluster), "join_token": make_token(cluster)}
    refused(join(node, **how), "other.test", 503)
    assert node.health() == 501
    # Another name may be asked for, as with a URL. The command line says the same.
    run = Cli(cluster, tmp_path, cluster.nodes.index(node))
    (tmp_path / "token").write_text(how["join_token"])
    done = run("operator", "raft", "join", f"-auto-join-port={asked.client_port}",
               "-auto-join-scheme=https", f"-leader-ca-cert=@{cluster.dir}/tls/tls-ca.pem",
               f"-join-token=@{tmp_path}/token", f"-leader-tls-servername={asked.name}",
               "provider=dns name=other.test", token="")
    assert "true" in done.stdout, done
    assert "node7" in members(cluster)


def test_a_name_without_an_address_and_a_name_whose_addresses_change(cluster, names):
    node, asked = waiting(cluster, names, "node8"), cluster.active()
    how = {"auto_join": f"provider=dns name={asked.name} port={asked.client_port}",
           "leader_ca_cert": tls_ca(cluster), "join_token": make_token(cluster)}
    for known in ({}, {asked.name: []}):
        names.known = known
        refused(join(node, **how), asked.name, 503)
    answer = join(node, **how, retry=True)
    assert (answer.status, answer.json) == (200, {"joined": False})
    # Each try asks anew.
    names.known = {asked.name: ["127.0.0.2"]}
    deadline = time.monotonic() + 60
    while f"at 127.0.0.2:{asked.client_port}" not in node.log_text():
        assert time.monotonic() < deadline, node.log_text()[-2000:]
        time.sleep(0.1)
    assert node.health() == 501
    names.known = {asked.name: ["127.0.0.2", "127.0.0.1"]}
    while "node8" not in members(cluster):
        assert time.monotonic() < deadline, node.log_text()[-2000:]
        time.sleep(0.1)
    cluster.await_up()


def test_a_node_that_looks_a_name_up_stops_at_once(cluster, names):
    node = waiting(cluster, names, "node9")
    names.known = {}
    how = {"auto_join": "provider=dns name=nowhere.test", "join_token": make_token(cluster)}
    assert join(node, **how, retry=True).json == {"joined": False}
    drop(cluster, node)


def test_other_providers_and_malformed_names_are_refused(cluster, names):
    node = waiting(cluster, names, "node10")
    for text, says in (
        ("provider=aws tag_key=a tag_value=b", "only the provider dns is available, not aws"),
        ("provider=gce", "not gce"), ("tag=a provider=k8s", "not k8s"), ("provider=", "not "),
        ("provider=mdns name=a", "not mdns"), ("name=a", "provider=dns name=NAME"),
        ("provider=dns", "provider=dns name=NAME"), ("provider=dns name=", "not a DNS name"),
        ("provider=dns name=a name=b", "repeated"), ("provider=dns name=a port=0", "port"),
        ("provider=dns name=a port=1 port=2", "port"), ("provider=dns name=a b", "KEY=VALUE"),
        ("provider=dns name=a domain=b", "not domain"), ("a b", "not a DNS name"),
        ("https://a", "not a DNS name"), ("-a", "not a DNS name"), ("a" * 300, "not a DNS name"),
        ("a\nb", "not a DNS name"), ("provider=dns name=a\u00e9", "not a DNS name"),
    ):
        refused(join(node, auto_join=text), "auto_join: ")
        refused(join(node, auto_join=text), says)
    refused(join(node, auto_join="a", leader_api_addr="https://b:1"), "one of the two")
    refused(join(node, auto_join="a", auto_join_scheme="http"), "https is expected")
    for port in (-1, 65536):
        refused(join(node, auto_join="a", auto_join_port=port), "auto_join_port")
    refused(join(node, auto_join_port=1), "leader_api_addr: missing")
    assert node.health() == 501
    drop(cluster, node)


def test_a_node_with_a_token_file_finds_the_cluster_ports_by_a_name(cluster, names):
    asked = cluster.active()
    names.known = {"ports.test": ["127.0.0.2", "127.0.0.1"]}
    node = joiner(cluster, "node11", make_token(cluster))
    node.config["cluster"]["auto_join"] = f"provider=dns name=ports.test port={asked.cluster_port}"
    names.start(node)
    deadline = time.monotonic() + 60
    while "node11" not in members(cluster):
        assert node.alive and time.monotonic() < deadline, node.log_text()[-2000:]
        time.sleep(0.1)
    cluster.await_up()
    assert "waits to join: auto_join at ports.test" in node.log_text()
    assert node.call("GET", "/v1/kv/members/9").data == {"n": 9}
