"""Every route of the platform's document, for senders without a token, without a right, and of each kind of
token."""

import base64
import hashlib
import json
import re

import pytest

from platform_cluster import PlatformCluster, make

CLUSTER = PlatformCluster
# Routes that every user may call, for the user's own things or for an empty list.
OWN = {("get", "/account/details"), ("patch", "/account/update"), ("get", "/organizations"),
       ("get", "/users/{id}/authentication-tokens")}
# Of a sender who sees nothing, a query without its filter is refused before a workspace is looked for.
FILTERED = {("get", "/team-workspaces"), ("get", "/state-versions")}


def filled(cluster, pattern):
    names = {"org": "acme", "ws": cluster.ws, "name": "prod"}
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "none"), pattern).lstrip("/")


def test_without_a_token_every_route_but_the_open_ones_is_unauthorized(cluster):
    for verb, pattern, spec in cluster.contract.operations:
        answer = cluster.answer(verb.upper(), filled(cluster, pattern), who="")
        if spec["x-holdfast-auth"] == "none":
            assert answer.status in (204, 404), (verb, pattern, answer.status)
        else:
            assert answer.status == 401, (verb, pattern, answer.status)


def test_a_user_without_a_right_finds_nothing(cluster):
    for verb, pattern, spec in cluster.contract.operations:
        if spec["x-holdfast-auth"] == "none":
            continue
        answer = cluster.answer(verb.upper(), filled(cluster, pattern), {} if verb != "get" else None, who="nina")
        own = (verb, pattern) in OWN
        expected = {200} if own else {422} if (verb, pattern) in FILTERED else {404, 422}
        assert answer.status in expected, (verb, pattern, answer.status, answer.body)
        if answer.status == 422:  # the body names the workspace, and an empty one names none
            assert (verb, pattern) in FILTERED | {("post", "/team-workspaces"), ("post", "/runs")}, (verb, pattern, answer.body)


LEVELS = {  # access: what of a workspace it allows
    "read": {"vars", "outputs", "state"},
    "plan": {"vars", "outputs", "state"},
    "write": {"vars", "outputs", "state", "lock", "set-var"},
    "admin": {"vars", "outputs", "state", "lock", "set-var", "notifications", "tasks", "update"},
}


@pytest.mark.parametrize("access", LEVELS)
@pytest.mark.parametrize("kind", ["user", "team token"])
def test_access_levels_allow_what_their_table_says(cluster, access, kind):
    name = f"{access}-{kind.replace(' ', '')}"
    ws = cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name=name), status=201)["data"]["id"]
    team = cluster.ask("POST", "organizations/acme/teams", make("teams", name=name), status=201)["data"]["id"]
    related = {"team": {"data": {"type": "teams", "id": team}}, "workspace": {"data": {"type": "workspaces", "id": ws}}}
    cluster.ask("POST", "team-workspaces", make("team-workspaces", related, access=access), status=201)
    who = "rita"
    if kind == "team token":
        who = cluster.ask("POST", f"teams/{team}/authentication-token", status=201)["data"]["attributes"]["token"]
    else:
        cluster.ask("POST", f"teams/{team}/relationships/users", {"data": [{"type": "users", "id": who}]}, status=204)
    tries = {
        "vars": ("GET", f"workspaces/{ws}/vars", None, 200),
        "set-var": ("POST", f"workspaces/{ws}/vars", make("vars", key="k", category="env"), 201),
        "lock": ("POST", f"workspaces/{ws}/actions/lock", None, 200),
        "notifications": ("GET", f"workspaces/{ws}/notification-configurations", None, 200),
        "tasks": ("POST", f"workspaces/{ws}/tasks", make("workspace-tasks", **{"enforcement-level": "advisory"}), 422),
        "update": ("PATCH", f"workspaces/{ws}", make("workspaces", description="d"), 200),
    }
    allowed = {name for name, (method, path, body, status) in tries.items()
               if cluster.answer(method, path, body, who=who, node=1).status == status}
    assert allowed == LEVELS[access] & set(tries)
    rights = cluster.ask("GET", f"workspaces/{ws}", who=who)["data"]["attributes"]["permissions"]
    assert rights["can-read-state-versions"] and rights["can-read-state-outputs"]
    assert rights["can-lock"] == ("lock" in LEVELS[access]) and rights["can-update"] == (access == "admin")
    assert rights["can-queue-apply"] == (access in ("write", "admin"))
    cluster.ask("DELETE", f"teams/{team}", status=204)
    cluster.ask("DELETE", f"workspaces/{ws}", status=204)


