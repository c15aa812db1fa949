"""What must hold of tokens during a storm: none ends early, none late, uses are exact.

Users share their tokens and use each of them through all nodes at once; what all were told of a
token is kept in one place. A request is judged by the moment it began and the moment its answer
came:

- brief tokens: none is refused before its expire_time. None is accepted by a request that began
  LATE_S after it, nor BACK_S after one that expires no sooner was refused;
- trees: once the revocation of the parent was acknowledged no request that begins succeeds with the
  parent, its child or the child's child, on any node; before it was asked for none is refused;
- tokens with n uses: at most n requests succeed, and when one is refused every use is accounted for,
  so that exactly n succeeded if no outcome is unknown.

LATE_S and BACK_S follow from PROTOCOL R16. Cluster time never runs ahead of the clocks, which are
one clock here, but may lag: a new leader goes on from the time the one before told last, and lacks
what that question was under way, no longer than a node was paused or held up (3 s in this storm).
So an answer may know an earlier time than one before it, by that much. What is lacking is caught
up by a twentieth, so a few such moments can add up.
"""

import datetime
import http.client
import random
import threading
import time

from cluster import call_on

BASE = "/v1/auth/token/"
EARLY_S = 0.05  # times are told in milliseconds
BACK_S = 10
LATE_S = 20
LIVE_MAX = 16
ENDED_CHECKED_MAX = 200
KINDS = ["brief", "limited", "tree"]


class Token:
    """What all users together know of one token."""

    def __init__(self, text, kind, total=0, expires=None):
        self.text, self.kind, self.total = text, kind, total
        self.expires = expires   # by the clock on the wall, s
        self.good = self.unknown = self.open = 0
        self.may_end = False     # somebody has asked for its revocation, or its parent's
        self.ended_at = None     # no request that begins later may succeed
        self.tree = [self]       # itself, its child, the child's child


class Tokens:
    """Those that live and those that have ended, for all users."""

    def __init__(self):
        self.lock = threading.Lock()
        self.live, self.ended, self.wrong = [], [], []
        self.refused = []  # (when, its expire_time) of brief tokens that were refused
        self.latest_s = 0.0
        self.done = dict.fromkeys(
            ["brief used", "brief refused", "tree used", "tree revoked", "limited used",
             "limited refused", "ended refused"], 0)

    def pick(self, kind):
        with self.lock:
            fitting = [t for t in self.live if t.kind == kind]
            return random.choice(fitting) if fitting else None

    def end(self, token, at):
        """With the lock held."""
        if token in self.live:
            self.live.remove(token)
            self.ended.append(token)
            token.ended_at = at

    def accepted(self, token, began, began_wall):
        token.good += 1
        self.done[f"{token.kind} used"] += 1
        if token.ended_at is not None and began > token.ended_at:
            self.wrong.append(f"{token.kind} token accepted {began - token.ended_at:.3f} s after "
                              f"it had ended")
        if token.total and token.good > token.total:
            self.wrong.append(f"{token.good} uses of {token.total}")
        if token.expires is None:
            return
        self.latest_s = max(self.latest_s, began_wall - token.expires)
        if began_wall > token.expires + LATE_S:
            self.wrong.append(f"accepted {began_wall - token.expires:.3f} s late")
        for when, expires in self.refused:
            if when + BACK_S < began and expires >= token.expires:
                self.wrong.append("accepted after one that expires no sooner was refused")

    def refuse(self, token):
        now = time.monotonic()
        if token.ended_at is not None:
            self.done["ended refused"] += 1
        elif token.may_end:
            pass  # while its revocation is under way
        elif token.total:
            if token.good + token.unknown + token.open < token.total:
                self.wrong.append(f"refused after {token.good} uses, {token.unknown} unknown, "
                                  f"{token.open} under way of {token.total}")
            self.done["limited refused"] += 1
            self.end(token, now)
        elif token.expires is not None:
            if time.time() < token.expires - EARLY_S:
                self.wrong.append(f"refused {token.expires - time.time():.3f} s early")
            self.done["brief refused"] += 1
            self.refused.append((now, token.expires))
            self.end(token, now + BACK_S)
        else:
            self.wrong.append("a token that nobody revoked was refused")


