"""Rotation of a chained file under load, over signals and restarts, and what `holdfast audit verify`
finds in it."""

import contextlib
import http.client
import re
import signal
import subprocess
import threading

import pytest
from cluster import HOLDFAST, Unaudited
from test_audit import await_true, devices, disable, enable, metrics
from test_audit_trail import records


@pytest.fixture(scope="module")
def cluster():
    with Unaudited(size=1) as made:
        yield made


@pytest.fixture
def node(cluster):
    return cluster.nodes[0]


def verify(files):
    return subprocess.run([HOLDFAST, "audit", "verify", *map(str, files)], capture_output=True,
                          text=True, timeout=60)


def files_of(path):
    """The rotated files, the oldest first, and the file."""
    stamp = re.compile(re.escape(path.name) + r"\.\d{8}T\d{6}\.\d{6}Z")
    old = sorted(each for each in path.parent.iterdir() if stamp.fullmatch(each.name))
    return [*old, *([path] if path.exists() else [])]


@contextlib.contextmanager
def load(node, told):
    """Four clients; a node that is restarted may cut off their requests."""
    done, numbers = threading.Event(), iter(range(1 << 30))

    def write():
        while not done.is_set():
            key = f"load/{next(numbers)}"
            with contextlib.suppress(OSError, http.client.HTTPException):
                if node.call("PUT", f"/v1/kv/{key}", {"a": "b" * 100}).status == 204:
                    told.append(key)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def count_above(found, n):
    await_true(lambda: len(found) > n)


def test_a_chain_goes_on_over_rotation_signals_and_a_restart(cluster, node):
    path, told = cluster.dir / "chain.log", []
    options = {"file_path": str(path), "hash_chain": "true", "rotate_bytes": "32KiB"}
    assert enable(node, "chain", options).status == 204
    with load(node, told):
        count_above(told, 50)
        for _ in range(5):
            node.process.send_signal(signal.SIGHUP)
            count_above(told, len(told) + 20)
        node.stop()
        node.start()
        cluster.await_up()
        count_above(told, len(told) + 50)
        moved = path.with_name("moved.log")  # by another program, which sends no signal
        path.rename(moved)
        await_true(path.exists)
        count_above(told, len(told) + 20)
    files = files_of(path)
    assert len(files) > 5 and all(each.stat().st_size <= 32 << 10 for each in files)
    written = [r for each in [*files, moved] for r in records(each)]
    kinds = {}
    for record in written:
        kinds.setdefault(record["request"]["path"], []).append(record["type"])
    for key in told:
        assert sorted(kinds[f"kv/{key}"]) == ["request", "response"], key
    # the chain shows that a file is missing, and fits with it
    assert "lines are missing" in verify(files).stderr
    place = next(i for i, each in enumerate(files) if
                 records(each)[0]["chain"]["n"] > records(moved)[0]["chain"]["n"])
    whole = verify([*files[:place], moved, *files[place:]])
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert f"{len(written)} lines fit: records 1 to {len(written)}, " in whole.stdout
    assert 'holdfast_audit_rotations_total{device="chain/"}' in metrics(node)
    assert disable(node, "chain").status == 204


@pytest.mark.parametrize("option", [{"rotate_bytes": "8KiB"}, {"rotate_duration": "1s"}])
def test_so_many_rotated_files_are_kept(cluster, node, option):
    path = cluster.dir / f"{next(iter(option))}.log"
    beside = path.with_name(f"{path.name}.20200101T000000.000000Z.gz")
    beside.write_text("of another program")
    options = {"file_path": str(path), "hash_chain": "true", "rotate_max_files": "2", **option}
    assert enable(node, "kept", options).status == 204
    told = []
    with load(node, told):
        await_true(lambda: len(files_of(path)) == 3)
        oldest = files_of(path)[0]
        await_true(lambda: not oldest.exists())
        node.stop()
        node.start()
        cluster.await_up()
        oldest = files_of(path)[0]
        await_true(lambda: not oldest.exists())
    files = files_of(path)
    assert len(files) == 3 and beside.exists()
    done = verify(files)
    assert done.returncode == 0 and "records 1 to" not in done.stdout, done.stdout + done.stderr
    # the last of four clients may have been recorded just before a rotation
    assert "kv/" + told[-1] in {r["request"]["path"] for file in files[1:] for r in records(file)}
    assert devices(node)["kept/"]["status"] == "open"
    assert disable(node, "kept").status == 204


def test_a_line_that_does_not_fit_is_named(cluster, node):
    path = cluster.dir / "named.log"
    options = {"file_path": str(path), "hash_chain": "true", "rotate_bytes": "8KiB"}
    assert enable(node, "named", options).status == 204
    for i in range(20):
        assert node.call("PUT", f"/v1/kv/named/{i}", {"a": "b"}).status == 204
    assert disable(node, "named").status == 204
    files = files_of(path)
    assert len(files) > 2 and verify(files).returncode == 0
    middle = files[1]
    text = middle.read_text()
    lines = text.splitlines(keepends=True)
    at = len(lines) // 2
    changed = lines[at].replace('"operation":"create"', '"operation":"creAte"')
    assert changed != lines[at]
    for number, why, spoilt in [
            (at + 1, "changed", [*lines[:at], changed, *lines[at + 1:]]),
            (at + 1, "lines are missing", [*lines[:at], *lines[at + 1:]]),
            (at + 1, "lines are missing", [*lines[:at], lines[at + 1], lines[at], *lines[at + 2:]]),
            (at + 1, "has no link", [*lines[:at], "{}\n", *lines[at:]]),
            (at + 2, "inserted", [*lines[:at + 1], lines[at], *lines[at + 1:]]),
            (len(lines), "torn", [*lines[:-1], lines[-1][:-40]]),
    ]:
        middle.write_text("".join(spoilt))
        done = verify(files)
        assert done.returncode == 2
        assert f"{middle}:{number}: " in done.stderr and why in done.stderr, (why, done.stderr)
    middle.write_text(text)
    first = records(files[2])[0]["chain"]["n"]
    swapped = verify([files[0], files[2], middle, *files[3:]])
    assert swapped.returncode == 2 and f"{files[2]}:1: " in swapped.stderr, first
    assert verify(files).returncode == 0
