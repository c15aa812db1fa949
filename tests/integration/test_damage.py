"""Disks that fill, fail and lie; directories and clocks that are wrong."""

import contextlib
import http.client
import pathlib
import random
import re
import shutil
import subprocess
import time

import pytest

from cluster import HOLDFAST, Cluster
from disks import MIB, ballast, drop_ballast, small_disks
from test_members import await_voters, vote_at_once


def fill(cluster, count, size=200, node=None):
    node = node or cluster.active()
    for n in range(count):
        assert node.call("PUT", f"/v1/kv/fill/{n}", {"n": n, "pad": "x" * size}).status == 204


def check(cluster, count):
    for node in cluster.nodes:
        for n in range(0, count, max(1, count // 10)):
            answer = node.call("GET", f"/v1/kv/fill/{n}")
            assert answer.status == 200 and answer.data["n"] == n, f"{node.name} lost fill/{n}"


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def used_bytes(path):
    """How far the zeroed file was written."""
    data = path.read_bytes()
    return len(data.rstrip(b"\0"))


def await_exit(node, timeout_s=120):
    node.process.wait(timeout_s)
    assert node.process.returncode not in (0, None)
    assert node.process.returncode > 0, f"died of signal {-node.process.returncode}"
    return node.log_text()


def test_all_nodes_killed_at_once_lose_nothing():
    with Cluster() as cluster:
        fill(cluster, 100)
        for node in cluster.nodes:
            node.kill()
        for node in cluster.nodes:
            node.start()
        cluster.await_up()
        check(cluster, 100)
        cluster.await_equal_roots()


@pytest.mark.parametrize("part", ["log", "slot", "snapshot"])
def test_flipped_bits_are_named_and_the_node_rejoins(part):
    with Cluster(config={"snapshot_log_bytes": 65536}) as cluster:
        vote_at_once(cluster)
        fill(cluster, 300, size=1000)
        victim = cluster.standbys()[0]
        data = victim.data
        if part == "snapshot":
            deadline = time.monotonic() + 120
            while not list(data.glob("**/*.snap")):
                assert time.monotonic() < deadline, "no snapshot was taken"
                time.sleep(0.1)
        victim.kill()
        files = {
            "log": sorted(data.glob("**/*.seg")),
            "slot": sorted(data.glob("**/slot")),
            "snapshot": sorted(data.glob("**/*.snap")),
        }[part]
        assert files
        for path in files:
            used = used_bytes(path)
            if used > 64:
                for third in (1, 2):
                    flip(path, used * third // 3)
        victim.start()
        cluster.await_up()
        log = victim.log_text()
        assert "corrupt" in log or "damage" in log or "fell back" in log, log[-2000:]
        check(cluster, 300)
        cluster.await_equal_roots()
        # The repaired node counts again: the others may lose one of theirs.
        await_voters(cluster, [n.name for n in cluster.nodes])
        other = next(n for n in cluster.nodes if n is not victim)
        other.kill()
        cluster.active()
        assert victim.call("PUT", "/v1/kv/after", {"n": 1}).status == 204
        other.start()
        cluster.await_up()


def traced(pid):
    """Every thread of the process has a tracer."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (task / "status").read_text()
        except FileNotFoundError:
            continue  # a thread that has ended
        if re.search(r"^TracerPid:\t0$", status, re.M):
            return False
    return True


@contextlib.contextmanager
def failing_disk(node):
    """From here on each of the node's writes and syncs fails; it may end any time."""
    calls = "fdatasync,fsync,pwritev,pwritev2,pwrite64,io_submit"
    tracer = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}",
         "-e", f"inject={calls}:error=EIO", "-p", str(node.process.pid)],
    )
    try:
        deadline = time.monotonic() + 120
        while node.alive and not traced(node.process.pid):
            assert tracer.poll() is None, "strace ended"
            assert time.monotonic() < deadline, "strace did not attach"
            time.sleep(0.02)
        yield
    finally:
        if node.alive:
            node.kill()
        tracer.wait(120)


def put_until_it_ends(node, path):
    """Write rising numbers while the node lives: (the last acknowledged, the last sent)."""
    acked = sent = 0
    deadline = time.monotonic() + 120
    while node.alive:
        assert time.monotonic() < deadline, "still alive with a disk that fails"
        sent += 1
        try:
            if node.call("PUT", path, {"n": sent}, timeout_s=5).status == 204:
                acked = sent
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
    return acked, sent


def assert_ended_over_the_disk(node):
    text = await_exit(node)
    said = [line for line in text.splitlines() if "stopping: " in line]
    assert said, text[-2000:]
    assert re.search(r"(segment|slot).*(failed|cannot be \w+).*input/output error", said[-1]), said


