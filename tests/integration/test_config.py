"""Wrong configurations: the refusal names the mistake, and no data is lost."""

import json
import os
import pathlib
import pty
import re
import signal
import socket
import subprocess
import time

import pytest

from cluster import HOLDFAST, Cluster, Node


def ends_with(node, *texts):
    """The node refuses to start and says why."""
    before = len(node.log_text())
    node.start()
    assert node.process.wait(120) == 1
    said = node.log_text()[before:]
    for text in texts:
        assert text in said, said
    return said


@pytest.mark.parametrize("field", ["ca_file", "cert_file", "key_file"])
@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_lost_file_of_the_cluster_port_costs_no_data(tmp_path, field, content):
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_bytes(content)
    with Cluster() as cluster:
        assert cluster.active().call("PUT", "/v1/kv/kept", {"n": 1}).status == 204
        for node in cluster.nodes:
            assert node.stop() == 0
            node.config = {"cluster": {field: str(path)}}
        for node in cluster.nodes:
            said = ends_with(node, str(path))
            assert "joins as" not in said
            node.config = {}
        cluster.start()
        cluster.await_up()
        for node in cluster.nodes:
            assert node.call("GET", "/v1/kv/kept").data == {"n": 1}


WORKERS = r"(?:serving as|waiting) .*?(?:with |; )(\d+) workers"


def test_one_usable_processor_is_left_to_the_raft_thread():
    with Cluster(size=1, config={"workers": 0}) as cluster:
        node, usable = cluster.nodes[0], sorted(os.sched_getaffinity(0))
        served = re.findall(WORKERS, node.log_text())
        assert 1 <= int(served[0]) <= max(len(usable) - 1, 1)  # a quota may make it fewer
        node.stop()
        node.start(prefix=["taskset", "-c", str(usable[0])])
        cluster.await_up()
        assert re.findall(WORKERS, node.log_text())[-1] == "1"


def test_a_key_file_that_others_may_read_is_refused():
    """One rule for every private key: of the seal, of a listener, of the cluster port."""
    with Cluster(size=1) as cluster:
        node, tls = cluster.nodes[0], cluster.dir / "tls"
        listener = tls / f"tls-{node.name}-key.pem"
        listener.chmod(0o604)
        node.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 120
        while "keeps its certificate" not in node.log_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert f"{listener}: mode 0604 lets others use the key" in node.log_text()
        listener.chmod(0o600)
        assert node.stop() == 0
        for key in (cluster.dir / "seal.key", listener, tls / f"{node.name}-key.pem"):
            key.chmod(0o644)
            mark = len(node.log_text())
            node.start()
            assert node.process.wait(120) == 1
            lines = [line for line in node.log_text()[mark:].splitlines() if str(key) in line]
            assert len(lines) == 1, lines
            assert "mode 0644 lets others use the key: run chmod " in lines[0]
            key.chmod(0o640 if key.stat().st_uid == 0 else 0o600)
        node.start()
        cluster.await_up()


def test_what_cannot_be_opened_is_named_with_its_field(tmp_path):
    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        assert node.stop() == 0
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            short = tmp_path / "short.key"
            short.write_bytes(b"x" * 31)
            short.chmod(0o600)
            for config, texts in (
                ({"listener": {"tcp": {"address": address}}}, [f"listener {address}", "in use"]),
                ({"cluster": {"address": address}}, [address, "in use"]),
                (
                    {"listener": {"tcp": {"tls_cert_file": "/no/such"}}},
                    ["holdfast.json", "listener", "/no/such"],
                ),
                (
                    {"seal": {"static": {"key_file": str(short)}}},
                    ["holdfast.json", "seal: key_file", "31 bytes"],
                ),
                ({"data_dir": "/proc/no/such"}, ["holdfast.json", "data_dir", "No such file"]),
            ):
                node.config = config
                ends_with(node, *texts)
        node.config = {}
        node.start()
        cluster.await_up()


def test_a_missing_seal_key_leaves_the_node_sealed_and_voting(tmp_path):
    with Cluster() as cluster:
        node, other = cluster.standbys()
        assert node.stop() == 0
        node.config = {"seal": {"static": {"key_file": str(tmp_path / "none")}}}
        node.start()
        cluster.await_health({503}, [node])
        assert f"{tmp_path / 'none'}: No such file" in node.log_text()
        other.kill()
        assert cluster.active().call("PUT", "/v1/kv/x", {"n": 1}).status == 204
        assert node.stop() == 0
        node.config = {}
        node.start()
        other.start()
        cluster.await_up()


