"""What the document promises, held against every call of the integration tests, which come first.

    tests/run integration contract
"""

import json
import os
import pathlib

import pytest

import recorder
import routes
import schema
from cluster import Cluster

SPECS = "/v1/sys/internal/specs/openapi"
RECORDS = pathlib.Path(os.environ.get("HOLDFAST_RECORDS", "none"))
WRAPPED = {"request_id", "lease_id", "renewable", "lease_duration", "data", "wrap_info", "warnings",
           "auth", "mount_type"}


def powerless(cluster):
    node = cluster.nodes[0]
    policy = {"policy": 'path "nothing/here" { capabilities = ["read"] }'}
    assert node.call("PUT", "/v1/sys/policies/acl/nothing", policy).status == 204
    body = {"policies": ["nothing"], "no_default_policy": True}
    answer = node.call("POST", "/v1/auth/token/create", body)
    token = answer.json["auth"]["client_token"]
    recorder.powerless.add(token)
    return token


def call_the_rare(node):
    """What no other test has a reason to call."""
    node.call("POST", "/v1/auth/token/lookup-self", {})
    merge = {"Content-Type": "application/merge-patch+json"}
    node.call("PATCH", "/v1/secret/sample", {}, headers=merge)
    wrapped = node.call("POST", "/v1/sys/wrapping/wrap", {"a": "b"},
                        headers={"X-Vault-Wrap-TTL": "60"}).json["wrap_info"]["token"]
    node.call("GET", f"/v1/sys/wrapping/lookup?token={wrapped}")
    node.call("POST", "/v1/sys/wrapping/lookup", {"token": wrapped})


@pytest.fixture(scope="module")
def asked():
    """The document, its operations, and all records: of the suite before and of what follows."""
    assert RECORDS.is_dir(), "run it with tests/run, behind the integration tests"
    with Cluster() as cluster:
        document = cluster.nodes[0].call("GET", SPECS).json
        found = routes.operations(document)
        token = powerless(cluster)
        for op in found:
            body = {} if op.method in ("POST", "PATCH") else None
            headers = {"Content-Type": "application/merge-patch+json"} if body == {} else {}
            for each in ("", token):
                cluster.nodes[0].call(op.method, op.sample(), body, each, headers, timeout_s=60)
        for op in found:  # what does no harm is tried with every right as well
            if op.method in ("GET", "LIST", "HEAD") or op.auth == "none":
                body = {} if op.method == "POST" else None
                cluster.nodes[0].call(op.method, op.sample(), body, timeout_s=60)
        call_the_rare(cluster.nodes[0])
    records = []
    for file in sorted(RECORDS.glob("*.jsonl")):
        with open(file) as lines:
            records += [json.loads(line) for line in lines]
    assert len(records) > 500, "the integration tests left no records"
    return document, found, [(routes.match(found, r), r) for r in records]


def is_wrapped(body):
    return isinstance(body, dict) and bool(body.get("wrap_info")) and set(body) <= WRAPPED


def fault(document, op, record):
    """What is wrong with one answer, or None."""
    status, body = record["status"], record["body"]
    response = op.response(document, status)
    if status in (307, 429) and response is None:
        return None
    if response is None:
        return f"{status} is not said"
    content = response.get("content", {})
    if record["method"] == "HEAD" or body is None:
        return None
    if not content or not body:
        return "a body" if body else "no body" if content else None
    if "application/json" not in content:
        kind = next(iter(content))
        return None if (record["type"] or "").startswith(kind) else f"type {record['type']}"
    if record["type"] != "application/json":
        return f"type {record['type']}"
    value = json.loads(body)
    if is_wrapped(value):
        return None
    return schema.check(document, content["application/json"]["schema"], value) or None


def test_every_answer_is_as_the_document_says(asked):
    document, _, records = asked
    faults = {}
    for op, record in records:
        wrong = fault(document, op, record) if op is not None else None
        if wrong:
            faults.setdefault(f"{op} {record['status']}", f"{wrong} {(record['body'] or '')[:300]}")
    assert not faults, "\n".join(f"{op}: {text}" for op, text in sorted(faults.items()))


def test_nothing_is_served_that_is_not_in_the_document(asked):
    strange = {
        f"{r['method']} {r['path']}"
        for op, r in asked[2]
        if op is None and r["status"] < 300 and routes.method_of(r) != "HELP" and r["engine"] is not None
    }
    assert not strange, "\n".join(sorted(strange))


def test_every_operation_was_called_with_success(asked):
    _, found, records = asked
    good = {
        op for op, r in records
        if op is not None and (r["status"] < 300 or (op.astray and 400 <= r["status"] < 500))
    }
    missing = [str(op) for op in found if op not in good]
    assert not missing, "never called with success:\n" + "\n".join(missing)


def test_every_operation_was_tried_with_each_kind_of_token(asked):
    _, found, records = asked
    seen = {}
    for op, r in records:
        if op is not None:
            seen.setdefault((op, r["token"]), set()).add(r["status"])
    wrong = []
    for op in found:
        for kind in ("none", "powerless", "good"):
            codes = seen.get((op, kind), set())
            if not codes:
                wrong.append(f"{op}: not tried with {kind}")
            elif kind != "good" and op.auth == "token" and not codes <= {403, 400, 404, 413, 503}:
                wrong.append(f"{op}: {sorted(codes)} with {kind}")
            elif kind != "good" and op.auth == "token" and 403 not in codes:
                wrong.append(f"{op}: never refused with {kind}")
            elif kind == "none" and op.auth == "none" and codes == {403}:
                wrong.append(f"{op}: refused without a token")
    assert not wrong, "\n".join(wrong)
