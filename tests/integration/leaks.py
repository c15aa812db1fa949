"""Secrets that tests handed to a cluster or got from it, and the search for them in all that its
nodes wrote and in their errors. Standard library only."""

import base64
import json
import pathlib
import subprocess
import threading

KNOWN_MAX = 4000  # secrets of one cluster
BODY_MAX = 1 << 16
DUMP_MAX = 64 << 20  # bytes of a data directory that is still explained
TOKENS = ("root_token", "client_token", "token", "join_token", "SecretID", "BootstrapSecret",
          "secret_id", "password", "password_hash")
TOKEN_HEADERS = ("x-secrets-token", "x-vault-token", "x-registry-token", "x-consul-token",
                 "x-scheduler-token", "x-nomad-token")
SHARES = ("key", "keys", "keys_base64", "recovery_keys", "recovery_keys_base64", "otp",
          "encoded_token")
# Elsewhere keys are names.
SHARED = ("/v1/sys/init", "/v1/sys/unseal", "/v1/sys/generate-root", "/v1/sys/rekey")
SSH = ("private_key", "otp")  # rules of roles and public keys are no secrets
REGISTRY = ("Description", "Rules")  # ids and names of its objects are no secrets
# Names, ids and descriptions of the platform are no secrets.
PLATFORM = ("value", "password", "hmac-key", "hmac_key", "auth-token", "private-key", "cloud-a-secret-key",
            "cloud-b-credentials", "cloud-c-client-secret", "aws-secret-key", "state")
SCHEDULER = ("args", "Env", "Rules")  # ids and names of its objects are no secrets
SCHEDULER_PATHS = ("/v1/job", "/v1/client/", "/v1/allocation", "/v1/scheduler/", "/v1/node")
GIVEN = ("--exclude=holdfast.json", "--exclude-dir=own")  # not written by a node
# Any token at all, whoever made it.
TOKEN = r"hv[sbr]\.[0-9A-Za-z_-]{20,}"

watched = {}  # port of a node: the secrets of its cluster


def spellings(secret):
    """The secret as it may stand in a file: as it is, in hex, in base64 at each alignment."""
    yield secret
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    for pad in range(3):
        text = base64.b64encode(b"\0" * pad + secret)
        yield text[4 : len(text) // 4 * 4 - 4]


def is_unmistakable(text):
    return len(text) >= 16 and len(set(text)) >= 8


def parsed(body):
    try:
        return json.loads(body) if body and len(body) <= BODY_MAX else None
    except (ValueError, TypeError):
        return None


def strings(value, names=None):
    """The strings in a value; only those of these members, where names are given."""
    if isinstance(value, str) and names is None:
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from strings(item, None if names is None or name in names else names)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item, names)


class Secrets:
    """What one cluster must keep to itself."""

    def __init__(self):
        self.lock = threading.Lock()  # held while `known` is read or grows
        self.known = {}  # secret: what it is
        self.errors = []

    def add(self, what, secret):
        secret = secret.encode() if isinstance(secret, str) else secret
        if not is_unmistakable(secret):
            return
        with self.lock:
            if len(self.known) < KNOWN_MAX:
                self.known.setdefault(secret, what)

    def note(self, path, body, headers, answer):
        """One call: its token, the tokens and keys that it names, and what it stores."""
        for name, value in headers.items():
            if name.lower() in TOKEN_HEADERS:
                self.add("a token", value)
            elif name.lower() == "authorization":
                self.add("a token", value.removeprefix("Bearer "))
        given = parsed(body)
        names = TOKENS + SHARES if path.startswith(SHARED) else TOKENS
        for value in (given, parsed(answer.body)):
            for text in strings(value, names):
                self.add("a token or a key share", text)
        if path.startswith("/api/v2/"):
            if "signature=" in path:
                self.add("the signature of a URL", path.rpartition("signature=")[2])
            for text in strings(given, PLATFORM):
                self.add("a secret of the platform", text)
        elif not path.startswith(("/v1/sys/", "/v1/auth/", "/v1/identity/")):
            ssh = path.startswith("/v1/ssh")
            names = (REGISTRY if path.startswith("/v1/acl/") else SSH if ssh else
                     SCHEDULER if path.startswith(SCHEDULER_PATHS) else None)
            for text in strings(given, names):
                self.add("a stored value", text)
            if ssh and answer.status == 200 and isinstance(parsed(answer.body), dict):
                for text in strings(parsed(answer.body).get("data"), ("private_key", "key")):
                    self.add("a key or password for SSH", text)
        # A failed batch gives its results beside the status of an error.
        if answer.status >= 400 and b'"batch_results"' not in answer.body:
            with self.lock:
                self.errors += [
                    f"{what} in an error of {path}"
                    for secret, what in self.known.items()
                    if secret in answer.body
                ]

    def search(self, folders, scratch):
        """What of them stands in files of the folders; `scratch` is a file to write to."""
        wanted = {}
        for secret, what in self.known.items():
            for spelling in spellings(secret):
                if len(spelling) >= 8 and b"\n" not in spelling:
                    wanted[spelling] = what
        scratch.write_bytes(b"".join(each + b"\n" for each in wanted))
        found = []
        for options in (["-F", "-f", str(scratch)], ["-E", "-e", TOKEN]):
            done = subprocess.run(
                ["grep", "-raoZ", "-D", "skip", *options, *GIVEN, "--"]
                + [str(folder) for folder in folders],
                capture_output=True,
                env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
                timeout=900,
            )
            assert done.returncode in (0, 1), done.stderr
            for line in done.stdout.splitlines():
                place, _, match = line.partition(b"\0")
                found.append(f"{wanted.get(match, 'a token')} in {place.decode()}")
        return sorted(set(found))


def watch(port, secrets):
    watched[port] = secrets


def note(port, path, body, headers, answer):
    if port in watched:
        watched[port].note(path, body, headers, answer)


def dump(program, data, out):
    """What `holdfast dump` tells of a data directory, as files."""
    targets = [("log", data)] + [("snapshot", path) for path in data.rglob("*.snap")]
    for n, (what, path) in enumerate(targets):
        with open(f"{out}.{n}", "wb") as file:
            subprocess.run([program, "dump", what, str(path)], stdout=file, stderr=file, timeout=900)


def of_cluster(cluster, program):
    """What leaked: in errors, in what the nodes wrote, and in the explanations of their data."""
    seal_key = cluster.dir / "seal.key"
    if seal_key.exists():
        cluster.secrets.add("the seal key", seal_key.read_bytes())
    dumps = cluster.dir / "dumps"
    dumps.mkdir()
    for node in cluster.nodes:
        files = [path for path in node.data.rglob("*") if path.is_file()]
        if files and sum(path.stat().st_size for path in files) <= DUMP_MAX:
            dump(program, node.data, dumps / node.name)
    folders = [node.dir for node in cluster.nodes] + [dumps]
    found = cluster.secrets.search(folders, pathlib.Path(cluster.dir / "wanted"))
    return sorted(set(cluster.secrets.errors)) + found
