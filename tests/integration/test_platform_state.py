"""Versions of states and their outputs on three nodes: inline, by upload, in parts of many chunks."""

import base64
import concurrent.futures
import hashlib
import json
import os
import urllib.parse

import pytest

from platform_cluster import PlatformCluster, make

CLUSTER = PlatformCluster
HUGE = "123456789012345678901234567890.25"


def state(serial=1, lineage="l-1", outputs=None, padding=0):
    """A state file as bytes; what its outputs hold is written digit by digit."""
    body = {"version": 4, "terraform_version": "1.11.4", "serial": serial, "lineage": lineage,
            "outputs": {}, "check_results": None,
            "resources": [{"mode": "managed", "type": "terraform_data", "name": "a",
                           "provider": 'provider["terraform.io/builtin/terraform"]',
                           "instances": [{"schema_version": 0, "attributes": {"pad": "x" * padding}}]},
                          {"mode": "data", "type": "http", "name": "b", "module": "module.m",
                           "provider": 'provider["registry/x/http"]', "instances": [{}, {}]}]}
    text = json.dumps(body, indent=1)
    return text.replace('"outputs": {}', f'"outputs": {outputs or "{}"}').encode()


OUTPUTS = f"""{{
  "zeta": {{"value": "plain", "type": "string"}},
  "secret": {{"value": "hush-0123456789abcdef", "type": "string", "sensitive": true}},
  "huge": {{"value": {HUGE}, "type": "number"}},
  "list": {{"value": ["a", 1], "type": ["tuple", ["string", "number"]]}},
  "map": {{"value": {{"<k>": true}}, "type": ["map", "bool"]}}
}}"""


def md5(raw):
    return hashlib.md5(raw).hexdigest()


def workspace(cluster, name):
    ws = cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name=name), status=201)["data"]["id"]
    cluster.ask("POST", f"workspaces/{ws}/actions/lock", {"reason": "test"}, who="olga")
    return ws


def store(cluster, ws, raw, serial=1, status=201, who="olga", node=0, inline=True, lineage="l-1", **more):
    attributes = {"serial": serial, "md5": md5(raw), "lineage": lineage, **more}
    if inline:
        attributes["state"] = base64.b64encode(raw).decode()
    return cluster.ask("POST", f"workspaces/{ws}/state-versions",
                       {"data": {"type": "state-versions", "attributes": attributes}}, status=status, who=who, node=node)


def put(cluster, url, raw, node=0, status=204):
    """An upload as clients do it: no token."""
    parts = urllib.parse.urlsplit(url)
    answer = cluster.nodes[node].call("PUT", f"{parts.path}?{parts.query}", raw, "")
    assert answer.status == status, (answer.status, answer.body)
    return answer


def get(cluster, url, node=0, status=200):
    parts = urllib.parse.urlsplit(url)
    answer = cluster.nodes[node].call("GET", f"{parts.path}?{parts.query}", None, "",
                                      {"Authorization": f"Bearer {cluster.users['olga'][1]}"})
    assert answer.status == status, (answer.status, answer.body[:200])
    return answer


def test_a_state_in_the_request_is_current_at_once_and_read_back_exactly(cluster):
    ws = workspace(cluster, "inline")
    cluster.ask("GET", f"workspaces/{ws}/current-state-version", status=404, who="olga")
    raw = state(outputs=OUTPUTS)
    made = store(cluster, ws, raw, node=1)["data"]
    assert made["attributes"]["status"] == "finalized" and made["attributes"]["size"] == len(raw)
    assert made["attributes"]["hosted-state-upload-url"] is None
    for node in range(3):
        current = cluster.ask("GET", f"workspaces/{ws}/current-state-version", who="olga", node=node)["data"]
        assert current["id"] == made["id"] and current["attributes"]["serial"] == 1
        answer = get(cluster, current["attributes"]["hosted-state-download-url"], node=node)
        assert answer.body == raw and answer.headers["Referrer-Policy"] == "no-referrer"
    shown = current["attributes"]
    assert shown["terraform-version"] == "1.11.4" and shown["resources-processed"] is True
    assert shown["modules"] == {"root": {"terraform_data": 1}, "module.m": {"data.http": 2}}
    assert [one["type"] for one in shown["resources"]] == ["terraform_data", "data.http"]
    ws_shown = cluster.ask("GET", f"workspaces/{ws}", who="olga")["data"]
    assert ws_shown["attributes"]["resource-count"] == 1
    assert ws_shown["relationships"]["current-state-version"]["data"]["id"] == made["id"]


