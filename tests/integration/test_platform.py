"""Organizations, workspaces, teams, tokens of the platform."""

import pytest

from platform_cluster import TYPE, PlatformCluster, make

CLUSTER = PlatformCluster


def test_discovery_and_ping_need_no_token(cluster):
    for node in range(3):
        found = cluster.answer("GET", "/.well-known/terraform.json", who="", node=node)
        assert found.status == 200 and found.headers["Content-Type"] == "application/json"
        assert {"tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2"} <= set(found.json)
        cluster.ask("GET", "ping", status=204, who="", node=node)
        assert cluster.answer("GET", "/app/settings/tokens", who="", node=node).status == 200


def test_a_missing_or_bad_token_is_unauthorized(cluster):
    for who in ("", "nonsense"):
        assert cluster.ask("GET", "account/details", status=401, who=who)["title"] == "unauthorized"
        cluster.ask("GET", "organizations", status=401, who=who)


def test_a_user_sees_the_own_account_on_every_node(cluster):
    for node in range(3):
        me = cluster.ask("GET", "account/details", who="olga", node=node)["data"]
        assert me["id"] == cluster.users["olga"][0] and me["attributes"]["username"] == "olga"
        assert me["links"]["self"] == f"/api/v2/users/{me['id']}"


def test_an_organization_is_known_by_its_name(cluster):
    org = cluster.ask("GET", "organizations/acme", who="rita", node=1)["data"]
    assert org["id"] == "acme" and org["attributes"]["external-id"].startswith("org-")
    assert org["attributes"]["created-at"].endswith("Z")
    assert org["attributes"]["permissions"]["can-update"] is False
    cluster.ask("GET", "organizations/acme", who="nina", status=404)
    cluster.ask("GET", "organizations/none", status=404)
    entitled = cluster.ask("GET", "organizations/acme/entitlement-set", who="rita")["data"]["attributes"]
    assert entitled["state-storage"] is True and entitled["operations"] is False


def test_site_administrators_alone_create_organizations_unless_the_setting_says_otherwise(cluster):
    body = make("organizations", name="ninas", email="nina@acme.example")
    cluster.ask("POST", "organizations", body, who="nina", status=404)
    general = {"limit-user-organization-creation": False}
    cluster.ask("PATCH", "admin/general-settings", {"data": {"attributes": general}})
    cluster.ask("POST", "organizations", body, who="nina", status=201, node=2)
    cluster.ask("PATCH", "organizations/ninas", make("organizations", email="n@acme.example"), who="nina")
    cluster.ask("DELETE", "organizations/ninas", who="nina", status=204)
    cluster.ask("GET", "organizations/ninas", status=404, who="nina")
    general["limit-user-organization-creation"] = True
    cluster.ask("PATCH", "admin/general-settings", {"data": {"attributes": general}})


@pytest.mark.parametrize("body,pointer", [
    (make("organizations", email="a@b.example"), "name"),
    (make("organizations", name="b ad", email="a@b.example"), "name"),
    (make("organizations", name="x" * 41, email="a@b.example"), "name"),
    (make("organizations", name="<b>", email="a@b.example"), "name"),
    (make("organizations", name="acme", email="a@b.example"), "name"),
    (make("organizations", name=7, email="a@b.example"), "name"),
    (make("organizations", name="ok", email="nobody"), "email"),
    (make("organizations", name="ok", email="a@b\r\nBcc: c"), "email"),
    (make("organizations", name="ok"), "email"),
    (make("organizations", name="ok", email="a@b.example", default_execution_mode="far"),
     "default-execution-mode"),
])
def test_an_organization_that_is_wrong_is_refused_with_a_pointer(cluster, body, pointer):
    error = cluster.ask("POST", "organizations", body, status=422)
    assert error["source"]["pointer"] == f"/data/attributes/{pointer}", error
    assert error["title"] == "invalid attribute"


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b'{"data":[]}', b'{"data":{"type":"teams"}}', b"{}",
                                  b'{"data":{"type":"organizations","attributes":[]}}', b'{"data":' * 300])
