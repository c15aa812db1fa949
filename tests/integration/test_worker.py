"""Runs from one end to the other: terraform with a cloud block, a cluster, and a worker, all of them real."""

import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from cluster import PATIENCE_S
from platform_cluster import PlatformCluster, make
from worker import NO_TERRAFORM, TERRAFORM, Worker, archive, await_that

pytestmark = pytest.mark.skipif(TERRAFORM is None, reason=NO_TERRAFORM)


class WorkerCluster(PlatformCluster):
    """A cluster with a worker in the site-wide pool."""

    audited = False  # the worker and terraform send requests of their own

    def __enter__(self):
        made = super().__enter__()
        made.worker = Worker(made.dir, [f"https://localhost:{node.client_port}" for node in made.nodes], made.dir / "tls" / "tls-ca.pem",
                             made.pool_token("apool-default")).start()
        return made

    def __exit__(self, kind, value, trace):
        worker = getattr(self, "worker", None)
        if worker is not None:
            worker.end()
            if kind is not None:
                print(worker.log_text()[-4000:])
        super().__exit__(kind, value, trace)
        assert kind is not None or worker is None or not worker.complaints()

    def pool_token(self, pool):
        made = self.ask("POST", f"agent-pools/{pool}/authentication-tokens",
                        make("authentication-tokens", description="worker"), status=201)
        return made["data"]["attributes"]["token"]

    def workspace(self, name):
        return self.ask("GET", f"organizations/acme/workspaces/{name}")["data"]

    def runs(self, name, operation=None):
        filter = f"?filter%5Boperation%5D={operation}" if operation else ""
        return self.ask("GET", f"workspaces/{self.workspace(name)['id']}/runs{filter}")["data"]

    def current_state(self, name):
        version = self.ask("GET", f"workspaces/{self.workspace(name)['id']}/current-state-version")["data"]
        return version["attributes"]["serial"], version

    def log(self, phase):
        """The whole log of a plan or an apply."""
        url = phase["attributes"]["log-read-url"]
        path = "/" + url.split("/", 3)[3]
        return self.nodes[1].call("GET", path + ("&" if "?" in path else "?") + "limit=65536&offset=0").body


CLUSTER = WorkerCluster


