"""`holdfast dev`: started by a new user; the commands that it prints are run word by word."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import time

import pytest

from cluster import HOLDFAST, PATIENCE_S

# Below the ports that clusters of the tests are given: 500 for each worker, because a second cluster and
# the registries of both lie up to 430 ports above the first one.
PORTS = 5000 + 500 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10)


def is_free(port):
    """Whether no process listens; connections that were closed a moment ago do not count."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
            sock.listen(1)
        except OSError:
            return False
    return True


def free_base(nodes, first=PORTS, offsets=(0, 1)):
    """A first port, with those of the other nodes free too; at least `first`. `offsets` are the ports
    of a node, counted from its first one."""
    for base in range(first, PORTS + 9):
        if all(is_free(base + 10 * i + j) for i in range(nodes) for j in offsets):
            return base
    raise AssertionError("too few ports are free")


def environment(folder, **more):
    return {"PATH": f"{pathlib.Path(HOLDFAST).parent}:{os.environ['PATH']}", "HOME": str(folder),
            "TMPDIR": str(folder), **more}


class Dev:
    """A running `holdfast dev` and what it has printed."""

    def __init__(self, process, folder):
        self.process, self.folder = process, folder
        self.printed = ""
        while "Ctrl-C" not in self.printed:
            line = process.stdout.readline()
            assert line != "", process.communicate()
            self.printed += line
        self.exports = re.findall(r"^  (export .*)$", self.printed, re.M)
        self.examples = re.findall(r"^  ((?:holdfast|curl) .*)$", self.printed, re.M)
        self.token = re.search(r"root token +(\S+)", self.printed).group(1)
        self.urls = re.findall(r"node\d +(https://\S+)", self.printed)
        self.dir = pathlib.Path(re.search(r"unsealed, in ([^\s,]+)", self.printed).group(1))

    def shell(self, *commands, address=None):
        """Commands in a shell into which the settings were pasted."""
        lines = [*self.exports, *([f"export HOLDFAST_ADDR={address}"] if address else []), *commands]
        done = subprocess.run(["bash", "-euc", "\n".join(lines)], capture_output=True, text=True,
                              timeout=PATIENCE_S, env=environment(self.folder))
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    def children(self):
        """The node's numbers and processes."""
        listed = subprocess.run(["ps", "-ww", "--ppid", str(self.process.pid), "-o", "pid=,args="],
                                capture_output=True, text=True, timeout=PATIENCE_S).stdout
        return {int(n): int(pid) for pid, n in re.findall(r"(\d+) .*/node(\d)/", listed)}

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        assert self.process.wait(PATIENCE_S) == 0
        return self.process.stderr.read()


