"""Row audit: requests with audit devices beside the same requests without one."""

import contextlib
import itertools
import os

import rows_rates
from load import kv2_get, kv2_put, wrk
from measure import ratios, result, rounds
from nodes import Nodes


def enable(cluster, name, path):
    """A file device of that name; the nodes, which share the machine, append to one file."""
    answer = cluster.active().call("PUT", f"/v1/sys/audit/{name}",
                                   {"type": "file", "options": {"file_path": str(path)}})
    assert answer.status == 204, answer.body


def disable(cluster, name):
    answer = cluster.active().call("DELETE", f"/v1/sys/audit/{name}")
    assert answer.status == 204, answer.body


@contextlib.contextmanager
def enabled(cluster, name, path):
    enable(cluster, name, path)
    try:
        yield
    finally:
        disable(cluster, name)


@contextlib.contextmanager
def deaf_reader(path):
    """A FIFO that is open for reading and never read."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield path
    finally:
        os.close(reader)


def row_audit():
    with Nodes() as cluster:
        a = rows_rates.readable(cluster, cluster.active(), "audit filled")
        put, get = kv2_put(cluster.client), kv2_get(cluster.client)
        log = cluster.dir / "audit.log"

        def with_file(run):
            def side():
                with enabled(cluster, "file", log):
                    sample = run()
                log.write_bytes(b"")
                return sample
            return side

        writes, reads = lambda: wrk(a.url, put), rows_rates.reader(a.url, get)
        for name, run in (("writes", writes), ("reads", reads)):
            samples = rounds("audit", {"with": with_file(run), "without": run},
                             rows_rates.ceiling)
            result("audit", ratios(samples, "with", "without"), f"{name}-without-a-device", 0.7,
                   0.85, detail=rows_rates.all_described(samples, "with", "without"))

        names = itertools.count()

        def with_hung():
            with deaf_reader(cluster.dir / f"deaf-{next(names)}") as fifo:
                with enabled(cluster, "deaf", fifo):
                    wrk(a.url, put, seconds=5)  # fills the pipe; the deadline passes once
                    return wrk(a.url, put)

        samples = rounds("audit", {"hung second": with_file(with_hung), "one": with_file(writes)},
                         rows_rates.ceiling)
        result("audit", ratios(samples, "hung second", "one"), "writes-with-one-device", 0.9, 0.98,
               detail=rows_rates.all_described(samples, "hung second", "one"))