def test_outputs_have_four_sights_of_a_value(cluster):
    ws = workspace(cluster, "outputs")
    made = store(cluster, ws, state(outputs=OUTPUTS))["data"]["id"]
    listed = cluster.ask("GET", f"state-versions/{made}/outputs", who="olga", node=1)
    named = {one["attributes"]["name"]: one for one in listed["data"]}
    assert list(named) == ["huge", "list", "map", "secret", "zeta"]
    assert listed["meta"]["pagination"]["total-count"] == 5
    assert named["secret"]["attributes"] == {"name": "secret", "sensitive": True, "type": "string",
                                             "value": "hush-0123456789abcdef", "detailed-type": "string"}
    assert named["list"]["attributes"]["type"] == "array"
    assert named["list"]["attributes"]["detailed-type"] == ["tuple", ["string", "number"]]
    assert named["map"]["attributes"]["type"] == "object"
    answer = cluster.answer("GET", f"state-version-outputs/{named['huge']['id']}", who="olga", node=2)
    assert HUGE.encode() in answer.body and answer.json["data"]["attributes"]["type"] == "number"
    one = cluster.ask("GET", f"state-version-outputs/{named['secret']['id']}", who="olga")["data"]
    assert one["attributes"]["value"] == "hush-0123456789abcdef"
    current = cluster.ask("GET", f"workspaces/{ws}/current-state-version-outputs", who="olga", node=2)
    values = {one["attributes"]["name"]: one["attributes"]["value"] for one in current["data"]}
    assert values["secret"] is None and values["zeta"] == "plain" and len(values) == 5
    included = cluster.ask("GET", f"state-versions/{made}?include=outputs,created_by", who="olga")["included"]
    assert {one["type"] for one in included} == {"state-version-outputs", "users"}
    assert any(one["attributes"].get("value") == "hush-0123456789abcdef" for one in included)
    of_ws = cluster.ask("GET", f"workspaces/{ws}?include=outputs", who="olga")["included"]
    assert {one["type"] for one in of_ws} == {"workspace-outputs"}
    hidden = next(one for one in of_ws if one["attributes"]["name"] == "secret")["attributes"]
    assert hidden["value"] is None and hidden["output-type"] == "string" and "type" not in hidden
    again = store(cluster, ws, state(serial=2, outputs=OUTPUTS), serial=2)["data"]["id"]
    newer = cluster.ask("GET", f"state-versions/{again}/outputs", who="olga")["data"]
    assert not {one["id"] for one in newer} & {one["id"] for one in listed["data"]}
    assert cluster.ask("GET", f"state-version-outputs/{named['zeta']['id']}", who="olga")


def test_outputs_are_missing_for_those_without_the_right(cluster):
    ws = workspace(cluster, "rights")
    made = store(cluster, ws, state(outputs=OUTPUTS))["data"]["id"]
    output = cluster.ask("GET", f"state-versions/{made}/outputs", who="olga")["data"][0]["id"]
    paths = {"see": f"workspaces/{ws}/current-state-version-outputs", "outputs": f"state-versions/{made}/outputs",
             "output": f"state-version-outputs/{output}", "state": f"state-versions/{made}"}
    for path in paths.values():
        cluster.ask("GET", path, who="rita", status=404)
        cluster.ask("GET", path, who="nina", status=404)
        cluster.ask("GET", path, who="", status=401)
    team = cluster.ask("POST", "organizations/acme/teams", make("teams", name="outs"), status=201)["data"]["id"]
    cluster.ask("POST", f"teams/{team}/relationships/users", {"data": [{"type": "users", "id": "rita"}]}, status=204)
    related = {"team": {"data": {"type": "teams", "id": team}}, "workspace": {"data": {"type": "workspaces", "id": ws}}}
    grant = cluster.ask("POST", "team-workspaces", make("team-workspaces", related, access="custom"),
                        status=201)["data"]["id"]
    allowed = {"none": {"see"}, "read-outputs": {"see", "outputs", "output"}, "read": set(paths)}
    for word, names in allowed.items():
        cluster.ask("PATCH", f"team-workspaces/{grant}", make("team-workspaces", **{"state-versions": word}))
        for name, path in paths.items():
            cluster.ask("GET", path, who="rita", status=200 if name in names else 404, node=1)
    store(cluster, ws, state(serial=2), serial=2, who="rita", status=404)


