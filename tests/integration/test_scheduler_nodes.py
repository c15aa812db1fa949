"""Nodes that come, go and are full; the rights of tokens; the loss of a server."""

import os

import pytest

from scheduler import UNKNOWN, SchedulerCluster, WebSocket, job, task

FOREVER = "while :; do sleep 1; done"


@pytest.fixture(scope="module")
def cluster():
    with SchedulerCluster() as made:
        made.add_agent("agent1")
        yield made


def token_with(cluster, name, rules):
    status, body = cluster.ask("PUT", f"scheduler/acl/policy/{name}", {"Rules": rules})
    assert status == 200, body
    status, body = cluster.ask("PUT", "scheduler/acl/token", {"Policies": [name]})
    assert status == 200, body
    return body["SecretID"]


def test_a_token_may_do_what_its_policies_give(cluster):
    cluster.run(job("guarded", task(FOREVER)))
    alloc, = cluster.await_alloc("guarded")
    reads = token_with(cluster, "reads", 'namespace "default" { policy = "read" }')
    writes = token_with(cluster, "writes", 'namespace "def*" { policy = "write" }')
    node = token_with(cluster, "node-exec",
                      'namespace "default" { policy = "write" capabilities = ["alloc-node-exec"] }')
    denied = token_with(cluster, "denied", 'namespace "default" { policy = "write" capabilities = ["deny"] }')
    read, stop = f"allocation/{alloc['ID']}", f"allocation/{alloc['ID']}/stop"
    for at in cluster.nodes:
        assert cluster.ask("GET", read, node=at, token=reads)[0] == 200
        for token in (denied, "", UNKNOWN):
            status, text = cluster.ask("GET", read, node=at, token=token)
            assert (status, text) in [(500, f'Unknown allocation "{alloc["ID"]}"'), (403, "Permission denied")]
            assert cluster.ask("GET", "allocations", node=at, token=token) == (403, "Permission denied")
        assert cluster.ask("POST", stop, node=at, token=reads) == (403, "Permission denied")
        assert cluster.ask("PUT", "jobs", {"Job": job("x", task("true"))}, node=at, token=reads)[0] == 403
        assert cluster.ask("PUT", "client/node/token", {}, node=at, token=writes)[0] == 403
    path = f"client/allocation/{alloc['ID']}/exec?task=t&command=[%22true%22]"
    for token, code in ((reads, 1011), (writes, 1011), (node, 1000)):
        with WebSocket(cluster.nodes[1], path, token) as socket:
            closed = socket.finish()[3]
        assert closed.code == code and closed.text == ("" if code == 1000 else "Permission denied")
    body = {"Signal": "SIGCONT"}
    assert cluster.ask("PUT", f"client/allocation/{alloc['ID']}/signal", body, token=reads)[0] == 403
    assert cluster.ask("PUT", f"client/allocation/{alloc['ID']}/signal", body, token=writes)[0] == 200
    cluster.purge("guarded")


@pytest.mark.parametrize("rules,text", [
    ('namespace "a" { policy = "reed" }', "Invalid or duplicate policy keys"),
    ('namespace "a" { capabilities = ["fly"] }', 'invalid capability "fly"'),
    ('namespaces "a" { policy = "read" }', "Invalid or duplicate policy keys"), ("", "rules:"),
])
def test_rules_that_mean_nothing_are_refused(cluster, rules, text):
    status, body = cluster.ask("PUT", "scheduler/acl/policy/bad", {"Rules": rules})
    assert status == 400 and text in body


def test_a_page_of_another_site_opens_no_session(cluster):
    with WebSocket(cluster.nodes[0], f"client/allocation/{UNKNOWN}/exec?task=t&command=[%22true%22]", cluster.token,
                   headers=["Origin: https://elsewhere.example"]) as socket:
        assert socket.head.startswith("HTTP/1.1 403 ")


