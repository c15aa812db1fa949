"""Clusters whose nodes serve the registry: beside the secrets service, and on a listener of its own."""

import leaks
import recorder
from cluster import Cluster, free_ports, merged

JSON, TEXT = "application/json", "text/plain; charset=utf-8"


class Listener:
    """A second listener of a node, which serves the registry alone."""

    def __init__(self, node, port):
        self.node, self.port = node, port

    def call(self, method, path, body=None, token="", headers=None):
        first, self.node.client_port = self.node.client_port, self.port
        try:
            return self.node.call(method, path, body, token, headers)
        finally:
            self.node.client_port = first


class RegistryCluster(Cluster):
    """`open`: its configuration lets clients without a token do what needs a right elsewhere, so the
    contract test does not judge its calls."""

    def __init__(self, size=3, config=None, open=False):
        self.recorded = type(self).recorded and not open
        super().__init__(size)
        tls = self.dir / "tls"
        for node, port in zip(self.nodes, free_ports(size)):
            files = {
                "tls_cert_file": str(tls / f"tls-{node.name}.pem"),
                "tls_key_file": str(tls / f"tls-{node.name}-key.pem"),
            }
            own = {"address": f"127.0.0.1:{port}", "apis": ["registry"], **files}
            shared = {"address": f"127.0.0.1:{node.client_port}", **files}
            listeners = {"listener": [{"tcp": shared}, {"tcp": own}], "datacenter": "east"}
            node.config = merged(listeners, config or {})
            node.registry = Listener(node, port)
            recorder.know_api(port, node.client_port, "registry")
            leaks.watch(port, self.secrets)


def ask(at, method, path, body=None, token=None):
    """Status, text and headers of a reply, whose headers are checked."""
    headers = {"X-Consul-Token": token} if token else {}
    answer = at.call(method, "/v1/" + path, body, "", headers)
    assert answer.headers["Vary"] == "Accept-Encoding", answer.headers
    for name in ("X-Registry-", "X-Consul-"):
        assert answer.headers[name + "Default-ACL-Policy"] == "deny"
    if answer.status >= 400:
        assert answer.headers["Content-Type"] == TEXT
    return answer.status, answer.body.decode(), answer.headers


def everywhere(cluster):
    return [at for node in cluster.nodes for at in (node, node.registry)]


def index_of(answer):
    """The index of a result, which both spellings of the header tell."""
    index = int(answer.headers["X-Consul-Index"])
    assert index == int(answer.headers["X-Registry-Index"]) >= 1
    return index