def test_an_upload_is_complete_when_its_reply_comes(cluster):
    ws = workspace(cluster, "upload")
    raw = state(outputs=OUTPUTS)
    made = store(cluster, ws, raw, inline=False)["data"]
    assert made["attributes"]["status"] == "pending"
    assert made["attributes"]["hosted-state-download-url"] is None
    error = cluster.ask("POST", f"workspaces/{ws}/actions/unlock", who="olga", status=400)
    assert "latest state version is still pending" in error["detail"]
    cluster.ask("GET", f"workspaces/{ws}/current-state-version", status=404, who="olga")
    again = store(cluster, ws, raw, inline=False, node=2)["data"]
    assert again["id"] == made["id"]
    read = cluster.ask("GET", f"state-versions/{made['id']}", who="olga")["data"]["attributes"]
    assert read["hosted-state-upload-url"] is None and read["hosted-json-state-upload-url"] is None
    put(cluster, made["attributes"]["hosted-json-state-upload-url"], b"{}", node=2)
    put(cluster, made["attributes"]["hosted-state-upload-url"], raw, node=1)
    shown = cluster.ask("GET", f"state-versions/{made['id']}", who="olga", node=2)["data"]["attributes"]
    assert shown["status"] == "finalized"
    assert get(cluster, shown["hosted-state-download-url"]).body == raw
    put(cluster, made["attributes"]["hosted-state-upload-url"], raw, status=409)
    cluster.ask("POST", f"workspaces/{ws}/actions/unlock", who="olga")


def test_a_state_of_many_chunks_arrives_through_a_standby(cluster):
    ws = workspace(cluster, "large")
    raw = state(padding=9 * 1024 * 1024)
    made = store(cluster, ws, raw, inline=False)["data"]["attributes"]
    put(cluster, made["hosted-state-upload-url"], raw, node=1)
    for node in range(3):
        current = cluster.ask("GET", f"workspaces/{ws}/current-state-version", who="olga", node=node)["data"]
        assert get(cluster, current["attributes"]["hosted-state-download-url"], node=node).body == raw
    second = state(serial=2, padding=5 * 1024 * 1024)
    store(cluster, ws, second, serial=2, node=2)
    current = cluster.ask("GET", f"workspaces/{ws}/current-state-version", who="olga")["data"]
    assert get(cluster, current["attributes"]["hosted-state-download-url"], node=1).body == second


@pytest.mark.parametrize("change", ["signature", "expires", "path", "method"])
def test_a_url_that_was_altered_leads_nowhere(cluster, change):
    ws = workspace(cluster, f"altered-{change}")
    raw = state()
    url = store(cluster, ws, raw, inline=False)["data"]["attributes"]["hosted-state-upload-url"]
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query))
    path = parts.path
    if change == "signature":
        query["signature"] = query["signature"][:-1] + ("0" if query["signature"][-1] != "0" else "1")
    elif change == "expires":
        query["expires"] = str(int(query["expires"]) + 1)
    elif change == "path":
        path = path.replace("/state", "/json-state")
    method = "GET" if change == "method" else "PUT"
    for node in range(3):
        answer = cluster.nodes[node].call(method, f"{path}?{urllib.parse.urlencode(query)}",
                                          None if method == "GET" else raw, "")
        assert answer.status == 404, (node, answer.status, answer.body)


@pytest.mark.parametrize("raw,sum_of", [(b"not json", None), (b"[]", None), (b'{"outputs":[]}', None),
                                        (state(), b"other")])
def test_an_upload_that_is_no_state_or_of_another_sum_is_unprocessable(cluster, raw, sum_of):
    ws = workspace(cluster, "bad-" + md5(raw + (sum_of or b""))[:8])
    attributes = {"serial": 1, "md5": md5(sum_of or raw), "lineage": "l"}
    body = {"data": {"type": "state-versions", "attributes": attributes}}
    made = cluster.ask("POST", f"workspaces/{ws}/state-versions", body, status=201, who="olga")["data"]
    put(cluster, made["attributes"]["hosted-state-upload-url"], raw, status=422)
    assert cluster.ask("GET", f"state-versions/{made['id']}", who="olga")["data"]["attributes"]["status"] == "pending"
    attributes["state"] = base64.b64encode(raw).decode()
    cluster.ask("POST", f"workspaces/{ws}/state-versions", body, status=422, who="olga")
    cluster.ask("GET", f"workspaces/{ws}/current-state-version", status=404, who="olga")


