"""A node that means ill, and jobs that are made to take memory: no server ends, and none grows without a bound."""

import select
import socket
import struct
import threading

import pytest

from scheduler import SchedulerCluster, WebSocket, job, task

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def cluster():
    with SchedulerCluster() as made:
        yield made


def joined(cluster, **facts):
    """The id and the secret of a node that no agent serves."""
    status, token = cluster.ask("PUT", "client/node/token", {"TTL": "10m", "Uses": 1})
    assert status == 200, token
    status, made = cluster.ask("POST", "client/node/join", {}, token=token["SecretID"])
    assert status == 200, made
    body = {"Name": "stranger", "CPU": 1 << 24, "MemoryMB": 1 << 24, "DiskMB": 1 << 24,
            "Facts": {"Attributes": {"driver.raw_exec": "1"}, **facts}}
    status, beat = cluster.ask("POST", "client/node/register", body, token=made["SecretID"])
    assert status == 200, beat
    return made["NodeID"], made["SecretID"]


def memory(node, name):
    with open(f"/proc/{node.process.pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


def peaks(cluster):
    return [memory(node, "VmHWM") for node in cluster.nodes]


def grown(cluster, before):
    return max(now - then for now, then in zip(peaks(cluster), before))


def test_a_node_that_never_reads_makes_no_output_pile_up(cluster):
    _, secret = joined(cluster)
    node = cluster.nodes[1]
    with WebSocket(node, "client/node/link", secret) as link:
        before = memory(node, "VmRSS")
        ping = bytes([0x89, 0x80 | 125]) + struct.pack(">I", 0) + b"x" * 125
        link.socket.settimeout(3)
        try:
            for _ in range(1024):
                link.socket.sendall(ping * 512)  # 64 MiB in all
        except (TimeoutError, OSError):
            pass  # the server stopped reading, or gave the link up
        assert memory(node, "VmRSS") - before < 16 * MIB
        assert select.select([link.socket], [], [], 0)[0], "the server said nothing"
    assert cluster.ask("GET", "nodes", node=node)[0] == 200


def test_a_list_of_short_objects_is_refused_before_its_defaults_take_memory(cluster):
    before = peaks(cluster)
    many = [{}] * 250_000
    for spec in ({"ID": "wide", "TaskGroups": many}, {"ID": "deep", "TaskGroups": [{"Name": "g", "Tasks": many}]}):
        def asked(spec=spec):  # 503: the former body is in memory yet
            status, text = cluster.ask("PUT", "jobs", {"Job": spec})
            return status != 503 and (status, text)
        status, text = cluster.await_that(asked)
        assert status == 413 and "longer than" in text, (status, text)
    assert grown(cluster, before) < 90 * MIB


def test_allocations_of_a_long_job_share_one_copy_of_it(cluster):
    joined(cluster)
    long = job("long", task("true"), count=100)
    long["Meta"] = {f"k{i}": "v" for i in range(30_000)}
    cluster.run(long)
    found = cluster.await_that(lambda: (a := cluster.allocs("long")) and len(a) == 100 and a)
    before = peaks(cluster)
    for node in cluster.nodes:
        assert len(cluster.get("allocations", node=node)) == 100
    long["TaskGroups"][0]["Tasks"][0]["Env"] = {"A": "1"}
    cluster.run(long)  # each allocation is compared with its own version
    assert cluster.await_that(lambda: {a["DesiredStatus"] for a in cluster.allocs("long")
                                       if a["ID"] in {old["ID"] for old in found}} == {"stop"})
    assert grown(cluster, before) < 150 * MIB
    cluster.ask("DELETE", "job/long")


def test_a_job_is_refused_whose_length_times_its_counts_is_too_much(cluster):
    spec = job("bulky", task("true"), count=5000)
    spec["Meta"] = {"k": "v" * 20_000}
    status, text = cluster.ask("PUT", "jobs", {"Job": spec})
    assert status == 413 and "5000 allocations" in text, (status, text)
    spec["TaskGroups"][0]["Count"] = 50
    cluster.run(spec)
    cluster.ask("DELETE", "job/bulky")


def test_the_name_of_a_signal_is_bounded(cluster):
    joined(cluster)
    cluster.run(job("signalled", task("true")))
    alloc, = cluster.await_that(lambda: cluster.allocs("signalled"))
    path = f"client/allocation/{alloc['ID']}/signal"
    status, text = cluster.ask("PUT", path, {"Signal": "S" * 300_000})
    assert status == 400 and "Signal" in text, (status, text)
    cluster.ask("DELETE", "job/signalled")


@pytest.mark.parametrize("body", ["", "}}} garbage"])
def test_a_malformed_reply_of_a_node_is_not_passed_on(cluster, body):
    id_, secret = joined(cluster)
    never = {"Cron": {"Start": "0 0 1 1 * 1999", "End": "1 0"}}
    cluster.run(job(f"liar{len(body)}", task("true", Schedule=never),
                    Constraints=[{"LTarget": "${node.unique.id}", "RTarget": id_, "Operand": "="}]))
    alloc, = cluster.await_that(lambda: cluster.allocs(f"liar{len(body)}"))
    links = [WebSocket(node, "client/node/link", secret) for node in cluster.nodes]

    def reply(link):
        try:
            link.send({"ID": link.frame()["ID"], "HTTP": 200, "Body": body})
        except EOFError:
            pass  # the call went to the link of another server
    threads = [threading.Thread(target=reply, args=(link,)) for link in links]
    for thread in threads:
        thread.start()
    try:
        status, text = cluster.ask("GET", f"client/allocation/{alloc['ID']}/pause?task=t")
        assert (status, text) == (500, "the reply of the node is malformed")
    finally:
        for link, thread in zip(links, threads):
            link.socket.shutdown(socket.SHUT_RDWR)
            thread.join()
            link.socket.close()
        cluster.ask("DELETE", f"job/liar{len(body)}")


@pytest.mark.parametrize("policy,field", [
    ({"RestartPolicy": {"Attempts": 1000, "Interval": -1, "Delay": 0}}, "Interval"),
    ({"RestartPolicy": {"Attempts": 1, "Interval": 0}}, "Interval"),
    ({"RestartPolicy": {"Attempts": 1, "Delay": -5}}, "Delay"),
    ({"ReschedulePolicy": {"Unlimited": True, "Delay": 0}}, "Delay"),
    ({"ReschedulePolicy": {"Unlimited": True, "Delay": -2**63, "DelayFunction": "constant"}}, "Delay"),
    ({"ReschedulePolicy": {"Attempts": 3, "Delay": 2**63 - 1}}, "Delay"),
    ({"ReschedulePolicy": {"Unlimited": True, "MaxDelay": -1}}, "MaxDelay"),
])
def test_policies_that_start_tasks_without_a_pause_are_refused(cluster, policy, field):
    status, text = cluster.ask("PUT", "jobs", {"Job": job("restless", task("exit 1"), **policy)})
    assert status == 500 and f"{field} " in text and "is not in the range" in text, (status, text)
    if "RestartPolicy" in policy:  # also of a task alone
        status, text = cluster.ask("PUT", "jobs", {"Job": job("restless", task("exit 1", **policy))})
        assert status == 500 and f"{field} " in text, (status, text)
    assert cluster.ask("GET", "job/restless")[0] == 404


@pytest.mark.parametrize("facts", [{"Attributes": [1]}, {"Attributes": {"driver.raw_exec": {}}}, {"Attributes": "x"},
                                   {"Attributes": {"driver.raw_exec": "1", "unique.network.ip-address": "x\n"}}])
def test_facts_of_any_shape_end_no_server(cluster, facts):
    joined(cluster, **facts)
    cluster.run(job("shaped", task("true"), Constraints=[
        {"LTarget": "${attr.x}", "RTarget": "${meta.y}", "Operand": "="}]))
    cluster.await_that(lambda: cluster.get("job/shaped/evaluations"))
    assert all(node.process.poll() is None for node in cluster.nodes)
    cluster.ask("DELETE", "job/shaped")
