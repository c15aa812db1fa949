"""Receivers of audit records that stop to read, vanish or come back: what requests notice, and what
the receiver has afterwards."""

import collections
import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import tempfile
import time

import pytest
from cluster import PATIENCE_S, Unaudited, call_on, free_ports
from test_audit import await_true, devices, disable, enable, metrics
from test_audit_trail import devices_status, records
from test_reload import await_log

TIMEOUT_S = 1
MANY = 150  # requests that take longer than PATIENCE_S if each waits for TIMEOUT_S
LARGE = "x" * 60000
CLIENTS, EACH = 4, 300  # of requests at the same time
LATES_MAX = 3  # in a row: then a device rests, as docs/audit.md says
DEADLINE_S = 5  # longer than a request takes that waits for no device


class Receiving(Unaudited):
    audit_directories = (tempfile.gettempdir(),)  # where receivers have their pipes


@pytest.fixture(scope="module")
def cluster():
    with Receiving(size=1) as made:
        yield made


@pytest.fixture
def node(cluster):
    return cluster.nodes[0]


class Fifo:
    kind, large = "file", LARGE

    def __init__(self, folder):
        self.path = folder / "fifo"
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.options = {"file_path": str(self.path)}

    def read(self):
        with contextlib.suppress(BlockingIOError):
            return os.read(self.fd, 1 << 16)
        return b""

    def close(self):
        os.close(self.fd)
        self.path.unlink()


class Peer:
    """A socket that reads when told to."""

    kind, large = "socket", LARGE

    def __init__(self, kind, folder):
        self.type, self.address = kind, str(folder / "sock")
        self.stream = kind in ("tcp", "unix")
        local = kind.startswith("unix")
        if not local:
            self.port = free_ports(1)[0]
            self.address = f"127.0.0.1:{self.port}"
        self.name = self.address if local else ("127.0.0.1", self.port)
        self.options = {"address": self.address, "socket_type": kind}
        self.large = LARGE if kind != "unixgram" else LARGE[:20000]  # a record has one datagram
        self.conn = None
        self.listen()

    def listen(self):
        if isinstance(self.name, str):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.name)
        family = socket.AF_UNIX if isinstance(self.name, str) else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM if self.stream else socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.type == "tcp":  # the window is full soon
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.sock.bind(self.name)
        if self.stream:
            self.sock.listen(8)
        self.sock.setblocking(False)

    def read(self):
        """What has come. Of the connections, the last one counts."""
        text = b""
        with contextlib.suppress(BlockingIOError):
            if not self.stream:
                return self.sock.recv(1 << 17)
            while conn := self.sock.accept()[0]:
                text += self.drop()
                self.conn = conn
                self.conn.setblocking(False)
        # a node that gives the connection up may reset it: what had come before counts
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            text += self.conn.recv(1 << 16) if self.conn else b""
        return text

    def drop(self):
        """The connection ends; what came over it."""
        text = b""
        if self.conn:
            with contextlib.suppress(BlockingIOError):
                while part := self.conn.recv(1 << 16):
                    text += part
            self.conn.close()
            self.conn = None
        return text

    def leave(self):
        """As a receiver that ends."""
        text = b""
        while part := self.read():
            text += part
        text += self.drop()
        self.sock.close()
        return text

    def close(self):
        """With unread bytes."""
        if self.conn:
            self.conn.close()
            self.conn = None
        self.sock.close()


RECEIVERS = {"fifo": Fifo, **{kind: lambda folder, kind=kind: Peer(kind, folder)
                              for kind in ("tcp", "unix", "unixgram", "udp")}}


class Trail:
    """What a receiver read so far."""

    def __init__(self, receiver):
        self.receiver, self.text = receiver, b""

    def drain(self):
        while part := self.receiver.read():
            self.text += part

    def records(self):
        assert self.text.endswith(b"\n"), self.text[-200:]
        return [json.loads(line) for line in self.text.splitlines()]


@contextlib.contextmanager
def two_devices(cluster, receiver, **options):
    """A file that has every record, and the receiver beside it."""
    node = cluster.nodes[0]
    path = cluster.dir / "all.log"
    assert enable(node, "all", {"file_path": str(path)}).status == 204
    options = {"write_timeout": f"{TIMEOUT_S}s", "log_raw": "true", **receiver.options, **options}
    made = enable(node, "other", options, kind=receiver.kind)
    assert made.status == 204, made.body
    try:
        yield path
    finally:
        assert disable(node, "other").status == disable(node, "all").status == 204
        path.unlink()


def write(node, name, text="b"):
    return node.call("PUT", f"/v1/kv/{name}", {"a": text}).status


def unhindered(node, stem):
    """Many requests, none of which waits for a device that is left out."""
    end = time.monotonic() + PATIENCE_S
    for i in range(MANY):
        assert write(node, f"{stem}/{i}") == 204
    assert time.monotonic() < end


