"""The requests of load balancers and operators."""

import os
import re
import subprocess
import time

import exposition
from cluster import HOLDFAST, Cluster


def test_no_replication_is_a_status_too():
    with Cluster(size=1) as cluster:
        node = cluster.nodes[0]
        for kind in ("", "dr/", "performance/"):
            path = f"/v1/sys/replication/{kind}status"
            assert node.call("GET", path, token="").data["mode"] == "disabled"
            assert node.call("POST", path, {}).status == 405


def test_a_cluster_says_what_it_is_before_and_after_init():
    with_init = Cluster()
    try:
        with_init.start()
        with_init.await_formed()
        node = with_init.nodes[0]
        assert node.call("GET", "/v1/sys/health?uninitcode=299").status == 299
        assert node.call("GET", "/v1/sys/init").json == {"initialized": False}
        sealed = node.call("GET", "/v1/sys/seal-status").json
        assert (sealed["initialized"], sealed["sealed"]) == (False, True)
        refused = node.call("GET", "/v1/kv/x")
        assert refused.status == 503
        with_init.init()
        assert node.call("GET", "/v1/sys/init").json == {"initialized": True}
        again = with_init.nodes[1].call("PUT", "/v1/sys/init", {})
        assert again.status == 400
        sealed = node.call("GET", "/v1/sys/seal-status").json
        assert (sealed["initialized"], sealed["sealed"]) == (True, False)
    finally:
        with_init.__exit__(None, None, None)


def test_a_restarted_cluster_never_says_that_it_is_not_initialised():
    with Cluster() as cluster:
        for node in cluster.nodes:
            assert node.stop() == 0
        cluster.start()
        seen = set()
        deadline = time.monotonic() + 120
        while not {200, 473} <= seen and time.monotonic() < deadline:
            seen |= {node.health() for node in cluster.nodes}
        assert seen - {0} <= {200, 473, 503}, seen


def test_health_tells_the_active_node_from_the_standbys(cluster):
    active = cluster.active()
    body = active.call("GET", "/v1/sys/health", token="").json
    assert (body["initialized"], body["sealed"], body["standby"]) == (True, False, False)
    assert body["cluster_name"] == "test"
    for standby in cluster.standbys():
        answer = standby.call("GET", "/v1/sys/health", token="")
        assert answer.status == 473
        assert answer.json["performance_standby"] is True
        assert standby.call("GET", "/v1/sys/health?perfstandbyok=true").status == 200
        assert standby.call("GET", "/v1/sys/health?performancestandbycode=299").status == 299
    assert active.call("GET", "/v1/sys/health?activecode=299").status == 299
    assert active.call("GET", "/v1/sys/health?activecode=abc").status == 400
    assert active.call("GET", "/v1/sys/health?standbyok=maybe").status == 400


def test_without_performance_standbys_the_active_node_answers_everything():
    with Cluster(config={"performance_standby": False}) as cluster:
        here = {"X-Vault-No-Request-Forwarding": "1"}
        for n, standby in enumerate(cluster.standbys()):
            answer = standby.call("GET", "/v1/sys/health", token="")
            assert answer.status == 429
            assert answer.json["standby"] is True
            assert answer.json["performance_standby"] is False
            assert standby.call("GET", "/v1/sys/health?standbyok=true").status == 200
            assert standby.call("GET", "/v1/sys/health?standbycode=299").status == 299
            assert standby.call("GET", "/v1/sys/health?perfstandbyok=true").status == 429
            assert standby.call("GET", "/v1/sys/leader").json["performance_standby"] is False
            # Reads and writes are the active node's: it is named where they may not be forwarded.
            assert standby.call("PUT", "/v1/kv/plain", {"n": n}).status == 204
            for node in cluster.nodes:
                assert node.call("GET", "/v1/kv/plain").data == {"n": n}
            for method in ("GET", "PUT"):
                body = {"n": n} if method == "PUT" else None
                sent = standby.call(method, "/v1/kv/plain", body, headers=here)
                assert sent.status == 307, sent.body
        # When the active node goes, a plain standby takes its place.
        old = cluster.active()
        old.kill()
        rest = [node for node in cluster.nodes if node is not old]
        assert cluster.active() in rest
        cluster.await_health({200, 429}, rest)
        assert rest[0].call("GET", "/v1/kv/plain").data == {"n": 1}


