"""Runs on three nodes, with a scripted worker that talks to another node with each request."""

import base64
import json
import time

import pytest

from platform_cluster import PlatformCluster, Receiver, make, signature
from run_worker import ARCHIVE, FINISHED, Worker, act, fetch, nonce, read_run, run_body, status_of, upload
from test_snapshot import restored, save

LEASE_S = 6


class RunCluster(PlatformCluster):
    def __init__(self):
        super().__init__(run_lease=f"{LEASE_S}s")

    def furnish(self):
        super().furnish()
        assert self.ask("GET", "organizations/acme/entitlement-set")["data"]["attributes"]["operations"] is False
        token = self.ask("POST", "agent-pools/apool-default/authentication-tokens",
                         make("authentication-tokens", description="workers"), status=201)
        self.agent_token = token["data"]["attributes"]["token"]
        self.worker = Worker(self, self.agent_token)


CLUSTER = RunCluster


def workspace(cluster, name, **attributes):
    return cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name=name, **attributes),
                       status=201)["data"]["id"]


def start(cluster, ws, who="olga", **attributes):
    return cluster.ask("POST", "runs", run_body(ws, **attributes), status=201, who=who)["data"]["id"]


def locker(cluster, ws):
    data = cluster.ask("GET", f"workspaces/{ws}")["data"]["relationships"]["locked-by"]["data"]
    return data and data["id"]


def test_a_worker_makes_operations_true(cluster):
    entitled = cluster.ask("GET", "organizations/acme/entitlement-set", who="olga")["data"]["attributes"]
    assert entitled["operations"] is True and entitled["agents"] is True
    agents = cluster.ask("GET", "agent-pools/apool-default/agents")["data"]
    assert [one["attributes"]["status"] for one in agents] == ["idle"]
    cluster.ask("DELETE", f"agents/{agents[0]['id']}", status=412)
    cluster.worker.ask("POST", f"worker/agents/{cluster.worker.agent}/heartbeat", {"status": "busy"})
    assert cluster.ask("GET", f"agents/{cluster.worker.agent}")["data"]["attributes"]["status"] == "busy"


def test_a_run_is_planned_confirmed_and_applied(cluster):
    ws = workspace(cluster, "whole", working_directory="sub")
    cluster.ask("POST", f"workspaces/{ws}/vars", make("vars", key="a", value="1", category="terraform"), status=201)
    cluster.ask("POST", f"workspaces/{ws}/vars",
                make("vars", key="s", value="hush", category="env", sensitive=True), status=201)
    config = upload(cluster, ws)
    shown = cluster.ask("GET", f"configuration-versions/{config}", who="olga", node=2)["data"]["attributes"]
    assert shown["status"] == "uploaded" and shown["upload-url"] is None
    run = start(cluster, ws, message="first", variables=[{"key": "a", "value": "2"}])
    assert status_of(cluster, run, 1) == "plan_queued" and locker(cluster, ws) == run
    job = cluster.worker.claim(run, "plan")
    assert status_of(cluster, run, 2) == "planning"
    told = job.told
    assert told["workspace"] == "whole" and told["working_directory"] == "sub" and told["organization"] == "acme"
    assert sorted((v["category"], v["key"], v["value"], v["hcl"]) for v in told["variables"]) == \
        [("env", "s", "hush", False), ("terraform", "a", "2", True)]
    assert told.get("state") is None and told["plan_file_url"] is None and told["timeout_s"] == 7200
    assert job.get(told["configuration_url"]) == ARCHIVE
    job.act("renew")
    job.end_plan()
    shown = read_run(cluster, run, 1)
    assert shown["attributes"]["status"] == "planned" and shown["attributes"]["has-changes"] is True
    assert shown["attributes"]["actions"]["is-confirmable"] is True
    plan = cluster.ask("GET", f"plans/{shown['relationships']['plan']['data']['id']}", who="olga")["data"]
    assert plan["attributes"]["status"] == "finished" and plan["attributes"]["resource-additions"] == 1
    job.act("end", **FINISHED)  # its reply was lost: nothing happens
    act(cluster, run, "apply", node=2, body={"comment": "go"})
    assert status_of(cluster, run) == "apply_queued"
    apply_job = cluster.worker.claim(run, "apply")
    assert apply_job.told["tool"] == "tofu" and apply_job.told["tool_version"] == "1.10.6"
    job.state(status=401)  # the token of the plan has ended
    apply_job.end_apply()
    shown = read_run(cluster, run, 1)
    assert shown["attributes"]["status"] == "applied" and locker(cluster, ws) is None
    state = cluster.ask("GET", f"workspaces/{ws}/current-state-version?include=run", who="olga")
    assert state["data"]["relationships"]["run"]["data"]["id"] == run and state["included"][0]["id"] == run
    events = cluster.ask("GET", f"runs/{run}/run-events", who="olga")["data"]
    assert [one["attributes"]["action"] for one in events] == [
        "created", "plan_queued", "planning", "planned", "confirmed", "apply_queued", "applying", "applied"]
    comments = cluster.ask("GET", f"runs/{run}/comments", who="olga")["data"]
    assert [one["attributes"]["body"] for one in comments] == ["go"]
    times = shown["attributes"]["status-timestamps"]
    assert times["plan-queueable-at"] <= times["planned-at"] <= times["applied-at"]
    apply_job.state(serial=2, status=401)  # nor does that of an ended apply live on
    current = cluster.ask("GET", f"workspaces/{ws}?include=current_run.plan,current_run", who="olga")
    assert {one["type"] for one in current["included"]} == {"runs", "plans"}