def durations(node, clients, each, large):
    """How long each request of some clients took, which write large values at the same time."""
    took = []

    def run(client):
        connection = node.connect()
        for i in range(each):
            begun = time.monotonic()
            answer = call_on(connection, "PUT", f"/v1/kv/many/{client}/{i}", {"a": large}, node.cluster.token)
            took.append(time.monotonic() - begun)
            assert answer.status == 204, answer.body
        connection.close()

    threads = [threading.Thread(target=run, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(took) == clients * each
    return took


def ids(found):
    return collections.Counter((r["request"]["id"], r["type"]) for r in found
                               if not r["request"]["path"].startswith("sys/audit/"))


def figure(node, name):
    """A figure of the device beside the file."""
    label = f'holdfast_audit_{name}{{device="other/"}} '
    (line,) = [line for line in metrics(node).splitlines() if line.startswith(label)]
    return int(line.removeprefix(label))


@pytest.mark.parametrize("kind", ["fifo", "tcp", "unix", "unixgram"])
def test_a_receiver_that_does_not_read_delays_requests_once(cluster, node, tmp_path, kind):
    receiver = RECEIVERS[kind](tmp_path)
    trail = Trail(receiver)
    with contextlib.closing(receiver), two_devices(cluster, receiver) as path:
        await_true(lambda: devices_status(node, "other/") == "open")
        trail.drain()
        while devices_status(node, "other/") == "open":  # waits once, for TIMEOUT_S
            assert write(node, "big", receiver.large) == 204
        assert devices_status(node, "other/") == "late"
        unhindered(node, f"late-{kind}")
        assert devices(node)["other/"]["error"].endswith(f"{TIMEOUT_S * 1000} ms")
        assert figure(node, "device_up") == 0

        def answers():
            trail.drain()
            return devices_status(node, "other/") == "open"

        await_true(answers)
        await_log(node, "device other/ works again; it missed ")
        assert write(node, f"back-{kind}") == 204
        trail.drain()  # else the records of the next request wait for a reader
        dropped = figure(node, "dropped_total")
        trail.drain()
        failures = figure(node, "failures_total")
        everything = ids(records(path))

        def missing():
            trail.drain()
            assert not ids(trail.records()) - everything
            return sum((everything - ids(trail.records())).values())

        await_true(lambda: missing() == dropped + failures)
        assert dropped > MANY
        assert f"kv/back-{kind}" in [r["request"]["path"] for r in trail.records()]


@pytest.mark.parametrize("kind", ["fifo", "tcp", "unix"])
def test_each_client_waits_once_whenever_a_receiver_hangs(cluster, node, tmp_path, kind):
    def lates():
        return node.log_text().count("device other/ is left out until it answers")

    receiver, before = RECEIVERS[kind](tmp_path), lates()
    with contextlib.closing(receiver), two_devices(
            cluster, receiver, write_timeout=f"{DEADLINE_S}s"):
        took = durations(node, CLIENTS, EACH, LARGE)
        waited = [each for each in took if each >= DEADLINE_S]
        # The kernel makes room for more bytes of a TCP receiver now and then: it was late, and is again.
        assert 1 <= lates() - before <= LATES_MAX
        # At least 99 of 100 requests wait for nothing.
        assert 1 <= len(waited) <= CLIENTS * (lates() - before) <= len(took) / 100, sorted(took)[-20:]
        assert devices_status(node, "other/") in ("late", "resting")


def test_a_peer_that_never_reads_is_tried_less_and_less_often(cluster, node, tmp_path):
    with contextlib.closing(Peer("tcp", tmp_path)) as receiver, \
            two_devices(cluster, receiver, write_timeout="100ms"):
        for pause_ms in (1500, 3000):  # 15 times the timeout, then twice as long
            def waits(text=f"the receiver took no byte for 1500 ms; connecting again {pause_ms} ms later"):
                assert write(node, "big", LARGE) == 204
                return text in devices(node)["other/"].get("error", "")

            await_true(waits)


@pytest.mark.parametrize("kind", ["tcp", "unix", "unixgram", "udp"])
def test_a_receiver_that_ends_and_comes_back(cluster, node, tmp_path, kind):
    receiver = RECEIVERS[kind](tmp_path)
    trail = Trail(receiver)
    with contextlib.closing(receiver), two_devices(cluster, receiver) as path:
        assert write(node, f"first-{kind}") == 204
        trail.text += receiver.leave()
        unhindered(node, f"gone-{kind}")
        if kind != "udp":  # nothing tells whether a receiver is there until a record is sent
            assert devices_status(node, "other/") == "failing"
            assert any(word in devices(node)["other/"]["error"]
                       for word in ("refused", "No such file", "Broken pipe", "reset"))
        receiver.listen()
        back = []

        def answers():
            back.append(f"back-{kind}/{len(back)}")
            assert write(node, back[-1]) == 204
            trail.drain()
            return back[-1].encode() in trail.text

        await_true(answers)
        await_true(lambda: devices_status(node, "other/") == "open")
        assert write(node, f"last-{kind}") == 204
        failures = figure(node, "failures_total")
        trail.drain()
        everything, kept = ids(records(path)), ids(trail.records())
        assert not kept - everything
        missing = sum((everything - kept).values())
        # of a stream, what was sent to a receiver that ended is lost without an error
        assert missing >= failures > 0
        assert any(r["request"]["path"] == f"last-{kind}" or
                   r["request"]["path"] == f"kv/last-{kind}" for r in trail.records())


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_receiver_that_ends_within_a_line_gets_whole_lines_again(cluster, node, tmp_path, kind):
    receiver = RECEIVERS[kind](tmp_path)
    with contextlib.closing(receiver), two_devices(cluster, receiver):
        while devices_status(node, "other/") != "late":
            assert write(node, "big", receiver.large) == 204
        assert not receiver.read().endswith(b"\n")
        receiver.close()
        receiver.listen()
        trail = Trail(receiver)

        def answers():
            trail.drain()
            return devices_status(node, "other/") == "open"

        await_true(answers)
        assert write(node, f"whole-{kind}") == 204
        trail.drain()
        assert f"kv/whole-{kind}" in [r["request"]["path"] for r in trail.records()]


def test_a_refused_receiver_as_only_device_refuses_requests(node, tmp_path):
    receiver = Peer("tcp", tmp_path)
    assert enable(node, "other", receiver.options, kind="socket").status == 204
    receiver.leave()
    # a record may still go into the connection that just ended
    await_true(lambda: write(node, "refused") == 500)
    for i in range(20):
        answer = node.call("PUT", f"/v1/kv/none/{i}", {"a": "b"})
        assert answer.status == 500 and "audit device" in answer.json["errors"][0]
    receiver.listen()
    await_true(lambda: write(node, "again") == 204)
    for i in range(20):
        assert node.call("GET", f"/v1/kv/none/{i}").status == 404
    assert disable(node, "other").status == 204
    receiver.close()


@pytest.fixture
def elsewhere():
    """A network of its own behind a cable: (how to run a command there, our end, its address)."""
    unit = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    cable, net = (f"hf{unit}", f"hfpeer{unit}"), f"10.213.{unit}"
    keeper = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
    own = os.readlink("/proc/self/ns/net")
    await_true(lambda: os.readlink(f"/proc/{keeper.pid}/ns/net") != own)
    there = ["nsenter", "-t", str(keeper.pid), "-n"]
    try:
        for command in (
                ["ip", "link", "add", cable[0], "type", "veth", "peer", "name", cable[1]],
                ["ip", "link", "set", cable[1], "netns", str(keeper.pid)],
                ["ip", "addr", "add", f"{net}.1/30", "dev", cable[0]],
                ["ip", "link", "set", cable[0], "up"],
                [*there, "ip", "addr", "add", f"{net}.2/30", "dev", cable[1]],
                [*there, "ip", "link", "set", cable[1], "up"]):
            subprocess.run(command, check=True)
        yield there, cable[1], f"{net}.2"
    finally:
        keeper.kill()
        keeper.wait()  # its network goes, and the cable with it
        subprocess.run(["ip", "link", "del", cable[0]], check=False, stderr=subprocess.DEVNULL)


class Socat:
    """socat in another network."""

    kind, large = "socket", LARGE

    def __init__(self, there, address, out):
        port = free_ports(1)[0]
        self.out, self.options = out, {"address": f"{address}:{port}"}
        self.command = [*there, "socat", "-u", f"TCP-LISTEN:{port},reuseaddr,fork",
                        f"OPEN:{out},creat,append"]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, start_new_session=True)

    def listens(self):
        host, port = self.options["address"].split(":")
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection((host, int(port)), PATIENCE_S).close()
            return True
        return False

    def kill(self):
        """With the process that serves the connection."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def test_a_peer_that_vanishes_without_a_word(cluster, node, tmp_path, elsewhere):
    there, cable, address = elsewhere
    receiver = Socat(there, address, tmp_path / "out")
    pulled = [*there, "ip", "link", "set", cable, "down"]
    plugged = [*there, "ip", "link", "set", cable, "up"]
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: receiver.kill())

        await_true(receiver.listens)
        stack.enter_context(two_devices(cluster, receiver))
        # the peer comes back: the records that waited follow
        subprocess.run(pulled, check=True)
        while devices_status(node, "other/") == "open":
            assert write(node, "big", LARGE) == 204
        assert devices_status(node, "other/") == "late"
        unhindered(node, "pulled")
        subprocess.run(plugged, check=True)
        await_true(lambda: devices_status(node, "other/") == "open")
        assert write(node, "plugged") == 204
        await_true(lambda: "kv/plugged" in receiver.out.read_text())
        assert all(json.loads(line) for line in receiver.out.read_text().splitlines())
        # the peer was started anew meanwhile, and knows nothing of the connection
        subprocess.run(pulled, check=True)
        while devices_status(node, "other/") == "open":
            assert write(node, "big", LARGE) == 204
        receiver.kill()
        receiver.out.unlink()
        subprocess.run(plugged, check=True)
        unhindered(node, "killed")
        receiver.start()
        await_true(lambda: devices_status(node, "other/") == "open")
        assert write(node, "anew") == 204
        await_true(lambda: "kv/anew" in receiver.out.read_text())
        assert all(json.loads(line) for line in receiver.out.read_text().splitlines())