def test_a_node_speaks_for_itself_alone(cluster):
    join = cluster.ask("PUT", "client/node/token", {})[1]["SecretID"]
    own = cluster.ask("POST", "client/node/join", {}, token=join)[1]["SecretID"]
    assert cluster.ask("POST", "client/node/join", {}, token=join) == (403, "Permission denied")
    cluster.run(job("other", task(FOREVER)))
    alloc, = cluster.await_alloc("other")
    lies = {"Allocs": [{"ID": alloc["ID"], "ClientStatus": "failed"}]}
    assert cluster.ask("POST", "client/node/status", lies, token=own)[0] == 500  # it has not beaten
    assert cluster.ask("POST", "client/node/beat", {}, token=own)[0] == 400
    place = {"Name": "liar", "CPU": 1, "MemoryMB": 1, "DiskMB": 1}
    assert cluster.ask("POST", "client/node/register", place, token=own)[0] == 200
    assert cluster.ask("POST", "client/node/status", lies, token=own) == (404, f'Unknown allocation "{alloc["ID"]}"')
    assert cluster.ask("GET", "client/node/allocations", token=own) == (200, [])
    assert cluster.ask("POST", "client/node/beat", {}, token=own)[1]["TTLMs"] == 1000
    assert cluster.ask("POST", "client/node/status", {"Allocs": []}, token=own) == (200, "")
    assert cluster.ask("GET", "jobs", token=own) == (403, "Permission denied")
    cluster.purge("other")


def test_what_does_not_fit_waits_for_capacity(cluster):
    big = {**task(FOREVER), "Resources": {"CPU": 3000, "MemoryMB": 50}}
    cluster.run(job("first", big))
    cluster.await_alloc("first")
    answer = cluster.run(job("second", big))
    evaluation = cluster.await_that(lambda: (e := cluster.get("evaluation/" + answer["EvalID"]))["BlockedEval"] and e)
    assert evaluation["FailedTGAllocs"]["g"]["DimensionExhausted"] == {"cpu": 1}
    blocked = cluster.get("evaluation/" + evaluation["BlockedEval"])
    assert (blocked["Status"], blocked["PreviousEval"]) == ("blocked", answer["EvalID"])
    assert cluster.allocs("second") == [] and cluster.get("job/second")["Status"] == "pending"
    cluster.purge("first")
    cluster.await_alloc("second")
    cluster.purge("second")


def test_what_belongs_to_jobs_nodes_and_tokens_is_read(cluster):
    answer = cluster.run(job("read", task(FOREVER)))
    alloc, = cluster.await_alloc("read")
    assert answer["EvalID"] in [e["ID"] for e in cluster.get("evaluations")]
    assert answer["EvalID"] in [e["ID"] for e in cluster.get("job/read/evaluations")]
    assert [a["ID"] for a in cluster.get(f"evaluation/{answer['EvalID']}/allocations")] == [alloc["ID"]]
    assert cluster.get("job/read/summary")["Summary"]["g"]["Running"] == 1
    assert cluster.get("job/read/deployment") is None
    assert cluster.ask("POST", "job/read/evaluate", {})[0] == 200
    assert cluster.ask("PUT", "job/read", {"Job": job("read", task(FOREVER))})[0] == 200
    node = cluster.get("node/" + alloc["NodeID"])
    assert node["Status"] == "ready" and node["Facts"]["Attributes"]["driver.raw_exec"] == "1"
    assert alloc["ID"] in [a["ID"] for a in cluster.get(f"node/{node['ID']}/allocations")]
    for eligibility in ("ineligible", "eligible"):
        assert cluster.ask("PUT", f"node/{node['ID']}/eligibility", {"Eligibility": eligibility})[0] == 200
        assert cluster.get("node/" + node["ID"])["SchedulingEligibility"] == eligibility
    assert cluster.ask("PUT", f"node/{node['ID']}/eligibility", {"Eligibility": "x"})[0] == 400
    token = token_with(cluster, "short", 'node { policy = "read" }')
    assert cluster.ask("GET", "scheduler/acl/token/self", token=token)[1]["Policies"] == ["short"]
    assert cluster.get("scheduler/acl/policy/short")["Rules"] == 'node { policy = "read" }'
    assert cluster.ask("GET", "nodes", token=token)[0] == 200
    assert cluster.ask("DELETE", "scheduler/acl/policy/short")[0] == 200
    assert cluster.ask("GET", "nodes", token=token)[0] == 403
    assert cluster.ask("GET", "scheduler/acl/policy/short") == (404, "ACL policy not found")
    assert cluster.ask("PUT", "job/read", {"Job": job("other", task("true"))}) == (400, "Job ID does not match name")
    cluster.purge("read")


