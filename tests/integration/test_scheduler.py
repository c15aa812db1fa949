"""The allocation API, with agents of the built program and real processes, through every server."""

import base64
import os
import time
import urllib.parse

import pytest

from scheduler import UNKNOWN, SchedulerCluster, WebSocket, job, stdin, task

CLUSTER = SchedulerCluster
FOREVER = "while :; do sleep 1; done"


@pytest.fixture(scope="module")
def cluster():
    with SchedulerCluster() as made:
        made.add_agent("agent1")
        yield made


@pytest.fixture(scope="module")
def web(cluster):
    """An allocation with a task that runs for ever."""
    cluster.run(job("web", task("echo begun; trap 'echo usr1' USR1; " + FOREVER)))
    alloc, = cluster.await_alloc("web")
    return alloc


def test_a_job_becomes_a_running_process_that_every_server_shows(cluster, web):
    for node in cluster.nodes:
        alloc = cluster.get("allocation/" + web["ID"], node=node)
        assert alloc["Name"] == "web.g[0]" and alloc["DesiredStatus"] == "run"
        assert alloc["ClientDescription"] == "Tasks are running"
        assert alloc["Job"]["ID"] == "web" and alloc["Resources"]["CPU"] == 100
        assert alloc["TaskStates"]["t"]["State"] == "running"
        assert [e["Type"] for e in alloc["TaskStates"]["t"]["Events"]] == ["Received", "Task Setup", "Started"]
        assert int(cluster.headers["X-Nomad-Index"]) == int(cluster.headers["X-Scheduler-Index"]) > 0
        assert web["ID"] in [a["ID"] for a in cluster.get("allocations", node=node)]
    cluster.await_that(lambda: cluster.logs(web) == "begun\n")


def test_a_list_is_cut_into_pages_that_begin_with_the_token(cluster, web):
    cluster.run(job("pages", task(FOREVER), count=3))
    cluster.await_alloc("pages", count=3)
    whole = [a["ID"] for a in cluster.get("allocations?namespace=*")]
    pages, token = [], ""
    while token is not None:
        pages += [a["ID"] for a in cluster.get(f"allocations?per_page=2&next_token={token}")]
        token = cluster.headers.get("X-Nomad-NextToken")
    assert pages == whole
    assert [a["ID"] for a in cluster.get("allocations?reverse=true")] == whole[::-1]
    entry, = cluster.get(f"allocations?prefix={web['ID'][:8]}&task_states=false&resources=true")
    assert entry["TaskStates"] is None and entry["AllocatedResources"]["Tasks"]["t"]["Cpu"]["CpuShares"] == 100
    cluster.purge("pages")


@pytest.mark.parametrize("query,status,text", [
    ("prefix=abc", 500, "UUID (without hyphens) must be even length"),
    ("prefix=zz", 500, "Invalid UUID"),
    ("per_page=x", 400, "Expect a number for `per_page`"),
    ("resources=maybe", 500, 'Failed to parse value of "resources" (maybe) as a bool'),
    ("task_states=2", 500, 'Failed to parse value of "task_states" (2) as a bool'),
    ("stale=maybe", 400, "Expect `true` or `false` for `stale`"),
    ("index=x", 400, "Invalid index"), ("wait=x", 400, "Invalid wait time"),
    ("region=mars", 500, "No path to region"),
])
def test_a_bad_parameter_of_a_list_is_refused_with_its_text(cluster, query, status, text):
    answer = cluster.ask("GET", "allocations?" + query)
    assert answer[0] == status and text in answer[1]