def test_includes_and_documents_of_a_run(cluster):
    ws = workspace(cluster, "includes")
    upload(cluster, ws)
    run = start(cluster, ws)
    shown = cluster.ask("GET", f"runs/{run}?include=plan,apply,created_by,configuration_version,workspace,"
                        "task_stages,cost_estimate,configuration_version.ingress_attributes", who="olga")
    assert {one["type"] for one in shown["included"]} == {
        "plans", "applies", "users", "configuration-versions", "workspaces"}
    error = cluster.ask("GET", f"runs/{run}?include=nonsense", status=400, who="olga")
    assert "Invalid include parameter" in error["detail"]
    plan = shown["data"]["relationships"]["plan"]["data"]["id"]
    assert cluster.answer("GET", f"plans/{plan}/json-output", who="olga").status == 204
    job = cluster.worker.claim(run)
    job.end_plan(changes=False, additions=0)
    assert status_of(cluster, run) == "planned_and_finished" and locker(cluster, ws) is None
    assert cluster.answer("GET", f"plans/{plan}/json-output", who="olga").json == {"format_version": "1.2"}
    assert cluster.answer("GET", f"plans/{plan}/json-output-redacted", who="olga", node=1).json == {
        "plan_format_version": "1.2"}
    apply = cluster.ask("GET", f"runs/{run}/apply", who="olga")["data"]["attributes"]
    assert apply["status"] == "unreachable"
    raw = cluster.answer("GET", f"runs/{run}/configuration-version/download", who="olga", node=2)
    assert raw.body == ARCHIVE


def test_a_run_is_discarded_and_the_next_one_starts(cluster):
    ws = workspace(cluster, "queue")
    upload(cluster, ws)
    first, second, third = (start(cluster, ws, message=name) for name in ("one", "two", "three"))
    assert [status_of(cluster, run) for run in (first, second, third)] == ["plan_queued", "pending", "pending"]
    assert read_run(cluster, third, 2)["attributes"]["position-in-queue"] == 2
    queue = cluster.ask("GET", "organizations/acme/runs/queue", who="olga", node=1)["data"]
    assert {first, second, third} <= {one["id"] for one in queue}
    job = cluster.worker.claim(first)
    job.end_plan()
    assert status_of(cluster, second) == "pending"
    act(cluster, first, "discard")
    assert [status_of(cluster, run) for run in (first, second)] == ["discarded", "plan_queued"]
    assert locker(cluster, ws) == second
    act(cluster, first, "discard", status=409)
    act(cluster, second, "cancel")
    assert [status_of(cluster, run) for run in (second, third)] == ["canceled", "plan_queued"]
    act(cluster, third, "cancel", node=1)
    assert locker(cluster, ws) is None
    shown = read_run(cluster, second)["attributes"]
    assert shown["canceled-at"] < shown["force-cancel-available-at"]
    listed = cluster.ask("GET", f"workspaces/{ws}/runs", who="olga", node=2)["data"]
    assert [one["id"] for one in listed] == [third, second, first]
    listed = cluster.ask("GET", f"workspaces/{ws}/runs?filter%5Bstatus%5D=discarded,applied", who="olga")["data"]
    assert [one["id"] for one in listed] == [first]


