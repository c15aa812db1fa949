"""A cluster of the previous build is upgraded while it serves: node by node, the active node last."""

import subprocess
import threading
import time

import golden
import recorder
from cluster import HOLDFAST, PATIENCE_S, STEADY, TOP, Recoverable
from test_chaos import SEED
from writers import Writer

WRITERS = 4
WRITES_BETWEEN = 20  # acknowledged to each writer before the next node stops
MOVING = ("kv?list=true", "kv?scan=true")  # the writers write there


def previous_program():
    done = subprocess.run([TOP / "tests" / "build-previous"], stdout=subprocess.PIPE, text=True,
                          timeout=3000, check=True)
    return done.stdout.strip()


def await_true(what, condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def await_expired(filler):
    """What was made to expire after a second, and the removal of the token that did."""
    def status(token, path):
        return filler.node.call("GET", f"/v1/{path}", token=filler.tokens[token]).status

    def accessors():
        return filler.call("GET", "auth/token/accessors?list=true")["data"]["keys"]

    await_true("the version expires", lambda: status("root", "secret/data/brief") == 404)
    await_true("the token expires", lambda: status("expired", "kv/app/note") == 403)
    await_true("the token is removed", lambda: filler.accessors["expired"] not in accessors())


def await_writes(writers):
    seen = [writer.ok for writer in writers]
    await_true("every writer writes", lambda: all(
        writer.ok >= before + WRITES_BETWEEN for writer, before in zip(writers, seen)))


def upgrade(cluster, writers):
    active = cluster.active()
    for node in cluster.standbys() + [active]:
        await_writes(writers)
        assert node.stop() == 0, node.log_text()[-2000:]
        node.program = HOLDFAST
        node.start()
        cluster.await_up()
    await_writes(writers)


def check_writes(cluster, writers):
    assert [text for writer in writers for text in writer.wrong] == []
    for node in cluster.nodes:
        connection = node.connect()
        for writer in writers:
            writer.check_end(node, connection)
        connection.close()
    cluster.await_equal_roots()


def test_no_acknowledged_write_is_lost_while_nodes_are_replaced():
    made = Recoverable(config=STEADY, program=previous_program())
    for node in made.nodes:
        del recorder.clusters[node.client_port]  # the document is about this build's replies
    stop = threading.Event()
    with made as cluster:
        filler = golden.Filler(cluster)
        golden.fill(filler)
        await_expired(filler)
        info = filler.call("GET", "kv/plain", headers={"X-Secrets-Wrap-TTL": "1h"})["wrap_info"]
        before = [r for r in golden.replies(filler) if r["path"] not in MOVING]
        writers = [Writer(cluster, n, stop, SEED) for n in range(WRITERS)]
        for writer in writers:
            writer.start()
        try:
            upgrade(cluster, writers)
        finally:
            stop.set()
            for writer in writers:
                writer.join(PATIENCE_S)
        check_writes(cluster, writers)
        for node in cluster.nodes:
            filler.node = node
            assert golden.changed(filler, before) == []
        unwrapped = filler.call("POST", "sys/wrapping/unwrap", {}, info["token"])
        assert unwrapped["data"] == {"v": "written over", "n": 2}
        for node in cluster.nodes:  # what this build wrote, it reads after a crash
            node.kill()
        cluster.start()
        cluster.await_up()
        check_writes(cluster, writers)