@pytest.mark.parametrize("method,path,body,status,text", [
    ("GET", "allocation/{u}", None, 404, "alloc not found"),
    ("GET", "allocation/abcd", None, 500, "UUID must be 36 characters"),
    ("POST", "allocation/{u}/stop", {}, 404, "allocation not found"),
    ("GET", "allocation/{u}/services", None, 404, "allocation not found"),
    ("GET", "allocation/{u}/checks", None, 404, 'Unknown allocation "{u}"'),
    ("POST", "client/allocation/{u}/signal", {"Signal": "SIGHUP"}, 404, 'Unknown allocation "{u}"'),
    ("POST", "client/allocation/{u}/restart", {}, 404, 'Unknown allocation "{u}"'),
    ("GET", "client/allocation/{u}/pause?task=t", None, 404, 'Unknown allocation "{u}"'),
    ("POST", "client/allocation/{u}/pause", {"Task": "t", "ScheduleState": "run"}, 404, "Unknown allocation"),
    ("POST", "client/allocation/{w}/signal", None, 400, "Failed to decode body"),
    ("POST", "client/allocation/{w}/signal", {"Task": "x", "Signal": "SIGHUP"}, 500, "Task not found"),
    ("POST", "client/allocation/{w}/restart", {"TaskName": "t", "AllTasks": True}, 500, "cannot be set"),
    ("POST", "client/allocation/{w}/restart", {"TaskName": "x"}, 500, "Could not find task runner for task: x"),
    ("POST", "client/allocation/{w}/pause", {"Task": "t", "ScheduleState": "no"}, 400, "Not a valid task schedule"),
    ("POST", "client/allocation/{w}/pause", {"Task": "t", "ScheduleState": "run"}, 400, "has no schedule"),
    ("DELETE", "allocations", None, 405, "Invalid method"),
    ("PUT", "jobs", {}, 400, "Job must be specified"),
    ("PUT", "jobs", {"Job": {"ID": "a b"}}, 500, "Job ID contains a space"),
    ("PUT", "jobs", {"Job": {"ID": "a"}}, 500, "Missing job task groups"),
    ("PUT", "jobs", {"Job": {"ID": "a", "Periodic": {"Spec": "x"}}}, 500, "Periodic is not built"),
    ("PUT", "jobs", {"Job": job("a", task("true", KillTimeout="5s"))}, 400, "field KillTimeout"),
    ("PUT", "jobs", {"Job": job("a", task("true"), count=1000000)}, 500, "Count 1000000 is not in the range"),
    ("GET", "job/absent", None, 404, "job not found"),
])
def test_a_request_that_cannot_be_served_says_why(cluster, web, method, path, body, status, text):
    spell = {"u": UNKNOWN, "w": web["ID"]}
    for node in cluster.nodes:
        answer = cluster.ask(method, path.format(**spell), body, node=node)
        assert answer[0] == status and text.format(**spell) in str(answer[1]), answer


def test_a_read_waits_until_its_allocation_changes(cluster, web):
    cluster.get("allocation/" + web["ID"])
    index = int(cluster.headers["X-Nomad-Index"])
    begun = time.monotonic()
    cluster.get(f"allocation/{web['ID']}?index={index}&wait=300ms")
    assert time.monotonic() - begun >= 0.3 and int(cluster.headers["X-Nomad-Index"]) == index


def test_a_signal_reaches_one_task_and_all(cluster, web):
    for node, body in zip(cluster.nodes, [{"Signal": "SIGUSR1", "Task": "t"}, {"Signal": "SIGUSR1"},
                                          {"Signal": "SIGUSR1", "Task": "t"}]):
        before = cluster.logs(web).count("usr1")
        assert cluster.ask("PUT", f"client/allocation/{web['ID']}/signal", body, node=node)[0] == 200
        cluster.await_that(lambda: cluster.logs(web).count("usr1") == before + 1)
    event = cluster.await_that(lambda: [e for e in cluster.state(web)["Events"] if e["Type"] == "Signaling"])[0]
    assert event["DisplayMessage"] == "Task being sent a signal" and event["Details"]["signal"] == "SIGUSR1"


def test_a_restart_replies_after_the_old_process_is_gone(cluster):
    cluster.run(job("again", task("echo $$; " + FOREVER)))
    alloc, = cluster.await_alloc("again")
    for node in cluster.nodes:
        old = int(cluster.await_that(lambda: cluster.logs(alloc)).split()[-1])
        assert cluster.ask("POST", f"client/allocation/{alloc['ID']}/restart", {}, node=node)[0] == 200
        assert not os.path.exists(f"/proc/{old}")
        cluster.await_that(lambda: int(cluster.logs(alloc).split()[-1]) != old)
    state = cluster.await_that(lambda: (s := cluster.state(alloc))["Restarts"] == 3 and s)
    assert "Restart Signaled" in [e["Type"] for e in state["Events"]] and not state["Failed"]
    cluster.purge("again")


def test_restart_of_all_tasks_runs_those_that_have_ended(cluster):
    done = job("done", task("echo ran", name="once"), task(FOREVER))
    cluster.run({**done, "Type": "batch"})
    alloc = cluster.await_that(lambda: [a for a in cluster.allocs("done") if
                                        (a["TaskStates"] or {}).get("once", {}).get("State") == "dead"])[0]
    assert cluster.ask("POST", f"client/allocation/{alloc['ID']}/restart", {"AllTasks": True})[0] == 200
    cluster.await_that(lambda: cluster.logs(alloc, "once") == "ran\nran\n")
    cluster.purge("done")


