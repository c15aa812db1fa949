"""Rows of disaster recovery: what a secondary fetches that fell behind, and how fast it catches up."""

import concurrent.futures
import datetime
import json
import os
import re
import time

import measure
import nodes  # noqa: F401  (the path of the integration tests)
from activation import become_primary, call, status
from cluster import Recoverable, merged
from measure import result
from nodes import OWN, VALUE
from test_dr_pair import await_equal, follow, seen

COUNT = int(os.environ.get("HOLDFAST_DR_KEYS", "1000000"))
CHANGED = 100  # one key of so many changes
WRITERS = 8
OVERRUN = 76  # writes of a megabyte: more than the WAL in memory holds


class Member(Recoverable):
    """A cluster of one node, whose program is as in production."""

    audited = recorded = False

    def __init__(self):
        super().__init__(size=1, config=merged(OWN, {}))


def put_all(node, numbers, value):
    """Write keys over kept connections; returns the writes a second."""
    token = node.cluster.token

    def put(part):
        connection = node.connect()
        for number in part:
            connection.request("PUT", f"/v1/kv/bench/{number:08}", value,
                               {"X-Secrets-Token": token})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 204, answer.status
        connection.close()

    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(put, [numbers[i::WRITERS] for i in range(WRITERS)]))
    return len(numbers) / (time.monotonic() - start)


def changed_value():
    return json.dumps({**json.loads(VALUE), "changed": "1"})


def overrun(node):
    for i in range(OVERRUN):
        call(node, "PUT", "/v1/kv/large", {"x": f"{i:07}" * 140000}, status=204)
    call(node, "PUT", "/v1/kv/large", {"x": "small"}, status=204)


def first_bytes(node):
    """Bytes of content of the first sync, as the primary's log tells."""
    return int(re.search(r"got version \d+: (\d+) bytes", node.log_text())[1])


def catch_up(primary, secondary, count):
    """Writes that a secondary applies a second behind a primary that is quiet, and what the primary
    took them at."""
    node = secondary.nodes[0]
    node.kill()
    live = put_all(primary.nodes[0], range(count), VALUE)
    wanted = status(primary.nodes[0])["version"]
    node.start()
    secondary.await_until(lambda: seen(node).get("version", 0) >= wanted)
    end = time.time()
    line = re.findall(r'"@timestamp":"([^"]+)".*from version (\d+)"', node.log_text())[-1]
    start = datetime.datetime.fromisoformat(line[0].replace("Z", "+00:00")).timestamp()
    return (wanted - int(line[1])) / (end - start), live


def drdiff(count):
    """Bytes of the difference and of the first sync; rates of catching up and of the writes."""
    with Member() as primary, Member() as secondary:
        become_primary(primary)
        put_all(primary.nodes[0], range(count), VALUE)
        follow(primary, secondary)
        await_equal(primary, secondary)
        whole = first_bytes(primary.nodes[0])
        secondary.nodes[0].kill()
        put_all(primary.nodes[0], range(0, count, CHANGED), changed_value())
        overrun(primary.nodes[0])
        secondary.nodes[0].start()
        secondary.await_until(lambda: seen(secondary.nodes[0]).get("difference_syncs", 0) > 0)
        part = status(secondary.nodes[0])["difference_bytes"]
        await_equal(primary, secondary)
        return part, whole, *catch_up(primary, secondary, min(count, 20000))


def row_drdiff():
    part, whole, caught, live = drdiff(COUNT)
    measure.raw_data["drdiff"] = {"difference_bytes": part, "first_bytes": whole,
                                  "caught_up_per_s": caught, "live_per_s": live, "keys": COUNT}
    result("drdiff", [part / whole], "bytes-of-first-sync", 0.1, 0.03, most=True,
           detail=f"1 % of {COUNT} keys changed: {part} bytes, the first sync has {whole}")
    result("drdiff", [caught / live], "catch-up-of-live", 2, 5,
           detail=f"{caught:.0f} writes/s caught up, {live:.0f} writes/s by {WRITERS} connections")