def test_head_has_the_status_and_no_body(cluster):
    for node in cluster.nodes:
        answer = node.call("HEAD", "/v1/sys/health")
        assert answer.status in (200, 473)
        assert answer.body == b""


def test_every_node_names_the_same_leader(cluster):
    active = cluster.active()
    for node in cluster.nodes:
        deadline = time.monotonic() + 120  # a new leader's address comes with its first write
        while True:
            leader = node.call("GET", "/v1/sys/leader", token="").json
            if leader["leader_address"] == active.url or time.monotonic() > deadline:
                break
        assert leader["ha_enabled"] is True
        assert leader["is_self"] is (node is active)
        assert leader["leader_address"] == active.url
        assert leader["raft_applied_index"] > 0


def test_metrics_are_json_unless_prometheus_asks(cluster):
    for node in cluster.nodes:
        answer = node.call("GET", "/v1/sys/metrics")
        assert answer.headers["Content-Type"] == "application/json"
        gauges = {g["Name"]: g["Value"] for g in answer.json["Gauges"]}
        assert gauges["holdfast_active"] == (node is cluster.active())
        assert any(c["Count"] > 0 for c in answer.json["Counters"])
        assert node.call("GET", "/v1/sys/metrics?format=xml").status == 400


PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
# What Prometheus 2 and 3 send.
SCRAPER = ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
           "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")


def scrape(node, path="/v1/sys/metrics?format=prometheus", accept=None):
    """The families of a node, read strictly, and the type of the reply."""
    answer = node.call("GET", path, headers={"Accept": accept} if accept else {})
    assert answer.status == 200, answer.body
    kind = answer.headers["Content-Type"]
    return exposition.parse(answer.body.decode(), kind == OPEN), kind


def figures(node):
    """{(name, labels): value} of a node."""
    families, _ = scrape(node)
    return {
        (name, ",".join(f'{key}="{text}"' for key, text in labels) or None): value
        for family in families.values()
        for (name, labels), value in family.samples.items()
    }


def test_metrics_come_in_the_format_that_is_asked_for(cluster):
    node = cluster.standbys()[0]
    for path, accept, wanted in (
        ("/v1/sys/metrics?format=prometheus", SCRAPER, PLAIN),
        ("/v1/sys/metrics?format=openmetrics", None, OPEN),
        ("/v1/sys/metrics", SCRAPER, OPEN),
        ("/v1/sys/metrics", "text/plain;version=0.0.4", PLAIN),
        ("/v1/metrics", SCRAPER, OPEN),
        ("/v1/metrics?format=prometheus", None, PLAIN),
    ):
        families, kind = scrape(node, path, accept)
        assert kind == wanted, (path, accept)
        counter = "holdfast_http_requests" + ("" if kind == OPEN else "_total")
        assert families[counter].kind == "counter"
        assert families["holdfast_request_duration_seconds"].kind == "histogram"
    assert node.call("GET", "/v1/metrics").headers["Content-Type"] == "application/json"
    assert node.call("GET", "/v1/metrics", token="").status == 403
    reader = cluster.limited('path "sys/metrics" { capabilities = ["read"] }')
    assert cluster.active().call("GET", "/v1/metrics", token=reader).status == 200
    assert node.call("POST", "/v1/metrics", {}).status == 405
    assert node.call("GET", "/v1/metrics/x").status == 404


def test_help_texts_stand_alone(cluster):
    families, _ = scrape(cluster.active())
    for family in families.values():
        assert len(family.help) > 12 and family.help[-1] == ".", family.name
        assert not re.match("(Of these|The same|Likewise|As above|Rounds that confirmed them)",
                            family.help), family.name


