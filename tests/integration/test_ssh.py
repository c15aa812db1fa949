"""The SSH engine: certificates that real sshd takes, one-time passwords, roles and their rules."""

import base64
import concurrent.futures
import getpass
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import time

import pytest

from cluster import free_ports

USER = getpass.getuser()
CA = {"key_type": "ca", "allow_user_certificates": True, "allowed_users": "*", "ttl": "10m",
      "default_extensions": {"permit-pty": ""}}
OTP = {"key_type": "otp", "default_user": "ubuntu", "cidr_list": "10.0.0.0/8,192.168.1.7/24"}


@pytest.fixture(scope="module")
def ssh(cluster):
    """The cluster with the engine at ssh/ and an Ed25519 authority."""
    active = cluster.active()
    assert active.call("POST", "/v1/sys/mounts/ssh", {"type": "ssh"}).status == 204
    answer = active.call("POST", "/v1/ssh/config/ca", {"key_type": "ed25519"})
    assert answer.status == 200, answer.body
    return cluster


@pytest.fixture(scope="module")
def keys():
    """Key pairs of every type that may be signed: name, path of the private key."""
    with tempfile.TemporaryDirectory() as folder:
        made = {}
        for name, args in {"ed25519": ["-t", "ed25519"], "rsa": ["-t", "rsa", "-b", "2048"],
                           "ec256": ["-t", "ecdsa", "-b", "256"], "ec384": ["-t", "ecdsa", "-b", "384"],
                           "ec521": ["-t", "ecdsa", "-b", "521"]}.items():
            path = pathlib.Path(folder, name)
            run("ssh-keygen", "-q", "-N", "", "-C", "c", "-f", path, *args)
            made[name] = path
        yield made


def run(*args, **more):
    return subprocess.run([str(arg) for arg in args], check=True, capture_output=True, text=True,
                          timeout=60, **more).stdout


def public(path):
    return pathlib.Path(f"{path}.pub").read_text()


def ok(answer, status=200):
    assert answer.status == status, answer.body
    return answer.data if status == 200 else None


def role(cluster, name, body, status=204):
    return ok(cluster.nodes[0].call("POST", f"/v1/ssh/roles/{name}", body), status)


def sign(node, name, path, **body):
    return node.call("POST", f"/v1/ssh/sign/{name}", {"public_key": public(path), **body})


def shown(certificate):
    """What ssh-keygen reads in a certificate: a text without the spaces in front of each line."""
    with tempfile.NamedTemporaryFile("w", suffix=".pub") as file:
        file.write(certificate)
        file.flush()
        text = run("ssh-keygen", "-L", "-f", file.name, env={**os.environ, "TZ": "UTC"})
    return "\n".join(line.strip() for line in text.splitlines())


class Fields:
    """A reader of PROTOCOL.certkeys that shares nothing with the server."""

    def __init__(self, certificate):
        self.left = base64.b64decode(certificate.split()[1])
        self.whole = self.left

    def number(self, form):
        size = struct.calcsize(form)
        value, self.left = struct.unpack(form, self.left[:size])[0], self.left[size:]
        return value

    def text(self):
        size = self.number(">I")
        assert size <= len(self.left)
        value, self.left = self.left[:size], self.left[size:]
        return value


def texts(raw):
    fields, found = Fields("x " + base64.b64encode(raw).decode()), []
    while fields.left:
        found.append(fields.text())
    return found