class Project:
    """A folder with a configuration, and terraform in it."""

    def __init__(self, cluster, dir, name, node=0):
        self.cluster, self.dir, self.name = cluster, pathlib.Path(dir), name
        self.host = f"localhost:{cluster.nodes[node].client_port}"
        self.outside = self.dir / "outside"
        (self.dir / "cli.tfrc").write_text(
            f'disable_checkpoint = true\ncredentials "{self.host}" {{\n  token = "{cluster.users["olga"][1]}"\n}}\n')
        self.config = self.dir / "config"
        self.config.mkdir()
        self.write("one")

    def write(self, value, more=""):
        (self.config / "main.tf").write_text(f'''
terraform {{
  cloud {{
    hostname     = "{self.host}"
    organization = "acme"
    workspaces {{
      name = "{self.name}"
    }}
  }}
}}
variable "from_cli" {{
  default = "preset"
}}
resource "terraform_data" "a" {{
  input = "{value}"
  triggers_replace = ["{value}"]
  provisioner "local-exec" {{
    command = "echo {value} >> {self.outside}"
  }}
}}
output "o" {{
  value = terraform_data.a.output
}}
output "given" {{
  value = var.from_cli
}}
{more}''')

    def start(self, *args):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.dir), "TF_CLI_CONFIG_FILE": str(self.dir / "cli.tfrc"),
               "SSL_CERT_FILE": str(self.cluster.dir / "tls" / "tls-ca.pem"), "TF_IN_AUTOMATION": "1"}
        return subprocess.Popen([TERRAFORM, *args, "-no-color"] if args[0] != "version" else [TERRAFORM, *args],
                                cwd=self.config, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def run(self, *args, code=0, answer=""):
        process = self.start(*args)
        out, _ = process.communicate(answer, timeout=PATIENCE_S)
        out = re.sub("\x1b\\[[0-9;]*m", "", out)
        assert process.returncode == code, out
        return out

    def lines(self):
        return self.outside.read_text().splitlines() if self.outside.exists() else []


@pytest.fixture
def project(cluster, tmp_path, request):
    return Project(cluster, tmp_path, request.node.name.replace("_", "-")[:60].strip("-"))


def test_terraform_plans_applies_shows_and_destroys(cluster, project):
    project.run("init")
    workspace = cluster.workspace(project.name)["attributes"]
    assert workspace["execution-mode"] == "remote" and workspace["locked"] is False
    out = project.run("plan")
    assert "Plan: 1 to add, 0 to change, 0 to destroy." in out and project.lines() == []
    assert cluster.runs(project.name) == []  # plan-only runs are hidden
    out = project.run("apply", "-auto-approve", "-var", "from_cli=given")
    assert "Apply complete! Resources: 1 added, 0 changed, 0 destroyed." in out and project.lines() == ["one"]
    (run,) = cluster.runs(project.name)
    assert run["attributes"]["status"] == "applied" and run["attributes"]["has-changes"] is True
    assert cluster.workspace(project.name)["attributes"]["locked"] is False
    assert json.loads(project.run("output", "-json"))["o"]["value"] == "one"
    assert json.loads(project.run("output", "-json"))["given"]["value"] == "given"
    out = project.run("plan", "-var", "from_cli=given")
    assert "No changes." in out
    out = project.run("apply", "-auto-approve", "-var", "from_cli=given")
    assert "No changes." in out and project.lines() == ["one"]
    assert cluster.runs(project.name)[0]["attributes"]["status"] == "planned_and_finished"
    project.write("two")
    out = project.run("apply", "-auto-approve", "-var", "from_cli=given")
    assert "1 added, 0 changed, 1 destroyed" in out and project.lines() == ["one", "two"]
    before, _ = cluster.current_state(project.name)
    out = project.run("destroy", "-auto-approve")
    assert "0 added, 0 changed, 1 destroyed" in out
    serial, version = cluster.current_state(project.name)
    assert serial > before and version["attributes"]["resources"] == []
    assert json.loads(project.run("output", "-json")) == {}


def test_a_saved_plan_is_applied_later_and_once(cluster, project):
    project.run("init")
    project.run("plan", "-out=saved.plan")
    (run,) = cluster.runs(project.name, "save_plan,plan_and_apply")
    assert run["attributes"]["status"] == "planned_and_saved" and project.lines() == []
    assert cluster.workspace(project.name)["attributes"]["locked"] is False
    out = project.run("apply", "saved.plan")
    assert "1 added, 0 changed, 0 destroyed" in out and project.lines() == ["one"]
    project.run("apply", "saved.plan", code=1)
    assert project.lines() == ["one"]


def test_ctrl_c_cancels_the_run(cluster, project):
    project.write("one", '''
resource "terraform_data" "slow" {
  depends_on = [terraform_data.a]
  provisioner "local-exec" {
    command = "touch OUTSIDE.slow; while :; do sleep 0.1; done"
  }
}'''.replace("OUTSIDE", str(project.outside)))
    project.run("init")
    process = project.start("apply", "-auto-approve")
    await_that(pathlib.Path(f"{project.outside}.slow").exists)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert "The remote operation was successfully cancelled." in out
    (run,) = cluster.runs(project.name)
    await_status(cluster, run["id"], "canceled")
    assert cluster.workspace(project.name)["attributes"]["locked"] is False and project.lines() == ["one"]
    _, version = cluster.current_state(project.name)
    assert "terraform_data" in json.dumps(version["attributes"]["resources"])


def test_a_run_reads_the_outputs_of_a_workspace_that_shares_its_state(cluster, project, tmp_path):
    project.run("init")
    project.run("apply", "-auto-approve")
    first = cluster.workspace(project.name)
    cluster.ask("PATCH", f"workspaces/{first['id']}", make("workspaces", **{"global-remote-state": False}))
    reader = new_workspace(cluster, "reader")
    files = {"main.tf": '''
data "terraform_remote_state" "first" {
  backend = "remote"
  config = {
    hostname     = "HOST"
    organization = "acme"
    workspaces   = { name = "NAME" }
  }
}
output "read" {
  value = data.terraform_remote_state.first.outputs.o
}'''.replace("HOST", project.host).replace("NAME", project.name)}
    refused = apply_by_api(cluster, reader, files)
    await_status(cluster, refused, "errored")
    cluster.ask("PATCH", f"workspaces/{first['id']}", make("workspaces", **{"global-remote-state": True}))
    await_status(cluster, apply_by_api(cluster, reader, files), "applied")
    outputs = cluster.ask("GET", f"workspaces/{cluster.workspace(reader)['id']}/current-state-version-outputs")["data"]
    assert outputs[0]["attributes"]["value"] == "one"


def test_a_failed_apply_keeps_its_state_and_unlocks(cluster, project):
    project.write("one", '''
resource "terraform_data" "bad" {
  depends_on = [terraform_data.a]
  provisioner "local-exec" {
    command = "echo the reason; exit 7"
  }
}''')
    project.run("init")
    # With -auto-approve the apply may have failed before terraform looks, which then shows the plan alone.
    out = project.run("apply", answer="yes\n", code=1)
    assert "the reason" in out and project.lines() == ["one"]
    (run,) = cluster.runs(project.name)
    assert run["attributes"]["status"] == "errored"
    assert cluster.workspace(project.name)["attributes"]["locked"] is False
    _, version = cluster.current_state(project.name)
    assert "terraform_data" in json.dumps(version["attributes"]["resources"])
    project.write("one")
    assert "0 added, 0 changed, 1 destroyed" in project.run("apply", "-auto-approve")
    assert project.lines() == ["one"]


def test_logs_are_the_same_at_every_node_and_begin_and_end_as_clients_expect(cluster, project):
    project.run("init")
    project.run("apply", "-auto-approve")
    run = cluster.runs(project.name)[0]
    full = cluster.ask("GET", f"runs/{run['id']}?include=plan,apply")
    for phase in full["included"]:
        assert phase["attributes"]["status"] == "finished"
        log = cluster.log(phase)
        assert log[:1] == b"\2" and log[-1:] == b"\3" and log[-2:-1] == b"\n"
        assert log[1:].startswith(b"Terraform v") and log.count(b"\n") > 5


def apply_by_api(cluster, name, files, **attributes):
    """A run without the command line: its id."""
    workspace = cluster.workspace(name)["id"]
    version = cluster.ask("POST", f"workspaces/{workspace}/configuration-versions",
                          make("configuration-versions", **{"auto-queue-runs": False}), status=201)["data"]
    path = "/" + version["attributes"]["upload-url"].split("/", 3)[3]
    put = cluster.nodes[2].call("PUT", path, archive(files), "", {"Content-Type": "application/octet-stream"})
    assert put.status in (200, 204), put.body
    run = cluster.ask("POST", "runs", make("runs", {
        "workspace": {"data": {"type": "workspaces", "id": workspace}},
        "configuration-version": {"data": {"type": "configuration-versions", "id": version["id"]}}},
        **{"auto-apply": True, **attributes}), status=201)["data"]
    return run["id"]


def status_of(cluster, run, node=0):
    return cluster.ask("GET", f"runs/{run}", node=node)["data"]["attributes"]["status"]


def await_status(cluster, run, *wanted, node=0):
    final = {"applied", "planned_and_finished", "errored", "canceled", "force_canceled", "discarded"}

    def reached():
        status = status_of(cluster, run, node)
        assert status in wanted or status not in final, status
        return status if status in wanted else None
    return await_that(reached)


SLOW = '''
resource "terraform_data" "first" {{}}
resource "terraform_data" "slow" {{
  depends_on = [terraform_data.first]
  provisioner "local-exec" {{
    command = "echo $$ > {dir}/pid; while ! test -e {dir}/go; do sleep 0.1; done; echo done >> {dir}/outside"
  }}
}}
'''


def new_workspace(cluster, name):
    cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name=name), status=201)
    return name


