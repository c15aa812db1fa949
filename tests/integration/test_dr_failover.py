"""Changes of roles while nodes end: each step is done or can be repeated, and what was confirmed is
there."""

import concurrent.futures
import os
import re
import subprocess
import threading
import time

import pytest

from activation import (
    DR, await_mode, become_primary, call, error, make_token, operation_token, status,
)
from cluster import HOLDFAST, PATIENCE_S
from dr_link import TO_SECONDARY, Link
from test_dr_faults import Load, follow, linked
from test_dr_fencing import One, follow_again
from test_dr_pair import await_equal, await_state, promote, seen

PUT = re.compile(r"put s/ns/root/data/[0-9a-f-]+/k/load/(\d+)/(\d+) ")


def written(node):
    """The writes of the load in the order of the log of a node that has ended."""
    done = subprocess.run([HOLDFAST, "dump", "log", str(node.data)], capture_output=True, text=True,
                          timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return [(int(i), int(n)) for i, n in PUT.findall(done.stdout)]


def present(node, writers):
    return {(i, int(n)) for i in range(writers)
            for n in call(node, "LIST", f"/v1/kv/load/{i}").data["keys"]}


class Lent:
    """What clients of the primary hold when it is lost."""

    def __init__(self, node):
        made = call(node, "POST", "/v1/auth/token/create", {"policies": ["root"], "ttl": "1h"}).json
        self.token, self.accessor = made["auth"]["client_token"], made["auth"]["accessor"]
        child = call(node, "POST", "/v1/auth/token/create", {"ttl": "30m"}, self.token).json
        self.child = child["auth"]["client_token"]
        call(node, "PUT", "/v1/cubbyhole/mine", {"x": "kept"}, self.token, status=204)
        wrapped = node.call("GET", "/v1/cubbyhole/mine", token=self.token,
                            headers={"X-Secrets-Wrap-TTL": "30m"})
        self.wrapped = wrapped.json["wrap_info"]["token"]
        call(node, "POST", "/v1/two/data/versioned", {"data": {"n": 1}})
        call(node, "POST", "/v1/two/data/versioned", {"data": {"n": 2}})

    def check(self, node):
        """They count on a promoted cluster, and can be used, renewed and revoked there."""
        told = call(node, "GET", "/v1/auth/token/lookup-self", token=self.child).data
        assert 0 < told["ttl"] <= 1800
        assert call(node, "POST", "/v1/auth/token/renew-self", {"increment": "20m"},
                    self.child).json["auth"]["lease_duration"] <= 1200
        leases = call(node, "LIST", "/v1/sys/leases/lookup/auth/token/create").data["keys"]
        assert len(leases) >= 2
        assert call(node, "GET", "/v1/cubbyhole/mine", token=self.token).data == {"x": "kept"}
        assert call(node, "POST", "/v1/sys/wrapping/unwrap", {}, self.wrapped).data == {"x": "kept"}
        assert node.call("POST", "/v1/sys/wrapping/unwrap", {}, token=self.wrapped).status == 400
        assert call(node, "GET", "/v1/two/data/versioned?version=1").data["data"] == {"n": 1}
        call(node, "POST", "/v1/auth/token/revoke-accessor", {"accessor": self.accessor}, status=204)
        assert node.call("GET", "/v1/auth/token/lookup-self", token=self.child).status == 403


def test_an_unplanned_failover_under_load_loses_a_tail_alone():
    with Link() as link, linked(link) as a, One() as b:
        become_primary(a)
        call(a.node, "POST", "/v1/sys/mounts/two", {"type": "kv", "options": {"version": "2"}},
             status=204)
        lent = Lent(a.node)
        follow(a, b, "b")
        await_state(b, "stream-wals")
        await_equal(a, b)
        with Load(a, "load") as load:
            load.await_more(300)
            link.held.add(TO_SECONDARY)
            load.await_more(100)
            call(a.node, "POST", "/v1/two/data/versioned", {"data": {"n": 3}})
            confirmed = max(p["last_remote_wal"] for p in status(a.node)["secondaries"])
            a.node.kill()
        acked = {(i, n) for i, last in enumerate(load.acked) for n in range(1, last + 1)}
        link.cut()
        token = operation_token(b.nodes, a.recovery_keys)
        promote(b.node, token, force=True)
        await_mode(b, "primary")
        b.token = a.token
        b.await_up()
        log, have = written(a.node), present(b.node, len(load.acked))
        assert acked <= set(log) and len(log) == len(set(log))
        assert set(log[:len(have)]) == have  # all that is missing lies behind all that is there
        assert 0 < len(have) < len(acked)
        assert confirmed <= status(b.node)["version"]
        lent.check(b.node)
        b.link = link
        comes_back(a, b, len(log) - len(have))


def comes_back(a, b, lost):
    """The former primary, with writes that its successor never got."""
    link = b.link
    link.heal()
    a.node.start()
    a.await_until(lambda: seen(a.node).get("mode") == "primary")
    call(a.node, "POST", f"{DR}/primary/demote")
    await_mode(a, "secondary")
    follow_again(a, b, a.recovery_keys)
    await_equal(b, a)
    told = status(a.node)
    assert told["lost_writes"] >= lost
    body = {"dr_operation_token": operation_token(a.nodes, a.recovery_keys),
            "file": told["lost_writes_file"]}
    read = call(a.node, "POST", f"{DR}/secondary/lost-writes", body, "").data
    assert len([w for w in read["writes"] if w["decrypted"]]) == len(read["writes"]) > 0


def test_a_write_that_waits_for_a_secondary_is_told_that_its_primary_was_superseded():
    """In sync mode: no secondary has the write when another cluster's epoch is heard."""
    with Link() as link, linked(link) as a, One() as b:
        become_primary(a)
        follow(a, b, "b")
        await_state(b, "stream-wals")
        await_equal(a, b)
        body = {"sync": True, "sync_timeout_ms": 5000}
        call(a.node, "POST", f"{DR}/primary/settings", body, status=204)

        def is_confirmed():
            told = call(a.node, "PUT", "/v1/kv/shipped", {"x": "1"}, status=204)
            return told.headers.get("X-Replication-Confirmed") == "true"

        a.await_until(is_confirmed)
        link.cut()
        promote(b.node, operation_token(b.nodes, a.recovery_keys), force=True)
        await_mode(b, "primary")
        b.token = a.token
        b.await_up()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            reply = pool.submit(a.node.call, "PUT", "/v1/kv/held", {"x": "1"})
            a.await_until(lambda: a.node.metric("holdfast_dr_sync_mode_waiting") == 1)
            link.heal()
            told = reply.result()
        error(told, 500, "the change was made here", "it may be lost")
        assert "X-Replication-Confirmed" not in told.headers
        a.await_until(lambda: "superseded" in seen(a.node).get("reason", ""))
        error(a.node.call("PUT", "/v1/kv/late", {"x": "1"}), 503, "superseded")
        assert call(b.node, "GET", "/v1/kv/shipped").data == {"x": "1"}
        assert b.node.call("GET", "/v1/kv/held").status == 404


class Turn:
    """A pair whose roles change again and again: `first` is the primary."""

    def __init__(self, a, b):
        self.first, self.second, self.keys = a, b, a.recovery_keys

    def swap(self):
        self.first, self.second = self.second, self.first

    def authority(self, cluster):
        return operation_token(cluster.nodes, self.keys)


@pytest.fixture(scope="module")
def turn():
    with One() as a, One() as b:
        become_primary(a)
        follow(a, b, "b")
        await_state(b, "stream-wals")
        b.token = a.token
        yield Turn(a, b)


def killed(node, step, when):
    """Take a step, and kill the node in the middle: so many seconds after it began, or as soon as
    `when` holds. Then the node is started again."""
    def take():
        try:
            step()
        except OSError:
            pass  # the node was killed

    thread = threading.Thread(target=take)
    thread.start()
    if callable(when):
        deadline = time.monotonic() + PATIENCE_S
        while not when():
            assert time.monotonic() < deadline
    else:
        time.sleep(when)
    node.kill()
    thread.join(PATIENCE_S)
    node.start()


def mode(cluster):
    return seen(cluster.node).get("mode")


def await_known(cluster):
    cluster.await_until(lambda: mode(cluster) in ("primary", "secondary") and
                        cluster.node.health() in (200, 472))


def demote(turn, when):
    first = turn.first
    killed(first.node, lambda: first.node.call("POST", f"{DR}/primary/demote"),
           (lambda: mode(first) == "secondary") if when is None else when)
    await_known(first)
    if mode(first) == "primary":  # it was not done: done again
        first.await_up()
        call(first.node, "POST", f"{DR}/primary/demote")
    first.await_until(lambda: seen(first.node).get("state") == "idle" and mode(first) == "secondary")


def take_over(turn, when):
    second = turn.second
    body = {"dr_operation_token": turn.authority(second), "force": True}
    wanted = status(turn.first.node)["version"]
    second.await_until(lambda: seen(second.node).get("version") == wanted)
    path = f"{DR}/secondary/promote"
    killed(second.node, lambda: second.node.call("POST", path, body, token=""),
           (lambda: mode(second) == "primary") if when is None else when)
    await_known(second)
    if mode(second) == "secondary":
        promote(second.node, body["dr_operation_token"], force=True)
    await_mode(second, "primary")
    second.await_up()


@pytest.mark.parametrize("when", [0, 0.004, None])
def test_nodes_that_end_during_a_change_of_roles(turn, when):
    epoch, name = status(turn.first.node)["epoch"], f"turn/{when}"
    call(turn.first.node, "PUT", f"/v1/kv/{name}", {"x": "1"}, status=204)
    demote(turn, when)
    take_over(turn, when)
    assert status(turn.second.node)["epoch"] == epoch + 1
    assert call(turn.second.node, "GET", f"/v1/kv/{name}").data == {"x": "1"}
    call(turn.second.node, "PUT", f"/v1/kv/{name}/2", {"x": "2"}, status=204)
    turn.swap()
    follow_again(turn.second, turn.first, turn.keys)
    await_equal(turn.first, turn.second)


def failback(turn, **options):
    env = {**os.environ, "HOLDFAST_TOKEN": turn.first.token, **options["env"],
           "HOLDFAST_CACERT": str(turn.first.dir / "both.pem")}
    return subprocess.Popen(
        [HOLDFAST, "operator", "dr", "failback", f"-address={turn.second.node.url}",
         f"-other={turn.first.node.url}", "-name=again",
         f"-ca-file={turn.second.dir / 'tls' / 'tls-ca.pem'}"],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("word", ["Demoting", "Promoting", "Letting"])
def test_a_failback_that_was_interrupted_goes_on(turn, word):
    """At each step: the command is killed when it says that the step begins."""
    first, second = turn.first, turn.second
    both = "".join((c.dir / "tls" / "tls-ca.pem").read_text() for c in (first, second))
    (first.dir / "both.pem").write_text(both)
    rules = 'path "sys/replication/dr/secondary/*" { capabilities = ["update"] }'
    call(first.node, "PUT", "/v1/sys/policy/operator", {"policy": rules}, status=204)
    body = {"policies": ["operator"], "type": "batch", "no_parent": True, "ttl": "1h"}
    token = call(first.node, "POST", "/v1/auth/token/create", body).json["auth"]["client_token"]
    await_equal(first, second)
    env = {"HOLDFAST_DR_TOKEN": token}
    process, said = failback(turn, env=env), ""
    for line in process.stdout:
        said += line
        if line.startswith(word):
            break
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    assert word in said, said
    for _ in range(2):  # the second time there is nothing left to do
        process = failback(turn, env=env)
        said, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said
    assert "Success!" in said
    turn.swap()
    assert mode(turn.first) == "primary" and seen(turn.second.node)["state"] == "stream-wals"
    await_equal(turn.first, turn.second)


@pytest.mark.parametrize("who", ["primary", "secondary"])
@pytest.mark.parametrize("kind", ["first", "difference"])
def test_a_node_that_ends_during_a_sync(who, kind):
    with Link() as link, linked(link) as a, One() as c:
        become_primary(a)
        for i in range(40):
            call(a.node, "PUT", f"/v1/kv/big/{i}", {"x": os.urandom(10000).hex()}, status=204)
        if kind == "difference":
            follow(a, c, "c")
            await_state(c, "stream-wals")
            await_equal(a, c)
            token = operation_token(c.nodes, a.recovery_keys)
            link.held.add(TO_SECONDARY)
            call(c.node, "POST", f"{DR}/secondary/recover", {"dr_operation_token": token}, "")
            state = "merkle-diff"
        else:
            link.rate = 64 * 1024
            follow(a, c, "c")
            state = "merkle-sync"
        c.await_until(lambda: seen(c.node).get("state") == state)
        ends = a if who == "primary" else c
        ends.node.kill()
        ends.node.start()
        call_later(a)
        link.heal()
        await_state(c, "stream-wals")
        await_equal(a, c)


def call_later(a):
    """The primary serves, and goes on to write."""
    a.await_up()
    call(a.node, "PUT", "/v1/kv/later", {"x": "1"}, status=204)
