"""The commands of the scheduler, against real nodes and an agent."""

import json

import pytest

from commands import Cli, not_seen
from scheduler import SchedulerCluster, job, task


@pytest.fixture(scope="module")
def cluster():
    with SchedulerCluster(size=1) as made:
        made.add_agent("agent1")
        yield made


def test_a_job_is_run_watched_and_stopped_by_commands(cluster, tmp_path):
    cli = Cli(cluster, tmp_path)
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"Job": job("shop/web", task("while :; do sleep 1; done"))}))
    assert "complete" in cli("job", "run", str(file)).stderr
    alloc, = cluster.await_alloc("shop/web")
    assert "shop/web" in cli("job", "status").stdout
    assert alloc["ID"] in cli("job", "status", "shop/web").stdout
    assert alloc["ID"] in cli("alloc", "list").stdout
    shown = cli("alloc", "status", alloc["ID"][:8]).stdout
    assert "Task started by client" in shown and "shop/web.g[0]" in shown
    assert "complete" in cli("alloc", "stop", alloc["ID"][:8]).stderr
    cluster.await_that(lambda: len(cluster.allocs("shop/web")) == 2)
    assert "complete" in cli("job", "stop", "-purge", "shop/web").stderr
    assert "job not found" in cli("job", "status", "shop/web", code=2).stderr
    assert "agent1" in cli("node", "status").stdout
    assert len(cli("node", "token", "-ttl", "5m", "-uses", "2").stdout.strip()) == 36
    assert json.loads(cli("node", "status", "-format", "json").stdout)[0]["Status"] == "ready"


def test_a_job_that_is_not_placed_is_exit_code_2(cluster, tmp_path):
    cli = Cli(cluster, tmp_path)
    big = {**task("true"), "Resources": {"CPU": 100000, "MemoryMB": 50}}
    assert "is not placed whole" in cli("job", "run", "-", stdin=json.dumps(job("big", big)), code=2).stderr
    assert "line 1" in cli("job", "run", "-", stdin="{", code=1).stderr
    cli("job", "run", "-detach", "-", stdin=json.dumps(job("big", big)))
    cli("job", "stop", "-detach", "big")


def test_every_command_was_seen_to_work():
    """Those of this file, by the tests above, all of them."""
    assert not not_seen(__file__)
