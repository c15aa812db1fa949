"""Clients behind a real HAProxy with the configuration of deploy/haproxy."""

import contextlib
import http.client
import itertools
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from cluster import TOP, call_on, free_ports
from registry import RegistryCluster

SHIPPED = TOP / "deploy" / "haproxy" / "haproxy.cfg"
CLIENTS = 4
DRAIN_S = 60  # ended by a second signal as soon as the proxy has seen it


def put_in_place(text, old, new):
    """`new` for every `old`, of which there is one."""
    assert old in text, old
    return text.replace(old, new)


class Proxy:
    """HAProxy in front of a cluster; any is the port of all that serve, active that of one,
    registry that of the registry."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.any, self.active, self.registry = free_ports(3)
        self.admin = cluster.dir / "haproxy.sock"
        self.log = cluster.dir / "haproxy.log"
        self.process = None
        text = SHIPPED.read_text()
        for node in cluster.nodes:
            text = put_in_place(
                text, f" {node.name}.example:8200", f" 127.0.0.1:{node.client_port}"
            )
            text = put_in_place(
                text, f" {node.name}.example:8500", f" 127.0.0.1:{node.registry.port}"
            )
            text = put_in_place(text, f"{node.name}.example", "localhost")
        text = put_in_place(text, "bind :8200", f"bind 127.0.0.1:{self.any}")
        text = put_in_place(text, "bind :8210", f"bind 127.0.0.1:{self.active}")
        text = put_in_place(text, "bind :8500", f"bind 127.0.0.1:{self.registry}")
        authority = str(cluster.dir / "tls" / "tls-ca.pem")
        text = put_in_place(text, "/etc/haproxy/holdfast-ca.pem", authority)
        # The tests need not be root's, and ask what the proxy thinks of the nodes.
        text = re.sub(r"^ +(user|group) .*\n", "", text, flags=re.M)
        text = put_in_place(text, "\nglobal\n", f"\nglobal\n    stats socket {self.admin} mode 600\n")
        self.file = cluster.dir / "haproxy.cfg"
        self.file.write_text(text)

    def __enter__(self):
        subprocess.run(["haproxy", "-c", "-q", "-f", self.file], check=True, timeout=120)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["prlimit", "--nofile=1024:1024", "haproxy", "-db", "-f", self.file],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # as low as a distribution's limit may be
        try:
            self.await_backend("serving", {node.name for node in self.cluster.nodes})
            self.await_backend("active", {self.cluster.active().name})
            self.await_backend("registry", {node.name for node in self.cluster.nodes})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(120)

    def up(self, backend):
        """The names of the nodes that this backend would use now."""
        with socket.socket(socket.AF_UNIX) as conn:
            conn.settimeout(120)
            try:
                conn.connect(str(self.admin))
            except (FileNotFoundError, ConnectionRefusedError):
                return None
            conn.sendall(b"show stat\n")
            with conn.makefile() as answer:
                rows = [line.split(",") for line in answer if line.strip()]
        status = rows[0].index("status")
        servers = [row for row in rows[1:] if row[0] == backend and row[1].startswith("node")]
        return {row[1] for row in servers if row[status].startswith("UP")}

    def await_backend(self, backend, names, timeout_s=120):
        deadline = time.monotonic() + timeout_s
        while (found := self.up(backend)) != names:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, f"{backend}: {found}, not {names}"
            time.sleep(0.02)

    def connect(self, port):
        return http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=120, context=self.cluster.tls
        )

    def call(self, method, path, body=None, port=None):
        connection = self.connect(port or self.any)
        with contextlib.closing(connection):
            return call_on(connection, method, path, body, self.cluster.token)


class Client(threading.Thread):
    """Writes one key after the other over a kept connection, and remembers what it was told.

    A write that fails is sent again as often as `retries` says, on a connection of its own."""

    def __init__(self, proxy, name, port, retries):
        super().__init__()
        self.proxy, self.key, self.port, self.retries = proxy, name, port, retries
        self.ending = threading.Event()
        self.acknowledged = []
        self.errors = []  # (when, what)
        self.longest_s = 0.0
        self.used_retries = 0
        self.fault = None

    def once(self, n):
        """None, or what went wrong."""
        try:
            if self.connection is None:
                self.connection = self.proxy.connect(self.port)
            path = f"/v1/kv/{self.key}/{n}"
            token = self.proxy.cluster.token
            answer = call_on(self.connection, "PUT", path, {"n": n}, token)
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            self.connection = None
            return repr(error)
        if answer.status >= 500:
            return f"{answer.status} {answer.body}"
        assert answer.status == 204, (answer.status, answer.body)
        return None

    def run(self):
        self.connection = None
        try:
            self.write_all()
        except BaseException as error:  # told to the test by stop()
            self.fault = error
        finally:
            if self.connection is not None:
                self.connection.close()

    def write_all(self):
        first_error = None
        for n in itertools.count():
            if self.ending.is_set():
                return
            wrong = self.once(n)
            for _ in range(self.retries):
                if wrong is None:
                    break
                self.used_retries += 1
                wrong = self.once(n)
            now = time.monotonic()
            if wrong is not None:
                first_error = first_error or now
                self.errors.append((now, wrong))
                time.sleep(0.005)  # else a dead cluster is asked thousands of times
                continue
            if first_error is not None:
                self.longest_s = max(self.longest_s, now - first_error)
                first_error = None
            self.acknowledged.append(n)

    def await_writes(self, count, timeout_s=120):
        """Until `count` more writes have been acknowledged."""
        target = len(self.acknowledged) + count
        deadline = time.monotonic() + timeout_s
        while len(self.acknowledged) < target:
            assert self.is_alive(), self.fault
            assert time.monotonic() < deadline, self.errors[-3:]
            time.sleep(0.01)

    def stop(self):
        self.ending.set()
        self.join(60)
        assert not self.is_alive()
        if self.fault is not None:
            raise self.fault


@contextlib.contextmanager
def clients(proxy, retries, port=None, count=CLIENTS):
    tag = time.monotonic_ns()
    made = [Client(proxy, f"c{tag}-{i}", port or proxy.any, retries) for i in range(count)]
    for client in made:
        client.start()
    try:
        for client in made:
            client.await_writes(5)
        yield made
        for client in made:
            client.stop()
    finally:
        for client in made:
            client.ending.set()
        for client in made:
            client.join(60)


def all_there(proxy, made):
    """Every acknowledged write is read through the proxy."""
    with contextlib.closing(proxy.connect(proxy.any)) as connection:
        for client in made:
            for n in client.acknowledged:
                path = f"/v1/kv/{client.key}/{n}"
                answer = call_on(connection, "GET", path, token=proxy.cluster.token)
                assert answer.status == 200 and answer.data == {"n": n}, (path, answer.status)


@pytest.fixture(scope="module")
def cluster():
    with RegistryCluster(config={"drain_delay_s": DRAIN_S}) as made:
        yield made


@pytest.fixture(scope="module")
def proxy(cluster):
    with Proxy(cluster) as made:
        yield made


def back_again(proxy, node):
    node.start()
    proxy.cluster.await_up()
    proxy.await_backend("serving", {n.name for n in proxy.cluster.nodes})
    proxy.await_backend("active", {proxy.cluster.active().name})


def all_seen(proxy):
    """What fresh connections tell of health, until the active node and a standby were asked."""
    seen, deadline = set(), time.monotonic() + 120
    while len(seen) < 2 and time.monotonic() < deadline:
        seen.add(proxy.call("GET", "/v1/sys/health").status)
    return seen | {proxy.call("GET", "/v1/sys/health").status for _ in range(6)}


def test_each_front_leads_to_the_nodes_it_names(proxy):
    seen = all_seen(proxy)
    assert seen == {200, 473}
    for _ in range(6):
        assert proxy.call("GET", "/v1/sys/health", port=proxy.active).status == 200


def test_the_registry_has_a_front_of_its_own(proxy):
    tokens = {"X-Consul-Token": proxy.cluster.token}
    seen, deadline = set(), time.monotonic() + 120
    while len(seen) < 3 and time.monotonic() < deadline:
        with contextlib.closing(proxy.connect(proxy.registry)) as connection:
            reply = call_on(connection, "GET", "/v1/agent/self", headers=tokens)
            assert reply.status == 200, reply.body
            seen.add(reply.json["Config"]["NodeName"])
            assert call_on(connection, "GET", "/v1/sys/health").status == 404
    assert seen == {node.name for node in proxy.cluster.nodes}


def test_the_proxy_waits_longer_than_a_client_of_the_registry():
    """10 minutes and a sixteenth, in which neither side sends anything."""
    for side in ("client", "server"):
        minutes = re.search(rf"^    timeout {side} (\d+)m$", SHIPPED.read_text(), re.M)
        assert int(minutes.group(1)) > 11


@pytest.mark.parametrize("front", ["any", "active"])
def test_the_active_node_dies_under_traffic(proxy, front):
    active = proxy.cluster.active()
    with clients(proxy, retries=0, port=getattr(proxy, front)) as made:
        active.kill()
        for client in made:
            client.await_writes(20)
    longest_ms = 1000 * max(client.longest_s for client in made)
    errors = sum(len(client.errors) for client in made)
    print(
        f"\n{front}: the active node was killed; a client saw errors for {longest_ms:.0f} ms at most,"
        f" {errors} of {errors + sum(len(c.acknowledged) for c in made)} requests"
    )
    all_there(proxy, made)
    back_again(proxy, active)


def test_a_standby_dies_under_traffic(proxy):
    standby = proxy.cluster.standbys()[0]
    with clients(proxy, retries=0) as made:
        standby.kill()
        for client in made:
            client.await_writes(20)
    all_there(proxy, made)
    back_again(proxy, standby)


@pytest.mark.parametrize("which", ["standby", "active"])
def test_a_node_that_ends_in_order_costs_no_client_an_error(proxy, which):
    active = proxy.cluster.active()
    node = active if which == "active" else proxy.cluster.standbys()[0]
    with clients(proxy, retries=1) as made:
        node.process.send_signal(signal.SIGTERM)
        proxy.await_backend("serving", {n.name for n in proxy.cluster.nodes if n is not node})
        assert node.health() == 503 and node.alive
        for client in made:  # those whose connection leads there are still served
            client.await_writes(5)
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(120) == 0
        for client in made:
            client.await_writes(20)
    assert not [client.errors for client in made if client.errors]
    print(f"\n{which} drained: {sum(c.used_retries for c in made)} requests were sent twice")
    all_there(proxy, made)
    back_again(proxy, node)


def test_a_sealed_node_gets_no_new_connection(proxy):
    node = proxy.cluster.standbys()[0]
    assert node.call("PUT", "/v1/sys/seal").status in (200, 204)
    for backend in ("serving", "registry"):
        proxy.await_backend(backend, {n.name for n in proxy.cluster.nodes if n is not node})
    assert all_seen(proxy) == {200, 473}
    assert node.alive
    node.kill()  # it opens its seal when it starts
    back_again(proxy, node)
