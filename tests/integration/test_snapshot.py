"""Snapshots of a whole cluster: saved under load, restored completely or not at all."""

import base64
import gzip
import hashlib
import http.client
import io
import json
import os
import subprocess
import tarfile
import threading
import time

import pytest

from cluster import HOLDFAST, Cluster
from test_shamir import ShamirCluster

PATH = "/v1/sys/storage/raft/snapshot"
FORCE = PATH + "-force"
NAMES = ["meta.json", "state.bin", "SHA256SUMS", "SHA256SUMS.sealed"]


def save(node, token=None):
    answer = node.call("GET", PATH, token=token, timeout_s=300)
    assert answer.status == 200, answer.body[:500]
    assert answer.headers["Content-Type"] == "application/gzip"
    return answer.body


def restore(node, archive, path=PATH, token=None):
    return node.call("POST", path, archive, token=token, timeout_s=300)


def restored(node, archive, path=PATH, token=None):
    """It is restored, as soon as no leader is lost meanwhile."""
    deadline = time.monotonic() + 300
    while (answer := restore(node, archive, path, token)).status == 503:
        assert "nothing was changed" in answer.json["errors"][0], answer.body
        assert time.monotonic() < deadline, answer.body
        time.sleep(0.1)
    assert answer.status == 204, answer.body


def files_of(archive):
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        assert tar.getnames() == NAMES
        return {name: tar.extractfile(name).read() for name in NAMES}