@contextlib.contextmanager
def dev(folder, *args, command=("dev",), env=None):
    process = subprocess.Popen(
        ["holdfast", *command, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        stdin=subprocess.DEVNULL, env=environment(folder, **(env or {})))
    try:
        yield Dev(process, folder)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(PATIENCE_S)
        process.stdout.close()
        process.stderr.close()


def refused(folder, *args, env=None):
    done = subprocess.run(["holdfast", "dev", *args], capture_output=True, text=True,
                          timeout=PATIENCE_S, env=environment(folder, **(env or {})))
    assert done.returncode == 1 and done.stdout == ""
    return done.stderr


def gone(pid):
    deadline = time.monotonic() + PATIENCE_S
    while pathlib.Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_what_is_printed_works_and_nothing_is_left(tmp_path, how):
    base = free_base(1)
    with dev(tmp_path, f"-listen=127.0.0.1:{base}") as running:
        assert running.urls == [f"https://127.0.0.1:{base}"] and len(running.examples) == 3
        assert len(running.exports) == 3
        shown = running.shell(*running.examples)
        assert len(re.findall("world", shown)) == 2 and '"who":"world"' in shown
        theirs = 'curl -sf --cacert "$VAULT_CACERT" -H "X-Vault-Token: $VAULT_TOKEN" '
        assert running.token in running.shell(theirs + '"$VAULT_ADDR/v1/auth/token/lookup-self"')
        registry = 'curl -sf --cacert "$CONSUL_CACERT" -H "X-Consul-Token: $CONSUL_HTTP_TOKEN" '
        assert '"NodeName":"node1"' in running.shell(registry + '"$CONSUL_HTTP_ADDR/v1/agent/self"')
        assert running.dir.parent == tmp_path and stat.S_IMODE(running.dir.stat().st_mode) == 0o700
        for file in running.dir.rglob("*"):
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file
        node = running.children()[1]
        assert running.stop(how) == ""
        assert gone(node) and is_free(base) and list(tmp_path.iterdir()) == []


def test_a_kept_folder_goes_on_with_its_token_and_secrets(tmp_path):
    data = tmp_path / "it's kept"
    base = free_base(1)
    with dev(tmp_path, "-data", str(data), f"-listen=localhost:{base}") as first:
        assert first.urls == [f"https://127.0.0.1:{base}"]
        first.shell("holdfast kv put secret/a n=1")
        said = refused(tmp_path, f"-data={data}", f"-listen=127.0.0.1:{base + 2}")
        assert "another holdfast dev uses this folder" in said
        first.stop()
    kept = data / "init.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(kept.read_text())["root_token"] == first.token
    assert "was made for 1 node;" in refused(tmp_path, f"-data={data}", "-nodes=3")
    assert "made for another address" in refused(tmp_path, f"-data={data}",
                                                 f"-listen=127.0.0.2:{base}")
    with dev(tmp_path, f"-data={data}", f"-listen=127.0.0.1:{base + 3}") as again:
        assert again.token == first.token
        assert again.shell("holdfast kv get -field=n secret/a") == "1"
    kept.unlink()
    assert "remove the folder" in refused(tmp_path, f"-data={data}", f"-listen=127.0.0.1:{base}")
    assert data.exists()


def test_a_cluster_outlives_one_of_its_nodes(tmp_path):
    with dev(tmp_path, "-nodes=3", f"-listen=127.0.0.1:{free_base(3)}") as running:
        assert len(running.urls) == 3 and len(running.shell(*running.examples)) > 0
        children = running.children()
        assert sorted(children) == [1, 2, 3]
        os.kill(children[1], signal.SIGKILL)
        assert "node1 was ended by signal 9" in running.process.stderr.readline()
        wait = "until holdfast kv put secret/b n=2 2>/dev/null; do sleep 0.1; done"
        running.shell(wait, address=running.urls[1])
        wait = "until holdfast kv get -field=n secret/b 2>/dev/null; do sleep 0.1; done"
        assert running.shell(wait) == "2"  # by node1, which was started again
        assert running.children()[1] != children[1]
        assert running.stop() == ""
    assert list(tmp_path.iterdir()) == []


def test_nodes_end_with_the_parent(tmp_path):
    with dev(tmp_path, f"-listen=127.0.0.1:{free_base(1)}") as running:
        node = running.children()[1]
        running.process.kill()
        assert gone(node)


def test_a_single_node_that_ends_is_the_end(tmp_path):
    with dev(tmp_path, f"-listen=127.0.0.1:{free_base(1)}") as running:
        os.kill(running.children()[1], signal.SIGKILL)
        assert running.process.wait(PATIENCE_S) == 1
        assert "node1 was ended by signal 9" in running.process.stderr.read()
    assert list(tmp_path.iterdir()) == []


def test_upstreams_flags_and_environment(tmp_path):
    listen = f"127.0.0.1:{free_base(1)}"
    with dev(tmp_path, "-dev", "-dev-tls", "-dev-root-token-id=my-root", command=("server",),
             env={"VAULT_DEV_LISTEN_ADDRESS": listen}) as running:
        assert running.urls == [f"https://{listen}"] and running.token == "my-root"
        assert '"root"' in running.shell("holdfast token lookup -format=json")
    with dev(tmp_path, f"-dev-listen-address={listen}",
             env={"HOLDFAST_DEV_ROOT_TOKEN_ID": "other"}) as running:
        assert running.token == "other" and running.shell(*running.examples)


def test_what_cannot_be_started_is_said_and_leaves_nothing(tmp_path):
    base = free_base(1)
    with dev(tmp_path, f"-listen=127.0.0.1:{base}") as running:
        for port in (base, base + 1, base - 1):  # for clients, of the cluster, and both ways
            said = refused(tmp_path, f"-listen=127.0.0.1:{port}")
            assert "is taken by another program; choose another with -listen" in said.replace("\n", " ")
        running.stop()
    for args, why in ((["-listen=here"], "-listen is ADDRESS:PORT"), (["-nodes=0"], "-nodes is 1 to 7"),
                      (["-nodes=8"], "-nodes is 1 to 7"), (["-dev-tls=false"], "TLS cannot be"),
                      (["-listen=127.0.0.1:65535"], "too few ports"), (["more"], "too many arg"),
                      (["-data=/dev/null/x"], "the folder cannot be made"),
                      (["-data=/dev/null"], "/dev/null")):
        assert why in refused(tmp_path, *args), args
    assert list(tmp_path.iterdir()) == []
    done = subprocess.run([HOLDFAST, "server", "-config=x", "-nodes=3"], capture_output=True,
                          text=True, timeout=PATIENCE_S)
    assert done.returncode == 1 and "need -dev" in done.stderr
