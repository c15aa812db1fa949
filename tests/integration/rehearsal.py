"""Runs the rehearsals of docs/rehearsals.md as they stand there, while clients write."""

import http.client
import os
import re
import shutil
import ssl
import subprocess
import threading
import time

from cluster import HOLDFAST, PATIENCE_S, TOP, call_on
from test_dev import free_base
from writers import Writer

PAGE = TOP / "docs" / "rehearsals.md"
WRITERS = 3
WRITES_BEFORE = 50  # of each writer, before the first line of a rehearsal
OTHER_PORT = "8300"  # of a second cluster, in the page; each run has a free one instead


def sections(page=PAGE):
    """{title: its blocks of commands}, in the order of the page."""
    found = {}
    for part in re.split(r"^## ", page.read_text(), flags=re.M)[1:]:
        title, _, text = part.partition("\n")
        found[title] = re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
    return found


class Shell:
    """A bash that stays: a block sees the variables and functions of those before it."""

    def __init__(self, folder, env):
        self.process = subprocess.Popen(
            ["bash", "-euo", "pipefail"], cwd=folder, env=env, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )

    def run(self, text):
        """What the commands print; they must succeed."""
        end = "that was the block"
        late = threading.Timer(PATIENCE_S, self.process.kill)
        late.start()
        try:
            self.process.stdin.write(f"{{\n{text}\n}} < /dev/null\necho '{end}'\n")
            self.process.stdin.flush()
            lines = []
            for line in self.process.stdout:
                if line.rstrip("\n") == end:
                    return "".join(lines)
                lines.append(line)
        finally:
            late.cancel()
        raise AssertionError(f"{text}\nfailed with: {''.join(lines)[-3000:]}")

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(PATIENCE_S)


class Node:
    """A node that deploy/quickstart runs, as the writers want it."""

    def __init__(self, folder, name, port):
        self.name, self.port = name, port
        self.tls = ssl.create_default_context(cafile=folder / "tls" / "tls-ca.pem")

    def connect(self, timeout_s=PATIENCE_S):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout_s,
                                           context=self.tls)

    def call(self, method, path, body=None, token=None):
        connection = self.connect()
        try:
            return call_on(connection, method, path, body, token)
        finally:
            connection.close()


def nodes_of(folder, base):
    """Those of the cluster that deploy/quickstart keeps in the folder, from its first port on."""
    return [Node(folder, f"node{i + 1}", base + 10 * i) for i in range(3)]


class Load:
    """Clients that write to a cluster of quickstart, with a token of their own."""

    def __init__(self, folder, base):
        self.nodes = nodes_of(folder, base)
        root = re.search(r"^export HOLDFAST_TOKEN='(.*)'$", (folder / "env").read_text(), re.M)[1]
        made = self.nodes[0].call("POST", "/v1/auth/token/create-orphan", {"policies": ["root"]}, root)
        self.token = made.json["auth"]["client_token"]
        self.over = threading.Event()
        self.writers = [Writer(self, i, self.over, seed=17) for i in range(WRITERS)]
        for writer in self.writers:
            writer.start()
        deadline = time.monotonic() + PATIENCE_S
        while any(writer.ok < WRITES_BEFORE for writer in self.writers):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def acknowledged(self):
        """{key: number} of the writes that were acknowledged so far."""
        return {key: number for writer in self.writers
                for key, number in dict(writer.acked).items()}

    def end(self):
        """No write is on its way any more."""
        self.over.set()
        for writer in self.writers:
            writer.join(PATIENCE_S)
            assert not writer.is_alive()
            assert not writer.wrong, writer.wrong[:5]

    def check(self):
        """Every acknowledged write is on every node."""
        assert self.acknowledged()
        for node in self.nodes:
            connection = node.connect()
            for writer in self.writers:
                writer.check_end(node, connection)
            connection.close()


class Rehearsal:
    """A clone as far as the page knows it, with the preparations of the page done."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "deploy").mkdir()
        shutil.copy(TOP / "deploy" / "quickstart", folder / "deploy" / "quickstart")
        programs = folder / "build" / "release"
        programs.mkdir(parents=True)
        (programs / "holdfast").symlink_to(HOLDFAST)
        self.base = free_base(3, offsets=(0, 1, 300, -3554))  # a node's own, registry, scheduler
        self.other_base = free_base(3, self.base + 2)  # each node has two ports
        self.load = None
        self.shell = Shell(folder, {
            "PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8",
            "HOLDFAST_BIN": HOLDFAST, "HOLDFAST_PORT": str(self.base),
        })

    def __enter__(self):
        self.prepare, self.clean_up = sections()["Prepare"]
        try:
            self.shell.run(self.prepare)
            self.load = Load(self.folder / "build" / "quickstart", self.base)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind, value, trace):
        try:
            if self.load:
                self.load.over.set()
            if kind is None:
                self.shell.run(self.clean_up)
                assert not (self.folder / "build" / "quickstart").exists()
        finally:
            self.stop()

    def stop(self):
        """Ends the nodes of all clusters, whatever has happened."""
        self.shell.close()
        for folder in ("build/quickstart", "build/elsewhere"):
            env = {"PATH": os.environ["PATH"], "HOLDFAST_FOLDER": folder}
            subprocess.run([self.folder / "deploy" / "quickstart", "--stop"], env=env, check=True,
                           capture_output=True, timeout=PATIENCE_S)

    def run(self, title, before=None):
        """The blocks of a section; before(text) is called before each. What they print."""
        printed = []
        for text in sections()[title]:
            if before:
                before(text)
            printed.append(self.shell.run(re.sub(rf"\b{OTHER_PORT}\b", str(self.other_base), text)))
        return printed
