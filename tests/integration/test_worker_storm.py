"""Workers and servers are killed under workspaces whose applies leave a line outside: each apply leaves one at most,
each workspace ends unlocked, with a state that an apply wrote."""

import http.client
import json
import os
import random
import threading
import time

import pytest

from cluster import PATIENCE_S
from platform_cluster import PlatformCluster, make
from worker import NO_TERRAFORM, TERRAFORM, Worker, archive, await_that

pytestmark = pytest.mark.skipif(TERRAFORM is None, reason=NO_TERRAFORM)

LONG = bool(os.environ.get("HOLDFAST_LONG"))
STORM_S = 120 if LONG else 20
WORKSPACES = 20 if LONG else 6
WORKERS = 3
FINAL = {"applied", "planned_and_finished", "errored", "canceled", "force_canceled", "discarded"}

CONFIG = '''
resource "terraform_data" "a" {{
  triggers_replace = ["{value}"]
  input            = "{value}"
  provisioner "local-exec" {{
    command = "echo {value} >> {outside}"
  }}
}}
output "o" {{
  value = terraform_data.a.output
}}
'''


class StormCluster(PlatformCluster):
    audited = False  # workers send requests of their own

    def __init__(self):
        super().__init__(run_lease="12s")
        self.workers = []

    def __enter__(self):
        made = super().__enter__()
        token = made.ask("POST", "agent-pools/apool-default/authentication-tokens",
                         make("authentication-tokens", description="storm"), status=201)["data"]["attributes"]["token"]
        for number in range(WORKERS):
            made.workers.append(Worker(made.dir, [node.url for node in made.nodes], made.dir / "tls" / "tls-ca.pem",
                                       token, name=f"worker{number}").start())
        return made

    def __exit__(self, kind, value, trace):
        for worker in self.workers:
            worker.end()
            if kind is not None:
                print(worker.log_text()[-3000:])
        found = [one for worker in self.workers for one in worker.complaints()]
        super().__exit__(kind, value, trace)
        assert kind is not None or not found


CLUSTER = StormCluster


class Storm:
    """Asks any node that replies; requests that change something may be repeated."""

    def __init__(self, cluster):
        self.cluster, self.runs, self.over = cluster, {}, False
        self.random = random.Random(7)

    def call(self, method, path, body=None, headers=None):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for node in self.cluster.nodes:
                try:
                    answer = node.call(method, path, body, "", headers, timeout_s=20)
                except (OSError, http.client.HTTPException):
                    continue  # the node is gone: the next one is asked
                if answer.status < 500:
                    return answer
            assert time.monotonic() < deadline, path
            time.sleep(0.2)

    def ask(self, method, path, body=None):
        answer = self.call(method, "/api/v2/" + path, body, {
            "Authorization": f"Bearer {self.cluster.token}", "Content-Type": "application/vnd.api+json"})
        return answer.status, answer.json if answer.body else None

    def start_run(self, workspace, outside):
        """One run with a value of its own: (value, id)."""
        value = f"{workspace}-{len(self.runs[workspace])}"
        _, version = self.ask("POST", f"workspaces/{workspace}/configuration-versions",
                              make("configuration-versions", **{"auto-queue-runs": False}))
        url = version["data"]["attributes"]["upload-url"]
        self.call("PUT", "/" + url.split("/", 3)[3], archive({"main.tf": CONFIG.format(value=value, outside=outside)}),
                  {"Content-Type": "application/octet-stream"})
        status, run = self.ask("POST", "runs", make("runs", {
            "workspace": {"data": {"type": "workspaces", "id": workspace}},
            "configuration-version": {"data": {"type": "configuration-versions", "id": version["data"]["id"]}}},
            **{"auto-apply": True}))
        if status == 201:
            self.runs[workspace].append((value, run["data"]["id"]))

    def status(self, run):
        return self.ask("GET", f"runs/{run}")[1]["data"]["attributes"]["status"]

    def user(self, workspace, outside):
        while not self.over:
            self.start_run(workspace, outside)
            await_that(lambda: self.over or not self.runs[workspace]
                       or self.status(self.runs[workspace][-1][1]) in FINAL)

    def blow(self):
        """Kill a worker or a server, and start it again."""
        if self.random.random() < 0.5:
            worker = self.random.choice(self.cluster.workers)
            worker.kill()
            worker.start(wait=False)
        else:
            node = self.random.choice(self.cluster.nodes)
            node.kill()
            time.sleep(self.random.random() * 2)
            node.start()
            self.cluster.await_up()


def test_each_apply_happens_at_most_once(cluster, tmp_path):
    storm, outside = Storm(cluster), tmp_path / "outside"
    outside.touch()
    workspaces = [cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name=f"storm-{number}"),
                              status=201)["data"]["id"] for number in range(WORKSPACES)]
    storm.runs = {workspace: [] for workspace in workspaces}
    threads = [threading.Thread(target=storm.user, args=(workspace, outside)) for workspace in workspaces]
    for thread in threads:
        thread.start()
    try:
        end = time.monotonic() + STORM_S
        while time.monotonic() < end:
            time.sleep(2)
            storm.blow()
    finally:
        storm.over = True
        for thread in threads:
            thread.join()
    statuses = {}
    for workspace in workspaces:
        for value, run in storm.runs[workspace]:
            statuses[value] = await_that(lambda run=run: (status := storm.status(run)) in FINAL and status)
        locked = storm.ask("GET", f"workspaces/{workspace}")[1]["data"]["attributes"]["locked"]
        assert locked is False, workspace
    lines = outside.read_text().split()
    assert len(lines) == len(set(lines)), "an apply happened twice"
    print({status: list(statuses.values()).count(status) for status in set(statuses.values())})
    assert set(statuses.values()) <= {"applied", "errored"} and "applied" in statuses.values()
    assert set(lines) <= set(statuses)
    for workspace in workspaces:
        order = [value for value, _ in storm.runs[workspace]]
        applied = [value for value in order if statuses[value] == "applied"]
        assert all(value in lines for value in applied)
        if not applied:
            continue
        code, outputs = storm.ask("GET", f"workspaces/{workspace}/current-state-version-outputs")
        assert code == 200
        shown = [one["attributes"]["value"] for one in outputs["data"] if one["attributes"]["name"] == "o"]
        # An errored run may have handed in a state too, in which the output may be missing.
        later = order[order.index(applied[-1]):]
        assert all(value in later for value in shown), (json.dumps(order), shown)
        if later == [applied[-1]]:
            assert shown == [applied[-1]]
