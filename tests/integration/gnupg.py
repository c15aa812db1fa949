"""gpg with a home of its own: makes keys and reads what was encrypted for them."""

import shutil
import subprocess
import tempfile

ALGORITHMS = {  # of the primary key, and of the subkey that decrypts
    "rsa": ("rsa3072", "rsa3072"),
    "curve25519": ("future-default", None),
    "nistp256": ("nistp256", "nistp256"),
}


class Gpg:
    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="gpg-")  # short: the agent's socket lies there

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["gpgconf", "--homedir", self.home, "--kill", "all"], check=True)
        shutil.rmtree(self.home, ignore_errors=True)  # the agent removes its sockets meanwhile

    def run(self, *args, stdin=b""):
        return subprocess.run(
            ["gpg", "--homedir", self.home, "--batch", "--no-tty", "--pinentry-mode", "loopback",
             "--passphrase", "", *args],
            input=stdin, capture_output=True, check=True, timeout=120)

    def fingerprint(self, name):
        listed = self.run("--with-colons", "--list-keys", f"={name}").stdout.decode()
        return next(line for line in listed.splitlines()
                    if line.startswith("fpr")).split(":")[9].lower()

    def make(self, name, kind="curve25519", expire="never"):
        """A key of one of ALGORITHMS; its fingerprint."""
        primary, subkey = ALGORITHMS[kind]
        usage = "default" if subkey is None else "cert"
        self.run("--quick-gen-key", name, primary, usage, expire)
        if subkey is not None:
            self.run("--quick-add-key", self.fingerprint(name), subkey, "encr", "never")
        return self.fingerprint(name)

    def public(self, name, *more):
        return self.run("--export", *more, f"={name}").stdout

    def private(self, name):
        return self.run("--export-secret-keys", f"={name}").stdout

    def decrypt(self, message):
        """The text of a message, which gpg reads without a complaint."""
        done = self.run("--decrypt", stdin=message)
        said = done.stderr.decode()
        assert "encrypted with" in said and "WARNING" not in said, said
        return done.stdout.decode()