def test_metrics_cover_process_disk_certificates_and_replication(cluster):
    active = cluster.active()
    cluster.limited('path "kv/*" { capabilities = ["read"] }')  # a token that expires
    have = figures(active)
    now = time.time()
    assert have["holdfast_active", None] == 1 and have["holdfast_sealed", None] == 0
    assert 0 < have["process_cpu_seconds_total", None] < 10000
    assert have["process_resident_memory_bytes", None] > 1 << 20
    listed = len(os.listdir(f"/proc/{active.process.pid}/fd"))
    assert abs(have["process_open_fds", None] - listed) <= 8  # connections come and go
    assert have["process_open_fds", None] < have["process_max_fds", None]
    assert now - 3600 < have["process_start_time_seconds", None] < now
    disk = os.statvfs(active.data)
    assert have["holdfast_disk_size_bytes", None] == disk.f_blocks * disk.f_frsize
    assert 0 < have["holdfast_disk_available_bytes", None] < have["holdfast_disk_size_bytes", None]
    (listener,) = [key for key in have if "listener_certificate" in key[0]]
    assert listener[1] == f'listener="127.0.0.1:{active.client_port}"' and have[listener] > now
    (build,) = [labels for name, labels in have if name == "holdfast_build_info"]
    assert re.fullmatch(r'version="[0-9.]+"', build)
    others = {f'peer="{node.name}"' for node in cluster.standbys()}
    lag = {key[1]: n for key, n in have.items() if key[0] == "holdfast_raft_follower_lag_entries"}
    assert set(lag) == others and all(n < 1000 for n in lag.values())
    assert not any("follower_lag" in name for name, _ in figures(cluster.standbys()[0]))
    assert have["holdfast_leases", None] >= 0
    assert ("holdfast_raft_active", None) not in have
    assert have["holdfast_store_oldest_pin_age_seconds", None] >= 0
    classes = {key[1] for key in have if key[0] == "holdfast_http_responses_total"}
    assert classes == {f'class="{k}xx"' for k in range(2, 6)}


def test_leases_are_counted_when_the_node_starts_to_be_scraped():
    with Cluster(size=1) as one:
        node = one.nodes[0]
        for _ in range(3):
            one.limited('path "kv/*" { capabilities = ["read"] }')
        assert figures(node)["holdfast_leases", None] == 3


def count_of(have, kind):
    return have["holdfast_request_duration_seconds_count", f'class="{kind}"']


def test_each_request_is_timed_in_its_class(cluster):
    active, standby = cluster.active(), cluster.standbys()[0]
    before, passed = figures(active), figures(standby)
    for n in range(5):
        assert active.call("PUT", "/v1/kv/timed", {"n": n}).status == 204
        assert active.call("GET", "/v1/kv/timed").status == 200
        assert active.call("LIST", "/v1/kv/").status == 200
        assert active.call("GET", "/v1/sys/health").status == 200
        assert standby.call("PUT", "/v1/kv/timed", {"n": n}).status == 204
    after, passed_after = figures(active), figures(standby)
    for kind, least in (("read", 5), ("list", 5), ("write", 10), ("node", 5)):
        assert count_of(after, kind) - count_of(before, kind) >= least, kind
    assert count_of(passed_after, "forwarded") - count_of(passed, "forwarded") >= 5


