"""Audit devices whose disk is full, and files that disappear under a node."""

import contextlib
import os
import signal
import subprocess

import pytest
from cluster import HOLDFAST, Unaudited
from disks import small_disk
from test_audit import await_true, devices, disable, enable, metrics
from test_audit_nodes import FORWARDS, STANDBY, leads
from test_audit_trail import about, records
from test_reload import await_log

UNRECORDED = "could not be recorded by any audit device"


@pytest.fixture(scope="module")
def cluster():
    with Unaudited(size=1) as made:
        yield made


@pytest.fixture
def node(cluster):
    return cluster.nodes[0]


@pytest.fixture
def disk(cluster, request):
    with small_disk(cluster.dir / request.node.name, 64) as made:
        yield made


def verify(*files):
    done = subprocess.run([HOLDFAST, "audit", "verify", *map(str, files)], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write(node, name, size=400):
    return node.call("PUT", f"/v1/kv/{name}", {"a": "x" * size})


def writes_until_refused(node, stem):
    """(name, answer) of writes, the last of them without a record."""
    told = []
    while not told or told[-1][1].status == 204:
        assert len(told) < 1000
        name = f"{stem}/{len(told)}"
        told.append((name, write(node, name)))
    return told


def test_a_full_disk_of_the_only_device_refuses_requests_until_there_is_room(node, disk):
    path = disk.path / "audit.log"
    options = {"file_path": str(path), "hash_chain": "true", "log_raw": "true"}
    assert enable(node, "only", options).status == 204
    told = []
    for round_ in range(3):
        disk.fill()
        told += writes_until_refused(node, f"full{round_}")
        for i in range(3):
            told.append((f"no{round_}/{i}", write(node, f"no{round_}/{i}")))
        for _, answer in told[-4:]:
            assert answer.status == 500 and UNRECORDED in answer.json["errors"][0], answer.body
        assert node.call("GET", "/v1/kv/full0/0").status == 500
        await_log(node, "device only/ fails: ", round_ + 1)
        await_log(node, "no device takes records: requests fail", round_ + 1)
        assert f"{path}: No space left on device" in node.log_text()
        assert node.health() == 200  # as upstream: health is not recorded
        disk.make_room()
        await_true(lambda n=round_: write(node, f"room{n}").status == 204)
        await_log(node, "device only/ works again; it missed ", round_ + 1)
        await_log(node, "a device takes records again", round_ + 1)

    assert devices(node)["only/"]["status"] == "open"
    assert "lines fit" in verify(path)
    for name, answer in told:
        kinds = [kind for kind, record in about(path, f"kv/{name}")
                 if record["request"]["operation"] in ("create", "update")]
        there = node.call("GET", f"/v1/kv/{name}").status == 200
        if answer.status == 204:
            assert there and kinds == ["request", "response"], name
        elif "the change was made" in answer.json["errors"][0]:
            assert there and kinds == ["request"], name
        else:
            assert not there and kinds == [], (name, answer.body)
    assert disable(node, "only").status == 204


def test_a_full_disk_of_a_second_device_is_felt_by_no_request(node, disk):
    first, second = disk.path.with_name("first.log"), disk.path / "audit.log"
    assert enable(node, "first", {"file_path": str(first)}).status == 204
    options = {"file_path": str(second), "hash_chain": "true", "write_timeout": "60s"}
    assert enable(node, "second", options).status == 204
    assert write(node, "before").status == 204
    disk.fill()
    for i in range(60):
        assert write(node, f"second/{i}").status == 204
    assert devices(node)["second/"]["status"] == "failing"
    assert devices(node)["second/"]["error"] == f"{second}: No space left on device"
    text = metrics(node)
    assert 'holdfast_audit_device_up{device="second/"} 0' in text
    assert 'holdfast_audit_device_up{device="first/"} 1' in text
    assert "holdfast_audit_mute 0" in text
    disk.make_room()
    await_true(lambda: devices(node)["second/"]["status"] == "open")
    assert write(node, "after").status == 204

    asked = {(r["request"]["id"], r["type"]) for r in records(first)
             if not r["request"]["path"].startswith("sys/audit/")}
    kept = {(r["request"]["id"], r["type"]) for r in records(second)
            if not r["request"]["path"].startswith("sys/audit/")}
    verify(second)
    assert kept < asked
    failures = f'holdfast_audit_failures_total{{device="second/"}} {len(asked - kept)}\n'
    assert failures in metrics(node)
    assert [len(about(second, f"kv/{name}")) for name in ("before", "after")] == [2, 2]
    assert disable(node, "second").status == disable(node, "first").status == 204


def test_a_file_that_disappears_is_made_anew(node, cluster):
    path = cluster.dir / "gone.log"
    assert enable(node, "gone", {"file_path": str(path), "hash_chain": "true"}).status == 204
    assert write(node, "gone/1").status == 204
    path.unlink()
    assert write(node, "gone/2").status == 204  # without a signal
    assert [kind for kind, _ in about(path, "kv/gone/2")] == ["request", "response"]
    assert about(path, "kv/gone/1") == []
    path.unlink()
    node.process.send_signal(signal.SIGHUP)  # makes it at once
    await_true(path.exists)
    assert write(node, "gone/3").status == 204
    assert [kind for kind, _ in about(path, "kv/gone/3")] == ["request", "response"]
    # the chain goes on: it does not hide that lines are missing before these
    assert "records 1 to" not in verify(path)
    path.unlink()
    path.mkdir()
    refused = write(node, "gone/4")
    assert refused.status == 500 and UNRECORDED in refused.json["errors"][0]
    path.rmdir()
    await_true(lambda: write(node, "gone/5").status == 204)
    assert node.call("GET", "/v1/kv/gone/4").status == 404
    assert disable(node, "gone").status == 204


def test_a_file_that_is_cut_or_replaced_under_the_node_is_followed(node, cluster):
    path, other = cluster.dir / "cut.log", cluster.dir / "other.log"
    assert enable(node, "cut", {"file_path": str(path)}).status == 204
    assert write(node, "cut/1").status == 204
    os.truncate(path, 0)
    assert write(node, "cut/2").status == 204
    assert [r["request"]["path"] for r in records(path)] == ["kv/cut/2"] * 2
    other.write_text("")
    other.rename(path)
    assert write(node, "cut/3").status == 204
    assert [r["request"]["path"] for r in records(path)] == ["kv/cut/3"] * 2
    assert disable(node, "cut").status == 204


def below_data(node):
    """Names of one file of the data directory that a device could be given."""
    target = next(path for path in sorted(node.data.rglob("*")) if path.is_file())
    link, hard, folder = (node.dir / name for name in ("link", "hard", "folder"))
    link.symlink_to(target)
    os.link(target, hard)
    folder.symlink_to(target.parent)
    loop = node.dir / "loop"
    loop.symlink_to(loop)
    return target, [target, link, folder / target.name, folder / "new", node.data / "new",
                    node.dir / "." / "data" / ".." / "data" / "new", hard, loop]


def test_no_device_writes_into_the_data_directory(node):
    target, paths = below_data(node)
    before = target.stat().st_size
    for path in paths:
        answer = enable(node, "inside", {"file_path": str(path)})
        assert answer.status == 400, path
        assert str(path) in answer.json["errors"][0], answer.body
    assert not (node.data / "new").exists() and target.stat().st_size >= before
    assert b"sys/audit/test" not in target.read_bytes()
    assert devices(node) == {}


def test_a_node_with_a_full_disk_hands_leadership_over():
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Unaudited())
        first = cluster.nodes[0]  # to whom the others step down
        for node in cluster.nodes:
            node.stop()
        disk = stack.enter_context(small_disk(first.dir / "disk", 64))
        for node in cluster.nodes:
            folder = disk.path if node is first else node.dir
            own = {"file_path": str(folder / "own.log"), "hash_chain": True}
            node.config = {"audit": {"file": {"own": {"options": own}}}}
            node.start()
        cluster.await_up()
        await_true(lambda: leads(cluster, first))
        assert write(first, "before").status == 204
        disk.fill()
        told = writes_until_refused(first, "full")
        assert UNRECORDED in told[-1][1].json["errors"][0]
        await_log(first, "no audit device takes its records: hands over")
        await_true(lambda: first.health() == FORWARDS)
        for i in range(20):  # through the node that cannot record
            assert write(first, f"after/{i}").status == 204
            assert first.call("GET", f"/v1/kv/after/{i}").status == 200
        active = cluster.active()
        assert active is not first
        disk.make_room()
        await_true(lambda: first.health() == STANDBY)
        assert first.call("GET", "/v1/kv/before").status == 200
        assert about(disk.path / "own.log", "kv/before")
        assert len(about(active.dir / "own.log", "kv/after/19")) == 4
        verify(disk.path / "own.log")
        verify(active.dir / "own.log")
        for node in cluster.nodes:
            node.kill()
