"""Snapshots by a schedule: saved by the active node, verified, kept to a number, never twice."""

import datetime
import re
import stat
import subprocess
import time

import pytest

from cluster import HOLDFAST, PATIENCE_S, Cluster
from commands import Cli
from disks import small_disk
from test_audit import await_true, metrics

CONFIG = "/v1/sys/storage/raft/snapshot-auto/config"
STATUS = "/v1/sys/storage/raft/snapshot-auto/status"
NEVER = "0001-01-01T00:00:00Z"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "kept"
    made.mkdir()
    return made


@pytest.fixture
def schedule(cluster, request):
    """Write a configuration named after the test; it is deleted with the test."""
    name = re.sub(r"\W", "", request.node.name)[:60]

    def write(**fields):
        return cluster.active().call("PUT", f"{CONFIG}/{name}", fields)

    write.name = name
    yield write
    cluster.active().call("DELETE", f"{CONFIG}/{name}")


def local(folder, **more):
    return {"storage_type": "local", "path_prefix": str(folder), "interval": "1s", "retain": 2,
            "local_max_space": "64MiB", **more}


def prefix_of(cluster):
    """The default: two clusters with one folder do not delete each other's snapshots."""
    return "holdfast-snapshot-" + cluster.active().call("GET", "/v1/sys/health").json["cluster_id"][:8]


def status_of(node, name):
    answer = node.call("GET", f"{STATUS}/{name}")
    assert answer.status == 200, answer.body
    return answer.data


def saved(folder):
    return sorted(path.name for path in folder.iterdir())


def at_rest(node, name, folder):
    """No snapshot is under way, and what is too much was deleted."""
    shown = status_of(node, name)
    return shown["snapshot_start"] == NEVER and len(names := saved(folder)) <= 2 \
        and shown["last_snapshot_url"].endswith(names[-1])


def verify(path):
    return subprocess.run([HOLDFAST, "operator", "raft", "snapshot", "verify", str(path)],
                          capture_output=True, text=True, timeout=60)


def await_saved(folder, count, what=""):
    await_true(lambda: len([n for n in saved(folder) if n.endswith(".snap")]) >= count, what)


def test_a_schedule_saves_verified_snapshots_and_keeps_the_newest(cluster, schedule, folder):
    node = cluster.active()
    began = time.time_ns()
    assert schedule(**local(folder)).status == 204
    assert node.call("GET", f"{CONFIG}/{schedule.name}").data == {
        "file_prefix": prefix_of(cluster), "interval": 1, "local_max_space": 64 << 20,
        "path_prefix": str(folder), "retain": 2, "storage_type": "local"}
    await_saved(folder, 1)
    first = saved(folder)[0]
    await_true(lambda: first not in saved(folder), "the oldest goes")
    assert schedule(interval="1h").status == 204  # the other fields stay
    await_true(lambda: at_rest(node, schedule.name, folder), "a snapshot was under way")
    names = saved(folder)
    assert len(names) == 2, names
    for name in names:
        assert re.fullmatch(prefix_of(cluster) + r"-\d{19}\.snap", name)
        assert int(re.search(r"\d{19}", name)[0]) > began - 10**9
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
        done = verify(folder / name)
        assert done.returncode == 0 and "whole:" in done.stdout, done.stdout + done.stderr
    shown = status_of(node, schedule.name)
    assert shown["last_snapshot_url"] == shown["last_success_url"] == f"file://{folder}/{names[1]}"
    assert shown["last_snapshot_error"] == "" and shown["consecutive_errors"] == 0
    assert shown["last_snapshot_node"] == node.name
    start, end, due = (datetime.datetime.fromisoformat(shown[name]) for name in (
        "last_snapshot_start", "last_snapshot_end", "next_snapshot_start"))
    assert start.timestamp() * 10**9 > began - 10**9 and start <= end < due
    text = metrics(node)
    assert int(re.search(r"^holdfast_snapshot_auto_saved_total (\d+)$", text, re.M)[1]) >= 3
    assert "holdfast_snapshot_auto_failing 0" in text


