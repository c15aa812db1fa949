"""A cluster that serves the platform, and the servers outside that it calls."""

import hashlib
import hmac
import http.server
import json
import pathlib
import socketserver
import sys
import threading

from cluster import STEADY, Cluster, merged

sys.path.append(str(pathlib.Path(__file__).parent.parent / "contract"))
import schema  # noqa: E402

TYPE = "application/vnd.api+json"


class Receiver:
    """An HTTP server that keeps what it got; `reply` says how it replies to the next requests."""

    def __init__(self):
        self.got, self.status, self.body, self.headers = [], 200, b"ok", {}
        self.hold = threading.Event()
        self.hold.set()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                receiver.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                receiver.hold.wait(30)
                try:
                    self.send_response(receiver.status)
                    for name, value in receiver.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(receiver.body)))
                    self.end_headers()
                    self.wfile.write(receiver.body)
                except (BrokenPipeError, ConnectionResetError):
                    pass

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def reply(self, status=200, body=b"ok", headers=None):
        self.status, self.body, self.headers = status, body, headers or {}
        self.got.clear()

    def close(self):
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()


def signature(key, body):
    return hmac.new(key.encode(), body, hashlib.sha512).hexdigest()


class Mailbox:
    """An SMTP server; `refuse` maps a command to the line that refuses it, "stall" never replies."""

    def __init__(self):
        self.mails, self.refuse, self.auth = [], {}, False
        box = self

        class Handler(socketserver.StreamRequestHandler):
            def say(self, line):
                self.wfile.write(line.encode() + b"\r\n")

            def handle(self):
                try:
                    self.talk()
                except (BrokenPipeError, ConnectionResetError):
                    pass

            def talk(self):
                if box.refuse.get("CONNECT") == "stall":
                    self.rfile.read(1)
                    return
                self.say(box.refuse.get("CONNECT", "220 box"))
                mail = {"to": [], "auth": None}
                while line := self.rfile.readline().decode("latin-1").strip():
                    word = line.split(" ")[0].split(":")[0].upper()
                    if word in box.refuse:
                        self.say(box.refuse[word])
                    elif word == "EHLO":
                        self.say("250-box\r\n250 AUTH PLAIN LOGIN" if box.auth else "250 box")
                    elif word == "AUTH":
                        mail["auth"] = line
                        if line.upper() == "AUTH LOGIN":
                            self.say("334 VXNlcm5hbWU6")
                            mail["auth"] += " " + self.rfile.readline().decode().strip()
                            self.say("334 UGFzc3dvcmQ6")
                            mail["auth"] += " " + self.rfile.readline().decode().strip()
                        elif line.upper() == "AUTH PLAIN":
                            self.say("334 ")
                            mail["auth"] += " " + self.rfile.readline().decode().strip()
                        self.say("235 in")
                    elif word == "MAIL":
                        mail["from"] = line
                        self.say("250 ok")
                    elif word == "RCPT":
                        mail["to"].append(line)
                        self.say("250 ok")
                    elif word == "DATA":
                        self.say("354 go on")
                        lines = []
                        while (text := self.rfile.readline()) not in (b".\r\n", b""):
                            lines.append(text)
                        mail["text"] = b"".join(lines).decode()
                        box.mails.append(mail)
                        self.say("250 taken")
                    elif word == "QUIT":
                        self.say("221 bye")
                        return
                    else:
                        self.say("250 ok")

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def reset(self, auth=False, **refuse):
        self.mails.clear()
        self.refuse, self.auth = refuse, auth

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Contract:
    """The OpenAPI document of the platform: each reply that a test gets is held against it."""

    def __init__(self, document):
        self.document, self.called = document, set()
        self.operations = [(method, path, spec) for path, item in document["paths"].items()
                           for method, spec in item.items() if method != "parameters"]

    def match(self, method, path):
        """The operation that serves a path below the root: the one with the most literal pattern."""
        parts = path.partition("?")[0].strip("/").split("/")
        found = []
        for verb, pattern, spec in self.operations:
            words = pattern.strip("/").split("/")
            if verb == method.lower() and len(words) == len(parts) and all(
                    word.startswith("{") or word == part for word, part in zip(words, parts)):
                found.append(([word.startswith("{") for word in words], verb, pattern, spec))
        return min(found, key=lambda one: one[0])[1:] if found else None

    def judge(self, method, path, answer):
        operation = self.match(method, path)
        assert operation is not None or answer.status in (404, 405), (method, path, "is not in the document")
        if operation is None or answer.status >= 300:
            return
        verb, pattern, spec = operation
        self.called.add((verb, pattern))
        response = spec["responses"].get(str(answer.status))
        assert response is not None, (verb, pattern, answer.status, "is not said")
        kind = answer.headers["Content-Type"]
        if answer.body and kind == TYPE and TYPE in response.get("content", {}):
            wrong = schema.check(self.document, response["content"][TYPE]["schema"], answer.json)
            assert not wrong, (verb, pattern, wrong)