def test_auto_apply_goes_on_by_itself(cluster):
    ws = workspace(cluster, "auto", auto_apply=True)
    upload(cluster, ws)
    run = start(cluster, ws)
    cluster.worker.claim(run, "plan").end_plan()
    assert status_of(cluster, run) == "apply_queued"
    cluster.worker.claim(run, "apply").end_apply()
    assert status_of(cluster, run) == "applied"


def test_an_upload_queues_a_run(cluster):
    ws = workspace(cluster, "upload")
    config = upload(cluster, ws, **{"auto-queue-runs": True})
    (run,) = cluster.ask("GET", f"workspaces/{ws}/runs", who="olga")["data"]
    assert run["relationships"]["configuration-version"]["data"]["id"] == config
    assert run["attributes"]["source"] == "tfe-configuration-version"
    act(cluster, run["id"], "cancel")
    cluster.ask("POST", f"configuration-versions/{config}/actions/archive", status=202, who="olga")
    cluster.ask("POST", f"configuration-versions/{config}/actions/archive", status=409, who="olga")
    cluster.ask("GET", f"configuration-versions/{config}/download", status=404, who="olga")
    cluster.ask("POST", "runs", run_body(ws), status=422, who="olga")


def test_speculative_plans_pass_the_queue_and_the_lock(cluster):
    ws = workspace(cluster, "speculative")
    cluster.ask("POST", f"workspaces/{ws}/actions/lock", {"reason": "mine"}, who="olga")
    config = upload(cluster, ws, speculative=True)
    run = cluster.ask("POST", "runs", run_body(ws, config), status=201, who="olga")["data"]
    assert run["attributes"]["plan-only"] is True and run["attributes"]["status"] == "plan_queued"
    job = cluster.worker.claim(run["id"])
    assert job.told["plan_only"] is True
    job.end_plan()
    assert status_of(cluster, run["id"]) == "planned_and_finished"
    assert cluster.ask("GET", f"workspaces/{ws}/runs", who="olga")["data"] == []
    listed = cluster.ask("GET", f"workspaces/{ws}/runs?filter%5Boperation%5D=plan_only", who="olga")["data"]
    assert [one["id"] for one in listed] == [run["id"]]
    act(cluster, run["id"], "apply", status=409)
    upload(cluster, ws)
    waiting = start(cluster, ws)
    assert status_of(cluster, waiting) == "pending"
    act(cluster, waiting, "force-execute", status=409)
    cluster.ask("POST", f"workspaces/{ws}/actions/unlock", who="olga")
    assert status_of(cluster, waiting) == "plan_queued"
    error = cluster.ask("POST", f"workspaces/{ws}/actions/unlock", status=409, who="olga")
    assert "is locked by Run" in error["detail"]
    error = cluster.ask("POST", f"workspaces/{ws}/actions/force-unlock", status=409, who="olga")
    assert "is locked by Run" in error["detail"]
    cluster.ask("POST", f"workspaces/{ws}/actions/lock", {"reason": "x"}, status=409, who="olga")
    act(cluster, waiting, "cancel")


def test_a_saved_plan_is_applied_while_the_workspace_is_unlocked(cluster):
    ws = workspace(cluster, "saved")
    upload(cluster, ws)
    run = start(cluster, ws, save_plan=True)
    assert locker(cluster, ws) is None
    cluster.worker.claim(run, "plan").end_plan()
    assert status_of(cluster, run) == "planned_and_saved"
    cluster.ask("POST", f"workspaces/{ws}/actions/lock", {}, who="olga")
    act(cluster, run, "apply", status=409)
    cluster.ask("POST", f"workspaces/{ws}/actions/unlock", who="olga")
    act(cluster, run, "apply")
    assert locker(cluster, ws) == run
    cluster.worker.claim(run, "apply").end_apply()
    assert status_of(cluster, run) == "applied" and locker(cluster, ws) is None


def test_force_execute_discards_the_holder(cluster):
    ws = workspace(cluster, "force")
    upload(cluster, ws)
    holder, early, late = start(cluster, ws), start(cluster, ws), start(cluster, ws)
    act(cluster, late, "force-execute", status=409)  # the holder is queued, not discardable
    cluster.worker.claim(holder).end_plan()
    act(cluster, late, "force-execute", status=404, who="rita")
    act(cluster, late, "force-execute")
    assert [status_of(cluster, run) for run in (holder, early, late)] == ["discarded", "pending", "plan_queued"]
    assert locker(cluster, ws) == late
    error = act(cluster, late, "force-execute", status=403)
    assert "does not wait" in error["detail"]
    act(cluster, late, "cancel")
    assert status_of(cluster, early) == "plan_queued"
    act(cluster, early, "cancel")


