"""Rehearsals of a promotion: the drill, and the list of what stands in the way."""

import json
import os
import socketserver
import subprocess
import threading
import time

import pytest

from activation import DR, become_primary, call, error, operation_token, status
from cluster import HOLDFAST, TOP
from test_dr_diff import flip_behind
from test_dr_fencing import One, follow
from test_dr_pair import await_equal, await_position, seen

DRILL = f"{DR}/secondary/drill"
PROMOTE = f"{DR}/secondary/promote"


def batch_token(cluster, name, rules, ttl, **role):
    """A batch token with one policy; it counts on the secondary too."""
    call(cluster.node, "PUT", f"/v1/sys/policy/{name}", {"policy": rules}, status=204)
    body, path = {"policies": [name], "type": "batch", "no_parent": True, "ttl": ttl}, "create"
    if role:
        role = {"allowed_policies": [name], "orphan": True, "renewable": False,
                "token_type": "batch", **role}
        call(cluster.node, "POST", f"/v1/auth/token/roles/{name}", role, status=204)
        body, path = {"ttl": ttl}, f"create/{name}"
    return call(cluster.node, "POST", f"/v1/auth/token/{path}", body).json["auth"]["client_token"]


PROMOTES = 'path "sys/replication/dr/secondary/promote" { capabilities = ["update"] %s }'
# what the policy adds or the role of the token says; the body; the status
JUDGED = {
    "denied, absent": ("denied_parameters = { force = [] }", {}, {}, 200),
    "denied": ("denied_parameters = { force = [] }", {}, {"force": False}, 403),
    "denied value": ('denied_parameters = { force = ["true"] }', {}, {"force": False}, 200),
    "allowed": ("allowed_parameters = { preflight = [] }", {}, {}, 200),
    "not allowed": ("allowed_parameters = { preflight = [] }", {}, {"force": False}, 403),
    "required": ('required_parameters = ["force"]', {}, {"force": False}, 200),
    "required, absent": ('required_parameters = ["force"]', {}, {}, 403),
    "its network": ("", {"token_bound_cidrs": ["127.0.0.0/8"]}, {}, 200),
    "another network": ("", {"token_bound_cidrs": ["192.0.2.0/24"]}, {}, 400),
}


@pytest.fixture(scope="module")
def pair():
    with One() as primary, One() as secondary:
        become_primary(primary)
        call(primary.node, "POST", "/v1/sys/mounts/two", {"type": "kv", "options": {"version": "2"}},
             status=204)
        primary.audit = primary.dir / "audit"
        primary.audit.mkdir()
        body = {"type": "file", "options": {"file_path": str(primary.audit / "extra.log")}}
        call(primary.node, "PUT", "/v1/sys/audit/extra", body, status=204)
        for i in range(50):
            call(primary.node, "PUT", f"/v1/kv/many/{i}", {"x": "y" * i}, status=204)
            call(primary.node, "POST", "/v1/two/data/versions", {"data": {"n": i}})
        rules = f'path "{DR[4:]}/secondary/*" {{ capabilities = ["update"] }}'
        primary.soon = batch_token(primary, "operator", rules, "2h")
        primary.powerless = batch_token(primary, "other", 'path "kv/*" { capabilities = ["read"] }',
                                        "2h")
        primary.judged = {
            name: batch_token(primary, f"judged-{i}", PROMOTES % rule, "30h", **role)
            for i, (name, (rule, role, _, _)) in enumerate(JUDGED.items())}
        follow(primary, secondary, "b")
        await_equal(primary, secondary)
        primary.operator = operation_token(secondary.nodes, primary.recovery_keys)
        yield primary, secondary


def drill(pair, **body):
    primary, secondary = pair
    body = {"dr_operation_token": primary.operator, **body}
    return call(secondary.node, "POST", DRILL, body, "").data


def status_with_its_root(cluster):
    """The root of the status is the last computed one: awaits that of its version."""
    told = {}

    def has_its_root():
        told.update(status(cluster.node))
        return told["root_version"] == told["version"]

    cluster.await_until(has_its_root)
    return told


def test_a_drill_reads_a_copy_and_leaves_no_trace(pair):
    primary, secondary = pair
    before = status_with_its_root(secondary)
    told = drill(pair)
    assert told["passed"] and told["complete"] and told["own_seal"]
    assert told["version"] == before["version"]
    assert told["merkle_root"] == before["merkle_root"]
    assert (told["epoch"], told["epoch_after"]) == (1, 2)
    assert told["keys"] == told["keys_total"] > told["values"] > 60
    assert told["mounts"] >= 5 and told["policies"] >= 3 and told["tokens"] >= 1
    assert told["bytes"] > 1225 and told["duration_ms"] < 60000
    assert told["lag_entries"] == 0 and 0 <= told["last_heard_ms"] < 60000
    assert told["damage"] == [] and told["wrong_hashes"] == told["unreadable"] == 0
    checks = {check["check"]: check["result"] for check in told["checks"]}
    assert checks["change"] == "ok" and not told["ready"] and checks["primary"] == "forceable"
    after = status_with_its_root(secondary)
    for name in ("mode", "state", "epoch", "version", "merkle_root", "difference_syncs"):
        assert after[name] == before[name]
    call(primary.node, "PUT", "/v1/kv/after", {"x": "1"}, status=204)
    await_equal(primary, secondary)  # it followed on
    assert not seen(secondary.node)["corrupted_merkle_tree"]


