"""Alerts and dashboard of deploy/observe: every rule fires as promised, every query returns data of a
real cluster."""

import json
import pathlib
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
import yaml

from cluster import Cluster

OBSERVE = pathlib.Path(__file__).parents[2] / "deploy" / "observe"
RULES = [rule for group in yaml.safe_load((OBSERVE / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
HERE = {"cluster": "a", "instance": "1"}
ALONE = {"cluster": "a"}
DAY = 86400

# Alert: series that are quiet for 30 minutes and then are not, labels of the alert, the value it tells.
FIRES = {
    "HoldfastDown": ([("up", HERE | {"job": "holdfast"}, "1x30 0x60")], HERE | {"job": "holdfast"}, ""),
    "HoldfastNoActiveNode": ([("holdfast_active", HERE, "1x30 0x60"),
                              ("holdfast_active", HERE | {"instance": "2"}, "0x90"),
                              ("holdfast_active", {"cluster": "b", "instance": "3"}, "1x90")], ALONE, "0"),
    "HoldfastNoQuorum": ([("holdfast_quorum", HERE, "1x30 0x60")], HERE, ""),
    "HoldfastSealed": ([("holdfast_sealed", HERE, "0x30 1x60")], HERE, ""),
    "HoldfastElections": ([("holdfast_raft_elections_total", HERE, "1x30 2+1x60")], ALONE, ""),
    "HoldfastFollowerLag": ([("holdfast_raft_follower_lag_entries", HERE | {"peer": "node2"}, "10000x30 10001x60")],
                            HERE | {"peer": "node2"}, "10001"),
    "HoldfastDiskSpace": ([("holdfast_disk_available_bytes", HERE, "15x30 14x60"),
                           ("holdfast_disk_size_bytes", HERE, "100x90")], HERE, ""),
    "HoldfastSnapshotsFail": ([("holdfast_snapshot_auto_failing", HERE, "0x30 1x60"),
                               ("holdfast_snapshot_auto_failing", HERE | {"instance": "2"}, "0x90")], ALONE, ""),
    "HoldfastSnapshotsOld": ([("holdfast_snapshot_auto_last_success_timestamp_seconds", HERE, "1x2900")], ALONE, ""),
    "HoldfastCertificate": ([("holdfast_mesh_certificate_expiry_time_seconds", HERE, f"{14 * DAY + 1800}x90"),
                             ("holdfast_listener_certificate_expiry_time_seconds", HERE, f"{99 * DAY}x90")],
                            HERE, ""),
    "HoldfastAuditMute": ([("holdfast_audit_mute", HERE, "0x30 1x60")], HERE, ""),
    "HoldfastSlowWrites": ([("holdfast_request_duration_seconds_bucket", HERE | {"class": "write", "le": bound}, values)
                            for bound, values in (("0.1", "0+60x30 1800x60"), ("1", "0+60x90"), ("+Inf", "0+60x90"))],
                           ALONE, ""),
    "HoldfastErrors": ([("holdfast_http_responses_total", HERE | {"class": "5xx"}, "0x30 0+120x60")], ALONE, ""),
    "HoldfastSlowReaders": ([("holdfast_http_slow_readers_closed_total", HERE | {"bound": "address"}, "0x30 1x60")],
                            HERE | {"bound": "address"}, ""),
    "HoldfastLeasesSkipped": ([("holdfast_leases_skipped_total", HERE, "0x30 1x60")], HERE, ""),
}
WHEN = {"HoldfastSnapshotsOld": ("2880m", "2882m"), "HoldfastSlowReaders": ("29m", "40m")}  # quiet, and firing


def labelled(name, labels):
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def told(text, labels, value):
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda m: labels[m[1]], text)
    return text.replace("{{ $value }}", value)


def case(rule):
    series, labels, value = FIRES[rule["alert"]]
    quiet, firing = WHEN.get(rule["alert"], ("29m", "50m"))
    alert = {"exp_labels": labels | rule["labels"],
             "exp_annotations": {k: told(v, labels, value) for k, v in rule["annotations"].items()}}
    return {"interval": "1m",
            "input_series": [{"series": labelled(name, of), "values": values} for name, of, values in series],
            "alert_rule_test": [{"eval_time": quiet, "alertname": rule["alert"], "exp_alerts": []},
                                {"eval_time": firing, "alertname": rule["alert"], "exp_alerts": [alert]}]}


def test_each_alert_fires_and_names_a_first_step(tmp_path):
    assert {rule["alert"] for rule in RULES} == set(FIRES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning") and set(rule["annotations"]) == {"summary", "action"}
    made = {"rule_files": [str(OBSERVE / "alerts.yml")], "evaluation_interval": "1m",
            "tests": [case(rule) for rule in RULES]}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(made))
    subprocess.run(["promtool", "check", "rules", str(OBSERVE / "alerts.yml")], check=True)
    subprocess.run(["promtool", "test", "rules", "tests.yml"], cwd=tmp_path, check=True)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """A real server that scrapes a real cluster, as docs/monitoring.md says; ask(query) asks it."""
    folder = tmp_path_factory.mktemp("prometheus")
    with Cluster() as cluster, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        (folder / "token").write_text(cluster.token)
        scrape = {"job_name": "holdfast", "scheme": "https", "metrics_path": "/v1/sys/metrics",
                  "tls_config": {"ca_file": str(cluster.dir / "tls" / "tls-ca.pem")},
                  "authorization": {"credentials_file": str(folder / "token")},
                  "static_configs": [{"targets": [node.url.removeprefix("https://") for node in cluster.nodes],
                                      "labels": {"cluster": "a"}}]}
        config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "scrape_configs": [scrape],
                  "rule_files": [str(OBSERVE / "alerts.yml")]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                   f"--web.listen-address=127.0.0.1:{port}"]
        with subprocess.Popen(command, stderr=(folder / "log").open("wb")) as process:

            def ask(query):
                url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
                try:
                    with urllib.request.urlopen(url, timeout=60) as answer:
                        return json.loads(answer.read())["data"]["result"]
                except urllib.error.URLError:
                    assert process.poll() is None, (folder / "log").read_text()
                    return []  # it is starting

            try:
                yield cluster, ask
            finally:
                process.terminate()


def test_every_query_of_the_dashboard_returns_data(prometheus):
    cluster, ask = prometheus
    dashboard = json.loads((OBSERVE / "dashboard.json").read_text())
    queries = [target["expr"].replace("$cluster", ".*").replace("$__rate_interval", "1m")
               for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(queries) >= 20 and not [query for query in queries if "$" in query]
    deadline = time.monotonic() + 120
    empty = queries
    while empty:
        assert time.monotonic() < deadline, empty
        for node in cluster.nodes:
            assert node.call("PUT", "/v1/kv/observed", {"x": "1"}).status == 204
            assert node.call("GET", "/v1/kv/observed").status == 200
        empty = [query for query in empty if not ask(query)]
        time.sleep(0.5)
    assert [alert["metric"]["alertname"] for alert in ask('ALERTS{alertstate="firing"}')] == []