def test_a_cancel_of_an_apply_keeps_its_state(cluster, tmp_path):
    name = new_workspace(cluster, "canceled")
    run = apply_by_api(cluster, name, {"main.tf": SLOW.format(dir=tmp_path)})
    await_that(lambda: (tmp_path / "pid").exists())
    cluster.ask("POST", f"runs/{run}/actions/cancel", {"comment": "enough"}, status=202)
    await_status(cluster, run, "canceled")
    workspace = cluster.workspace(name)["attributes"]
    assert workspace["locked"] is False and not (tmp_path / "outside").exists()
    _, version = cluster.current_state(name)
    assert "terraform_data" in json.dumps(version["attributes"]["resources"])


def test_a_long_apply_survives_the_end_of_each_server_in_turn(cluster, tmp_path):
    name = new_workspace(cluster, "failover")
    run = apply_by_api(cluster, name, {"main.tf": SLOW.format(dir=tmp_path)})
    await_that(lambda: (tmp_path / "pid").exists())
    for node in cluster.nodes:
        node.kill()
        assert cluster.active() is not node
        node.start()
        cluster.await_up()
    (tmp_path / "go").touch()
    await_status(cluster, run, "applied")
    assert (tmp_path / "outside").read_text() == "done\n"
    assert cluster.workspace(name)["attributes"]["locked"] is False


def test_the_end_of_the_worker_errors_its_run_at_once(cluster, tmp_path):
    name = new_workspace(cluster, "stopped")
    run = apply_by_api(cluster, name, {"main.tf": SLOW.format(dir=tmp_path)})
    await_that(lambda: (tmp_path / "pid").exists())
    assert cluster.worker.end() == 0
    assert status_of(cluster, run) == "errored" and cluster.workspace(name)["attributes"]["locked"] is False
    _, version = cluster.current_state(name)
    assert "terraform_data" in json.dumps(version["attributes"]["resources"])
    cluster.worker.start()


def test_a_killed_worker_loses_its_run_after_the_lease_and_does_not_apply_again(cluster, tmp_path):
    name = new_workspace(cluster, "killed")
    run = apply_by_api(cluster, name, {"main.tf": SLOW.format(dir=tmp_path)})
    await_that(lambda: (tmp_path / "pid").exists())
    cluster.worker.kill()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)  # without a sandbox the command outlives it
    cluster.worker.start()
    assert status_of(cluster, run) == "applying" and cluster.workspace(name)["attributes"]["locked"] is True
    await_status(cluster, run, "errored")
    assert cluster.workspace(name)["attributes"]["locked"] is False
    (kept,) = cluster.worker.states()
    assert run in kept.name
    (tmp_path / "go").touch()
    again = apply_by_api(cluster, name, {"main.tf": SLOW.format(dir=tmp_path)})
    await_status(cluster, again, "applied")
    assert (tmp_path / "outside").read_text() == "done\n" and status_of(cluster, run) == "errored"
