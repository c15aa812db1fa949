"""Upstream's Go client of the scheduler, unmodified, against listeners of the scheduler alone."""

import os
import pathlib
import shutil
import subprocess

from cluster import TOP, free_ports
from scheduler import SchedulerCluster


def go():
    packaged = sorted(pathlib.Path("/usr/lib").glob("go-*/bin/go"), reverse=True)
    return shutil.which("go") or str(packaged[0])


class OwnListeners(SchedulerCluster):
    def __init__(self):
        super().__init__()
        tls = self.dir / "tls"
        self.urls = []
        for node, port in zip(self.nodes, free_ports(3)):
            files = {"tls_cert_file": str(tls / f"tls-{node.name}.pem"),
                     "tls_key_file": str(tls / f"tls-{node.name}-key.pem")}
            own = {"address": f"127.0.0.1:{port}", "apis": ["scheduler"], **files}
            shared = {"address": f"127.0.0.1:{node.client_port}", **files}
            node.config = {**node.config, "listener": [{"tcp": shared}, {"tcp": own}]}
            self.urls.append(f"https://127.0.0.1:{port}")


def test_upstreams_client_lists_acts_and_executes_through_every_server():
    with OwnListeners() as cluster:
        cluster.add_agent("agent1")
        env = {**os.environ, "ADDRESSES": ",".join(cluster.urls), "NOMAD_TOKEN": cluster.token,
               "NOMAD_CACERT": str(cluster.dir / "tls" / "tls-ca.pem")}
        done = subprocess.run([go(), "test", "-count=1", "./..."], env=env, capture_output=True, text=True,
                              cwd=TOP / "tests" / "conformance" / "scheduler", timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