class Sshd:
    """A real sshd on loopback that trusts an authority."""

    def __init__(self, folder, authority, *options):
        self.folder = pathlib.Path(folder)
        self.port = free_ports(1)[0]
        host = self.folder / "host"
        if not host.exists():
            run("ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-f", host)
        (self.folder / "ca.pub").write_text(authority)
        lines = [f"Port {self.port}", "ListenAddress 127.0.0.1", f"HostKey {host}", "UsePAM no",
                 f"TrustedUserCAKeys {self.folder / 'ca.pub'}", "PasswordAuthentication no",
                 "AuthorizedKeysFile none", "StrictModes no", "PidFile none",
                 "KbdInteractiveAuthentication no", *options]
        (self.folder / "config").write_text("\n".join(lines) + "\n")

    def __enter__(self):
        os.makedirs("/run/sshd", exist_ok=True)
        self.log = open(self.folder / "log", "a")
        self.process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(self.folder / "config")],
                                        stderr=self.log)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.log.close()

    def login(self, key, certificate, command="echo in", more=()):
        """The output of a command there, or None where sshd refuses."""
        path = self.folder / "certificate.pub"
        path.write_text(certificate)
        args = ["ssh", "-F", "none", *more, "-p", str(self.port), "-i", str(key), "-o", f"CertificateFile={path}",
                "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20",
                "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={self.folder / 'known'}",
                f"{USER}@127.0.0.1", command]
        for _ in range(100):  # until sshd listens
            done = subprocess.run(args, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
            if "Connection refused" not in done.stderr:
                break
            time.sleep(0.05)
        return done.stdout if done.returncode == 0 else None


@pytest.mark.parametrize("key_type", ["ed25519", "rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp521"])
def test_sshd_takes_certificates_and_refuses_by_their_rules(ssh, keys, tmp_path, key_type):
    bits = {"key_bits": 2048} if key_type == "rsa" else {}
    mount = f"ssh-{len(key_type)}-{key_type[-1]}"
    active = ssh.active()
    ok(active.call("POST", f"/v1/sys/mounts/{mount}", {"type": "ssh"}), 204)
    authority = ok(active.call("POST", f"/v1/{mount}/config/ca", {"key_type": key_type, **bits}))["public_key"]
    ok(active.call("POST", f"/v1/{mount}/roles/r", {**CA, "allowed_extensions": "*"}), 204)

    def certificate(key, **body):
        body = {"public_key": public(keys[key]), "valid_principals": USER, **body}
        return ok(ssh.nodes[2].call("POST", f"/v1/{mount}/sign/r", body))["signed_key"]

    with Sshd(tmp_path, authority) as sshd:
        for key in keys if key_type == "ed25519" else ["ed25519"]:
            assert sshd.login(keys[key], certificate(key)) == "in\n", (sshd.folder / "log").read_text()
        key = keys["ed25519"]
        assert sshd.login(key, certificate("ed25519", valid_principals="other")) is None
        assert sshd.login(keys["rsa"], certificate("ed25519")) is None
        forced = certificate("ed25519", critical_options={"force-command": "echo forced"})
        assert sshd.login(key, forced) == "forced\n"
        near = certificate("ed25519", critical_options={"source-address": "127.0.0.0/8"})
        assert sshd.login(key, near) == "in\n"
        far = certificate("ed25519", critical_options={"source-address": "10.0.0.0/8"})
        assert sshd.login(key, far) is None
        old = certificate("ed25519", ttl="1s")
        end = time.time() + 2
        ok(active.call("POST", f"/v1/{mount}/config/ca", {"key_type": "ed25519"}))
        assert sshd.login(key, certificate("ed25519")) is None  # the authority was replaced
        while time.time() < end:
            time.sleep(0.05)
        assert sshd.login(key, old) is None


def test_a_host_certificate_convinces_a_client(ssh, keys, tmp_path):
    role(ssh, "hosts", {"key_type": "ca", "allow_host_certificates": True, "allowed_domains": "example.com",
                        "allow_subdomains": True})
    authority = ssh.nodes[1].call("GET", "/v1/ssh/public_key", token="").body.decode()
    role(ssh, "users", CA)
    with Sshd(tmp_path, authority) as sshd:
        host = sign(ssh.nodes[1], "hosts", sshd.folder / "host", cert_type="host",
                    valid_principals="WEB.example.com")
        (sshd.folder / "host-cert.pub").write_text(ok(host)["signed_key"])
        assert "web.example.com" in shown(ok(host)["signed_key"])
    (tmp_path / "known").write_text(f"@cert-authority *.example.com {authority}")
    mine = ok(sign(ssh.nodes[0], "users", keys["ec256"], valid_principals=USER))["signed_key"]
    with Sshd(tmp_path, authority, f"HostCertificate {tmp_path / 'host-cert.pub'}") as sshd:
        strict = ["-o", "StrictHostKeyChecking=yes", "-o", "HostKeyAlias=web.example.com"]
        assert sshd.login(keys["ec256"], mine, more=strict) == "in\n"
        wrong = ["-o", "StrictHostKeyChecking=yes", "-o", "HostKeyAlias=db.example.com"]
        assert sshd.login(keys["ec256"], mine, more=wrong) is None


def test_a_certificate_says_what_role_and_request_say(ssh, keys):
    role(ssh, "all@x", {**CA, "allow_user_key_ids": True, "allowed_extensions": "*", "max_ttl": 3600,
                        "not_before_duration": "1m"})
    data = ok(sign(ssh.nodes[0], "all@x", keys["rsa"], valid_principals=["b", "a", "b"], key_id="me",
                   ttl=120, critical_options={"source-address": "10.0.0.0/8", "force-command": "ls"},
                   extensions={"permit-pty": "", "login@github.com": "x", "permit-user-rc": ""}))
    fields = Fields(data["signed_key"])
    assert fields.text() == b"ssh-rsa-cert-v01@openssh.com"
    assert len(fields.text()) == 32
    theirs = texts(base64.b64decode(public(keys["rsa"]).split()[1]))
    assert [fields.text(), fields.text()] == theirs[1:]
    assert f"{fields.number('>Q'):x}" == data["serial_number"]
    assert fields.number(">I") == 1
    assert fields.text() == b"me"
    assert texts(fields.text()) == [b"b", b"a"]
    after, before = fields.number(">Q"), fields.number(">Q")
    assert before - after == 180 and abs(before - 120 - time.time()) < 60
    assert texts(fields.text()) == [b"force-command", b"\0\0\0\x02ls", b"source-address",
                                    b"\0\0\0\x0a10.0.0.0/8"]
    assert texts(fields.text()) == [b"login@github.com", b"\0\0\0\x01x", b"permit-pty", b"",
                                    b"permit-user-rc", b""]
    assert fields.text() == b""
    authority = ssh.nodes[1].call("GET", "/v1/ssh/public_key", token="").body.decode()
    assert fields.text() == base64.b64decode(authority.split()[1])
    assert texts(fields.text())[0] == b"ssh-ed25519" and fields.left == b""
    text = shown(data["signed_key"])
    assert 'Key ID: "me"' in text and "force-command ls" in text and "permit-pty" in text


@pytest.mark.parametrize("key_type, bits, first", [
    ("rsa", 2048, "-----BEGIN RSA PRIVATE KEY-----"), ("ec", 384, "-----BEGIN EC PRIVATE KEY-----"),
    ("ec", 0, "-----BEGIN EC PRIVATE KEY-----"), ("ed25519", 7, "-----BEGIN OPENSSH PRIVATE KEY-----")])
def test_an_issued_key_is_that_of_its_certificate(ssh, tmp_path, key_type, bits, first):
    role(ssh, "issue", CA)
    data = ok(ssh.standbys()[0].call("POST", "/v1/ssh/issue/issue", {
        "key_type": key_type, "key_bits": bits, "valid_principals": USER}))
    assert data["private_key"].startswith(first + "\n") and data["private_key_type"] == key_type
    path = tmp_path / "key"
    path.write_text(data["private_key"])
    path.chmod(0o600)
    mine = run("ssh-keygen", "-y", "-f", path).split()[1]
    fields = Fields(data["signed_key"])
    kind, _ = fields.text(), fields.text()
    blob = base64.b64decode(mine)
    rest = blob[4 + int.from_bytes(blob[:4], "big"):]
    assert fields.left.startswith(rest) and b"cert" in kind
    wrapped = ssh.nodes[0].call("POST", "/v1/ssh/issue/issue", {"key_type": "ed25519", "valid_principals": "a"},
                                headers={"X-Vault-Wrap-TTL": "60"})
    assert ok(wrapped) is None and wrapped.json["wrap_info"]["token"]


def abandon(node, path, body):
    """Send a request and close the connection without reading the reply."""
    connection = node.connect()
    connection.request("POST", path, json.dumps(body), {"X-Vault-Token": node.cluster.token})
    return connection


def signed(node):
    text = node.call("GET", "/v1/sys/metrics?format=prometheus").body.decode()
    return next(int(line.split()[1]) for line in text.splitlines()
                if line.startswith("holdfast_ssh_certificates_signed_total "))


@pytest.mark.parametrize("through", ["active", "standby"])
def test_keys_for_clients_that_have_gone_are_not_made(ssh, through):
    """40 keys of RSA 4096 would take the two or more threads many seconds."""
    role(ssh, "abandoned", CA)
    node = ssh.active() if through == "active" else ssh.standbys()[0]
    before = sum(signed(each) for each in ssh.nodes)
    body = {"key_type": "rsa", "key_bits": 4096, "valid_principals": USER}
    abandoned = [abandon(node, "/v1/ssh/issue/abandoned", body) for _ in range(40)]
    for connection in abandoned:
        connection.close()
    # other work of the pool, the parsing of a long body, is not behind these keys
    assert node.call("POST", "/v1/cubbyhole/long", {"x": "y" * 400_000}).status == 204
    ok(node.call("POST", "/v1/ssh/issue/abandoned", {"key_type": "ed25519", "valid_principals": USER}))
    assert sum(signed(each) for each in ssh.nodes) - before < 40


def test_a_given_authority_signs(ssh, keys, tmp_path):
    node = ssh.nodes[0]
    ok(node.call("POST", "/v1/sys/mounts/ssh-given", {"type": "ssh"}), 204)
    assert node.call("GET", "/v1/ssh-given/public_key", token="").status == 404
    assert node.call("GET", "/v1/ssh-given/config/ca").status == 400
    pems = {}
    for name, path in keys.items():
        pems[name] = [path.read_text()]
        if name != "ed25519":
            for form in ("PEM", "PKCS8"):
                copy = tmp_path / f"{name}-{form}"
                copy.write_text(path.read_text())
                copy.chmod(0o600)
                run("ssh-keygen", "-q", "-p", "-N", "", "-m", form, "-f", copy)
                pems[name].append(copy.read_text())
    for name, forms in pems.items():
        for pem in forms:
            body = {"private_key": pem, "public_key": public(keys[name])}
            ok(node.call("POST", "/v1/ssh-given/config/ca", body), 204)
            raw = ssh.nodes[1].call("GET", "/v1/ssh-given/public_key", token="")
            assert raw.status == 200 and raw.headers["Content-Type"].startswith("text/plain")
            assert raw.body.decode() == " ".join(public(keys[name]).split()[:2]) + "\n"
    secret = tmp_path / "locked"
    run("ssh-keygen", "-q", "-N", "secret", "-t", "ed25519", "-f", secret)
    small = tmp_path / "small"
    run("ssh-keygen", "-q", "-N", "", "-t", "rsa", "-b", "1024", "-f", small)
    rsa, ed = keys["rsa"].read_text(), keys["ed25519"].read_text()
    for body, word in [
        ({"private_key": rsa}, "public_key"), ({"public_key": public(keys["rsa"])}, "private_key"),
        ({"generate_signing_key": False}, "private_key"),
        ({"generate_signing_key": True, "private_key": rsa, "public_key": public(keys["rsa"])}, "generate"),
        ({"private_key": rsa, "public_key": public(keys["ed25519"])}, "public half"),
        ({"private_key": secret.read_text(), "public_key": public(secret)}, "passphrase"),
        ({"private_key": small.read_text(), "public_key": public(small)}, "2048"),
        ({"private_key": ed[:-80], "public_key": public(keys["ed25519"])}, "malformed"),
        ({"private_key": "x", "public_key": public(keys["ed25519"])}, "PEM"),
        ({"key_type": "dsa"}, "key_type"), ({"key_type": "rsa", "key_bits": 1024}, "key_bits"),
        ({"key_type": "ec", "key_bits": 512}, "key_bits"),
        ({"key_type": "ecdsa-sha2-nistp256", "key_bits": 384}, "key_bits"),
    ]:
        answer = node.call("POST", "/v1/ssh-given/config/ca", body)
        assert answer.status == 400 and word in str(answer.json["errors"]), (body, answer.body)
    for key_type, bits in [("ec", 384), ("ecdsa-sha2-nistp521", 0), ("ssh-ed25519", 0), ("ssh-rsa", 2048)]:
        line = ok(node.call("POST", "/v1/ssh-given/config/ca", {"key_type": key_type, "key_bits": bits}))["public_key"]
        assert line == ok(node.call("GET", "/v1/ssh-given/config/ca"))["public_key"] and line.endswith("\n")
    ok(node.call("DELETE", "/v1/ssh-given/config/ca"), 204)
    ok(node.call("DELETE", "/v1/ssh-given/config/ca"), 204)
    assert ssh.nodes[2].call("GET", "/v1/ssh-given/public_key", token="").status == 404
    ok(node.call("POST", "/v1/ssh-given/roles/r", CA), 204)
    answer = node.call("POST", "/v1/ssh-given/sign/r", {"public_key": public(keys["rsa"]), "valid_principals": "a"})
    assert answer.status == 400 and "configured" in str(answer.json["errors"])


def test_roles_are_written_read_listed_and_deleted(ssh):
    node = ssh.nodes[1]
    role(ssh, "o", OTP)
    assert ok(node.call("GET", "/v1/ssh/roles/o")) == {
        "key_type": "otp", "default_user": "ubuntu", "default_user_template": False, "allowed_users": "",
        "allowed_users_template": False, "cidr_list": OTP["cidr_list"], "exclude_cidr_list": "", "port": 22}
    role(ssh, "c@d.e", {**CA, "allowed_users": ["a", "b"], "max_ttl": 7200,
                        "allowed_user_key_lengths": {"rsa": "2048,4096", "ec": [256, "384"], "ed25519": 0}})
    data = ok(node.call("GET", "/v1/ssh/roles/c@d.e"))
    assert data["allowed_users"] == "a,b" and (data["ttl"], data["max_ttl"]) == (600, 7200)
    assert data["allowed_user_key_lengths"] == {"rsa": [2048, 4096], "ec": [256, 384], "ed25519": [0]}
    assert data["default_critical_options"] == {} and data["not_before_duration"] == 30
    assert "port" not in data and "cidr_list" not in data and data["allow_empty_principals"] is False
    role(ssh, "c@d.e", {"key_type": "ca", "allow_host_certificates": True})
    assert ok(node.call("GET", "/v1/ssh/roles/c@d.e"))["allowed_users"] == ""
    listed = ok(node.call("LIST", "/v1/ssh/roles"))
    assert listed["key_info"]["o"] == {"key_type": "otp"} and "c@d.e" in listed["keys"]
    for _ in range(2):
        ok(node.call("DELETE", "/v1/ssh/roles/c@d.e"), 204)
    assert node.call("GET", "/v1/ssh/roles/c@d.e").status == 404
    assert node.call("GET", "/v1/ssh/roles/a%20b").status == 404
    assert ok(node.call("DELETE", "/v1/ssh/tidy/dynamic-keys"))["message"] == "Cleaned up 0 host keys"


MANY = ",".join(f"10.{n >> 8}.{n & 255}.0/24" for n in range(2000))


@pytest.mark.parametrize("body, word", [
    ({}, "key_type"), ({"key_type": "dynamic"}, "key_type"), ({"key_type": "otp"}, "default_user"),
    ({**OTP, "cidr_list": "10.0.0.0/33"}, "cidr_list"), ({**OTP, "cidr_list": "here"}, "cidr_list"),
    ({**OTP, "cidr_list": "10.0.0.0/0"}, "cidr_list"), ({**OTP, "cidr_list": MANY}, "cidr_list"),
    ({**OTP, "exclude_cidr_list": "::1/129"}, "exclude_cidr_list"),
    ({**OTP, "cidr_list": "10.0.0.0/8,,"}, "cidr_list"), ({**OTP, "port": 0}, "port"),
    ({**OTP, "port": 65536}, "port"), ({**OTP, "default_user": "a\nb"}, "default_user"),
    ({"key_type": "ca"}, "allow_user_certificates"), ({**CA, "ttl": "2h", "max_ttl": "1h"}, "ttl"),
    ({**CA, "ttl": "1d"}, "ttl"), ({**CA, "ttl": -1}, "ttl"), ({**CA, "max_ttl": "1.5s"}, "max_ttl"),
    ({**CA, "ttl": 10**30}, "ttl"), ({**CA, "algorithm_signer": "rsa"}, "algorithm_signer"),
    ({**CA, "allowed_users": {"a": 1}}, "allowed_users"), ({**CA, "allowed_users": ["a,root"]}, "allowed_users"),
    ({**CA, "allowed_users": "a\u0000b"}, "allowed_users"), ({**CA, "allowed_users": "a,,b"}, "allowed_users"),
    ({**CA, "allowed_user_key_lengths": {"rsa": "big"}}, "allowed_user_key_lengths"),
    ({**CA, "allowed_user_key_lengths": {"rsa2": 1}}, "allowed_user_key_lengths"),
    ({**CA, "allowed_user_key_lengths": [1]}, "allowed_user_key_lengths"),
    ({**CA, "key_id_format": "{{user}}"}, "key_id_format"),
    ({**CA, "default_user": "{{identity.entity.name", "default_user_template": True}, "default_user"),
    ({**CA, "allowed_users": "{{{{identity.x}}", "allowed_users_template": True}, "allowed_users"),
    ({**CA, "default_critical_options": {"source-address": "10.0.0.5/8"}}, "source-address"),
    ({**CA, "default_critical_options": {"source-address": "10.0.0.0/8, 1.1.1.1"}}, "source-address"),
    ({**CA, "default_critical_options": {"force-command": ""}}, "force-command"),
    ({**CA, "default_extensions": {"a=b": ""}}, "default_extensions"),
    ({**CA, "default_extensions": {"a": "x" * 100000}}, "default_extensions"),
    ({**CA, "default_critical_options": {f"o{n}": "x" * 8000 for n in range(20)}}, "default_critical_options"),
    ({**OTP, "default_user": "a b"}, "default_user"), ({**OTP, "default_user": "a,b"}, "default_user"),
    ({**CA, "default_user": "a\u202eb"}, "default_user"), ({**CA, "allowed_users": "a\u200bb"}, "allowed_users"),
    ({**CA, "key_id_format": "x\u0085y"}, "key_id_format"),
    ({**CA, "default_extensions": {str(n): "" for n in range(100)}}, "default_extensions"),
])
def test_a_role_without_sense_is_refused(ssh, body, word):
    answer = ssh.nodes[0].call("POST", "/v1/ssh/roles/bad", body)
    assert answer.status == 400 and word in str(answer.json["errors"]), answer.body
    assert ssh.nodes[0].call("GET", "/v1/ssh/roles/bad").status == 404


@pytest.mark.parametrize("fields, warning", [
    ({"allowed_domains": "example.com"}, "no host matches without allow_bare_domains"),
    ({"allowed_domains": "example.com,*.example.org", "allow_subdomains": True}, "no host matches item 2"),
    ({"allowed_domains": "exa mple.com", "allow_bare_domains": True}, "no host matches item 1"),
])
def test_a_domain_that_matches_no_host_warns(ssh, fields, warning):
    body = {"key_type": "ca", "allow_host_certificates": True, **fields}
    answer = ssh.nodes[0].call("POST", "/v1/ssh/roles/nohost", body)
    assert answer.status == 200 and warning in answer.json["warnings"][0], answer.body


def test_a_name_of_a_role_is_bounded_and_a_signer_has_its_default(ssh):
    node = ssh.nodes[0]
    role(ssh, "n" * 255, CA)
    assert ok(node.call("GET", "/v1/ssh/roles/" + "n" * 255))["algorithm_signer"] == "default"
    answer = node.call("POST", "/v1/ssh/roles/" + "n" * 256, CA)
    assert answer.status == 400 and "up to 255 bytes" in answer.json["errors"][0]
    role(ssh, "blank", {**CA, "algorithm_signer": ""})
    assert ok(node.call("GET", "/v1/ssh/roles/blank"))["algorithm_signer"] == "default"


def blob(*parts):
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def line(name, *parts):
    return f"{name} {base64.b64encode(blob(name.encode(), *parts)).decode()} c"


ODD = b"\0" + b"\xff" * 256
BAD_KEYS = {
    "empty": "", "a word": "x", "another type": "ssh-foo AAAA", "DSA": line("ssh-dss", b"\1", b"\1", b"\1", b"\1"),
    "e = 1": line("ssh-rsa", b"\1", ODD), "e even": line("ssh-rsa", b"\4", ODD),
    "even modulus": line("ssh-rsa", b"\3", ODD[:-1] + b"\xfe"), "RSA 512": line("ssh-rsa", b"\3", b"\0" + b"\xff" * 64),
    "RSA 16384": line("ssh-rsa", b"\3", b"\0" + b"\xff" * 2048), "negative": line("ssh-rsa", b"\3", ODD[1:]),
    "long zero": line("ssh-rsa", b"\3", b"\0" + ODD), "no curve": line("ecdsa-sha2-nistp256", b"nistp384", b"\4" * 65),
    "off the curve": line("ecdsa-sha2-nistp256", b"nistp256", b"\4" * 65),
    "infinity": line("ecdsa-sha2-nistp256", b"nistp256", b"\0"), "short": line("ssh-ed25519", b"x" * 31),
    "no application": line("sk-ssh-ed25519@openssh.com", b"x" * 32), "more": line("ssh-ed25519", b"x" * 32, b"y"),
    "options": 'command="x" ' + line("ssh-ed25519", b"x" * 32), "16 KiB": line("ssh-ed25519", b"x" * 16384),
    "two keys": line("ssh-ed25519", b"x" * 32) + "\n" + line("ssh-ed25519", b"y" * 32),
    "other name": "ssh-rsa " + line("ssh-ed25519", b"x" * 32).split()[1],
    "comment of 16 KiB": line("ssh-ed25519", b"x" * 32) + "c" * 16384,
    "order 4": line("ssh-ed25519", bytes(32)), "order 1": line("ssh-ed25519", b"\1" + bytes(30) + b"\x80"),
    "order 2": line("ssh-ed25519", b"\xec" + b"\xff" * 30 + b"\x7f"),
    "order 8 of a card": line("sk-ssh-ed25519@openssh.com", bytes.fromhex(
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"), b"ssh:"),
    "certificate": "ssh-ed25519-cert-v01@openssh.com AAAA", "PEM": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "1 MiB": "ssh-rsa " + "A" * (1 << 20),
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_a_broken_key_is_not_signed(ssh, name):
    role(ssh, "keys", CA)
    answer = ssh.nodes[0].call("POST", "/v1/ssh/sign/keys", {"public_key": BAD_KEYS[name], "valid_principals": "a"})
    assert answer.status == 400 and "public_key" in str(answer.json["errors"]), answer.body


def test_a_key_that_is_cut_off_anywhere_is_not_signed(ssh, keys):
    role(ssh, "keys", CA)
    for key in ("rsa", "ec256", "ed25519"):
        raw = base64.b64decode(public(keys[key]).split()[1])
        for size in sorted({*range(0, 60), len(raw) - 1, len(raw) // 2}):
            text = f"{public(keys[key]).split()[0]} {base64.b64encode(raw[:min(size, len(raw) - 1)]).decode()}"
            answer = ssh.nodes[0].call("POST", "/v1/ssh/sign/keys", {"public_key": text, "valid_principals": "a"})
            assert answer.status == 400, (key, size)


@pytest.mark.parametrize("rules, body, word", [
    ({"allowed_user_key_lengths": {"rsa": 4096}}, {}, "key of type ssh-ed25519 is not allowed"),
    ({}, {"key_id": "x"}, "key_id"), ({}, {"cert_type": "both"}, "cert_type"), ({}, {"cert_type": "host"}, "cert_type"),
    ({}, {"valid_principals": ""}, "globally-valid"), ({}, {"valid_principals": None}, "globally-valid"),
    ({"allowed_users": ""}, {}, "not configured to allow any principals"),
    ({"allowed_users": "b,*"}, {}, "valid_principals"), ({"allowed_users": "b,*"}, {"valid_principals": "*"}, "valid_principals"),
    ({"allowed_users": "b", "default_user": "a"}, {"valid_principals": None}, "valid_principals"),
    ({"allowed_users": "a*"}, {"valid_principals": "ab"}, "valid_principals"),
    ({}, {"valid_principals": "a b"}, "valid_principals"), ({}, {"valid_principals": "a\nb"}, "valid_principals"),
    ({}, {"valid_principals": "a\u0000"}, "valid_principals"), ({}, {"valid_principals": "a\u0085"}, "valid_principals"),
    ({}, {"valid_principals": "a\u200b"}, "valid_principals"), ({}, {"valid_principals": "a\u202eb"}, "valid_principals"),
    ({"allow_user_key_ids": True}, {"key_id": "a\u2066b"}, "key_id"), ({"allow_user_key_ids": True}, {"key_id": "\ufeffb"}, "key_id"), ({}, {"valid_principals": "a,,b"}, "valid_principals"),
    ({}, {"valid_principals": ["a,root"]}, "valid_principals"),
    ({}, {"valid_principals": ",".join(map(str, range(257)))}, "valid_principals"),
    ({}, {"valid_principals": "x" * 70000}, "valid_principals"),
    ({"max_ttl": "1h"}, {"ttl": "2h"}, "ttl"), ({}, {"ttl": 0}, "ttl"), ({}, {"ttl": "-1s"}, "ttl"),
    ({}, {"ttl": "1d"}, "ttl"), ({}, {"ttl": "999999999h"}, "ttl"), ({}, {"ttl": "1.5"}, "ttl"),
    ({"allowed_critical_options": "x"}, {"critical_options": {"force-command": "y"}}, "critical_options"),
    ({}, {"critical_options": {"source-address": "!10.0.0.0/8"}}, "source-address"),
    ({}, {"critical_options": {"a\u0000": ""}}, "critical_options"),
    ({}, {"extensions": {"permit-pty": ""}}, "extensions"),
    ({"allowed_extensions": "permit-user-rc"}, {"extensions": {"permit-pty": ""}}, "extensions"),
    ({"algorithm_signer": "rsa-sha2-512"}, {}, "algorithm_signer"),
])
def test_a_request_beyond_its_role_is_refused(ssh, keys, rules, body, word):
    role(ssh, "strict", {**CA, **rules})
    wanted = {"valid_principals": "a", **body}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    for node in ssh.nodes[:2]:
        answer = sign(node, "strict", keys["ed25519"], **wanted)
        assert answer.status == 400 and word in str(answer.json["errors"]), answer.body


@pytest.mark.parametrize("rules, name, taken", [
    ({"allow_subdomains": True}, "a.example.com", "a.example.com"), ({"allow_subdomains": True}, "A.b.Example.COM", "a.b.example.com"),
    ({"allow_subdomains": True}, "example.com", None), ({"allow_bare_domains": True}, "example.com", "example.com"),
    ({"allow_bare_domains": True}, "a.example.com", None), ({"allow_subdomains": True}, "evilexample.com", None),
    ({"allow_subdomains": True}, "a.example.com.", None), ({"allow_subdomains": True}, ".example.com", None),
    ({"allow_subdomains": True}, "a..example.com", None), ({"allow_subdomains": True}, "b\u00fccher.example.com", None),
    ({"allow_subdomains": True}, "xn--bcher-kva.example.com", "xn--bcher-kva.example.com"),
    ({"allow_subdomains": True}, "a.*.example.com", None), ({"allowed_domains": "*"}, "any.where", "any.where"),
    ({"allowed_domains": "*"}, ".", None), ({"allowed_domains": "*,b"}, "any.where", None),
    ({"allowed_domains": "*"}, "10.0.0.1", "10.0.0.1"),
])
def test_a_host_is_allowed_label_by_label(ssh, keys, rules, name, taken):
    role(ssh, "host", {"key_type": "ca", "allow_host_certificates": True, "allowed_domains": "Example.com", **rules},
         200 if rules.get("allowed_domains") == "*,b" else 204)
    answer = sign(ssh.nodes[0], "host", keys["ed25519"], cert_type="host", valid_principals=name)
    assert answer.status == (200 if taken else 400), answer.body
    if taken:
        fields = Fields(answer.data["signed_key"])
        fields.text(), fields.text(), fields.text(), fields.number(">Q")
        assert fields.number(">I") == 2 and fields.text() and texts(fields.text()) == [taken.encode()]


def test_warnings_name_what_other_software_refuses(ssh, keys):
    role(ssh, "warn", {**CA, "allowed_extensions": "*", "default_extensions_template": True,
                       "default_extensions": {"login@x": "{{identity.entity.name}}", "permit-pty": ""}})
    left_out = sign(ssh.nodes[0], "warn", keys["ed25519"], valid_principals="a")
    assert "login@x" in str(left_out.json["warnings"]) and "login@x" not in shown(left_out.data["signed_key"])
    pty = sign(ssh.nodes[0], "warn", keys["ed25519"], valid_principals="a", extensions={"permit-pty": "x"})
    assert pty.status == 200 and "permit-pty" in str(pty.json["warnings"])
    other = sign(ssh.nodes[0], "warn", keys["ed25519"], valid_principals="a", critical_options={"x@y": "1"})
    assert other.status == 200 and "x@y" in str(other.json["warnings"])


def creds(cluster, name="otp", ip="10.1.2.3", node=0, **body):
    return cluster.nodes[node].call("POST", f"/v1/ssh/creds/{name}", {"ip": ip, **body})


def verify(cluster, password, node=0):
    return cluster.nodes[node].call("POST", "/v1/ssh/verify", {"otp": password}, token="")


def test_a_password_is_good_once(ssh):
    role(ssh, "otp", {**OTP, "exclude_cidr_list": "10.9.0.0/16", "ttl": "5m"})
    answer = creds(ssh, node=1)
    data = ok(answer)
    assert (data["ip"], data["username"], data["port"], data["key_type"]) == ("10.1.2.3", "ubuntu", 22, "otp")
    assert answer.json["lease_id"].startswith("ssh/creds/otp/") and answer.json["renewable"] is False
    assert 290 <= answer.json["lease_duration"] <= 300
    renewed = ssh.nodes[0].call("POST", "/v1/sys/leases/renew", {"lease_id": answer.json["lease_id"]})
    assert renewed.status == 400
    assert ok(verify(ssh, data["key"], node=2)) == {"ip": "10.1.2.3", "username": "ubuntu", "role_name": "otp"}
    again = verify(ssh, data["key"])
    assert again.status == 400 and "OTP not found" in str(again.json["errors"])
    lookup = ssh.nodes[0].call("POST", "/v1/sys/leases/lookup", {"lease_id": answer.json["lease_id"]})
    assert lookup.status == 400 or lookup.status == 404
    assert ok(verify(ssh, "verify-echo-request")) == {"message": "verify-echo-response"}
    assert ok(creds(ssh, username="root"))["username"] == "root"  # no allowed_users: any user


def test_of_many_hosts_that_verify_a_password_one_wins(ssh):
    role(ssh, "otp", OTP)
    password = ok(creds(ssh))["key"]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda n: verify(ssh, password, n % 3).status, range(6)))
    assert sorted(done) == [200] + [400] * 5


def test_a_password_ends_with_lease_and_token(ssh):
    role(ssh, "otp", OTP)
    answer = creds(ssh)
    ok(ssh.nodes[1].call("POST", "/v1/sys/leases/revoke", {"lease_id": answer.json["lease_id"]}), 204)
    assert verify(ssh, answer.data["key"]).status == 400
    made = ssh.nodes[0].call("POST", "/v1/auth/token/create", {"policies": ["root"]}).json["auth"]["client_token"]
    answer = ssh.nodes[0].call("POST", "/v1/ssh/creds/otp", {"ip": "10.0.0.1"}, token=made)
    ok(ssh.nodes[0].call("POST", "/v1/auth/token/revoke", {"token": made}), 204)
    assert verify(ssh, ok(answer)["key"]).status == 400
    ok(ssh.nodes[0].call("POST", "/v1/sys/mounts/ssh-gone", {"type": "ssh"}), 204)
    ok(ssh.nodes[0].call("POST", "/v1/ssh-gone/roles/otp", OTP), 204)
    password = ok(ssh.nodes[0].call("POST", "/v1/ssh-gone/creds/otp", {"ip": "10.0.0.1"}))["key"]
    assert verify(ssh, password).status == 400  # of another mount
    ok(ssh.nodes[0].call("POST", "/v1/sys/leases/revoke-prefix/ssh-gone"), 204)
    assert ssh.nodes[0].call("POST", "/v1/ssh-gone/verify", {"otp": password}, token="").status == 400


@pytest.mark.parametrize("name, body, word", [
    ("otp", {}, "ip"), ("otp", {"ip": ""}, "ip"), ("otp", {"ip": "10.0.0.0/8"}, "ip"), ("otp", {"ip": "11.0.0.1"}, "belong"),
    ("otp", {"ip": "10.9.1.1"}, "belong"), ("otp", {"ip": "::ffff:10.9.1.1"}, "belong"), ("otp", {"ip": "fd00::1"}, "belong"),
    ("none", {"ip": "10.0.0.1"}, "not found"), ("certs", {"ip": "10.0.0.1"}, "key_type"),
    ("few", {"ip": "10.0.0.1", "username": "root"}, "username"), ("few", {"ip": "10.0.0.1", "username": "a,b"}, "username"),
    ("alone", {"ip": "10.0.0.1"}, "belong"),
])
def test_a_password_beyond_its_role_is_refused(ssh, name, body, word):
    role(ssh, "otp", {**OTP, "exclude_cidr_list": "10.9.0.0/16"})
    role(ssh, "few", {**OTP, "allowed_users": "a,b"})
    role(ssh, "alone", {"key_type": "otp", "default_user": "u"})
    role(ssh, "certs", CA)
    answer = ssh.nodes[0].call("POST", f"/v1/ssh/creds/{name}", body)
    assert answer.status == 400 and word in str(answer.json["errors"]), answer.body


def found(cluster, ip, mount="ssh-find"):
    return ok(cluster.nodes[2].call("POST", f"/v1/{mount}/lookup", {"ip": ip}))["roles"]


def test_roles_are_found_by_address(ssh):
    node = ssh.nodes[0]
    ok(node.call("POST", "/v1/sys/mounts/ssh-find", {"type": "ssh"}), 204)

    def put(name, cidrs, no=""):
        ok(node.call("POST", f"/v1/ssh-find/roles/{name}", {"key_type": "otp", "default_user": "u", "cidr_list": cidrs,
                                                        "exclude_cidr_list": no}), 204)
    put("ten", "10.0.0.5/8", "10.1.0.0/16")
    put("one", "10.1.2.3,fd00::/8")
    put("all", "0.0.0.0/0")
    put("zero", "")
    put("mapped", "::ffff:10.2.0.0/112")
    assert found(ssh, "10.1.2.3") == ["all", "one"]
    assert found(ssh, "::ffff:10.2.0.1") == ["all", "mapped", "ten"]
    assert found(ssh, "fd12::1") == ["one"] and found(ssh, "fe80::1") is None
    assert node.call("GET", "/v1/ssh-find/config/zeroaddress").status == 404
    for names in ("zero,nothing", "", ["a/b"]):
        answer = node.call("POST", "/v1/ssh-find/config/zeroaddress", {"roles": names})
        assert answer.status == 400 and "roles" in str(answer.json["errors"]), answer.body
    ok(node.call("POST", "/v1/ssh-find/roles/cert", CA), 204)
    assert node.call("POST", "/v1/ssh-find/config/zeroaddress", {"roles": "cert"}).status == 400
    ok(node.call("POST", "/v1/ssh-find/config/zeroaddress", {"roles": "zero,ten,zero"}), 204)
    assert ok(node.call("GET", "/v1/ssh-find/config/zeroaddress")) == {"roles": ["zero", "ten"]}
    assert found(ssh, "fe80::1") == ["ten", "zero"]
    assert ok(node.call("POST", "/v1/ssh-find/creds/zero", {"ip": "8.8.8.8"}))["ip"] == "8.8.8.8"
    ok(node.call("DELETE", "/v1/ssh-find/roles/zero"), 204)
    ok(node.call("POST", "/v1/ssh-find/roles/ten", CA), 204)  # another key_type
    assert node.call("GET", "/v1/ssh-find/config/zeroaddress").status == 404
    assert found(ssh, "10.2.0.1") == ["all", "mapped"]
    ok(node.call("DELETE", "/v1/ssh-find/config/zeroaddress"), 204)
    for ip in ("", "here", "10.0.0.0/8"):
        assert node.call("POST", "/v1/ssh-find/lookup", {"ip": ip}).status == 400


def test_unknown_passwords_are_refused_and_limited(ssh):
    for text in ("", "x" * 5000, "00000000-0000-0000-0000-000000000000"):
        assert verify(ssh, text).status == 400
    assert ssh.nodes[0].call("POST", "/v1/ssh/verify", {}, token="").status == 400
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = set(pool.map(lambda _: verify(ssh, "wrong").status, range(600)))
    assert statuses <= {400, 429}
    role(ssh, "otp", OTP)
    assert verify(ssh, ok(creds(ssh))["key"]).status == 200  # a good password is never limited


def test_only_rights_on_the_path_sign(ssh, keys):
    role(ssh, "mine", CA)
    policy = 'path "ssh/sign/mine" { capabilities = ["update"] }'
    node = ssh.nodes[0]
    ok(node.call("POST", "/v1/sys/policies/acl/signer", {"policy": policy}), 204)
    token = node.call("POST", "/v1/auth/token/create", {"policies": ["signer"], "display_name": "ann"})
    token = token.json["auth"]["client_token"]
    body = {"public_key": public(keys["ed25519"]), "valid_principals": "a"}
    good = node.call("POST", "/v1/ssh/sign/mine", body, token=token)
    assert 'Key ID: "token-ann"' in shown(ok(good)["signed_key"])
    assert good.json["lease_id"] == "" and good.json["lease_duration"] == 0
    assert node.call("POST", "/v1/ssh/issue/mine", {}, token=token).status == 403
    assert node.call("POST", "/v1/ssh/sign/other", body).status == 400
    assert "unknown role" in str(node.call("POST", "/v1/ssh/sign/other", body).json["errors"])
