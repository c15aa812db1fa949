"""The process that shares a node's memory, so that a killed node closes its connections at once."""

import os
import pathlib
import signal
import time

import pytest

from cluster import Cluster

PATIENCE_S = 30


@pytest.fixture
def node():
    with Cluster(size=1) as cluster:
        yield cluster.nodes[0]


def status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def children(pid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int(status(entry.name)["PPid"]) == pid:
                    found.append(int(entry.name))
            except FileNotFoundError:
                continue  # the process has ended
    return found


def holder_of(node):
    held = children(node.process.pid)
    assert len(held) == 1, held
    assert status(held[0])["Name"] == "hf-memory"
    return held[0]


def runs(pid):
    """Whether the process has not ended: a zombie has."""
    try:
        return status(pid)["State"][0] != "Z"
    except FileNotFoundError:
        return False


def await_end(pid):
    deadline = time.monotonic() + PATIENCE_S
    while runs(pid):
        assert time.monotonic() < deadline, status(pid)
        time.sleep(0.01)


def test_the_holder_shares_the_memory_and_no_connection(node):
    holder = holder_of(node)
    node.call("PUT", "/v1/kv/long", {"x": "y" * 900_000})
    files = [os.readlink(fd.path) for fd in os.scandir(f"/proc/{holder}/fd")]
    assert files == ["anon_inode:[pidfd]"]
    sizes = [int(status(pid)["VmSize"].split()[0]) for pid in (holder, node.process.pid)]
    assert sizes[0] == sizes[1]


def test_the_holder_heeds_no_signal_that_is_meant_for_the_node(node):
    holder = holder_of(node)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        os.kill(holder, number)
    assert runs(holder)
    assert node.call("PUT", "/v1/kv/after", {"x": 1}).status == 204


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_the_holder_ends_with_the_node(node, end):
    holder = holder_of(node)
    getattr(node, end)()
    await_end(holder)


def test_a_node_goes_on_without_its_holder(node):
    os.kill(holder_of(node), signal.SIGKILL)
    assert node.call("PUT", "/v1/kv/after", {"x": 1}).status == 204
    node.stop()
    assert node.process.returncode == 0