def test_a_node_without_api_addr_is_active(tmp_path):
    class Quiet(Node):
        def write_config(self):
            super().write_config()
            config = json.loads(self.config_path.read_text())
            del config["api_addr"]
            self.config_path.write_text(json.dumps(config))

    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        assert node.stop() == 0
        node.__class__ = Quiet
        node.start()
        cluster.await_up()
        assert node.call("GET", "/v1/sys/leader").json["leader_address"] == node.url


def test_the_log_level_is_obeyed():
    with Cluster(config={"log_level": "debug"}) as cluster:
        assert '"@level":"debug"' in cluster.nodes[0].log_text()
        for node in cluster.nodes:
            node.stop()
            node.config["log_level"] = "error"
            node.log.unlink()
        cluster.start()
        cluster.await_up()
        assert '"@level":"info"' not in cluster.nodes[0].log_text()


def test_the_log_is_text_where_asked_for_or_on_a_terminal():
    line = r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z \[INFO\]  raft: became leader \(term \d+\)$"
    with Cluster(size=1, config={"log_format": "text"}) as cluster:
        node = cluster.nodes[0]
        assert re.search(line, node.log_text(), re.M) and "@level" not in node.log_text()
        node.stop()
        node.config["log_format"] = ""
        node.write_config()
        terminal, its_side = pty.openpty()
        shown = b""
        with subprocess.Popen([HOLDFAST, "server", "-config", str(node.config_path)], stderr=its_side) as process:
            while not re.search(line, shown.decode().replace("\r", ""), re.M):
                part = os.read(terminal, 65536)
                assert part != b"", shown
                shown += part
            process.terminate()
        os.close(its_side)
        os.close(terminal)
        assert b"@level" not in shown


def test_snapshots_from_the_first_entry_on():
    times = {"election_ms": 10, "heartbeat_ms": 2}
    for _ in range(5):
        with Cluster(size=1, config={"snapshot_log_bytes": 1, "cluster": times}) as cluster:
            assert cluster.nodes[0].call("PUT", "/v1/kv/x", {"n": 1}).status == 204


def test_an_end_is_never_silent():
    quiet = {"log_level": "off", "listener": {"tcp": {"tls_cert_file": "/none"}}}
    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        node.stop()
        for number, code, text in (
            (signal.SIGTERM, 0, "signal 15: stopping"),
            (signal.SIGUSR1, -signal.SIGUSR1, "ended by SIGUSR1"),
            (signal.SIGABRT, -signal.SIGABRT, "ended by SIGABRT"),
        ):
            node.config = {"log_level": "off"}
            node.log.unlink()
            node.start()
            cluster.await_up()
            node.process.send_signal(number)
            assert node.process.wait(120) == code
            assert text in node.log_text()
        node.config = quiet
        node.log.unlink()
        node.start()
        assert node.process.wait(120) == 1
        assert "/none" in node.log_text()


def test_a_node_that_is_told_to_stop_twice_at_once_stops_in_order():
    heeding = ["env", "--default-signal=INT"]  # tests in the background hand down that it is ignored
    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        for _ in range(4):
            assert node.stop() == 0
            node.start(prefix=heeding)
            cluster.await_up()
            node.pause()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                node.process.send_signal(number)
            node.resume()
            assert node.process.wait(120) == 0
            node.start()
            cluster.await_up()


def test_a_node_that_is_told_to_stop_all_the_time_stops_in_order():
    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        for _ in range(3):
            while node.process.poll() is None:
                node.process.terminate()
            assert node.process.wait() == 0
            node.start()
            cluster.await_up()


def catches_sigterm(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1


def test_a_node_stopped_while_it_starts_says_so():
    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        node.stop()
        for _ in range(10):
            node.log.unlink()
            node.start()
            while not catches_sigterm(node.process.pid):
                assert node.alive
            node.process.terminate()
            assert node.process.wait(120) in (0, -signal.SIGTERM)
            assert "signal 15" in node.log_text() or "SIGTERM" in node.log_text()
        node.start()
        cluster.await_up()
