"""The judge finds each kind of fault, in a small document and in requests with exactly one fault."""

import copy
import json

import pytest

import judge
import routes

NAMED = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}},
         "additionalProperties": False}
DOCUMENT = {
    "paths": {
        "/sys/thing": {"get": {
            "x-holdfast-method": "GET", "x-holdfast-auth": "token",
            "responses": {
                "200": {"content": {"application/json": {"schema": {
                    "type": "object", "properties": {"data": NAMED}}}}},
                "default": {"$ref": "#/components/responses/Error"},
            }}},
        "/sys/open": {"post": {
            "x-holdfast-method": "POST", "x-holdfast-auth": "none",
            "responses": {"204": {}, "default": {"$ref": "#/components/responses/Error"}}}},
    },
    "components": {"responses": {"Error": {"content": {"application/json": {"schema": {
        "type": "object", "required": ["errors"]}}}}}},
}


def call(method, path, token, status, body):
    text = "" if body is None else json.dumps(body)
    return {"client": "tests", "method": method, "path": path, "engine": "", "rest": path,
            "query": "", "token": token, "status": status, "type": "application/json", "body": text}


REFUSAL = {"errors": ["permission denied"]}
RECORDS = [
    call("GET", "sys/thing", "none", 403, REFUSAL),
    call("GET", "sys/thing", "powerless", 403, REFUSAL),
    call("GET", "sys/thing", "good", 200, {"data": {"name": "a"}}),
    call("PUT", "sys/open", "none", 204, None),
    call("POST", "sys/open", "powerless", 204, None),
    call("POST", "sys/open", "good", 204, None),
]


def faults(document, records):
    """What the judge says, by kind."""
    found = routes.operations(document)
    calls = [(routes.match(found, r), r) for r in records]
    said = {"off_schema": judge.off_schema(document, calls), "unknown": judge.unknown(calls),
            "unexplained": judge.unexplained(calls),
            "never_called": judge.never_called(found, calls), "untried": judge.untried(found, calls)}
    return {kind: wrong for kind, wrong in said.items() if wrong}


def changed(at, **members):
    records = copy.deepcopy(RECORDS)
    records[at].update(members)
    return records


TEXT = "text/plain; charset=utf-8"
REGISTRY = {
    "paths": {"/acl/thing": {"put": {
        "x-holdfast-method": "PUT", "x-holdfast-auth": "token",
        "responses": {
            "200": {"content": {"application/json": {"schema": NAMED}}},
            "default": {"$ref": "#/components/responses/Error"}}}}},
    "components": {"responses": {"Error": {"content": {"text/plain": {"schema": {
        "type": "string"}}}}}},
}
DOCUMENTS = {"secrets": DOCUMENT, "registry": REGISTRY}


def registry_call(path, status, body, kind=TEXT, method="PUT", api=None, token="good"):
    return {"client": "tests", "method": method, "path": path, "engine": None, "rest": path, "query": "",
            "api": api, "tokens": {"registry": token, "secrets": "none"}, "status": status, "type": kind,
            "body": body}


def registry_faults(records):
    found = routes.operations(REGISTRY)
    calls = [(routes.match(found, r), r) for r in routes.of_api("registry", DOCUMENTS, records)]
    said = {"off_schema": judge.off_schema(REGISTRY, calls), "unknown": judge.unknown(calls),
            "unexplained": judge.unexplained(calls, "registry"),
            "never_called": judge.never_called(found, calls),
            "untried": judge.untried(found, calls, "registry")}
    return {kind: wrong for kind, wrong in said.items() if wrong}


SERVED = [
    registry_call("acl/thing", 200, '{"name": "a"}', "application/json"),
    registry_call("acl/thing", 403, "ACL not found", token="powerless"),
    registry_call("acl/thing", 403, "Permission denied: no", token="none"),
]


def test_a_call_is_judged_by_the_document_of_its_api():
    assert registry_faults(SERVED) == {}
    alone = [{**r, "api": "registry"} for r in SERVED]
    assert registry_faults(alone) == {}
    other = [{**r, "api": "secrets"} for r in SERVED]
    assert "never_called" in registry_faults(other)
    assert routes.of_api("secrets", DOCUMENTS, SERVED) == []
    (mine,) = routes.of_api("secrets", DOCUMENTS, [{**SERVED[0], "path": "sys/thing"}])
    assert mine["token"] == "none"


