"""Every build opens what earlier builds left: their data directories and their snapshots, which lie in
tests/golden. Nothing here depends on the day it runs."""

import base64
import json
import subprocess
import tarfile
import time

import pytest

import golden
import recorder
from cluster import HOLDFAST, PATIENCE_S, TOP, Cluster
from test_ceremonies import generate
from test_snapshot import FORCE, restored

FOLDERS = sorted(path.parent for path in (TOP / "tests" / "golden").glob("*/expected.json"))
PASSWORD = set("abcdefghij0123456789")
LOCAL = ("sys/storage/raft/autopilot/configuration",)  # the cluster's own: in no snapshot
ENGINES = {"kv/": "kv1", "team/red/kv/": "kv1", "after/": "kv2", "raised/": "kv2"}


class Aged(Cluster):
    """One node with the seal key and the root token of the cluster in a folder of golden files."""

    def __init__(self, folder):
        super().__init__(size=1)
        self.folder = folder
        self.expected = json.loads((folder / "expected.json").read_text())
        (self.dir / "seal.key").write_bytes(base64.b64decode(self.expected["seal_key"]))

    def take_over(self):
        self.token = self.expected["tokens"]["root"]
        recorder.clusters[self.nodes[0].client_port].engines.update(ENGINES)
        self.await_up()


class Unpacked(Aged):
    """It starts with the data directory."""

    def __init__(self, folder):
        super().__init__(folder)
        self.certify(self.dir / "tls")
        with tarfile.open(folder / "data.tar.xz") as archive:
            archive.extractall(self.nodes[0].dir)

    def certify(self, tls):
        """The data directory belongs to one cluster, and so does a node's certificate: it needs one
        of the old cluster's authority."""
        for name, text in self.expected["authority"].items():
            (tls / name).write_text(text)
        for name in ("node1.pem", "node1-key.pem", "tls-node1.pem", "tls-node1-key.pem"):
            (tls / name).unlink()
        subprocess.run([HOLDFAST, "cluster", "add", "-out", tls, "node1"], check=True,
                       stdout=subprocess.DEVNULL)

    def init(self):
        self.take_over()


class Restored(Aged):
    """It starts empty and is given the snapshot."""

    def init(self):
        super().init()
        self.await_feature_level()  # so the older state comes into a cluster of the later level
        archive = (self.folder / "snapshot.tar.gz").read_bytes()
        restored(self.nodes[0], archive, FORCE)
        self.take_over()


@pytest.fixture(params=[(kind, folder) for folder in FOLDERS for kind in (Unpacked, Restored)],
                ids=lambda param: f"{param[0].__name__.lower()}-{param[1].name}")
def old(request):
    kind, folder = request.param
    with kind(folder) as cluster:
        yield golden.Filler(cluster, cluster.expected["tokens"])


def test_there_are_golden_files_of_the_build_before():
    previous = (TOP / "tests" / "previous").read_text().strip()
    assert len(previous) == 40
    assert [folder for folder in FOLDERS if previous.startswith(folder.name)]


def test_it_reads_as_it_did_and_can_be_worked_with(old):
    expected, whole = old.cluster.expected, isinstance(old.cluster, Unpacked)
    before = [reply for reply in expected["replies"] if whole or reply["path"] not in LOCAL]
    assert golden.changed(old, before) == []
    assert status(old, "root", "GET", "team/red/kv/later") == (200 if whole else 404)
    if level(old) >= 2:
        devices_and_quotas_hold(old)
    tokens_count(old)
    policies_hold(old)
    versions_go_on(old)
    expiries_are_moved(old)
    if whole:
        assert old.call("POST", "sys/storage/raft/join-token")["data"]["token"]
        # It was removed, or this would be refused.
        old.call("POST", "sys/storage/raft/readmit", {"server_id": "node2"})
    assert generate([old.node], expected["recovery_keys"][1:]).startswith("hvs.")
    old.call("PUT", "sys/rotate")
    old.call("PUT", "kv/plain", {"v": "by this build"})
    assert old.node.stop() == 0
    old.node.start()
    old.cluster.await_up()
    assert old.call("GET", "kv/plain")["data"] == {"v": "by this build"}
    assert old.call("GET", "kv/large")["data"]["v"].startswith("large")