def test_a_new_version_of_a_job_replaces_what_runs(cluster):
    cluster.run(job("changing", task(FOREVER), count=2))
    old = cluster.await_alloc("changing", count=2)
    cluster.run(job("changing", task(FOREVER), count=1))
    left, = cluster.await_alloc("changing")
    assert left["ID"] in [a["ID"] for a in old] and left["Name"] == "changing.g[0]"
    cluster.run(job("changing", task(FOREVER, Env={"A": "1"}), count=1))
    new = cluster.await_that(lambda: [a for a in cluster.allocs("changing") if a["JobVersion"] == 2
                                      and a["ID"] != left["ID"]])[0]
    assert new["PreviousAllocation"] == left["ID"]
    assert cluster.ask("PUT", "jobs", {"Job": job("changing", task("true")), "EnforceIndex": True,
                                       "JobModifyIndex": 1})[0] == 500
    cluster.purge("changing")


def test_a_lost_node_is_replaced_and_comes_back_without_its_past(cluster):
    second = cluster.add_agent("agent2", meta={"rack": "b"})
    on_second = [{"LTarget": "${meta.rack}", "RTarget": "b", "Operand": "="}]
    cluster.run(job("movable", task("echo $$; " + FOREVER), Constraints=on_second))
    old, = cluster.await_alloc("movable")
    assert old["NodeName"] == "agent2"
    pid = int(cluster.await_that(lambda: cluster.logs(old)))
    second.kill()
    cluster.await_that(lambda: not os.path.exists(f"/proc/{pid}"))
    lost = cluster.await_that(lambda: (a := cluster.get("allocation/" + old["ID"]))["ClientStatus"] == "lost" and a)
    assert lost["DesiredDescription"] == "alloc is lost since its node is down"
    assert {n["Name"]: n["Status"] for n in cluster.get("nodes")}["agent2"] == "down"
    second.start()
    new, = cluster.await_alloc("movable")
    assert new["NodeID"] == old["NodeID"] and new["ID"] != old["ID"]
    assert new["PreviousAllocation"] == old["ID"]
    cluster.purge("movable")
    second.end()


def test_the_loss_of_the_active_server_disturbs_no_task(cluster):
    cluster.run(job("steady", task("echo $$; " + FOREVER)))
    alloc, = cluster.await_alloc("steady")
    pid = int(cluster.await_that(lambda: cluster.logs(alloc)))
    lost = cluster.active()
    lost.kill()
    others = [node for node in cluster.nodes if node is not lost]
    cluster.await_that(lambda: cluster.ask("PUT", "jobs", {"Job": job("later", task(FOREVER))}, node=others[0])[0] == 200)
    cluster.await_that(lambda: [a for a in cluster.get("job/later/allocations", node=others[1])
                                if a["ClientStatus"] == "running"])
    for node in others:
        with WebSocket(node, f"client/allocation/{alloc['ID']}/exec?task=t&command=[%22true%22]",
                       cluster.token) as socket:
            assert socket.finish()[1] == 0
    assert os.path.exists(f"/proc/{pid}") and cluster.logs(alloc) == f"{pid}\n"
    lost.start()
    cluster.await_up()
    cluster.purge("later")
    cluster.purge("steady")
