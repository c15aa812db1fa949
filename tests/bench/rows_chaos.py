"""Rows of the tools that prove holdfast, and of service under faults: sim, gap, grey, front, judge."""

import contextlib
import functools
import os
import re
import signal
import statistics
import subprocess
import time

import load
import measure
from measure import medians, ratios, result, rounds
from nodes import TIED, TOP, VALUE2, Nodes
from rows_faults import Writers
from rows_rates import ceiling, ours

ELECTION_MS = 1000  # the default of the program
PAUSES = int(os.environ.get("HOLDFAST_PAUSES", "15"))
PAUSED_S = 3
TRY_S = 0.05  # requests to the node that stands still get no reply: the next ones follow soon
SLOW_US = 20000  # what grey adds to each sync of one node
GREY_RATE = 500  # writes a second
TURNS_MAX = 30  # of leadership, until a certain node has it
GREY_CONNECTIONS = 16
SIM_RUNS = 200
ROLL_S = 60
JUDGED_S = 60


def row_sim():
    """The whole state machine of three nodes and more, its clients and their judge."""
    subprocess.run(["cmake", "--preset", "sim"], check=True, cwd=TOP, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "sim", "--target", "sim"], check=True, cwd=TOP,
                   stdout=subprocess.DEVNULL)
    ratios = []
    for i in range(measure.ROUNDS):
        told = subprocess.run(
            [TOP / "build/sim/tests/sim/sim", "--jobs", str(os.cpu_count()), "--campaign",
             str(1 + i * SIM_RUNS), str(SIM_RUNS)],
            check=True, capture_output=True, text=True, cwd=TOP).stdout
        ratios.append(float(re.search(r"\((\d+) times real time\)", told)[1]))
    result("sim", ratios, "of-real-time", 300, 1000, detail=f"{SIM_RUNS} runs a round, all processors")


def pause_ms(cluster, request):
    """From SIGSTOP of the active node to the next acknowledged write, through another one."""
    active = cluster.active()
    others = [n.client_port for n in cluster.nodes if n is not active]
    begun = time.monotonic()
    os.kill(active.process.pid, signal.SIGSTOP)
    try:
        gap = Writers(others, request, TRY_S).first() - begun
        time.sleep(max(0.0, PAUSED_S - gap))
    finally:
        os.kill(active.process.pid, signal.SIGCONT)
    cluster.await_up()
    return 1000 * gap


def row_gap():
    c = ours()
    put = ("PUT", "/v1/kv2/data/gap", VALUE2,
           {"X-Secrets-Token": c.client, "Content-Type": "application/json"})
    gaps = [pause_ms(c, put) for _ in range(PAUSES)]
    measure.raw_data["gap"] = {"pauses_ms": gaps}
    result("gap", [ms / ELECTION_MS for ms in gaps], "election-timeouts", 2.5, 1.5, most=True,
           detail=f"the active node stands still: median {statistics.median(gaps):.0f}, "
           f"max {max(gaps):.0f} ms to the next write; {PAUSES} pauses of {PAUSED_S} s")


def on_disks(delays_us):
    """A cluster whose nodes wait so much longer for their disks."""
    def start(node):
        slow = [load.PROGRAMS / "slow_sync", str(delays_us.get(node.name, 0))]
        node.start(prefix=[*TIED, *map(str, slow)])

    return Nodes(start=start)


def led_by(cluster, fits):
    """The active node, once it is one that fits: others step down."""
    for _ in range(TURNS_MAX):
        active = cluster.active()
        if fits(active):
            return active
        assert active.call("PUT", "/v1/sys/step-down").status == 204
        cluster.await_up()
    raise AssertionError("no node that fits comes to lead")


def row_grey():
    """One node waits for its disk: a standby, and the active one."""
    def write(cluster, slow):
        active = led_by(cluster, lambda node: (node.name in slow) == ("node1" in slow))
        return load.bench_open(active.client_port, load.kv2_put(cluster.client), GREY_CONNECTIONS,
                               GREY_RATE, measure.SECONDS)

    delays = {"healthy": {}, "slow standby": {"node3": SLOW_US}, "slow leader": {"node1": SLOW_US}}
    with contextlib.ExitStack() as stack:
        sides = {side: functools.partial(write, stack.enter_context(on_disks(slow)), slow)
                 for side, slow in delays.items()}
        samples = rounds("grey", sides, ceiling)
    for side, gate, goal in ("slow standby", 2, 1.2), ("slow leader", 10, 3):
        p99 = [medians(samples, name, "p99_us")[0] / 1000 for name in ("healthy", side)]
        result("grey", ratios(samples, side, "healthy", "p99_us"), "p99-of-healthy", gate, goal,
               most=True, detail=f"{side}, {SLOW_US // 1000} ms more a sync: p99 {p99[1]:.2f} ms, "
               f"healthy {p99[0]:.2f} ms, {GREY_RATE} writes/s")


def chaos(workload, nemesis, seconds, front="direct"):
    """One run of jepsen. Returns its verdict."""
    told = subprocess.run([TOP / "jepsen/run", workload, nemesis, "--time", str(seconds), "--seed",
                           "1", "--front", front], capture_output=True, text=True, cwd=TOP)
    assert told.returncode == 0, told.stdout + told.stderr
    name = f"{workload}-{nemesis}{'' if front == 'direct' else '-' + front}-1"
    return (TOP / "build/jepsen" / name / "verdict").read_text()


def row_front():
    """Clients that repeat nothing; nodes end in order, one after the other."""
    verdict = chaos("register", "roll", ROLL_S, "haproxy")
    faults = int(re.search(r"; (\d+) faults", verdict)[1])
    once, lost = map(int, re.search(r"(\d+) requests without a known outcome behind HAProxy, (\d+) of "
                                    r"them lost twice", verdict).groups())
    result("front", [lost / faults], "errors-a-fault", 1, 0, most=True,
           detail=f"{faults} nodes ended in order; {once} replies lost at all, {lost} after one retry")


def row_judge():
    verdict = chaos("append", "isolate+kill", JUDGED_S)
    judged_s = float(re.search(r"judged in ([0-9.]+) s", verdict)[1])
    operations = int(re.search(r"(\d+) operations", verdict)[1])
    result("judge", [judged_s / JUDGED_S], "of-the-run", 1, 0.2, most=True,
           detail=f"{operations} operations in {JUDGED_S} s, judged in {judged_s:.1f} s")
