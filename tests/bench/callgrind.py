"""Instructions that nodes execute for a request, counted by valgrind's callgrind.

A node runs under callgrind from its start, with nothing counted; then a fixed number of requests is
counted, one after the other on one connection, so that neither the machine's load nor its speed
shows in the figure."""

import os
import re
import subprocess
import time

from nodes import TIED

WARM_UP = 400
COUNTED = 150
ROUNDS, ROUNDS_MAX = 3, 24
IDLE_S = 1
CONTROL_TIMEOUT_S = 120


def start(node):
    """The node under callgrind, counting nothing yet. On one processor its threads take turns the
    same way every time: how often they wake each other is a tenth of the figures."""
    pin = ["taskset", "-c", str(max(os.sched_getaffinity(0)))]
    node.start(prefix=[
        *TIED, *pin, "valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no",
        "--combine-dumps=no", f"--callgrind-out-file={node.dir}/callgrind",
    ])


def control(node, *command):
    subprocess.run(["vgdb", f"--pid={node.process.pid}", *command], check=True,
                   capture_output=True, timeout=CONTROL_TIMEOUT_S)


def collected(node):
    """Instructions since the last `zero`, and forgets them."""
    control(node, "dump")
    dumps = list(node.dir.glob("callgrind.*"))
    newest = max(dumps, key=lambda path: int(path.suffix[1:]))
    total = int(re.search(r"^(?:summary|totals): (\d+)", newest.read_text(), re.M)[1])
    for path in dumps:
        path.unlink()
    return total


def counted(nodes, work):
    """Instructions of all these nodes while work() runs, and the seconds that took."""
    for node in nodes:
        control(node, "zero")
    start = time.monotonic()
    work()
    took = time.monotonic() - start
    return sum(collected(node) for node in nodes), took


def per_request(nodes, connection, make, most=None):
    """Instructions of all these nodes for one request; make(i) gives the bytes of the i-th. Timers
    run beside the requests, and the more of them the slower the machine: what idle nodes do in as
    many seconds is taken off. The least of the rounds: what else a node does only adds. On a busy
    machine that is more in each round, so there are more rounds while all of them took more than
    `most`."""
    def run(count):
        for i in range(count):
            status = connection.call(make(i))
            assert 200 <= status < 300, status

    for node in nodes:
        control(node, "instrumentation", "on")
    run(WARM_UP)
    idle, seconds = counted(nodes, lambda: time.sleep(IDLE_S))
    idle /= seconds
    rounds = []
    while len(rounds) < ROUNDS or most and min(rounds) > most and len(rounds) < ROUNDS_MAX:
        work, seconds = counted(nodes, lambda: run(COUNTED))
        rounds.append((work - idle * seconds) / COUNTED)
    return min(rounds)