def test_a_cancel_interrupts_and_a_forced_one_ends_at_once(cluster):
    ws = workspace(cluster, "cancel")
    upload(cluster, ws)
    run = start(cluster, ws)
    job = cluster.worker.claim(run)
    act(cluster, run, "force-cancel", status=409)
    act(cluster, run, "cancel", node=1)
    assert status_of(cluster, run) == "planning" and job.act("renew")["action"] == "cancel"
    shown = read_run(cluster, run)["attributes"]
    assert shown["canceled-at"] and shown["actions"]["is-force-cancelable"] is False
    job.act("end", status="canceled", message="interrupted")
    assert status_of(cluster, run) == "canceled" and locker(cluster, ws) is None
    plan = cluster.ask("GET", f"runs/{run}/plan", who="olga")["data"]
    assert plan["attributes"]["status"] == "canceled"
    log = fetch(cluster, plan["attributes"]["log-read-url"])
    assert log == b"\x02\ninterrupted\n\x03"

    stuck = start(cluster, ws)
    job = cluster.worker.claim(stuck)
    act(cluster, stuck, "cancel")
    act(cluster, stuck, "force-cancel", status=409)
    deadline = time.monotonic() + 30
    while not read_run(cluster, stuck)["attributes"]["actions"]["is-force-cancelable"]:
        job.act("renew")
        assert time.monotonic() < deadline
        time.sleep(1)
    act(cluster, stuck, "force-cancel")
    assert status_of(cluster, stuck) == "force_canceled" and locker(cluster, ws) is None
    job.act("renew", 409)
    job.act("end", 409, **FINISHED)
    job.log("late", 409)


def test_a_lost_worker_leaves_an_errored_run_and_a_free_workspace(cluster):
    ws = workspace(cluster, "lost")
    upload(cluster, ws)
    run, after = start(cluster, ws), start(cluster, ws)
    job = cluster.worker.claim(run)
    job.log("began\n")
    cluster.await_until(lambda: status_of(cluster, run) == "errored")
    assert status_of(cluster, after) == "plan_queued"
    job.act("renew", 409)
    job.act("end", 409, **FINISHED)
    plan = cluster.ask("GET", f"runs/{run}/plan", who="olga")["data"]["attributes"]
    log = fetch(cluster, plan["log-read-url"], 2)
    assert log.startswith(b"\x02began\n\nThe worker was lost") and log.endswith(b"\x03")
    act(cluster, after, "cancel")
    again = [one["id"] for one in cluster.worker.jobs()]
    assert plan and not any(job.path.endswith(one) for one in again)


def test_a_claim_has_one_owner(cluster):
    ws = workspace(cluster, "owner")
    upload(cluster, ws)
    run = start(cluster, ws)
    other = Worker(cluster, cluster.agent_token, "w-2")
    job = cluster.worker.claim(run)
    name = job.told["id"]
    other.ask("POST", f"worker/agents/{other.agent}/jobs/{name}/claim", {"claim": nonce()}, 409)
    cluster.worker.ask("POST", f"{job.path}/claim", {"claim": nonce()}, 409)
    cluster.worker.ask("POST", f"{job.path}/claim", {"claim": "short"}, 422)
    again = job.act("claim")  # its reply was lost
    assert again["run_token"] != job.told["run_token"] and again["run_id"] == run
    other.ask("POST", f"worker/agents/{other.agent}/jobs/{name}/end", {"claim": job.nonce, **FINISHED}, 409)
    other.ask("POST", f"worker/agents/{cluster.worker.agent}x/heartbeat", {"status": "idle"}, 404)
    job.act("end", 422, **{**FINISHED, "has_changes": True})  # without a plan file
    job.file("nonsense", b"x", 404)
    job.act("end", 422, **{**FINISHED, "status": "nonsense"})
    job.act("end", status="errored", message="it broke")
    assert status_of(cluster, run) == "errored"


