"""Rules for every command: help, completion, flags, errors, exit codes."""

import functools
import http.server
import json
import os
import re
import socket
import ssl
import subprocess
import threading

import pytest

from cluster import HOLDFAST
from commands import COMMANDS, SECRET, UNREACHABLE, Cli, not_seen


@pytest.fixture
def cli(cluster, tmp_path):
    return Cli(cluster, tmp_path)


@functools.cache
def help_of(command):
    return subprocess.run([HOLDFAST, *command.split(), "-help"], capture_output=True, text=True,
                          timeout=120).stdout


def flags_of(command):
    """The flags in a command's help, those of every command too, as (name, what follows it)."""
    text = help_of(command)
    for name, value, other in re.findall(r"^  (-[a-z-]+)(=\S+?)?(?:, (-[a-z-]+))? ", text, re.M):
        yield name, value
        if other:
            yield other, value


def test_what_may_be_a_secret_is_never_repeated(cli):
    for args, code in (
        (["write", "kv/x", SECRET], 1), (["kv", "put", "secret/x", "a=1", SECRET], 1),
        (["token", "lookup", SECRET], 2), (["token", "renew", SECRET], 2),
        (["token", "capabilities", SECRET, "x"], 2), (["login", SECRET], 2),
        (["operator", "unseal", SECRET, "more"], 1), ([SECRET], 1), (["kv", SECRET], 1),
        (["read", f"-format={SECRET}", "x"], 1), (["kv", "put", f"-cas={SECRET}", "x", "a=1"], 1),
        (["read", f"-header={SECRET}", "x"], 1), (["token", "create", "x", SECRET], 1),
        (["kv", "put", "secret/x", "-" + SECRET], 1), (["-" + SECRET], 1),
        (["kv", "put", "secret/x", "password=@" + SECRET], 1),
        (["kv", "put", "secret/x", "@" + SECRET], 1),
        (["read", "sys/none", "password=" + SECRET], 2),
        (["read", "-header=A=b\r\nC: d", "x"], 2), (["acl", "bootstrap", SECRET], 1),
        (["acl", "token", "read", f"-accessor-id={SECRET}"], 2),
        (["acl", "token", "create", f"-node-identity={SECRET}"], 1),
        (["acl", "policy", "list", f"-token={SECRET}"], 2),
        (["acl", "policy", "list", f"-token-file={SECRET}"], 1),
        (["acl", "policy", "create", "-name=x", f"-rules=@{SECRET}"], 1),
    ):
        done = cli(*args, stdin=SECRET, code=code)
        assert SECRET not in done.stdout + done.stderr, args
    bad_token = cli("token", "lookup", token=SECRET + "\nX: y", code=2)
    assert SECRET not in bad_token.stderr


def test_a_refusal_says_what_to_do(cli):
    without = cli("read", "secret/data/x", token="", code=2).stderr
    assert 'holdfast login' in without and "HOLDFAST_TOKEN" in without
    powerless = cli("token", "create", "-policy=default", "-field=token").stdout
    for node in cli.cluster.nodes:
        refused = cli("write", "secret/data/x", "a=1", token=powerless, code=2,
                      env={"HOLDFAST_ADDR": node.url}).stderr
        assert re.search(r"^Request ID: [0-9a-f-]{36}$", refused, re.M), refused
        assert "holdfast login" not in refused
    moved = cli("write", "secret/app", "a=1", code=2).stderr
    assert "secret/data/app" in moved and "WARNING" in moved
    unknown = cli("read", "x", env={"HOLDFAST_CACERT": ""}, code=2).stderr
    assert "set HOLDFAST_CACERT or -ca-cert" in unknown
    port = cli.cluster.nodes[0].client_port
    other = cli("read", "x", code=2, env={"HOLDFAST_ADDR": f"https://127.1:{port}"}).stderr
    assert "certificate is for other names" in other and "CACERT" not in other
    plain = cli("read", "x", code=2, env={"HOLDFAST_ADDR": UNREACHABLE}).stderr
    assert "CACERT" not in plain


