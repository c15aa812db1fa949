"""What the document promises, held against every call of the integration tests and of upstream's
clients, which come first.

    tests/run integration conformance contract
"""

import json
import os
import pathlib

import pytest

import judge
import recorder
import routes
from cluster import Cluster

SPECS = "/v1/sys/internal/specs/openapi"
RECORDS = pathlib.Path(os.environ.get("HOLDFAST_RECORDS", "none"))


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
    assert RECORDS.is_dir(), "run it with tests/run, behind the other suites"
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
            if op.path == "/sys/monitor":
                continue  # the reply has no end
            if op.method in ("GET", "LIST", "HEAD") or op.auth == "none":
                body = {} if op.method == "POST" else None
                cluster.nodes[0].call(op.method, op.sample(), body, timeout_s=60)
        call_the_rare(cluster.nodes[0])
    records = []
    for file in sorted(RECORDS.glob("*.jsonl")):
        with open(file) as lines:
            records += [json.loads(line) for line in lines]
    assert len(records) > 500, "the suites before left no records"
    return document, found, [(routes.match(found, r), r) for r in records]


def test_every_answer_is_as_the_document_says(asked):
    document, _, calls = asked
    wrong = judge.off_schema(document, calls)
    assert not wrong, "\n".join(wrong)


def test_nothing_is_served_that_is_not_in_the_document(asked):
    strange = judge.unknown(asked[2])
    assert not strange, "\n".join(strange)


def test_every_refusal_has_a_list_of_errors(asked):
    wrong = judge.unexplained(asked[2])
    assert not wrong, "\n".join(wrong)


def test_every_operation_was_called_with_success(asked):
    missing = judge.never_called(*asked[1:])
    assert not missing, "never called with success:\n" + "\n".join(missing)


def test_every_operation_was_tried_with_each_kind_of_token(asked):
    wrong = judge.untried(*asked[1:])
    assert not wrong, "\n".join(wrong)


def test_the_calls_of_every_client_were_judged(asked):
    heard = {record["client"] for op, record in asked[2] if op is not None}
    assert heard == {"tests", "hvac", "vault", "openbao"}, "a suite before this one did not run"
