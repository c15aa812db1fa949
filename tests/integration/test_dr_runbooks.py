"""The runbooks of deploy/dr, line by line, on one pair: each page leaves a pair for the next one."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from cluster import HOLDFAST, PATIENCE_S, TOP
from rehearsal import Shell, sections
from test_dev import free_base

PAGES = TOP / "deploy" / "dr"


class Pair:
    def __init__(self, folder):
        self.folder = folder
        (folder / "deploy").mkdir()
        shutil.copy(TOP / "deploy" / "quickstart", folder / "deploy" / "quickstart")
        (folder / "build" / "release").mkdir(parents=True)
        (folder / "build" / "release" / "holdfast").symlink_to(HOLDFAST)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8",
                    "HOLDFAST_BIN": HOLDFAST,
                    "HOLDFAST_PORT": str(free_base(3, offsets=(0, 1, 100, 101, 300, 400)))}
        self.shell = Shell(folder, self.env)

    def run(self, page, *titles):
        """What the blocks of the sections print; a page's last status shows a pair."""
        return "".join(self.shell.run(block) for title in titles
                       for block in sections(PAGES / page)[title])

    def quickstart(self, *args):
        done = subprocess.run([self.folder / "deploy" / "quickstart", *args], env=self.env,
                              capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    made = Pair(tmp_path_factory.mktemp("runbooks"))
    try:
        made.said = made.run("README.md", "Prepare")
        yield made
        made.run("README.md", "Clean up")
        assert {each.name for each in made.folder.iterdir()} <= {"deploy", "build"}
    finally:
        made.quickstart("--stop")
        made.shell.close()


def is_pair(printed):
    """The status at the end shows a primary first, then a secondary that follows it."""
    first, second = re.findall(r"^Role +(.*)$", printed, re.M)[-2:]
    assert first.startswith("primary: serves"), printed
    assert second.startswith("secondary: applies"), printed
    epochs = re.findall(r"^Epoch +(\d+)$", printed, re.M)[-2:]
    assert epochs[0] == epochs[1], printed
    return int(epochs[0])


def test_every_page_is_listed_and_tested():
    pages = {page.name for page in PAGES.glob("*.md")}
    listed = set(re.findall(r"^\| \[([a-z-]+\.md)\]", (PAGES / "README.md").read_text(), re.M))
    assert pages == listed | {"README.md"}
    tests = pathlib.Path(__file__).read_text()
    assert all(f'run("{page}", ' in tests for page in pages)


def test_prepare(pair):
    assert is_pair(pair.said) == 1
    checks = dict(re.findall(r"^([a-z]+) +(ok|warning|forceable|blocked) ", pair.said, re.M))
    assert checks["primary"] == "forceable"  # it serves
    assert {"state", "lag", "roots", "seal", "members", "audit", "token"} <= set(checks)
    assert "a batch token, which ends in" in pair.said
    assert "The drill passed" in pair.said


def test_unplanned(pair):
    printed = pair.run("unplanned.md", "Steps", "When A comes back")
    assert re.search(r"^yes", printed, re.M)  # what was written before the loss
    assert is_pair(printed) == 2


def test_failback(pair):
    printed = pair.run("failback.md", "Steps")
    assert "Demoting" in printed and printed.count("Success! This cluster is the primary") == 2
    assert is_pair(printed) == 3


def test_planned(pair):
    printed = pair.run("planned.md", "Steps")
    assert "The DR operation token was deleted" in printed
    assert is_pair(printed) == 4


def test_a_pair_whose_roles_were_swapped_is_started_again(pair):
    pair.quickstart("--stop")
    before = pair.shell.run("echo $A $B").split()
    said = pair.quickstart("--dr", "--detach")
    assert "all six nodes have the same Merkle root" in said
    now = pair.shell.run(". build/quickstart/env; echo $HOLDFAST_ADDR ${HOLDFAST_DR_NODES%%,*}")
    assert now.split() == before[::-1]  # the second cluster is the primary
    assert pair.shell.run("holdfast read -address=$B -field=moved kv/runbook; echo") == "yes\n"


def test_both_promoted(pair):
    printed = pair.run("both-promoted.md", "Steps")
    roles = re.findall(r"^Role +(.*)$", printed, re.M)[:2]
    assert all(role.startswith("primary") for role in roles), printed
    assert is_pair(printed) >= 5


def test_certificate(pair):
    is_pair(pair.run("certificate.md", "Steps"))
    assert pair.shell.run("holdfast read -address=$A -field=known_secondaries "
                          "sys/replication/dr/status; echo") == '["site-b-renewed"]\n'


def test_secondary_lost(pair):
    printed = pair.run("secondary-lost.md", "Steps")
    assert "node2 waits to be initialised" not in printed  # nodes of the second cluster alone
    assert "nodedr2 waits to be initialised" in printed
    is_pair(printed)
