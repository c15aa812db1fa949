"""systemd: the notifications of a node, its credentials, and what the unit allows."""

import collections
import contextlib
import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from cluster import HOLDFAST, STEADY, TOP, Cluster

UNIT = TOP / "deploy" / "systemd" / "holdfast.service"
EXPOSURE_MAX = 1.5


class Listener:
    """The socket of an init system, as sd_notify(3) describes it."""

    def __init__(self, name):
        self.name = str(name)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + self.name[1:] if self.name[0] == "@" else self.name)
        self.socket.settimeout(120)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def next(self, past=("WATCHDOG=1",)):
        """The fields of the next message but those of `past`."""
        while True:
            text = self.socket.recv(4096).decode()
            if text not in past:
                return dict(line.split("=", 1) for line in text.splitlines())


@pytest.fixture(scope="module")
def one():
    with Cluster(size=1) as cluster:
        cluster.nodes[0].stop()
        yield cluster.nodes[0]


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_systemd_hears_of_serving_reloading_and_stopping(one, tmp_path, kind):
    name = tmp_path / "notify" if kind == "path" else f"@holdfast-{os.getpid()}"
    with Listener(name) as heard:
        one.start(env={"NOTIFY_SOCKET": heard.name})
        assert heard.next()["READY"] == "1"
        one.connect().connect()  # at once: it serves when it says so
        before = time.monotonic_ns() // 1000
        one.process.send_signal(signal.SIGHUP)
        message = heard.next()
        assert message["RELOADING"] == "1"
        assert before <= int(message["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
        assert heard.next() == {"READY": "1"}
        assert one.stop() == 0
        assert heard.next()["STOPPING"] == "1"


def test_the_watchdog_hears_of_a_node_that_turns(one, tmp_path):
    with Listener(tmp_path / "notify") as heard:
        one.start(env={"NOTIFY_SOCKET": heard.name, "WATCHDOG_USEC": "200000"})
        assert heard.next()["READY"] == "1"
        for _ in range(5):
            assert heard.next(past=()) == {"WATCHDOG": "1"}
        assert one.stop() == 0


def test_a_node_that_is_stopped_before_it_is_ready_ends_in_order(tmp_path):
    made = Cluster(size=2, config={"drain_delay_s": "2m"})
    first, second = made.nodes
    with contextlib.ExitStack() as stack:
        heard = stack.enter_context(Listener(tmp_path / "notify"))
        stack.push(made.__exit__)
        first.start(env={"NOTIFY_SOCKET": heard.name, "WATCHDOG_USEC": "200000"})
        assert heard.next()["READY"] == "1"  # the node names the members it waits for, and handles signals
        first.process.terminate()
        assert heard.next()["STOPPING"] == "1"
        second.start()
        made.await_health({503}, [first])  # it has become ready, and is leaving
        assert first.stop() == 0, first.log_text()[-2000:]


def test_another_process_s_watchdog_is_not_answered(one, tmp_path):
    with Listener(tmp_path / "notify") as heard:
        one.start(env={"NOTIFY_SOCKET": heard.name, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"})
        assert heard.next(past=())["READY"] == "1"
        assert one.stop() == 0
        assert heard.next(past=())["STOPPING"] == "1"


@pytest.mark.parametrize("name", ["/no/such/socket", "relative", "/" + 200 * "x"])
def test_a_node_that_cannot_tell_systemd_serves_and_says_so(one, name):
    before = len(one.log_text())
    one.start(env={"NOTIFY_SOCKET": name})
    one.cluster.await_up()
    assert one.stop() == 0
    assert "systemd was not told READY=1" in one.log_text()[before:]


def test_the_seal_key_comes_from_a_credential(one, tmp_path):
    key = tmp_path / "seal.key"
    shutil.copy(one.cluster.dir / "seal.key", key)
    one.config = {"seal": {"static": {"key_file": None, "credential": "seal.key"}}}
    try:
        # As systemd leaves it: root's, and the mask of an access list shows in the group's bits.
        key.chmod(0o440 if os.geteuid() == 0 else 0o400)
        one.start(env={"CREDENTIALS_DIRECTORY": str(tmp_path)})
        one.cluster.await_health({200}, [one])
        assert one.stop() == 0
        key.chmod(0o444)
        one.start(env={"CREDENTIALS_DIRECTORY": str(tmp_path)})
        assert one.process.wait(120) == 1
        assert "seal: credential: " in one.log_text()[-1000:]
        assert "mode 0444 lets others use the key: run chmod " in one.log_text()[-1000:]
        key.unlink()
        one.start(env={"CREDENTIALS_DIRECTORY": str(tmp_path)})
        one.cluster.await_health({503}, [one])
        assert "stays sealed until it is started with its key" in one.log_text()[-4000:]
        assert one.stop() == 0
    finally:
        if one.alive:
            one.kill()
        one.config = {}


def unit_here(tmp_path):
    """The unit with what this machine has in place of what an installation has."""
    text = UNIT.read_text()
    assert "ExecStart=/usr/local/bin/holdfast " in text
    path = tmp_path / "holdfast.service"
    path.write_text(text.replace("ExecStart=/usr/local/bin/holdfast ", f"ExecStart={HOLDFAST} "))
    return path


def test_the_unit_is_one_that_systemd_accepts(tmp_path):
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit_here(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "holdfast" not in done.stderr, done.stderr


def test_the_unit_of_the_worker_is_one_that_systemd_accepts(tmp_path):
    text = UNIT.with_name("holdfast-worker.service").read_text()
    assert "ExecStart=/usr/local/bin/holdfast worker " in text
    path = tmp_path / "holdfast-worker.service"
    path.write_text(text.replace("ExecStart=/usr/local/bin/holdfast ", f"ExecStart={HOLDFAST} "))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path], capture_output=True,
                          text=True, timeout=120)
    assert "holdfast" not in done.stderr, done.stderr


def test_only_a_failed_disk_keeps_a_node_down():
    unit = UNIT.read_text()
    assert re.search(r"^StartLimitIntervalSec=0$", unit, re.M)
    assert re.search(r"^Restart=on-failure$", unit, re.M)
    kept_down = re.search(r"^RestartPreventExitStatus=(\d+)$", unit, re.M)[1]
    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        subprocess.run(["prlimit", f"--pid={node.process.pid}", "--fsize=0"], check=True, timeout=60)
        with contextlib.suppress(OSError, http.client.HTTPException):
            node.call("PUT", "/v1/kv/x", {"v": "its write fails"})
        assert node.process.wait(120) == int(kept_down)


def test_the_unit_exposes_little(tmp_path):
    done = subprocess.run(
        ["systemd-analyze", "security", "--no-pager", "--offline=true", unit_here(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    print(f"exposure {found[1]}")
    assert float(found[1]) <= EXPOSURE_MAX, done.stdout


def call_sets():
    """systemd's named sets of system calls, each expanded to names."""
    text = subprocess.run(
        ["systemd-analyze", "--no-pager", "syscall-filter"],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    raw, name = collections.defaultdict(set), None
    for line in text.splitlines():
        if line.startswith("@"):
            name = line.strip()
        elif line.startswith(" ") and name and not line.lstrip().startswith("#"):
            raw[name].add(line.strip())

    def expanded(item):
        return set().union(*map(expanded, raw[item])) if item.startswith("@") else {item}

    return {name: expanded(name) for name in list(raw)}


def calls_allowed():
    sets, allowed = call_sets(), set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.M):
        named = set()
        for word in line.lstrip("~").split():
            named |= sets[word] if word.startswith("@") else {word}
        allowed = allowed - named if line.startswith("~") else allowed | named
    return allowed


def test_the_unit_allows_every_system_call_of_a_node(tmp_path):
    """A node is traced from its foundation on, through snapshots, a lost leader and a reload."""
    trace = tmp_path / "trace"
    prefix = ["strace", "-D", "-f", "-qq", "-s", "0", "-o", str(trace)]
    small = {"snapshot_log_bytes": "64KiB", **STEADY}
    environment = {"ASAN_OPTIONS": "detect_leaks=0"}  # cannot be done while traced
    cluster = Cluster(config=small)
    traced = cluster.nodes[0]
    plain_start = traced.start
    traced.start = lambda: plain_start(env=environment, prefix=prefix)
    with cluster:
        for n in range(40):
            answer = traced.call("PUT", f"/v1/kv/{n}", {"n": "x" * 8192})
            assert answer.status == 204
        traced.process.send_signal(signal.SIGHUP)
        other = cluster.active()
        other.kill()
        if other is traced:
            traced.start()
        else:
            other.start()
        cluster.await_up()
        assert traced.call("GET", "/v1/kv/1").status == 200
        traced.stop()
    text = trace.read_text(errors="replace")
    used = set(re.findall(r"^\d+ +([a-z0-9_]+)\(", text, re.M))
    assert {"accept4", "pwritev"} <= used and used & {"epoll_wait", "epoll_pwait"}, used
    assert not used - calls_allowed()
    # MemoryDenyWriteExecute: nothing is both written and run.
    wrong = [
        line
        for line in text.splitlines()
        if re.search(r"mmap\(.*PROT_WRITE\|PROT_EXEC|mprotect\(.*PROT_EXEC", line)
    ]
    assert not wrong, wrong[:3]
    families = set(re.findall(r"socket\((AF_[A-Z0-9]+)", text))
    allowed = re.search(r"^RestrictAddressFamilies=(.*)$", UNIT.read_text(), re.M)[1].split()
    assert families and families <= set(allowed), families


def test_user_and_folders_are_ones_that_systemd_accepts(tmp_path):
    folder = UNIT.parent
    account = "holdfast:x:64000:"
    for tool, file in (("systemd-sysusers", "sysusers.conf"), ("systemd-tmpfiles", "tmpfiles.conf")):
        root = tmp_path / tool
        (root / "etc").mkdir(parents=True)
        known = tool == "systemd-tmpfiles"
        (root / "etc" / "passwd").write_text(
            "root:x:0:0:root:/root:/bin/sh\n" + known * f"{account}64000::/:/bin/false\n"
        )
        (root / "etc" / "group").write_text("root:x:0:\n" + known * f"{account}\n")
        verb = ["--create"] if tool == "systemd-tmpfiles" else []
        done = subprocess.run(
            [tool, *verb, f"--root={root}", str(folder / file)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        if tool == "systemd-sysusers":
            assert re.search(r"^holdfast:", (root / "etc" / "passwd").read_text(), re.M)
        else:
            made = pathlib.Path(root / "etc" / "holdfast" / "credentials")
            assert made.stat().st_mode & 0o777 == 0o700
            assert made.parent.stat().st_mode & 0o777 == 0o750
