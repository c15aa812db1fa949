"""Audit devices where nodes differ: devices that one node cannot open, devices of a configuration
file, seals, restarts, snapshots and a full state."""

import contextlib
import signal

from cluster import Unaudited
from test_audit import await_true, devices, disable, enable, metrics
from test_reload import await_log
from test_snapshot import restored, save

CLUSTER = Unaudited

STANDBY, FORWARDS = 473, 429


@contextlib.contextmanager
def enabled(cluster, path, options, **more):
    """A device, through the active node, until the block ends."""
    made = enable(cluster.active(), path, options, **more)
    assert made.status == 204, made.body
    try:
        yield
    finally:
        assert disable(cluster.active(), path).status == 204


def test_a_sealed_node_has_no_device_of_the_state(cluster):
    standby = cluster.standbys()[0]
    with enabled(cluster, "state", {"file_path": "discard"}):
        assert "state/" in devices(standby)
        before = standby.log_text().count("device state/ is closed")
        assert standby.call("PUT", "/v1/sys/seal").status in (204, 400, 500)
        await_log(standby, "device state/ is closed", before + 1)
        standby.stop()
        standby.start()
        cluster.await_up()
        assert devices(standby)["state/"]["status"] in ("open", "opening")


def test_a_restart_opens_the_devices_again(cluster):
    path = cluster.dir / "restart.log"
    with enabled(cluster, "restart", {"file_path": str(path)}):
        for node in cluster.nodes:
            await_true(lambda n=node: devices(n)["restart/"]["status"] == "open")
        node = cluster.active()
        node.kill()
        node.start()
        cluster.await_up()
        await_true(lambda: devices(node)["restart/"]["status"] == "open")


def test_a_snapshot_decides_which_devices_there_are(cluster):
    node = cluster.active()
    empty = save(node)
    with enabled(cluster, "kept", {"file_path": "discard"}):
        before = node.call("POST", "/v1/sys/audit-hash/kept", {"input": "x"}).data["hash"]
        full = save(node)
        restored(node, empty)
        for other in cluster.nodes:
            assert devices(other) == {}
        restored(node, full)
        for other in cluster.nodes:
            answer = other.call("POST", "/v1/sys/audit-hash/kept", {"input": "x"})
            assert answer.data["hash"] == before


def test_devices_of_a_configuration_file():
    with Unaudited(size=3) as cluster:
        node = cluster.standbys()[0]
        trail = node.dir / "trail.log"
        node.stop()
        node.config = {"audit": {"file": {
            "trail": {"description": "here", "options": {"file_path": str(trail)}}}}}
        node.start()
        cluster.await_up()
        shown = devices(node)["trail/"]
        assert shown["declared"] and shown["description"] == "here" and shown["type"] == "file"
        await_true(lambda: devices(node)["trail/"]["status"] == "open")
        assert all("trail/" not in devices(n) for n in cluster.nodes if n is not node)
        first = node.call("POST", "/v1/sys/audit-hash/trail", {"input": "x"}).data["hash"]
        assert 'holdfast_audit_device_up{device="trail/"} 1' in metrics(node)

        # the file is opened again under its name
        rotated = node.dir / "rotated.log"
        trail.rename(rotated)
        node.process.send_signal(signal.SIGHUP)
        await_true(trail.exists)

        # a device of the state at this path is not opened here
        other = cluster.active()
        assert enable(other, "trail").status == 204
        await_log(node, "device trail/ is not opened")
        assert devices(node)["trail/"]["declared"]
        assert disable(other, "trail").status == 204

        node.stop()
        node.start()
        cluster.await_up()
        again = node.call("POST", "/v1/sys/audit-hash/trail", {"input": "x"}).data["hash"]
        assert again == first


