"""What the document of each API promises, held against every call of the integration tests and of
upstream's clients, which come first.

    tests/run integration conformance contract
"""

import json
import os
import pathlib

import pytest

import judge
import recorder
import routes
from registry import RegistryCluster

SPECS = "/v1/sys/internal/specs/openapi"
RECORDS = pathlib.Path(os.environ.get("HOLDFAST_RECORDS", "none"))
CLIENTS = {"secrets": {"tests", "hvac", "vault", "openbao"}, "registry": {"tests", "consul"},
           "scheduler": {"tests"}}
HEADER = {"secrets": "X-Secrets-Token", "registry": "X-Registry-Token",
          "scheduler": "X-Scheduler-Token"}


def powerless(cluster):
    node = cluster.nodes[0]
    policy = {"policy": 'path "nothing/here" { capabilities = ["read"] }'}
    assert node.call("PUT", "/v1/sys/policies/acl/nothing", policy).status == 204
    body = {"policies": ["nothing"], "no_default_policy": True}
    answer = node.call("POST", "/v1/auth/token/create", body)
    token = answer.json["auth"]["client_token"]
    recorder.powerless.add(token)
    return token


def powerless_in_registry(cluster):
    headers = {HEADER["registry"]: cluster.token}
    answer = cluster.nodes[0].call("PUT", "/v1/acl/token", {"Description": "weak"}, "", headers)
    assert answer.status == 200, answer.body
    recorder.powerless.add(answer.json["SecretID"])
    return answer.json["SecretID"]


def powerless_in_scheduler(cluster):
    node, headers = cluster.nodes[0], {HEADER["scheduler"]: cluster.token}
    rules = {"Rules": 'namespace "default" { policy = "deny" }'}
    assert node.call("PUT", "/v1/scheduler/acl/policy/weak", rules, "", headers).status == 200
    answer = node.call("PUT", "/v1/scheduler/acl/token", {"Policies": ["weak"]}, "", headers)
    assert answer.status == 200, answer.body
    recorder.powerless.add(answer.json["SecretID"])
    return answer.json["SecretID"]


POWERLESS = {"secrets": powerless, "registry": powerless_in_registry, "scheduler": powerless_in_scheduler}


def call_the_rare(node, weak):
    """What no other test has a reason to call."""
    node.call("POST", "/v1/auth/token/lookup-self", {})
    merge = {"Content-Type": "application/merge-patch+json"}
    node.call("PATCH", "/v1/secret/sample", {}, headers=merge)
    wrapped = node.call("POST", "/v1/sys/wrapping/wrap", {"a": "b"},
                        headers={"X-Vault-Wrap-TTL": "60"}).json["wrap_info"]["token"]
    node.call("GET", f"/v1/sys/wrapping/lookup?token={wrapped}")
    node.call("POST", "/v1/sys/wrapping/lookup", {"token": wrapped})
    for name in ("unwrap", "rewrap"):  # a token in the body needs a right to the path
        answer = node.call("POST", f"/v1/sys/wrapping/{name}", {"token": wrapped}, token=weak)
        assert answer.status == 403, answer.body
    managing = {HEADER["registry"]: node.cluster.token}
    node.call("PUT", "/v1/acl/policy/name/rare", {"Description": "by name"}, "", managing)


def call(node, api, op, token):
    headers = {HEADER[api]: token} if token else {}
    if op.method == "PATCH":
        headers["Content-Type"] = "application/merge-patch+json"
    return node.call(op.method, op.sample(), op.body(), "", headers, timeout_s=60)


def call_all(cluster, api, found):
    node, weak = cluster.nodes[0], POWERLESS[api](cluster)
    for op in found:
        for token in ("", weak):
            call(node, api, op, token)
    for op in found:  # what does no harm is tried with every right as well
        if op.path == "/sys/monitor":
            continue  # the reply has no end
        if op.method in ("GET", "LIST", "HEAD") or op.auth == "none":
            call(node, api, op, cluster.token)


class Asked:
    """The document of an API, its operations, and pairs of operation and record."""

    def __init__(self, api, documents, found, records):
        self.api, self.document, self.found = api, documents[api], found
        mine = routes.of_api(api, documents, records)
        self.calls = [(routes.match(found, r), r) for r in mine]


@pytest.fixture(scope="module")
def everything():
    """By API, with all records: of the suite before and of what follows."""
    assert RECORDS.is_dir(), "run it with tests/run, behind the other suites"
    with RegistryCluster() as cluster:
        node = cluster.nodes[0]
        for engine in ("transform", "ssh"):
            node.call("POST", f"/v1/sys/mounts/{engine}", {"type": engine})
        for method in ("userpass", "approle"):
            node.call("POST", f"/v1/sys/auth/{method}", {"type": method})
        documents = {api: node.call("GET", f"{SPECS}?api={api}").json for api in CLIENTS}
        found = {api: routes.operations(document) for api, document in documents.items()}
        for api in CLIENTS:
            call_all(cluster, api, found[api])
        call_the_rare(node, powerless(cluster))
    records = []
    for file in sorted(RECORDS.glob("*.jsonl")):
        with open(file) as lines:
            records += [json.loads(line) for line in lines]
    assert len(records) > 500, "the suites before left no records"
    return {api: Asked(api, documents, found[api], records) for api in CLIENTS}


@pytest.fixture(params=CLIENTS)
def asked(request, everything):
    return everything[request.param]


def test_every_answer_is_as_the_document_says(asked):
    wrong = judge.off_schema(asked.document, asked.calls)
    assert not wrong, "\n".join(wrong)


def test_nothing_is_served_that_is_not_in_the_document(asked):
    strange = judge.unknown(asked.calls)
    assert not strange, "\n".join(strange)


def test_every_refusal_says_why(asked):
    wrong = judge.unexplained(asked.calls, asked.api)
    assert not wrong, "\n".join(wrong)


def test_every_operation_was_called_with_success(asked):
    missing = judge.never_called(asked.found, asked.calls)
    assert not missing, "never called with success:\n" + "\n".join(missing)


def test_every_operation_was_tried_with_each_kind_of_token(asked):
    wrong = judge.untried(asked.found, asked.calls, asked.api)
    assert not wrong, "\n".join(wrong)


def test_the_calls_of_every_client_were_judged(asked):
    heard = {record["client"] for op, record in asked.calls if op is not None}
    assert heard == CLIENTS[asked.api], "a suite before this one did not run"
