"""The row of clients that ask and never read: what they cost memory and another client."""

import threading

import load
import measure
from measure import medians, ratios, result, rounds
from nodes import Nodes
from rows_faults import GREEDY_CONNECTIONS, GREEDY_RATE
from rows_rates import ceiling
from rows_state import rss
from slow_readers import SlowReaders, addresses

READERS, SOURCES = 4000, 400
STEPS = 40  # in which the readers come
LARGE = 900_000  # bytes that each asks for
BUDGET = 64 << 20  # of the node
REPLY = "GET /v1/kv/large HTTP/1.1\r\nHost: a\r\nX-Secrets-Token: {}\r\n\r\n"


class Crowd:
    """Slow readers of the node, who come while the block lasts; the most memory meanwhile."""

    def __init__(self, node, token):
        self.node, self.request, self.failure = node, REPLY.format(token), None
        self.over = threading.Event()
        self.before = self.most = rss(node)
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            with SlowReaders(self.node.client_port, addresses(SOURCES)) as readers:
                for _ in range(STEPS):
                    readers.ask(READERS // STEPS, self.request)
                    self.most = max(self.most, rss(self.node))
                    if self.over.wait(measure.SECONDS / STEPS / 2):
                        break
                while not self.over.wait(0.1):
                    self.most = max(self.most, rss(self.node))
        except BaseException as failure:
            self.failure = failure

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        assert self.failure is None, self.failure


def row_slowread():
    with Nodes(config={"unread_bytes_max": BUDGET}) as c:
        a = c.active()
        put = load.kv2_put(c.client)
        assert a.call("PUT", "/v1/kv/large", {"x": "y" * LARGE}).status == 204
        reader = c.limited('path "kv/*" { capabilities = ["read"] }', ttl="24h")

        def alone():
            return load.bench_open(a.client_port, put, GREEDY_CONNECTIONS, GREEDY_RATE,
                                   measure.SECONDS)

        def beside():
            with Crowd(a, reader) as crowd:
                return {**alone(), "growth": (crowd.most - crowd.before) / BUDGET}

        samples = rounds("slowread", {"without": alone, "beside": beside}, ceiling)
    p99 = [medians(samples, side, "p99_us")[0] / 1000 for side in ("without", "beside")]
    growth = [each["beside"]["growth"] for each in samples]
    result("slowread", growth, "growth-of-budget", 1.2, 1.05, most=True,
           detail=f"{READERS} readers of {LARGE:,} bytes that never read, a budget of "
           f"{BUDGET >> 20} MiB")
    result("slowread", ratios(samples, "beside", "without", "p99_us"), "p99-of-without", 3, 1.5,
           most=True, detail=f"{GREEDY_RATE} writes/s beside slow readers: p99 {p99[1]:.2f} ms, "
           f"without {p99[0]:.2f} ms; no write was refused")
