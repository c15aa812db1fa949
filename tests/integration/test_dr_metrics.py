"""Metrics of disaster recovery on both sides, what they warn of, and the alerts that read them."""

import contextlib
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

import exposition
from activation import DR, become_primary, call, enable, make_token, status
from cluster import Recoverable
from test_dr_diff import facts
from test_dr_pair import await_equal, follow

ROOT = pathlib.Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "dr" / "alerts.yml"
SOURCES = [ROOT / "src" / "server" / "metrics_dr.c", ROOT / "src" / "server" / "metrics_dr_counts.c"]


class Open(Recoverable):
    """A secondary serves metrics without a token, or not at all; and then nobody records them."""

    audited = False
    recorded = False  # the document of the API says that metrics need a token

    def __init__(self, **options):
        listener = {"tcp": {"unauthenticated_metrics": True}}
        super().__init__(config={"listener": listener}, **options)


@pytest.fixture(scope="module")
def pair():
    with Open() as primary, Open() as secondary:
        become_primary(primary)
        call(primary.nodes[0], "PUT", "/v1/kv/first", {"x": "1"}, status=204)
        follow(primary, secondary)
        await_equal(primary, secondary)
        yield primary, secondary


def families(node):
    told = node.call("GET", "/v1/sys/metrics?format=prometheus", token="")
    assert told.status == 200
    return exposition.parse(told.body.decode())


def value(node, name, **labels):
    """0 for a sample that this node does not have."""
    family = families(node).get(name)
    key = (name, tuple(sorted(labels.items())))
    return family.samples.get(key, 0) if family else 0


def total(cluster, name, **labels):
    return sum(value(n, name, **labels) for n in cluster.nodes)


def named_in_the_source():
    text = "".join(path.read_text() for path in SOURCES)
    return set(re.findall(r'"((?:holdfast_dr|vault)_\w+)"', text))


def follower(secondary):
    return next(n for n in secondary.nodes if value(n, "holdfast_dr_connected") == 1)


def test_every_metric_is_shown_on_its_side(pair):
    primary, secondary = pair
    primary.await_until(lambda: total(primary, "holdfast_dr_checkpoints_total", result="equal") > 0)
    mine, theirs = families(primary.active()), families(follower(secondary))
    names = named_in_the_source()
    assert len(names) >= 40
    assert not names - set(mine) - set(theirs)
    both = {name for name in names if name in mine and name in theirs}
    assert both >= {"holdfast_dr_mode", "holdfast_dr_epoch", "holdfast_dr_ring_bytes"}
    assert "holdfast_dr_lag_entries" not in mine
    assert "holdfast_dr_secondary_connected" not in theirs


def test_the_primary_counts_what_it_serves(pair):
    primary, secondary = pair
    version = status(primary.active())["version"]
    for purpose in "stream", "sync", "heartbeat":
        assert total(primary, "holdfast_dr_connections_total", purpose=purpose) > 0, purpose
    assert total(primary, "holdfast_dr_connections_total", purpose="difference") == 0
    primary.await_until(lambda: total(primary, "holdfast_dr_sent_bytes_total", kind="stream") > 0)
    assert total(primary, "holdfast_dr_sent_bytes_total", kind="sync") > 0
    assert total(primary, "holdfast_dr_conflicts_total") == 0
    assert total(primary, "holdfast_dr_conflict") == 0
    node = primary.active()
    assert value(node, "holdfast_dr_mode", mode="primary") == 1
    assert value(node, "holdfast_dr_mode", mode="secondary") == 0
    assert value(node, "holdfast_dr_epoch") == 1
    assert value(node, "holdfast_dr_secondary_connected", secondary="b") == 1
    primary.await_until(
        lambda: value(node, "holdfast_dr_secondary_behind_entries", secondary="b") == 0)
    assert max(value(n, "holdfast_dr_secondary_verified_version", secondary="b")
               for n in primary.nodes) > 0
    assert value(node, "holdfast_dr_secondary_differs", secondary="b") == 0
    assert value(node, "holdfast_dr_secondary_heard_seconds", secondary="b") < 60
    assert value(node, "holdfast_dr_ring_size_bytes") == 64 * 1024 * 1024
    assert 0 < value(node, "holdfast_dr_ring_first_version") <= version + 1
    assert value(node, "vault_core_replication_dr_primary") == 1
    assert value(node, "vault_core_replication_dr_secondary") == 0
    assert value(node, "vault_replication_wal_last_dr_wal") >= version
    assert value(node, "vault_logshipper_buffer_max_size") == 64 * 1024 * 1024
    # a stream counts as found with its first record
    call(primary.nodes[0], "PUT", "/v1/kv/streamed", {"x": "1"}, status=204)
    primary.await_until(lambda: total(primary, "vault_logshipper_streamWALs_guard_found") > 0)


