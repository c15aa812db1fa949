"""Receivers of audit records that others wrote: rsyslogd and socat. And the commands about devices."""

import contextlib
import itertools
import json
import re
import subprocess

import pytest
from cluster import Unaudited, free_ports
from commands import Cli
from test_audit import await_true, devices, disable, enable, metrics
from test_reload import await_log

CLUSTER = Unaudited


@pytest.fixture
def cli(cluster, tmp_path):
    return Cli(cluster, tmp_path)


@pytest.fixture(scope="module", autouse=True)
def steady(cluster):
    """A device that always takes records, so that requests go on while another one fails."""
    assert enable(cluster.active(), "steady", {"file_path": "discard"}).status == 204
    yield
    assert disable(cluster.active(), "steady").status == 204


@contextlib.contextmanager
def running(*command):
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def records(path):
    """The records in a file, each behind whatever the receiver wrote before it."""
    if not path.exists():
        return []
    lines = [line for line in path.read_text().splitlines() if "{" in line]
    return [json.loads(line[line.index("{"):]) for line in lines]


def has_test_record(path):
    return any(r["request"]["path"] == "sys/audit/test" for r in records(path))


@pytest.mark.parametrize("kind", ["tcp", "udp", "unix"])
def test_socat_receives(cluster, tmp_path, kind):
    port, out, sock = free_ports(1)[0], tmp_path / "out", tmp_path / "s"
    where = {"tcp": f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork",
             "udp": f"UDP-RECV:{port},bind=127.0.0.1", "unix": f"UNIX-LISTEN:{sock},fork"}[kind]
    address = str(sock) if kind == "unix" else f"127.0.0.1:{port}"
    node = cluster.active()
    with running("socat", "-u", where, f"OPEN:{out},creat,append"):
        def enabled():  # udp is lost, and tcp refused, until socat has begun
            made = enable(node, f"socat-{kind}", {"address": address, "socket_type": kind},
                          kind="socket").status
            if made == 204 and kind == "udp" and not has_test_record(out):
                assert disable(node, f"socat-{kind}").status == 204
                return False
            return made == 204
        await_true(enabled)
        await_true(lambda: has_test_record(out))
        for each in cluster.nodes:
            await_true(lambda n=each: devices(n)[f"socat-{kind}/"]["status"] == "open")
    assert disable(node, f"socat-{kind}").status == 204


def test_rsyslogd_receives_and_is_started_anew_while_requests_run(tmp_path):
    config, out, log = tmp_path / "rsyslog.conf", tmp_path / "out", "/dev/log"
    config.write_text(f'module(load="imuxsock" SysSock.Use="off")\n'
                      f'input(type="imuxsock" Socket="{log}" CreatePath="off"'
                      f' RateLimit.Interval="0")\n'
                      f'global(workDirectory="{tmp_path}" maxMessageSize="64k")\n'
                      f'*.* action(type="omfile" file="{out}")\n')
    daemon = ("rsyslogd", "-n", "-f", str(config), "-i", str(tmp_path / "pid"))

    def ids(path):
        return {(r["request"]["id"], r["type"]) for r in records(path)
                if not r["request"]["path"].startswith("sys/audit/")}

    with Unaudited(size=1) as cluster:
        node, path = cluster.nodes[0], cluster.dir / "all.log"
        assert enable(node, "all", {"file_path": str(path)}).status == 204
        sent = itertools.count()

        def ask():
            assert node.call("PUT", f"/v1/kv/log/{next(sent)}", {"a": "b"}).status == 204

        with running(*daemon):
            await_true(lambda: enable(node, "log", {"tag": "trail", "facility": "LOCAL3"},
                                      kind="syslog").status == 204)
            await_true(lambda: has_test_record(out))
            assert " trail" in out.read_text()
            for _ in range(20):
                ask()
            await_true(lambda: ids(out) == ids(path))
        for _ in range(50):
            ask()
        assert "/dev/log: " in devices(node)["log/"]["error"]
        assert 'holdfast_audit_device_up{device="log/"} 0' in metrics(node)
        missed = ids(path) - ids(out)
        with running(*daemon):
            await_true(lambda: ask() or devices(node)["log/"]["status"] == "open")
            ask()
            await_log(node, "device log/ works again; it missed ")
            last = next(sent) - 1
            await_true(lambda: f"kv/log/{last}" in out.read_text())
            lost = ids(path) - ids(out)
            assert lost >= missed and len(missed) >= 100
            told = re.findall(r"device log/ works again; it missed (\d+) records", node.log_text())
            assert int(told[-1]) == len(lost)  # the first may be of a failed try to enable it
            failures = f'holdfast_audit_failures_total{{device="log/"}} {len(lost)}\n'
            assert failures in metrics(node)