def test_a_stopped_allocation_is_replaced_by_one_of_its_name(cluster):
    cluster.run(job("moved", task(FOREVER)))
    old, = cluster.await_alloc("moved")
    status, answer = cluster.ask("POST", f"allocation/{old['ID']}/stop", node=cluster.nodes[2])
    assert status == 200 and answer["Index"] > 0
    cluster.await_that(lambda: cluster.get("evaluation/" + answer["EvalID"])["Status"] == "complete")
    new, = cluster.await_alloc("moved")
    old = cluster.get("allocation/" + old["ID"])
    assert (new["PreviousAllocation"], old["NextAllocation"]) == (old["ID"], new["ID"])
    assert new["Name"] == old["Name"] and old["DesiredDescription"] == "alloc is being migrated"
    assert old["ClientStatus"] == "complete" and old["DesiredTransition"]["Migrate"] is True
    assert [e["Type"] for e in old["TaskStates"]["t"]["Events"]][-3:] == ["Killing", "Terminated", "Killed"]
    cluster.purge("moved")


def test_stop_skips_the_shutdown_delay_if_asked(cluster):
    cluster.run(job("slow", task(FOREVER, ShutdownDelay=60_000_000_000)))
    old, = cluster.await_alloc("slow")
    assert cluster.ask("POST", f"allocation/{old['ID']}/stop?no_shutdown_delay=true")[0] == 200
    new = cluster.await_that(lambda: [a for a in cluster.allocs("slow") if a["PreviousAllocation"] == old["ID"]])[0]
    assert cluster.ask("POST", f"allocation/{new['ID']}/stop?no_shutdown_delay=true")[0] == 200
    cluster.await_that(lambda: cluster.get("allocation/" + new["ID"])["ClientStatus"] == "complete")
    last, = cluster.await_alloc("slow")
    cluster.ask("DELETE", "job/slow")
    cluster.await_that(lambda: "delay" in str(cluster.state(last)["Events"]))
    assert cluster.get("allocation/" + last["ID"])["ClientStatus"] == "running"
    cluster.ask("POST", f"allocation/{last['ID']}/stop?no_shutdown_delay=true")
    cluster.purge("slow")


def test_a_task_that_fails_is_restarted_as_its_policy_says(cluster):
    policy = {"Attempts": 1, "Interval": 60_000_000_000, "Delay": 100_000_000, "Mode": "fail"}
    spec = job("fails", task("exit 3"), RestartPolicy=policy, ReschedulePolicy={"Attempts": 0, "Unlimited": False})
    cluster.run(spec)
    alloc, = cluster.await_alloc("fails", "failed")
    state = cluster.state(alloc)
    assert state["State"] == "dead" and state["Failed"] and state["Restarts"] == 1
    ended = [e for e in state["Events"] if e["Type"] == "Terminated"]
    assert ended[0]["DisplayMessage"] == "Exit Code: 3" and ended[0]["Details"]["exit_code"] == "3"
    assert state["Events"][-1]["DisplayMessage"].startswith("Exceeded allowed attempts 1 in interval 1m0s")
    cluster.purge("fails")


def test_a_program_that_is_missing_fails_its_allocation(cluster):
    spec = job("absent", {**task(""), "Config": {"command": "/no/such/program"}},
               ReschedulePolicy={"Attempts": 0, "Unlimited": False})
    cluster.run(spec)
    alloc, = cluster.await_alloc("absent", "failed")
    assert [e["Type"] for e in cluster.state(alloc)["Events"]][-2:] == ["Driver Failure", "Not Restarting"]
    cluster.purge("absent")


def exec_path(alloc, *command, task="t", **more):
    words = urllib.parse.quote(str(list(command)).replace("'", '"'))
    return f"client/allocation/{alloc['ID']}/exec?" + urllib.parse.urlencode({"task": task, **more}) + "&command=" + words