def test_a_document_that_is_malformed_is_unprocessable(cluster, body):
    cluster.ask("POST", "organizations", body, status=422)


def test_pages_have_links_and_totals(cluster):
    for name in "abcde":
        cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name=f"page-{name}"), status=201)
    path = "organizations/acme/workspaces?search%5Bname%5D=page-&page%5Bsize%5D=2"
    first = cluster.ask("GET", path)
    assert first["meta"]["pagination"] == {"current-page": 1, "page-size": 2, "prev-page": None, "next-page": 2,
                                           "total-pages": 3, "total-count": 5}
    assert [ws["attributes"]["name"] for ws in first["data"]] == ["page-a", "page-b"]
    assert first["links"]["prev"] is None
    following = first["links"]["next"]
    assert following.startswith("https://127.0.0.1:") and "page%5Bnumber%5D=2" in following
    second = cluster.ask("GET", "/" + following.split("/", 3)[3])
    assert [ws["attributes"]["name"] for ws in second["data"]] == ["page-c", "page-d"]
    beyond = cluster.ask("GET", path + "&page%5Bnumber%5D=9")
    assert beyond["data"] == [] and beyond["meta"]["pagination"]["current-page"] == 9
    assert beyond["meta"]["pagination"]["total-count"] == 5
    for size, shown in (("0", 20), ("1000000000", 100)):
        page = cluster.ask("GET", f"organizations/acme/workspaces?page%5Bsize%5D={size}")["meta"]["pagination"]
        assert page["page-size"] == shown
    backwards = cluster.ask("GET", path + "&sort=-name")["data"]
    assert backwards[0]["attributes"]["name"] == "page-e"


def test_an_unknown_include_is_a_bad_request(cluster):
    error = cluster.ask("GET", f"workspaces/{cluster.ws}?include=nonsense", status=400)
    assert error["title"] == "bad request" and "Invalid include parameter" in error["detail"]
    shown = cluster.ask("GET", f"workspaces/{cluster.ws}?include=organization,outputs")
    assert [one["type"] for one in shown["included"]] == ["organizations"]


def test_a_workspace_is_found_by_id_and_by_name(cluster):
    one = cluster.ask("GET", f"workspaces/{cluster.ws}", node=1)["data"]
    other = cluster.ask("GET", "organizations/acme/workspaces/prod", node=2)["data"]
    assert one == other and one["attributes"]["locked"] is False
    assert one["relationships"]["organization"]["data"] == {"id": "acme", "type": "organizations"}
    assert one["relationships"]["locked-by"]["data"] is None
    cluster.ask("PATCH", "organizations/acme/workspaces/prod",
                make("workspaces", description="<b>&", auto_apply=None, working_directory="a/b"))
    text = cluster.answer("GET", f"workspaces/{cluster.ws}")
    assert text.json["data"]["attributes"]["description"] == "<b>&" and b"<b>" not in text.body
    assert text.json["data"]["attributes"]["auto-apply"] is False
    assert text.headers["Content-Type"] == TYPE


def test_members_without_access_do_not_see_a_workspace_and_grants_add_up(cluster):
    cluster.ask("GET", f"workspaces/{cluster.ws}", who="rita", status=404)
    teams = {}
    for name, users in (("readers", ["rita"]), ("writers", ["rita", "wim"])):
        teams[name] = cluster.ask("POST", "organizations/acme/teams", make("teams", name=name),
                                  status=201)["data"]["id"]
        cluster.ask("POST", f"teams/{teams[name]}/relationships/users",
                    {"data": [{"type": "users", "id": user} for user in users]}, status=204)
    grants = {}
    for name, access in (("readers", {"access": "read"}),
                         ("writers", {"access": "custom", "workspace-locking": True})):
        related = {"team": {"data": {"type": "teams", "id": teams[name]}},
                   "workspace": {"data": {"type": "workspaces", "id": cluster.ws}}}
        grants[name] = cluster.ask("POST", "team-workspaces",
                                   {"data": {"type": "team-workspaces", "attributes": access,
                                             "relationships": related}}, status=201)["data"]["id"]
    rights = cluster.ask("GET", f"workspaces/{cluster.ws}", who="rita")["data"]["attributes"]["permissions"]
    assert rights["can-lock"] and rights["can-read-state-versions"] and not rights["can-create-state-versions"]
    weaker = cluster.ask("GET", f"workspaces/{cluster.ws}", who="wim")["data"]["attributes"]["permissions"]
    assert weaker["can-lock"] and not weaker["can-read-state-versions"]
    error = cluster.ask("PATCH", f"team-workspaces/{grants['readers']}",
                        make("team-workspaces", access="read", runs="apply"), status=422)
    assert error["source"]["pointer"] == "/data/attributes/runs"
    for name in teams:
        cluster.ask("DELETE", f"team-workspaces/{grants[name]}", status=204)
        cluster.ask("DELETE", f"teams/{teams[name]}", status=204)
    cluster.ask("GET", f"workspaces/{cluster.ws}", who="rita", status=404)


