"""`holdfast dump` shows what a node stored on its disk, also while the node runs."""

import re
import subprocess
import time

from cluster import HOLDFAST, Cluster


def dump(*args):
    return subprocess.run([HOLDFAST, "dump", *args], capture_output=True, text=True, timeout=120)


def newest_snapshot(node):
    """Explained; None where a newer one took its place meanwhile."""
    path = sorted(node.data.glob("**/*.snap"))[-1]
    done = dump("snapshot", str(path))
    return done if done.returncode == 0 or path.exists() else None


def test_dump_explains_log_and_snapshot():
    with Cluster(config={"snapshot_log_bytes": 65536}) as cluster:
        node = cluster.nodes[0]
        for n in range(300):
            assert node.call("PUT", f"/v1/kv/dump/{n}", {"secret": "tell nobody" * 50}).status == 204
        deadline = time.monotonic() + 120
        while not list(node.data.glob("**/*.snap")):
            assert time.monotonic() < deadline, "no snapshot was taken"
            time.sleep(0.1)
        while not (snapshot := newest_snapshot(node)):
            assert time.monotonic() < deadline, "every snapshot was replaced while it was read"
        log = dump("log", str(node.data))
        assert log.returncode == 0, log.stderr
        assert "node1" in log.stdout and "term" in log.stdout
        assert snapshot.returncode == 0, snapshot.stderr
        assert "s/core/keyring" in snapshot.stdout
        for text in (log.stdout, snapshot.stdout):
            assert "tell nobody" not in text and cluster.token not in text
        assert node.call("GET", "/v1/kv/dump/299").status == 200


def test_dump_prints_the_form_of_every_record():
    formats = dump("formats")
    assert formats.returncode == 0, formats.stderr
    names = re.findall(r"^## (\S+)$", formats.stdout, re.M)
    assert names == sorted(set(names)) and {"dr/role", "seal/root-key", "member/report"} <= set(names)
    for name, text in zip(names, re.split(r"^## \S+$", formats.stdout, flags=re.M)[1:]):
        assert "| field |" in text or "|---|" in text, name


def test_dump_says_what_is_wrong(tmp_path):
    missing = dump("log", str(tmp_path / "none"))
    assert missing.returncode == 1 and missing.stderr
    broken = tmp_path / "x.snap"
    broken.write_bytes(b"not a snapshot" * 100)
    answer = dump("snapshot", str(broken))
    assert answer.returncode == 1 or "corrupt" in answer.stdout.lower() + answer.stderr.lower()
