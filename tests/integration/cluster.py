"""A real cluster of real processes on loopback, for tests. Standard library only."""

import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import uuid

import leaks
import recorder
import trail

TOP = pathlib.Path(__file__).resolve().parents[2]
COMPLAINT = "Assertion failed|ERROR: [A-Za-z]+Sanitizer|WARNING: ThreadSanitizer|runtime error:"
HOLDFAST = os.environ.get("HOLDFAST_BIN", str(TOP / "build" / "release" / "holdfast"))


PORTS = range(10000, 32000)  # below those that the kernel gives to outgoing connections
PATIENCE_S = 120  # for what a slow machine does some time, and a good one at once

# Nobody stands for election because the machine stood still for a moment: for tests that are not
# about elections and that a request without a known outcome would fail.
STEADY = {"cluster": {"election_ms": 4000}}

given = set()  # ports that were handed out: a node that is down has not lost its own


def ports_of_mine():
    """Each worker of pytest-xdist has ports of its own, and none that the kernel gives away."""
    mine = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    among = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    text = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    first, last = map(int, text.split())
    ports = [port for port in PORTS if port % among == mine]
    return [port for port in ports if not first <= port <= last] or ports


def is_free(port):
    with socket.socket() as sock:
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count):
    """Ports nobody listens on now, and none that was given before."""
    mine = ports_of_mine()
    random.shuffle(mine)
    ports = []
    for port in mine:
        if port not in given and is_free(port):
            ports.append(port)
            given.add(port)
        if len(ports) == count:
            return ports
    raise AssertionError("too few ports are free")


def merged(base, over):
    """`over` on top of `base`, object by object; None takes a member away."""
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
        if value is None:
            del result[key]
    return result


