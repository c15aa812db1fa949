"""Restores that fail: a full disk, a full state, the end of a node, another root key."""

import contextlib
import http.client
import os
import pathlib
import threading
import time

from cluster import STEADY, Cluster
from disks import MIB, ballast, drop_ballast, small_disks
from test_shamir import ShamirCluster
from test_snapshot import FORCE, PATH, bulk, get, put, refused, restore, restored, save


def await_written(node, path, deadline_s=120):
    """Until the node takes writes again."""
    deadline = time.monotonic() + deadline_s
    while True:
        answer = node.call("PUT", f"/v1/kv/{path}", {"v": "w"})
        if answer.status == 204:
            return
        assert time.monotonic() < deadline, answer.body
        time.sleep(0.1)


def unchanged(cluster, size):
    """Every node shows what was there before a restore that failed."""
    for node in cluster.nodes:
        assert get(node, "marker") == {"v": "new"}
        assert get(node, "later") == {"v": "kept"}
        for i in (0, size - 1):
            assert len(get(node, f"bulk/{i}")["v"]) > 600 * 1024
    cluster.await_equal_roots()


@contextlib.contextmanager
def changed_since(cluster, size):
    """An archive of a state that has changed since."""
    put(cluster.nodes[0], "marker", v="old")
    bulk(cluster, size)
    archive = save(cluster.active())
    put(cluster.nodes[0], "marker", v="new")
    put(cluster.nodes[0], "later", v="kept")
    yield archive
    restored(cluster.active(), archive)
    for node in cluster.nodes:
        assert get(node, "marker") == {"v": "old"}
        assert get(node, "later") is None
    await_written(cluster.nodes[0], "after")
    cluster.await_equal_roots()


def test_a_disk_that_fills_during_a_restore_changes_nothing():
    reserve, size = 8 * MIB, 24
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(
            Cluster(config={"reserve_bytes": reserve, "segment_bytes": MIB}))
        stack.enter_context(small_disks(cluster, 256))
        archive = stack.enter_context(changed_since(cluster, size))
        for node in cluster.nodes:  # room for the upload, not for the log
            ballast(node, reserve + 8 * MIB + len(archive) + 6 * MIB)
        answer = restore(cluster.active(), archive)
        assert answer.status in (503, 507), answer.body
        assert "nothing was changed" in answer.json["errors"][0]
        assert "restoring a snapshot" in "".join(n.log_text() for n in cluster.nodes)
        for node in cluster.nodes:  # no room for the upload either
            drop_ballast(node)
            ballast(node, reserve + MIB)
        answer = restore(cluster.active(), archive)
        assert answer.status == 507, answer.body
        assert all(node.alive for node in cluster.nodes)
        for node in cluster.nodes:
            drop_ballast(node)
        await_written(cluster.active(), "room")
        unchanged(cluster, size)


def test_a_full_state_takes_a_restore_that_fits_alone():
    """Both states together are more than the bound, and what has been staged counts for nothing."""
    size = 20
    with Cluster(config={"state_bytes_max": 24 * MIB}) as cluster:
        with changed_since(cluster, size) as archive:
            for i in range(100):
                body = {"v": "x" * 900_000}
                answer = cluster.active().call("PUT", f"/v1/kv/full/{i}", body)
                if answer.status != 204:
                    break
            assert answer.status == 507, answer.body
            unchanged(cluster, size)
        assert get(cluster.nodes[0], "full/0") is None


def test_a_snapshot_larger_than_the_state_may_be_changes_nothing():
    with Cluster() as large:
        bulk(large, 12)
        archive = save(large.active())
    with Cluster(config={"state_bytes_max": 4 * MIB}) as cluster:
        put(cluster.nodes[0], "marker", v="new")
        for node in cluster.nodes:
            for path in (PATH, FORCE):
                refused(restore(node, archive, path), "state.bin", status=413)
                assert get(node, "marker") == {"v": "new"}
        await_written(cluster.nodes[0], "after")
        cluster.await_equal_roots()


def is_sealed(node):
    return node.call("GET", "/v1/sys/seal-status", token="").json["sealed"]


def version_of(cluster):
    return cluster.state(cluster.active())["version"]


def unsealed(stack):
    cluster = stack.enter_context(ShamirCluster())
    cluster.open_all()
    cluster.mount("kv", {"version": "1"})
    cluster.await_feature_level()  # raising it is a write
    return cluster


