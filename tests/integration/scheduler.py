"""A cluster that serves the scheduler, agents of the built program, and a WebSocket client of its own."""

import base64
import json
import os
import re
import signal
import socket
import struct
import subprocess
import time

from cluster import COMPLAINT, HOLDFAST, PATIENCE_S, Cluster

UNKNOWN = "00000000-0000-4000-8000-000000000000"


class SchedulerCluster(Cluster):
    """Three nodes; agents that a test started end with it."""

    audited = False  # agents send requests of their own

    def __init__(self, size=3, config=None):
        super().__init__(size, {"scheduler": {"beat_ttl": "1s", "beat_grace": "1s", "beat_first": "6s"},
                                **(config or {})})
        self.agents = []

    def __exit__(self, kind, value, trace):
        found = []
        for agent in self.agents:
            agent.end()
            found += re.findall(f"(?:{COMPLAINT})[^\n]*", agent.log.read_text(errors="replace"))
            if kind is not None:
                print(f"--- {agent.name}\n{agent.log.read_text(errors='replace')[-4000:]}")
        super().__exit__(kind, value, trace)
        assert kind is not None or not found, "\n".join(found)

    def init(self):
        super().init()
        self.await_feature_level()

    def ask(self, method, path, body=None, node=None, token=None):
        """Status and the body: parsed where it is JSON, else its text."""
        node = node or self.nodes[0]
        headers = {"X-Nomad-Token": self.token if token is None else token}
        answer = node.call(method, "/v1/" + path, body, "", headers)
        is_json = answer.headers.get("Content-Type") == "application/json"
        self.headers = answer.headers
        return answer.status, json.loads(answer.body) if is_json else answer.body.decode()

    def get(self, path, node=None):
        status, body = self.ask("GET", path, node=node)
        assert status == 200, body
        return body

    def add_agent(self, name, **config):
        agent = Agent(self, name, config)
        self.agents.append(agent)
        agent.start()
        return agent

    def run(self, job):
        status, body = self.ask("PUT", "jobs", {"Job": job})
        assert status == 200, body
        return body

    def allocs(self, job):
        return self.get(f"job/{job}/allocations")

    def await_alloc(self, job, status="running", count=1):
        """The allocations of a job that shall run, once `count` of them have the status."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = [a for a in self.allocs(job) if a["DesiredStatus"] == "run"]
            if len(found) == count and all(a["ClientStatus"] == status for a in found):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    def await_that(self, holds):
        deadline = time.monotonic() + PATIENCE_S
        while not (found := holds()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return found

    def state(self, alloc, task="t"):
        return self.get("allocation/" + alloc["ID"])["TaskStates"][task]

    def logs(self, alloc, task="t", kind="stdout"):
        folder = self.agent_of(alloc).data / "allocs" / alloc["ID"] / "alloc" / "logs"
        files = sorted(folder.glob(f"{task}.{kind}.*"), key=lambda f: int(f.suffix[1:]))
        return "".join(f.read_text() for f in files)

    def agent_of(self, alloc):
        return next(agent for agent in self.agents if agent.name == alloc["NodeName"])

    def purge(self, job):
        self.ask("DELETE", f"job/{job}")
        self.await_that(lambda: all(a["ClientStatus"] in ("complete", "failed", "lost")
                                    for a in self.allocs(job)))


class Agent:
    def __init__(self, cluster, name, config):
        self.cluster, self.name = cluster, name
        self.dir = cluster.dir / name
        self.dir.mkdir()
        self.data, self.log = self.dir / "data", self.dir / "log"
        status, body = cluster.ask("PUT", "client/node/token", {"TTL": "10m", "Uses": 1})
        assert status == 200, body
        (self.dir / "join").write_text(body["SecretID"])
        self.config = {"servers": [node.url for node in cluster.nodes],
                       "ca_file": str(cluster.dir / "tls" / "tls-ca.pem"),
                       "join_token_file": str(self.dir / "join"), "data_dir": str(self.data),
                       "name": name, "raw_exec": True, "cpu": 4000, "memory_mb": 4000,
                       "disk_mb": 10000, **config}
        self.process = None

    def start(self):
        (self.dir / "agent.json").write_text(json.dumps(self.config))
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([HOLDFAST, "agent", "-config", str(self.dir / "agent.json")],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.cluster.await_that(lambda: "is registered" in self.log.read_text())
        # a link to every server
        self.cluster.await_that(lambda: all(
            f"node {self.id} opened its link" in node.log_text() for node in self.cluster.nodes))

    @property
    def id(self):
        return (self.data / "node").read_text().split()[0]

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Closed(Exception):
    """The server sent a close frame."""

    def __init__(self, code, text):
        super().__init__(f"{code} {text}")
        self.code, self.text = code, text


class WebSocket:
    """A client as RFC 6455 wants it, written for these tests alone."""

    def __init__(self, node, path, token="", headers=(), key=None, preamble=b""):
        raw = socket.create_connection(("127.0.0.1", node.client_port), timeout=PATIENCE_S)
        raw.sendall(preamble)
        self.socket = node.cluster.tls.wrap_socket(raw, server_hostname="127.0.0.1")
        key = key or base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET /v1/{path} HTTP/1.1", f"Host: 127.0.0.1:{node.client_port}", "Upgrade: websocket",
                 "Connection: Upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", *headers]
        if token:
            lines.append(f"X-Nomad-Token: {token}")
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.input = b""
        while b"\r\n\r\n" not in self.input:
            part = self.socket.recv(4096)
            assert part, self.input
            self.input += part
        head, self.input = self.input.split(b"\r\n\r\n", 1)
        self.head = head.decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def read(self, n):
        while len(self.input) < n:
            part = self.socket.recv(65536)
            if not part:
                raise EOFError
            self.input += part
        taken, self.input = self.input[:n], self.input[n:]
        return taken

    def frame(self):
        """The next message, parsed."""
        first, second = self.read(2)
        assert first & 0x70 == 0 and second & 0x80 == 0, "reserved bits, or a server that masks"
        length = second & 0x7F
        if length == 126:
            length, = struct.unpack(">H", self.read(2))
        elif length == 127:
            length, = struct.unpack(">Q", self.read(8))
        body = self.read(length)
        if first & 0x0F == 8:
            raise Closed(struct.unpack(">H", body[:2])[0], body[2:].decode())
        assert first == 0x81, first
        return json.loads(body)

    def send(self, message, opcode=1):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        mask = os.urandom(4)
        length = struct.pack(">B", 0x80 | len(body)) if len(body) < 126 else struct.pack(">BH", 0xFE, len(body))
        masked = bytes(b ^ mask[i % 4] for i, b in enumerate(body))
        self.socket.sendall(bytes([0x80 | opcode]) + length + mask + masked)

    def finish(self):
        """All that comes until the close frame: streams, exit code, frames in order, and the close."""
        out, frames, code = {"stdout": b"", "stderr": b""}, [], None
        try:
            while True:
                frame = self.frame()
                frames.append(frame)
                for name in out:
                    out[name] += base64.b64decode(frame.get(name, {}).get("data", ""))
                if frame.get("exited"):
                    code = frame["result"]["exit_code"]
        except Closed as closed:
            return out, code, frames, closed


def stdin(text):
    return {"stdin": {"data": base64.b64encode(text).decode()}}


def task(script, name="t", **more):
    """A task that a shell runs."""
    return {"Name": name, "Driver": "raw_exec", "Config": {"command": "/bin/sh", "args": ["-c", script]},
            "Resources": {"CPU": 100, "MemoryMB": 50}, "KillTimeout": 2_000_000_000, **more}


def job(id, *tasks, count=1, **group):
    return {"ID": id, "TaskGroups": [{"Name": "g", "Count": count, "Tasks": list(tasks), **group}]}
