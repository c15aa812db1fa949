"""A cluster of the previous build is upgraded while it serves: node by node, the active node last.
Then its feature level rises, and a node of the previous build is refused."""

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


def hold_level(cluster, hold):
    answer = cluster.active().call("POST", "/v1/sys/storage/raft/autopilot/configuration",
                                   {"auto_raise": not hold}, cluster.token)
    assert answer.status == 204, answer.body


def upgrade(cluster, writers):
    """The level stays while a member is older, and while an operator holds it."""
    active = cluster.active()
    for node in cluster.standbys():
        await_writes(writers)
        assert node.stop() == 0, node.log_text()[-2000:]
        node.program = HOLDFAST
        node.start()
        cluster.await_up()
    await_writes(writers)
    assert active.stop() == 0, active.log_text()[-2000:]
    hold_level(cluster, True)
    active.program = HOLDFAST
    active.start()
    cluster.await_up()
    await_true("every member reports", lambda: cluster.feature_level() == (1, [2, 2, 2]))
    await_writes(writers)
    assert cluster.feature_level() == (1, [2, 2, 2])
    hold_level(cluster, False)
    await_true("the level rises", lambda: cluster.feature_level() == (2, [2, 2, 2]))
    await_writes(writers)


def metric(cluster, node, name):
    text = node.call("GET", "/v1/sys/metrics?format=prometheus", token=cluster.token).body.decode()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


def refuse_older(cluster, older):
    """A node that goes back to the build before is refused by the others, and serves nothing."""
    node = cluster.standbys()[0]
    assert node.stop() == 0, node.log_text()[-2000:]
    node.program = older
    node.start()
    why = f"node {node.name}: its build is older than the cluster's feature level: upgrade it"
    await_true("the older build is refused", lambda: all(
        why in other.log_text() for other in cluster.nodes if other is not node))
    assert node.call("POST", "/v1/kv/older", {"v": "1"}, cluster.token).status == 503
    node.kill()
    node.program = HOLDFAST
    node.start()
    cluster.await_up()


def check_writes(cluster, writers):
    assert [text for writer in writers for text in writer.wrong] == []
    for node in cluster.nodes:
        connection = node.connect()
        for writer in writers:
            writer.check_end(node, connection)
        connection.close()
    cluster.await_equal_roots()


def test_no_acknowledged_write_is_lost_while_nodes_are_replaced():
    older = previous_program()
    made = Recoverable(config=STEADY, program=older)
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
        assert [metric(cluster, node, "holdfast_feature_level") for node in cluster.nodes] == [2] * 3
        refuse_older(cluster, older)
        check_writes(cluster, writers)
