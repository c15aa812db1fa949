"""What stands in the trail of real nodes, and what becomes of requests when a device fails."""

import contextlib
import json
import os
import signal
import threading

import pytest
from cluster import Unaudited
from commands import SECRET
from test_audit import await_true, devices, disable, enable, metrics
from test_reload import await_log

CLUSTER = Unaudited


def records(path):
    """But for a line that is being written."""
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def about(path, wanted):
    """(type, record) of each record about a path."""
    return [(r["type"], r) for r in records(path) if r["request"]["path"] == wanted]


@contextlib.contextmanager
def trail(cluster, **options):
    """One file for all nodes: each line is one write."""
    path = cluster.dir / "trail.log"
    made = enable(cluster.active(), "trail", {"file_path": str(path), **options})
    assert made.status == 204, made.body
    try:
        yield path
    finally:
        assert disable(cluster.active(), "trail").status == 204
        path.unlink()


def hash_of(node, text, device="trail"):
    answer = node.call("POST", f"/v1/sys/audit-hash/{device}", {"input": text})
    assert answer.status == 200, answer.body
    return answer.data["hash"]


def test_a_request_is_recorded_once_whichever_node_is_asked(cluster):
    with trail(cluster) as path:
        for i, node in enumerate(cluster.nodes):
            assert node.call("PUT", f"/v1/kv/once/{i}", {"a": SECRET, "n": 7}).status == 204
            assert node.call("GET", f"/v1/kv/once/{i}").status == 200
            assert node.call("GET", f"/v1/kv/once/none{i}").status == 404
            for wanted in (f"kv/once/{i}", f"kv/once/none{i}"):
                found = about(path, wanted)
                assert [kind for kind, _ in found] == ["request", "response"] * (
                    2 if wanted == f"kv/once/{i}" else 1), wanted
            asked, told = (record for _, record in about(path, f"kv/once/{i}")[:2])
            assert asked["request"]["data"] == {"a": hash_of(node, SECRET), "n": hash_of(node, "7")}
            assert asked["request"]["client_token"] == hash_of(node, cluster.token)
            assert asked["request"]["id"] == told["request"]["id"]
            read = about(path, f"kv/once/{i}")[3][1]
            assert read["response"]["data"] == {"a": hash_of(node, SECRET), "n": 7}
        assert SECRET not in path.read_text() and cluster.token not in path.read_text()


def test_a_text_that_is_sent_as_a_number_is_hidden(cluster):
    active = cluster.active()
    assert active.call("POST", "/v1/sys/mounts/ssh", {"type": "ssh"}).status == 204
    assert active.call("POST", "/v1/sys/mounts/transform", {"type": "transform"}).status == 204
    with trail(cluster) as path:
        for path_of, body in (("ssh/verify", {"otp": 987654321}),
                              ("transform/encode/none", {"value": 987654321, "tweak": True}),
                              ("transform/encode/none", {"batch_input": [{"value": 987654321}]}),
                              ("ssh/sign/none", {"public_key": 987654321, "ttl": 60})):
            for node in cluster.nodes:
                assert node.call("POST", f"/v1/{path_of}", body).status == 400
        assert "987654321" not in path.read_text()
        asked = about(path, "transform/encode/none")[0][1]["request"]["data"]
        assert asked == {"value": hash_of(active, "987654321"), "tweak": hash_of(active, "true")}
    assert active.call("DELETE", "/v1/sys/mounts/ssh").status == 204
    assert active.call("DELETE", "/v1/sys/mounts/transform").status == 204


def test_what_a_mount_exempts_and_which_headers_are_shown(cluster):
    active, header = cluster.active(), "/v1/sys/config/auditing/request-headers"
    tune = {"audit_non_hmac_request_keys": ["open"], "audit_non_hmac_response_keys": ["open"]}
    assert active.call("POST", "/v1/sys/mounts/kv/tune", tune).status == 204
    assert active.call("PUT", f"{header}/X-Trace", {}).status == 204
    assert active.call("PUT", f"{header}/x-shy", {"hmac": True}).status == 204
    with trail(cluster) as path:
        for i, node in enumerate(cluster.nodes):
            sent = {"X-Trace": "seen", "X-Shy": SECRET, "X-Other": "y"}
            body = {"open": "readable", "shut": SECRET}
            assert node.call("PUT", f"/v1/kv/open/{i}", body, headers=sent).status == 204
            asked = about(path, f"kv/open/{i}")[0][1]["request"]
            assert asked["data"] == {"open": "readable", "shut": hash_of(node, SECRET)}
            assert asked["headers"] == {"x-trace": ["seen"], "x-shy": [hash_of(node, SECRET)]}
    assert active.call("DELETE", f"{header}/x-trace").status == 204
    assert active.call("DELETE", f"{header}/x-shy").status == 204
    tune = {"audit_non_hmac_request_keys": [], "audit_non_hmac_response_keys": []}
    assert active.call("POST", "/v1/sys/mounts/kv/tune", tune).status == 204


def test_after_a_rotation_by_another_program_sighup_opens_the_file_again(cluster):
    node = cluster.active()
    with trail(cluster) as path:
        rotated = path.with_name("rotated.log")
        path.rename(rotated)
        for each in cluster.nodes:
            each.process.send_signal(signal.SIGHUP)
        await_true(path.exists)
        await_true(lambda: node.call("PUT", "/v1/kv/rotated", {"a": "b"}).status == 204
                   and about(path, "kv/rotated"))


