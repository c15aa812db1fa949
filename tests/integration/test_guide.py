"""Every command that README.md and docs/ show is run here, found by the test itself.

A block of commands is fenced with ```sh. The blocks of a page run in their order, in one shell,
against a cluster of three nodes, in a folder of their own; those of docs/rehearsals.md run in
test_rehearsals.py. Before a block that cannot run here, the
page has a comment with the reason, "<!-- not run: … -->"; such a block is still parsed by bash, and
each of its commands of this project has to exist with its flags.
"""

import importlib.machinery
import importlib.util
import os
import re
import shlex
import subprocess

import pytest

import cluster as fixtures
from cluster import HOLDFAST, TOP

PAGES = sorted([TOP / "README.md", *(TOP / "docs").glob("*.md")])
REHEARSALS = TOP / "docs" / "rehearsals.md"
KINDS = {"sh", "hcl", "yaml", "text", "json"}
BLOCK = re.compile(r"(?:^<!-- not run: ([^>]+?) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)


def blocks(page):
    """(why it does not run, kind, text) of each block."""
    text = page.read_text()
    assert text.count("```") == 2 * len(BLOCK.findall(text)), f"{page.name}: an unmatched fence"
    reasons = text.count("<!-- not run:")
    found = [match.groups() for match in BLOCK.finditer(text)]
    assert reasons == sum(why is not None for why, _, _ in found), f"{page.name}: a stray reason"
    return found


def commands(text):
    """The words of each simple command, comments and continuations removed."""
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        for part in re.split(r"&&|\|\||;|\|", re.sub(r"(^|\s)#.*", "", line)):
            words = shlex.split(part)
            if words:
                yield words


@pytest.fixture(scope="module")
def known():
    """{command: help} of the program."""
    told = subprocess.run([HOLDFAST, "help"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^  ([a-z][a-z0-9 -]*?[a-z])(?: {2,}| (?=[A-Z]))", told, re.M)
    return {
        name: subprocess.run([HOLDFAST, *name.split(), "-help"], capture_output=True, text=True,
                             check=True).stdout
        for name in names
    }


@pytest.fixture
def sandbox(tmp_path):
    """A clone as far as the pages' commands know it, and a home."""
    home = tmp_path / "home"
    home.mkdir()
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "holdfast").symlink_to(HOLDFAST)
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "deploy").symlink_to(TOP / "deploy")
    return tmp_path


def environment(shared, sandbox):
    return {
        "PATH": f"{sandbox / 'bin'}:{os.environ['PATH']}",
        "HOME": str(sandbox / "home"),
        "LC_ALL": "C.UTF-8",
        "HOLDFAST": HOLDFAST,
        "HOLDFAST_ADDR": shared.active().url,
        "HOLDFAST_CACERT": str(shared.dir / "tls" / "tls-ca.pem"),
        "HOLDFAST_TOKEN": shared.token,
    }


@pytest.fixture(scope="module")
def shared():
    with fixtures.Cluster() as made:
        authority = made.dir / "tls"
        assert (authority / "ca-key.pem").exists()
        yield made


@pytest.mark.parametrize("page", [page for page in PAGES if page != REHEARSALS],
                         ids=lambda page: page.name)
def test_every_command_runs(page, shared, sandbox):
    script = []
    for why, kind, text in blocks(page):
        assert kind in KINDS, f"{page.name}: a block of kind '{kind}'"
        if kind == "sh" and why is None:
            script.append(text)
    if "~/cluster" in "".join(script) or "$HOME/cluster" in "".join(script):
        place_authority(shared, sandbox)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(script)], cwd=sandbox / "clone",
        env=environment(shared, sandbox), capture_output=True, text=True, timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{page.name}: {done.stdout[-1500:]}\n{done.stderr[-1500:]}"


def place_authority(shared, sandbox):
    """Where a page gives the cluster its authority's key, the bootstrap has made another one: that
    of the cluster under test takes its place once it is there."""
    wrapper = sandbox / "bin" / "holdfast"
    wrapper.unlink()
    tls = shared.dir / "tls"
    wrapper.write_text(
        "#!/bin/bash\n"
        'if [[ "$*" == *certificates/authority* ]]; then\n'
        f'    cp {tls}/ca.pem {tls}/ca-key.pem "$HOME/cluster/authority/"\nfi\n'
        f'exec {HOLDFAST} "$@"\n'
    )
    wrapper.chmod(0o755)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_do_not_run_exist(page, known):
    for why, kind, text in blocks(page):
        if kind != "sh":
            continue
        parsed = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert parsed.returncode == 0, f"{page.name}: {parsed.stderr}"
        if why is None and page != REHEARSALS:
            continue
        assert why is None or len(why) > 15, f"{page.name}: the reason '{why}' says too little"
        for named in re.findall(r"\btest_\w+\.py", why or ""):
            assert (TOP / "tests" / "integration" / named).exists(), f"{page.name}: {named}"
        for words in commands(text):
            check(page, words, known)


def check(page, words, known):
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if not words:
        return
    if words[0].startswith("deploy/"):
        script = (TOP / words[0]).read_text()
        for flag in (word for word in words[1:] if word.startswith("--")):
            assert flag in script, f"{page.name}: {words[0]} has no {flag}"
    if words[0] != "holdfast":
        return
    names = [name for name in known if words[1 : 1 + len(name.split())] == name.split()]
    assert names, f"{page.name}: there is no command {' '.join(words)}"
    name = max(names, key=len)
    for word in words[1 + len(name.split()) :]:
        flag = re.match(r"-([a-z][a-z-]*)", word)
        if flag:
            assert re.search(rf"-{flag[1]}\b", known[name]), f"{page.name}: {name} has no {word}"


def test_no_page_hides_commands_in_an_indented_block():
    for page in PAGES:
        outside = BLOCK.sub("", page.read_text())
        assert not re.search(r"^(?: {4}|\t)\S*(holdfast|deploy/|curl|cmake|systemctl)\b", outside,
                             re.M), page.name


def test_the_readme_is_short():
    assert len((TOP / "README.md").read_text().splitlines()) <= 100


SPECS = "/v1/sys/internal/specs/openapi?generic_mount_paths=true"


def test_generated_tables_are_current(shared):
    loader = importlib.machinery.SourceFileLoader("generate", str(TOP / "tests/documents/generate"))
    generate = importlib.util.module_from_spec(importlib.util.spec_from_loader("generate", loader))
    loader.exec_module(generate)
    document = shared.nodes[0].call("GET", SPECS).json
    old = [str(page.relative_to(TOP)) for page in generate.stale(document, HOLDFAST)]
    assert not old, f"{', '.join(old)}: not current, run {generate.COMMAND} and commit its output"
