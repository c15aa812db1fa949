"""Rows of what operators do beside clients: snapshots by a schedule, and a ceremony with PGP keys."""

import base64
import statistics
import threading
import time

import load
import measure
from gnupg import Gpg
from measure import result
from nodes import Nodes
from rows_rates import ceiling
from rows_state import COUNT, SNAPSHOT_CONNECTIONS, SNAPSHOT_RATE, filled

INTERVAL_S = max(1, round(12 * measure.SECONDS))  # a minute
AUTOSNAP_ROUNDS = 3  # of two minutes each
SCHEDULE = "/v1/sys/storage/raft/snapshot-auto/config/bench"
STATUS = "/v1/sys/storage/raft/snapshot-auto/status/bench"
REKEY = "/v1/sys/rekey-recovery-key"
RECIPIENTS = ["rsa"] * 4 + ["curve25519"] * 3 + ["nistp256"] * 3
BETWEEN_S = 0.25  # from one ceremony to the next


def asked(node, method, path, body=None):
    answer = node.call(method, path, body)
    assert answer.status in (200, 204), (method, path, answer.status, answer.body)
    return answer.json if answer.body else None


def row_autosnap():
    c = filled()
    c.fill_kv1()
    a = c.active()
    put = load.kv1_put(c.client)
    folder = c.dir / "snapshots"
    folder.mkdir(exist_ok=True)

    def without():
        return load.bench_open(a.client_port, put, SNAPSHOT_CONNECTIONS, SNAPSHOT_RATE, INTERVAL_S,
                               keys=COUNT)

    def by_schedule():
        asked(a, "PUT", SCHEDULE, {"storage_type": "local", "path_prefix": str(folder), "retain": 2,
                                   "interval": f"{INTERVAL_S}s", "local_max_space": "100GiB"})
        sample = without()
        status = asked(a, "GET", STATUS)["data"]
        asked(a, "DELETE", SCHEDULE)
        files = list(folder.iterdir())
        for path in files:
            path.unlink()
        assert files, status
        return {**sample, "snapshots": len(files), "status": status}

    samples = measure.rounds("autosnap", {"without": without, "each minute": by_schedule}, ceiling,
                             min(AUTOSNAP_ROUNDS, measure.ROUNDS))
    p99 = [measure.medians(samples, side, "p99_us")[0] / 1000 for side in ("without", "each minute")]
    result("autosnap", measure.ratios(samples, "each minute", "without", "p99_us"),
           "p99-of-without", 3, 1.3, most=True,
           detail=f"{SNAPSHOT_RATE} writes/s, {COUNT} keys, a snapshot each {INTERVAL_S} s: p99 "
           f"{p99[1]:.2f} ms, without {p99[0]:.2f} ms")


class Holders(Nodes):
    """A cluster whose recovery key is in shares."""

    init_body = {"recovery_shares": 3, "recovery_threshold": 2}


class Ceremonies:
    """Replaces the shares of the recovery key by ones encrypted for ten recipients, again and again
    while the block lasts. The last step, the proof that the new shares can be read, is left out: so
    the present shares stay, and no time of gpg is measured."""

    def __init__(self, cluster, recipients):
        self.cluster, self.node = cluster, cluster.active()
        self.wish = {"secret_shares": len(recipients), "secret_threshold": len(recipients),
                     "pgp_keys": recipients, "require_verification": True}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.took_ms, self.failure = [], None

    def work(self):
        try:
            while not self.over.wait(BETWEEN_S):
                self.hold()
        except Exception as failure:  # told by the thread that waits for this one
            self.failure = failure

    def hold(self):
        begun = time.monotonic()
        nonce = asked(self.node, "PUT", f"{REKEY}/init", self.wish)["nonce"]
        for key in self.cluster.recovery_keys[:2]:
            last = asked(self.node, "PUT", f"{REKEY}/update", {"key": key, "nonce": nonce})
        assert len(last["keys"]) == len(RECIPIENTS), last
        self.took_ms.append(1000 * (time.monotonic() - begun))
        asked(self.node, "DELETE", f"{REKEY}/init")

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        if self.failure:
            raise self.failure


def row_ceremony():
    with Gpg() as gpg, Holders() as c:
        for name in set(RECIPIENTS):
            gpg.make(name, name)
        recipients = [base64.b64encode(gpg.public(name)).decode() for name in RECIPIENTS]
        put, a = load.kv2_put(c.client), c.active()
        took_ms = []

        def without():
            return load.bench_open(a.client_port, put, SNAPSHOT_CONNECTIONS, SNAPSHOT_RATE,
                                   measure.SECONDS)

        def beside():
            with Ceremonies(c, recipients) as ceremonies:
                sample = without()
            took_ms.extend(ceremonies.took_ms)
            return {**sample, "ceremonies": len(ceremonies.took_ms)}

        samples = measure.rounds("ceremony", {"without": without, "beside": beside}, ceiling)
    p99 = [measure.medians(samples, side, "p99_us")[0] / 1000 for side in ("without", "beside")]
    held = statistics.median(each["beside"]["ceremonies"] for each in samples)
    result("ceremony", measure.ratios(samples, "beside", "without", "p99_us"), "p99-of-without", 2,
           1.2, most=True, detail=f"{SNAPSHOT_RATE} writes/s: p99 {p99[1]:.2f} ms beside {held:g} "
           f"ceremonies in {measure.SECONDS:g} s, without {p99[0]:.2f} ms; one takes "
           f"{statistics.median(took_ms):.1f} ms")