def test_a_refusal_has_the_id_it_is_recorded_under(cli):
    answer = cli.cluster.standbys()[0].call("PUT", "/v1/sys/mounts/x", {"type": "kv"}, token="none")
    assert answer.status == 403
    assert re.fullmatch(r"[0-9a-f-]{36}", answer.headers["X-Secrets-Request-ID"])
    assert answer.headers.get_all("X-Vault-Request-ID") == [answer.headers["X-Secrets-Request-ID"]]
    assert "X-Secrets-Request-ID" not in cli.cluster.nodes[0].call("GET", "/v1/sys/mounts").headers


def test_a_flag_without_effect_is_said(cli):
    """Help lists a flag only if its command reads it; where the others make it idle, it is named."""
    done = subprocess.run([HOLDFAST, "operator", "init", "-status", "-key-shares=3"],
                          capture_output=True, text=True, timeout=120, env=cli.env())
    assert done.returncode == 0 and done.stderr == "Warning: -key-shares had no effect here\n"


def test_a_duration_flag_refuses_an_empty_value_and_text(cli):
    """An empty variable of a script must not become a token, lease or reply without a limit."""
    seen = set()
    for command in ("token create", "token renew", "lease renew", "kv get", "kv metadata put", "secrets enable",
                    "secrets tune", "acl token create", "operator dr secondary-token", "operator dr drill",
                    "operator raft autopilot set-config", "operator raft join-token"):
        for name in sorted(name for name, value in flags_of(command) if value == "=DURATION"):
            seen.add(name)
            for value in ("", "soon", "-1s"):
                refused = cli(*command.split(), f"{name}={value}", code=1).stderr
                assert f"{name} must be a duration" in refused, (command, name, value, refused)
    assert {"-ttl", "-explicit-max-ttl", "-period", "-increment", "-wrap-ttl", "-expires-ttl", "-limit",
            "-default-lease-ttl", "-max-lease-ttl", "-delete-version-after", "-last-contact-threshold",
            "-server-stabilization-time"} <= seen
    cli("token", "create", "-ttl=500ms", code=2)
    assert cli("token", "create", "-ttl=2d", "-policy=default", "-field=token_duration").stdout.strip() in (
        "48h", "48h0m0s", "47h59m59s", "172800")