@pytest.mark.parametrize("more, kind", [
    (registry_call("acl/other", 200, "[]", "application/json"), "unknown"),
    (registry_call("sys/health", 200, "{}", "application/json", "GET", "registry"), "unknown"),
    (registry_call("acl/other", 404, "", method="GET"), "unexplained"),
    (registry_call("acl/other", 404, '{"errors": []}', "application/json", "GET"), "unexplained"),
    (registry_call("acl/thing", 200, "true", "application/json"), "off_schema"),
    (registry_call("acl/thing", 200, '{"name": "a"}'), "off_schema"),
    (registry_call("acl/thing", 200, '{"name": "a"}', "application/json", token="powerless"), "untried"),
])
def test_faults_of_calls_for_another_api(more, kind):
    assert kind in registry_faults([*SERVED, more])


def test_another_method_is_another_operation():
    posted = [{**r, "method": "POST"} for r in SERVED]
    assert {"unknown", "never_called"} <= set(registry_faults(posted))


def test_what_is_right_is_not_faulted():
    assert faults(DOCUMENT, RECORDS) == {}


def test_a_route_that_is_not_in_the_document():
    more = call("GET", "sys/other", "good", 200, {"data": {}})
    assert faults(DOCUMENT, [*RECORDS, more]) == {"unknown": ["GET sys/other"]}
    less = {**DOCUMENT, "paths": {"/sys/thing": DOCUMENT["paths"]["/sys/thing"]}}
    assert list(faults(less, RECORDS)) == ["unknown"]


def test_a_route_that_was_never_called():
    refused = [r for r in RECORDS if r["path"] != "sys/thing" or r["token"] != "good"]
    refused.append(call("GET", "sys/thing", "good", 404, REFUSAL))
    assert faults(DOCUMENT, refused) == {"never_called": ["GET /sys/thing"]}


def test_a_route_that_needs_a_module_is_refused_instead():
    path = "/sys/leases/renew"
    item = {"post": {**DOCUMENT["paths"]["/sys/thing"]["get"], "x-holdfast-method": "POST"}}
    op = routes.Operation(path, "post", item)
    assert judge.never_called([op], [(op, {"status": 403})]) == [f"POST {path}"]
    assert judge.never_called([op], [(op, {"status": 400})]) == []


@pytest.mark.parametrize("body", [
    {"data": {}}, {"data": {"name": 1}}, {"data": None}, [], {"data": {"name": "a", "more": 1}}])
def test_an_answer_off_its_schema(body):
    assert list(faults(DOCUMENT, changed(2, body=json.dumps(body)))) == ["off_schema"]


def test_an_answer_of_another_kind_or_with_a_status_that_is_not_said():
    assert list(faults(DOCUMENT, changed(2, type="text/plain"))) == ["off_schema"]
    assert list(faults(DOCUMENT, changed(2, status=202))) == ["off_schema"]
    assert list(faults(DOCUMENT, changed(4, body="{}"))) == ["off_schema"]
    wrong = list(faults(DOCUMENT, changed(0, body='{"error": "no"}')))
    assert wrong == ["off_schema", "unexplained"]


@pytest.mark.parametrize("body", ['{"data": null}', '{"errors": null}', '{"errors": "no"}', "no", ""])
def test_a_refusal_without_a_list_of_errors(body):
    record = {**call("GET", "none/such", "good", 404, None), "body": body}
    assert list(faults(DOCUMENT, [*RECORDS, record])) == ["unexplained"]
    for told in (REFUSAL, {"errors": [], "data": None}):
        record["body"] = json.dumps(told)
        assert faults(DOCUMENT, [*RECORDS, record]) == {}


def test_what_stands_beside_data_is_what_stands_in_it():
    whole = {**dict.fromkeys(judge.ENVELOPE), "data": {"name": "a"}}
    assert faults(DOCUMENT, changed(2, body=json.dumps({**whole, "name": "a"}))) == {}
    for stray in ({"name": "b"}, {"more": 1}):
        body = json.dumps({**whole, **stray})
        assert list(faults(DOCUMENT, changed(2, body=body))) == ["off_schema"]


@pytest.mark.parametrize("kind", ["none", "powerless", "good"])
def test_a_route_that_was_not_tried_with_a_kind_of_token(kind):
    spoken = [r for r in RECORDS if r["path"] != "sys/open" or r["token"] != kind]
    assert faults(DOCUMENT, spoken) == {"untried": [f"POST /sys/open: not tried with {kind}"]}


@pytest.mark.parametrize("at", [0, 1])
def test_a_route_that_serves_those_without_the_right(at):
    served = changed(at, status=200, body=RECORDS[2]["body"])
    assert list(faults(DOCUMENT, served)) == ["untried"]
    lost = changed(at, status=404)
    assert list(faults(DOCUMENT, lost)) == ["untried"]


def test_an_open_route_that_refuses_everybody_without_a_token():
    assert list(faults(DOCUMENT, changed(3, status=403, body=json.dumps(REFUSAL)))) == ["untried"]