def test_a_lock_has_one_holder_and_the_texts_that_clients_match(cluster):
    lock = f"workspaces/{cluster.ws}/actions/"
    held = cluster.ask("POST", lock + "lock", {"data": {"type": "", "attributes": {"reason": "Locked by x"}}},
                       who="olga")["data"]
    assert held["attributes"]["locked"] is True and held["attributes"]["locked-reason"] == "Locked by x"
    assert held["relationships"]["locked-by"]["data"] == {"id": cluster.users["olga"][0], "type": "users"}
    assert "already locked" in cluster.ask("POST", lock + "lock", {"reason": "y"}, status=409)["detail"]
    assert "is locked by User olga" in cluster.ask("POST", lock + "unlock", status=409, node=1)["detail"]
    assert "locked" in cluster.ask("POST", f"workspaces/{cluster.ws}/actions/safe-delete", status=409)["detail"]
    cluster.ask("POST", lock + "unlock", b"", who="olga")
    assert "already unlocked" in cluster.ask("POST", lock + "unlock", status=409)["detail"]
    cluster.ask("POST", lock + "lock", who="olga")
    assert cluster.ask("POST", lock + "force-unlock")["data"]["attributes"]["locked"] is False


def test_tokens_show_their_secret_once_and_end(cluster):
    made = cluster.ask("POST", "organizations/acme/authentication-token", {"data": {"type": ""}},
                       who="olga", status=201)["data"]
    secret = made["attributes"]["token"]
    assert cluster.ask("GET", f"workspaces/{cluster.ws}", who=secret)["data"]["id"] == cluster.ws
    shown = cluster.ask("GET", f"authentication-tokens/{made['id']}", who="olga")["data"]["attributes"]
    assert shown["token"] is None and shown["expired-at"] is None
    again = cluster.ask("POST", "organizations/acme/authentication-token", who="olga", status=201)["data"]
    cluster.ask("GET", "account/details", who=secret, status=401, node=1)
    cluster.ask("DELETE", f"authentication-tokens/{again['id']}", who="olga", status=204)
    cluster.ask("DELETE", f"authentication-tokens/{again['id']}", who="olga", status=404)
    cluster.ask("GET", "account/details", who=again["attributes"]["token"], status=401, node=2)
    assert cluster.ask("GET", f"users/{cluster.users['olga'][0]}/authentication-tokens", who="rita")["data"] == []
    assert len(cluster.ask("GET", f"users/{cluster.users['olga'][0]}/authentication-tokens",
                           who="olga")["data"]) == 1


def test_a_team_token_acts_for_its_team_and_descriptions_are_unique(cluster):
    owners = cluster.team("owners")
    named = {"data": {"type": "", "attributes": {"description": "ci"}}}
    secret = cluster.ask("POST", f"teams/{owners}/authentication-tokens", named,
                         status=201)["data"]["attributes"]["token"]
    error = cluster.ask("POST", f"teams/{owners}/authentication-tokens", named, status=422)
    assert error["detail"] == "Validation failed: Description has already been taken"
    cluster.ask("POST", f"workspaces/{cluster.ws}/actions/lock", who=secret)
    locked = cluster.ask("GET", f"workspaces/{cluster.ws}?include=locked_by")
    assert locked["data"]["relationships"]["locked-by"]["data"]["type"] == "teams"
    assert "is locked by Team owners" in cluster.ask("POST", f"workspaces/{cluster.ws}/actions/unlock",
                                                     status=409)["detail"]
    cluster.ask("POST", f"workspaces/{cluster.ws}/actions/unlock", who=secret)
    listed = cluster.ask("GET", "organizations/acme/team-tokens")["data"]
    assert [one["attributes"]["description"] for one in listed] == ["ci"]