def archive_of(files, names=NAMES):
    """A well-formed archive of files that somebody changed."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.USTAR_FORMAT) as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(files[name])
            tar.addfile(info, io.BytesIO(files[name]))
    return out.getvalue()


def with_sums(files):
    lines = [f"{hashlib.sha256(files[n]).hexdigest()}  {n}\n" for n in NAMES[:2]]
    return {**files, "SHA256SUMS": "".join(lines).encode()}


def put(node, path, **data):
    answer = node.call("PUT", f"/v1/kv/{path}", data)
    assert answer.status == 204, answer.body


def get(node, path, token=None):
    """The data; None where there is none. Until the node answers: it may be unsealing."""
    deadline = time.monotonic() + 120
    while True:
        answer = node.call("GET", f"/v1/kv/{path}", token=token)
        if answer.status == 404:
            return None
        if answer.status == 200:
            return answer.data
        assert answer.status == 503 and time.monotonic() < deadline, answer.body
        time.sleep(0.05)


def refused(answer, *words, status=400):
    assert answer.status == status, answer.body
    for word in words:
        assert word in answer.json["errors"][0], answer.body


def test_a_snapshot_is_what_upstreams_tools_expect(cluster):
    put(cluster.nodes[0], "tools", secret="not to be read")
    for node in cluster.nodes:
        files = files_of(save(node))
        meta = json.loads(files["meta.json"])
        assert meta["Size"] == len(files["state.bin"]) and meta["Index"] > 0
        assert meta["holdfast"]["format"] == 1
        assert files == with_sums(files)
        assert files["SHA256SUMS.sealed"]
        assert b"not to be read" not in files["state.bin"]
        assert cluster.token.encode() not in files["state.bin"]


def test_dump_explains_an_archive(cluster, tmp_path):
    put(cluster.nodes[0], "explained", secret="not to be read")
    archive = save(cluster.nodes[0])
    path = tmp_path / "saved.snap"
    path.write_bytes(archive)
    done = subprocess.run(
        [HOLDFAST, "dump", "snapshot", str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "archive of cluster" in done.stdout and "whole:" in done.stdout
    assert "s/core/keyring" in done.stdout and "not to be read" not in done.stdout
    path.write_bytes(archive[:-100])
    done = subprocess.run(
        [HOLDFAST, "dump", "snapshot", str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1 and "cut short" in done.stdout + done.stderr


def test_saving_and_restoring_need_their_capability(cluster):
    archive = save(cluster.nodes[0])
    weak = cluster.limited('path "kv/*" { capabilities = ["read"] }')
    reader = cluster.limited(f'path "{PATH[4:]}" {{ capabilities = ["read"] }}')
    for node in cluster.nodes:
        assert node.call("GET", PATH, token=weak).status == 403
        assert node.call("GET", PATH, token="").status == 403
        assert restore(node, archive, token=weak).status == 403
        assert restore(node, archive, token=reader).status == 403
        assert restore(node, archive, path=FORCE, token=reader).status == 403
        files_of(save(node, token=reader))


def test_restore_brings_back_what_was_deleted_and_changed(cluster):
    first, *others = cluster.nodes
    put(first, "kept", v="1")
    put(first, "changed", v="before")
    put(first, "deleted", v="there")
    before = cluster.state(cluster.active())["version"]
    archive = save(others[0])
    put(first, "changed", v="after")
    put(first, "new", v="x")
    assert first.call("DELETE", "/v1/kv/deleted").status == 204
    version = cluster.state(cluster.active())["version"]
    assert version > before
    for node in (cluster.active(), cluster.standbys()[0]):
        put(first, "changed", v="after")
        put(first, "new", v="x")
        restored(node, archive)
        for each in cluster.nodes:
            assert get(each, "kept") == {"v": "1"}
            assert get(each, "changed") == {"v": "before"}
            assert get(each, "deleted") == {"v": "there"}
            assert get(each, "new") is None
        put(node, "changed", v="again")
        assert get(first, "changed") == {"v": "again"}
        assert cluster.state(cluster.active())["version"] > version
    cluster.await_equal_roots()


def test_a_restore_over_a_later_key_keeps_what_is_written_after_it(cluster):
    node = cluster.nodes[0]
    put(node, "early", v="1")
    archive = save(node)
    assert node.call("PUT", "/v1/sys/rotate").status == 204
    put(node, "late", v="2")
    restored(node, archive)
    put(node, "after", v="3")
    for each in cluster.nodes:
        assert get(each, "early") == {"v": "1"}
        assert get(each, "late") is None
        assert get(each, "after") == {"v": "3"}
    assert node.call("PUT", "/v1/sys/rotate").status == 204
    put(node, "rotated", v="4")
    for each in cluster.nodes:
        assert get(each, "rotated") == {"v": "4"}


def test_a_snapshot_under_load_is_one_version(cluster):
    """Each round writes a, then b: a snapshot may be ahead by one in a, never in b."""
    ended = threading.Event()
    failed = []

    def write():
        n = 0
        while not ended.is_set():
            n += 1
            for key in ("a", "b"):
                answer = cluster.nodes[0].call("PUT", f"/v1/kv/load/{key}", {"n": n})
                if answer.status != 204:
                    failed.append(answer.body)

    put(cluster.nodes[0], "load/a", n=0)
    put(cluster.nodes[0], "load/b", n=0)
    thread = threading.Thread(target=write)
    thread.start()
    archives = [save(node) for node in cluster.nodes]
    ended.set()
    thread.join()
    assert not failed
    for archive in archives:
        restored(cluster.nodes[0], archive)
        a, b = (get(cluster.nodes[1], f"load/{key}")["n"] for key in ("a", "b"))
        assert b <= a <= b + 1


def hostile(archive):
    """Archives that are to be refused, and words of the reason."""
    files = files_of(archive)
    middle = len(archive) // 2
    flipped = bytearray(archive)
    flipped[middle] ^= 1
    later = json.loads(files["meta.json"])
    later["holdfast"]["format"] = 9
    foreign = json.loads(files["meta.json"])
    del foreign["holdfast"]
    cut = {**files, "state.bin": files["state.bin"][:-20]}
    bomb = gzip.compress(bytes(64 * 1024 * 1024), 1)
    yield "empty", b"", "cut short"
    yield "cut", archive[:middle], "refused"
    yield "cut at the end", archive[:-1], "cut short"
    yield "flipped", bytes(flipped), "refused"
    yield "text", b"{}" * 1000, "gzip"
    yield "bomb", bomb, "refused"
    yield "longer", archive + b"x", "behind its end"
    yield "later", archive_of(with_sums({**files, "meta.json": json.dumps(later).encode()})), "format 9"
    yield "other", archive_of({**files, "meta.json": json.dumps(foreign).encode()}), "another program"
    yield "short state", archive_of(with_sums(cut)), "state.bin"
    yield "sums", archive_of({**files, "SHA256SUMS": b"x"}), "SHA256SUMS"
    yield "unsealed", archive_of(files, NAMES[:3]), "SHA256SUMS.sealed"
    yield "order", archive_of(files, [NAMES[1], NAMES[0], *NAMES[2:]]), "meta.json"


def with_bad_ring(archive):
    """One bit of the key ring is another, and the sums are made anew."""
    files = files_of(archive)
    state = bytearray(files["state.bin"])
    state[state.index(b"keyring") + 60] ^= 1
    return archive_of(with_sums({**files, "state.bin": bytes(state)}))


def test_a_bad_archive_is_refused_and_changes_nothing(cluster):
    put(cluster.nodes[0], "present", v="now")
    archive = save(cluster.nodes[0])
    put(cluster.nodes[0], "present", v="later")
    cluster.await_equal_roots()
    before = cluster.state(cluster.active())
    for path in (PATH, FORCE):
        for what, bad, word in hostile(archive):
            for node in (cluster.active(), cluster.standbys()[0]):
                answer = restore(node, bad, path)
                assert 400 <= answer.status < 500, (what, answer.body)
                assert word in answer.json["errors"][0], (what, answer.body)
    resealed = archive_of({**files_of(archive), "SHA256SUMS.sealed": b"\1" + bytes(32)})
    refused(restore(cluster.nodes[0], resealed), "root key", "snapshot-force")
    refused(restore(cluster.nodes[0], with_bad_ring(archive), FORCE), "is refused", "key ring")
    assert get(cluster.nodes[0], "present") == {"v": "later"}
    after = cluster.state(cluster.active())  # a new leader writes a little
    assert after["version"] == before["version"] or after["term"] != before["term"]


def test_a_body_that_breaks_off_changes_nothing(cluster):
    archive = save(cluster.nodes[0])
    put(cluster.nodes[0], "still", v="here")
    for node in cluster.nodes:
        connection = node.connect()
        connection.putrequest("POST", PATH)
        connection.putheader("X-Secrets-Token", cluster.token)
        connection.putheader("Content-Length", str(len(archive)))
        connection.endheaders(archive[: len(archive) // 2])
        connection.close()
    assert get(cluster.nodes[0], "still") == {"v": "here"}
    files_of(save(cluster.nodes[0]))


def bulk(cluster, megabytes):
    """A state large enough that a restore takes a while."""
    value = base64.b64encode(os.urandom(600 * 1024)).decode()
    connection = cluster.active().connect()
    for i in range(megabytes):
        body = json.dumps({"v": f"{i}{value}"})
        connection.request("PUT", f"/v1/kv/bulk/{i}", body, {"X-Secrets-Token": cluster.token})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 204
    connection.close()


def test_a_node_that_dies_during_a_restore_leaves_a_whole_state():
    with Cluster() as cluster:
        put(cluster.nodes[0], "marker", v="old")
        bulk(cluster, 24)
        archive = save(cluster.nodes[0])
        put(cluster.nodes[0], "marker", v="new")
        for tenths in (0, 1, 3):
            active = cluster.active()
            answers = []

            def send(node=active):
                try:
                    answers.append(restore(node, archive).status)
                except (OSError, http.client.HTTPException):
                    answers.append(None)

            thread = threading.Thread(target=send)
            thread.start()
            time.sleep(tenths / 10)  # whatever it is doing then
            active.kill()
            thread.join()
            cluster.active()
            alive = next(n for n in cluster.nodes if n.alive)
            value = get(alive, "marker")
            assert value in ({"v": "old"}, {"v": "new"})
            assert answers != [204] or value == {"v": "old"}
            assert len(get(alive, "bulk/7")["v"]) > 600 * 1024
            active.start()
            cluster.await_up()
            put(alive, "marker", v="new")
            cluster.await_equal_roots()
        restored(cluster.nodes[0], archive)
        assert get(cluster.nodes[2], "marker") == {"v": "old"}


@pytest.fixture(scope="module")
def old():
    """A snapshot of another cluster, with its token and its seal key."""
    with Cluster() as cluster:
        put(cluster.nodes[0], "from", v="the old cluster")
        archive = save(cluster.nodes[0])
        yield archive, cluster.token, (cluster.dir / "seal.key").read_bytes()


def test_a_snapshot_of_another_cluster_needs_force(cluster, old):
    archive, token, _ = old
    put(cluster.nodes[0], "mine", v="x")
    for node in cluster.nodes:
        refused(restore(node, archive), "root key", "snapshot-force")
    assert get(cluster.nodes[0], "mine") == {"v": "x"}
    assert cluster.nodes[0].call("GET", "/v1/kv/from", token=token).status == 403


def test_an_empty_cluster_takes_another_ones_state_and_unseals_by_itself(old):
    archive, token, key = old
    made = Cluster()
    seal = made.dir / "seal.key"
    seal.write_bytes(key)
    with made as cluster:
        restored(cluster.standbys()[0], archive, FORCE)
        cluster.await_up()
        for node in cluster.nodes:
            assert get(node, "from", token=token) == {"v": "the old cluster"}
        assert cluster.nodes[0].call("GET", "/v1/kv/from").status == 403  # its own token is gone
        cluster.token = token
        put(cluster.nodes[1], "next", v="written")
        for node in cluster.nodes:
            node.kill()
        cluster.start()
        cluster.await_up()
        for node in cluster.nodes:
            assert get(node, "next") == {"v": "written"}
        cluster.await_equal_roots()
        restored(cluster.nodes[0], archive)  # it is its own snapshot now


def test_with_key_shares_the_old_clusters_shares_unseal():
    with ShamirCluster() as first:
        for node in first.nodes:
            first.open(node)
        first.await_up()
        first.mount("kv", {"version": "1"})
        put(first.nodes[0], "from", v="shares")
        archive, token, keys = save(first.nodes[0]), first.token, first.keys
    with ShamirCluster() as cluster:
        for node in cluster.nodes:
            cluster.open(node)
        cluster.await_up()
        refused(restore(cluster.nodes[0], archive), "root key")
        restored(cluster.nodes[0], archive, FORCE)
        cluster.await_health({503}, cluster.nodes)
        for key in cluster.keys[: cluster.threshold]:
            answer = cluster.nodes[0].call("PUT", "/v1/sys/unseal", {"key": key}, token="")
        assert answer.status == 400
        cluster.token = token
        for node in cluster.nodes:
            cluster.open(node, keys)
        cluster.await_up()
        for node in cluster.nodes:
            assert get(node, "from") == {"v": "shares"}
        deadline = time.monotonic() + 120
        while cluster.nodes[1].call("PUT", "/v1/kv/next", {"v": "w"}).status != 204:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for node in cluster.nodes:
            assert get(node, "next") == {"v": "w"}
        cluster.await_equal_roots()
