"""The module of tests/unit/sample in a build of the server (-DHOLDFAST_SAMPLE=ON), on three real nodes.

What the module adds is reached through lists that name it in one line each: nothing in src knows it."""

import json
import os
import pathlib
import re
import socketserver
import subprocess
import threading
import time

import pytest

from cluster import HOLDFAST, PATIENCE_S, TOP, Cluster
from test_audit_trail import hash_of
import trail

PROGRAM = str(pathlib.Path(HOLDFAST).with_name("holdfast-sample"))


class Outside(socketserver.ThreadingTCPServer):
    """Whom the service calls: counts the questions, and answers "hello N"."""

    allow_reuse_address = daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Caller)
        self.lock, self.asked, self.silent = threading.Lock(), 0, False
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Caller(socketserver.StreamRequestHandler):
    def handle(self):
        assert self.rfile.readline() == b"who is there?\n"
        with self.server.lock:
            self.server.asked += 1
            number, silent = self.server.asked, self.server.silent
        if silent:
            self.rfile.read()  # until the caller gives up
        else:
            self.wfile.write(b"hello %d\n" % number)


class SampleCluster(Cluster):
    recorded = False  # the document of the API has no lamp


@pytest.fixture(scope="module")
def outside():
    with Outside() as server:
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def cluster(outside):
    config = {"sample": {"call": "127.0.0.1:%d" % outside.server_address[1], "every": "1s"}}
    with SampleCluster(config=config, program=PROGRAM) as made:
        answer = made.nodes[1].call("POST", "/v1/sys/mounts/lamp", {"type": "lamp"})
        assert answer.status == 204, answer.body
        made.await_feature_level()  # leases of engines need it
        yield made