def test_an_included_state_needs_the_right_to_read_states(cluster):
    ws = cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name="closed"), status=201)["data"]["id"]
    team = cluster.ask("POST", "organizations/acme/teams", make("teams", name="lookers"), status=201)["data"]["id"]
    cluster.ask("POST", f"teams/{team}/relationships/users", {"data": [{"type": "users", "id": "rita"}]}, status=204)
    related = {"team": {"data": {"type": "teams", "id": team}}, "workspace": {"data": {"type": "workspaces", "id": ws}}}
    grant = cluster.ask("POST", "team-workspaces", make("team-workspaces", related, access="custom"), status=201)
    raw = json.dumps({"version": 4, "serial": 1, "lineage": "l", "outputs": {}, "resources": []}).encode()
    cluster.ask("POST", f"workspaces/{ws}/actions/lock")
    cluster.ask("POST", f"workspaces/{ws}/state-versions",
                make("state-versions", serial=1, md5=hashlib.md5(raw).hexdigest(), lineage="l",
                     state=base64.b64encode(raw).decode()), status=201)
    paths = (f"workspaces/{ws}", "organizations/acme/workspaces/closed", "organizations/acme/workspaces")
    cluster.ask("GET", f"workspaces/{ws}/current-state-version", status=404, who="rita")
    for path in paths:
        answer = cluster.answer("GET", f"{path}?include=current_state_version", who="rita")
        assert answer.json["included"] == [] and b"signature=" not in answer.body, path
    cluster.ask("PATCH", f"team-workspaces/{grant['data']['id']}",
                make("team-workspaces", **{"state-versions": "read"}))
    for path in paths:
        (found,) = cluster.ask("GET", f"{path}?include=current_state_version", who="rita")["included"]
        assert found["attributes"]["hosted-state-download-url"], path
    cluster.ask("DELETE", f"teams/{team}", status=204)
    cluster.ask("DELETE", f"workspaces/{ws}", status=204)


def test_a_secret_team_is_included_for_its_members_and_managers_alone(cluster):
    ws = cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name="held"), status=201)["data"]["id"]
    team = cluster.ask("POST", "organizations/acme/teams", make("teams", name="hidden"), status=201)["data"]["id"]
    open_ = cluster.ask("POST", "organizations/acme/teams", make("teams", name="open", visibility="organization"),
                        status=201)["data"]["id"]
    for one, access in ((team, "write"), (open_, "read")):
        related = {"team": {"data": {"type": "teams", "id": one}},
                   "workspace": {"data": {"type": "workspaces", "id": ws}}}
        cluster.ask("POST", "team-workspaces", make("team-workspaces", related, access=access), status=201)
        user = {"data": [{"type": "users", "id": "wim" if one == team else "rita"}]}
        cluster.ask("POST", f"teams/{one}/relationships/users", user, status=204)
    token = cluster.ask("POST", f"teams/{team}/authentication-token", status=201)["data"]["attributes"]["token"]
    cluster.ask("POST", f"workspaces/{ws}/actions/lock", who=token)
    members = "organizations/acme/organization-memberships?include=teams"

    def seen(path, who):
        return {one["id"] for one in cluster.ask("GET", path, who=who)["included"]} & {team, open_}
    assert seen(members, "wim") == {team, open_} and seen(members, "olga") == {team, open_}
    assert seen(members, "rita") == {open_}
    assert seen(f"workspaces/{ws}?include=locked_by", "wim") == {team}
    assert seen(f"workspaces/{ws}?include=locked_by", "rita") == set()
    for one in (team, open_):
        cluster.ask("DELETE", f"teams/{one}", status=204)
    cluster.ask("DELETE", f"workspaces/{ws}", status=204)


def test_a_team_takes_no_user_of_another_organization(cluster):
    cluster.ask("POST", "organizations", make("organizations", name="rival", email="r@rival.example"), status=201)
    cluster.ask("POST", "organizations/rival/organization-memberships",
                make("organization-memberships", email="nina@acme.example"), status=201)
    team = cluster.ask("GET", "organizations/rival/teams?filter%5Bnames%5D=owners")["data"][0]["id"]
    users = f"teams/{team}/relationships/users"
    cluster.ask("POST", users, {"data": [{"type": "users", "id": "nina"}]}, status=204)
    for id in ("wim", cluster.users["wim"][0], "nobody"):
        for method in ("POST", "DELETE"):
            error = cluster.ask(method, users, {"data": [{"type": "users", "id": id}]}, status=422, who="nina")
            assert error["detail"] == f'there is no user "{id}"'
    cluster.ask("GET", f"users/{cluster.users['wim'][0]}", status=404, who="nina")
    cluster.ask("POST", "organizations/rival/organization-memberships",
                make("organization-memberships", email="wim@acme.example"), status=201, who="nina")
    cluster.ask("POST", users, {"data": [{"type": "users", "id": "wim"}]}, status=204, who="nina")
    cluster.ask("DELETE", "organizations/rival", status=204)


def test_the_token_of_an_organization_manages_and_stores_no_state(cluster):
    token = cluster.ask("POST", "organizations/acme/authentication-token", status=201)["data"]["attributes"]["token"]
    ws = cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name="by-org"), status=201,
                     who=token)["data"]["id"]
    cluster.ask("POST", f"workspaces/{ws}/vars", make("vars", key="k", category="env"), status=201, who=token)
    cluster.ask("POST", "organizations/acme/teams", make("teams", name="by-org"), status=201, who=token)
    cluster.ask("GET", "organizations/acme/tasks", who=token)
    body = make("state-versions", serial=1, md5="0" * 32)
    cluster.ask("POST", f"workspaces/{ws}/state-versions", body, status=404, who=token)
    cluster.ask("GET", f"workspaces/{ws}/notification-configurations", status=404, who=token)
    cluster.ask("PATCH", "organizations/acme", make("organizations", email="x@y.example"), status=404, who=token)
    cluster.ask("GET", "admin/general-settings", status=404, who=token)


