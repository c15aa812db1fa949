"""The trail of audit devices on real nodes: each call is recorded once, by the node that runs it,
and no secret is in clear."""

import collections
import json

from test_audit import disable, enable

SECRET = "planted-secret"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def request_id(answer):
    """The id that the trail has: in the envelope of a success, in a header of an error."""
    if answer.status < 300:
        return answer.json["request_id"]
    return answer.headers["X-Vault-Request-ID"]


def calls(cluster, i, node):
    """Calls of many kinds through one node; gives their answers."""
    write = node.call("PUT", f"/v1/kv2/data/trail/{i}", {"data": {"a": SECRET, "b": [SECRET, 1]}})
    yield write, 200
    yield node.call("GET", f"/v1/kv2/data/trail/{i}"), 200
    yield node.call("LIST", "/v1/kv2/metadata/trail"), 200
    yield node.call("GET", f"/v1/kv2/data/absent/{i}"), 404
    yield node.call("GET", f"/v1/kv2/data/trail/{i}", token=SECRET), 403
    yield node.call("PUT", f"/v1/kv2/data/trail/{i}", {"data": SECRET}), 400
    made = node.call("POST", "/v1/auth/token/create", {"id": f"{SECRET}-{i}", "ttl": "1h"})
    yield made, 200
    yield node.call("GET", "/v1/auth/token/lookup-self", token=made.json["auth"]["client_token"]), 200
    yield node.call("POST", "/v1/auth/token/lookup", {"token": f"{SECRET}-{i}"}), 200
    wrapped = node.call("GET", f"/v1/kv2/data/trail/{i}", headers={"X-Vault-Wrap-TTL": "60s"})
    assert wrapped.status == 200
    token = wrapped.json["wrap_info"]["token"]
    assert node.call("POST", "/v1/sys/wrapping/unwrap", {"token": token}).status == 200


def test_each_call_is_recorded_once_and_hides_its_secrets(cluster):
    path = cluster.dir / "trail.log"
    assert cluster.nodes[0].call("POST", "/v1/sys/mounts/kv2", {"type": "kv-v2"}).status == 204
    assert enable(cluster.nodes[0], "trail", {"file_path": str(path)}).status == 204
    told = {}
    for i, node in enumerate(cluster.nodes):
        for answer, status in calls(cluster, i, node):
            assert answer.status == status, answer.body
            told[request_id(answer)] = status
        assert node.call("GET", "/v1/sys/health").status in (200, 429, 473)
    assert disable(cluster.nodes[0], "trail").status == 204
    assert cluster.nodes[0].call("DELETE", "/v1/sys/mounts/kv2").status == 204

    trail = lines(path)
    asked = collections.Counter(x["request"]["id"] for x in trail if x["type"] == "request")
    answered = collections.Counter(x["request"]["id"] for x in trail if x["type"] == "response")
    for one, status in told.items():
        assert asked[one] == 1 and answered[one] == 1, (one, status)
    assert not answered - asked
    for record in trail:
        assert record["request"]["path"] != "sys/health"
    statuses = {x["request"]["id"]: x["response"]["http_status"] for x in trail if "response" in x}
    assert {one: statuses[one] for one in told} == told
    text = path.read_text()
    assert SECRET not in text and '"hvs.' not in text