def test_with_key_shares_a_cluster_takes_its_own_snapshot_only():
    with contextlib.ExitStack() as stack:
        cluster, other = unsealed(stack), unsealed(stack)
        put(cluster.nodes[0], "marker", v="old")
        archive = save(cluster.nodes[0])
        put(cluster.nodes[0], "marker", v="new")
        put(other.nodes[0], "marker", v="other")

        def refusal_writes_nothing():
            before = version_of(other)
            for node in other.nodes:
                refused(restore(node, archive), "root key", "snapshot-force")
            for node in other.nodes:
                assert get(node, "marker") == {"v": "other"}
                assert not is_sealed(node), "a refused snapshot sealed it"
            return version_of(other) == before

        other.await_until(refusal_writes_nothing)  # duties of a new leader write a little
        for node in cluster.nodes:
            put(cluster.nodes[0], "marker", v="new")
            restored(node, archive)
            for each in cluster.nodes:
                assert get(each, "marker") == {"v": "old"}
                assert not is_sealed(each), "it was sealed by its own snapshot"
        for node in cluster.nodes:
            node.kill()
        cluster.start()
        cluster.await_health({503}, cluster.nodes)
        cluster.open_all()
        for node in cluster.nodes:
            assert get(node, "marker") == {"v": "old"}
        cluster.await_equal_roots()


def test_an_empty_cluster_says_what_a_restore_needs_and_then_takes_it():
    with Cluster(size=1) as source:
        put(source.nodes[0], "marker", v="old")
        archive = save(source.nodes[0])
        empty = Cluster(size=1)
        node = empty.nodes[0]
        try:
            (empty.dir / "seal.key").write_bytes((source.dir / "seal.key").read_bytes())
            empty.start()
            empty.await_formed()
            answer = restore(node, archive, FORCE)
            assert answer.status == 503, answer.body
            assert "not initialised; initialise it first, then restore" in answer.json["errors"][0]
            assert "not initialised" in node.call("GET", "/v1/kv/a").json["errors"][0]
            empty.init()
            answer = restore(node, archive, FORCE)
            assert answer.status == 204, answer.body
            empty.token = source.token
            empty.await_up()
            assert get(node, "marker") == {"v": "old"}
            assert "another root key" in node.log_text()
            assert not [line for line in node.log_lines() if '"error"' in line], node.log_text()
        finally:
            empty.__exit__(None, None, None)


def killed_while_staging(cluster, archive):
    """The active node dies once a standby knows of staged values; returns it."""
    active, standbys = cluster.active(), cluster.standbys()
    before = cluster.state(active)["committed_index"]

    def send():
        with contextlib.suppress(OSError, http.client.HTTPException):
            restore(active, archive)

    thread = threading.Thread(target=send)
    thread.start()
    deadline = time.monotonic() + 120
    # The first entry begins the staged tree; one more leaves room for one of somebody else.
    while max(cluster.state(node)["committed_index"] for node in standbys) < before + 3:
        assert time.monotonic() < deadline and thread.is_alive()
    active.kill()
    thread.join()
    return active


def test_a_restore_whose_node_is_killed_half_way_leaves_nothing():
    size = 32
    with Cluster() as cluster, changed_since(cluster, size) as archive:
        deadline = time.monotonic() + 300
        while True:
            victim = killed_while_staging(cluster, archive)
            new = cluster.active()
            if get(new, "marker") == {"v": "new"}:
                break
            assert time.monotonic() < deadline, "all restores were done before their nodes were killed"
            victim.start()
            cluster.await_up()
            put(new, "marker", v="new")
            put(new, "later", v="kept")
        assert get(new, "later") == {"v": "kept"}
        # The next active node drops what was staged, and takes writes all the while.
        deadline = time.monotonic() + 120
        while "dropping the staged tree" not in "".join(n.log_text() for n in cluster.nodes):
            assert time.monotonic() < deadline, "nobody drops the staged tree"
            time.sleep(0.05)
        await_written(new, "between")
        victim.start()
        cluster.await_up()
        unchanged(cluster, size)


def memory_bytes(node, name):
    for line in pathlib.Path(f"/proc/{node.process.pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def test_what_memory_a_restore_takes():
    """Of 64 MB of state, with --long of 200, on every node: both states, and the log that carries the
    new one."""
    values = 250 if os.environ.get("HOLDFAST_LONG") else 80
    state_bytes = values * 800 * 1024
    with Cluster(config=STEADY) as cluster, changed_since(cluster, values) as archive:
        before = []
        for node in cluster.nodes:
            pathlib.Path(f"/proc/{node.process.pid}/clear_refs").write_text("5")  # the peak anew
            before.append(memory_bytes(node, "VmRSS"))
        restored(cluster.active(), archive)
        for node, rss in zip(cluster.nodes, before):
            peak = memory_bytes(node, "VmHWM")
            print(f"{node.name}: a state of {state_bytes // MIB} MiB; {rss // MIB} MiB before a "
                  f"restore, {peak // MIB} MiB at most: {(peak - rss) / state_bytes:.2f} states more")
            assert peak - rss < 4 * state_bytes
        put(cluster.nodes[0], "marker", v="new")
