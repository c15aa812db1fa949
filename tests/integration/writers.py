"""Clients that write rising numbers under keys of their own, and keep what they were told.

What was acknowledged must be there at the end on every node, or something the same writer wrote
later; and a read must never show less than what was acknowledged before it began. But a write
without a reply may wait in a paused node and take effect after later ones: its number may be seen at
any time.
"""

import http.client
import random
import threading
import time

from cluster import call_on

KEYS_EACH = 20


class Writer(threading.Thread):
    """Writes and reads its own keys through all nodes, and keeps what it was told."""

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
        connection = self.connections.pop(node.name, None) or node.connect(3)
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

    def check_end(self, node, connection):
        """What is there, when nobody writes any more."""
        for key, number in self.acked.items():
            answer = call_on(connection, "GET", f"/v1/kv/chaos/{key}", None, self.cluster.token)
            assert answer.status == 200, f"{node.name} lost {key}"
            assert self.may_show(key, answer.data["n"], number), f"{node.name} {key}"