def test_the_commands_list_enable_and_disable(cli):
    assert "steady/" in cli("audit", "list").stdout
    cli("audit", "disable", "steady")
    assert "No audit devices are enabled." in cli("audit", "list", code=2).stderr
    assert cli.json("audit", "list") == {}
    cli("audit", "enable", "-path=steady", "file", "file_path=discard")
    done = cli("audit", "enable", "-description=for people", "-local", "file", "file_path=discard",
               "mode=0600")
    assert done.stdout == "Success! Enabled the file audit device at: file/\n"
    done = cli("audit", "enable", "-path=a/b", "file", "file_path=discard")
    assert done.stdout == "Success! Enabled the file audit device at: a/b/\n"
    listed = cli("audit", "list").stdout.splitlines()
    assert [line.split() for line in listed if "---" not in line] == [
        ["Path", "Type", "Description"], ["a/b/", "file"],
        ["file/", "file", "for", "people"], ["steady/", "file"]]
    detailed = cli("audit", "list", "-detailed").stdout
    assert "Replication" in detailed and "local" in detailed and "replicated" in detailed
    assert "file_path=discard mode=0600" in detailed and "open" in detailed
    assert set(cli.json("audit", "list")) == {"a/b/", "file/", "steady/"}
    assert "path already in use" in cli("audit", "enable", "file", "file_path=discard",
                                        code=2).stderr
    assert "file_path" in cli("audit", "enable", "-path=c", "file", code=2).stderr
    cli("audit", "enable", code=1)
    for path in ("file", "a/b/", "none"):
        done = cli("audit", "disable", path)
        assert done.stdout == ("Success! Disabled audit device (if it was enabled) at: "
                               f"{path.strip('/')}/\n")
    cli("audit", "disable", code=1)
    assert set(cli.json("audit", "list")) == {"steady/"}


def test_a_device_that_one_node_cannot_open_says_so_through_it():
    """Its configuration does not list the directory, as after an upgrade from an older version."""
    with Unaudited() as cluster:
        broken, path = cluster.standbys()[0], cluster.dir / "trail.log"
        broken.stop()
        broken.config = {"audit": {"directories": [str(broken.dir)]}}
        broken.start()
        cluster.await_up()
        if broken is cluster.active():
            assert broken.call("PUT", "/v1/sys/step-down").status == 204
            cluster.await_until(lambda: cluster.active() not in (None, broken))
        assert enable(cluster.active(), "all", {"file_path": "discard"}).status == 204
        assert enable(cluster.active(), "trail", {"file_path": str(path)}).status == 204
        await_true(lambda: devices(broken)["trail/"]["status"] == "failing")
        said = devices(broken)["trail/"]["error"]
        assert str(path) in said and "audit { directories = [...] }" in said
        assert 'holdfast_audit_device_up{device="trail/"} 0' in metrics(broken)
        assert 'holdfast_audit_device_up{device="all/"} 1' in metrics(broken)
        assert "holdfast_audit_mute 0" in metrics(broken)
        for node in cluster.nodes:
            if node is not broken:
                await_true(lambda n=node: devices(n)["trail/"]["status"] == "open")
        broken.stop()
        broken.config = {}
        broken.start()
        cluster.await_up()
        await_true(lambda: devices(broken)["trail/"]["status"] == "open")