def test_a_drill_needs_a_dr_token_on_a_secondary(pair):
    primary, secondary = pair
    node, path = secondary.node, DRILL
    error(node.call("POST", path, {}, token=""), 400, "dr_operation_token: missing")
    error(node.call("POST", path, {"dr_operation_token": "hvs.wrong"}, token=""), 400, "no valid")
    error(node.call("POST", path, {"dr_operation_token": primary.token}, token=""), 400, "no valid")
    assert node.call("POST", path, {"dr_operation_token": primary.powerless}, token="").status == 403
    assert drill(pair, dr_operation_token=primary.soon)["passed"]
    for limit in (0, "10m"):
        body = {"dr_operation_token": primary.operator, "limit": limit}
        error(node.call("POST", path, body, token=""), 400, "limit: from 1 s to 9 m")
    error(primary.node.call("POST", path, {}), 400, "this cluster is no DR secondary")
    assert primary.node.call("POST", path, {}, token="").status in (400, 403)


def test_the_command_shows_the_report(pair):
    primary, secondary = pair
    env = {**os.environ, "HOLDFAST_ADDR": secondary.node.url, "HOLDFAST_DR_TOKEN": primary.operator,
           "HOLDFAST_CACERT": str(secondary.dir / "tls" / "tls-ca.pem")}
    command = [HOLDFAST, "operator", "dr", "drill", "-limit=30s"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, cwd=TOP)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "this cluster's own seal" in done.stdout and "The drill passed" in done.stdout
    done = subprocess.run([*command, "-format=json"], env=env, capture_output=True, text=True,
                          timeout=60, cwd=TOP)
    assert json.loads(done.stdout)["passed"]


def preflight(pair, query=False, **body):
    primary, secondary = pair
    body = {"dr_operation_token": primary.operator, **body}
    path = PROMOTE + "?preflight" if query else PROMOTE
    told = call(secondary.node, "POST", path, body if query else body | {"preflight": True}, "").data
    assert not told["complete"] and status(secondary.node)["mode"] == "secondary"
    return told["ready"], {check["check"]: check for check in told["checks"]}


@pytest.mark.parametrize("name", JUDGED)
def test_a_batch_token_is_judged_as_any_token(pair, name):
    primary, secondary = pair
    _, _, more, status = JUDGED[name]
    body = {"dr_operation_token": primary.judged[name], "preflight": True, **more}
    call(secondary.node, "POST", PROMOTE, body, "", status=status)


def test_a_batch_token_that_ends_soon_is_told(pair):
    _, checks = preflight(pair, dr_operation_token=pair[0].soon)
    assert checks["token"]["result"] == "warning"
    assert checks["token"]["details"].startswith("a batch token, which ends in 11")
    assert preflight(pair)[1]["token"]["result"] == "ok"


def test_the_query_asks_for_the_checks_too(pair):
    for query in ("?preflight", "?preflight=true"):
        body = {"dr_operation_token": pair[0].operator, "force": True}
        told = call(pair[1].node, "POST", PROMOTE + query, body, "").data
        assert told["checks"] and not told["complete"]
    assert status(pair[1].node)["mode"] == "secondary"


def test_what_the_primary_forbids_is_forceable(pair):
    """It serves; and then a secondary that knows of writes which it lacks."""
    primary, secondary = pair
    ready, checks = preflight(pair)
    assert not ready and checks["primary"]["result"] == "forceable"
    body = {"dr_operation_token": primary.operator}
    error(secondary.node.call("POST", PROMOTE, body, token=""), 503, "demote it first")


def test_while_it_syncs_there_is_nothing_to_promote(pair):
    primary, secondary = pair
    body = {"dr_operation_token": primary.operator}
    primary.node.pause()
    try:
        call(secondary.node, "POST", f"{DR}/secondary/recover", body, "")
        ready, checks = preflight(pair)
        assert not ready and checks["state"]["result"] == "blocked" and "change" not in checks
        error(secondary.node.call("POST", DRILL, body, token=""), 400, "still syncs")
        for force in (False, True):
            told = secondary.node.call("POST", PROMOTE, body | {"force": force}, token="")
            error(told, 503, "with or without force")
    finally:
        primary.node.resume()
    await_equal(primary, secondary)
    secondary.await_until(lambda: seen(secondary.node).get("state") == "stream-wals")
    assert drill(pair)["passed"]


