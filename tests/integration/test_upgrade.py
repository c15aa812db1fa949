"""A cluster of the previous build is upgraded while it serves: node by node, the active node last.
Then its feature level rises, and a node of the previous build is refused."""

import subprocess
import threading
import time

import golden
import recorder
from activation import become_primary, enable, make_token, status
from cluster import HOLDFAST, PATIENCE_S, STEADY, TOP, Recoverable
from writers import SEED, Repeater

LEVEL = 6  # feature level of this build
WRITERS = 4
WRITES_BETWEEN = 20  # acknowledged to each writer before the next node stops
MOVING = ("kv?list=true", "kv?scan=true",  # the writers write there
          "auth/token/accessors?list=true", "sys/leases/lookup/auth/token/create?list=true")


class Older(Recoverable):
    audited = audit_rules = False  # the previous build knows no audit device


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


def written(node, key):
    """Whether the node's log has a write below `key`."""
    log = subprocess.run([HOLDFAST, "dump", "log", node.data], capture_output=True, text=True,
                         timeout=120, check=True).stdout
    return f"put {key}" in log


def make_tokens(filler, name, ttl):
    """A token that expires soon, and one that ends with its child at the end of the test."""
    filler.token(f"{name} soon", policies=["app"], ttl=ttl)
    filler.token(f"{name} parent", policies=["maker"], ttl="1h")
    filler.token(f"{name} child", by=f"{name} parent", policies=["default"], ttl="30m")
    filler.token(f"{name} revoked", policies=["maker"], ttl="1h")
    filler.token(f"{name} left", by=f"{name} revoked", policies=["default"], ttl="30m")
    filler.call("POST", "auth/token/revoke", {"token": filler.tokens[f"{name} revoked"]})


def await_removed(filler, *names):
    """Until the records of the tokens are deleted: only an entry of the expiry index, or a mark,
    leads to them."""
    await_true(f"{names} are removed", lambda: not {filler.accessors[name] for name in names} & set(
        filler.call("GET", "auth/token/accessors?list=true")["data"]["keys"]))


def go_back(cluster, older, filler, writers):
    """Before the level rises, a node of the build before can take over: it expires what this build
    has made."""
    first, active = cluster.standbys()[0], cluster.active()
    filler.node = active
    make_tokens(filler, "held", "12s")
    assert not any(written(active, key) for key in ("s/expire/", "s/unfinished/"))
    assert written(active, "s/ns/root/expire/") and written(active, "s/ns/root/revoked/")
    assert first.stop() == 0, first.log_text()[-2000:]
    first.program = older
    first.start()
    cluster.await_up()
    assert active.stop() == 0, active.log_text()[-2000:]
    if cluster.active() is not first:
        assert cluster.active().call("PUT", "/v1/sys/step-down", token=cluster.token).status == 204
    await_true("the older build leads", lambda: cluster.active() is first)
    filler.node = first
    await_removed(filler, "held soon", "held left")
    active.start()
    cluster.await_up()
    await_writes(writers)
    first.program = HOLDFAST
    assert first.stop() == 0, first.log_text()[-2000:]
    first.start()
    cluster.await_up()
    filler.node = cluster.active()


def refuse_later_records(cluster):
    """An older build would take an attempt for the holders of PGP keys for none."""
    key = (TOP / "tests" / "unit" / "crypto" / "data" / "pgp" / "curve25519.asc").read_text()
    answer = cluster.active().call("PUT", "/v1/sys/generate-root/attempt", {"pgp_key": key},
                                   cluster.token)
    assert answer.status == 503 and "feature level 2" in answer.json["errors"][0], answer.body


