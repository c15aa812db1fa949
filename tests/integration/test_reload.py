"""Certificates and the log level change while the node runs."""

import contextlib
import json
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

from cluster import HOLDFAST, STEADY, Cluster


def new_certificates(cluster, name):
    """A second set for one node, of the same authorities; its folder."""
    tls, fresh = cluster.dir / "tls", cluster.dir / f"fresh-{name}"
    fresh.mkdir()
    for part in ("ca.pem", "ca-key.pem", "tls-ca.pem", "tls-ca-key.pem"):
        shutil.copy(tls / part, fresh / part)
    subprocess.run(
        [HOLDFAST, "cluster", "add", "-out", str(fresh), name],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return fresh


def shown(cluster, port, own=None):
    """The certificate a port shows, in DER; `own` is the name of the node that asks."""
    tls = cluster.dir / "tls"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(tls / ("ca.pem" if own else "tls-ca.pem"))
    if own:
        context.load_cert_chain(tls / f"{own}.pem", tls / f"{own}-key.pem")
        context.set_alpn_protocols(["holdfast-raft/1"])
    with socket.create_connection(("127.0.0.1", port), 120) as tcp:
        with context.wrap_socket(tcp) as conn:
            return conn.getpeercert(binary_form=True)


def await_log(node, text, count=1, timeout_s=120):
    deadline = time.monotonic() + timeout_s
    while node.log_text().count(text) < count:
        assert node.alive
        assert time.monotonic() < deadline, f"{text!r} is not in the log of {node.name}"
        time.sleep(0.05)


def der_of(path):
    return ssl.PEM_cert_to_DER_cert(path.read_text())


@contextlib.contextmanager
def traffic(nodes):
    """Writes over kept and over fresh connections, until the block ends; all must succeed."""
    failures, done, counts = [], threading.Event(), []

    def write(node, n):
        count = 0
        while not done.is_set():
            try:
                answer = node.call("PUT", f"/v1/kv/reload/{n}", {"n": count})
                if answer.status != 204:
                    failures.append((node.name, answer.status, answer.body))
            except OSError as error:
                failures.append((node.name, repr(error)))
            count += 1
        counts.append(count)

    threads = [threading.Thread(target=write, args=(n, i)) for i, n in enumerate(nodes)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[:3]
    assert all(counts), counts


def test_new_certificates_are_taken_without_a_failed_request():
    with Cluster(config=STEADY) as cluster:
        tls = cluster.dir / "tls"
        with traffic(cluster.nodes):
            for node in cluster.nodes:
                fresh = new_certificates(cluster, node.name)
                old = shown(cluster, node.client_port)
                for part in (f"{node.name}-key.pem", f"{node.name}.pem"):
                    shutil.copy(fresh / part, tls / part)
                    shutil.copy(fresh / f"tls-{part}", tls / f"tls-{part}")
                node.process.send_signal(signal.SIGHUP)
                await_log(node, "certificate read again", count=2)
                wanted = der_of(tls / f"tls-{node.name}.pem")
                assert old != wanted
                assert shown(cluster, node.client_port) == wanted
                other = next(n for n in cluster.nodes if n is not node)
                assert shown(cluster, node.cluster_port, other.name) == der_of(
                    tls / f"{node.name}.pem"
                )
        cluster.await_equal_roots()
        for node in cluster.nodes:  # they speak with what they were given, after a start as well
            assert node.stop() == 0
        cluster.start()
        cluster.await_up()


def test_broken_files_leave_the_old_certificate_in_use():
    with Cluster(size=1) as cluster:
        node, tls = cluster.nodes[0], cluster.dir / "tls"
        old = shown(cluster, node.client_port)
        peer_old = shown(cluster, node.cluster_port, "node1")
        (cluster.dir / "kept").mkdir()
        for n, part in enumerate(("tls-node1.pem", "tls-node1-key.pem", "node1.pem")):
            kept = cluster.dir / "kept" / part
            shutil.copy(tls / part, kept)
            (tls / part).write_text("-----BEGIN NOTHING-----\n")
            node.process.send_signal(signal.SIGHUP)
            await_log(node, "keeps its certificate", count=n + 1)
            assert str(tls / part) in node.log_text()
            assert shown(cluster, node.client_port) == old
            shutil.copy(kept, tls / part)
        assert shown(cluster, node.cluster_port, "node1") == peer_old
        # The key of another certificate is no better than none.
        fresh = new_certificates(cluster, "node1")
        shutil.copy(fresh / "tls-node1-key.pem", tls / "tls-node1-key.pem")
        node.process.send_signal(signal.SIGHUP)
        await_log(node, "the key does not belong to the certificate")
        assert shown(cluster, node.client_port) == old
        assert node.call("PUT", "/v1/kv/still", {"n": 1}).status == 204


def await_reload(node, count):
    node.process.send_signal(signal.SIGHUP)
    await_log(node, "SIGHUP: reading", count=count)


def warnings(node):
    """What the node says of fields that a reload does not apply."""
    lines = [json.loads(line) for line in node.log_text().splitlines() if "next start" in line]
    assert all(line["@level"] == "warn" for line in lines), lines
    return [line["@message"] for line in lines]


def test_a_changed_field_that_needs_a_restart_is_named():
    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        node.write_config()
        await_reload(node, 1)
        assert warnings(node) == []
        before, changed = dict(node.config), {
            "log_level": "debug",
            "state_bytes_max": "1GiB",
            "cluster": {"election_ms": 1500},
            "listener": {"tcp": {"address": "127.0.0.1:1", "idle_timeout_s": "7m"}},
            "seal": {"static": {"key_id": "another"}},
        }
        node.config = {**before, **changed}
        node.write_config()
        await_reload(node, 2)
        said = ("reload: these fields take effect at the next start: state_bytes_max, "
                "cluster.election_ms, listener[0].address, listener[0].idle_timeout_s, seal.key_id")
        assert warnings(node) == [said]
        await_reload(node, 3)  # as long as they differ
        assert warnings(node) == [said, said]
        node.config = {**before, "log_level": "debug"}
        node.write_config()
        await_reload(node, 4)
        assert warnings(node) == [said, said]
        assert node.call("PUT", "/v1/kv/still", {"n": 1}).status == 204


def test_the_log_level_changes_and_a_broken_file_keeps_it():
    with Cluster(size=1, config={"log_level": "error"}) as cluster:
        node, said = cluster.nodes[0], "SIGHUP: reading"
        assert '"@level":"info"' not in node.log_text()
        node.config["log_level"] = "info"
        node.write_config()
        node.process.send_signal(signal.SIGHUP)
        await_log(node, said)
        node.config_path.write_text("{")
        node.process.send_signal(signal.SIGHUP)
        await_log(node, "keeps its log level")
        await_log(node, said, count=2)
        assert str(node.config_path) in node.log_text()
        assert node.call("PUT", "/v1/kv/still", {"n": 1}).status == 204


RELOAD = "/v1/sys/config/reload"


def test_a_request_reloads_the_part_that_it_names():
    with Cluster(size=1, config={"log_level": "warn"}) as cluster:
        node, tls = cluster.nodes[0], cluster.dir / "tls"
        fresh = new_certificates(cluster, "node1")
        old = {own: shown(cluster, port, own) for own, port in
               ((None, node.client_port), ("node1", node.cluster_port))}
        for part in ("node1-key.pem", "node1.pem", "tls-node1-key.pem", "tls-node1.pem"):
            shutil.copy(fresh / part, tls / part)
        node.config["log_level"] = "info"
        node.write_config()
        assert node.call("POST", f"{RELOAD}/license").status == 204
        assert shown(cluster, node.client_port) == old[None]
        assert node.call("PUT", f"{RELOAD}/listener").status == 204
        assert shown(cluster, node.client_port) == der_of(tls / "tls-node1.pem") != old[None]
        assert shown(cluster, node.cluster_port, "node1") == old["node1"]
        assert '"@level":"info"' not in node.log_text()
        assert node.call("POST", f"{RELOAD}/log_level", {}).status == 204
        assert node.call("POST", f"{RELOAD}/cluster").status == 204
        await_log(node, "cluster port: certificate read again")
        assert shown(cluster, node.cluster_port, "node1") == der_of(tls / "node1.pem")
        assert node.call("POST", f"{RELOAD}/audit").status == 204
        assert "SIGHUP" not in node.log_text()


def test_a_part_that_cannot_be_reloaded_says_why():
    with Cluster(size=1) as cluster:
        node, tls = cluster.nodes[0], cluster.dir / "tls"
        old = shown(cluster, node.client_port)
        (tls / "tls-node1.pem").write_text("-----BEGIN NOTHING-----\n")
        refused = node.call("POST", f"{RELOAD}/listener")
        assert refused.status == 400
        assert "keeps its certificate" in refused.json["errors"][0]
        assert str(tls / "tls-node1.pem") in refused.json["errors"][0]
        assert shown(cluster, node.client_port) == old
        node.config_path.write_text("{")
        refused = node.call("POST", f"{RELOAD}/log_level")
        assert refused.status == 400 and str(node.config_path) in refused.json["errors"][0]
        unknown = node.call("POST", f"{RELOAD}/everything")
        assert unknown.status == 400 and "log_level" in unknown.json["errors"][0]
        rules = 'path "sys/*" { capabilities = ["create", "read", "update", "delete", "list"] }'
        weak = cluster.limited(rules)
        assert node.call("POST", f"{RELOAD}/license", token=weak).status == 403
        assert node.call("POST", f"{RELOAD}/license", token="").status == 403