def test_an_audit_device_that_cannot_open_here_blocks(pair):
    """The primary has the file open; on the secondary the folder is none."""
    primary, secondary = pair
    moved = primary.audit.rename(primary.audit.with_name("moved"))
    primary.audit.write_text("no folder")
    secondary.node.kill()
    secondary.node.start()
    secondary.await_until(lambda: seen(secondary.node).get("state") == "stream-wals")

    def extra():
        ready, checks = preflight(pair)
        return None if ready else checks.get("audit")

    secondary.await_until(lambda: (extra() or {}).get("result") == "warning")
    assert "extra/ is failing on this node" in extra()["details"]
    told = drill(pair)
    assert told["passed"]  # the device of the configuration file works
    primary.audit.unlink()
    moved.rename(primary.audit)


class Deaf(One):
    """A cluster whose only audit device is one of the replicated state."""

    audited = False


class Drain(socketserver.BaseRequestHandler):
    def handle(self):
        while self.request.recv(65536):
            pass


class Receiver(socketserver.ThreadingTCPServer):
    """Takes audit records. Its connections outlive it."""

    allow_reuse_address = daemon_threads = True
    block_on_close = False

    def __enter__(self):
        threading.Thread(target=self.serve_forever).start()
        return self

    def __exit__(self, *error):
        self.shutdown()
        self.server_close()


def test_without_an_audit_device_a_secondary_follows_but_takes_no_dr_call():
    """A call that changes roles would leave no record; so the device must open here first. The
    receiver goes on for the primary, and is gone for a secondary that starts."""
    with Deaf() as primary, Deaf() as secondary:
        become_primary(primary)
        receiver = Receiver(("127.0.0.1", 0), Drain)
        address = "127.0.0.1:%d" % receiver.server_address[1]
        body = {"type": "socket", "options": {"address": address, "socket_type": "tcp"}}
        with receiver:
            call(primary.node, "PUT", "/v1/sys/audit/only", body, status=204)
            follow(primary, secondary, "b")
            await_equal(primary, secondary)
            token = operation_token(secondary.nodes, primary.recovery_keys)
        body = {"dr_operation_token": token}
        secondary.node.kill()
        secondary.node.start()
        secondary.await_until(lambda: seen(secondary.node).get("state") == "stream-wals")
        call(primary.node, "PUT", "/v1/kv/after", {"x": "1"}, status=204)
        await_equal(primary, secondary)
        before = status(secondary.node)
        for path, more in ((PROMOTE, {"preflight": True}), (PROMOTE, {"force": True}), (DRILL, {}),
                           (f"{DR}/secondary/recover", {})):
            told = secondary.node.call("POST", path, body | more, token="")
            error(told, 500, "could not be recorded by any audit device")
        begin = f"{DR}/secondary/generate-operation-token/attempt"
        error(secondary.node.call("POST", begin, {}, token=""), 500, "could not be recorded")
        after = status(secondary.node)
        assert after["mode"] == "secondary" and after["state"] == "stream-wals"
        assert after["epoch"] == before["epoch"]
        assert address in secondary.node.log_text()

        def checks():
            told = secondary.node.call("POST", PROMOTE, body | {"preflight": True}, token="")
            if told.status != 200:
                return {}
            return {c["check"]: c["result"] for c in told.data["checks"]}

        with Receiver(receiver.server_address, Drain):
            secondary.await_until(lambda: checks().get("audit") == "ok")
            told = secondary.node.call("POST", PROMOTE, body | {"force": True}, token="")
            assert told.status == 200 and told.json["complete"], told.body


def test_a_drill_names_a_flipped_bit(pair):
    primary, secondary = pair
    mark = "drilled-0123456789abcdef-0123456789abcdef"
    call(primary.node, "PUT", f"/v1/kv/{mark}", {"x": "y" * 100}, status=204)
    await_equal(primary, secondary)
    assert drill(pair)["passed"]  # now every hash is stored
    assert flip_behind(secondary.node.process, mark[20:].encode()) > 0
    told = drill(pair)
    assert not told["passed"] and told["unreadable"] == 1
    assert [one for one in told["damage"] if one["key"].endswith(mark)]
    call(primary.node, "PUT", f"/v1/kv/{mark}", {"x": "z"}, status=204)  # written again, it is whole
    await_position(primary, secondary)
    assert drill(pair)["passed"]
    # the bit may lie in a buffer of the log too: this node is not started again


def test_force_promotes_over_a_primary_that_serves(pair):
    primary, secondary = pair
    body = {"dr_operation_token": primary.operator}
    error(secondary.node.call("POST", PROMOTE, body, token=""), 503)
    told = secondary.node.call("POST", PROMOTE, body | {"force": True}, token="")
    deadline = time.monotonic() + 60
    while told.status == 503:  # while it syncs, force does not help
        assert time.monotonic() < deadline, told.body
        time.sleep(0.2)
        told = secondary.node.call("POST", PROMOTE, body | {"force": True}, token="")
    assert told.status == 200 and told.json["complete"], told.body
    secondary.await_until(lambda: seen(secondary.node).get("state") == "running")
    assert status(secondary.node)["epoch"] == 2