def test_a_suspended_user_is_unauthorized(cluster):
    user, token = cluster.make_user("sam")
    cluster.ask("POST", f"admin/users/{user}/actions/suspend")
    cluster.ask("POST", f"admin/users/{user}/actions/suspend", status=400)
    cluster.ask("GET", "account/details", who=token, status=401, node=1)
    cluster.ask("POST", f"admin/users/{user}/actions/unsuspend")
    cluster.ask("GET", "account/details", who=token)
    cluster.ask("DELETE", f"admin/users/{user}", status=204)
    cluster.ask("GET", "account/details", who=token, status=401)
    cluster.ask("DELETE", f"admin/users/{user}", status=404)


def test_the_last_owner_stays(cluster):
    owners = cluster.team("owners")
    gone = {"data": [{"type": "users", "id": "olga"}]}
    assert cluster.ask("DELETE", f"teams/{owners}/relationships/users", gone, status=403)["title"] == "forbidden"
    cluster.ask("DELETE", f"teams/{owners}", status=403)


def test_a_sensitive_variable_is_never_read_back(cluster):
    path = f"workspaces/{cluster.ws}/vars"
    made = cluster.ask("POST", path, make("vars", key="k", value="s3cret", category="env", sensitive=True),
                       status=201)["data"]
    assert made["attributes"]["value"] is None
    for node in range(3):
        assert b"s3cret" not in cluster.answer("GET", path, node=node).body
    error = cluster.ask("PATCH", f"{path}/{made['id']}", make("vars", sensitive=False), status=422)
    assert error["source"]["pointer"] == "/data/attributes/sensitive"
    cluster.ask("DELETE", f"{path}/{made['id']}", status=204)
    cluster.ask("GET", f"{path}/{made['id']}", status=404)


def test_projects_hold_workspaces(cluster):
    default = cluster.ask("GET", "organizations/acme/projects")["data"]
    assert default[0]["attributes"]["name"] == "Default Project"
    made = cluster.ask("POST", "organizations/acme/projects", make("projects", name="Blue_1 x-y"),
                       status=201)["data"]["id"]
    related = {"project": {"data": {"type": "projects", "id": made}}}
    ws = cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", related, name="in-blue"),
                     status=201)["data"]
    assert ws["relationships"]["project"]["data"]["id"] == made
    cluster.ask("DELETE", f"projects/{made}", status=422)
    cluster.ask("DELETE", f"workspaces/{ws['id']}", status=204)
    cluster.ask("DELETE", f"projects/{made}", status=204)
    cluster.ask("POST", "organizations/acme/projects", make("projects", name="a/b"), status=422)


def test_the_end_of_an_organization_ends_all_that_it_has(cluster):
    cluster.ask("POST", "organizations", make("organizations", name="brief", email="b@acme.example"), status=201)
    ws = cluster.ask("POST", "organizations/brief/workspaces", make("workspaces", name="w"), status=201)["data"]["id"]
    token = cluster.ask("POST", "organizations/brief/authentication-token", status=201)["data"]["attributes"]["token"]
    cluster.ask("DELETE", "organizations/brief", status=204)
    cluster.ask("GET", f"workspaces/{ws}", status=404, node=1)
    cluster.ask("GET", "account/details", who=token, status=401)
    cluster.ask("POST", "organizations", make("organizations", name="brief", email="b@acme.example"), status=201)
    assert cluster.ask("GET", "organizations/brief/workspaces")["data"] == []
    cluster.ask("DELETE", "organizations/brief", status=204)