def test_the_mesh_is_measured(cluster):
    standby = cluster.standbys()[0]
    before = figures(standby)
    assert standby.call("PUT", "/v1/kv/measured", {"x": "y" * 50_000}).status == 204
    active = f'peer="{cluster.active().name}"'
    received = ("holdfast_mesh_peer_received_bytes_total", active)
    await_figure(standby, received, lambda n: n >= before[received] + 50_000)
    after = figures(standby)
    peers = [node.name for node in cluster.nodes if node is not standby]
    assert {labels for name, labels in after if name == "holdfast_mesh_peer_links"} == {
        f'peer="{name}"' for name in peers
    }
    grown = {key: value - before[key] for key, value in after.items()}
    assert grown["holdfast_forward_calls_total", None] >= 1
    assert grown["holdfast_mesh_peer_frames_received_total", active] >= 1
    assert grown["holdfast_mesh_peer_frames_sent_total", active] >= 1
    assert after["holdfast_mesh_certificate_expiry_time_seconds", None] > time.time()
    for name in peers:
        assert after["holdfast_mesh_peer_links", f'peer="{name}"'] in range(1, 5)


def test_a_lost_peer_shows_in_the_figures():
    with Cluster() as cluster:
        lost, node = cluster.standbys()[0], cluster.active()
        label = f'peer="{lost.name}"'
        lost.kill()
        await_figure(node, ("holdfast_mesh_peer_links", label), lambda n: n == 0)
        await_figure(node, ("holdfast_mesh_peer_connects_failed_total", label), lambda n: n > 0)
        await_figure(node, ("holdfast_mesh_peer_frames_dropped_total", label), lambda n: n > 0)
        lost.start()
        await_figure(node, ("holdfast_mesh_peer_links", label), lambda n: n == 4)
        await_figure(node, ("holdfast_mesh_peer_reconnects_total", label), lambda n: n > 0)


def await_figure(node, key, good, timeout_s=120):
    deadline = time.monotonic() + timeout_s
    while not good(value := figures(node)[key]):
        assert time.monotonic() < deadline, f"{key} is {value}"
        time.sleep(0.1)


def run(cluster, node, *args, stdin=None):
    return subprocess.run(
        [HOLDFAST, *args],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        env={
            "HOLDFAST_ADDR": node.url,
            "HOLDFAST_TOKEN": cluster.token,
            "HOLDFAST_CACERT": str(cluster.dir / "tls" / "tls-ca.pem"),
        },
    )


def test_the_cli_writes_reads_lists_and_deletes(cluster):
    node = cluster.nodes[1]
    assert run(cluster, node, "write", "kv/cli/a", "user=root", "n=1").returncode == 0
    read = run(cluster, node, "read", "-format=json", "kv/cli/a")
    assert read.returncode == 0 and '"user": "root"' in read.stdout
    assert run(cluster, node, "read", "-field=user", "kv/cli/a").stdout.strip() == "root"
    assert "a" in run(cluster, node, "list", "kv/cli").stdout.split()
    piped = run(cluster, node, "write", "kv/cli/b", "-", stdin='{"from": "stdin"}')
    assert piped.returncode == 0, piped.stderr
    assert run(cluster, node, "delete", "kv/cli/a").returncode == 0
    gone = run(cluster, node, "read", "kv/cli/a")
    assert gone.returncode == 2 and "No value" in gone.stderr
    status = run(cluster, node, "status")
    assert status.returncode == 0 and "Sealed" in status.stdout
    assert run(cluster, node, "read").returncode == 1


def test_the_cli_takes_the_upstream_environment(cluster):
    answer = subprocess.run(
        [HOLDFAST, "status", "-format=json"],
        capture_output=True,
        text=True,
        timeout=120,
        env={
            "VAULT_ADDR": cluster.nodes[0].url,
            "VAULT_CACERT": str(cluster.dir / "tls" / "tls-ca.pem"),
        },
    )
    assert answer.returncode == 0, answer.stderr


def test_configuration_errors_name_file_line_and_field(tmp_path):
    config = tmp_path / "bad.hcl"
    config.write_text('node_name = "a"\ndata_dir = "/tmp/x"\n\nlistner "tcp" {\n}\n')
    answer = subprocess.run(
        [HOLDFAST, "server", "-config", str(config)], capture_output=True, text=True, timeout=120
    )
    assert answer.returncode == 1
    assert f"{config}:4" in answer.stderr and "listner" in answer.stderr