def test_the_secondary_counts_what_it_follows(pair):
    primary, secondary = pair
    node = follower(secondary)
    assert value(node, "holdfast_dr_mode", mode="secondary") == 1
    assert value(node, "holdfast_dr_streaming") == 1 and value(node, "holdfast_dr_syncing") == 0
    assert value(node, "holdfast_dr_streams_total", result="begun") >= 1
    assert value(node, "holdfast_dr_syncs_total", kind="first") == 1
    assert value(node, "holdfast_dr_syncs_total", kind="difference") == 0
    assert value(node, "holdfast_dr_sync_received_bytes_total") > 0
    assert value(node, "holdfast_dr_repairs_total") == 0
    assert value(node, "holdfast_dr_certificate_expiry_time_seconds") > 1.7e9
    version = await_equal(primary, secondary) or status(node)["version"]
    assert value(node, "vault_replication_fsm_last_remote_wal") >= version
    assert value(node, "vault_replication_merkleSync") == 1
    before = value(node, "holdfast_dr_received_bytes")
    call(primary.nodes[0], "PUT", "/v1/kv/counted", {"x": "1"}, status=204)
    primary.await_until(lambda: value(node, "holdfast_dr_received_bytes") > before)


def test_a_new_connection_counts_as_a_reconnect(pair):
    """The node of the primary that sends the stream ends."""
    primary, secondary = pair
    node = follower(secondary)
    before = value(node, "holdfast_dr_reconnects_total")
    source = status(node)
    assert source["connection_state"] == "ready"
    for each in list(primary.nodes):
        each.kill()
        each.start()
        primary.await_up()
    primary.await_until(lambda: value(node, "holdfast_dr_reconnects_total") > before)
    await_equal(primary, secondary)


def test_a_secondary_that_was_revoked_is_counted_by_its_reason(pair):
    primary, _ = pair
    with Open(size=1) as third:
        third.await_feature_level()
        told = enable(third.nodes[0], make_token(primary, "c"), primary)
        assert told.status == 200, told.body
        primary.await_until(
            lambda: value(primary.active(), "holdfast_dr_secondary_connected", secondary="c") == 1)
        # A standby that lags behind the activation refuses its first heartbeat.
        before = total(primary, "holdfast_dr_refusals_total", reason="revoked")
        call(primary.nodes[0], "POST", f"{DR}/primary/revoke-secondary", {"id": "c"}, status=204)
        primary.await_until(
            lambda: total(primary, "holdfast_dr_refusals_total", reason="revoked") > before)
        third.await_until(
            lambda: value(third.nodes[0], "holdfast_dr_streams_total", result="failed") > 0)


@contextlib.contextmanager
def paused(cluster):
    """All nodes stand still, and go on however the block ends."""
    try:
        for each in cluster.nodes:
            each.pause()
        yield
    finally:
        for each in cluster.nodes:
            each.resume()


def test_the_ring_warns_before_it_is_overrun(pair):
    """The secondary stands still; then it goes on from the WAL in memory, without a sync."""
    primary, secondary = pair
    await_equal(primary, secondary)
    # A node tells what it knows from heartbeats of its own, also when another one leads later.
    primary.await_until(lambda: total(primary, "holdfast_dr_secondary_connected", secondary="b") == 3)
    node, syncs = primary.active(), facts(secondary).get("difference_syncs", 0)

    def used():
        return value(node, "holdfast_dr_secondary_ring_used_percent", secondary="b")

    with paused(secondary):
        for i in range(72):
            call(node, "PUT", "/v1/kv/large", {"x": f"{i:07}" * 140000}, status=204)
            if used() >= 76:
                break
        assert 75 <= used() < 100, families(node)["holdfast_dr_secondary_ring_used_percent"].samples
        primary.await_until(lambda: re.search(
            r"secondary b lacks \d+ writes, which take \d+ % of the WAL in memory", node.log_text()))
    call(node, "PUT", "/v1/kv/large", {"x": "small"}, status=204)
    await_equal(primary, secondary)
    assert facts(secondary).get("difference_syncs", 0) == syncs
    primary.await_until(lambda: used() == 0)


def test_alerts_read_what_both_clusters_show(pair):
    primary, secondary = pair
    shown = set()
    for node in primary.nodes + secondary.nodes:
        shown |= set(families(node))
    rules = [r for g in yaml.safe_load(ALERTS.read_text())["groups"] for r in g["rules"]]
    assert len(rules) >= 10
    for rule in rules:
        used = set(re.findall(r"\bholdfast_\w+", rule["expr"]))
        assert used and used <= shown, (rule["alert"], used - shown)
        assert rule["annotations"]["summary"] and rule["annotations"]["action"]
        for page in re.findall(r"See ([\w-]+\.md)", rule["annotations"]["action"]):
            assert (ALERTS.parent / page).exists(), page


def test_alerts_fire_as_promised(tmp_path):
    for path in ALERTS, pathlib.Path(__file__).parent / "dr_alerts.yml":
        shutil.copy(path, tmp_path)
    subprocess.run(["promtool", "check", "rules", "alerts.yml"], cwd=tmp_path, check=True)
    subprocess.run(["promtool", "test", "rules", "dr_alerts.yml"], cwd=tmp_path, check=True)
    tested = yaml.safe_load((tmp_path / "dr_alerts.yml").read_text())["tests"]
    fired = {a["alertname"] for t in tested for a in t["alert_rule_test"] if a["exp_alerts"]}
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    assert fired == {r["alert"] for r in rules}
