"""deploy/quickstart, with a program that was built before, in a folder of its own."""

import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import time

import pytest

from cluster import HOLDFAST, PATIENCE_S, TOP
from test_dev import free_base
from worker import NO_TERRAFORM, TERRAFORM

WORKER = ["--worker"] if TERRAFORM else []

# Appended to the configuration of each node.
EXTRA = 'datacenter = "east"\n'


class Quickstart:
    def __init__(self, folder, offsets=(0, 1, 300, -3554)):
        self.folder = folder
        (folder / "deploy").mkdir()
        shutil.copy(TOP / "deploy" / "quickstart", folder / "deploy" / "quickstart")
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "HOLDFAST_BIN": HOLDFAST,
                    "HOLDFAST_PORT": str(free_base(3, offsets=offsets))}

    def run(self, *args, code=0, **env):
        here = self.folder / "deploy"
        done = subprocess.run(["./quickstart", *args], env={**self.env, **env}, cwd=here, capture_output=True,
                              text=True, timeout=PATIENCE_S)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout + done.stderr

    def path(self, name):
        return self.folder / "build" / "quickstart" / name

    def shell(self, text):
        """A command after the settings were read, with a program that is called holdfast."""
        env = {"PATH": f"{pathlib.Path(HOLDFAST).parent}:{self.env['PATH']}", "HOME": self.env["HOME"]}
        done = subprocess.run(["bash", "-euc", f". build/quickstart/env\n{text}"], env=env,
                              cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    made = Quickstart(tmp_path_factory.mktemp("quickstart"))
    try:
        extra = made.folder / "extra.hcl"
        extra.write_text(EXTRA)
        made.said = made.run("--detach", "--agents", "1", *WORKER, HOLDFAST_EXTRA="../extra.hcl")
        assert "read through node3" in made.said
        yield made
    finally:
        made.run("--stop")


def test_settings_are_for_both_kinds_of_clients_and_for_their_owner(quickstart):
    env = quickstart.path("env")
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    text = env.read_text()
    for name in ("ADDR", "CACERT", "TOKEN"):
        values = re.findall(rf"^export (?:HOLDFAST|VAULT)_{name}='(.*)'$", text, re.M)
        assert len(values) == 2 and values[0] == values[1]
        if name != "ADDR":
            assert re.findall(rf"^export CONSUL_(?:HTTP_)?{name}='(.*)'$", text, re.M) == values[:1]
    assert len(re.search(r"^export HOLDFAST_NODES='(.*)'$", text, re.M).group(1).split(",")) == 3
    assert quickstart.shell("holdfast kv put secret/a n=1; holdfast kv get -field=n secret/a")[-1] == "1"
    theirs = "unset ${!HOLDFAST_*}; holdfast kv get -field=n secret/a"
    assert quickstart.shell(theirs) == "1"


def test_the_registry_has_ports_of_its_own(quickstart):
    base = int(quickstart.env["HOLDFAST_PORT"])
    said = quickstart.said
    for i in range(3):
        url = f"https://127.0.0.1:{base + 300 + 10 * i}"
        assert url in said
        ask = f'curl -s --cacert "$CONSUL_CACERT" -H "X-Consul-Token: $CONSUL_HTTP_TOKEN" {url}'
        assert f'"NodeName":"node{i + 1}"' in quickstart.shell(f"{ask}/v1/agent/self")
        assert "not a recognized HTTP API endpoint" in quickstart.shell(f"{ask}/v1/sys/health")
    shown = quickstart.shell('echo "$CONSUL_HTTP_ADDR $CONSUL_HTTP_SSL"')
    assert shown == f"https://127.0.0.1:{base + 300} true\n"


@pytest.mark.skipif(TERRAFORM is None, reason=NO_TERRAFORM)
def test_the_worker_is_registered_and_its_token_is_its_owners(quickstart):
    ask = 'curl -s --cacert "$HOLDFAST_CACERT" -H "Authorization: Bearer $TFE_TOKEN" "$TFE_ADDRESS"'
    deadline = time.monotonic() + PATIENCE_S
    while '"status":"idle"' not in quickstart.shell(f"{ask}/api/v2/agent-pools/apool-default/agents"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert stat.S_IMODE(quickstart.path("worker/token").stat().st_mode) == 0o600


def test_an_agent_runs_a_job_of_the_scheduler(quickstart):
    base = int(quickstart.env["HOLDFAST_PORT"])
    urls = [f"https://127.0.0.1:{base - 3554 + 10 * i}" for i in range(3)]
    assert quickstart.shell('echo "$HOLDFAST_SCHEDULER_NODES"') == ",".join(urls) + "\n"
    job = """{"ID": "tick", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec",
        "Config": {"command": "sleep", "args": ["1000"]}}]}]}"""
    (quickstart.folder / "tick.json").write_text(job)
    deadline = time.monotonic() + PATIENCE_S
    while "ready" not in quickstart.shell("holdfast node status"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    quickstart.shell("holdfast job run tick.json")
    while "running" not in quickstart.shell("holdfast alloc list"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    theirs = "unset ${!HOLDFAST_*}; holdfast job stop tick"
    quickstart.shell(theirs)
    ask = f'curl -s --cacert "$NOMAD_CACERT" -H "X-Nomad-Token: $NOMAD_TOKEN" {urls[1]}/v1/sys/health'
    assert "resource not found" in quickstart.shell(ask)


def test_the_nodes_of_the_registry_are_named(quickstart):
    base = int(quickstart.env["HOLDFAST_PORT"])
    shown = quickstart.shell('echo "$HOLDFAST_REGISTRY_NODES"')
    assert shown == ",".join(f"https://127.0.0.1:{base + 300 + 10 * i}" for i in range(3)) + "\n"


def test_a_file_is_appended_to_each_configuration(quickstart):
    for i in range(1, 4):
        assert quickstart.path(f"node{i}/holdfast.hcl").read_text().endswith(f"}}\n\n{EXTRA}")
    ask = 'curl -s --cacert "$CONSUL_CACERT" -H "X-Consul-Token: $CONSUL_HTTP_TOKEN"'
    shown = quickstart.shell(f"for url in ${{HOLDFAST_REGISTRY_NODES//,/ }}; do {ask} $url/v1/agent/self; done")
    assert shown.count('"Datacenter":"east"') == 3


def test_a_file_that_is_absent_starts_no_node(tmp_path):
    made = Quickstart(tmp_path)
    for wrong in (str(tmp_path / "absent"), str(tmp_path)):
        said = made.run("--detach", code=1, HOLDFAST_EXTRA=wrong)
        assert f'HOLDFAST_EXTRA is "{wrong}"; a file that can be read is expected' in said
    assert not list(tmp_path.rglob("pid"))


def test_recovery_keys_lie_beside_the_root_token(quickstart):
    kept = quickstart.path("init.json")
    made = json.loads(kept.read_text())
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert len(made["recovery_keys_b64"]) == 5 and made["recovery_keys_threshold"] == 3
    assert made["root_token"] in quickstart.path("env").read_text()


def test_a_killed_node_is_started_again(quickstart):
    pid = int(quickstart.path("node2/pid").read_text())
    assert "runs already" in quickstart.run("--start", "2", code=1)
    os.kill(pid, signal.SIGKILL)
    assert quickstart.run("--start", "2") == "node2 serves\n"
    assert int(quickstart.path("node2/pid").read_text()) != pid
    for wrong in ("4", "", "../x"):
        assert "there is no node" in quickstart.run("--start", wrong, code=1)
    assert "--start N" in quickstart.run("--detach", code=1)


def test_ctrl_c_ends_the_nodes(tmp_path):
    made = Quickstart(tmp_path)
    running = subprocess.Popen([tmp_path / "deploy" / "quickstart"], env=made.env, text=True,
                               stdout=subprocess.PIPE, start_new_session=True)
    with running.stdout as said:
        assert "Ctrl-C stops it.\n" in said  # read up to there
        pids = [int(made.path(f"node{i}/pid").read_text()) for i in (1, 2, 3)]
        os.killpg(running.pid, signal.SIGINT)  # as the terminal does
        assert running.wait(PATIENCE_S) == 130
    assert not [pid for pid in pids if pathlib.Path(f"/proc/{pid}/exe").exists()]


def await_equal_nodes(made):
    """What the six nodes of a pair show. Duties may still write: awaits one version and one root."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shown = made.shell(
            'for url in ${HOLDFAST_NODES//,/ } ${HOLDFAST_DR_NODES//,/ }; do\n'
            '    for field in mode state version root_version merkle_root; do\n'
            '        holdfast read -address=$url -field=$field sys/replication/dr/status; echo\n'
            '    done\ndone').split()
        nodes = [shown[i:i + 5] for i in range(0, len(shown), 5)]
        equal = len(nodes) == 6 and len({tuple(n[2:]) for n in nodes}) == 1
        if equal and nodes[0][2] == nodes[0][3]:
            return nodes
        assert time.monotonic() < deadline, nodes


def test_a_pair_for_disaster_recovery(tmp_path):
    """Its settings lead to both clusters, which have the same root."""
    made = Quickstart(tmp_path, offsets=(0, 1, 100, 101, 300, 400, -3554, -3454))
    try:
        said = made.run("--dr", "--detach")
        version = int(re.search(r"The write has version (\d+) on the primary", said)[1])
        assert re.search(r"the same Merkle root: [0-9a-f]{64}\.", said)
        nodes = await_equal_nodes(made)
        assert int(nodes[0][2]) >= version
        assert [n[:2] for n in nodes] == [["primary", "running"]] * 3 + [
            ["secondary", "stream-wals"]] * 3
        assert "already running" in made.run("--dr", code=1)
    finally:
        made.run("--stop")
    assert not list(tmp_path.rglob("pid"))


def test_progress_of_a_build_is_shown(tmp_path):
    """Every tenth of it, and all of it in the log."""
    text = (TOP / "deploy" / "quickstart").read_text()
    shown = re.search(r"^progress\(\)\n\{.*?^\}\n", text, re.M | re.S).group(0)
    lines = "".join(f"[{n}/40] Building C object {n}\n" for n in range(1, 41))
    done = subprocess.run(["bash", "-c", f"say() {{ echo \"$@\"; }}\n{shown}\nprogress 3> log"],
                          cwd=tmp_path, input="configured\n" + lines, capture_output=True,
                          text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.split("\n")[:-1] == [f"  {n} %" for n in range(10, 101, 10)]
    assert (tmp_path / "log").read_text() == "configured\n" + lines
