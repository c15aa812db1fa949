"""`operator raft snapshot inspect`: what a saved snapshot shows without a key, and hostile files."""

import gzip
import io
import json
import os
import random
import resource
import subprocess
import tarfile

import pytest

from cluster import HOLDFAST, Cluster
from commands import Cli
from test_members import fill

INSPECT = ("operator", "raft", "snapshot", "inspect")
SECRET = "planted-3c9e-secret"
MEMORY = 256 << 20  # bytes of address space that a hostile file may make it use


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        fill(made, 30)
        for n in range(20):
            path = f"/v1/kv/apps/one/{n}"
            assert made.nodes[0].call("PUT", path, {"v": SECRET}).status == 204
        yield made


@pytest.fixture(scope="module")
def saved(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("snapshots")
    path = folder / "backup.snap"
    Cli(cluster, folder)("operator", "raft", "snapshot", "save", str(path))
    return path


def inspect(*args, limit=None):
    def bound():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return subprocess.run([HOLDFAST, *INSPECT, *map(str, args)], capture_output=True, text=True,
                          timeout=120, env={"PATH": os.environ["PATH"]}, preexec_fn=bound)


def shown(*args):
    done = inspect("-format=json", *args)
    assert done.returncode == 0 and not done.stderr, done
    return json.loads(done.stdout)


def refused(path, text):
    done = inspect(path, limit=MEMORY)
    assert done.returncode == 1 and not done.stdout, done
    assert text in done.stderr and str(path) in done.stderr, done.stderr


def keys_of(path):
    done = subprocess.run([HOLDFAST, "dump", "snapshot", str(path)], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done
    return [line.split(" (")[0].strip() for line in done.stdout.splitlines() if " bytes), " in line]


def test_it_shows_the_facts_and_the_keys_by_prefix(cluster, saved, tmp_path):
    told = shown(saved)
    with tarfile.open(saved) as archive:
        meta = json.load(archive.extractfile("meta.json"))
    assert {name: told["Meta"][name] for name in ("ID", "Size", "Index", "Term", "Version")} == {
        name: meta[name] for name in ("ID", "Size", "Index", "Term", "Version")}
    assert told["Meta"]["Cluster"] == meta["holdfast"]["cluster"]
    assert told["Meta"]["StateVersion"] == meta["holdfast"]["version"]
    keys = keys_of(saved)
    assert len(keys) >= 50 and all(key.startswith("s/") for key in keys)
    assert told["TotalCountKV"] == len(keys) == sum(g["Count"] for g in told["StatsKV"])
    assert told["TotalSizeKV"] == sum(g["Size"] for g in told["StatsKV"]) > 0
    order = [(-g["Count"], g["Name"]) for g in told["StatsKV"]]
    assert order == sorted(order) and len({g["Name"] for g in told["StatsKV"]}) == len(order)
    # Each prefix of a depth, counted from the list of keys.
    for depth in (1, 2, 3):
        wanted = {}
        for key in keys:
            parts = key.removeprefix("s/").split("/")
            name = "/".join(parts[:depth]) + "/" if len(parts) > depth else "/".join(parts)
            wanted[name] = wanted.get(name, 0) + 1
        groups = {g["Name"]: g["Count"] for g in shown(f"-depth={depth}", saved)["StatsKV"]}
        assert sum(groups.values()) == sum(wanted.values())
        assert groups["core/" if depth == 1 else "core/keyring"] == wanted[
            "core/" if depth == 1 else "core/keyring"]
    every = shown("-depth=0", saved)
    assert [g["Count"] for g in every["StatsKV"]] == [1] * len(keys)
    some = shown("-depth=0", "-filter=core/", saved)
    assert 0 < some["TotalCountKV"] < len(keys)
    assert all(g["Name"].startswith("core/") for g in some["StatsKV"])
    assert shown("-filter=no-such/", saved)["StatsKV"] == []
    plain = shown("-details=false", saved)
    assert (plain["StatsKV"], plain["TotalCountKV"]) == (None, len(keys))
    # As a table; and as one of the commands of a person.
    cli = Cli(cluster, tmp_path)
    table = cli(*INSPECT, str(saved)).stdout
    for text in ("Index", str(meta["Index"]), "Key Name", "core/keyring", f"Total: {len(keys)} keys"):
        assert text in table, text
    assert "Key Name" not in cli(*INSPECT, "-details=false", str(saved)).stdout
    assert SECRET not in table + json.dumps(every)


def test_wrong_usage_is_named(saved, tmp_path):
    for args in (("-format=yaml", saved), ("-depth=-1", saved), ("-depth=x", saved), (),
                 ("-details=false", "-depth=1", saved), (saved, saved), ("-no-such", saved)):
        done = inspect(*args)
        assert done.returncode == 1 and not done.stdout, (args, done)
    refused(tmp_path / "none", "")
    refused(tmp_path / "no-folder" / "none", "")
    refused(tmp_path, "")


def test_damaged_files_show_nothing_of_their_content(saved, tmp_path):
    whole, path = saved.read_bytes(), tmp_path / "bad.snap"
    chance = random.Random(7)
    for length in [0, 1, 10, len(whole) // 2, len(whole) - 1] + chance.sample(range(len(whole)), 10):
        path.write_bytes(whole[:length])
        refused(path, "")
    refusals = 0
    for _ in range(60):
        bit = chance.randrange(8 * len(whole))
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        done = inspect(path, limit=MEMORY)
        assert done.returncode in (0, 1) and bool(done.stdout) == (done.returncode == 0), done
        refusals += done.returncode
    assert refusals >= 58  # a few bits of gzip's header mean nothing
    path.write_bytes(whole + b"x")
    refused(path, "something follows")
    for content, text in ((b"a text", "no gzip file"), (b"\0" * 4096, "no gzip file"),
                          (gzip.compress(b"some text"), "cut short"),
                          (gzip.compress(b"\0" * 4096), "meta.json is missing")):
        path.write_bytes(content)
        refused(path, text)
    # A snapshot of a replica's own, and a running node's folder, are something else.
    refused("/dev/zero", "")


def archive_of(*files):
    """A tar of (name, content, length that its header gives)."""
    out = io.BytesIO()
    for name, content, length in files:
        info = tarfile.TarInfo(name)
        info.size = length
        out.write(info.tobuf(tarfile.USTAR_FORMAT if length < 8**11 else tarfile.GNU_FORMAT))
        out.write(content + b"\0" * (-len(content) % 512))
    return gzip.compress(out.getvalue())


def test_lengths_that_lie_take_no_memory(saved, tmp_path):
    path = tmp_path / "lies.snap"
    with tarfile.open(saved) as archive:
        meta = archive.extractfile("meta.json").read()
        state = archive.extractfile("state.bin").read()
    for length in (len(state) + 1, 1 << 40, (1 << 62)):
        path.write_bytes(archive_of(("meta.json", meta, len(meta)), ("state.bin", state, length)))
        refused(path, "")
    path.write_bytes(archive_of(("meta.json", meta, 1 << 40)))
    refused(path, "more than 65536")
    # A key, or a value, that says it has gigabytes.
    for at in range(40, 60):
        lies = state[:at] + b"\xff\xff\xff\xff\x7f" + state[at + 5:]
        path.write_bytes(archive_of(("meta.json", meta, len(meta)), ("state.bin", lies, len(lies))))
        refused(path, "")
    # A gigabyte of zeros in a megabyte.
    path.write_bytes(gzip.compress(b"\0" * (1 << 30), 1))
    refused(path, "meta.json is missing")
