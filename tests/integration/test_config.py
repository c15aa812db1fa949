"""Mistakes of the operator: refused with what is wrong, and nothing is lost by them."""

import pytest

from cluster import Cluster


def ends_with(node, *texts):
    """The node refuses to start and says why."""
    before = len(node.log_text())
    node.start()
    assert node.process.wait(20) == 1
    said = node.log_text()[before:]
    for text in texts:
        assert text in said, said
    return said


@pytest.mark.parametrize("field", ["ca_file", "cert_file", "key_file"])
@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_lost_file_of_the_cluster_port_costs_no_data(tmp_path, field, content):
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_bytes(content)
    with Cluster() as cluster:
        assert cluster.active().call("PUT", "/v1/kv/kept", {"n": 1}).status == 204
        for node in cluster.nodes:
            assert node.stop() == 0
            node.config = {"cluster": {field: str(path)}}
        for node in cluster.nodes:
            said = ends_with(node, str(path))
            assert "joins as" not in said
            node.config = {}
        cluster.start()
        cluster.await_up()
        for node in cluster.nodes:
            assert node.call("GET", "/v1/kv/kept").data == {"n": 1}