def test_a_killed_node_leaves_whole_lines_and_goes_on(cluster):
    with trail(cluster) as path:
        node, done = cluster.standbys()[0], threading.Event()

        def ask():
            while not done.is_set():
                with contextlib.suppress(OSError):
                    node.call("GET", "/v1/kv/none")

        thread = threading.Thread(target=ask)
        thread.start()
        await_true(lambda: len(about(path, "kv/none")) > 20)
        node.kill()
        done.set()
        thread.join()
        node.start()
        cluster.await_up()
        assert node.call("GET", "/v1/kv/after").status == 404
        assert [kind for kind, _ in about(path, "kv/after")] == ["request", "response"]


class Fifo:
    """A FIFO whose reader stops reading when told."""

    def __init__(self, path):
        os.mkfifo(path)
        self.path, self.fd = path, os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.text = b""

    def drain(self):
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self.fd, 1 << 16):
                self.text += part

    def close(self):
        os.close(self.fd)


@pytest.fixture
def alone():
    with Unaudited(size=1) as made:
        yield made


def fill(node, path="fifo/"):
    """Ask until the FIFO is full and the device late; the statuses of the replies."""
    statuses = []
    while devices_status(node, path) != "late":
        statuses.append(node.call("PUT", "/v1/kv/big", {"a": "x" * 60000}).status)
        assert len(statuses) < 100
    return statuses


def devices_status(node, path):
    """Also where sys/audit is refused because nothing can be recorded."""
    answer = node.call("GET", "/v1/sys/audit")
    return answer.data[path]["status"] if answer.status == 200 else "late"


def test_a_full_fifo_as_second_device_delays_no_request(alone):
    node = alone.nodes[0]
    fifo = Fifo(alone.dir / "fifo")
    assert enable(node, "first", {"file_path": "discard"}).status == 204
    options = {"file_path": str(fifo.path), "write_timeout": "100ms", "log_raw": "true"}
    assert enable(node, "fifo", options).status == 204
    assert set(fill(node)) == {204}
    for _ in range(20):
        assert node.call("PUT", "/v1/kv/small", {"a": "b"}).status == 204
    text = metrics(node)
    assert 'holdfast_audit_device_up{device="fifo/"} 0' in text
    assert 'holdfast_audit_dropped_total{device="fifo/"} 0' not in text

    def answers():
        fifo.drain()
        return devices_status(node, "fifo/") == "open"

    await_true(answers)
    assert node.call("PUT", "/v1/kv/later", {"a": "b"}).status == 204
    fifo.drain()
    assert b"kv/later" in fifo.text
    assert disable(node, "fifo").status == 204
    fifo.close()


def test_a_device_that_is_disabled_while_it_hangs_is_closed(alone):
    node = alone.nodes[0]
    fifo = Fifo(alone.dir / "fifo")
    chain = {"file_path": str(alone.dir / "chain.log"), "hash_chain": "true"}
    assert enable(node, "chain", chain).status == 204
    options = {"file_path": str(fifo.path), "write_timeout": "100ms", "log_raw": "true"}
    assert enable(node, "fifo", options).status == 204
    assert set(fill(node)) == {204}
    assert disable(node, "fifo").status == 204
    # The hung device holds nothing else open: the chain can be taken over by another device.
    assert enable(node, "second", {"file_path": "discard"}).status == 204
    assert disable(node, "chain").status == 204
    await_true(lambda: enable(node, "again", chain).status == 204)
    # Nor does it keep the process from ending.
    assert enable(node, "hung", options).status == 204
    assert set(fill(node, "hung/")) == {204}
    assert disable(node, "hung").status == 204
    assert node.stop() == 0
    fifo.close()


def test_a_full_fifo_as_only_device_refuses_requests(alone):
    node = alone.nodes[0]
    fifo = Fifo(alone.dir / "fifo")
    options = {"file_path": str(fifo.path), "write_timeout": "100ms", "log_raw": "true"}
    assert enable(node, "fifo", options).status == 204
    assert set(fill(node)) <= {204, 500}
    refused = node.call("PUT", "/v1/kv/refused", {"a": "b"})
    assert refused.status == 500 and "audit device" in refused.json["errors"][0]
    assert node.health() == 200  # as upstream: health is not recorded
    await_log(node, "no device takes records")

    def serves():
        fifo.drain()
        return node.call("PUT", "/v1/kv/again", {"a": "b"}).status == 204

    await_true(serves)
    assert node.call("GET", "/v1/kv/refused").status == 404
    fifo.drain()
    assert disable(node, "fifo").status == 204
    fifo.close()


def test_a_sealed_node_records_in_the_devices_of_its_file(alone):
    node = alone.nodes[0]
    path = node.dir / "own.log"
    node.stop()
    key = alone.dir / "seal.key"
    hidden = key.rename(alone.dir / "hidden.key")
    node.config = {"audit": {"file": {"own": {"options": {"file_path": str(path)}}}}}
    node.start()
    await_true(lambda: node.health() == 503)
    assert node.call("GET", "/v1/kv/sealed").status == 503
    assert about(path, "kv/sealed") and alone.token not in path.read_text()
    assert all(not r["request"].get("client_token") for _, r in about(path, "kv/sealed"))
    node.stop()
    hidden.rename(key)
    node.start()
    alone.await_up()
    assert node.call("GET", "/v1/kv/unsealed").status == 404
    asked = about(path, "kv/unsealed")[0][1]
    assert asked["request"]["client_token"] == hash_of(node, alone.token, "own")
