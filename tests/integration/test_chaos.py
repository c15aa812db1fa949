"""Two minutes of kills, pauses and restarts under load: every acknowledged write survives.

Each writer owns its keys (writers.py). Tokens expire, are used up and are revoked all the while
(chaos_tokens.py).

Others share one secret of version 2 and write it by check-and-set: every version number is given to
one writer, none twice, and each version holds what its writer wrote.
"""

import os
import random
import threading
import time

from chaos_tokens import TokenUser, Tokens
from cluster import Cluster
from writers import Writer

STORM_S = int(os.environ.get("HOLDFAST_STORM_S", "120"))
SEED = int(os.environ.get("HOLDFAST_SEED", str(random.SystemRandom().randrange(1 << 32))))
WRITERS = 6
TOKEN_USERS = 4
COUNTERS = 3
SHARED = "/v1/secret/data/chaos"


class Counter(Writer):
    """Adds versions to a secret that all of them share, each naming the version it follows."""

    def __init__(self, cluster, number, stop, given):
        super().__init__(cluster, WRITERS + number, stop, SEED)
        self.given = given  # version: the content that was acknowledged

    def run(self):
        count = 0
        while not self.stop_event.is_set():
            node = self.random.choice(self.cluster.nodes)
            read = self.call(node, "GET", SHARED)
            if read is None or read.status not in (200, 404):
                time.sleep(0.02)
                continue
            now = read.data["metadata"]["version"] if read.status == 200 else 0
            count += 1
            mark = f"{self.number}-{count}"
            body = {"data": {"by": mark}, "options": {"cas": now}}
            answer = self.call(node, "PUT", SHARED, body)
            if answer is not None and answer.status == 200:
                self.ok += 1
                version = answer.data["version"]
                if version != now + 1 or self.given.setdefault(version, mark) != mark:
                    self.wrong.append(f"version {version} after {now} for {mark}")
            elif answer is None or answer.status >= 500:
                self.unknown += 1
                time.sleep(0.02)
            elif answer.status != 400 or b"did not match" not in answer.body:
                self.wrong.append(f"PUT answered {answer.status} {answer.body[:200]}")


def check_versions(node, counters, given):
    """As many versions as were acknowledged, or as may have been made; each is its writer's."""
    newest = node.call("GET", SHARED).data["metadata"]["version"]
    assert max(given) <= newest <= len(given) + sum(c.unknown for c in counters)
    assert len(given) == sum(c.ok for c in counters)
    for version in node.call("GET", SHARED.replace("data", "metadata")).data["versions"]:
        read = node.call("GET", f"{SHARED}?version={version}")
        assert given.get(int(version)) in (None, read.data["data"]["by"]), f"{node.name} {version}"


def storm(cluster, meant):
    """Kill, pause and restart; at most a minority is away at any time. It goes on for longer than
    STORM_S where the machine is too slow for that to mean anything: until `meant(faults)`."""
    rng = random.Random(SEED)
    faults = {"kill": 0, "kill active": 0, "pause": 0, "stop": 0, "kill all": 0}
    began = time.monotonic()
    while (past := time.monotonic() - began) < 5 * STORM_S:
        if past >= STORM_S and meant(faults):
            break
        time.sleep(rng.uniform(0.3, 2.0))
        kind = rng.choices(list(faults), weights=[4, 4, 4, 1, 1])[0]
        faults[kind] += 1
        if kind == "kill all":
            for node in cluster.nodes:
                node.kill()
            for node in cluster.nodes:
                node.start()
            time.sleep(2)
            continue
        node = rng.choice(cluster.nodes)
        if kind == "kill active":
            node = next((n for n in cluster.nodes if n.health() == 200), node)
        if kind == "pause":
            node.pause()
            time.sleep(rng.uniform(0.1, 3.0))
            node.resume()
            continue
        if kind == "stop":
            assert node.stop() == 0, node.log_text()[-2000:]
        else:
            node.kill()
        time.sleep(rng.uniform(0.0, 2.0))
        node.start()
    return faults


def test_acknowledged_writes_survive_the_storm():
    print(f"seed {SEED}")
    stop = threading.Event()
    with Cluster() as cluster:
        given = {}
        counters = [Counter(cluster, n, stop, given) for n in range(COUNTERS)]
        writers = [Writer(cluster, n, stop, SEED) for n in range(WRITERS)] + counters
        tokens = Tokens()
        users = [TokenUser(cluster, SEED + 100 + n, stop, tokens) for n in range(TOKEN_USERS)]
        for thread in writers + users:
            thread.start()

        def too_few(faults):
            """What there was too little of to mean anything."""
            done = {
                "writes": (sum(w.ok for w in writers), 20 * STORM_S),
                "versions": (sum(c.ok for c in counters), STORM_S / 4),
                "faults": (sum(faults.values()), STORM_S / 6),
                **{what: (n, STORM_S / 6) for what, n in tokens.done.items()},
            }
            return {what: have for what, (have, wanted) in done.items() if have <= wanted}

        faults = storm(cluster, lambda faults: not too_few(faults))
        cluster.await_up()
        stop.set()
        for thread in writers + users:
            thread.join(120)
            assert not thread.is_alive()
        acknowledged = sum(w.ok for w in writers)
        print(f"{acknowledged} acknowledged, {sum(w.unknown for w in writers)} unknown, "
              f"{sum(w.reads for w in writers)} reads checked, faults {faults}")
        users[0].check_end()
        versions = sum(c.ok for c in counters)
        print(f"tokens: {tokens.done}, accepted at most {tokens.latest_s:.3f} s after expire_time; "
              f"{versions} versions by check-and-set")
        assert tokens.wrong + [text for w in writers for text in w.wrong] == []
        assert not too_few(faults)
        for node in cluster.nodes:
            connection = node.connect()
            for writer in writers:
                writer.check_end(node, connection)
            connection.close()
            check_versions(node, counters, given)
        version, root = cluster.await_equal_roots()
        print(f"every node has root {root} at version {version}")
        for node in cluster.nodes:
            assert "Assertion" not in node.log_text() and "ERROR: " not in node.log_text()
