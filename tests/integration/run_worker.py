"""A scripted worker: it speaks the protocol of docs/worker-protocol.md, through any node."""

import base64
import hashlib
import json
import random
import string
import urllib.parse

from platform_cluster import make

ARCHIVE = base64.b64decode("H4sIAAAAAAAAA+3BMQEAAADCoPVPbQ0PoAAAAAAAAAAAAAAAAAAAAIA3A5reHScAKAAA")


def nonce():
    return "".join(random.choices(string.ascii_letters + string.digits, k=32))


class Worker:
    """One worker of a pool; each request goes to another node."""

    def __init__(self, cluster, token, name="w-1"):
        self.cluster, self.token, self.node = cluster, token, 0
        self.index = 0
        self.agent = self.ask("POST", "worker/register", {"name": name, "version": "test", "tools": []})["agent_id"]

    def answer(self, method, path, body=None):
        numbers = [number for number, node in enumerate(self.cluster.nodes) if node.alive]
        self.node = min((n for n in numbers if n > self.node), default=numbers[0])
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        answer = self.cluster.nodes[self.node].call(method, "/api/v2/" + path, body, "", headers)
        self.cluster.contract.judge(method, "/" + path, answer)
        return answer

    def ask(self, method, path, body=None, status=200):
        answer = self.answer(method, path, body)
        assert answer.status == status, (method, path, answer.status, answer.body)
        return answer.json if answer.body else None

    def jobs(self, wait=None):
        path = f"worker/agents/{self.agent}/jobs"
        answer = self.ask("GET", path + (f"?index={self.index}&wait={wait}s" if wait else ""))
        self.index = answer["index"]
        return answer["jobs"]

    def await_job(self, run=None):
        """The first job that waits, of a run or of any."""
        jobs = self.jobs()
        for _ in range(60):
            found = [job for job in jobs if run in (None, job["run_id"])]
            if found:
                return found[0]
            jobs = self.jobs(wait=5)
        raise AssertionError("no job came")

    def claim(self, run=None, phase=None):
        waiting = self.await_job(run)
        assert phase in (None, waiting["phase"]), waiting
        return Job(self, waiting["id"])


class Job:
    def __init__(self, worker, job):
        self.worker, self.nonce = worker, nonce()
        self.path = f"worker/agents/{worker.agent}/jobs/{job}"
        self.told = self.act("claim")
        self.offset = 0

    def act(self, what, expect=200, **more):
        return self.worker.ask("POST", f"{self.path}/{what}", {"claim": self.nonce, **more}, expect)

    def log(self, text, expect=200):
        raw = text if isinstance(text, bytes) else text.encode()
        said = self.act("log", expect, offset=self.offset, data=base64.b64encode(raw).decode())
        if expect == 200:
            self.offset += len(raw)
            assert said["length"] == self.offset
        return said

    def file(self, what, raw, status=204):
        answer = self.worker.answer("PUT", f"{self.path}/files/{what}?claim={self.nonce}", raw)
        assert answer.status == status, (what, answer.status, answer.body)

    def end_plan(self, changes=True, additions=1):
        self.log("banner 1\nbanner 2\nbanner 3\nPlan: 1 to add\n")
        if changes:
            self.file("plan-file", b"the plan of " + self.told["run_id"].encode())
        self.file("json-output", json.dumps({"format_version": "1.2"}).encode())
        self.file("json-output-redacted", json.dumps({"plan_format_version": "1.2"}).encode())
        self.act("end", **{"has_changes": changes, "resource_additions": additions}, **FINISHED)

    def get(self, url):
        return fetch(self.worker.cluster, url, self.worker.node)

    def state(self, serial=1, lineage="l-run", status=201, token=None):
        raw = json.dumps({"version": 4, "terraform_version": "1.10.6", "serial": serial, "lineage": lineage,
                          "outputs": {"x": {"value": self.told["run_id"], "type": "string"}}, "resources": [],
                          "check_results": None}).encode()
        body = make("state-versions", serial=serial, md5=hashlib.md5(raw).hexdigest(), lineage=lineage,
                    state=base64.b64encode(raw).decode())
        return self.worker.cluster.ask("POST", f"workspaces/{self.told['workspace_id']}/state-versions", body,
                                       status=status, who=token or self.told["run_token"], node=self.worker.node)

    def end_apply(self, serial=1):
        assert self.get(self.told["plan_file_url"]) == b"the plan of " + self.told["run_id"].encode()
        self.log("banner 1\nbanner 2\nbanner 3\nApply complete!\n")
        self.state(serial)
        self.act("end", resource_additions=1, **FINISHED)


FINISHED = {"status": "finished", "message": "", "tool": "tofu", "tool_version": "1.10.6"}


def fetch(cluster, url, node=0, status=200):
    """What a signed URL gives, without a token."""
    parts = urllib.parse.urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    answer = cluster.nodes[node].call("GET", target, None, "")
    assert answer.status == status, (url, answer.status, answer.body)
    return answer.body


def upload(cluster, ws, who="olga", raw=ARCHIVE, status=204, **attributes):
    attributes.setdefault("auto-queue-runs", False)
    config = cluster.ask("POST", f"workspaces/{ws}/configuration-versions",
                         make("configuration-versions", **attributes), status=201, who=who)["data"]
    parts = urllib.parse.urlsplit(config["attributes"]["upload-url"])
    answer = cluster.nodes[1].call("PUT", f"{parts.path}?{parts.query}", raw, "")
    assert answer.status == status, (answer.status, answer.body)
    return config["id"]


def run_body(ws, config=None, **attributes):
    related = {"workspace": {"data": {"type": "workspaces", "id": ws}}}
    if config:
        related["configuration-version"] = {"data": {"type": "configuration-versions", "id": config}}
    return make("runs", related, **attributes)


def read_run(cluster, run, node=0, **more):
    return cluster.ask("GET", f"runs/{run}", who="olga", node=node, **more)["data"]


def status_of(cluster, run, node=0):
    return read_run(cluster, run, node)["attributes"]["status"]


def act(cluster, run, action, status=202, who="olga", node=0, body=None):
    return cluster.ask("POST", f"runs/{run}/actions/{action}", body if body is not None else {}, status=status,
                       who=who, node=node)
