"""What holdfast is measured against: the newest etcd, a trivial responder, OpenSSL's server."""

import contextlib
import functools
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import load
from nodes import TIED, TOP, free_ports

START_S = 30


@contextlib.contextmanager
def process(command, **options):
    """A process that lives as long as the block."""
    started = subprocess.Popen([*TIED, *map(str, command)], stdin=subprocess.DEVNULL, **options)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def await_port(port, running):
    deadline = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
            connection.connect()
            connection.close()
            return
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


@contextlib.contextmanager
def responder():
    """The port of the least that answers HTTP."""
    port = free_ports(1)[0]
    with process([load.PROGRAMS / "bench_responder", port]) as running:
        await_port(port, running)
        yield port


@functools.cache
def etcd_program():
    """The etcd of etcd/server/go.mod, built once, with the toolchain that it asks for; Debian's where
    HOLDFAST_ETCD=debian says so or the module cannot be built. Prints its version."""
    program = TOP / "build" / "bench" / "etcd"
    if os.environ.get("HOLDFAST_ETCD") == "debian":
        program = "etcd"
    else:
        built = subprocess.run(["go", "build", "-o", program, "."], cwd=TOP / "tests" / "bench" / "etcd" / "server",
                               env={**os.environ, "GOTOOLCHAIN": "auto"}, timeout=1800, capture_output=True, text=True)
        if built.returncode != 0:
            print(f"the newest etcd cannot be built here, Debian's is measured: {built.stderr.strip()[-300:]}")
            program = "etcd"
    told = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    print(f"peer: {told.splitlines()[0]}", flush=True)
    return program


class EtcdNode:
    def __init__(self, cluster, name, client_port, peer_port):
        self.cluster, self.name = cluster, name
        self.client_port, self.peer_port = client_port, peer_port
        self.process = None

    @property
    def url(self):
        return f"{'https' if self.cluster.tls else 'http'}://127.0.0.1:{self.client_port}"

    @property
    def peer_url(self):
        return f"http://127.0.0.1:{self.peer_port}"

    def start(self):
        members = ",".join(f"{n.name}={n.peer_url}" for n in self.cluster.nodes)
        flags = {
            "name": self.name, "data-dir": self.cluster.dir / self.name,
            "listen-client-urls": self.url, "advertise-client-urls": self.url,
            "listen-peer-urls": self.peer_url, "initial-advertise-peer-urls": self.peer_url,
            "initial-cluster": members, "logger": "zap", "log-level": "error",
            "quota-backend-bytes": 8 << 30,
        }
        if self.cluster.tls:
            certificate, key = self.cluster.tls
            flags |= {"cert-file": certificate, "key-file": key}
        with open(self.cluster.dir / f"{self.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                [*TIED, *self.cluster.prefix, etcd_program(), *(f"--{k}={v}" for k, v in flags.items())],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Etcd:
    """Three nodes on loopback. `tls` is the certificate and key of its clients' port, `prefix`
    what its processes run under."""

    def __init__(self, tls=None, prefix=()):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="etcd-"))
        self.tls, self.prefix = tls, prefix
        ports = free_ports(6)
        self.nodes = [EtcdNode(self, f"etcd{i}", ports[2 * i], ports[2 * i + 1]) for i in range(3)]

    def __enter__(self):
        try:
            for node in self.nodes:
                node.start()
            self.await_up()
        except BaseException:
            for node in self.nodes:
                log = self.dir / f"{node.name}.log"
                print(log.read_text()[-2000:] if log.exists() else "")
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            if node.process:
                node.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def leads(self, node):
        """Whether it is the leader; None where it does not answer or knows none."""
        try:
            status = load.post(f"{node.url}/v3/maintenance/status", {}, timeout_s=2)
        except (OSError, ValueError):
            return None
        leader = status.get("leader", "0")
        return None if leader == "0" else leader == status["header"]["member_id"]

    def await_up(self):
        """All answer and one leads; returns that one."""
        deadline = time.monotonic() + START_S
        while True:
            leads = [self.leads(node) for node in self.nodes]
            if None not in leads and leads.count(True) == 1:
                return self.nodes[leads.index(True)]
            assert time.monotonic() < deadline, leads
            time.sleep(0.05)

    leader = await_up


class Grpc:
    """etcd by its own protocol: our load program over upstream's client library."""

    def __init__(self):
        self.program = TOP / "build" / "bench" / "etcd_load"
        subprocess.run(["go", "build", "-o", self.program, "."], check=True, timeout=600,
                       cwd=TOP / "tests" / "bench" / "etcd", env=load.environment())

    def run(self, what, endpoint, connections=load.CONNECTIONS):
        seconds = max(1, round(load.SECONDS))
        return json.loads(load.run([self.program, what, endpoint, connections, seconds, load.KEYS],
                                   seconds + 60))


@contextlib.contextmanager
def openssl_server(certificate, key):
    """The port of `openssl s_server`, which speaks TLS and nothing else."""
    port = free_ports(1)[0]
    command = ["openssl", "s_server", "-quiet", "-accept", port, "-cert", certificate, "-key", key]
    with process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        await_port(port, running)
        yield port