def test_the_token_of_a_run_reads_its_state_and_nothing_else(cluster):
    ws, other, shared = (workspace(cluster, name, global_remote_state=False) for name in ("own", "other", "shared"))
    upload(cluster, ws)
    cluster.ask("POST", f"workspaces/{shared}/relationships/remote-state-consumers",
                {"data": [{"type": "workspaces", "id": ws}]}, status=204)
    run = start(cluster, ws)
    job = cluster.worker.claim(run)
    token = job.told["run_token"]
    cluster.ask("GET", f"workspaces/{ws}/current-state-version", status=404, who=token)
    assert cluster.ask("GET", "organizations/acme/workspaces/shared", who=token, node=1)["data"]["id"] == shared
    cluster.ask("GET", "organizations/acme/entitlement-set", who=token)
    cluster.ask("GET", "organizations/acme/workspaces/other", status=404, who=token)
    cluster.ask("GET", f"workspaces/{other}", status=404, who=token)
    cluster.ask("GET", f"workspaces/{ws}/vars", status=404, who=token)
    cluster.ask("POST", "runs", run_body(ws), status=404, who=token)
    cluster.ask("POST", f"runs/{run}/actions/cancel", {}, status=404, who=token)
    cluster.ask("GET", "organizations/acme/teams", status=404, who=token)
    job.state(status=404)  # a plan writes no state
    cluster.ask("GET", f"workspaces/{ws}", status=401, who=cluster.agent_token)
    cluster.ask("POST", "worker/register", {"name": "x"}, status=404, who=token)
    cluster.ask("POST", "worker/register", {"name": "x"}, status=404, who="olga")
    job.act("end", status="errored")
    cluster.ask("GET", f"workspaces/{ws}", status=401, who=token)


