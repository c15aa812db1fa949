"""Sync mode of a DR primary: the reply to a write waits for a secondary."""

import concurrent.futures
import contextlib
import json
import re
import subprocess
import time

import pytest

from activation import (
    DR, await_mode, become_primary, call, enable, error, make_token, operation_token, status,
)
from cluster import HOLDFAST, Recoverable
from test_dr_fencing import One
from test_dr_pair import await_equal, await_state, follow, seen

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


def test_the_command_sets_what_it_is_told_and_shows_all(pair):
    primary, secondary = pair
    env = {"HOLDFAST_ADDR": primary.nodes[1].url, "HOLDFAST_TOKEN": primary.token,
           "HOLDFAST_CACERT": str(primary.dir / "tls" / "tls-ca.pem")}

    def command(*flags, code=0, **more):
        done = subprocess.run([HOLDFAST, "operator", "dr", "settings", *flags], env=env | more,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    before = settings(primary)
    told = command("-sync", "-bandwidth=20000")
    assert "on: the reply" in told and "20000 bytes a second" in told
    assert settings(primary) == before | {"sync": True, "bandwidth_bytes_per_second": 20000}
    told = command("-sync=false", "-sync-timeout-ms=300", "-bandwidth=0")
    shown = dict(re.findall(r"^(Sync mode|Sync timeout|Bandwidth) +(.*)$", told, re.M))
    assert shown == {"Sync mode": "off", "Sync timeout": "300 ms", "Bandwidth": "no bound"}
    assert json.loads(command("-format=json")) == settings(primary) | {"sync": False,
                                                                       "sync_timeout_ms": 300}
    assert "sync_timeout_ms: 200 to 5000" in command("-sync-timeout-ms=100", code=2)
    theirs = {"HOLDFAST_ADDR": secondary.nodes[0].url,
              "HOLDFAST_CACERT": str(secondary.dir / "tls" / "tls-ca.pem")}
    assert "path disabled" in command(code=2, **theirs)
    assert command("-sync-timeout-ms=5000") != ""


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


BOUND = 65536  # bytes a second
BULK = 8 * 50000  # bytes; at the bound this takes six seconds


def put_bulk(primary, value):
    for i in range(8):
        call(primary.nodes[i % 3], "PUT", f"/v1/kv/bulk/{i}", {"x": value * 50000}, status=204)


def sent_by_syncs(primary):
    """Bytes on the wire of the syncs that have ended."""
    texts = [n.call("GET", "/v1/sys/metrics?format=prometheus").body.decode() for n in primary.nodes]
    pattern = r'^holdfast_dr_sent_bytes_total\{kind="sync"\} (\S+)$'
    return sum(float(re.search(pattern, text, re.M)[1]) for text in texts)


@contextlib.contextmanager
def bounded_sync(primary):
    """One sync runs in the block: it takes the time that the bound makes its bytes take. The second
    more allows what a connection may send at once, and a piece that is sent whole."""
    before, begun = sent_by_syncs(primary), time.monotonic()
    yield
    took = time.monotonic() - begun
    primary.await_until(lambda: sent_by_syncs(primary) > before)
    sent = sent_by_syncs(primary) - before
    assert BULK <= sent <= BOUND * (took + 1), (sent, took)


def test_the_bandwidth_bounds_first_syncs_and_those_of_a_difference(pair):
    primary, _ = pair
    configure(primary, sync=False, bandwidth_bytes_per_second=BOUND)
    put_bulk(primary, "a")
    with One() as other:
        other.await_feature_level()
        token = make_token(primary, "c")
        with bounded_sync(primary):
            assert enable(other.node, token, primary).status == 200
            await_state(other, "stream-wals")
        body = {"dr_operation_token": operation_token(other.nodes, primary.recovery_keys),
                "token": ""}
        update = f"{DR}/secondary/update-primary"
        call(other.node, "POST", update, body, "")
        await_state(other, "idle")
        put_bulk(primary, "b")
        syncs = seen(other.node)["difference_syncs"]
        body["update_primary_addrs"] = [f"127.0.0.1:{n.cluster_port}" for n in primary.nodes]
        with bounded_sync(primary):
            call(other.node, "POST", update, body, "")
            other.await_until(lambda: seen(other.node).get("difference_syncs", 0) > syncs)
        configure(primary, bandwidth_bytes_per_second=0)
        await_equal(primary, other)
    call(primary.nodes[0], "POST", f"{DR}/primary/revoke-secondary", {"id": "c"}, status=204)
    configure(primary, sync=True)


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
