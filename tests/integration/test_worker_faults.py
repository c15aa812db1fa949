"""The worker against servers that lose replies, take leases away and send hostile input. Terraform is the real one."""

import gzip
import io
import json
import os
import pathlib
import signal
import subprocess
import tarfile
import time

import pytest

from cluster import HOLDFAST, PATIENCE_S
from worker import NO_TERRAFORM, TERRAFORM, Script, archive, await_that

pytestmark = pytest.mark.skipif(TERRAFORM is None, reason=NO_TERRAFORM)

CLOUD = 'terraform {\n  cloud {\n    organization = "acme"\n    workspaces {\n      name = "prod"\n    }\n  }\n}\n'
ONE = CLOUD + 'resource "terraform_data" "a" {\n  input = "one"\n}\noutput "o" {\n  value = terraform_data.a.output\n}\n'


def slow(dir, trap=""):
    """An apply that makes one resource, says so in a file, and then takes long."""
    return CLOUD + f'''
resource "terraform_data" "first" {{}}
resource "terraform_data" "slow" {{
  depends_on = [terraform_data.first]
  provisioner "local-exec" {{
    command = "{trap}echo $$ > {dir}/pid; while :; do sleep 0.1; done"
  }}
}}
'''


@pytest.fixture
def script():
    with Script() as made:
        yield made


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def slow_apply(script, trap="", **spec):
    """An apply that is in the middle of its slow resource; its process there."""
    plan = script.run("plan", {"main.tf": slow(script.dir, trap)})
    assert plan.end["status"] == "finished", plan.text
    job = script.apply_of(plan, **spec)
    pid = int(await_that(lambda: (script.dir / "pid").exists() and (script.dir / "pid").read_text().strip()))
    assert alive(pid)
    return job, pid


def resources(raw):
    return [one["name"] for one in json.loads(raw)["resources"]]


def test_a_run_is_planned_applied_and_leaves_nothing(script):
    worker = script.start_worker()
    plan = script.run("plan", {"main.tf": ONE})
    assert plan.end == {"claim": plan.claim, "status": "finished", "has_changes": True, "resource_additions": 1,
                        "resource_changes": 0, "resource_destructions": 0, "resource_imports": 0,
                        "generated_configuration": False, "tool": "terraform",
                        "tool_version": plan.end["tool_version"]}, plan.text
    lines = plan.text.splitlines()
    assert lines[0] == "Terraform v" + plan.end["tool_version"] and lines[2].startswith("Initializing")
    assert "Plan: 1 to add, 0 to change, 0 to destroy." in plan.text and plan.text.endswith("\n")
    shown = json.loads(plan.files["json-output"])
    assert shown["resource_changes"][0]["change"]["actions"] == ["create"]
    assert sorted(plan.files) == ["json-output", "plan-file"]
    apply = script.apply_of(plan)
    await_that(lambda: apply.ends)
    assert apply.end["status"] == "finished", apply.text
    assert "Apply complete! Resources: 1 added" in apply.text
    (state,) = apply.states
    assert json.loads(state)["outputs"]["o"]["value"] == "one" and resources(state) == ["a"]
    await_that(lambda: worker.jobs() == [])
    assert worker.states() == []
    # Nothing to do: no changes, and no new state.
    again = script.run("plan", {"main.tf": ONE}, state=script.state_of(state))
    assert again.end["has_changes"] is False and again.end["resource_additions"] == 0
    gone = script.applied({"main.tf": ONE}, state=script.state_of(state), is_destroy=True)
    assert gone.end["status"] == "finished" and resources(gone.states[0]) == []
    assert json.loads(gone.states[0])["serial"] > json.loads(state)["serial"]
    assert json.loads(gone.states[0])["lineage"] == json.loads(state)["lineage"]
    assert worker.end() == 0
    assert script.beats[-1] == "exited" and {"idle", "busy"} >= set(script.beats) - {"exited"}