def test_a_failing_sync_stops_the_node_and_loses_nothing():
    with Cluster() as cluster:
        fill(cluster, 20)
        victim = cluster.active()
        with failing_disk(victim):
            # The two others are a majority without it: what it acknowledges, they have.
            acked, sent = put_until_it_ends(victim, "/v1/kv/eio")
        assert_ended_over_the_disk(victim)
        cluster.active()
        victim.start()
        cluster.await_up()
        check(cluster, 20)
        for node in cluster.nodes:
            answer = node.call("GET", "/v1/kv/eio")
            have = answer.data["n"] if answer.status == 200 else 0
            assert acked <= have <= sent, f"{node.name} has {have} of {acked} acknowledged"
        cluster.await_equal_roots()


def test_a_lone_node_acknowledges_nothing_without_its_disk():
    with Cluster(size=1) as cluster:
        fill(cluster, 20)
        node = cluster.nodes[0]
        with failing_disk(node):
            acked, _ = put_until_it_ends(node, "/v1/kv/eio")
        assert acked == 0, "acknowledged without a disk"
        assert_ended_over_the_disk(node)
        node.start()
        cluster.await_up()
        check(cluster, 20)


def test_a_full_disk_refuses_writes_and_recovers_when_freed():
    with Cluster(config={"reserve_bytes": 8 * MIB, "segment_bytes": MIB}) as cluster:
        with small_disks(cluster, 40):
            fill(cluster, 10)
            for node in cluster.nodes:
                ballast(node, 4 * MIB)
            deadline = time.monotonic() + 120
            while True:
                answer = cluster.active().call("PUT", "/v1/kv/full", {"n": 1})
                if answer.status != 204:
                    break
                assert time.monotonic() < deadline, "a nearly full disk still takes writes"
                time.sleep(0.2)
            assert answer.status == 507 or answer.status == 503, answer.body
            assert "space" in answer.json["errors"][0]
            assert cluster.nodes[0].call("GET", "/v1/kv/fill/1").status == 200
            for node in cluster.nodes:
                assert node.alive
                drop_ballast(node)
            deadline = time.monotonic() + 120
            while cluster.active().call("PUT", "/v1/kv/full", {"n": 2}).status != 204:
                assert time.monotonic() < deadline, "still refused after space was freed"
                time.sleep(0.2)
            check(cluster, 10)


def test_a_directory_in_use_is_refused(cluster):
    node = cluster.nodes[0]
    second = subprocess.run(
        [HOLDFAST, "server", "-config", str(node.config_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert second.returncode == 1
    assert "in use" in second.stderr
    assert node.alive


def test_a_directory_of_another_cluster_or_node_is_refused():
    with Cluster(size=1) as one, Cluster(size=1) as other:
        one.nodes[0].stop()
        other.nodes[0].stop()
        shutil.rmtree(one.nodes[0].data)
        shutil.copytree(other.nodes[0].data, one.nodes[0].data)
        one.nodes[0].start()
        text = await_exit(one.nodes[0])
        assert "another cluster" in text, text[-1000:]
        one.nodes[0].start = lambda: None
        other.nodes[0].start()
        other.await_up()


def test_a_clock_an_hour_off_changes_nothing():
    faketime = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
    with Cluster() as cluster:
        fill(cluster, 10)
        before = max(cluster.state(n)["cluster_time_ms"] for n in cluster.nodes)
        victim = cluster.active()
        victim.stop()
        for offset in ("+1h", "-1h"):
            victim.start(env={
                "LD_PRELOAD": faketime, "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"
            })
            cluster.await_up()
            for node in cluster.nodes:
                assert node.call("PUT", "/v1/kv/clock", {"n": 1}).status == 204
            now = max(cluster.state(n)["cluster_time_ms"] for n in cluster.nodes)
            assert before <= now < before + 600_000, "cluster time followed one wrong clock"
            before = now
            victim.stop()
        victim.start()
        cluster.await_up()
        check(cluster, 10)
        cluster.await_equal_roots()


def test_kill_at_random_moments_of_a_single_node_loses_nothing():
    rng = random.Random(11)
    with Cluster(size=1) as cluster:
        node, acked = cluster.nodes[0], -1
        for _ in range(8):
            end = time.monotonic() + rng.uniform(0.05, 0.5)
            connection = node.connect()
            from cluster import call_on
            while time.monotonic() < end:
                assert call_on(connection, "PUT", "/v1/kv/one", {"n": acked + 1}, cluster.token).status == 204
                acked += 1
            connection.close()
            node.kill()
            node.start()
            cluster.await_up()
            assert node.call("GET", "/v1/kv/one").data["n"] >= acked
