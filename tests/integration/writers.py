"""Clients that write rising numbers under keys of their own, and keep what they were told.

What was acknowledged must be there at the end on every node, or something the same writer wrote
later; and a read must never show less than what was acknowledged before it began. But a write
without a reply may wait in a paused node and take effect after later ones: its number may be seen at
any time.
"""

import http.client
import os
import random
import threading
import time

from cluster import PATIENCE_S, call_on

SEED = int(os.environ.get("HOLDFAST_SEED", str(random.SystemRandom().randrange(1 << 32))))
KEYS_EACH = 20
SERVING = (200, 429, 473)  # what the health of a node that serves is


class Writer(threading.Thread):
    """Writes and reads its own keys through all nodes, and keeps what it was told."""

    timeout_s = 3

    def __init__(self, cluster, number, stop, seed):
        super().__init__(daemon=True)
        self.cluster, self.number, self.stop_event = cluster, number, stop
        self.random = random.Random(seed + number)
        self.acked = {}     # key: highest acknowledged number
        self.tried = {}     # key: highest number sent
        self.unsure = {}    # key: the numbers that were sent and not acknowledged
        self.ok = self.unknown = self.reads = 0
        self.wrong = []
        self.connections = {}

    def call(self, node, method, path, body=None):
        """None when the fate of the request is unknown."""
        connection = self.connections.pop(node.name, None) or node.connect(self.timeout_s)
        try:
            answer = call_on(connection, method, path, body, self.cluster.token)
        except (OSError, http.client.HTTPException):
            connection.close()
            return None
        self.connections[node.name] = connection
        return answer

    def run(self):
        count = 0
        while not self.stop_event.is_set():
            node = self.random.choice(self.cluster.nodes)
            key = f"w{self.number}-{self.random.randrange(KEYS_EACH)}"
            if self.random.random() < 0.3:
                self.check_read(node, key)
                continue
            count += 1
            self.tried[key] = count
            answer = self.call(node, "PUT", f"/v1/kv/chaos/{key}", {"n": count})
            if answer is not None and answer.status == 204:
                self.acked[key] = count
                self.ok += 1
            else:
                self.unknown += 1
                self.unsure.setdefault(key, set()).add(count)
                if answer is not None and answer.status < 500:
                    self.wrong.append(f"PUT answered {answer.status} {answer.body[:200]}")
                time.sleep(0.02)

    def may_show(self, key, seen, acknowledged):
        return acknowledged <= seen <= self.tried.get(key, 0) or seen in self.unsure.get(key, ())

    def check_read(self, node, key):
        before = self.acked.get(key, 0)
        answer = self.call(node, "GET", f"/v1/kv/chaos/{key}")
        if answer is None or answer.status >= 500:
            time.sleep(0.02)
            return
        seen = answer.data["n"] if answer.status == 200 else 0
        self.reads += 1
        if not self.may_show(key, seen, before):
            self.wrong.append(f"{node.name}: {key} read {seen} after {before} was acknowledged")

    def final(self, connection, key):
        """The reply of a node that may be without a leader for a moment: a 503 says nothing of the key."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = call_on(connection, "GET", f"/v1/kv/chaos/{key}", None, self.cluster.token)
            if answer.status != 503 or time.monotonic() > deadline:
                return answer
            time.sleep(0.1)

    def check_end(self, node, connection):
        """What is there, when nobody writes any more."""
        for key, number in self.acked.items():
            answer = self.final(connection, key)
            assert answer.status == 200, f"{node.name} lost {key}: {answer.status} {answer.body[:300]}"
            assert self.may_show(key, answer.data["n"], number), f"{node.name} {key}"


class Repeater(Writer):
    """Repeats a request that failed, once, through another node that serves: as a load balancer does.
    It is wrong if that fails too."""

    timeout_s = 60

    def __init__(self, *args):
        super().__init__(*args)
        self.repeated = 0

    def call(self, node, method, path, body=None):
        answer = super().call(node, method, path, body)
        if answer is not None and answer.status < 500:
            return answer
        if body is not None:  # this try may take effect after later writes
            self.unsure.setdefault(path.rpartition("/")[2], set()).add(body["n"])
        self.repeated += 1
        others = [each for each in self.cluster.nodes if each is not node]
        other = next((each for each in others if each.health() in SERVING), others[0])
        kept = self.connections.pop(other.name, None)
        if kept is not None:  # the node may have been started anew
            kept.close()
        again = super().call(other, method, path, body)
        if again is None or again.status >= 500:
            self.wrong.append(f"{method} {path} failed twice: {told(node, answer)}, then "
                              f"{told(other, again)}")
        return again


def told(node, answer):
    return f"{node.name}: {answer and (answer.status, answer.body[:200])}"
