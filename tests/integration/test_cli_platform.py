"""The platform commands against real nodes: organization, workspace, state, notification, task, settings."""

import base64
import hashlib
import json
import time

import pytest

from commands import Cli, not_seen
from platform_cluster import PlatformCluster
from run_worker import Worker, upload

CLUSTER = PlatformCluster


@pytest.fixture
def cli(cluster, tmp_path):
    return Cli(cluster, tmp_path)


def ask(cli, *words):
    return cli.json("platform", *words)["data"]


def refused(cli, *words):
    return cli("platform", *words, code=2).stderr


def test_the_commands_keep_a_workspace_with_its_teams_and_users(cli):
    user = ask(cli, "user", "create", "cleo", "email=cleo@acme.example")["id"]
    made = ask(cli, "token", "create", user, "description=laptop")
    assert made["attributes"]["token"].count(".") == 2
    assert ask(cli, "org", "create", "clis", "email=cli@acme.example")["id"] == "clis"
    assert "clis" in [org["id"] for org in ask(cli, "org", "list")]
    ask(cli, "org", "update", "clis", "email=new@acme.example")
    ws = ask(cli, "workspace", "create", "clis", "web", "description=first", "auto-apply=true")
    assert ws["attributes"]["auto-apply"] is True
    assert ask(cli, "workspace", "read", "clis", "web")["id"] == ws["id"]
    team = ask(cli, "team", "create", "clis", "devs")["id"]
    assert cli("platform", "team", "add", team, "cleo").returncode == 0
    assert cli("platform", "team", "remove", team, "cleo").returncode == 0
    assert ask(cli, "workspace", "lock", ws["id"], "reason=by hand")["attributes"]["locked-reason"] == "by hand"
    assert "already locked" in refused(cli, "workspace", "lock", ws["id"])
    raw = b'{"version":4,"serial":1,"lineage":"l","outputs":{"o":{"value":"v","type":"string"}},"resources":[]}'
    cli.cluster.ask("POST", f"workspaces/{ws['id']}/state-versions", {"data": {"type": "state-versions", "attributes": {
        "serial": 1, "md5": hashlib.md5(raw).hexdigest(), "state": base64.b64encode(raw).decode()}}}, status=201)
    assert cli("platform", "state", "pull", ws["id"]).stdout == raw.decode()
    (output,) = ask(cli, "output", "list", ws["id"])
    assert ask(cli, "output", "read", output["id"])["attributes"]["value"] == "v"
    ask(cli, "workspace", "unlock", ws["id"])
    assert cli("platform", "workspace", "delete", "clis", "web").returncode == 0
    assert "not found" in refused(cli, "workspace", "read", "clis", "web")
    assert cli("platform", "org", "delete", "clis").returncode == 0
    assert cli("platform", "user", "delete", user).returncode == 0


def test_the_commands_verify_notifications_and_tasks(cli):
    receiver, ws = cli.cluster.receiver, cli.cluster.ws
    receiver.reply()
    made = ask(cli, "notification", "create", ws, "hook", "destination-type=generic", f"url={receiver.url}",
               "enabled=true", "triggers=run:created,run:errored")
    assert made["attributes"]["triggers"] == ["run:created", "run:errored"] and len(receiver.got) == 1
    receiver.reply(500)
    assert "the destination replied 500" in refused(cli, "notification", "verify", made["id"])
    receiver.reply()
    assert cli("platform", "notification", "verify", made["id"]).returncode == 0
    assert cli("platform", "notification", "delete", made["id"]).returncode == 0
    task = ask(cli, "task", "create", "acme", "cli-task", f"url={receiver.url}", "category=task")["id"]
    use = ask(cli, "task", "attach", ws, task, "enforcement-level=mandatory", "stages=pre_plan,post_plan")
    assert use["attributes"]["stages"] == ["pre_plan", "post_plan"]
    assert cli("platform", "task", "detach", ws, use["id"]).returncode == 0
    assert cli("platform", "task", "delete", task).returncode == 0


def test_the_commands_change_settings_and_say_what_is_wrong(cli):
    shown = ask(cli, "settings", "update", "general", "api-rate-limit=50")
    assert shown["attributes"]["api-rate-limit"] == 50
    error = refused(cli, "settings", "update", "general", "api-rate-limit=5")
    assert "invalid attribute" in error and "/data/attributes/api-rate-limit" in error
    ask(cli, "settings", "update", "general", "api-rate-limit=30")
    table = cli("platform", "settings", "read", "saml").stdout
    assert "attr-username" in table and "Username" in table
    assert cli("platform", "settings", "rotate-key").returncode == 0
    assert cli("platform", "settings", "trim-key").returncode == 0
    assert json.loads(cli("platform", "user", "me", "-format=json").stdout)["data"]["id"] == "user-root"


