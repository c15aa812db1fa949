"""Upstream's command line against the registry: bootstrap, policies and tokens, by name and by short id.

Each function is a test; the first one gives the others their token."""

import json
import os
import subprocess

RULES = 'service "web" { policy = "write" }'


class CommandLine:
    def __init__(self, program, cluster):
        self.program, self.cluster, self.token = program, cluster, ""
        self.node = 0

    def run(self, *words, code=0):
        """What a command printed; each goes to the next node."""
        node = self.cluster.nodes[self.node % len(self.cluster.nodes)]
        self.node += 1
        kept = {k: v for k, v in os.environ.items() if not k.startswith("CONSUL_")}
        settings = {
            "CONSUL_HTTP_ADDR": f"https://127.0.0.1:{node.registry.port}",
            "CONSUL_HTTP_SSL": "true",
            "CONSUL_CACERT": str(self.cluster.dir / "tls" / "tls-ca.pem"),
            "CONSUL_HTTP_TOKEN": self.token,
        }
        done = subprocess.run([str(self.program), "acl", *words], env={**kept, **settings},
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def json(self, *words):
        return json.loads(self.run(*words, "-format=json"))


def test_bootstrap(line):
    made = line.json("bootstrap")
    assert made["Policies"][0]["Name"] == "global-management"
    assert "ACL bootstrap no longer allowed (reset index: " in line.run("bootstrap", code=1)
    line.token = made["SecretID"]
    assert line.json("token", "read", "-self")["AccessorID"] == made["AccessorID"]


def test_policies(line):
    made = line.json("policy", "create", "-name=web", f"-rules={RULES}", "-description=first")
    short = made["ID"][:8]
    assert line.json("policy", "read", "-name=web") == made
    assert line.json("policy", "read", f"-id={short}") == made
    assert line.json("policy", "read", f"-id={made['ID']}") == made
    saved = line.json("policy", "update", f"-id={short}", "-description=second")
    assert (saved["Rules"], saved["Description"]) == (RULES, "second")
    saved = line.json("policy", "update", "-name=web", "-description=third", "-no-merge")
    assert (saved["Rules"], saved["Description"]) == ("", "third")
    assert "web" in [policy["Name"] for policy in line.json("policy", "list")]
    assert "already exists" in line.run("policy", "create", "-name=web", code=1)
    assert "Hash:" in line.run("policy", "read", "-name=web", "-meta")
    line.run("policy", "delete", f"-id={short}")
    line.run("policy", "read", "-name=web", code=1)


def test_tokens(line):
    policy = line.json("policy", "create", "-name=app", f"-rules={RULES}")
    made = line.json("token", "create", "-policy-name=app", "-description=first")
    short = made["AccessorID"][:8]
    assert made["Policies"] == [{"ID": policy["ID"], "Name": "app"}]
    assert line.json("token", "read", f"-accessor-id={short}")["SecretID"] == made["SecretID"]
    assert RULES in line.run("token", "read", f"-accessor-id={short}", "-expanded")
    saved = line.json("token", "update", f"-accessor-id={short}", "-description=second")
    assert (saved["Description"], saved["Policies"]) == ("second", made["Policies"])
    clone = line.json("token", "clone", f"-accessor-id={short}", "-description=third")
    assert clone["Policies"] == made["Policies"] and clone["SecretID"] != made["SecretID"]
    listed = {token["AccessorID"] for token in line.json("token", "list")}
    assert {made["AccessorID"], clone["AccessorID"]} <= listed
    for accessor in (short, clone["AccessorID"]):
        line.run("token", "delete", f"-accessor-id={accessor}")
    line.run("token", "read", f"-accessor-id={made['AccessorID']}", code=1)
    line.run("policy", "delete", "-name=app")


def test_lists_of_what_is_not_built(line):
    for words in (("role", "list"), ("auth-method", "list"), ("binding-rule", "list")):
        assert line.json(*words) in ([], None), words


TESTS = (test_bootstrap, test_policies, test_tokens, test_lists_of_what_is_not_built)


def run(program, cluster):
    """Passed and failed."""
    line, failed = CommandLine(program, cluster), 0
    for test in TESTS:
        try:
            test(line)
            print(f"--- PASS: {test.__name__}", flush=True)
        except (AssertionError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"--- FAIL: {test.__name__}: {error!r}", flush=True)
            failed += 1
    return len(TESTS) - failed, failed