def test_exec_runs_a_command_in_the_task_through_every_server(cluster, web):
    for node in cluster.nodes:
        with WebSocket(node, exec_path(web, "/bin/sh", "-c", "cat; echo $NOMAD_ALLOC_ID >&2; exit 7"),
                       cluster.token) as socket:
            assert socket.head.startswith("HTTP/1.1 101 ")
            socket.send(stdin(b"to the command\n"))
            socket.send({"tty_size": {"height": 10, "width": 20}})
            socket.send({})
            socket.send({"stdin": {"close": True}})
            out, code, frames, closed = socket.finish()
        assert out == {"stdout": b"to the command\n", "stderr": web["ID"].encode() + b"\n"}
        assert code == 7 and closed.code == 1000
        assert frames[-1] == {"exited": True, "result": {"exit_code": 7}}
        assert frames[-3:-1] == [{"stdout": {"close": True}}, {"stderr": {"close": True}}]


def test_exec_tells_an_exit_code_of_zero_without_an_end_of_input(cluster, web):
    with WebSocket(cluster.nodes[1], exec_path(web, "true"), cluster.token) as socket:
        _, code, _, closed = socket.finish()
    assert code == 0 and closed.code == 1000


def test_exec_with_a_terminal_has_its_size(cluster, web):
    with WebSocket(cluster.nodes[0], exec_path(web, "/bin/sh", "-c", "read line; stty size; test -t 0", tty="true"),
                   cluster.token) as socket:
        socket.send({"tty_size": {"height": 33, "width": 99}})
        socket.send(stdin(b"go\n"))
        out, code, _, _ = socket.finish()
    assert b"33 99" in out["stdout"] and out["stderr"] == b"" and code == 0


def test_exec_takes_its_token_from_the_first_frame(cluster, web):
    for node in cluster.nodes:
        with WebSocket(node, exec_path(web, "echo", "seen", ws_handshake="true")) as socket:
            socket.send({"version": 1, "auth_token": cluster.token})
            out, code, _, closed = socket.finish()
        assert (out["stdout"], code, closed.code) == (b"seen\n", 0, 1000)
    for first, text in [({"version": 2, "auth_token": cluster.token}, "unexpected handshake value: 2"),
                        ({"version": 1, "auth_token": UNKNOWN}, "Permission denied")]:
        with WebSocket(cluster.nodes[0], exec_path(web, "true", ws_handshake="true")) as socket:
            socket.send(first)
            assert socket.finish()[3].text == text


@pytest.mark.parametrize("path,code,text", [
    ("client/allocation/{u}/exec?task=t&command=[%22true%22]", 1008, 'Unknown allocation "{u}"'),
    ("client/allocation/{w}/exec?command=[%22true%22]", 1008, "must provide task name"),
    ("client/allocation/{w}/exec?task=t", 1008, "command is not present"),
    ("client/allocation/{w}/exec?task=t&command=true", 1011, "failed to marshal command into json"),
    ("client/allocation/{w}/exec?task=t&command=[%22true%22]&tty=x", 1011, "tty value is not a boolean"),
    ("client/allocation/{w}/exec?task=x&command=[%22true%22]", 1008, 'unknown task name "x"'),
    ("client/allocation/{w}/exec?task=t&command=[%22no-such-program%22]", 1011, "failed to start command"),
])
def test_exec_reports_an_error_in_its_close_frame(cluster, web, path, code, text):
    spell = {"u": UNKNOWN, "w": web["ID"]}
    with WebSocket(cluster.nodes[1], path.format(**spell), cluster.token) as socket:
        closed = socket.finish()[3]
    assert closed.code == code and text.format(**spell) in closed.text


@pytest.mark.parametrize("frame,opcode,code,text", [
    (b"no JSON", 1, 1008, "JSON is expected"), (b"[]", 1, 1008, "JSON is expected"),
    ({"stdout": {"data": ""}}, 1, 1008, "unexpected message type"),
    ({"stdin": {"data": "%%%"}}, 1, 1008, "malformed base64"),
    ({"stdin": {"data": 7}}, 1, 1008, "malformed base64"),
    (b"\xff\xfe", 1, 1007, ""), (b"", 3, 1002, ""),
])
def test_exec_refuses_a_frame_that_means_nothing_and_ends_the_command(cluster, web, frame, opcode, code, text):
    with WebSocket(cluster.nodes[0], exec_path(web, "/bin/sh", "-c", "echo $$; cat"), cluster.token) as socket:
        pid = int(base64.b64decode(socket.frame()["stdout"]["data"]))
        socket.send(frame, opcode)
        closed = socket.finish()[3]
    assert closed.code == code and text in closed.text
    cluster.await_that(lambda: not os.path.exists(f"/proc/{pid}"))


