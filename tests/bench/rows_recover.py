"""The row recover: two of three machines are lost for good, a million keys."""

import http.client
import re
import shutil
import subprocess
import time

import measure
from measure import result
from nodes import VALUE
from rows_faults import attempt
from rows_state import COUNT, filled

ROUNDS = 3  # each ends with two nodes that get the whole state
PATIENCE_S = 300


def command(node, *words):
    """Seconds that `operator raft recover` takes on a node's data directory, and its output."""
    start = time.monotonic()
    done = subprocess.run([node.program, "operator", "raft", "recover", *words, str(node.data)],
                          check=True, stdout=subprocess.PIPE, text=True)
    return time.monotonic() - start, done.stdout


def copied_s(former, copy):
    """Seconds that a durable copy of the former replica takes."""
    start = time.monotonic()
    subprocess.run(["cp", "-r", former, copy], check=True)
    subprocess.run(["sync", "-f", copy], check=True)
    took = time.monotonic() - start
    shutil.rmtree(copy)
    return took


def write_s(node, token):
    """Seconds until a write through the node is acknowledged."""
    start = time.monotonic()
    headers = {"X-Secrets-Token": token, "Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", node.client_port, timeout=10)
    while not attempt(connection, "PUT", "/v1/kv/recover", VALUE, headers):
        assert time.monotonic() < start + PATIENCE_S and node.alive, node.log_text()[-2000:]
        time.sleep(0.01)
    connection.close()
    return time.monotonic() - start


def recover_once(cluster, survivor, lost):
    """Seconds of each part of the documented steps, beyond typing; the former replica's folder."""
    names = [f"-lost={node.name}" for node in lost]
    for node in lost:
        node.kill()
        shutil.rmtree(node.data)
    start = time.monotonic()
    survivor.stop()
    took = {"stop": time.monotonic() - start, "look": command(survivor)[0],
            "look again": command(survivor, *names)[0]}
    took["apply"], said = command(survivor, *names, "-apply")
    former = re.search(r"The former replica stays in (\S+) until", said)[1]
    start = time.monotonic()
    survivor.start()
    while survivor.health() != 200:
        assert time.monotonic() < start + PATIENCE_S and survivor.alive
        time.sleep(0.01)
    took["start"] = time.monotonic() - start
    took["write"] = write_s(survivor, cluster.client)
    return took, former


def await_voters(cluster):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shown = cluster.active().call("GET", "/v1/sys/storage/raft/configuration")
        servers = shown.data["config"]["servers"]
        if len(servers) == 3 and all(server["voter"] for server in servers):
            return
        assert time.monotonic() < deadline, servers
        time.sleep(0.1)


def row_recover():
    c = filled()
    c.fill_kv1()
    survivor, *lost = c.nodes
    parts, copies = [], []
    for _ in range(min(measure.ROUNDS, ROUNDS)):
        c.await_equal_roots()
        took, former = recover_once(c, survivor, lost)
        parts.append(took)
        copies.append(copied_s(former, survivor.dir / "copy"))
        shutil.rmtree(former)
        for node in lost:
            node.start()
        c.await_up()
        await_voters(c)
    totals = [sum(part.values()) for part in parts]
    middle = {name: sorted(part[name] for part in parts)[len(parts) // 2] for name in parts[0]}
    measure.raw_data["recover"] = {"parts_s": parts, "copies_s": copies}
    result("recover", totals, "s", 30, 5, most=True,
           detail=f"{COUNT} keys: " + ", ".join(f"{name} {s:.2f} s" for name, s in middle.items()) +
           f"; cp and sync of the former replica take {sorted(copies)[len(copies) // 2]:.2f} s")
