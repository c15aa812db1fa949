"""From deploy/tls/bootstrap to a cluster: nodes need nothing but the content of the archives."""

import http.client
import json
import os
import re
import ssl
import subprocess
import tarfile
import time

import pytest

from cluster import HOLDFAST, TOP, free_ports

SCRIPT = TOP / "deploy" / "tls" / "bootstrap"
NAMES = ["node1", "node2", "node3", "node4"]  # the last is added later


def bootstrap(*words, check=True):
    return subprocess.run(
        [SCRIPT, *words],
        env={**os.environ, "HOLDFAST": HOLDFAST},
        capture_output=True,
        text=True,
        timeout=120,
        check=check,
    )


class Installed:
    """A node unpacked below a folder that stands for the root of its machine."""

    def __init__(self, made, root, name, ports):
        self.name, self.root, self.port, self.registry = name, root, ports[0], ports[-1]
        with tarfile.open(made / f"{name}.tar") as archive:
            self.modes = {m.name: m.mode for m in archive.getmembers()}
            self.owners = {(m.uid, m.gid) for m in archive.getmembers()}
        root.mkdir()
        subprocess.run(["tar", "-C", root, "--no-same-owner", "-xpf", made / f"{name}.tar"],
                       check=True, timeout=60)
        self.etc = root / "etc" / "holdfast"
        self.file = self.etc / "holdfast.hcl"
        self.process = None

    def move(self, ports_of):
        """The paths and ports of a test in place of those of a machine."""
        text = self.file.read_text()
        text = text.replace("0.0.0.0:8200", f"127.0.0.1:{self.port}")
        text = text.replace("0.0.0.0:8500", f"127.0.0.1:{self.registry}")
        for name, (client, peers, _) in ports_of.items():
            text = text.replace(f"127.0.0.{NAMES.index(name) + 1}:8201", f"127.0.0.1:{peers}")
            text = text.replace(f"127.0.0.{NAMES.index(name) + 1}:8200", f"127.0.0.1:{client}")
        text = text.replace("/etc/holdfast", str(self.etc))
        text = text.replace("/var/lib/holdfast", str(self.root / "var" / "lib" / "holdfast"))
        text = text.replace('drain_delay_s = "3s"', 'drain_delay_s = "0s"')
        self.file.write_text(text)

    def start(self):
        # Without systemd the key is found beside the configuration.
        credentials = {"CREDENTIALS_DIRECTORY": str(self.etc / "credentials")}
        with open(self.root / "log", "ab") as log:
            self.process = subprocess.Popen(
                [HOLDFAST, "server", "-config", self.file],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(credentials if self.name != "node3" else {})},
            )

    def call(self, method, path, body, tls, port=None):
        connection = http.client.HTTPSConnection("127.0.0.1", port or self.port, timeout=120, context=tls)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def await_health(self, codes, tls, timeout_s=120):
        deadline, code = time.monotonic() + timeout_s, 0
        while code not in codes:
            assert self.process.poll() is None, (self.root / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, code
            try:
                code, _ = self.call("GET", "/v1/sys/health", None, tls)
            except OSError:
                time.sleep(0.05)

    def await_peers(self, count, tls):
        """The registry's listener names that many members: a node that joins hears of them late."""
        deadline, peers = time.monotonic() + 120, []
        while len(peers) < count:
            assert time.monotonic() < deadline, peers
            status, body = self.call("GET", "/v1/status/peers", None, tls, self.registry)
            assert status == 200, body
            peers = json.loads(body)
            time.sleep(0.05)

    def await_formed(self, tls):
        """The node waits for the initialisation, and for no other initial member."""
        self.await_health({501}, tls)
        deadline = time.monotonic() + 120
        while said := json.loads(self.call("GET", "/v1/sys/health", None, tls)[1]).get("errors"):
            assert time.monotonic() < deadline, said
            time.sleep(0.05)


@pytest.mark.parametrize("seal", ["static", "shares"])
def test_the_archives_make_a_cluster(tmp_path, seal):
    made, words, wanted = tmp_path / "cluster", [], {}
    if seal == "shares":
        words, wanted = ["--shares"], {"secret_shares": 3, "secret_threshold": 2}
    hosts = [f"{n}=127.0.0.{i + 1},balancer.example" for i, n in enumerate(NAMES)]
    bootstrap(*words, made, *hosts[:3])
    bootstrap("--add", made, hosts[3])
    tls = ssl.create_default_context(cafile=made / "tls-ca.pem")
    ports = free_ports(12)
    ports_of = {name: ports[3 * i : 3 * i + 3] for i, name in enumerate(NAMES)}
    every = [Installed(made, tmp_path / name, name, ports_of[name]) for name in NAMES]
    nodes = every[:3]
    try:
        for node in nodes:
            node.move(ports_of)
            node.start()
        for node in nodes:
            node.await_formed(tls)
        status, body = nodes[0].call("PUT", "/v1/sys/init", json.dumps(wanted).encode(), tls)
        assert status == 200, body
        shares = len(json.loads(body)["keys"])
        assert (shares > 0) == (seal == "shares")
        for node in nodes:
            node.await_health({503} if seal == "shares" else {200, 473}, tls)
        every[3].move(ports_of)
        every[3].start()
        every[3].await_health({503} if seal == "shares" else {200, 473}, tls)
        for node in every:
            if seal == "shares":  # a sealed node tells nothing of the cluster
                assert node.call("GET", "/v1/status/peers", None, tls, node.registry)[0] == 503
            else:
                node.await_peers(3, tls)
            assert node.call("GET", "/v1/sys/health", None, tls, node.registry)[0] == 404
        for node in every:
            node.process.terminate()
        for node in every:
            assert node.process.wait(120) == 0
    finally:
        for node in every:
            if node.process is not None and node.process.poll() is None:
                node.process.kill()
                node.process.wait()


def test_keys_are_kept_from_others(tmp_path):
    made = tmp_path / "cluster"
    bootstrap(made, "node1=127.0.0.1", "node2=127.0.0.2")
    assert made.stat().st_mode & 0o077 == 0
    node = Installed(made, tmp_path / "root", "node1", [0])
    assert node.owners == {(0, 0)}
    for name, mode in node.modes.items():
        if "credentials" in name or "/lib/holdfast/tls" in name:
            assert mode & 0o077 == 0, name
        if name.endswith(("key.pem", ".hcl")):
            assert mode & 0o007 == 0, name
    # No node gets what makes nodes, and what is a node's alone stays nowhere else.
    assert not [name for name in node.modes if "ca-key" in name]
    left = sorted(path.name for path in (made / "authority").iterdir())
    assert left == ["ca-key.pem", "ca.pem", "members", "seal.id", "seal.key", "tls-ca-key.pem",
                    "tls-ca.pem"]


def test_a_node_given_by_name_listens_everywhere_and_is_dialled_by_name(tmp_path):
    bootstrap(tmp_path / "cluster", "node1=node1.example", "node2=::1", "node3=127.0.0.3")
    for name, listen in (("node1", "0.0.0.0"), ("node2", "[::1]"), ("node3", "127.0.0.3")):
        text = Installed(tmp_path / "cluster", tmp_path / name, name, [0]).file.read_text()
        assert f'\n  address   = "{listen}:8201"\n' in text
        assert 'member "node1" { address = "node1.example:8201" }' in text


def test_systemd_gives_a_node_what_was_unpacked(tmp_path):
    """Root's files in a folder of the node's are what systemd-tmpfiles refuses to change. The unit's
    StateDirectory changes all of them, but only where the folder itself is not the node's yet."""
    made, root = tmp_path / "cluster", tmp_path / "node1"
    bootstrap(made, "node1=127.0.0.1")
    Installed(made, root, "node1", [0])
    (root / "etc" / "holdfast" / "tls.pem").chmod(0o600)  # as "cluster add" makes it
    (root / "etc" / "holdfast" / "join-token").write_text("hfj1-x")
    (root / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\nholdfast:x:64000:64000::/:/bin/sh\n")
    (root / "etc" / "group").write_text("root:x:0:\nholdfast:x:64000:\n")
    systemd = TOP / "deploy" / "systemd"
    done = subprocess.run(
        ["systemd-tmpfiles", "--create", f"--root={root}", systemd / "tmpfiles.conf"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and "unsafe" not in done.stderr, done.stderr
    for name in ("holdfast.hcl", "tls-key.pem", "join-token"):
        assert (root / "etc" / "holdfast" / name).stat().st_gid == 64000
    assert (root / "etc" / "holdfast" / "tls.pem").stat().st_mode & 0o777 == 0o644
    folders = re.search(r"^StateDirectory=(.*)$", (systemd / "holdfast.service").read_text(), re.M)
    for name in folders[1].split():
        assert (root / "var" / "lib" / name).stat().st_uid != 64000


def test_the_folder_that_the_documents_name_is_none_of_the_sources():
    guide = (TOP / "docs" / "operations.md").read_text()
    folder = re.search(r"^deploy/tls/bootstrap (\S+)", guide, re.M)[1]
    assert not (TOP / os.path.expanduser(folder)).is_relative_to(TOP), "it would hold keys"


def test_mistakes_are_named_and_leave_nothing_behind(tmp_path):
    made = tmp_path / "cluster"
    for words, said in (
        ((made,), "bootstrap [--shares] DIR"),
        (("--add", made, "node4=127.0.0.1"), "authority/members is missing"),
        ((made, "node1"), '"node1" is not NAME=ADDRESS'),
        ((made, "no/de=127.0.0.1"), '"no/de=127.0.0.1" is not NAME=ADDRESS'),
        ((made, "node1=127.0.0.1", "node1=127.0.0.2"), "is named twice"),
    ):
        done = bootstrap(*words, check=False)
        assert done.returncode != 0 and said in done.stderr, done.stderr
        assert not list(tmp_path.iterdir())
    bootstrap(made, "node1=127.0.0.1")
    again = bootstrap(made, "node1=127.0.0.1", check=False)
    assert again.returncode != 0 and "is there already" in again.stderr
    founder = bootstrap("--add", made, "node1=127.0.0.1", check=False)
    assert founder.returncode != 0 and "is there already" in founder.stderr