def test_a_token_of_the_secrets_service_without_root_is_unknown(cluster):
    made = cluster.nodes[0].call("POST", "/v1/auth/token/create", {"policies": ["default"]})
    token = made.json["auth"]["client_token"]
    cluster.ask("GET", "account/details", status=401, who=token)
    cluster.ask("GET", "account/details")
    platform = cluster.users["olga"][1]
    assert cluster.nodes[0].call("GET", "/v1/auth/token/lookup-self", token=platform).status == 403


def test_managers_of_teams_and_members_do_not_make_themselves_owners(cluster):
    team = cluster.ask("POST", "organizations/acme/teams",
                       make("teams", name="managers", organization_access={"manage-teams": True,
                                                                           "manage-membership": True}),
                       status=201)["data"]["id"]
    cluster.ask("POST", f"teams/{team}/relationships/users", {"data": [{"type": "users", "id": "wim"}]}, status=204)
    owners = cluster.team("owners")
    wim = {"data": [{"type": "users", "id": "wim"}]}
    cluster.ask("POST", f"teams/{owners}/relationships/users", wim, status=404, who="wim")
    cluster.ask("POST", f"teams/{owners}/authentication-tokens", {"data": {"attributes": {"description": "x"}}},
                status=404, who="wim")
    cluster.ask("POST", f"teams/{owners}/authentication-token", status=404, who="wim")
    related = {"teams": {"data": [{"type": "teams", "id": owners}]}}
    cluster.ask("POST", "organizations/acme/organization-memberships",
                make("organization-memberships", related, email="new@acme.example"), status=404, who="wim")
    cluster.ask("PATCH", f"teams/{team}", make("teams", organization_access={"manage-workspaces": True}), status=404,
                who="wim")
    cluster.ask("POST", "organizations/acme/teams", make("teams", name="mine", organization_access={
        "manage-workspaces": True}), status=404, who="wim")
    mine = cluster.ask("POST", "organizations/acme/teams", make("teams", name="mine"), status=201, who="wim")
    cluster.ask("GET", f"teams/{mine['data']['id']}", who="rita", status=404)
    assert "mine" not in [one["attributes"]["name"]
                          for one in cluster.ask("GET", "organizations/acme/teams", who="rita")["data"]]
    for made in (team, mine["data"]["id"]):
        cluster.ask("DELETE", f"teams/{made}", status=204)


def test_an_email_address_belongs_to_one_user(cluster):
    for email in ("olga@acme.example", "OLGA@acme.example"):
        error = cluster.ask("PATCH", "account/update", make("users", email=email), who="wim", status=422)
        assert error["source"]["pointer"] == "/data/attributes/email"
        cluster.ask("POST", "admin/users", make("users", username="twin", email=email), status=422)
    cluster.ask("PATCH", "account/update", make("users", username="root"), who="wim", status=422)


def test_what_refers_to_a_workspace_does_not_show_it_to_others(cluster):
    cluster.receiver.reply()
    hidden = cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name="hidden"),
                         status=201)["data"]["id"]
    task = cluster.ask("POST", "organizations/acme/tasks", make("tasks", name="t", url=cluster.receiver.url,
                                                               category="task"), status=201)["data"]["id"]
    related = {"task": {"data": {"type": "tasks", "id": task}}}
    use = cluster.ask("POST", f"workspaces/{hidden}/tasks", make("workspace-tasks", related, **{
        "enforcement-level": "advisory"}), status=201)["data"]["id"]
    shown = cluster.ask("GET", f"tasks/{task}?include=workspace_tasks.workspace", who="rita")["included"]
    assert [one["type"] for one in shown] == ["workspace-tasks"]
    cluster.ask("DELETE", f"workspaces/{hidden}/tasks/{use}", status=204)
    cluster.ask("DELETE", f"tasks/{task}", status=204)


def test_a_version_shows_each_of_many_outputs(cluster):
    ws = cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name="many"), status=201)["data"]["id"]
    cluster.ask("POST", f"workspaces/{ws}/actions/lock")
    outputs = {f"o{number:03}": {"value": number, "type": "number"} for number in range(300)}
    raw = json.dumps({"version": 4, "outputs": outputs}).encode()
    made = cluster.ask("POST", f"workspaces/{ws}/state-versions", make(
        "state-versions", serial=1, md5=hashlib.md5(raw).hexdigest(), state=base64.b64encode(raw).decode()), status=201)
    assert len(made["data"]["relationships"]["outputs"]["data"]) == 300
    current = cluster.ask("GET", f"workspaces/{ws}/current-state-version-outputs", node=1)["data"]
    assert [one["attributes"]["value"] for one in current] == list(range(300))