def test_serial_and_lineage_must_follow_the_current_version(cluster):
    ws = workspace(cluster, "serials")
    first = state(serial=5)
    store(cluster, ws, first, serial=5)
    store(cluster, ws, state(serial=4), serial=4, status=409)
    store(cluster, ws, first, serial=5)
    store(cluster, ws, state(serial=5, padding=1), serial=5, status=409)
    store(cluster, ws, state(serial=6), serial=6, lineage="other", status=409)
    store(cluster, ws, state(serial=6), serial=6, lineage="other", force=True)
    for missing in ("serial", "md5"):
        attributes = {"serial": 9, "md5": "0" * 32}
        del attributes[missing]
        error = cluster.ask("POST", f"workspaces/{ws}/state-versions",
                            {"data": {"type": "state-versions", "attributes": attributes}}, status=422, who="olga")
        assert error["source"]["pointer"] == f"/data/attributes/{missing}"


def test_a_version_needs_the_lock(cluster):
    ws = cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name="unlocked"),
                     status=201)["data"]["id"]
    store(cluster, ws, state(), status=409)
    cluster.ask("POST", f"workspaces/{ws}/actions/lock")
    store(cluster, ws, state(), status=409)
    url = store(cluster, ws, state(), inline=False, who=None)["data"]["attributes"]["hosted-state-upload-url"]
    cluster.ask("POST", f"workspaces/{ws}/actions/force-unlock")
    put(cluster, url, state(), status=409)


def test_versions_are_listed_newest_first_and_rolled_back(cluster):
    ws = workspace(cluster, "rolled")
    first = store(cluster, ws, state(outputs=OUTPUTS))["data"]["id"]
    second = store(cluster, ws, state(serial=2), serial=2)["data"]["id"]
    query = "filter%5Borganization%5D%5Bname%5D=acme&filter%5Bworkspace%5D%5Bname%5D=rolled"
    listed = cluster.ask("GET", f"state-versions?{query}", who="olga")["data"]
    assert [one["id"] for one in listed] == [second, first]
    cluster.ask("GET", "state-versions", who="olga", status=422)
    related = {"rollback-state-version": {"data": {"type": "state-versions", "id": first}}}
    back = cluster.ask("PATCH", f"workspaces/{ws}/state-versions",
                       {"data": {"type": "state-versions", "relationships": related}}, status=201, who="olga",
                       node=1)["data"]
    assert back["attributes"]["serial"] == 3
    current = cluster.ask("GET", f"workspaces/{ws}/current-state-version-outputs", who="olga")["data"]
    assert len(current) == 5
    assert get(cluster, back["attributes"]["hosted-state-download-url"]).body == state(outputs=OUTPUTS)


def test_a_rollback_has_no_serial_beyond_the_greatest(cluster):
    ws = workspace(cluster, "greatest")
    first = store(cluster, ws, state())["data"]["id"]
    store(cluster, ws, state(serial=2**63 - 1), serial=2**63 - 1)
    related = {"rollback-state-version": {"data": {"type": "state-versions", "id": first}}}
    error = cluster.ask("PATCH", f"workspaces/{ws}/state-versions",
                        {"data": {"type": "state-versions", "relationships": related}}, status=409, who="olga")
    assert "greatest" in error["detail"]
    current = cluster.ask("GET", f"workspaces/{ws}/current-state-version", who="olga")["data"]["attributes"]
    assert current["serial"] == 2**63 - 1


def test_of_two_racing_uploads_one_wins(cluster):
    ws = workspace(cluster, "race")
    raw = state(padding=2 * 1024 * 1024)
    url = store(cluster, ws, raw, inline=False)["data"]["attributes"]["hosted-state-upload-url"]
    parts = urllib.parse.urlsplit(url)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda node: cluster.nodes[node].call("PUT", f"{parts.path}?{parts.query}", raw, ""),
                                (0, 1, 2, 0)))
    assert sorted(one.status for one in replies) == [204, 409, 409, 409]


def test_random_bytes_are_no_state(cluster):
    ws = workspace(cluster, "noise")
    url = store(cluster, ws, b"x", inline=False)["data"]["attributes"]["hosted-state-upload-url"]
    put(cluster, url, os.urandom(300000), node=2, status=422)
