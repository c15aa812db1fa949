"""Clusters of holdfast for the measurements: the integration tests' own, with plain HTTP unless
said otherwise, a client's token with one policy, and no search for secrets at the end."""

import functools
import os
import pathlib
import shutil
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
BENCH = pathlib.Path(os.environ.get("HOLDFAST_BENCHES", TOP / "build" / "bench"))
os.environ.setdefault("HOLDFAST_BIN", str(BENCH / "holdfast"))
sys.path.insert(0, str(TOP / "tests" / "integration"))

from cluster import Cluster, free_ports, merged  # noqa: E402

PLAIN = {"listener": {"tcp": {"tls_disable": True}}}
OWN = {"workers": 0}  # its own choice, where the tests of the integration ask for two
RULES = """
path "kv/*" { capabilities = ["create", "read", "update", "delete", "list"] }
path "kv2/*" { capabilities = ["create", "read", "update", "delete", "list"] }
path "auth/token/lookup-self" { capabilities = ["read"] }
path "auth/token/create" { capabilities = ["update", "sudo"] }
path "auth/token/revoke" { capabilities = ["update"] }
"""
VALUE = '{"value":"' + 4 * "0123456789abcdef" + '"}'
VALUE2 = '{"data":' + VALUE + "}"

TIED = ["setpriv", "--pdeathsig", "KILL"]  # prefix of a command: it ends with the measuring process


class Nodes(Cluster):
    """`kv` is version 1 and `kv2` version 2; `client` is a token that may use both and no more."""

    audited = False  # the row audit enables devices itself

    def __init__(self, size=3, config=None, start=None, tls=False, **more):
        super().__init__(size, merged(OWN if tls else merged(PLAIN, OWN), config or {}), **more)
        self.start_node = start or (lambda node: node.start())
        for node in self.nodes:
            node.start = functools.partial(node.start, prefix=TIED)
        self.client = ""

    def start(self):
        for node in self.nodes:
            self.start_node(node)

    def init(self):
        super().init()
        self.mount("kv2", {"version": "2"})
        self.client = self.limited(RULES, ttl="24h")

    def __exit__(self, kind, value, trace):
        for node in self.nodes:
            if node.alive:
                node.resume()
                node.kill()
            if kind is not None:
                print(f"--- {node.name}\n{node.log_text()[-4000:]}", file=sys.stderr)
        found = [text for node in self.nodes for text in node.complaints()]
        shutil.rmtree(self.dir, ignore_errors=True)
        assert kind is not None or not found, "\n".join(found)