def upgrade(cluster, writers, older, filler):
    """The level stays while a member is older, and while an operator holds it."""
    active = filler.node = cluster.active()
    for node in cluster.standbys():
        await_writes(writers)
        assert node.stop() == 0, node.log_text()[-2000:]
        node.program = HOLDFAST
        node.start()
        cluster.await_up()
    await_writes(writers)
    make_tokens(filler, "old", "40s")
    assert active.stop() == 0, active.log_text()[-2000:]
    hold_level(cluster, True)
    active.program = HOLDFAST
    active.start()
    cluster.await_up()
    await_true("every member reports", lambda: cluster.feature_level() == (1, [LEVEL] * 3))
    await_writes(writers)
    assert cluster.feature_level() == (1, [LEVEL] * 3)
    refuse_later_records(cluster)
    go_back(cluster, older, filler, writers)
    await_true("every member reports", lambda: cluster.feature_level() == (1, [LEVEL] * 3))
    make_tokens(filler, "last", "10s")
    hold_level(cluster, False)
    await_true("the level rises", lambda: cluster.feature_level() == (LEVEL, [LEVEL] * 3))
    await_writes(writers)


def check_expiries(cluster, filler):
    """The keys of the build before are moved, none is lost and none stays."""
    active = filler.node = cluster.active()
    await_true("the former keys are moved", lambda: [
        metric(cluster, node, "holdfast_expiry_former_keys") for node in cluster.nodes] == [0] * 3)
    make_tokens(filler, "new", "1s")
    assert written(active, "s/expire/") and written(active, "s/unfinished/")
    for build in ("old", "held", "last"):  # a renewal moves the entry of what another build made
        for name in (f"{build} parent", f"{build} child"):
            filler.call("POST", "auth/token/renew",
                        {"token": filler.tokens[name], "increment": "2h"})
    await_removed(filler, *(f"{build} {name}" for build in ("old", "held", "last", "new")
                            for name in ("soon", "left", "revoked")))
    filler.call("POST", "auth/token/revoke", {"token": filler.tokens["held parent"]})
    await_removed(filler, "held parent", "held child")
    await_true("no entry is left of what has ended", lambda: (
        metric(cluster, active, "holdfast_expiry_entries"),
        metric(cluster, active, "holdfast_expiry_unfinished"),
    ) == (metric(cluster, active, "holdfast_leases"), 0))
    assert metric(cluster, active, "holdfast_expiry_put_off_total") == 0


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
    made = Older(config=STEADY, program=older)
    for node in made.nodes:
        del recorder.clusters[node.client_port]  # the document is about this build's replies
    stop = threading.Event()
    with made as cluster:
        filler = golden.Filler(cluster)
        golden.fill(filler)
        await_expired(filler)
        info = filler.call("GET", "kv/plain", headers={"X-Secrets-Wrap-TTL": "1h"})["wrap_info"]
        before = [r for r in golden.replies(filler) if r["path"] not in MOVING]
        writers = [Repeater(cluster, n, stop, SEED) for n in range(WRITERS)]
        for writer in writers:
            writer.start()
        try:
            upgrade(cluster, writers, older, filler)
            check_expiries(cluster, filler)
        finally:
            stop.set()
            for writer in writers:
                writer.join(PATIENCE_S)
        check_writes(cluster, writers)
        assert sum(writer.repeated for writer in writers) > 0  # of each node that was stopped
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
        assert [metric(cluster, node, "holdfast_feature_level") for node in cluster.nodes] == [LEVEL] * 3
        refuse_older(cluster, older)
        check_writes(cluster, writers)


def test_the_previous_build_cannot_be_a_secondary():
    """It knows no disaster recovery. Its refusal leaves the primary and the token as they were."""
    made = Older(size=1, program=previous_program())
    del recorder.clusters[made.nodes[0].client_port]
    with Recoverable(size=1) as primary, made as older, Recoverable(size=1) as newer:
        become_primary(primary)
        token = make_token(primary, "b")
        told = enable(older.nodes[0], token, primary)
        assert told.status in (404, 501), told.body
        assert older.nodes[0].call("GET", "/v1/sys/replication/dr/status").data == {
            "mode": "disabled"}
        seen = status(primary.nodes[0])
        assert seen["known_secondaries"] == ["b"] and seen["secondaries"] == []
        assert older.nodes[0].call("PUT", "/v1/kv/mine", {"x": "1"}).status == 204
        newer.await_feature_level()
        told = enable(newer.nodes[0], token, primary)
        assert told.status == 200, told.body
        newer.await_until(lambda: status(newer.nodes[0])["state"] == "stream-wals")