def test_a_log_is_read_at_every_offset_through_any_node_while_it_grows(cluster):
    ws = workspace(cluster, "log")
    upload(cluster, ws)
    run = start(cluster, ws)
    plan = cluster.ask("GET", f"runs/{run}/plan", who="olga")["data"]
    url = plan["attributes"]["log-read-url"]
    assert fetch(cluster, url) == b"\x02"
    job = cluster.worker.claim(run)
    whole = b""
    for size in (1, 5, 200, 65536, 3, 20000, 65536, 1, 40000):
        piece = bytes(32 + (len(whole) + i) * 7 % 90 for i in range(size))
        job.log(piece)
        whole += piece
        stream = b"\x02" + whole
        for node, at in enumerate((0, len(stream) // 2, max(0, len(stream) - 70000))):
            for limit in (1, 4096, 65536):
                assert fetch(cluster, f"{url}?limit={limit}&offset={at}", node) == stream[at:at + limit], (at, limit)
        assert fetch(cluster, f"{url}?limit=65536&offset={len(stream)}") == b""
    job.offset -= 100  # a repeated piece, and one that goes on beyond what is stored
    job.act("log", offset=job.offset, data=base64.b64encode(whole[-100:]).decode())
    job.log(whole[-100:] + b"tail")
    whole += b"tail"
    error = job.act("log", 409, offset=len(whole) + 1, data="eA==")
    assert f"gap: the log has {len(whole)} bytes" in error["errors"][0]["detail"]
    job.act("log", 422, offset=0, data="")
    job.act("log", 422, offset=0, data="%%")
    assert job.act("renew")["log_length"] == len(whole)
    job.act("end", status="finished")
    stream = b"\x02" + whole + b"\x03"
    read, node = b"", 0
    while chunk := fetch(cluster, f"{url}?limit=65536&offset={len(read)}", node):
        read += chunk
        node = (node + 1) % 3
    assert read == stream
    fetch(cluster, url[:-1] + ("0" if url[-1] != "0" else "1"), status=404)
    fetch(cluster, url.replace(plan["id"], "plan-0000000000000000"), status=404)


@pytest.fixture
def receivers():
    made = [Receiver(), Receiver()]
    yield made
    for receiver in made:
        receiver.close()


def notify(cluster, ws, name, url, triggers, **more):
    return cluster.ask("POST", f"workspaces/{ws}/notification-configurations",
                       make("notification-configurations", name=name, url=url, triggers=triggers, enabled=True,
                            **{"destination-type": "generic", "token": "key-" + name, **more}),
                       status=201, who="olga")["data"]["id"]


ALL = ["run:created", "run:planning", "run:needs_attention", "run:applying", "run:completed", "run:errored"]


def test_notifications_arrive_signed_and_in_order(cluster, receivers):
    quick, slow = receivers
    ws = workspace(cluster, "told")
    upload(cluster, ws)
    config = notify(cluster, ws, "quick", quick.url, ALL)
    notify(cluster, ws, "slow", slow.url, ["run:created", "run:completed", "run:errored"])
    for receiver in receivers:
        receiver.reply()
    slow.hold.clear()  # a receiver that hangs delays its own rows alone
    run = start(cluster, ws, message="tell <it>")
    cluster.worker.claim(run, "plan").end_plan()
    act(cluster, run, "apply")
    cluster.worker.claim(run, "apply").end_apply()
    cluster.await_until(lambda: len(quick.got) == 5)
    bodies = [json.loads(body) for _, _, body in quick.got]
    assert [one["notifications"][0]["trigger"] for one in bodies] == ALL[:5]
    assert [one["notifications"][0]["run_status"] for one in bodies] == [
        "pending", "planning", "planned", "applying", "applied"]
    first = bodies[0]
    assert first["payload_version"] == 1 and first["run_id"] == run and first["run_message"] == "tell <it>"
    assert first["workspace_name"] == "told" and first["organization_name"] == "acme"
    assert first["run_created_by"] == "olga" and first["run_url"].endswith(f"/app/acme/told/runs/{run}")
    assert bodies[1]["notifications"][0]["run_updated_by"] is None
    deliveries = set()
    for _, headers, body in quick.got:
        assert headers["x-tfe-notification-signature"] == signature("key-quick", body)
        assert headers["x-infra-notification-signature"] == signature("key-quick", body)
        deliveries.add(headers["x-infra-delivery-id"])
    assert len(deliveries) == 5
    slow.hold.set()
    cluster.await_until(lambda: len(slow.got) == 2)
    assert [json.loads(body)["notifications"][0]["trigger"] for _, _, body in slow.got] == [
        "run:created", "run:completed"]
    cluster.await_until(lambda: cluster.ask(
        "GET", f"notification-configurations/{config}", who="olga")["data"]["attributes"]["delivery-responses"])
    (kept,) = cluster.ask("GET", f"notification-configurations/{config}",
                          who="olga")["data"]["attributes"]["delivery-responses"]
    assert kept["code"] == "200" and kept["successful"] is True


def test_a_receiver_that_fails_gets_the_row_again_and_nothing_out_of_order(cluster, receivers):
    receiver = receivers[0]
    ws = workspace(cluster, "again")
    upload(cluster, ws)
    notify(cluster, ws, "again", receiver.url, ["run:created", "run:errored"])
    receiver.reply(503, b"later")
    run = start(cluster, ws)
    act(cluster, run, "cancel")
    cluster.await_until(lambda: receiver.got)
    receiver.status = 200
    cluster.await_until(lambda: len(receiver.got) >= 3)
    rows = [(headers["x-infra-delivery-id"], json.loads(body)["notifications"][0]["trigger"])
            for _, headers, body in receiver.got]
    assert rows[0] == rows[1] or rows[0][1] == "run:created"
    order = list(dict.fromkeys(rows))
    assert [trigger for _, trigger in order] == ["run:created", "run:errored"]
    receiver.reply(404, b"gone")
    other = start(cluster, ws)
    act(cluster, other, "cancel")
    cluster.await_until(lambda: len(receiver.got) == 2)  # 404 is final: no second try
    assert [json.loads(body)["notifications"][0]["trigger"] for _, _, body in receiver.got] == [
        "run:created", "run:errored"]


def test_nothing_is_told_about_speculative_plans(cluster, receivers):
    receiver = receivers[0]
    ws = workspace(cluster, "silent")
    config = upload(cluster, ws, speculative=True)
    upload(cluster, ws)
    notify(cluster, ws, "silent", receiver.url, ALL)
    receiver.reply()
    run = cluster.ask("POST", "runs", run_body(ws, config), status=201, who="olga")["data"]["id"]
    act(cluster, run, "cancel")
    later = start(cluster, ws)
    act(cluster, later, "cancel")
    cluster.await_until(lambda: len(receiver.got) == 2)
    assert {json.loads(body)["run_id"] for _, _, body in receiver.got} == {later}


def test_refusals_of_creation(cluster):
    ws = workspace(cluster, "refused", allow_destroy_plan=False)
    cluster.ask("POST", "runs", run_body(ws), status=422, who="olga")  # no configuration
    config = upload(cluster, ws)
    for attributes, pointer in (
            ({"is-destroy": True, "refresh-only": True}, "is-destroy"),
            ({"is-destroy": True}, "is-destroy"),
            ({"refresh": False, "refresh-only": True}, "refresh"),
            ({"plan-only": True, "save-plan": True}, "save-plan"),
            ({"terraform-version": "1.0.0"}, "terraform-version"),
            ({"variables": {"a": "b"}}, "variables"),
            ({"variables": [{"key": "a\nb", "value": "1"}]}, "variables"),
            ({"variables": [{"key": "a", "value": 1}]}, "variables"),
            ({"target-addrs": "a"}, "target-addrs"),
            ({"message": "x" * 1001}, "message")):
        error = cluster.ask("POST", "runs", run_body(ws, **attributes), status=422, who="olga")
        assert error["source"]["pointer"] == f"/data/attributes/{pointer}", error
    cluster.ask("POST", "runs", make("runs"), status=422, who="olga")
    cluster.ask("POST", "runs", run_body("ws-0000000000000000"), status=404, who="olga")
    cluster.ask("POST", "runs", run_body(ws), status=404, who="nina")
    cluster.ask("POST", "runs", run_body(ws, "cv-0000000000000000"), status=422, who="olga")
    local = workspace(cluster, "local", **{"execution-mode": "local"})
    upload(cluster, local)
    cluster.ask("POST", "runs", run_body(local), status=422, who="olga")
    upload(cluster, ws, raw=b"not an archive at all, whatever it says", status=422)
    cluster.ask("GET", "runs/run-0000000000000000", status=404, who="olga")
    cluster.ask("POST", "runs/run-0000000000000000/actions/apply", {}, status=404, who="olga")
    cluster.ask("GET", f"configuration-versions/{config}", status=404, who="nina")
    cluster.ask("GET", "applies/plan-0000000000000000", status=404, who="olga")


def test_actions_that_the_status_does_not_allow_are_409(cluster):
    ws = workspace(cluster, "matrix")
    upload(cluster, ws)
    run = start(cluster, ws)
    act(cluster, run, "apply", status=409)
    act(cluster, run, "discard", status=409)
    act(cluster, run, "force-cancel", status=409)
    job = cluster.worker.claim(run)
    act(cluster, run, "apply", status=409)
    act(cluster, run, "discard", status=409)
    job.end_plan()
    act(cluster, run, "cancel", status=409)
    act(cluster, run, "apply", status=404, who="rita")
    act(cluster, run, "apply", body={"comment": 5}, status=422)
    act(cluster, run, "apply")
    act(cluster, run, "apply", status=409)
    act(cluster, run, "cancel")
    for action in ("apply", "discard", "cancel", "force-cancel"):
        act(cluster, run, action, status=409)
    cluster.ask("POST", f"admin/runs/{run}/actions/force-cancel", status=409)
    cluster.ask("POST", f"admin/runs/{run}/actions/force-cancel", status=404, who="olga")
    assert run in {one["id"] for one in cluster.ask("GET", "admin/runs?page%5Bsize%5D=100")["data"]}
    assert cluster.ask("GET", "organizations/acme/capacity")["data"]["attributes"]["running"] >= 0


def test_pools_of_organizations_run_the_workspaces_that_name_them(cluster):
    cluster.ask("POST", "organizations/acme/workspaces",
                make("workspaces", name="agent", **{"execution-mode": "agent"}), status=422)
    pool = cluster.ask("POST", "organizations/acme/agent-pools", make("agent-pools", name="own"), status=201,
                       who="olga")["data"]["id"]
    cluster.ask("POST", "organizations/acme/agent-pools", make("agent-pools", name="own"), status=422, who="olga")
    cluster.ask("POST", "agent-pools/apool-default/authentication-tokens", make("authentication-tokens"), status=404,
                who="olga")
    token = cluster.ask("POST", f"agent-pools/{pool}/authentication-tokens",
                        make("authentication-tokens", description="w"), status=201, who="olga")["data"]
    ws = workspace(cluster, "agent", **{"execution-mode": "agent", "agent-pool-id": pool})
    upload(cluster, ws)
    run = start(cluster, ws)
    own = Worker(cluster, token["attributes"]["token"], "own")
    assert run not in {job["run_id"] for job in cluster.worker.jobs()}
    assert [job["run_id"] for job in own.jobs()] == [run]
    plan = read_run(cluster, run)["relationships"]["plan"]["data"]["id"]
    cluster.worker.ask("POST", f"worker/agents/{cluster.worker.agent}/jobs/{plan}/claim", {"claim": nonce()}, 404)
    own.claim(run).act("end", status="errored")
    cluster.ask("DELETE", f"agent-pools/{pool}", status=422, who="olga")
    cluster.ask("PATCH", f"workspaces/{ws}", make("workspaces", **{"execution-mode": "remote"}), who="olga")
    listed = cluster.ask("GET", f"agent-pools/{pool}/authentication-tokens", who="olga")["data"]
    assert [one["attributes"]["token"] for one in listed] == [None]
    cluster.ask("DELETE", f"authentication-tokens/{token['id']}", status=204, who="olga")
    own.ask("POST", "worker/register", {"name": "own"}, 401)
    cluster.ask("PATCH", f"agent-pools/{pool}", make("agent-pools", name="renamed"), who="olga")
    assert [one["attributes"]["name"] for one in cluster.ask(
        "GET", "organizations/acme/agent-pools", who="olga")["data"]] == ["renamed"]
    cluster.ask("DELETE", f"agent-pools/{pool}", status=204, who="olga")
    cluster.ask("GET", f"agent-pools/{pool}", status=404, who="olga")


def test_a_workspace_deleted_under_its_run_ends_the_claim(cluster):
    ws = workspace(cluster, "deleted")
    upload(cluster, ws)
    run = start(cluster, ws)
    job = cluster.worker.claim(run)
    cluster.ask("POST", f"workspaces/{ws}/actions/safe-delete", status=409)
    cluster.ask("DELETE", f"workspaces/{ws}", status=204)
    job.act("renew", 404)
    job.act("end", 404, **FINISHED)
    cluster.ask("GET", f"runs/{run}", status=404, who="olga")
    cluster.await_until(lambda: cluster.answer("GET", f"workspaces/{ws}", who=job.told["run_token"]).status == 401)


def test_a_job_wakes_a_worker_that_waits(cluster):
    ws = workspace(cluster, "wakes")
    upload(cluster, ws)
    worker = Worker(cluster, cluster.agent_token, "w-3")
    worker.jobs()
    run = start(cluster, ws)
    job = worker.claim(run)
    job.act("end", status="errored")
    worker.ask("GET", f"worker/agents/{worker.agent}/jobs?index=x", status=400)
    worker.ask("GET", f"worker/agents/{worker.agent}/jobs?wait=x", status=400)


def test_a_run_survives_the_end_of_the_active_node(cluster):
    ws = workspace(cluster, "failover")
    upload(cluster, ws)
    run = start(cluster, ws)
    job = cluster.worker.claim(run)
    active = cluster.active()
    active.kill()
    try:
        cluster.await_until(lambda: cluster.worker.answer(
            "POST", f"{job.path}/renew", {"claim": job.nonce}).status == 200)
        job.end_plan(changes=False, additions=0)
    finally:
        active.start()
        cluster.await_up()
    assert status_of(cluster, run) == "planned_and_finished"


def test_a_restore_ends_what_was_under_way_and_tells_nothing_of_the_past():
    """The snapshot has a run that a worker plans, and a message that its receiver did not take."""
    receiver = Receiver()
    with RunCluster() as cluster:
        try:
            ws = workspace(cluster, "restored")
            upload(cluster, ws)
            notify(cluster, ws, "past", receiver.url, ["run:created", "run:errored"])
            receiver.reply(503)
            run, after = start(cluster, ws), start(cluster, ws)
            job = cluster.worker.claim(run)
            archive = save(cluster.nodes[0])
            job.end_plan(changes=False, additions=0)
            act(cluster, after, "cancel")
            receiver.reply(200)
            restored(cluster.nodes[1], archive)
            cluster.await_until(lambda: status_of(cluster, run) == "errored")
            cluster.await_until(lambda: status_of(cluster, after) == "plan_queued")
            assert locker(cluster, ws) == after
            job.act("renew", 409)
            plan = cluster.ask("GET", f"runs/{run}/plan", who="olga")["data"]["attributes"]
            assert plan["status"] == "errored" and b"restored" in fetch(cluster, plan["log-read-url"])
            cluster.await_until(lambda: receiver.got)
            told = [json.loads(body) for _, _, body in receiver.got]
            assert ("run:errored", run) in [(one["notifications"][0]["trigger"], one["run_id"]) for one in told]
            cluster.worker.claim(after).act("end", status="errored")
        finally:
            receiver.close()