class PlatformCluster(Cluster):
    """Three nodes, a receiver, a mailbox; an organization `acme` with a workspace `prod`, and users."""

    recorded = False  # Contract judges its calls
    furnished = True

    def __init__(self, size=3, **platform):
        self.receiver, self.mailbox = Receiver(), Mailbox()
        super().__init__(size, config=merged(STEADY, {
            "outgoing": {"allow": ["127.0.0.1/32"]},
            "platform": {"sms_base_url": self.receiver.url, **platform},
        }))

    def __enter__(self):
        made = super().__enter__()
        try:
            made.await_feature_level()
            made.contract = Contract(made.nodes[0].call(
                "GET", "/v1/sys/internal/specs/openapi?api=platform").json)
            if made.furnished:
                made.furnish()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return made

    def __exit__(self, *about):
        self.receiver.close()
        self.mailbox.close()
        return super().__exit__(*about)

    def furnish(self):
        self.users = {name: self.make_user(name) for name in ("olga", "rita", "wim", "nina")}
        self.org = self.ask("POST", "organizations", make("organizations", name="acme", email="a@acme.example"),
                            status=201)
        for name in ("rita", "wim"):
            self.ask("POST", "organizations/acme/organization-memberships",
                     make("organization-memberships", email=f"{name}@acme.example"), status=201)
        owners = self.team("owners")
        self.ask("POST", f"teams/{owners}/relationships/users", {"data": [{"type": "users", "id": "olga"}]},
                 status=204)
        self.ws = self.ask("POST", "organizations/acme/workspaces", make("workspaces", name="prod"),
                           status=201)["data"]["id"]

    def team(self, name):
        teams = self.ask("GET", f"organizations/acme/teams?filter%5Bnames%5D={name}")["data"]
        return teams[0]["id"]

    def make_user(self, name, admin=False):
        user = self.ask("POST", "admin/users", make("users", username=name, email=f"{name}@acme.example",
                                                    **{"is-site-admin": admin}), status=201)["data"]["id"]
        token = self.ask("POST", f"users/{user}/authentication-tokens",
                         {"data": {"type": "", "attributes": {"description": "test"}}}, status=201)
        return user, token["data"]["attributes"]["token"]

    def answer(self, method, path, body=None, who=None, node=0, headers=None):
        """`who`: the name of a user, a token, "" for none; None: the site administrator."""
        token = self.token if who is None else self.users[who][1] if who in self.users else who
        sent = {"Content-Type": TYPE, **(headers or {})}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        path = path if path.startswith("/") else "/api/v2/" + path
        answer = self.nodes[node].call(method, path, body, "", sent)
        if path.startswith("/api/v2/"):
            self.contract.judge(method, path.removeprefix("/api/v2"), answer)
        return answer

    def ask(self, method, path, body=None, status=200, **more):
        answer = self.answer(method, path, body, **more)
        assert answer.status == status, (method, path, answer.status, answer.body)
        assert answer.headers["TFP-API-Version"] == "2.6"
        if not answer.body:
            return None
        if status >= 400:
            (error,) = answer.json["errors"]
            assert error["status"] == str(status) and error["title"], error
            return error
        return answer.json


def make(kind, relationships=None, **attributes):
    data = {"type": kind, "attributes": {name.replace("_", "-"): value for name, value in attributes.items()}}
    if relationships:
        data["relationships"] = relationships
    return {"data": data}


def read(text):
    return json.loads(text)