def test_a_device_of_the_active_node_s_file_cannot_be_changed_by_a_request():
    with Unaudited(size=1) as cluster:
        node = cluster.nodes[0]
        node.stop()
        node.config = {"audit": {"file": {"own": {"options": {"file_path": "discard"}}}}}
        node.start()
        cluster.await_up()
        answer = disable(node, "own")
        assert answer.status == 400 and "configuration file" in answer.json["errors"][0]
        for path in ("own", "own/below"):
            assert "already in use" in enable(node, path).json["errors"][0]
        node.stop()
        for audit, part in [({"paper": {"a": {}}}, "paper"),
                            ({"file": {"a": {"options": {}}}}, "file_path"),
                            ({"file": {" a": {"options": {"file_path": "discard"}}}}, "path")]:
            node.config = {"audit": audit}
            node.start()
            assert node.process.wait() != 0
            assert part in node.log_lines()[-1]
        node.config = {}


def test_a_node_that_cannot_record_leads_no_more_and_forwards_reads():
    with Unaudited() as cluster:
        first = cluster.nodes[0]  # to whom the others step down
        trail = first.dir / "own.log"
        first.stop()
        first.config = {"audit": {"file": {"own": {"options": {"file_path": str(trail)}}}}}
        first.start()
        cluster.await_up()
        await_true(lambda: devices(first)["own/"]["status"] == "open")
        await_true(lambda: leads(cluster, first))
        trail.unlink()
        trail.mkdir()
        first.process.send_signal(signal.SIGHUP)
        await_log(first, "no device takes records")
        await_log(first, "no audit device takes its records: hands over")
        await_true(lambda: first.health() == FORWARDS)
        active = cluster.active()
        assert active is not first

        def serving():
            return [n["hostname"] for n in active.call("GET", "/v1/sys/ha-status").data["nodes"]
                    if n["serving"]]

        await_true(lambda: serving() == [n.name for n in cluster.nodes[1:]])
        trail.rmdir()
        await_log(first, "a device takes records again")
        await_true(lambda: first.health() == STANDBY)
        await_true(lambda: len(serving()) == 3)


def test_a_standby_whose_device_fails_lets_the_active_node_record():
    with Unaudited() as cluster:
        node = cluster.nodes[1]
        trail = node.dir / "own.log"
        shared = cluster.dir / "shared.log"
        node.stop()
        node.config = {"audit": {"file": {"own": {"options": {"file_path": str(trail)}}}}}
        node.start()
        cluster.await_up()
        await_true(lambda: devices(node)["own/"]["status"] == "open")
        await_true(lambda: not steps_down(cluster, node))
        # the other nodes record, and this node has its own device in place of theirs
        made = enable(cluster.active(), "own", {"file_path": str(shared)})
        assert made.status == 204, made.body
        await_true(lambda: node.health() == STANDBY)
        stored = node.call("PUT", "/v1/cubbyhole/a", {"v": "1"})
        assert stored.status == 204, stored.body

        trail.unlink()
        trail.mkdir()
        node.process.send_signal(signal.SIGHUP)
        asked = []
        while node.health() != FORWARDS:  # the device fails while this node serves reads
            asked.append(node.call("GET", "/v1/cubbyhole/a"))
            assert asked[-1].status == 200, asked[-1].body
        shown = devices(node)["own/"]
        assert shown["declared"] and shown["status"] == "failing" and "directory" in shown["error"]
        assert devices(cluster.active())["own/"]["status"] == "open"
        assert 'holdfast_audit_device_up{device="own/"} 0' in metrics(node)
        assert "holdfast_audit_mute 1" in metrics(node)
        listed = node.call("GET", "/v1/sys/audit")
        assert shared.read_text().count(listed.json["request_id"]) == 2
        assert node.call("GET", "/v1/sys/audit", token="hvs.unknown").status == 500
        assert node.call("GET", "/v1/sys/metrics?format=nonsense").status == 500
        assert node.call("PUT", "/v1/sys/loggers", {"level": "info"}).status == 500
        trail.rmdir()
        await_true(lambda: node.health() == STANDBY)
        assert devices(node)["own/"]["status"] == "open"


def steps_down(cluster, node):
    """Whether this node is active; then it steps down."""
    if cluster.active() is not node:
        return False
    node.call("PUT", "/v1/sys/step-down")
    return True


def leads(cluster, node):
    """Step down until this node is active."""
    active = cluster.active()
    if active is node:
        return True
    active.call("PUT", "/v1/sys/step-down")
    return False
