"""Sync mode of a DR primary: the reply to a write waits for a secondary."""

import concurrent.futures
import contextlib

import pytest

from activation import DR, await_mode, become_primary, call, error, status
from cluster import Recoverable
from test_dr_pair import await_equal, follow, seen

SETTINGS = f"{DR}/primary/settings"
HEADER = "X-Replication-Confirmed"


@pytest.fixture(scope="module")
def pair():
    with Recoverable() as primary, Recoverable() as secondary:
        become_primary(primary)
        follow(primary, secondary)
        yield primary, secondary


def configure(primary, **body):
    call(primary.nodes[0], "POST", SETTINGS, body, status=204)


def settings(primary):
    return call(primary.nodes[0], "GET", SETTINGS).data


def write(node, name="x", timeout_s=60):
    told = node.call("PUT", f"/v1/kv/sync/{name}", {"x": "1"}, timeout_s=timeout_s)
    assert told.status == 204, told.body
    return told.headers.get(HEADER)


def await_mode_of(primary, mode):
    primary.await_until(lambda: seen(primary.active()).get("sync_mode") == mode)


def await_confirmed(primary):
    """A secondary confirms in time: only now may a test expect it of each write."""
    primary.await_until(lambda: write(primary.active()) == "true")


@contextlib.contextmanager
def stopped(cluster):
    for node in cluster.nodes:
        node.pause()
    try:
        yield
    finally:
        for node in cluster.nodes:
            node.resume()


def test_settings_belong_to_a_primary_and_to_those_who_may(pair):
    primary, secondary = pair
    powerless = call(primary.nodes[0], "POST", "/v1/auth/token/create",
                     {"policies": ["default"]}).json["auth"]["client_token"]
    for method in "GET", "POST":
        error(primary.nodes[0].call(method, SETTINGS, {}, token=""), 403)
        error(primary.nodes[0].call(method, SETTINGS, {}, token=powerless), 403)
        error(secondary.nodes[0].call(method, SETTINGS, {}, token=""), 400, "path disabled")
    assert settings(primary) == {"sync": False, "sync_timeout_ms": 2000,
                                 "bandwidth_bytes_per_second": 0}
    for wrong in ({"sync_timeout_ms": 199}, {"sync_timeout_ms": 5001},
                  {"bandwidth_bytes_per_second": 16383},
                  {"bandwidth_bytes_per_second": 2 ** 40 + 1}):
        error(primary.nodes[0].call("POST", SETTINGS, wrong), 400, next(iter(wrong)))
    configure(primary, sync_timeout_ms=5000)
    configure(primary, bandwidth_bytes_per_second=1 << 30)
    assert settings(primary) == {"sync": False, "sync_timeout_ms": 5000,
                                 "bandwidth_bytes_per_second": 1 << 30}
    configure(primary, bandwidth_bytes_per_second=0)


def test_without_sync_mode_a_reply_says_nothing_of_secondaries(pair):
    primary, _ = pair
    assert write(primary.active()) is None
    told = status(primary.active())
    assert told["sync_mode"] == "async" and told["sync_enabled"] is False


def test_an_acknowledged_write_is_on_the_secondary(pair):
    primary, secondary = pair
    configure(primary, sync=True)
    assert all(status(n)["sync_enabled"] for n in primary.nodes)
    await_confirmed(primary)
    for i in range(50):
        assert write(primary.nodes[i % 3], str(i)) == "true"
        version = status(primary.active())["version"]
        assert max(status(n)["version"] for n in secondary.nodes) >= version
    assert status(primary.active())["sync_mode"] == "sync"
    assert {status(n)["sync_mode"] for n in primary.standbys()} == {"unknown"}


def test_a_write_waits_and_reads_do_not(pair):
    """The secondary stands still for a moment that is shorter than the timeout."""
    primary, secondary = pair
    await_confirmed(primary)
    node = primary.active()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        with stopped(secondary):
            reply = pool.submit(write, node, "waits")
            primary.await_until(lambda: node.metric("holdfast_dr_sync_mode_waiting") == 1)
            assert call(node, "GET", "/v1/kv/sync/waits").data == {"x": "1"}
            assert not reply.done()
        assert reply.result() == "true"


def test_after_the_timeout_writes_are_acknowledged_and_the_status_says_so(pair):
    primary, secondary = pair
    configure(primary, sync_timeout_ms=200)
    node = primary.active()
    falls = node.metric("holdfast_dr_sync_mode_falls_total")
    with stopped(secondary):
        primary.await_until(lambda: write(node) == "false")
        told = status(node)
        assert told["sync_mode"] == "async" and told["sync_enabled"]
        assert "no secondary confirmed a write within 200 ms" in told["sync_reason"]
        assert told["sync_fallen_back_since"]
        assert node.metric("holdfast_dr_sync_mode_fallen_back") == 1
        assert node.metric("holdfast_dr_sync_mode_falls_total") > falls
        assert "Writes are acknowledged without it" in node.log_text()
        assert write(primary.standbys()[0], "forwarded") == "false"
    await_mode_of(primary, "sync")
    assert "writes wait for it again" in node.log_text()
    configure(primary, sync_timeout_ms=5000)
    await_confirmed(primary)
    assert "sync_fallen_back_since" not in status(node)
    await_equal(primary, secondary)


def test_the_mode_survives_the_active_node(pair):
    primary, secondary = pair
    former = primary.active()
    former.kill()
    primary.await_until(lambda: any(
        n.alive and n.call("PUT", "/v1/kv/over", {"x": "1"}).status == 204
        for n in primary.nodes if n.alive))
    await_confirmed(primary)
    former.start()
    primary.await_up()
    assert settings(primary)["sync"]
    await_equal(primary, secondary)


def test_the_bandwidth_bounds_the_stream_and_no_heartbeat(pair):
    """What is written here would take the bound ten minutes; the connection stays."""
    primary, secondary = pair
    configure(primary, sync=False, bandwidth_bytes_per_second=16384)
    for i in range(10):
        call(primary.nodes[i % 3], "PUT", "/v1/kv/large", {"x": f"{i:07}" * 140000}, status=204)
    newest = status(primary.active())["version"]

    def behind():
        """As the node of the secondary that follows has heard it since."""
        told = [s for s in map(status, secondary.nodes) if s["connection_state"] == "ready"]
        return told and told[0]["version"] + told[0]["lag_entries"] >= newest and told[0]

    secondary.await_until(behind)
    for _ in range(3):
        heard = behind()
        assert heard["version"] < newest and heard["lag_bytes"] > 0
        assert status(primary.active())["secondaries"][0]["connection_status"] == "connected"
        before = heard["primaries"][0]["last_heartbeat"]
        secondary.await_until(lambda: behind()["primaries"][0]["last_heartbeat"] != before)
    configure(primary, sync=True, bandwidth_bytes_per_second=0)
    await_equal(primary, secondary)


def test_a_demotion_releases_what_waits(pair):
    """A planned failover: the writes are committed, and the secondary fetches them."""
    primary, secondary = pair
    await_confirmed(primary)
    node = primary.active()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        with stopped(secondary):
            reply = pool.submit(write, node, "demoted")
            primary.await_until(lambda: node.metric("holdfast_dr_sync_mode_waiting") == 1)
            call(node, "POST", f"{DR}/primary/demote")
            assert reply.result() == "false"
    await_mode(primary, "secondary")
    last = status(node)["version"]
    secondary.await_until(lambda: all(seen(n).get("version") == last for n in secondary.nodes))