def metrics(old):
    text = old.node.call("GET", "/v1/sys/metrics?format=prometheus", token=old.cluster.token).body
    return {line.split()[0]: line.split()[1] for line in text.decode().splitlines()
            if line.startswith("holdfast_") and "{" not in line}


def expiries_are_moved(old):
    """The keys of the first level, one entry for each token that expires, have their new form. A
    snapshot of an older build brings them into a cluster whose level had risen before. At the second
    level they have it already, and a policy that ends has an entry too."""
    old.cluster.await_feature_level()
    deadline = time.monotonic() + PATIENCE_S
    while (found := metrics(old))["holdfast_expiry_former_keys"] != "0" or \
            found["holdfast_expiry_unfinished"] != "0":
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    assert (int(found["holdfast_expiry_moved_total"]) > 0) == (level(old) < 2)
    entries = int(found["holdfast_leases"]) + (level(old) >= 2)
    assert int(found["holdfast_expiry_entries"]) == entries
    assert found["holdfast_expiry_put_off_total"] == "0"


def level(old):
    return old.cluster.expected.get("feature_level", 1)


def devices_and_quotas_hold(old):
    """The audit device is open and has its salt; the quota counts the tokens and refuses one more."""
    assert golden.audit_hash(old) == old.cluster.expected["audit_hash"]
    assert old.call("GET", "sys/audit")["data"]["golden/"]["status"] == "open"
    quota = old.call("GET", "sys/quotas/lease-count/tokens")["data"]
    old.call("POST", "sys/quotas/lease-count/tokens", {
        "path": "auth/token/", "max_leases": quota["counter"]})
    assert status(old, "maker", "POST", "auth/token/create", {"ttl": "1h"}) == 429
    old.call("DELETE", "sys/quotas/lease-count/tokens")


def status(old, token, method, path, body=None):
    return old.node.call(method, f"/v1/{path}", body, old.tokens[token]).status


def tokens_count(old):
    """Uses, parents, roles and periods."""
    uses = [status(old, "few uses", "GET", "kv/app/note") for _ in range(4)]
    assert uses == [200, 200, 200, 403]
    old.call("POST", "auth/token/renew", {"token": old.tokens["periodic"]})
    old.token("fresh", "auth/token/create/narrow")
    assert status(old, "fresh", "GET", "kv/app/note") == 200
    old.call("POST", "auth/token/revoke", {"token": old.tokens["maker"]})
    assert status(old, "child", "GET", "kv/app/note") == 403
    assert status(old, "service", "GET", "kv/app/note") == 200


def policies_hold(old):
    for owner, wanted in (("ann", 204), ("eve", 403)):
        assert status(old, "service", "PUT", "kv/app/fixed", {"owner": owner}) == wanted
    assert status(old, "service", "PUT", "kv/plain", {"v": "not allowed"}) == 403
    made = old.call("GET", "sys/policies/password/people/generate")["data"]["password"]
    assert len(made) == 24 and set(made) <= PASSWORD


def versions_go_on(old):
    def put(cas):
        body = {"data": {"v": 3}, "options": {"cas": cas}}
        return status(old, "root", "POST", "secret/data/described", body)

    assert (put(1), put(2)) == (400, 200)
    old.call("POST", "secret/undelete/many", {"versions": [4]})
    assert old.call("GET", "secret/data/many?version=4")["data"]["data"] == {"n": 4}
    old.call("POST", "secret/data/many", {"data": {"n": 10}})
    assert old.call("GET", "secret/data/many")["data"]["metadata"]["version"] == 10