def stopped(task):
    """Whether a thread, given by its folder in /proc, is stopped by a signal."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] in "TtZ"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def data(self):
        return self.json["data"]


def note(port, method, target, body, headers, answer, client="tests", settled=True):
    """One call of a client, for the contract test, the search for leaks and the audit trail."""
    recorder.record(port, method, target, body, headers, answer, client, settled)
    leaks.note(port, target, body, headers, answer)
    trail.note(port, method, target, answer)


def call_on(connection, method, path, body=None, token=None, headers=None):
    """One request on a kept connection. Bodies that are not bytes are sent as JSON."""
    headers = dict(headers or {})
    if token:
        headers.setdefault("X-Secrets-Token", token)
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    with recorder.asking(connection.port, method, path) as settled:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        answer = Answer(response.status, response.headers, response.read())
        note(connection.port, method, path, body, headers, answer, settled=settled())
    return answer


class Node:
    def __init__(self, cluster, name, client_port, cluster_port):
        self.cluster, self.name = cluster, name
        self.program = cluster.program
        self.client_port, self.cluster_port = client_port, cluster_port
        self.dir = cluster.dir / name
        self.dir.mkdir()
        self.data = self.dir / "data"
        self.log = self.dir / "log"
        self.process = None
        self.paused = False
        self.config = {}

    @property
    def plain(self):
        listener = self.config.get("listener", {})
        first = listener[0] if isinstance(listener, list) else listener
        return bool(first.get("tcp", {}).get("tls_disable"))

    @property
    def url(self):
        return f"{'http' if self.plain else 'https'}://127.0.0.1:{self.client_port}"

    @property
    def config_path(self):
        return self.dir / "holdfast.json"

    def write_config(self):
        tls = self.cluster.dir / "tls"
        config = {
            "node_name": self.name,
            "data_dir": str(self.data),
            "api_addr": self.url,
            "workers": 2,
            "cluster": {
                "name": "test",
                "address": f"127.0.0.1:{self.cluster_port}",
                "ca_file": str(tls / "ca.pem"),
                "cert_file": str(tls / f"{self.name}.pem"),
                "key_file": str(tls / f"{self.name}-key.pem"),
                "member": {
                    n.name: {"address": f"127.0.0.1:{n.cluster_port}"}
                    for n in self.cluster.founders
                },
            },
            "listener": {
                "tcp": {
                    "address": f"127.0.0.1:{self.client_port}",
                    "tls_cert_file": str(tls / f"tls-{self.name}.pem"),
                    "tls_key_file": str(tls / f"tls-{self.name}-key.pem"),
                }
            },
            "seal": {"static": {"key_file": str(self.cluster.dir / "seal.key"), "key_id": "test"}},
        }
        if self.cluster.audit_rules:
            config["audit"] = {"directories": [str(self.cluster.dir), *self.cluster.audit_directories]}
        if self.cluster.audited:
            config["audit"].update(trail.device(self.dir))
        self.config_path.write_text(json.dumps(merged(config, self.config), indent=2))

    def start(self, env=None, prefix=()):
        assert not self.alive
        self.paused = False
        self.data.mkdir(exist_ok=True, mode=0o700)
        self.write_config()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*prefix, self.program, "server", "-config", str(self.config_path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(env or {})},
            )

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_lines(self):
        """But for one that is being written."""
        return self.log_text().split("\n")[:-1]

    def complaints(self):
        """What an assertion or a sanitizer has said."""
        text = self.log_text()
        return [f"{self.name}: {text[at.start():][:4000]}" for at in re.finditer(COMPLAINT, text)]

    def kill(self):
        """As a crash: nothing is flushed, nothing is said."""
        self.cluster.calls.kills[self.name] += 1
        self.end()

    def end(self):
        self.process.kill()
        self.process.wait()

    def stop(self, timeout_s=PATIENCE_S):
        self.process.terminate()
        return self.process.wait(timeout_s)

    def pause(self):
        """Returns when every thread stands still: the signal alone takes its time."""
        self.paused = True
        self.process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + PATIENCE_S
        while not all(map(stopped, pathlib.Path(f"/proc/{self.process.pid}/task").iterdir())):
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def resume(self):
        self.paused = False
        self.process.send_signal(signal.SIGCONT)

    def connect(self, timeout_s=PATIENCE_S):
        if self.plain:
            return http.client.HTTPConnection("127.0.0.1", self.client_port, timeout=timeout_s)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.client_port, timeout=timeout_s, context=self.cluster.tls
        )

    def call(self, method, path, body=None, token=None, headers=None, timeout_s=PATIENCE_S):
        """One request on a connection of its own; token "" sends none."""
        connection = self.connect(timeout_s)
        try:
            token = self.cluster.token if token is None else token
            return call_on(connection, method, path, body, token, headers)
        finally:
            connection.close()

    def metric(self, name):
        """The value of a metric that has one sample."""
        text = self.call("GET", "/v1/sys/metrics?format=prometheus").body.decode()
        return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])

    def health(self):
        """0 where nobody answers."""
        if self.paused:
            return 0
        try:
            return self.call("GET", "/v1/sys/health", timeout_s=20).status
        except (OSError, http.client.HTTPException):
            return 0


class Cluster:
    """Three initial members by default, on ports of their own, in a temporary folder."""

    init_body = {}  # what initialises it
    recorded = True  # whether the contract test judges its calls
    audited = True  # whether its nodes have an audit device, and its trail is judged
    audit_rules = True  # whether the program knows which directories audit devices may write to
    audit_directories = ()  # besides the cluster's own

    def __init__(self, size=3, config=None, program=HOLDFAST):
        self.program = program
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-"))
        names = [f"node{i + 1}" for i in range(size)]
        subprocess.run(
            [program, "cluster", "bootstrap", "-out", str(self.dir / "tls"), *names],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        key = self.dir / "seal.key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        self.tls = ssl.create_default_context(cafile=str(self.dir / "tls" / "tls-ca.pem"))
        self.token = ""
        ports = free_ports(2 * size)
        self.nodes = [
            Node(self, name, ports[2 * i], ports[2 * i + 1]) for i, name in enumerate(names)
        ]
        self.founders = list(self.nodes)
        self.secrets = leaks.Secrets()
        self.calls = trail.Calls()
        if self.recorded:
            recorder.know([node.client_port for node in self.nodes])
        for node in self.nodes:
            node.config = dict(config or {})
            leaks.watch(node.client_port, self.secrets)
            trail.watch(node.client_port, self.calls)

    def __enter__(self):
        try:
            self.start()
            self.init()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind, value, trace):
        for node in self.nodes:
            if node.alive:
                node.resume()
                node.end()
        if kind is not None:
            for node in self.nodes:
                print(f"--- {node.name}\n{node.log_text()[-4000:]}")
        found = [text for node in self.nodes for text in node.complaints()]
        if kind is not None:
            print(*found, sep="\n")
        else:
            found += leaks.of_cluster(self, HOLDFAST)
            found += trail.of_cluster(self) if self.audited else []
        shutil.rmtree(self.dir)
        assert kind is not None or not found, "\n".join(found)

    def start(self):
        for node in self.nodes:
            node.start()

    def await_formed(self):
        """The nodes have found together, and wait for the initialisation."""
        self.await_health({501}, self.nodes)
        deadline = time.monotonic() + PATIENCE_S
        while any(n.call("GET", "/v1/sys/health").json.get("errors") for n in self.nodes):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def init(self):
        self.await_formed()
        answer = self.nodes[0].call("PUT", "/v1/sys/init", self.init_body)
        assert answer.status == 200, answer.body
        self.token = answer.json["root_token"]
        self.recovery_keys = answer.json.get("recovery_keys")
        self.init_warnings = answer.json.get("warnings", [])
        self.await_up()
        self.mount("kv", {"version": "1"})

    def mount(self, path, options):
        """A key/value engine at `path`."""
        body = {"type": "kv", "options": options}
        answer = self.nodes[0].call("POST", f"/v1/sys/mounts/{path}", body)
        assert answer.status == 204, answer.body

    def limited(self, rules, **body):
        """A token that may do what the rules say (HCL) and nothing else."""
        name = f"limited-{uuid.uuid4()}"
        answer = self.nodes[0].call("PUT", f"/v1/sys/policies/acl/{name}", {"policy": rules})
        assert answer.status == 204, answer.body
        body = {"policies": [name], "no_default_policy": True, "ttl": "1h", **body}
        answer = self.nodes[0].call("POST", "/v1/auth/token/create", body)
        assert answer.status == 200, answer.body
        return answer.json["auth"]["client_token"]

    def add_node(self, name):
        """One more node, with certificates of the cluster, not yet started."""
        subprocess.run(
            [self.program, "cluster", "add", "-out", str(self.dir / "tls"), name],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        ports = free_ports(2)
        node = Node(self, name, *ports)
        recorder.join(node.client_port, self.nodes[0].client_port)
        leaks.watch(node.client_port, self.secrets)
        trail.watch(node.client_port, self.calls)
        node.config = dict(self.nodes[0].config)
        self.nodes.append(node)
        return node

    def add_bare(self, name, **cluster):
        """One more, with a certificate for clients and nothing of the cluster's own. `cluster` says
        how it joins; what it is given then lies in its folder `own`."""
        node = self.add_node(name)
        own = node.dir / "own"
        own.mkdir()
        for part in (f"{name}.pem", f"{name}-key.pem"):
            (self.dir / "tls" / part).unlink()
        files = {
            "ca_file": str(own / "ca.pem"),
            "cert_file": str(own / "node.pem"),
            "key_file": str(own / "node-key.pem"),
        }
        node.config = {**node.config, "cluster": {**files, **cluster}}
        return node

    def await_health(self, codes, nodes, timeout_s=PATIENCE_S):
        deadline = time.monotonic() + timeout_s
        while True:
            have = {node.name: node.health() for node in nodes}
            if set(have.values()) <= set(codes):
                return
            for node in nodes:
                assert node.alive, f"{node.name} ended:\n{node.log_text()[-2000:]}"
            assert time.monotonic() < deadline, f"health is {have}, wanted {codes}"
            time.sleep(0.05)

    def await_up(self, timeout_s=PATIENCE_S):
        """All nodes serve, and exactly one is active."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.await_health({200, 429, 473}, self.nodes, timeout_s)
            if len([n for n in self.nodes if n.health() == 200]) == 1:
                return
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def active(self, timeout_s=PATIENCE_S):
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for node in self.nodes:
                if node.alive and node.health() == 200:
                    return node
            time.sleep(0.02)
        raise AssertionError("no active node")

    def feature_level(self):
        """The feature level of the cluster, and those that its members understand."""
        state = self.active().call("GET", "/v1/sys/storage/raft/autopilot/state",
                                   token=self.token).data
        return state["feature_level"], sorted(
            server["feature_level"] for server in state["servers"].values())

    def await_feature_level(self, timeout_s=PATIENCE_S):
        """The cluster has the newest feature level that its members understand."""
        deadline = time.monotonic() + timeout_s
        while (levels := self.feature_level())[0] < levels[1][-1]:
            assert time.monotonic() < deadline, levels
            time.sleep(0.05)

    def standbys(self):
        active = self.active()
        return [node for node in self.nodes if node is not active]

    def state(self, node):
        """Version, Merkle root and indexes of a node as it says itself, once it serves."""
        deadline = time.monotonic() + PATIENCE_S
        while (answer := node.call("GET", "/v1/sys/internal/state")).status == 503:
            assert time.monotonic() < deadline, answer.body
            time.sleep(0.05)
        return answer.data

    def await_until(self, holds, timeout_s=PATIENCE_S):
        """`holds` becomes true."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def await_equal_roots(self, timeout_s=PATIENCE_S):
        """The nodes show one Merkle root at one version; returns (version, root)."""
        deadline = time.monotonic() + timeout_s
        while True:
            states = [self.state(node) for node in self.nodes]
            pairs = {(s["root_version"], s["merkle_root"]) for s in states}
            newest = {s["version"] for s in states}
            if len(pairs) == 1 and len(newest) == 1 and next(iter(pairs))[0] in newest:
                return next(iter(pairs))
            assert time.monotonic() < deadline, f"states differ: {states}"
            time.sleep(0.1)


class Recoverable(Cluster):
    """A cluster that unseals by itself, with three recovery keys of which two are enough."""

    init_body = {"recovery_shares": 3, "recovery_threshold": 2}


class Unaudited(Cluster):
    """A cluster for tests that bring audit devices of their own."""

    audited = False


class Keyless(Cluster):
    """A cluster that unseals by itself and has no recovery keys, as it was asked to have."""

    init_body = {"recovery_shares": 0}