def test_lost_replies_do_nothing_twice(script):
    script.drop = ["register", "claim", "claim", "log", "files", "end"]
    script.start_worker()
    plan = script.run("plan", {"main.tf": ONE})
    assert plan.claims == 3 and plan.end["status"] == "finished" and plan.text.count("Plan: 1 to add") == 1
    await_that(lambda: len(plan.ends) == 2)
    assert script.drop == [] and plan.ends[1] == plan.end
    script.drop = ["blob", "state", "end", "log", "renew"]
    apply = script.apply_of(plan)
    await_that(lambda: len(apply.ends) == 2)
    assert apply.text.count("Apply complete!") == 1 and len(apply.states) == 2
    assert apply.states[0] == apply.states[1]


def test_variables_come_in_their_order_and_exactly(script):
    script.start_worker()
    odd = 'a"b\\c\n${d} %{e} $${f} \u00e9\t$'
    declared = "".join(f'variable "{name}" {{\n  default = null\n}}\noutput "{name}" {{\n  value = var.{name}\n}}\n'
                       for name in ("file", "over", "odd", "list", "env"))
    job = script.applied({
        "main.tf": CLOUD + declared, "terraform.tfvars": 'file = "file"\nover = "file"\n',
        "zzzz.auto.tfvars": 'over = "late file"\n'},
        variables=[{"key": "over", "value": "given", "category": "terraform", "hcl": False, "sensitive": False},
                   {"key": "odd", "value": odd, "category": "terraform", "hcl": False, "sensitive": True},
                   {"key": "list", "value": '[1, "x", { a = true }]', "category": "terraform", "hcl": True,
                    "sensitive": False},
                   {"key": "undeclared", "value": "x", "category": "terraform", "hcl": False, "sensitive": False},
                   {"key": "TF_VAR_env", "value": "from env", "category": "env", "hcl": False, "sensitive": False}])
    assert job.end["status"] == "finished", job.text
    outputs = {name: one["value"] for name, one in json.loads(job.states[0])["outputs"].items()}
    assert outputs == {"file": "file", "over": "given", "odd": odd, "list": [1, "x", {"a": True}], "env": "from env"}


@pytest.mark.parametrize("variable,reason", [
    ({"key": "v", "value": "{ s3cret", "hcl": True}, "no HCL expression"),
    ({"key": "v", "value": "1\nother = 2", "hcl": True}, "no HCL expression"),
    ({"key": "a\nb", "value": "x", "hcl": False}, "no name of a variable")])
def test_a_malformed_variable_ends_the_run_with_its_name(script, variable, reason):
    script.start_worker()
    job = script.run("plan", {"main.tf": ONE}, variables=[{"category": "terraform", "sensitive": True, **variable}])
    assert job.end["status"] == "errored" and reason in job.end["message"] and reason in job.text
    assert "s3cret" not in job.text and job.text.endswith("\n")


def test_the_environment_of_a_run_has_nothing_of_the_worker(script):
    script.start_worker(env={"HOLDFAST_TOKEN": "s3cret", "VAULT_TOKEN": "s3cret", "TF_VAR_x": "s3cret"})
    env = script.dir / "env"
    job = script.applied({"main.tf": CLOUD + f'''
resource "terraform_data" "a" {{
  provisioner "local-exec" {{
    command = "env > {env}; cat $TF_CLI_CONFIG_FILE > {env}.cli; ls -l /proc/self/fd > {env}.fds"
  }}
}}'''}, variables=[{"key": "MINE", "value": "a=b", "category": "env", "hcl": False, "sensitive": True},
                   {"key": "TF_CLI_CONFIG_FILE", "value": "/x", "category": "env", "hcl": False, "sensitive": True}],
        identity_token="jwt")
    assert job.end["status"] == "finished", job.text
    found = dict(line.split("=", 1) for line in env.read_text().splitlines())
    assert "s3cret" not in env.read_text() and "agent-token" not in env.read_text()
    assert found["TFC_RUN_ID"] == job.spec["run_id"] and found["TFC_WORKSPACE_SLUG"] == "acme/prod"
    assert found["TF_VAR_TFC_WORKSPACE_NAME"] == "prod" and found["MINE"] == "a=b"
    assert found["TFC_WORKLOAD_IDENTITY_TOKEN"] == "jwt" and found["TF_IN_AUTOMATION"] == "1"
    cli = pathlib.Path(f"{env}.cli").read_text()
    host = script.url.removeprefix("https://")
    assert f'credentials "{host}"' in cli and '"run-token"' in cli
    assert "lock" not in pathlib.Path(f"{env}.fds").read_text()


