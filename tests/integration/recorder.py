"""Every call of the tests, kept for the contract test, where HOLDFAST_RECORDS names a folder.

A record says which engine stands where the path leads, as far as the calls themselves told: mounts
are made, tuned and moved by calls too. What a call that ran beside such a change reached, nobody
knows: its record names no engine. Which API a call of a shared listener was for, the documents of the
APIs say (tests/contract). Standard library only."""

import contextlib
import json
import os
import threading
import urllib.parse

FOLDER = os.environ.get("HOLDFAST_RECORDS")
BODY_MAX = 1 << 16
BOTH_KV = {"secret/": "kv2", "cubbyhole/": "cubbyhole"}

powerless = set()  # tokens known to allow nothing
lock = threading.Lock()


class Mounts:
    """Of one cluster: {path: engine}, and how many changes of it were begun and ended."""

    def __init__(self):
        self.engines = dict(BOTH_KV)
        self.begun = self.ended = 0
        self.anonymous_may = False  # whether the registry's anonymous token was given anything


clusters = {}  # port of a node: Mounts of its cluster
alone = {}  # port of a listener: the API that it serves alone


def know(ports):
    """The ports of the nodes of one new cluster."""
    mounts = Mounts()
    for port in ports:
        clusters[port] = mounts


def know_api(port, of, api):
    """A further listener of the node with the port `of`, which serves one API."""
    if of in clusters:
        clusters[port] = clusters[of]
        alone[port] = api


def join(port, of):
    clusters[port] = clusters[of]


def fields(body):
    try:
        value = json.loads(body) if body else {}
    except (ValueError, TypeError):
        return {}
    return value if isinstance(value, dict) else {}


def engine_of(kind, options):
    version = str((options or {}).get("version", "1")) if isinstance(options, dict) else "1"
    names = {"kv": f"kv{version}", "kv-v2": "kv2", "kv-v1": "kv1", "generic": "kv1"}
    return names.get(kind, kind)


def follow(mounts, method, path, body, status):
    """What a call did to the mounts."""
    if method not in ("POST", "PUT") or status not in (200, 204):
        return
    given = fields(body)
    name = path.removeprefix("sys/mounts/").strip("/")
    if path == "sys/remount":
        source, target = (str(given.get(k, "")).strip("/") + "/" for k in ("from", "to"))
        if source in mounts:
            mounts[target] = mounts[source]
    elif path.startswith("sys/auth/"):
        if not path.endswith("/tune"):
            mounts[path.removeprefix("sys/").strip("/") + "/"] = given.get("type")
    elif path.startswith("sys/mounts/") and path.endswith("/tune"):
        name = name.removesuffix("/tune") + "/"
        options = given.get("options")
        if isinstance(options, dict) and options.get("version") and name in mounts:
            mounts[name] = engine_of("kv", options)
    elif path.startswith("sys/mounts/"):
        mounts[name + "/"] = engine_of(given.get("type"), given.get("options"))


def place(mounts, path):
    """(engine, rest of the path); "" for what stands at a fixed path, None for no mount."""
    if path.startswith(("sys/", "auth/token/", "identity/")) or path == "metrics":
        return "", path
    for name in sorted(mounts, key=len, reverse=True):
        if path.startswith(name) or path + "/" == name:
            return mounts[name], path[len(name):]
    return None, path


HEADERS = {"secrets": ("x-secrets-token", "x-vault-token"),
           "registry": ("x-registry-token", "x-consul-token"),
           "scheduler": ("x-scheduler-token", "x-nomad-token")}


def token_of(api, headers, query):
    """The token that a call sent, as this API looks for it."""
    values = {name.lower(): value for name, value in headers.items()}
    if api == "registry":
        values[""] = urllib.parse.parse_qs(query).get("token", [""])[0]
    for name in ("", *HEADERS[api]):
        if values.get(name):
            return values[name]
    return values.get("authorization", "").removeprefix("Bearer ")


ANONYMOUS = "acl/token/00000000-0000-0000-0000-000000000002"


def kind_of(api, mounts, headers, query):
    token = token_of(api, headers, query)
    if not token:
        return "anonymous" if api == "registry" and mounts.anonymous_may else "none"
    return "powerless" if token in powerless else "good"


def changes_mounts(method, target):
    return method in ("POST", "PUT", "DELETE") and target.startswith(("/v1/sys/mounts", "/v1/sys/auth", "/v1/sys/remount"))


@contextlib.contextmanager
def asking(port, method, target):
    """Around a call; gives what tells, once it was answered, whether the mounts stood still."""
    mounts = clusters.get(port) or Mounts()
    own = 1 if changes_mounts(method, target) else 0
    with lock:
        quiet = mounts.begun == mounts.ended
        mounts.begun += own
        before = mounts.begun
    try:
        yield lambda: quiet and mounts.begun == before
    finally:
        with lock:
            mounts.ended += own


def is_kept(body):
    """Not of a body that has not ended, nor of one that is too long."""
    return body is not None and len(body) <= BODY_MAX


def record(port, method, target, body, headers, answer, client, settled=True):
    if not FOLDER or port not in clusters or not target.startswith("/v1/"):
        return
    raw, _, query = target.partition("?")
    path = "/".join(part for part in urllib.parse.unquote(raw).split("/") if part)
    path = path.removeprefix("v1/") + ("/" if raw.endswith("/") else "")
    mounts = clusters[port]
    with lock:
        follow(mounts.engines, method, path, body, answer.status)
        mounts.anonymous_may = mounts.anonymous_may or (
            path == ANONYMOUS and method == "PUT" and answer.status == 200)
        engine, rest = place(mounts.engines, path)
    if not settled and engine:
        engine = None
    line = {
        "client": client, "method": method, "path": path, "engine": engine, "rest": rest, "query": query,
        "api": alone.get(port), "tokens": {api: kind_of(api, mounts, headers, query) for api in HEADERS},
        "status": answer.status, "type": answer.headers.get("Content-Type"),
        "body": answer.body.decode(errors="replace") if is_kept(answer.body) else None,
    }
    with open(os.path.join(FOLDER, f"{os.getpid()}.jsonl"), "a") as out:
        out.write(json.dumps(line) + "\n")
