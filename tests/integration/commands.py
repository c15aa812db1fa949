"""Runs the command line for tests, and records the output of its commands."""

import json
import os
import pathlib
import pty
import re
import select
import subprocess
import time

from cluster import HOLDFAST, TOP

SECRET = "planted-7f3a-secret"
UNREACHABLE = "https://127.0.0.1:1"
ended = {}  # command: the exit codes it was seen with


def all_commands():
    text = subprocess.run([HOLDFAST, "help"], capture_output=True, text=True, timeout=120).stdout
    return [m.group(1) for m in re.finditer(r"^  ([a-z][a-z -]*?) +[A-Z]", text, re.M)]


COMMANDS = all_commands()


def command_of(args):
    """The longest command that the words begin with."""
    for n in range(len(args), 0, -1):
        if " ".join(args[:n]) in COMMANDS:
            return " ".join(args[:n])
    return None


class Cli:
    """Runs commands as one person: a home of their own, and nothing else of this environment."""

    def __init__(self, cluster, home, node=0):
        self.cluster, self.home, self.node = cluster, home, node

    def env(self, token=None, **more):
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "HOLDFAST_ADDR": self.cluster.nodes[self.node].url,
            "HOLDFAST_CACERT": str(self.cluster.dir / "tls" / "tls-ca.pem"),
            "HOLDFAST_TOKEN": self.cluster.token if token is None else token,
        }
        env.update(more)
        return {name: value for name, value in env.items() if value != ""}

    def __call__(self, *args, code=0, stdin="", token=None, env=None):
        done = subprocess.run(
            [HOLDFAST, *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env=self.env(token, **(env or {})),
        )
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        if not {"-help", "--help", "-h"} & set(args):
            ended.setdefault(command_of(args), set()).add(code)
        if code == 0:
            assert "no effect" not in done.stderr, (args, done.stderr)
            assert "Error" not in done.stderr
            assert "-format=json" not in args or done.stdout == "" or json.loads(done.stdout) != ""
        else:
            assert done.stderr != "" or args[0] == "status" or "-status" in args
        return done

    def json(self, *args, **more):
        return json.loads(self(args[0], *args[1:], "-format=json", **more).stdout)


def typed(cli, args, line):
    """Runs a command on a terminal and types a line at its prompt; (exit code, what was shown)."""
    terminal, its_side = pty.openpty()
    child = subprocess.Popen(["setsid", "--ctty", "--wait", HOLDFAST, *args], env=cli.env(),
                             stdin=its_side, stdout=its_side, stderr=its_side)
    os.close(its_side)
    shown, sent, deadline = b"", False, time.monotonic() + 100
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if part == b"":
            break
        shown += part
        if not sent and b"hidden" in shown:
            os.write(terminal, line)
            sent = True
    os.close(terminal)
    return child.wait(60), shown.decode()


# The first words of the commands that a file of tests has to see work; test_cli.py has the others.
FILES = {
    "test_cli_acl.py": {"acl"},
    "test_cli_operator.py": {"operator", "init", "status"},
    "test_cli_platform.py": {"platform", "run"},
    "test_cli_scheduler.py": {"agent", "alloc", "job", "node"},
    "test_cli_usage.py": {"completion", "man", "version"},
}
NEVER = {"lease renew"}  # works: test_lease_api.py has a build with leases that can be renewed


def file_of(command):
    """The file of tests that has to see the command work."""
    for file, words in FILES.items():
        if command.split()[0] in words:
            return file
    return "test_cli.py"


def not_seen(file):
    """The commands of a file of tests that ended well neither there nor in tests of another part,
    which call them in passing, nor in the runbooks, of which a test runs every line. A worker of
    pytest-xdist runs whole files: `ended` has all of it."""
    here = pathlib.Path(file)
    others = " ".join(" ".join(path.read_text().split()) for path in here.parent.glob("*.py")
                      if not path.name.startswith("test_cli"))

    runbooks = " ".join(path.read_text() for path in (TOP / "deploy" / "dr").glob("*.md"))

    def is_called(first, *rest):
        if f"holdfast {' '.join((first, *rest))} " in runbooks.replace("\n", " "):
            return True
        rest = ", ".join(f'"{word}"' for word in rest)
        return f'"{first}", {rest}' in others or (rest and f"{first}({rest}" in others)

    return [command for command in COMMANDS if file_of(command) == here.name and
            command not in NEVER and 0 not in ended.get(command, ()) and
            not is_called(*command.split())]