def test_what_cannot_be_reached_gives_2(cli, tmp_path):
    cli("read", "x", env={"HOLDFAST_ADDR": "https://127.0.0.1:1"}, code=2)
    cli("read", "x", env={"HOLDFAST_CACERT": str(cli.cluster.dir / "tls" / "ca.pem")}, code=2)
    cli("status", env={"HOLDFAST_ADDR": "https://127.0.0.1:1"}, code=1)
    cli("read", "x", env={"HOLDFAST_CLIENT_TIMEOUT": "soon"}, code=1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"http://127.0.0.1:{mute.getsockname()[1]}"
        late = cli("read", "x", f"-address={address}", code=2,
                   env={"HOLDFAST_CLIENT_TIMEOUT": "200ms"})
        assert "timed out" in late.stderr


def test_the_next_node_is_asked_where_one_refuses_connections(cli):
    nodes = [UNREACHABLE, *(node.url for node in cli.cluster.nodes)]
    gone = {"HOLDFAST_ADDR": UNREACHABLE, "HOLDFAST_NODES": ",".join(nodes)}
    cli("write", "kv/next", "a=1", env=gone)
    read = cli("read", "-field=a", "kv/next", env={"HOLDFAST_ADDR": "", "HOLDFAST_NODES": ", ".join(nodes)})
    assert read.stdout.strip() == "1" and f"trying {nodes[1]}" in read.stderr
    refused = cli("read", "kv/no", env=gone, code=2)
    assert "No value found" in refused.stderr and nodes[2] not in refused.stderr
    assert cli("acl", "policy", "list", env={
        "CONSUL_HTTP_ADDR": UNREACHABLE, "HOLDFAST_REGISTRY_NODES": ",".join(nodes)}).stdout
    # what names one node, or a node of no list, is asked of no other
    for args, env in ((("status",), gone), (("operator", "seal"), gone), (("operator", "dr", "demote"), gone),
                      (("read", f"-address={UNREACHABLE}", "kv/next"), gone),
                      (("read", "kv/next"), gone | {"HOLDFAST_NODES": ",".join(nodes[1:])})):
        said = cli(*args, env=env, code=1 if args == ("status",) else 2).stderr
        assert "trying" not in said and UNREACHABLE in said, args
    # a node that was connected to may have got the request
    with socket.create_server(("127.0.0.1", 0)) as mute:
        first = f"http://127.0.0.1:{mute.getsockname()[1]}"
        late = cli("write", "kv/next", "a=2", code=2, env={
            "HOLDFAST_ADDR": first, "HOLDFAST_NODES": ",".join([first, *nodes]), "HOLDFAST_CLIENT_TIMEOUT": "200ms"})
        assert "timed out" in late.stderr and "trying" not in late.stderr
    assert cli("read", "-field=a", "kv/next").stdout.strip() == "1"


def test_a_token_never_leaves_tls(cli):
    own = cli.cluster.dir / "tls" / f"tls-{cli.cluster.nodes[0].name}"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{own}.pem", f"{own}-key.pem")
    with socket.create_server(("127.0.0.1", 0)) as server, \
            socket.create_server(("127.0.0.1", 0)) as plain:
        answer = ("HTTP/1.1 307 Temporary Redirect\r\nContent-Length: 0\r\n"
                  f"Location: http://127.0.0.1:{plain.getsockname()[1]}/v1/x\r\n\r\n")

        def point_elsewhere():
            with context.wrap_socket(server.accept()[0], server_side=True) as asked:
                asked.recv(65536)
                asked.sendall(answer.encode())

        server.settimeout(60)
        pointing = threading.Thread(target=point_elsewhere)
        pointing.start()
        refused = cli("read", f"-address=https://127.0.0.1:{server.getsockname()[1]}", "x", code=2)
        pointing.join()
        assert "which is not https" in refused.stderr
        plain.setblocking(False)
        with pytest.raises(BlockingIOError):
            plain.accept()


def test_a_token_is_decoded_as_upstream_encodes_it(cli):
    """A known answer: the bytes of token and password mixed, in base64 without padding."""
    done = cli("operator", "dr", "token", "-decode=GUUpWhJAVRwaYGgWDEE+ZBd8ZA57PiEpAgoPDA",
               "-otp=q3ZtYw8LkR0aVxJ6uH2mCpEe7sGf")
    assert done.stdout.strip() == "hvs.K7mPq2XwZ9tRb4Vc8NdL5yHj"


def test_upstreams_environment_and_flags_are_understood(cli):
    url, ca = cli.cluster.nodes[1].url, str(cli.cluster.dir / "tls" / "tls-ca.pem")
    theirs = {"HOLDFAST_ADDR": "", "HOLDFAST_CACERT": "", "HOLDFAST_TOKEN": "", "VAULT_ADDR": url,
              "VAULT_TOKEN": cli.cluster.token, "VAULT_CACERT": ca, "VAULT_FORMAT": "json"}
    json.loads(cli("secrets", "list", env=theirs).stdout)
    cli("secrets", "list", env={**theirs, "VAULT_CACERT": "", "VAULT_SKIP_VERIFY": "true"})
    cli("secrets", "list", "-tls-skip-verify", env={**theirs, "VAULT_CACERT": ""})
    cli("secrets", "list", f"-address={url}", f"-ca-cert={ca}", "--format=table",
        "-header=X-Extra=1", env={"HOLDFAST_ADDR": "", "HOLDFAST_CACERT": ""})
    cli("secrets", "list", "-namespace=none", code=2)


def test_every_command_has_help(cli):
    assert len(COMMANDS) > 50 and "kv metadata get" in COMMANDS
    for command in COMMANDS:
        done = cli(*command.split(), "-help")
        assert done.stdout.startswith(f"usage: holdfast {command}") and done.stderr == ""
    assert cli("help", "kv", "get").stdout == cli("kv", "get", "--help").stdout
    assert "kv put" in cli("kv", "-h").stdout
    assert "kv put" in cli("kv", code=1).stderr
    assert 'unknown command "kv gte"; did you mean "kv get"?' in cli("kv", "gte", "x", code=1).stderr
    assert 'did you mean "operator unseal"?' in cli("unseal", code=1).stderr
    assert 'did you mean "read"?' in cli("raed", "secret/x", code=1).stderr
    assert "mean" not in cli("no-such-command", code=1).stderr
    assert "mean" not in cli("operator", "reinit", code=1).stderr  # it would do something else
    assert 'unknown command "nonsense"' in cli("help", "nonsense", code=1).stderr
    assert 'unknown command "kv nonsense"' in cli("help", "kv", "nonsense", code=1).stderr
    assert "unknown flag -fromat; did you mean -format?" in cli(
        "read", "-fromat=json", "x", code=1).stderr
    assert "did you mean -config?" in cli("server", "--confg", "x", code=1).stderr
    assert cli("version").stdout == cli("-version").stdout
    assert ".TH" in cli("man").stdout


def complete(*words):
    """What a real bash offers for the last word."""
    script = (f"source <('{HOLDFAST}' completion bash) || exit 3\n"
              'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()\n'
              "complete -p holdfast >/dev/null || exit 4\n"
              '_holdfast; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-uc", script, "bash", *words], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_every_command():
    wanted = {}
    for command in COMMANDS:
        words = command.split()
        for n in range(len(words)):
            wanted.setdefault(tuple(words[:n]), set()).add(words[n])
    for before, words in wanted.items():
        offered = complete("holdfast", *before, "")
        assert words <= set(offered) and len(offered) == len(set(offered)), before
    assert complete("holdfast", "kv", "me") == ["metadata"]
    assert complete("holdfast", "-address", "x", "operator", "raft", "sn") == ["snapshot"]
    assert "-mount=" in complete("holdfast", "kv", "get", "-m")
    assert complete("holdfast", "read", "-format", "=", "j") == ["json"]
    assert complete("holdfast", "read", "-format", "=") == ["table", "json"]
    assert complete("holdfast", "completion", "f") == ["fish"]


def complete_in_fish(script, line):
    """What a real fish offers at the end of the line."""
    done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C {line!r}"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return [row.partition("\t")[0] for row in done.stdout.splitlines()]


def test_fish_completes_commands_flags_and_values(cli, tmp_path):
    script = tmp_path / "holdfast.fish"
    script.write_text(cli("completion", "fish").stdout)
    assert complete_in_fish(script, "holdfast kv me") == ["metadata"]
    behind_a_flag = complete_in_fish(script, "holdfast kv get -mount=x --field=y -")
    assert {"-mount", "-version", "-address"} <= set(behind_a_flag)
    assert {"-force", "-f"} <= set(complete_in_fish(script, "holdfast write -ns=x -"))
    assert complete_in_fish(script, "holdfast read -format ") == ["json", "table"]
    assert complete_in_fish(script, "holdfast completion ") == ["bash", "fish", "zsh"]


def test_zsh_takes_the_script(cli, tmp_path):
    """And completes by it: the words are what compadd is given."""
    script = tmp_path / "_holdfast"
    script.write_text(cli("completion", "zsh").stdout)
    subprocess.run(["zsh", "-fn", script], check=True, timeout=120)

    def offered(*words):
        run = (f"compdef() {{ }}; compadd() {{ shift; print -l -- $@ }}; source {script};"
               " words=($@); CURRENT=$#; PREFIX=${words[CURRENT]}; _holdfast")
        done = subprocess.run(["zsh", "-fc", run, "zsh", *words], capture_output=True, text=True,
                              timeout=120)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        return done.stdout.split()

    assert "metadata" in offered("holdfast", "kv", "m")
    assert {"-mount=", "-address="} <= set(offered("holdfast", "kv", "get", "-version=1", "-"))
    assert offered("holdfast", "completion", "z")[:3] == ["bash", "zsh", "fish"]


def test_the_other_shells_get_every_command_too(cli):
    for shell in ("zsh", "fish"):
        script = cli("completion", shell).stdout
        assert all(f"'{command}'" in script for command in COMMANDS)
    cli("completion", "csh", code=1)
    cli("completion", code=1)


def test_a_closed_output_is_an_error(cli):
    with open("/dev/full", "w") as full:
        done = subprocess.run([HOLDFAST, "secrets", "list"], stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=120, env=cli.env())
    assert done.returncode == 1 and "standard output" in done.stderr


# What makes commands ask the server; else "x" for each argument that is required.
GIVEN = {
    "write": ["x", "a=1"], "patch": ["x", "a=1"], "kv put": ["x/y", "a=1"], "kv patch": ["x/y", "a=1"],
    "kv list": ["x"], "kv undelete": ["x/y", "-versions=1"], "kv destroy": ["x/y", "-versions=1"],
    "kv rollback": ["x/y", "-version=1"], "kv get": ["x/y"], "kv delete": ["x/y"],
    "kv metadata get": ["x/y"], "kv metadata put": ["x/y"], "kv metadata patch": ["x/y"],
    "kv metadata delete": ["x/y"], "login": ["x"], "token revoke": ["x"], "unwrap": ["x"],
    "policy write": ["x", "-"], "operator unseal": ["x"],
    "operator raft snapshot auto write": ["x", "a=1"],
    "acl policy create": ["-name=x"], "acl policy read": ["-id=x"],
    "acl policy update": ["-id=x"], "acl policy delete": ["-id=x"],
    "acl token create": ["-policy-name=x"], "acl token read": ["-self"],
    "acl token update": ["-accessor-id=x"], "acl token clone": ["-accessor-id=x"],
    "acl token delete": ["-accessor-id=x"],
    "operator raft snapshot save": ["/dev/null/x"], "operator raft snapshot restore": ["/dev/null"],
    "alloc status": ["00000000-0000-4000-8000-000000000000"],
    "alloc stop": ["00000000-0000-4000-8000-000000000000"],
}
WITHOUT_2 = {"status", "operator raft snapshot save", "job run"}  # 2 is for sealed; the file comes first


ASK_NO_SERVER = {
    "dev", "server", "agent", "worker", "cluster bootstrap", "cluster add", "audit verify", "dump log",
    "dump snapshot", "dump formats", "operator raft snapshot inspect", "operator raft recover",
    "operator raft snapshot verify", "policy fmt", "completion", "man", "version",
}
CLIENT_COMMANDS = [command for command in COMMANDS if command not in ASK_NO_SERVER]


def required_of(command):
    """What the usage of a command demands."""
    usage = help_of(command).splitlines()[0].removeprefix(f"usage: holdfast {command}")
    return re.sub(r"\[[^]]*\]…?", "", usage.replace(" | ", "|")).split()


def test_all_other_commands_ask_a_server():
    """Their help has the flags of every such command."""
    assert ASK_NO_SERVER == {each for each in COMMANDS if "Flags of every " not in help_of(each)}


@pytest.mark.parametrize("command", CLIENT_COMMANDS)
def test_what_is_given_wrongly_gives_1_and_no_server_2(cli, command):
    words, required = command.split(), required_of(command)
    done = cli(*words, "-no-such-flag", code=1)
    assert done.stdout == ""
    if required:
        assert cli(*words, code=1).stdout == ""
    cli(*words, *required, "-format=neither", code=1)
    for form in ("table", "json"):
        given = GIVEN.get(command, ["x"] * len(required))
        done = cli(*words, *given, f"-format={form}", stdin="x",
                   env={"HOLDFAST_ADDR": UNREACHABLE, "HOLDFAST_DR_NODES": UNREACHABLE,
                        "HOLDFAST_DR_TOKEN": "t"}, code=1 if command in WITHOUT_2 else 2)
        assert done.stdout == "" and done.stderr != ""


class Anything(http.server.BaseHTTPRequestHandler):
    """A server to which every request is right."""

    reply = {
        "request_id": "r", "initialized": True, "sealed": False, "type": "shamir", "started": True,
        "root_token": "t", "keys": ["k"], "keys_base64": ["k"], "nonce": "n", "progress": 0,
        "required": 1, "t": 1, "n": 1, "complete": False, "otp": "o", "otp_length": 28, "joined": True,
        "verification_required": True, "recovery_keys_base64": ["k"],
        "ID": "i", "auth": {"client_token": "t", "accessor": "a", "lease_duration": 1},
        "data": {
            "attributes": {"hosted-state-download-url": "http://h/api/v2/blobs/x/state",
                           "log-read-url": "http://h/api/v2/logs/x/y"},
            "keys": ["a"], "path": "x/", "options": {"version": "2"}, "policy": "p", "id": "i",
            "keys_base64": {"f": ["k"]},
            "data": {"a": "1"}, "metadata": {"version": 1}, "version": 1, "versions": {},
            "token": "t", "name": "x", "errors": [], "term": 1, "nodes": [], "capabilities": ["read"],
            "config": {"servers": []}, "custom_metadata": {"x": "1"}, "migration_id": "m",
            "migration_info": {"status": "success"},
        },
    }

    # the role after a change of it; the other cluster has the name localhost
    dr_roles = {"primary/enable": "primary", "primary/demote": "secondary",
                "secondary/enable": "secondary", "secondary/promote": "primary",
                "secondary/update-primary": "secondary"}
    dr_states = {"disabled": "", "primary": "running", "secondary": "stream-wals"}

    def dr(self, path):
        self.server.dr = self.dr_roles.get(path, self.server.dr)
        mode = "secondary" if self.headers["Host"].startswith("localhost") else self.server.dr
        return {**self.reply, "wrap_info": {"token": "t"},
                "data": {"mode": mode, "state": self.dr_states[mode], "ready": True, "passed": True,
                         "sync": True, "sync_timeout_ms": 2000, "bandwidth_bytes_per_second": 0,
                         "checks": [{"check": "state", "result": "ok", "details": "x"}]}}

    def do_any(self):
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = json.dumps({**self.reply, "type": self.server.seal})
        if self.path.startswith("/v1/sys/replication/dr/"):
            body = json.dumps(self.dr(self.path.removeprefix("/v1/sys/replication/dr/")))
        if self.path.partition("?")[0] in ("/v1/acl/policies", "/v1/acl/tokens", "/v1/acl/roles"):
            body = '[{"ID": "x", "AccessorID": "x"}]'
        elif self.command == "DELETE" and self.path.startswith("/v1/acl/"):
            body = "true"
        elif self.path.startswith("/api/v2/logs/"):
            body = "\x02a log that has ended\x03"
        body = body.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = do_any

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def anything():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Anything)
    server.seal = "shamir"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


VALUES = {"=N": "=1", "=DURATION": "=90s", "=NAME=VALUE": "=a=b", "": "", "=FILE": "=/dev/null", "=TEXT": "=x"}
# Values that their flag can have, where any text is not enough.
SPECIAL = {"-field": "=request_id", "-format": "=json", "-method": "=token", "-versions": "=1",
           "-pgp-keys": "=/dev/null", "-recovery-pgp-keys": "=/dev/null",
           "-target": "=recovery", "-mode": "=orphan", "-address": None, "-http-addr": None,
           "-token-file": "=FOLDER/b", "-expires-ttl": "=1h", "-node-identity": "=x:y",
           "-append-node-identity": "=x:y"}
WITH = {  # what a flag is given beside itself, or its command is without it
    "kv patch -method": ["-method=rw", "x/y", "a=1"], "login -field": ["-token-only", "t"],
    "login -path": ["-method=approle", "a=1"],
    "kv get -field": ["-field=a", "x/y"], "policy read -field": ["-field=policy", "x"],
    "lease revoke -force": ["-prefix", "x"], "lease revoke -f": ["-prefix", "x"],
    "lease list -limit": ["-all"],
    "operator generate-root": ["k"], "operator rekey": ["k"], "operator dr token": ["k"],
    "operator dr token -delete": [], "operator dr token -generate-otp": [],
    "operator dr token -otp": ["-init"], "operator dr token -pgp-key": ["-init"],
    "operator dr token -decode": ["-decode=Aw==", "-otp=x"],
    "operator dr enable primary -field": ["-field=token", "x"],
    "operator generate-root -generate-otp": [],
    "operator generate-root -otp": ["-init"], "operator generate-root -pgp-key": ["-init"],
    "operator rekey -key-shares": ["-init"], "operator rekey -key-threshold": ["-init"],
    "operator rekey -pgp-keys": ["-init"], "operator rekey -backup": ["-init"],
    "token revoke -self": [], "token revoke": ["x"], "token lookup -accessor": ["x"],
    "token renew -accessor": ["x"], "token capabilities": ["t", "x"],
    "operator generate-root -decode": ["-decode=Aw==", "-otp=x"],
    "operator unseal": ["k"], "login": ["t"], "unwrap": ["t"],
    "acl policy read -name": [], "acl policy delete -name": [],
    "acl token read -accessor-id": [], "acl token read -accessor": [], "acl token read -id": [],
    "acl token read -expanded": ["-id=x"],
    "operator raft join": ["https://x:1"], "operator raft snapshot save": ["FOLDER/a"],
    "operator raft snapshot restore": ["FOLDER/b"], "job run": ["FOLDER/job"],
}


@pytest.mark.parametrize("command", CLIENT_COMMANDS)
def test_every_flag_in_help_is_read(anything, tmp_path, command):
    """A flag that a command does not read is warned of; so none may be, for all of its flags."""
    required = required_of(command)
    env = {"HOME": str(tmp_path), "HOLDFAST_TOKEN": "t", "PATH": os.environ["PATH"],
           "HOLDFAST_ADDR": f"http://127.0.0.1:{anything.server_address[1]}",
           "HOLDFAST_DR_TOKEN": "t"}
    other = f"http://localhost:{anything.server_address[1]}"
    if "-other" in dict(flags_of(command)):
        env["HOLDFAST_DR_NODES"] = other
    (tmp_path / "b").write_text("x")
    (tmp_path / "job").write_text("{}")
    for flag, value in flags_of(command):
        own = SPECIAL.get(flag, VALUES[value]) if flag != "-other" else f"={other}"
        anything.dr = "primary" if command in ("operator dr failback", "operator dr disable") else "disabled"
        anything.seal = "static" if flag.startswith("-recovery") else "shamir"
        words = GIVEN.get(command, ["x"] * len(required))
        words = WITH.get(f"{command} {flag}", WITH.get(command, words))
        words = [word.replace("FOLDER", str(tmp_path)) for word in words]
        if own is not None and not any(word.startswith(flag + "=") for word in words):
            words = [flag + own.replace("FOLDER", str(tmp_path)), *words]
        done = subprocess.run([HOLDFAST, *command.split(), *words], env=env, input="x",
                              capture_output=True, text=True, timeout=120)
        assert "no effect" not in done.stderr, (command, words, done.stderr)
        assert done.returncode == 0, (command, words, done.stdout, done.stderr)


def test_every_command_was_seen_to_work():
    """Those of this file, by the tests above, all of them."""
    assert not not_seen(__file__)