def test_a_flipped_bit_on_the_disk_is_found(cluster, schedule, folder):
    assert schedule(**local(folder, interval="1h")).status == 204
    await_saved(folder, 1)
    path = folder / saved(folder)[0]
    content = bytearray(path.read_bytes())
    # within the encrypted values, and within the checksum of the gzip stream: a bit between the files
    # may choose another copy of the same zeros
    for at in (len(content) // 2, len(content) - 6):
        flipped = bytearray(content)
        flipped[at] ^= 0x10
        path.write_bytes(flipped)
        done = verify(path)
        assert done.returncode == 1 and "damaged" in done.stdout + done.stderr, done
    path.write_bytes(content[:-30])
    assert verify(path).returncode == 1
    path.write_bytes(content)
    assert verify(path).returncode == 0


def test_another_cluster_restores_it_and_keeps_its_own_schedule(cluster, schedule, folder):
    key = cluster.dir / "seal.key"
    assert cluster.active().call("PUT", "/v1/kv/scheduled", {"a": "1"}).status == 204
    assert schedule(**local(folder, interval="1h")).status == 204
    await_saved(folder, 1)
    archive = (folder / saved(folder)[0]).read_bytes()

    class Same(Cluster):
        audited = False  # the restore brings other devices

        def start(self):
            (self.dir / "seal.key").write_bytes(key.read_bytes())
            super().start()

    with Same(size=1) as other:
        node = other.nodes[0]
        mine = {**local(folder, interval="1h"), "file_prefix": "mine"}
        assert node.call("PUT", f"{CONFIG}/mine", mine).status == 204
        await_true(lambda: any(n.startswith("mine-") for n in saved(folder)))
        # The schedule may not have ended yet, though its file is there: 503 says to try again.
        answers = []

        def restored():
            answers.append(node.call("POST", "/v1/sys/storage/raft/snapshot-force", archive))
            return answers[-1].status != 503

        await_true(restored)
        assert answers[-1].status == 204, answers[-1].body
        other.token, own = cluster.token, other.token
        await_true(lambda: node.call("GET", "/v1/kv/scheduled").status == 200)
        assert node.call("GET", CONFIG + "?list=true").data == {"keys": ["mine"]}
        assert node.call("GET", f"{CONFIG}/mine").data["file_prefix"] == "mine"
        other.token = own if node.call("GET", "/v1/kv/scheduled", token=own).status == 200 \
            else cluster.token


def test_two_active_nodes_in_turn_save_one_snapshot(cluster, schedule, folder):
    """Nodes that share the folder take over; the slot is used once."""
    assert schedule(**local(folder, interval="6s", retain=100)).status == 204
    await_saved(folder, 1)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        active = cluster.active()
        active.call("PUT", "/v1/sys/step-down")
        cluster.await_up()
        time.sleep(0.7)
    names = saved(folder)
    times = [int(re.search(r"\d{19}", name)[0]) / 10**9 for name in names]
    assert len(names) >= 3 and not [n for n in names if n.endswith(".part")], names
    slots = [round((t - times[0]) // 6) for t in times]
    assert len(set(slots)) == len(slots), times
    for name in names:
        assert verify(folder / name).returncode == 0


def test_a_killed_active_node_leaves_the_slot_to_the_next(cluster, schedule, folder):
    assert schedule(**local(folder, interval="5s", retain=100)).status == 204
    await_saved(folder, 1)
    before = cluster.active()
    before.kill()
    try:
        await_saved(folder, 3)
        times = [int(re.search(r"\d{19}", name)[0]) / 10**9 for name in saved(folder)]
        assert min(b - a for a, b in zip(times, times[1:], strict=False)) > 3, times
        after = cluster.active()
        assert after is not before
        assert status_of(after, schedule.name)["last_snapshot_node"] == after.name
    finally:
        before.start()
        cluster.await_up()


def test_a_folder_that_vanished_is_reported_and_used_again(cluster, schedule, folder):
    node = cluster.active()
    assert schedule(**local(folder)).status == 204
    await_saved(folder, 1)
    away = folder.with_name("away")
    folder.rename(away)
    await_true(lambda: status_of(node, schedule.name)["consecutive_errors"] >= 2)
    shown = status_of(node, schedule.name)
    assert "path_prefix" in shown["last_snapshot_error"], shown
    assert shown["last_snapshot_url"] == "" and shown["last_success_url"] != ""
    text = metrics(node)
    assert "holdfast_snapshot_auto_failing 1" in text
    assert int(re.search(r"^holdfast_snapshot_auto_failures_total (\d+)$", text, re.M)[1]) >= 2
    assert not folder.exists()
    before = saved(away)
    away.rename(folder)
    await_true(lambda: saved(folder) != before)
    await_true(lambda: status_of(node, schedule.name)["consecutive_errors"] == 0)
    assert not [name for name in saved(folder) if name.endswith(".part")]


def test_a_full_disk_is_reported_and_leaves_nothing_behind(cluster, schedule):
    node = cluster.active()
    with small_disk(cluster.dir / "snapshots", 256) as disk:
        disk.fill()
        assert schedule(**local(disk.path)).status == 204
        await_true(lambda: status_of(node, schedule.name)["consecutive_errors"] >= 2)
        assert "no space" in status_of(node, schedule.name)["last_snapshot_error"]
        assert saved(disk.path) == ["ballast"]
        disk.make_room()
        await_saved(disk.path, 2)
        for name in saved(disk.path):
            if name.endswith(".snap"):
                assert verify(disk.path / name).returncode == 0
        node.call("DELETE", f"{CONFIG}/{schedule.name}")


def test_the_space_is_never_exceeded(cluster, schedule, folder):
    node = cluster.active()
    assert schedule(**local(folder, interval="1h")).status == 204
    await_saved(folder, 1)
    size = (folder / saved(folder)[0]).stat().st_size
    assert schedule(interval="1s", local_max_space=size * 3 // 2).status == 204
    await_true(lambda: status_of(node, schedule.name)["consecutive_errors"] >= 2)
    assert "local_max_space" in status_of(node, schedule.name)["last_snapshot_error"]
    assert len(saved(folder)) == 1
    assert schedule(local_max_space=size * 20).status == 204
    await_saved(folder, 2)


def test_foreign_files_stay_and_half_written_ones_go(cluster, schedule, folder):
    foreign = ["holdfast-snapshot-1.snap", "holdfast-snapshot-x-1700000000000000000.snap",
               "notes", "other-1700000000000000000.snap"]
    for name in foreign:
        (folder / name).write_text("kept")
    (folder / "holdfast-snapshot-1700000000000000000.snap.part").write_text("half")
    (folder / "holdfast-snapshot-1700000000000000000.snap").write_text("old")
    assert schedule(**local(folder, interval="1h", retain=1,
                            file_prefix="holdfast-snapshot")).status == 204
    await_true(lambda: len(saved(folder)) == len(foreign) + 1
               and "holdfast-snapshot-1700000000000000000.snap" not in saved(folder))
    assert set(foreign) < set(saved(folder))


def test_what_cannot_be_a_schedule_is_refused_with_the_reason(cluster, schedule, folder):
    (folder / "file").write_text("")
    (folder / "inside").symlink_to(cluster.active().data)
    for fields, word in [
        ({"storage_type": "aws-s3"}, "aws-s3"), ({"storage_type": "azure-blob"}, "azure-blob"),
        ({"storage_type": "google-gcs"}, "google-gcs"), ({"storage_type": ""}, "storage_type"),
        ({"interval": 0}, "interval"), ({"interval": "-1s"}, "interval"),
        ({"interval": "100000h"}, "interval"), ({"interval": "soon"}, "interval"),
        ({"retain": 0}, "retain"), ({"retain": 10001}, "retain"), ({"retain": "many"}, "retain"),
        ({"local_max_space": 0}, "local_max_space"), ({"local_max_space": -1}, "local_max_space"),
        ({"file_prefix": ""}, "file_prefix"), ({"file_prefix": "a/b"}, "file_prefix"),
        ({"file_prefix": ".hidden"}, "file_prefix"), ({"file_prefix": "a" * 65}, "file_prefix"),
        ({"path_prefix": ""}, "path_prefix"), ({"path_prefix": "kept"}, "path_prefix"),
        ({"path_prefix": "/" + "a" * 512}, "path_prefix"),
        ({"path_prefix": f"{folder}/none"}, "path_prefix"),
        ({"path_prefix": f"{folder}/file"}, "path_prefix"),
        ({"path_prefix": f"{folder}\n"}, "path_prefix"),
        ({"path_prefix": str(cluster.active().data)}, "data directory"),
        ({"path_prefix": f"{cluster.active().data}/raft"}, "data directory"),
        ({"path_prefix": f"{folder}/inside"}, "path_prefix"),
        ({"path_prefix": f"{folder}/inside/raft"}, "data directory"),
    ]:
        answer = schedule(**{**local(folder), **fields})
        assert answer.status == 400 and word in answer.json["errors"][0], (fields, answer.body)
    for missing in ("interval", "local_max_space", "path_prefix", "storage_type"):
        fields = local(folder)
        del fields[missing]
        answer = schedule(**fields)
        assert answer.status == 400 and missing in answer.json["errors"][0], answer.body
    node = cluster.active()
    assert node.call("GET", f"{CONFIG}/{schedule.name}").status == 404
    assert node.call("GET", f"{STATUS}/{schedule.name}").status == 404
    assert node.call("GET", CONFIG + "?list=true").status == 404
    assert node.call("PUT", f"{CONFIG}/{'n' * 65}", local(folder)).status == 400


def test_configurations_are_bounded_and_share_no_files(cluster, folder):
    node = cluster.active()
    try:
        for i in range(16):
            fields = local(folder, interval="24h", file_prefix=f"p{i}")
            assert node.call("PUT", f"{CONFIG}/c{i}", fields).status == 204
        more = node.call("PUT", f"{CONFIG}/c16", local(folder, file_prefix="p16"))
        assert more.status == 400 and "16" in more.json["errors"][0]
        again = node.call("PUT", f"{CONFIG}/c1", {"file_prefix": "p0"})
        assert again.status == 400 and "c0" in again.json["errors"][0]
        again = node.call("PUT", f"{CONFIG}/c1", {"file_prefix": "p0", "path_prefix": f"{folder}/"})
        assert again.status == 400
        assert len(node.call("GET", CONFIG + "?list=true").data["keys"]) == 16
        await_saved(folder, 16)
    finally:
        for i in range(16):
            assert node.call("DELETE", f"{CONFIG}/c{i}").status == 204
    assert node.call("DELETE", f"{CONFIG}/c0").status == 204  # absent: no error
    assert len(saved(folder)) == 16  # the files stay


def test_sudo_is_needed_for_the_configuration_and_not_for_the_status(cluster, schedule, folder):
    assert schedule(**local(folder, interval="1h")).status == 204
    rules = 'path "sys/storage/raft/snapshot-auto/*" ' \
            '{ capabilities = ["create", "read", "update", "delete", "list"%s] }'
    plain, sudo = cluster.limited(rules % ""), cluster.limited(rules % ', "sudo"')
    at = f"{CONFIG}/{schedule.name}"
    for node in cluster.nodes:
        for method, path, body in [("GET", at, None), ("PUT", at, {"retain": 3}),
                                   ("GET", CONFIG + "?list=true", None)]:
            assert node.call(method, path, body, token=plain).status == 403
            assert node.call(method, path, body, token=sudo).status in (200, 204)
        assert node.call("GET", f"{STATUS}/{schedule.name}", token=plain).status == 200
    assert cluster.active().call("DELETE", at, token=plain).status == 403


def test_the_command_line(cluster, folder, tmp_path):
    cli = Cli(cluster, tmp_path)
    cli("operator", "raft", "snapshot", "auto", "write", "daily", code=1)
    refused = cli("operator", "raft", "snapshot", "auto", "write", "daily", "storage_type=aws-s3",
                  code=2)
    assert "aws-s3" in refused.stderr
    fields = [f"{k}={v}" for k, v in local(folder, interval="24h").items()]
    assert "daily" in cli("operator", "raft", "snapshot", "auto", "write", "daily", *fields).stdout
    await_saved(folder, 1)
    read = cli.json("operator", "raft", "snapshot", "auto", "read", "daily")
    assert read["data"]["interval"] == 86400
    assert "daily" in cli("operator", "raft", "snapshot", "auto", "list").stdout
    deadline = time.monotonic() + PATIENCE_S
    while not (url := cli("operator", "raft", "snapshot", "auto", "status",
                          "-field=last_snapshot_url", "daily").stdout.strip()):
        assert time.monotonic() < deadline
    path = url.removeprefix("file://")
    assert "whole:" in cli("operator", "raft", "snapshot", "verify", path).stdout
    cli("operator", "raft", "snapshot", "verify", str(tmp_path / "none"), code=1)
    assert cli("operator", "raft", "snapshot", "auto", "delete", "daily").stdout
    cli("operator", "raft", "snapshot", "auto", "read", "daily", code=2)


def test_a_save_by_request_and_a_schedule_take_turns(cluster, schedule, folder):
    node = cluster.active()
    assert schedule(**local(folder, retain=100)).status == 204
    until, busy = time.monotonic() + 6, 0
    while time.monotonic() < until:
        answer = node.call("GET", "/v1/sys/storage/raft/snapshot")
        assert answer.status in (200, 503), answer.body
        busy += answer.status == 503
    await_saved(folder, 3)
    shown = status_of(node, schedule.name)
    assert shown["consecutive_errors"] == 0 and shown["last_snapshot_error"] == "", shown
    for name in saved(folder)[:3]:
        assert verify(folder / name).returncode == 0