def test_exec_carries_much_output_whole(cluster, web):
    with WebSocket(cluster.nodes[1], exec_path(web, "head", "-c", "3000000", "/dev/zero"), cluster.token) as socket:
        out, code, _, closed = socket.finish()
    assert len(out["stdout"]) == 3000000 and code == 0 and closed.code == 1000


def test_exec_of_a_client_that_goes_ends_the_command(cluster, web):
    with WebSocket(cluster.nodes[2], exec_path(web, "/bin/sh", "-c", "echo $$; sleep 1000"), cluster.token) as socket:
        pid = None
        while pid is None:
            frame = socket.frame()
            if "stdout" in frame:
                pid = int(base64.b64decode(frame["stdout"]["data"]))
        assert os.path.exists(f"/proc/{pid}")
    cluster.await_that(lambda: not os.path.exists(f"/proc/{pid}"))


def test_services_and_checks_are_those_of_the_running_task(cluster):
    web = "python3 -c \"import http.server as h; h.HTTPServer(('127.0.0.1', $NOMAD_PORT_http), " \
          "h.SimpleHTTPRequestHandler).serve_forever()\""
    checks = [{"Name": "up", "Type": "http", "Path": "/", "Interval": 1_000_000_000, "Timeout": 1_000_000_000},
              {"Name": "port", "Type": "tcp", "Interval": 1_000_000_000, "Timeout": 1_000_000_000,
               "OnUpdate": "ignore"},
              {"Name": "bad", "Type": "http", "Path": "/none", "Interval": 1_000_000_000, "Timeout": 1_000_000_000}]
    service = {"Name": "site", "Provider": "nomad", "PortLabel": "http", "Tags": ["a"], "Checks": checks}
    cluster.run(job("site", task("exec " + web), Networks=[{"DynamicPorts": [{"Label": "http"}]}],
                    Services=[service]))
    alloc, = cluster.await_alloc("site")
    for node in cluster.nodes:
        found, = cluster.get(f"allocation/{alloc['ID']}/services", node=node)
        assert found["ServiceName"] == "site" and found["AllocID"] == alloc["ID"] and found["Tags"] == ["a"]
        assert 20000 <= found["Port"] <= 32000 and found["CreateIndex"] > 0
    wanted = {"up": "success", "port": "success", "bad": "failure"}
    path = f"client/allocation/{alloc['ID']}/checks"
    cluster.await_that(lambda: {c["Check"]: c["Status"] for c in cluster.get(path).values()} == wanted)
    results = {c["Check"]: c for c in cluster.get(f"allocation/{alloc['ID']}/checks").values()}
    assert results["up"]["Output"] == "nomad: http ok" and results["port"]["Mode"] == "readiness"
    assert results["bad"]["StatusCode"] == 404 and all(len(c["ID"]) == 64 for c in results.values())
    cluster.purge("site")
    assert cluster.get(f"allocation/{alloc['ID']}/services") == []


def test_an_override_pauses_and_resumes_a_scheduled_task(cluster):
    never = {"Cron": {"Start": "0 0 1 1 * 1999", "End": "1 0"}}
    cluster.run(job("timed", task("echo $$; " + FOREVER, Schedule=never)))
    alloc = cluster.await_that(lambda: cluster.allocs("timed"))[0]
    path = f"client/allocation/{alloc['ID']}/pause"

    def override(state, node):
        assert cluster.ask("PUT", path, {"Task": "t", "ScheduleState": state}, node=node)[0] == 200

    def shows(state):
        return all(cluster.get(path + "?task=t", node=node)["ScheduleState"] == state for node in cluster.nodes)
    cluster.await_that(lambda: cluster.ask("GET", path + "?task=t")[0] == 200)
    assert shows("scheduled_pause") and cluster.logs(alloc) == ""
    override("run", cluster.nodes[0])
    assert shows("force_run")
    pid = int(cluster.await_that(lambda: cluster.logs(alloc)).split()[-1])
    override("pause", cluster.nodes[1])
    assert shows("force_pause")
    cluster.await_that(lambda: not os.path.exists(f"/proc/{pid}"))
    override("run", cluster.nodes[2])
    cluster.await_that(lambda: len(cluster.logs(alloc).split()) == 2)
    override("scheduled", cluster.nodes[0])
    cluster.await_that(lambda: shows("scheduled_pause"))
    state = cluster.await_that(lambda: (s := cluster.state(alloc))["State"] == "pending" and s)
    assert state["Restarts"] == 0 and not state["Failed"]
    cluster.purge("timed")