def wait(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def said(node):
    """The number that the service heard last, as this node knows it."""
    answer = node.call("GET", "/v1/lamp/said")
    assert answer.status in (200, 404), answer.body
    return int(answer.data["line"].removeprefix("hello ")) if answer.status == 200 else 0


def calls(node):
    return int(node.metric("holdfast_sample_calls_total"))


def one_calls(cluster):
    """The active node calls, the others do not. False: another node became active meanwhile."""
    active = cluster.active()
    others = [node for node in cluster.nodes if node is not active]
    before = [calls(node) for node in others]
    begun = calls(active)
    wait(lambda: calls(active) > begun + 1 or cluster.active() is not active)
    after = [calls(node) for node in others]
    if cluster.active() is not active:
        return False
    assert after == before
    return True


def test_the_version_says_what_was_built():
    version = subprocess.run([PROGRAM, "version"], capture_output=True, text=True, check=True)
    assert version.stdout.strip().endswith("+sample")
    version = subprocess.run([HOLDFAST, "version"], capture_output=True, text=True, check=True)
    assert "sample" not in version.stdout


def test_one_service_calls_out_and_every_node_tells_what_it_heard(cluster, outside):
    wait(lambda: all(said(node) > 0 for node in cluster.nodes))
    assert one_calls(cluster) or one_calls(cluster) or one_calls(cluster)


def test_the_next_active_node_goes_on(cluster, outside):
    first = cluster.active()
    assert first.call("PUT", "/v1/sys/step-down").status == 204
    wait(lambda: cluster.active() is not first)
    before = said(cluster.active())
    wait(lambda: all(said(node) > before for node in cluster.nodes))
    assert one_calls(cluster) or one_calls(cluster) or one_calls(cluster)


def test_a_call_that_hangs_holds_nothing_up(cluster, outside):
    outside.silent = True
    try:
        asked = outside.asked
        wait(lambda: outside.asked > asked)  # a call hangs now
        first = cluster.active()
        assert first.call("PUT", "/v1/sys/step-down").status == 204
        begun = time.monotonic()
        wait(lambda: cluster.active() is not first)
        assert time.monotonic() - begun < 20
    finally:
        outside.silent = False
    before = said(cluster.active())
    wait(lambda: said(cluster.active()) > before)


def forwards(node):
    return int(node.metric("holdfast_router_forwards_total"))


def test_a_standby_answers_the_post_of_an_engine_that_reads(cluster):
    standby = next(node for node in cluster.nodes if node is not cluster.active())
    wait(lambda: standby.call("POST", "/v1/lamp/describe/red", {}).status == 200)
    before = forwards(standby)
    for i in range(5):
        answer = standby.call("POST", f"/v1/lamp/describe/red{i}", {})
        assert answer.status == 200 and answer.data == {"name": f"red{i}"}, answer.body
    assert forwards(standby) == before
    answer = standby.call("POST", "/v1/lamp/count/blue", {})  # stages: the active node runs it
    assert answer.status == 200 and answer.data == {"name": "blue"}, answer.body
    assert forwards(standby) == before + 1


def test_a_login_takes_renews_and_ends_a_lease(cluster):
    one, two, three = cluster.nodes
    policy = 'path "lamp/take/*" { capabilities = ["create", "read", "update"] }'
    assert one.call("PUT", "/v1/sys/policies/acl/lamps", {"policy": policy}).status == 204
    assert one.call("POST", "/v1/sys/auth/words", {"type": "sample"}).status == 204
    user = {"word": "mellon", "token_policies": ["lamps"], "token_ttl": "1h"}
    assert two.call("POST", "/v1/auth/words/users/ann", user).status == 204
    login = "/v1/auth/words/login/ann"
    assert three.call("POST", login, {"word": "enemy"}, token="").status == 400
    answer = three.call("POST", login, {"word": "mellon"}, token="")
    assert answer.status == 200, answer.body
    assert set(answer.json["auth"]["policies"]) == {"default", "lamps"}
    token = answer.json["auth"]["client_token"]

    assert one.call("POST", "/v1/kv/a", {"x": "1"}, token=token).status == 403
    taken = one.call("POST", "/v1/lamp/take/red", {"ttl": "10m"}, token=token)
    assert taken.status == 200, taken.body
    lease = taken.json["lease_id"]
    assert lease.startswith("lamp/take/red/") and taken.json["renewable"]
    assert 0 < taken.json["lease_duration"] <= 600
    for node in cluster.nodes:
        assert node.call("GET", "/v1/lamp/take/red", token=token).status == 200
    renewed = two.call("POST", "/v1/sys/leases/renew", {"lease_id": lease, "increment": 1200}, token=token)
    assert renewed.status == 200 and 600 < renewed.json["lease_duration"] <= 1200
    shown = three.call("POST", "/v1/sys/leases/lookup", {"lease_id": lease})
    assert shown.status == 200 and shown.data["id"] == lease
    assert three.call("POST", "/v1/sys/leases/revoke", {"lease_id": lease}).status == 204
    for node in cluster.nodes:
        assert node.call("GET", "/v1/lamp/take/red", token=token).status == 404
    again = two.call("POST", "/v1/sys/leases/revoke", {"lease_id": lease})
    assert again.status in (204, 400), again.body

    assert one.call("DELETE", "/v1/sys/auth/words").status == 204
    wait(lambda: two.call("GET", "/v1/auth/token/lookup-self", token=token).status == 403)


def recorded(cluster, path):
    """The records of the replies to requests with this path, of all nodes."""
    lines = [line for node in cluster.nodes
             for line in (node.dir / trail.FILE).read_text().splitlines() if f'"{path}"' in line]
    return [record for record in map(json.loads, lines)
            if record["type"] == "response" and record["request"]["path"] == path]


def hidden(cluster, text):
    """What the trail shows in place of a text."""
    return hash_of(cluster.nodes[0], text, trail.NAME)


def test_a_login_is_recorded_with_its_token_and_without_its_secrets(cluster):
    one, two, three = cluster.nodes
    word = "a-word-that-no-trail-may-have"
    assert one.call("POST", "/v1/sys/auth/told", {"type": "sample"}).status == 204
    user = {"word": word, "token_policies": ["lamps"], "token_ttl": "1h"}
    assert two.call("POST", "/v1/auth/told/users/eve", user).status == 204
    answer = three.call("POST", "/v1/auth/told/login/eve", {"word": word}, token="")
    assert answer.status == 200, answer.body
    (record,) = recorded(cluster, "auth/told/login/eve")
    token, accessor = (answer.json["auth"][name] for name in ("client_token", "accessor"))
    shown = record["response"]["auth"]
    assert shown.pop("token_issue_time")[:2] == "20"
    assert shown == {
        "client_token": hidden(cluster, token), "accessor": hidden(cluster, accessor),
        "display_name": "told-eve", "policies": ["default", "lamps"],
        "token_policies": ["default", "lamps"], "metadata": {"username": "eve"},
        "token_type": "service", "token_ttl": 3600}
    assert record["request"]["data"] == {"word": hidden(cluster, word)}
    assert "client_token" not in record["auth"]
    for node in cluster.nodes:
        text = (node.dir / trail.FILE).read_text()
        assert [secret for secret in (word, token, accessor) if secret in text] == []
    assert one.call("DELETE", "/v1/sys/auth/told").status == 204


def test_the_id_of_a_lease_is_recorded(cluster):
    taken = cluster.nodes[2].call("POST", "/v1/lamp/take/recorded", {"ttl": "10m"})
    assert taken.status == 200, taken.body
    lease = taken.json["lease_id"]
    (record,) = recorded(cluster, "lamp/take/recorded")
    assert record["response"]["secret"] == {"lease_id": lease}
    assert record["response"]["mount_type"] == "lamp"
    assert cluster.nodes[0].call("POST", "/v1/sys/leases/revoke", {"lease_id": lease}).status == 204


def test_a_lease_ends_by_itself(cluster):
    assert cluster.nodes[2].call("POST", "/v1/lamp/take/short", {"ttl": "2s"}).status == 200
    assert cluster.nodes[2].call("GET", "/v1/lamp/take/short").status == 200
    wait(lambda: all(n.call("GET", "/v1/lamp/take/short").status == 404 for n in cluster.nodes))


def test_a_table_speaks_another_dialect(cluster):
    def ask(node, method, path, body=None, token=cluster.token, headers=None):
        answer = node.call(method, path, body, token="", headers={"X-Lantern": token, **(headers or {})})
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        return answer.status, answer.body.decode()

    echo = "/lantern/light/echo"
    for node in cluster.nodes:
        assert ask(node, "POST", echo, {"word": "hello"}) == (200, "hello")
        assert ask(node, "POST", echo, {"word": "hello"}, token="x") == (403, "not yours\n")
        assert ask(node, "POST", echo, {}) == (400, "word is wrong: is required\n")
        assert ask(node, "POST", echo, {"word": "a", "b": 1}) == (400, "there is no field b\n")
        assert ask(node, "GET", echo) == (405, "not with this method\n")
        assert ask(node, "GET", "/lantern/light/none") == (404, "no lantern there\n")
        assert ask(node, "GET", "/lantern/none") == (404, "no lantern there\n")
        large = b'{"word":"' + b"x" * (40 << 20) + b'"}'
        assert ask(node, "POST", echo, large) == (413, "too much for a lantern\n")
        assert node.call("GET", "/v1/lantern/light/echo").status == 404  # not the secrets service's
        secrets = node.call("GET", "/v1/none/such")
        assert secrets.json["errors"] and "X-Lantern-Burns" not in secrets.headers


def test_the_command_line_has_its_command(cluster, tmp_path):
    env = {"HOME": str(tmp_path), "HOLDFAST_ADDR": cluster.nodes[0].url, "HOLDFAST_TOKEN": cluster.token,
           "HOLDFAST_CACERT": str(cluster.dir / "tls" / "tls-ca.pem"), "PATH": os.environ["PATH"]}
    done = subprocess.run([PROGRAM, "lamp", "take", "-ttl=5m", "-field=lease_id", "blue"], env=env,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("lamp/take/blue/"), done.stderr


def test_the_configuration_has_its_block(cluster):
    shown = cluster.nodes[0].call("GET", "/v1/sys/config/state/sanitized")
    assert shown.data["sample"]["every"] == 1, shown.body


def test_nothing_in_the_program_names_the_sample():
    names = re.compile(r"\bsample_(module|commands|service|block)\b|unit/sample|\blamps?\b|\"sample\"")
    for folder in ("src", "raft", "cluster"):
        for path in sorted((TOP / folder).rglob("*.[ch]")):
            found = names.search(path.read_text())
            assert found is None, f"{path}: {found[0]}"