class TokenUser(threading.Thread):
    def __init__(self, cluster, seed, stop, tokens):
        super().__init__(daemon=True)
        self.cluster, self.stop_event, self.tokens = cluster, stop, tokens
        self.random = random.Random(seed)
        self.connections = {}

    def call(self, method, path, body=None, token=None, node=None):
        """None when the fate of the request is unknown."""
        node = node or self.random.choice(self.cluster.nodes)
        connection = self.connections.pop(node.name, None) or node.connect(3)
        try:
            answer = call_on(connection, method, path, body, token or self.cluster.token)
        except (OSError, http.client.HTTPException):
            connection.close()
            time.sleep(0.02)
            return None
        self.connections[node.name] = connection
        if answer.status >= 500:
            time.sleep(0.02)
            return None
        return answer

    def ask(self, path, body, by=None):
        """POST until the outcome is known; None when the storm is over first."""
        while not self.stop_event.is_set():
            answer = self.call("POST", BASE + path, body, by)
            if answer is not None:
                return answer
        return None

    def complain(self, answer, what):
        with self.tokens.lock:
            self.tokens.wrong.append(f"{what} answered {answer.status} {answer.body[:200]}")

    def create(self, by=None, **fields):
        answer = self.ask("create", fields, by)
        if answer is not None and answer.status != 200:
            self.complain(answer, "create")
        if answer is None or answer.status != 200:
            return None
        return answer.json["auth"]["client_token"]

    def make_brief(self):
        text = self.create(ttl=f"{self.random.randrange(2, 6)}s")
        shown = text and self.ask("lookup", {"token": text})
        if shown is None or shown.status != 200:
            return None  # it has ended while nobody answered
        when = datetime.datetime.fromisoformat(shown.data["expire_time"].replace("Z", "+00:00"))
        return Token(text, "brief", expires=when.timestamp())

    def make_limited(self):
        total = self.random.randrange(1, 25)
        text = self.create(ttl="1h", num_uses=total)
        return text and Token(text, "limited", total=total)

    def make_tree(self):
        tree, by = [], None
        for _ in range(3):
            by = self.create(by, ttl="1h")
            if not by:
                return None
            tree.append(Token(by, "tree"))
        for token in tree:
            token.tree = tree
        return tree[0]

    def make(self):
        token = self.random.choice([self.make_brief, self.make_limited, self.make_tree])()
        if token:
            with self.tokens.lock:
                self.tokens.live += token.tree

    def use(self, token, node=None):
        """One request with it; what came of it."""
        with self.tokens.lock:
            token.open += 1
        began, began_wall = time.monotonic(), time.time()
        if token.kind == "tree" and self.random.random() < 0.5:
            answer = self.call("PUT", "/v1/kv/chaos/tokens", {"n": 1}, token.text, node)
        else:
            answer = self.call("GET", BASE + "lookup-self", None, token.text, node)
        with self.tokens.lock:
            token.open -= 1
            if answer is None:
                token.unknown += 1
            elif answer.status in (200, 204):
                self.tokens.accepted(token, began, began_wall)
            elif answer.status == 403:
                self.tokens.refuse(token)
            else:
                self.tokens.wrong.append(f"a use answered {answer.status} {answer.body[:200]}")
        return answer

    def revoke(self, token):
        tree = token.tree
        with self.tokens.lock:
            if tree[0].may_end:
                return
            for each in tree:
                each.may_end = True
        answer = self.ask("revoke", {"token": tree[0].text})
        if answer is None:
            return
        if answer.status != 204:
            self.complain(answer, "revoke")
            return
        with self.tokens.lock:
            for each in tree:
                self.tokens.end(each, time.monotonic())
            self.tokens.done["tree revoked"] += 1
        for each in tree:
            self.use(each)

    def check_ended(self):
        with self.tokens.lock:
            token = self.random.choice(self.tokens.ended) if self.tokens.ended else None
        if token:
            self.use(token)

    def run(self):
        while not self.stop_event.is_set():
            dice = self.random.random()
            if dice < 0.15 and len(self.tokens.live) < LIVE_MAX:
                self.make()
            elif dice < 0.17 and (token := self.tokens.pick("tree")):
                self.revoke(token)
            elif dice < 0.3:
                self.check_ended()
            elif token := self.tokens.pick(self.random.choice(KINDS)):
                self.use(token)
            else:
                self.make()

    def settled(self, token, node):
        """Its use on a node that serves; connections may date from before the last crash."""
        for _ in range(10):
            answer = self.use(token, node)
            if answer is not None:
                return answer.status
        return None

    def check_end(self):
        """After the storm, when all nodes serve: what has ended is refused, what has not is good."""
        tokens = self.tokens
        ended = [t for t in tokens.ended if t.ended_at < time.monotonic()]
        ended = self.random.sample(ended, min(len(ended), ENDED_CHECKED_MAX))
        good = [t for t in tokens.live if t.kind == "tree" and not t.may_end]
        for node in self.cluster.nodes:
            for token in ended + good:
                wanted = (403,) if token.ended_at else (200, 204)
                have = self.settled(token, node)
                if have not in wanted:
                    tokens.wrong.append(f"{node.name}: {token.kind} token at the end: {have}")
