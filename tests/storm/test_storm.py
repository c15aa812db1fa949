"""Nodes built with sanitizers, while clients hang up and operators act at random.

Nodes are sealed and unsealed, asked to step down, told to read their configuration again, and
stopped and started. Writers keep what was acknowledged (writers.py) and rude clients hang up
(rude.py). Nothing is killed: every node ends with code 0, and says nothing that a sanitizer or an
assertion would say; the end of the cluster checks that. No acknowledged write is lost.

The storm lasts HOLDFAST_STORM_S, longer where the machine is too slow for that to mean anything.
HOLDFAST_SEED repeats what operators and clients choose.
"""

import http.client
import os
import random
import signal
import threading
import time

from cluster import Cluster
from rude import Rude
from writers import SEED, Writer

LONG = bool(os.environ.get("HOLDFAST_LONG"))
STORM_S = int(os.environ.get("HOLDFAST_STORM_S", "600" if LONG else "30"))
STOP_S = 300  # to end in order, and to look for leaks
SLOW = {"cluster": {"election_ms": 3000}, "seal": {"static": None, "shamir": {}}}
LEVELS = ["info", "warn", "debug"]


class ShamirCluster(Cluster):
    """One share unseals, so that any node can be unsealed by one request."""

    def init(self):
        self.await_formed()
        answer = self.nodes[0].call("PUT", "/v1/sys/init",
                                    {"secret_shares": 1, "secret_threshold": 1})
        assert answer.status == 200, answer.body
        self.token, self.key = answer.json["root_token"], answer.json["keys"][0]
        self.unseal_all()
        self.mount("kv", {"version": "1"})

    def unseal(self, node):
        """Whether it is unsealed now, as far as it says."""
        try:
            answer = node.call("PUT", "/v1/sys/unseal", {"key": self.key}, token="", timeout_s=20)
        except (OSError, http.client.HTTPException):
            return False
        return answer.status == 200 and answer.json["sealed"] is False

    def unseal_all(self):
        deadline = time.monotonic() + STOP_S
        while not all([self.unseal(node) for node in self.nodes]):
            assert all(node.alive for node in self.nodes)
            assert time.monotonic() < deadline
            time.sleep(0.1)
        self.await_up(STOP_S)


class Operator:
    """What an operator does to a node, one thing at a time."""

    def __init__(self, cluster):
        self.cluster, self.random = cluster, random.Random(SEED)
        self.done = dict.fromkeys(["seal", "step down", "reload", "restart", "restart two"], 0)

    def ask(self, node, path):
        try:
            node.call("PUT", path, {}, timeout_s=20)
        except (OSError, http.client.HTTPException):
            pass  # the node is down, or hung up

    def act(self):
        what = self.random.choice(list(self.done))
        nodes = self.random.sample(self.cluster.nodes, 2)
        self.await_handlers(nodes)
        getattr(self, what.replace(" ", "_"))(*nodes)
        self.done[what] += 1

    def await_handlers(self, nodes):
        """A signal ends a node that has only just been started; one that answers handles it."""
        deadline = time.monotonic() + STOP_S
        while not all(node.health() for node in nodes):
            assert all(node.alive for node in nodes)
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def seal(self, node, _):
        self.ask(node, "/v1/sys/seal")
        time.sleep(self.random.uniform(0, 1))
        self.cluster.unseal(node)

    def step_down(self, node, _):
        self.ask(node, "/v1/sys/step-down")

    def reload(self, node, _):
        node.config = {**node.config, "log_level": self.random.choice(LEVELS)}
        node.write_config()
        for _ in range(self.random.randrange(1, 4)):
            node.process.send_signal(signal.SIGHUP)

    def restart(self, *nodes):
        for node in nodes[:1]:
            node.process.terminate()
        self.await_end(nodes[:1])

    def restart_two(self, *nodes):
        for node in nodes:
            node.process.terminate()
        nodes[0].process.terminate()  # twice
        self.await_end(nodes)

    def await_end(self, nodes):
        for node in nodes:
            code = node.process.wait(STOP_S)
            said = node.complaints() or [node.log_text()[-4000:]]
            assert code == 0, "\n".join([f"{node.name} ended with {code}:", *said])
            time.sleep(self.random.uniform(0, 1))
            node.start()

    def unseal_some(self):
        """Nodes that were started are sealed."""
        for node in self.cluster.nodes:
            self.cluster.unseal(node)


def weather(cluster, operator, meant):
    began = time.monotonic()
    while (past := time.monotonic() - began) < 5 * STORM_S:
        if past >= STORM_S and meant():
            break
        operator.act()
        time.sleep(operator.random.uniform(0, 1.5))
        operator.unseal_some()
        for node in cluster.nodes:
            assert node.alive, f"{node.name} ended:\n{node.log_text()[-4000:]}"


def test_nothing_is_said_and_nothing_lost_in_a_storm():
    print(f"seed {SEED}")
    stop = threading.Event()
    with ShamirCluster(config=SLOW) as cluster:
        operator = Operator(cluster)
        writers = [Writer(cluster, n, stop, SEED) for n in range(3)]
        rude = [Rude(cluster, n, stop, SEED) for n in range(3)]

        def counts():
            hung_up = {what: sum(r.done[what] for r in rude) for what in rude[0].done}
            return {"writes": sum(w.ok for w in writers), **operator.done, **hung_up}

        for thread in writers + rude:
            thread.start()
        try:
            weather(cluster, operator, lambda: min(counts().values()) >= 3)
        finally:
            stop.set()
        for thread in writers + rude:
            thread.join(120)
            assert not thread.is_alive()
        print(counts())
        assert [text for writer in writers for text in writer.wrong] == []
        assert min(counts().values()) >= 3, counts()
        cluster.unseal_all()
        for node in cluster.nodes:
            connection = node.connect()
            for writer in writers:
                writer.check_end(node, connection)
            connection.close()
        cluster.await_equal_roots(STOP_S)
        for node in cluster.nodes:
            assert node.stop(STOP_S) == 0, node.log_text()[-4000:]
