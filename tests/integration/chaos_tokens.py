"""What must hold of tokens during a storm: nobody ends early or comes back, uses are exact.

Each user makes tokens of its own through all nodes and keeps what it was told:

- a token that lives long is good until its revocation is acknowledged, and on no node after;
- a child is never good once its parent's revocation was acknowledged;
- of a token with n uses, at most n requests succeed, and when it is refused every use is accounted
  for: n <= succeeded + of unknown fate;
- a token that lived shortly is refused everywhere at the end.
"""

import http.client
import random
import threading
import time

from cluster import call_on

BASE = "/v1/auth/token/"
SHORT_S = 5
LATE_S = 60  # far beyond what a new leader's clock may lag


class TokenUser(threading.Thread):
    def __init__(self, cluster, seed, stop):
        super().__init__(daemon=True)
        self.cluster, self.stop_event = cluster, stop
        self.random = random.Random(seed)
        self.wrong = []
        self.connections = {}
        self.done = {"tree": 0, "uses": 0, "short": 0}
        self.revoked = []  # tokens that must be refused for ever
        self.short = []    # (when it was acknowledged, token)

    def call(self, method, path, body=None, token=None, node=None):
        """None when the fate of the request is unknown."""
        node = node or self.random.choice(self.cluster.nodes)
        connection = self.connections.pop(node.name, None) or node.connect(3)
        try:
            answer = call_on(connection, method, BASE + path, body, token or self.cluster.token)
        except (OSError, http.client.HTTPException):
            connection.close()
            time.sleep(0.02)
            return None
        self.connections[node.name] = connection
        if answer.status >= 500:
            time.sleep(0.02)
            return None
        return answer

    def create(self, **fields):
        by = fields.pop("by", None)
        while not self.stop_event.is_set():
            answer = self.call("POST", "create", fields, by)
            if answer is None:
                continue
            if answer.status == 200:
                return answer.json["auth"]["client_token"]
            self.wrong.append(f"create answered {answer.status} {answer.body[:200]}")
            return None
        return None

    def expect(self, token, status, what):
        answer = self.call("GET", "lookup-self", None, token)
        if answer is not None and answer.status != status:
            self.wrong.append(f"{what}: {answer.status} instead of {status}")

    def tree(self):
        parent = self.create(ttl="1h")
        child = parent and self.create(ttl="1h", by=parent)
        if not child:
            return
        for token in (parent, child):
            self.expect(token, 200, "a token that nobody revoked")
        while not self.stop_event.is_set():
            answer = self.call("POST", "revoke", {"token": parent})
            if answer is None:
                continue
            if answer.status != 204:
                self.wrong.append(f"revoke answered {answer.status} {answer.body[:200]}")
                return
            for _ in range(3):
                self.expect(parent, 403, "a revoked token")
                self.expect(child, 403, "the child of a revoked token")
            self.revoked += [parent, child]
            self.done["tree"] += 1
            return

    def uses(self):
        total = self.random.randrange(1, 6)
        token = self.create(ttl="1h", num_uses=total)
        if not token:
            return
        good = unknown = 0
        while not self.stop_event.is_set():
            answer = self.call("GET", "lookup-self", None, token)
            if answer is None:
                unknown += 1
            elif answer.status == 200:
                good += 1
            else:
                break
            if good > total:
                self.wrong.append(f"{good} uses of {total}")
                return
        else:
            return
        if good + unknown < total:
            self.wrong.append(f"refused after {good} uses and {unknown} unknown of {total}")
        self.revoked.append(token)
        self.done["uses"] += 1

    def brief(self):
        token = self.create(ttl=SHORT_S)
        if token:
            self.short.append((time.monotonic(), token))
            self.done["short"] += 1

    def run(self):
        while not self.stop_event.is_set():
            self.random.choice([self.tree, self.uses, self.brief])()

    def check_end(self, nodes):
        """After the storm, when all nodes serve."""
        late = [token for when, token in self.short if time.monotonic() > when + SHORT_S + LATE_S]
        for node in nodes:
            for token in self.revoked + late:
                answer = None
                for _ in range(10):  # connections may date from before the last crash
                    answer = answer or self.call("GET", "lookup-self", None, token, node)
                if answer is None or answer.status != 403:
                    self.wrong.append(f"{node.name}: a token that ended: {answer and answer.status}")
