"""A worker of the built program, and servers of the tests' own, which can lose a reply or a lease at will."""

import base64
import hashlib
import http.server
import io
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import tarfile
import tempfile
import threading
import time

from cluster import COMPLAINT, HOLDFAST, PATIENCE_S

TERRAFORM = shutil.which("terraform")
NO_TERRAFORM = "terraform is not installed on this machine"
AGENT = "agent-0000000000000001"


def archive(files):
    """A configuration as a client uploads it. A value is a text, bytes, or a tarfile.TarInfo."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            content = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


class Worker:
    """`holdfast worker` with a folder below `top`."""

    def __init__(self, top, servers, ca_file, token, name="worker1", **config):
        self.dir = pathlib.Path(top) / name
        self.dir.mkdir()
        self.data, self.log = self.dir / "data", self.dir / "log"
        (self.dir / "token").write_text(token + "\n")
        self.config = {"servers": servers, "ca_file": str(ca_file), "token_file": str(self.dir / "token"),
                       "data_dir": str(self.data), "name": name, "unsandboxed": True, "stop_s": "20s", **config}
        self.process = None

    def start(self, env=None, wait=True):
        (self.dir / "worker.json").write_text(json.dumps(self.config))
        begun = self.log_text().count("is registered")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([HOLDFAST, "worker", "-config", str(self.dir / "worker.json")],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, **(env or {})})
        if wait:
            await_that(lambda: self.log_text().count("is registered") > begun or self.process.poll() is not None)
            assert self.process.poll() is None, self.log_text()
        return self

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def jobs(self):
        folder = self.data / "jobs"
        return sorted(one.name for one in folder.iterdir()) if folder.exists() else []

    def states(self):
        return sorted((self.data / "states").glob("*.tfstate"))

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE_S)
        return self.process.returncode if self.process is not None else None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def complaints(self):
        return re.findall(f"(?:{COMPLAINT})[^\n]*", self.log_text())


def await_that(holds, patience_s=PATIENCE_S):
    deadline = time.monotonic() + patience_s
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


class Job:
    def __init__(self, id, phase, spec):
        self.id, self.phase, self.spec = id, phase, spec
        self.claim, self.claims = None, 0
        self.action, self.lost = "continue", False
        self.log, self.files, self.states, self.ends = bytearray(), {}, [], []

    @property
    def text(self):
        return re.sub("\x1b\\[[0-9;]*m", "", self.log.decode())  # without colours

    @property
    def end(self):
        return self.ends[0] if self.ends else None


class Script:
    """Plays the servers of the worker's protocol, by HTTPS. `drop` names the requests whose next reply is
    lost after the request was carried out; `down`: connections are closed without a reply."""

    def __init__(self, lease_s=12, renew_s=1):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-worker-"))
        subprocess.run([HOLDFAST, "cluster", "bootstrap", "-out", str(self.dir / "tls"), "node1"],
                       check=True, stdout=subprocess.DEVNULL)
        self.ca_file = self.dir / "tls" / "tls-ca.pem"
        self.lease_s, self.renew_s = lease_s, renew_s
        self.lock = threading.Condition()
        self.jobs, self.blobs, self.drop, self.down = [], {}, [], False
        self.registered, self.beats, self.refuse_state = [], [], None
        self.worker = None
        script = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # one packet for head and body

            def do(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with script.lock:
                    status, reply, kind = (0, b"", "") if script.down else script.serve(self, body)
                    lost = kind in script.drop
                    if lost:
                        script.drop.remove(kind)
                if status == 0 or lost:
                    self.close_connection = True
                    return
                reply = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            do_GET = do_POST = do_PUT = do

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, address):
                pass  # the worker was killed in the middle of a request

        self.server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.dir / "tls" / "tls-node1.pem", self.dir / "tls" / "tls-node1-key.pem")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"https://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        found = []
        if self.worker is not None:
            self.worker.end()
            found = self.worker.complaints()
            if kind is not None:
                print(self.worker.log_text()[-4000:])
                print(*[f"--- {job.id}: {job.ends}\n{job.text[-4000:]}" for job in self.jobs], sep="\n")
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.dir)
        assert kind is not None or not found, found

    def start_worker(self, env=None, **config):
        self.worker = Worker(self.dir, [self.url], self.ca_file, "agent-token", **config)
        return self.worker.start(env)

    # What a test gives the worker to do.

    def add(self, phase, files, **spec):
        number = len(self.jobs) + 1
        blob = f"/blob/{number}"
        self.blobs[blob] = files if isinstance(files, bytes) else archive(files)
        job = Job(f"{phase}-{number:016}", phase, {
            "id": f"{phase}-{number:016}", "phase": phase, "agent_id": AGENT, "lease_s": self.lease_s,
            "renew_s": self.renew_s, "run_id": f"run-{number:016}", "run_message": "", "organization": "acme",
            "project": "Default Project", "workspace_id": "ws-0000000000000001", "workspace": "prod",
            "is_destroy": False, "refresh": True, "refresh_only": False, "plan_only": False, "save_plan": False,
            "allow_empty_apply": False, "allow_config_generation": False, "debugging_mode": False,
            "structured_output": False, "target_addrs": [], "replace_addrs": [], "working_directory": "",
            "tool": "", "tool_version": "latest", "configuration_version_id": "cv-1",
            "configuration_url": "https://gone.invalid" + blob, "variables": [], "state": None,
            "plan_file_url": None, "run_token": "run-token", "identity_token": None, "timeout_s": 120, **spec})
        with self.lock:
            self.jobs.append(job)
            self.lock.notify_all()
        return job

    def run(self, phase, files, **spec):
        """A job to its end."""
        job = self.add(phase, files, **spec)
        await_that(lambda: job.ends)
        return job

    def apply_of(self, plan, **spec):
        """The apply that belongs to a plan: the same configuration, its plan file, tool and state."""
        number = plan.spec["configuration_url"].rpartition("/")[2]
        self.blobs[f"/plan/{number}"] = plan.files["plan-file"]
        return self.add("apply", self.blobs[f"/blob/{number}"], **{
            "plan_file_url": f"{self.url}/plan/{number}", "tool": plan.end["tool"],
            "tool_version": plan.end["tool_version"], "state": plan.spec["state"], **spec})

    def applied(self, files, **spec):
        plan = self.run("plan", files, **spec)
        assert plan.end["status"] == "finished", plan.text
        job = self.apply_of(plan, **{k: v for k, v in spec.items() if k not in ("tool", "tool_version")})
        await_that(lambda: job.ends)
        return job

    def state_of(self, raw):
        self.blobs["/state"] = raw
        return {"id": "sv-1", "download_url": self.url + "/state", "serial": json.loads(raw)["serial"],
                "lineage": json.loads(raw)["lineage"], "md5": hashlib.md5(raw).hexdigest()}

    # The servers. The lock is held.

    def serve(self, request, body):
        path, _, query = request.path.partition("?")
        words = path.strip("/").split("/")
        if request.command == "GET" and path in self.blobs:
            return 200, self.blobs[path], "blob"
        if words[:2] == ["state-upload"] or words[0] == "state-upload":
            self.find(words[1]).states[-1] = body
            return 200, {}, "state-upload"
        if words[2:3] == ["workspaces"]:
            return self.serve_state(request, json.loads(body))
        if request.headers["Authorization"] != "Bearer agent-token":
            return 401, {"errors": [{"status": "401", "title": "unauthorized", "detail": ""}]}, "auth"
        if words[3:] == ["register"]:
            self.registered.append(json.loads(body))
            return 200, {"agent_id": AGENT, "pool_id": "apool-default", "lease_s": self.lease_s,
                         "renew_s": self.renew_s, "heartbeat_s": 1, "log_bytes_max": 1 << 20,
                         "file_bytes_max": 8 << 20}, "register"
        if words[-1] == "heartbeat":
            self.beats.append(json.loads(body)["status"])
            return 200, {}, "heartbeat"
        if words[-1] == "jobs":
            self.lock.wait_for(lambda: self.waiting() or self.down, 1)
            return 200, {"index": len(self.jobs) + 1, "jobs": [
                {"id": job.id, "phase": job.phase, "run_id": job.spec["run_id"], "tool": "",
                 "tool_version": "latest"} for job in self.waiting()]}, "jobs"
        return self.serve_job(self.find(words[6]), words[7:], query, body)

    def waiting(self):
        return [job for job in self.jobs if job.claim is None]

    def find(self, id):
        return next(job for job in self.jobs if id in (job.id, job.spec["run_id"]))

    def serve_job(self, job, words, query, body):
        what = words[0]
        said = json.loads(body) if what != "files" else {"claim": query.removeprefix("claim=")}
        if what == "claim":
            job.claims += 1
            job.claim = job.claim or said["claim"]
        if said["claim"] != job.claim or job.lost:
            return 409, {"errors": [{"status": "409", "title": "conflict", "detail": "not yours"}]}, what
        if what == "claim":
            return 200, {**job.spec, "claim": job.claim}, what
        if what == "renew":
            return 200, {"action": job.action, "lease_s": self.lease_s, "log_length": len(job.log)}, what
        assert not job.ends or what == "end", f"{what} after the end"
        if what == "log":
            data, offset = base64.b64decode(said["data"], validate=True), said["offset"]
            assert 0 < len(data) <= 65536 and offset <= len(job.log)
            job.log += data[len(job.log) - offset:]
            return 200, {"length": len(job.log)}, what
        if what == "files":
            job.files[words[1]] = body
            return 204, b"", what
        assert what == "end"
        job.ends.append(said)
        return 200, {}, what

    def serve_state(self, request, said):
        if request.headers["Authorization"] != "Bearer run-token" or self.refuse_state:
            detail = self.refuse_state or "no"
            return 409, {"errors": [{"status": "409", "title": "conflict", "detail": detail}]}, "state"
        given = said["data"]["attributes"]
        job = self.find(said["data"]["relationships"]["run"]["data"]["id"])
        raw = base64.b64decode(given["state"], validate=True) if "state" in given else None
        assert raw is None or hashlib.md5(raw).hexdigest() == given["md5"]
        job.states.append(raw)
        return 201, {"data": {"id": "sv-2", "type": "state-versions", "attributes": {
            "hosted-state-upload-url": None if raw else f"{self.url}/state-upload/{job.id}"}}}, "state"