def test_the_rest_of_the_commands_do_what_they_say(cli):
    user = ask(cli, "user", "create", "dora", "email=dora@acme.example")["id"]
    token = ask(cli, "token", "create", user, "description=one")["id"]
    assert ask(cli, "token", "list", user) == []  # as upstream: the tokens of another user are not shown
    assert cli("platform", "token", "delete", token).returncode == 0
    assert cli("platform", "user", "suspend", user).returncode == 0
    assert "dora" in cli("platform", "user", "list").stdout
    assert cli("platform", "user", "unsuspend", user).returncode == 0
    ask(cli, "org", "create", "more", "email=more@acme.example")
    assert ask(cli, "org", "read", "more")["attributes"]["email"] == "more@acme.example"
    ws = ask(cli, "workspace", "create", "more", "web")["id"]
    assert [w["id"] for w in ask(cli, "workspace", "list", "more")] == [ws]
    changed = ask(cli, "workspace", "update", "more", "web", "description=changed")
    assert changed["attributes"]["description"] == "changed"
    ask(cli, "workspace", "lock", ws)
    assert ask(cli, "workspace", "force-unlock", ws)["attributes"]["locked"] is False
    team = ask(cli, "team", "create", "more", "devs")["id"]
    assert team in [t["id"] for t in ask(cli, "team", "list", "more")]
    assert cli("platform", "team", "delete", team).returncode == 0
    assert ask(cli, "notification", "list", ws) == [] and ask(cli, "task", "list", "more") == []
    hook = ask(cli, "notification", "create", ws, "hook", "destination-type=generic", "url=https://a.example",
               "enabled=false")["id"]
    changed = ask(cli, "notification", "update", hook, "name=other", "enabled=false")
    assert changed["attributes"]["name"] == "other"
    cli.cluster.receiver.reply()
    task = ask(cli, "task", "create", "more", "check", f"url={cli.cluster.receiver.url}", "category=task")["id"]
    assert ask(cli, "task", "update", task, "description=new")["attributes"]["description"] == "new"
    raw = b'{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[]}'
    ask(cli, "workspace", "lock", ws)
    cli.cluster.ask("POST", f"workspaces/{ws}/state-versions", {"data": {"type": "state-versions", "attributes": {
        "serial": 1, "md5": hashlib.md5(raw).hexdigest(), "state": base64.b64encode(raw).decode()}}}, status=201)
    version = ask(cli, "state", "current", ws)["id"]
    assert ask(cli, "state", "read", version)["attributes"]["serial"] == 1
    ask(cli, "workspace", "unlock", ws)
    assert cli("platform", "org", "delete", "more").returncode == 0


def test_the_commands_take_a_run_from_its_plan_to_its_apply(cli):
    cluster = cli.cluster
    token = ask(cli, "agent-pool", "token", "apool-default", "description=w")["attributes"]["token"]
    worker = Worker(cluster, token, "cli-worker")
    assert "cli-worker" in cli("platform", "agent-pool", "agents", "apool-default").stdout
    pool = ask(cli, "agent-pool", "create", "acme", "cli-pool")["id"]
    assert pool in [one["id"] for one in ask(cli, "agent-pool", "list", "acme")]
    assert cli("platform", "agent-pool", "delete", pool).returncode == 0
    ws = ask(cli, "workspace", "create", "acme", "cli-runs")["id"]
    upload(cluster, ws)
    run = cli.json("run", "create", ws, "message=by hand")["data"]
    assert run["attributes"]["message"] == "by hand"
    worker.claim(run["id"], "plan").end_plan()
    log = cli("run", "logs", "-follow", run["id"]).stdout
    assert log == "banner 1\nbanner 2\nbanner 3\nPlan: 1 to add\n"
    assert cli("run", "logs", "-apply", run["id"]).stdout == ""
    assert cli("run", "apply", run["id"]).returncode == 0
    worker.claim(run["id"], "apply").end_apply()
    assert "Apply complete!" in cli("run", "logs", "-apply", run["id"]).stdout
    assert "applied" in cli("run", "show", run["id"]).stdout
    other, third = (cli.json("run", "create", ws)["data"]["id"] for _ in range(2))
    assert "cancel the run first" in cli("run", "force-cancel", other, code=2).stderr
    assert cli("run", "discard", third).returncode == 0
    job = worker.claim(other)
    assert cli("run", "cancel", other).returncode == 0
    deadline = time.monotonic() + 60
    while not cli.json("run", "show", other)["data"]["attributes"]["actions"]["is-force-cancelable"]:
        job.act("renew")
        assert time.monotonic() < deadline
        time.sleep(1)
    assert cli("run", "force-cancel", other).returncode == 0
    listed = cli("run", "list", ws).stdout
    assert all(word in listed for word in ("applied", "force_canceled", "discarded"))


def test_every_command_was_seen_to_work():
    """Those of this file, by the tests above, all of them."""
    left = not_seen(__file__)
    assert left == [], left
