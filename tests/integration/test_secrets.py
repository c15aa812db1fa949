"""Secrets are in clear on no disk, in no log at any level, in no metric, and in no core dump."""

import os
import shutil
import subprocess
import time

import cluster as cluster_module
from cluster import HOLDFAST, Cluster, Unaudited
from leaks import spellings

VALUE = "correct-horse-battery-staple-0123456789"
WRONG_TOKEN = "hvs.open-sesame-open-sesame-open-sesame"
SEAL_KEY = b"seal key that nobody may ever see"[:32]
NAME = "an-unmistakable-name"


def written_files(cluster):
    """Everything the nodes wrote: {path: content}. What they were given is not theirs."""
    given = {"holdfast.json"}
    return {
        path: path.read_bytes()
        for node in cluster.nodes
        for path in node.dir.rglob("*")
        if path.is_file() and path.name not in given
    }


def dumps(cluster):
    """What `holdfast dump` tells of each node."""
    for node in cluster.nodes:
        targets = [("log", node.data)] + [("snapshot", p) for p in node.data.rglob("*.snap")]
        for what, path in targets:
            done = subprocess.run(
                [HOLDFAST, "dump", what, str(path)], capture_output=True, timeout=120
            )
            assert done.returncode == 0, done.stderr
            yield f"dump {what} {path}", done.stdout + done.stderr


def provoke(cluster, node):
    """Requests that succeed, and such that are refused while they carry secrets."""
    for n in range(40):
        body = {"password": VALUE, "n": n, "pad": "p" * 4000}
        assert node.call("PUT", f"/v1/kv/{NAME}/{n}", body).status == 204
    assert node.call("GET", f"/v1/kv/{NAME}/1").data["password"] == VALUE
    assert node.call("LIST", f"/v1/kv/{NAME}").status == 200
    assert node.call("DELETE", f"/v1/kv/{NAME}/0").status == 204
    for body in (f'{{"password": "{VALUE}"', f'["{VALUE}"]', f'"{VALUE}"', VALUE):
        assert node.call("PUT", f"/v1/kv/{NAME}/bad", body).status == 400
    assert node.call("PUT", f"/v1/kv/{NAME}/big", {"x": VALUE * 40_000}).status == 413
    assert node.call("PUT", "/v1/sys/init", {"password": VALUE}).status == 400
    assert node.call("PUT", f"/v1/none/{NAME}", {"password": VALUE}).status == 404
    assert node.call("GET", f"/v1/kv/{NAME}/1", token=WRONG_TOKEN).status == 403
    assert node.call("PUT", f"/v1/kv/{NAME}/1", {"password": VALUE}, token=WRONG_TOKEN).status == 403


def test_secrets_are_in_no_file_log_dump_or_figure():
    made = Cluster(config={"log_level": "debug", "snapshot_log_bytes": 65536})
    (made.dir / "seal.key").write_bytes(SEAL_KEY)
    with made as cluster:
        figures = {}
        for node in cluster.nodes:
            provoke(cluster, node)
        deadline = time.monotonic() + 120
        while not all(list(node.data.rglob("*.snap")) for node in cluster.nodes):
            assert time.monotonic() < deadline, "a snapshot is missing"
            time.sleep(0.1)
        # A new leader, a crash, and a disk that is filled by the others.
        victim = cluster.active()
        victim.kill()
        cluster.active()
        shutil.rmtree(victim.data)
        victim.start()
        cluster.await_up()
        cluster.await_equal_roots()
        for node in cluster.nodes:
            figures[f"metrics of {node.name}"] = node.call("GET", "/v1/sys/metrics").body
            figures[f"state of {node.name}"] = node.call("GET", "/v1/sys/internal/state").body
            for part in ("cmdline", "environ"):
                with open(f"/proc/{node.process.pid}/{part}", "rb") as file:
                    figures[f"{part} of {node.name}"] = file.read()
        for node in cluster.nodes:
            assert node.stop() == 0
        texts = {**written_files(cluster), **figures, **dict(dumps(cluster))}
        assert sum(NAME.encode() in text for text in texts.values()) >= 3, "looked in the wrong place"
        assert any(b'"@level":"debug"' in text for text in texts.values())
        secrets = {
            "the value": VALUE.encode(),
            "the root token": cluster.token.encode(),
            "the secret part of the root token": cluster.token.split(".", 1)[1].encode(),
            "a wrong token": WRONG_TOKEN.encode(),
            "the seal key": SEAL_KEY,
        }
        found = [
            f"{what} in {place}"
            for what, secret in secrets.items()
            for place, text in texts.items()
            if any(spelling in text for spelling in spellings(secret))
        ]
        assert found == []


def owner_of_proc(pid):
    """Root, when the process may not be dumped; else the user it runs as."""
    return os.stat(f"/proc/{pid}/environ").st_uid


def test_a_node_leaves_no_core_and_no_one_of_its_user_reads_its_memory(monkeypatch):
    nobody = 65534
    drop = ["setpriv", f"--reuid={nobody}", f"--regid={nobody}", "--clear-groups"]
    made = Unaudited(size=1)  # the node may write to its data directory only
    try:
        binary = made.dir / "holdfast"
        shutil.copy(HOLDFAST, binary)
        monkeypatch.setattr(cluster_module, "HOLDFAST", str(binary))
        node = made.nodes[0]
        node.data.mkdir(mode=0o700)
        made.dir.chmod(0o711)
        for path in [*(made.dir / "tls").rglob("*"), made.dir / "tls", made.dir / "seal.key"]:
            os.chown(path, nobody, nobody)
        os.chown(node.data, nobody, nobody)
        node.start(prefix=drop)
        made.init()
        assert node.call("PUT", "/v1/kv/x", {"a": 1}).status == 204
        with open(f"/proc/{node.process.pid}/limits") as limits:
            core = next(line for line in limits if line.startswith("Max core file size"))
        assert core.split()[4:6] == ["0", "0"], core
        other = subprocess.Popen([*drop, "sleep", "60"])
        try:
            deadline = time.monotonic() + 120
            while owner_of_proc(other.pid) != nobody:
                assert time.monotonic() < deadline, "the comparison means nothing here"
                time.sleep(0.02)
            assert owner_of_proc(node.process.pid) == 0, "the process may be dumped"
        finally:
            other.kill()
            other.wait()
    finally:
        made.__exit__(None, None, None)
