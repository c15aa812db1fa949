"""The log of a node, as its operators follow it."""

import contextlib
import json
import os
import select
import socket
import subprocess
import time

from cluster import HOLDFAST, Answer, Cluster, call_on, note

PATH = "/v1/sys/monitor"
FOLLOWERS = 16


@contextlib.contextmanager
def following(node, query="", token=None, connection=None):
    """The reply to a request to follow the log; its body goes on until the block ends."""
    connection = connection or node.connect(60)
    headers = {"X-Vault-Token": node.cluster.token if token is None else token}
    try:
        connection.request("GET", PATH + query, headers=headers)
        reply = connection.getresponse()
        body = None if reply.status == 200 else reply.read()  # that of a follower does not end
        note(node.client_port, "GET", PATH + query, None, headers,
             Answer(reply.status, reply.headers, body))
        yield reply
    finally:
        connection.close()


def read_until(reply, text):
    lines = []
    while not lines or text not in lines[-1]:
        line = reply.readline().decode()
        assert line.endswith("\n"), "the log has ended"
        lines.append(line)
    return lines


def begin_and_end_maintenance(node):
    for enabled in (True, False):
        assert node.call("POST", "/v1/sys/maintenance", {"enabled": enabled}).status == 204


def test_lines_come_as_they_are_written():
    with Cluster(size=1, config={"log_level": "warn"}) as cluster:
        node = cluster.nodes[0]
        with following(node) as people, following(node, "?log_format=json&log_level=debug") as all_:
            assert people.status == all_.status == 200
            assert people.headers["Content-Type"].startswith("text/plain")
            begin_and_end_maintenance(node)
            assert "[INFO]  sys: maintenance ended by an operator" in read_until(people, "ended")[-1]
            line = json.loads(read_until(all_, "maintenance ended")[-1])
            assert (line["@level"], line["@module"]) == ("info", "sys")
            time.sleep(12)  # longer than the HTTP server measures how fast a client reads
            begin_and_end_maintenance(node)
            read_until(people, "ended")
        assert "maintenance" not in node.log_text()  # the log itself keeps its level


def test_who_may_not_follow_is_refused(cluster):
    node = cluster.standbys()[0]
    for query in ("?log_level=loud", "?log_format=xml"):
        assert node.call("GET", PATH + query).status == 400
    weak = cluster.limited('path "sys/monitor" { capabilities = ["read"] }')
    for token in (weak, ""):
        assert node.call("GET", PATH, token=token).status == 403


def test_followers_are_few_and_a_place_is_free_again(cluster):
    node = cluster.active()
    with contextlib.ExitStack() as stack:
        for _ in range(FOLLOWERS):
            assert stack.enter_context(following(node)).status == 200
        connection = node.connect()
        for _ in range(1000):
            refused = call_on(connection, "GET", PATH, None, cluster.token)
            assert refused.status == 503
            assert "16 clients follow the log" in refused.json["errors"][0]
        assert node.call("PUT", "/v1/kv/monitor", {"n": 1}).status == 204
        connection.close()
    deadline = time.monotonic() + 60
    while True:
        with following(node) as reply:
            if reply.status == 200:
                break
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_follower_that_stands_still_holds_up_nothing(cluster):
    node = cluster.active()
    with following(node, "?log_level=debug"):
        for i in range(300):
            assert node.call("PUT", "/v1/kv/monitor", {"n": i}).status == 204
            begin_and_end_maintenance(node)


def narrow(node):
    """A connection that takes little until its client reads."""
    tcp = socket.socket()
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    tcp.settimeout(60)
    tcp.connect(("127.0.0.1", node.client_port))
    connection = node.connect(60)
    connection.sock = node.cluster.tls.wrap_socket(tcp, server_hostname="127.0.0.1")
    return connection


def test_a_follower_that_never_reads_is_cut_and_its_place_is_free_again(cluster):
    node, query = cluster.active(), "?log_level=debug&log_format=json"
    with contextlib.ExitStack() as stack:
        for _ in range(FOLLOWERS):
            assert stack.enter_context(
                following(node, query, connection=narrow(node))).status == 200
        assert node.call("GET", PATH).status == 503
        deadline, free = time.monotonic() + 120, False
        while not free:
            assert time.monotonic() < deadline
            for _ in range(50):
                begin_and_end_maintenance(node)
            with following(node) as reply:
                free = reply.status == 200


def test_followers_do_not_hold_up_the_end_of_a_node():
    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        with following(node) as reply:
            before = time.monotonic()
            assert node.stop() == 0
            assert time.monotonic() - before < 8  # a drain cuts clients after ten seconds
            assert "stopping" in reply.read().decode()


def test_the_command_prints_the_log(cluster):
    node = cluster.active()
    env = {**os.environ, "HOLDFAST_ADDR": node.url, "HOLDFAST_TOKEN": cluster.token,
           "HOLDFAST_CACERT": str(cluster.dir / "tls" / "tls-ca.pem")}
    with subprocess.Popen([HOLDFAST, "monitor", "-log-level=info"], env=env,
                          stdout=subprocess.PIPE) as command:
        try:
            deadline, said = time.monotonic() + 60, b""
            while b"[INFO]  sys: maintenance" not in said:
                assert time.monotonic() < deadline
                begin_and_end_maintenance(node)
                if select.select([command.stdout], [], [], 0.5)[0]:
                    said += os.read(command.stdout.fileno(), 65536)
        finally:
            command.kill()
    refused = subprocess.run([HOLDFAST, "monitor", "-log-level=loud"], env=env, text=True,
                             capture_output=True, check=False)
    assert refused.returncode == 2 and "unknown log level" in refused.stderr