def entry(name, kind, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize("files,reason", [
    ({"main.tf": ONE, "../../out": "x"}, '".."'), ({"/tmp/holdfast-out": "x"}, "absolute"),
    ({"main.tf": ONE, "l": entry("l", tarfile.SYMTYPE, "/etc/passwd")}, "a link"),
    ({"main.tf": ONE, "l": entry("l", tarfile.LNKTYPE, "main.tf")}, "a link"),
    ({"main.tf": ONE, "d": entry("d", tarfile.CHRTYPE)}, "a device"),
    ({"main.tf": ONE, "p": entry("p", tarfile.FIFOTYPE)}, "a pipe"),
    ({"main.tf": ONE, "bomb": b"\0" * (9 << 20)}, "more than 8388608 bytes"),
    (b"no gzip at all", "not gzip"), (archive({"main.tf": ONE})[:-20], "too early")],
    ids=["up", "absolute", "symlink", "link", "device", "pipe", "bomb", "text", "cut"])
def test_a_hostile_configuration_is_refused_with_the_reason(script, files, reason):
    worker = script.start_worker(unpacked_bytes_max="8MiB")
    job = script.run("plan", files)
    assert job.end["status"] == "errored" and reason in job.end["message"] and reason in job.text
    assert not pathlib.Path("/tmp/holdfast-out").exists() and not (worker.data / "out").exists()
    await_that(lambda: worker.jobs() == [])


def test_a_full_disk_ends_the_run_with_the_reason(script):
    worker = script.start_worker()
    worker.end()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", str(worker.data)], check=True)
    try:
        worker.start()
        job = script.run("plan", {"main.tf": ONE, "large": b"x" * (4 << 20)})
        assert job.end["status"] == "errored" and "no space left" in job.end["message"].lower()
        await_that(lambda: worker.jobs() == [])
        assert script.run("plan", {"main.tf": ONE}).end["status"] == "finished"
        worker.end()
    finally:
        worker.kill()
        subprocess.run(["umount", str(worker.data)], check=True)


def test_a_million_files_are_refused(script):
    worker = script.start_worker()
    out = io.BytesIO()
    block = bytearray(tarfile.TarInfo("0000000").tobuf(tarfile.USTAR_FORMAT))
    for number in range(60000):
        block[:7] = b"%07d" % number
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        out.write(block)
    job = script.run("plan", gzip.compress(out.getvalue() + b"\0" * 1024, 1))
    assert job.end["status"] == "errored" and "more than 50000 entries" in job.end["message"]
    await_that(lambda: worker.jobs() == [])


def test_the_tool_runs_in_the_working_directory(script):
    script.start_worker()
    files = {"live/prod/main.tf": CLOUD + 'module "m" {\n  source = "../../modules/m"\n}\n',
             "modules/m/m.tf": 'resource "terraform_data" "in_module" {}\n',
             "live/prod/terraform.tfstate": '{"version":4,"serial":9,"lineage":"x","resources":[]}',
             "live/prod/.terraform/environment": "other"}
    job = script.applied(files, working_directory="live/prod")
    assert job.end["status"] == "finished" and resources(job.states[0]) == ["in_module"], job.text
    assert json.loads(job.states[0])["lineage"] != "x"
    for wrong, reason in (("nowhere", 'no folder "nowhere"'), ("../../..", '".."')):
        job = script.run("plan", files, working_directory=wrong)
        assert job.end["status"] == "errored" and reason in job.end["message"]


def test_a_failed_plan_shows_what_terraform_said(script):
    script.start_worker()
    job = script.run("plan", {"main.tf": CLOUD + 'resource "terraform_data" "a" {\n  input = nonsense.x\n}\n'})
    assert job.end["status"] == "errored" and job.end["message"] == "terraform plan failed with exit code 1"
    assert "Reference to undeclared resource" in job.text
    job = script.run("plan", {"main.tf": "terraform {\n  required_version = \"0.1\"\n}\n"})
    assert job.end["message"] == "terraform init failed with exit code 1" and "Unsupported Terraform" in job.text
    job = script.run("plan", {"main.tf": ONE}, tool_version="0.0.1")
    assert "this worker has no terraform or tofu 0.0.1; it has terraform" in job.end["message"]


def test_a_cancel_interrupts_and_hands_in_the_state(script):
    worker = script.start_worker()
    job, pid = slow_apply(script)
    job.action = "cancel"
    await_that(lambda: job.ends)
    assert job.end["status"] == "canceled" and "first" in resources(job.states[-1]), job.text
    assert not alive(pid) and worker.states() == []
    await_that(lambda: worker.jobs() == [])
    assert script.run("plan", {"main.tf": ONE}).end["status"] == "finished"


def test_a_forced_cancel_kills_what_ignores_the_interrupt(script, tmp_path):
    stubborn = tmp_path / "terraform"
    stubborn.write_text(f"""#!/bin/sh
if [ "$1" = apply ]; then
    trap 'echo interrupted' INT
    echo $$ > {script.dir}/pid
    while :; do sleep 0.1; done
fi
exec {TERRAFORM} "$@"
""")
    stubborn.chmod(0o755)
    script.start_worker(tools=[str(stubborn)])
    job, pid = slow_apply(script)
    job.action = "cancel"
    await_that(lambda: "interrupted" in job.text)
    assert alive(pid) and not job.ends
    job.action = "force-cancel"
    await_that(lambda: job.ends)
    assert job.end["status"] == "canceled" and job.end["message"] == "canceled by force" and not alive(pid)


def test_a_phase_that_takes_too_long_is_stopped(script):
    script.start_worker()
    job, pid = slow_apply(script, timeout_s=5)
    await_that(lambda: job.ends)
    assert job.end["status"] == "errored" and "longer than 5 seconds" in job.end["message"] and not alive(pid)
    assert "first" in resources(job.states[-1])


def test_the_end_of_the_worker_ends_the_job_cleanly(script):
    worker = script.start_worker()
    job, pid = slow_apply(script)
    assert worker.end() == 0
    assert job.end["status"] == "errored" and "the worker was stopped" in job.end["message"]
    assert "the worker was stopped" in job.text and job.text.endswith("\n") and not alive(pid)
    assert "first" in resources(job.states[-1]) and worker.jobs() == [] and worker.states() == []


def test_a_lost_lease_stops_everything_and_keeps_the_state(script):
    worker = script.start_worker()
    job, pid = slow_apply(script)
    script.refuse_state = "the run is over"
    job.lost = True
    await_that(lambda: worker.jobs() == [])
    assert not job.ends and not alive(pid)
    (kept,) = worker.states()
    assert "first" in resources(kept.read_bytes()) and kept.stat().st_mode & 0o777 == 0o600
    assert "the run is over" in worker.log_text() and str(kept) in worker.log_text()
    script.refuse_state = None
    assert script.run("plan", {"main.tf": ONE}).end["status"] == "finished"


def test_nothing_runs_beyond_the_lease_when_every_server_is_gone(script):
    worker = script.start_worker()
    job, pid = slow_apply(script, trap="trap '' INT TERM; ")
    script.down = True
    begun = time.monotonic()
    await_that(lambda: not alive(pid))
    assert time.monotonic() - begun < script.lease_s + 2 * script.renew_s
    await_that(lambda: len(worker.states()) == 1)
    script.down = False
    assert script.run("plan", {"main.tf": ONE}).end["status"] == "finished"
    assert not job.ends


def test_a_short_outage_of_every_server_does_no_harm(script):
    script.start_worker()
    job, _ = slow_apply(script)
    script.down = True
    time.sleep(2)
    script.down = False
    job.action = "cancel"
    await_that(lambda: job.ends)
    assert job.end["status"] == "canceled" and "first" in resources(job.states[-1])


def test_a_killed_worker_keeps_the_state_and_does_not_go_on(script):
    worker = script.start_worker()
    job, pid = slow_apply(script)
    worker.kill()
    os.kill(pid, signal.SIGKILL)  # without a sandbox the command outlives the worker
    (script.dir / "pid").unlink()
    worker.start()
    assert script.registered[-1]["agent_id"] == script.registered[0].get("agent_id", "agent-0000000000000001")
    (kept,) = await_that(worker.states)
    assert kept.name == f"ws-0000000000000001.{job.spec['run_id']}.tfstate"
    await_that(lambda: worker.jobs() == [])
    assert script.run("plan", {"main.tf": ONE}).end["status"] == "finished"
    assert job.claims == 1 and not job.ends and not (script.dir / "pid").exists()


def test_what_a_run_leaves_running_ends_with_it(script):
    script.start_worker()
    pid = script.dir / "stray"
    job = script.applied({"main.tf": CLOUD + f'''
resource "terraform_data" "a" {{
  provisioner "local-exec" {{
    command = "setsid sh -c 'echo $$ > {pid}; exec sleep 1000' > /dev/null 2>&1 & while ! test -s {pid}; do sleep 0.05; done"
  }}
}}'''})
    assert job.end["status"] == "finished", job.text
    assert not alive(int(pid.read_text()))


def test_a_long_log_is_bounded_and_bytes_that_end_it_are_replaced(script):
    script.start_worker()
    job = script.applied({"main.tf": CLOUD + '''
resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "printf 'a\\\\002b\\\\003c\\\\n'; yes xxxxxxxxx | head -c 3000000"
  }
}'''})
    assert job.end["status"] == "finished", job.text[-2000:]
    assert "a?b?c" in job.text and b"\2" not in job.log and b"\3" not in job.log
    assert 1 << 20 < len(job.log) <= (1 << 20) + 65536  # the servers cut the log at their bound


def test_a_large_state_goes_by_its_own_url(script):
    script.start_worker()
    script.drop = ["state-upload"]
    job = script.applied({"main.tf": CLOUD + 'resource "terraform_data" "a" {\n  input = join("", '
                          '[for i in range(1000) : "%s"])\n}\n' % ("0123456789" * 50)})
    assert job.end["status"] == "finished", job.text[-2000:]
    assert len(job.states[-1]) > 512 * 1024 and resources(job.states[-1]) == ["a"]


def test_a_state_that_no_server_takes_errors_the_run_and_stays(script):
    worker = script.start_worker()
    script.refuse_state = "serial 1 is below"
    job = script.applied({"main.tf": ONE})
    assert job.end["status"] == "errored" and "serial 1 is below" in job.end["message"]
    assert "serial 1 is below" in job.text and len(worker.states()) == 1


def test_a_damaged_state_or_plan_is_refused(script):
    script.start_worker()
    state = script.state_of(b'{"version":4,"serial":1,"lineage":"l","resources":[]}')
    job = script.run("plan", {"main.tf": ONE}, state={**state, "md5": "0" * 32})
    assert job.end["status"] == "errored" and "MD5" in job.end["message"]
    plan = script.run("plan", {"main.tf": ONE})
    for damaged, reason in ((plan.files["plan-file"][:-1], "damaged"), (b"", "damaged"),
                            (plan.files["plan-file"].replace(b"holdfast plan 1", b"holdfast plan 2"), "damaged")):
        plan.files["plan-file"] = damaged
        job = script.apply_of(plan)
        await_that(lambda: job.ends)
        assert job.end["status"] == "errored" and reason in job.end["message"] and job.states == []


def test_another_program_of_the_same_version_does_not_apply(script, tmp_path):
    other = tmp_path / "terraform"
    other.write_text(f'#!/bin/sh\nexec {TERRAFORM} "$@"\n')
    other.chmod(0o755)
    worker = script.start_worker()
    plan = script.run("plan", {"main.tf": ONE})
    worker.end()
    worker.config["tools"] = [str(other)]
    worker.start()
    job = script.apply_of(plan)
    await_that(lambda: job.ends)
    assert job.end["status"] == "errored" and "another program" in job.end["message"]


def test_structured_output_has_the_redacted_plan(script):
    script.start_worker()
    job = script.run("plan", {"main.tf": CLOUD + '''
variable "secret" {
  sensitive = true
  default   = "s3cret"
}
resource "terraform_data" "a" {
  input = { open = "seen", hidden = var.secret }
}
output "o" {
  value     = var.secret
  sensitive = true
}'''}, structured_output=True)
    assert job.end["status"] == "finished", job.text
    records = [json.loads(line) for line in job.text.splitlines()[3:]]
    assert any(one["type"] == "change_summary" for one in records)
    redacted = json.loads(job.files["json-output-redacted"])
    assert b"s3cret" not in job.files["json-output-redacted"] and b"s3cret" in job.files["json-output"]
    after = redacted["resource_changes"][0]["change"]["after"]["input"]
    assert after == {"open": "seen", "hidden": "(sensitive value)"}
    assert redacted["provider_schemas"] and redacted["output_changes"]["o"]["after_sensitive"]
    assert json.loads(job.files["json-schema"])["provider_schemas"]


NO_THREAD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *ctx)
{
    static int n;
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    if (__atomic_add_fetch(&n, 1, __ATOMIC_SEQ_CST) == atoi(getenv("NO_THREAD")))
        return EAGAIN;
    return real(thread, attr, run, ctx);
}
"""


@pytest.fixture(scope="module")
def no_thread(tmp_path_factory):
    """A library with which the N-th start of a thread fails."""
    dir = tmp_path_factory.mktemp("preload")
    (dir / "no_thread.c").write_text(NO_THREAD)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", dir / "no_thread.so", dir / "no_thread.c", "-ldl"], check=True)
    return str(dir / "no_thread.so")


def without_thread(library, number):
    return {"LD_PRELOAD": library, "NO_THREAD": str(number), "ASAN_OPTIONS": "verify_asan_link_order=0"}


@pytest.mark.parametrize("number", [2, 3])  # that of the lease, that of the log
def test_a_job_whose_thread_cannot_start_ends_with_the_reason(script, no_thread, number):
    worker = script.start_worker(env=without_thread(no_thread, number))
    job = script.run("plan", {"main.tf": ONE})
    assert job.end["status"] == "errored" and "cannot start a thread" in job.end["message"]
    await_that(lambda: worker.jobs() == [])
    assert script.run("plan", {"main.tf": ONE}).end["status"] == "finished"


def test_a_worker_without_a_thread_for_its_heartbeats_ends(script, no_thread):
    worker = script.start_worker()
    worker.end()
    worker.start(env=without_thread(no_thread, 1), wait=False)
    assert worker.process.wait(PATIENCE_S) == 1 and "no room for a thread" in worker.log_text()


@pytest.mark.parametrize("change,reason", [
    ({"unsandboxed": False}, "no sandbox"), ({"servers": []}, "servers"), ({"servers": ["http://127.0.0.1:1"]}, "https"),
    ({"tools": ["/nonexistent"]}, "is no program"), ({"tools": ["/bin/true"]}, "does not say what it is"),
    ({"token_file": "/nonexistent"}, "token_file"), ({"data_dir": "x"}, "absolute"), ({"nonsense": 1}, "no field")])
def test_a_worker_that_cannot_work_says_why(script, change, reason):
    worker = script.start_worker()
    worker.end()
    worker.config.update(change)
    worker.start(wait=False)
    assert worker.process.wait(PATIENCE_S) == 1 and reason in worker.log_text()


def test_two_workers_do_not_share_a_folder(script):
    worker = script.start_worker()
    again = subprocess.run([HOLDFAST, "worker", "-config", str(worker.dir / "worker.json")], capture_output=True,
                           text=True, timeout=PATIENCE_S)
    assert again.returncode == 1 and "another worker uses it" in again.stderr


def test_a_refused_token_ends_the_worker(script):
    worker = script.start_worker()
    worker.end()
    (worker.dir / "token").write_text("other")
    worker.start(wait=False)
    assert worker.process.wait(PATIENCE_S) == 1 and "refuse this worker: 401" in worker.log_text()
