"""Notification configurations and run tasks: real receivers, called once, before anything is kept."""

import concurrent.futures
import http.client
import json

import pytest

from platform_cluster import PlatformCluster, make, read, signature

CLUSTER = PlatformCluster
NEUTRAL, UPSTREAM = "x-infra-notification-signature", "x-tfe-notification-signature"
KEY = "hmac-key-0123456789abcdef"


@pytest.fixture
def receiver(cluster):
    cluster.receiver.reply()
    return cluster.receiver


@pytest.fixture
def ws(cluster):
    """A workspace of its own, by id."""
    cluster.counter = getattr(cluster, "counter", 0) + 1
    made = cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name=f"calls-{cluster.counter}"),
                       status=201)["data"]["id"]
    yield made
    cluster.ask("DELETE", f"workspaces/{made}", status=204)


def config(receiver, kind="notification-configuration", relationships=None, **attributes):
    given = {"name": "hook", "destination-type": "generic", "url": receiver.url + "/hook",
             **{name.replace("_", "-"): value for name, value in attributes.items()}}
    return make(kind, relationships, **{k: v for k, v in given.items() if v is not Ellipsis})


def create(cluster, ws, body, status=201, **more):
    answer = cluster.ask("POST", f"workspaces/{ws}/notification-configurations", body, status=status, **more)
    return answer["data"] if status == 201 else answer


def configurations(cluster, ws):
    return cluster.ask("GET", f"workspaces/{ws}/notification-configurations")["data"]


def test_an_enabled_configuration_is_verified_once_and_then_kept(cluster, receiver, ws):
    receiver.reply(202, b"fine \xff\x00", {"X-Answer": "yes"})
    for node in range(3):
        receiver.got.clear()
        made = create(cluster, ws, config(receiver, enabled=True, token=KEY, triggers=["run:created"]), node=node)
        assert len(receiver.got) == 1
        path, headers, body = receiver.got[0]
        assert path == "/hook" and headers["content-type"] == "application/json"
        assert headers[NEUTRAL] == headers[UPSTREAM] == signature(KEY, body)
        sent = read(body)
        assert sent["payload_version"] == 1 and sent["notification_configuration_id"] == made["id"]
        assert sent["run_id"] is None and sent["workspace_name"] is None
        assert sent["notifications"] == [{"message": "Verification of hook", "trigger": "verification",
                                          "run_status": None, "run_updated_at": None, "run_updated_by": None}]
        shown = made["attributes"]
        assert made["type"] == "notification-configurations" and made["id"].startswith("nc-")
        assert shown["enabled"] is True and shown["token"] is None and shown["triggers"] == ["run:created"]
        (delivery,) = shown["delivery-responses"]
        assert delivery["code"] == "202" and delivery["successful"] is True and delivery["body"] == "fine ??"
        assert delivery["headers"]["x-answer"] == ["yes"] and delivery["url"] == receiver.url + "/hook"
        assert delivery["sent-at"].endswith("Z")
        assert made["relationships"]["subscribable"]["data"] == {"id": ws, "type": "workspaces"}
    go = cluster.ask("GET", f"notification-configurations/{made['id']}", headers={"User-Agent": "go-tfe"})["data"]
    (delivery,) = go["attributes"]["delivery-responses"]
    assert delivery["headers"] is None and delivery["successful"] == "true" and delivery["code"] == "202"


@pytest.mark.parametrize("status,body", [(404, b"no such hook"), (500, b""), (301, b"elsewhere")])
def test_a_failed_verification_keeps_nothing_of_a_creation(cluster, receiver, ws, status, body):
    receiver.reply(status, body, {"Location": receiver.url + "/other"})
    error = create(cluster, ws, config(receiver, enabled=True), status=400, node=1)
    assert error["title"] == "bad request" and str(status) in error["detail"]
    assert len(receiver.got) == 1 and receiver.got[0][0] == "/hook"
    assert configurations(cluster, ws) == []


def test_a_failed_verification_leaves_a_configuration_as_it_was_and_is_the_latest_response(cluster, receiver, ws):
    made = create(cluster, ws, config(receiver, enabled=True))
    receiver.reply(503, b"busy")
    path = f"notification-configurations/{made['id']}"
    cluster.ask("PATCH", path, make("notification-configuration", name="renamed"), status=400, node=2)
    shown = cluster.ask("GET", path, node=1)["data"]["attributes"]
    assert shown["name"] == "hook" and shown["enabled"] is True
    (delivery,) = shown["delivery-responses"]
    assert delivery["code"] == "503" and delivery["successful"] is False and delivery["body"] == "busy"
    assert len(receiver.got) == 1
    cluster.ask("POST", path + "/actions/verify", status=400)
    receiver.reply(200, b"back")
    verified = cluster.ask("POST", path + "/actions/verify", node=1)["data"]["attributes"]
    assert verified["delivery-responses"][0]["body"] == "back" and len(receiver.got) == 1
    cluster.ask("PATCH", path, make("notification-configuration", enabled=False))
    assert len(receiver.got) == 1
    cluster.ask("PATCH", path, make("notification-configurations", name="renamed"))
    assert cluster.ask("GET", path)["data"]["attributes"]["name"] == "renamed" and len(receiver.got) == 1


def test_a_token_is_kept_by_null_and_removed_by_an_empty_text(cluster, receiver, ws):
    made = create(cluster, ws, config(receiver, token=KEY))
    path = f"notification-configurations/{made['id']}"
    cluster.ask("PATCH", path, make("", token=None, name="n"))
    cluster.ask("POST", path + "/actions/verify")
    assert receiver.got[-1][1][NEUTRAL] == signature(KEY, receiver.got[-1][2])
    cluster.ask("PATCH", path, make("", token=""))
    cluster.ask("POST", path + "/actions/verify")
    assert NEUTRAL not in receiver.got[-1][1]


@pytest.mark.parametrize("kind,alias", [("chat-one", "slack"), ("chat-two", "microsoft-teams")])
def test_chat_destinations_get_their_own_bodies_and_echo_their_spelling(cluster, receiver, ws, kind, alias):
    for spelling in (kind, alias):
        made = create(cluster, ws, config(receiver, destination_type=spelling, enabled=True, token=KEY,
                                          name="a <b> & c"))
        assert made["attributes"]["destination-type"] == spelling
        _, headers, body = receiver.got[-1]
        assert NEUTRAL not in headers
        sent = read(body)
        if kind == "chat-one":
            assert sent["text"] == "Verification of a &lt;b&gt; &amp; c" and sent["blocks"][0]["type"] == "section"
        else:
            card = sent["attachments"][0]["content"]
            assert card["type"] == "AdaptiveCard" and card["body"][0]["text"] == "Verification of a <b> & c"


def test_an_email_configuration_is_verified_by_hand_alone(cluster, receiver, ws):
    olga, rita, nina = (cluster.users[name][0] for name in ("olga", "rita", "nina"))
    users = {"users": {"data": [{"id": rita, "type": "users"}]}}
    body = config(receiver, kind="notification-configurations", relationships=users, destination_type="email",
                  enabled=True, url=Ellipsis, email_addresses=["x@acme.example"])
    made = create(cluster, ws, body)
    assert made["relationships"]["users"]["data"] == [{"id": rita, "type": "users"}]
    assert made["attributes"]["url"] is None and receiver.got == []
    path = f"notification-configurations/{made['id']}"
    cluster.ask("POST", path + "/actions/verify", status=400)
    box = cluster.mailbox
    box.reset()
    cluster.ask("PATCH", "admin/smtp-settings", make("smtp-settings", enabled=True, host="127.0.0.1", port=box.port,
                                                     sender="from@acme.example"))
    cluster.ask("POST", path + "/actions/verify", node=1)
    assert len(box.mails) == 1 and len(box.mails[0]["to"]) == 2
    assert "Subject: Verification of hook\r\n" in box.mails[0]["text"]
    cluster.ask("PATCH", path, make("notification-configuration", name="evil\r\nBcc: z@z.example"))
    box.reset()
    cluster.ask("POST", path + "/actions/verify")
    head = box.mails[0]["text"].split("\r\n\r\n")[0]
    assert "\r\nBcc" not in head and "evil  Bcc: z@z.example" in head
    kept = cluster.ask("GET", path)["data"]["relationships"]["users"]["data"]
    assert kept == [{"id": rita, "type": "users"}]
    bare = {"data": {"type": "notification-configuration", "relationships": {"users": [{"id": olga, "type": "users"}]}}}
    changed = cluster.ask("PATCH", path, bare)["data"]["relationships"]["users"]["data"]
    assert changed == [{"id": olga, "type": "users"}]
    error = create(cluster, ws, config(receiver, relationships={"users": {"data": [{"id": nina, "type": "users"}]}},
                                       destination_type="email", url=Ellipsis), status=422)
    assert error["source"]["pointer"] == "/data/relationships/users"
    cluster.ask("PATCH", "admin/smtp-settings", make("smtp-settings", enabled=False))


@pytest.mark.parametrize("change,pointer", [
    ({"name": Ellipsis}, "name"), ({"destination_type": Ellipsis}, "destination-type"), ({"url": Ellipsis}, "url"),
    ({"url": ""}, "url"), ({"url": "ftp://x"}, "url"), ({"url": "http://a b"}, "url"), ({"url": 1}, "url"),
    ({"destination_type": "pigeon"}, "destination-type"), ({"triggers": ["run:nothing"]}, "triggers"),
    ({"triggers": "run:created"}, "triggers"), ({"triggers": [1]}, "triggers"), ({"enabled": "maybe"}, "enabled"),
    ({"enabled": 1}, "enabled"), ({"token": 5}, "token"), ({"name": "x" * 300}, "name"),
    ({"email_addresses": ["a@b\r\nc"]}, "email-addresses"),
])
def test_a_configuration_that_is_wrong_is_refused_with_a_pointer(cluster, receiver, ws, change, pointer):
    error = create(cluster, ws, config(receiver, **change), status=422)
    assert error["source"]["pointer"] == f"/data/attributes/{pointer}"
    assert receiver.got == []


def test_the_type_of_a_document_must_fit(cluster, receiver, ws):
    create(cluster, ws, config(receiver, kind="tasks"), status=422)
    for kind in ("", "notification-configuration", "notification-configurations"):
        create(cluster, ws, config(receiver, kind=kind))
    made = configurations(cluster, ws)[0]["id"]
    error = cluster.ask("PATCH", f"notification-configurations/{made}", make("", **{"destination-type": "email"}),
                        status=422)
    assert error["source"]["pointer"] == "/data/attributes/destination-type"


def test_two_that_race_for_the_last_place_are_not_both_kept(cluster, receiver, ws):
    for number in range(19):
        create(cluster, ws, config(receiver, name=f"n{number}"))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda node: cluster.answer(
            "POST", f"workspaces/{ws}/notification-configurations", config(receiver, enabled=True), node=node).status,
            (0, 1, 2, 1)))
    assert sorted(replies) == [201, 422, 422, 422]
    everything = cluster.ask("GET", f"workspaces/{ws}/notification-configurations")
    assert len(everything["data"]) == 20 and "meta" not in everything
    page = cluster.ask("GET", f"workspaces/{ws}/notification-configurations?page%5Bsize%5D=7&page%5Bnumber%5D=3")
    assert len(page["data"]) == 6 and page["meta"]["pagination"]["total-pages"] == 3


def test_configurations_need_admin_access(cluster, receiver, ws):
    made = create(cluster, ws, config(receiver))["id"]
    organization = cluster.ask("POST", "organizations/acme/authentication-token", status=201)
    organization = organization["data"]["attributes"]["token"]
    for who in ("rita", "nina", organization):
        create(cluster, ws, config(receiver), status=404, who=who)
        cluster.ask("GET", f"workspaces/{ws}/notification-configurations", status=404, who=who)
        for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/actions/verify")):
            cluster.ask(method, f"notification-configurations/{made}{path}", status=404, who=who)
    cluster.ask("GET", "notification-configurations/nc-none", status=404)
    cluster.ask("DELETE", f"notification-configurations/{made}", status=204)
    cluster.ask("DELETE", f"notification-configurations/{made}", status=404)


def test_private_addresses_that_the_configuration_does_not_allow_are_not_called(cluster, receiver, ws):
    for host in ("10.1.2.3", "169.254.169.254", "[::1]", "192.168.0.1", "127.0.0.2"):
        error = create(cluster, ws, config(receiver, enabled=True, url=f"http://{host}:{receiver.url.split(':')[-1]}/"),
                       status=400)
        assert "refuse the address" in error["detail"], error
    assert receiver.got == []


def test_a_receiver_that_stalls_or_sends_without_end_is_cut_off(cluster, receiver, ws):
    receiver.reply(200, b"x" * (3 << 20))
    made = create(cluster, ws, config(receiver, enabled=True))
    assert len(made["attributes"]["delivery-responses"][0]["body"]) == 8192
    receiver.hold.clear()
    try:
        error = create(cluster, ws, config(receiver, enabled=True), status=400)
        assert "within 10000 ms" in error["detail"]
    finally:
        receiver.hold.set()


def test_a_lost_client_does_not_call_twice(cluster, receiver, ws):
    receiver.hold.clear()
    connection = cluster.nodes[1].connect(timeout_s=2)
    body = config(receiver, enabled=True)
    connection.request("POST", f"/api/v2/workspaces/{ws}/notification-configurations", json.dumps(body),
                       {"Authorization": f"Bearer {cluster.token}"})
    with pytest.raises((TimeoutError, http.client.HTTPException, OSError)):
        connection.getresponse()
    connection.close()
    receiver.hold.set()
    cluster.await_until(lambda: len(configurations(cluster, ws)) == 1)
    assert len(receiver.got) == 1


# Run tasks

def task(receiver, **attributes):
    given = {"name": "scan", "url": receiver.url + "/task", "category": "task",
             **{name.replace("_", "-"): value for name, value in attributes.items()}}
    return {"data": {"type": "tasks", "attributes": {k: v for k, v in given.items() if v is not Ellipsis}}}


def make_task(cluster, receiver, name, status=201, who="olga", **attributes):
    answer = cluster.ask("POST", "organizations/acme/tasks", task(receiver, name=name, **attributes), status=status,
                         who=who)
    return answer["data"] if status == 201 else answer


def test_a_run_task_is_verified_by_exactly_200(cluster, receiver):
    for status in (202, 204, 404):
        receiver.reply(status, b"")
        error = make_task(cluster, receiver, "never", status=422)
        assert error["source"]["pointer"] == "/data/attributes/url" and len(receiver.got) == 1
    receiver.reply(200)
    body = task(receiver, name="first")
    body["data"]["attributes"]["hmac_key"] = KEY
    made = cluster.ask("POST", "organizations/acme/tasks", body, status=201, node=1)["data"]
    _, headers, sent = receiver.got[-1]
    assert headers["x-infra-task-signature"] == headers["x-tfc-task-signature"] == signature(KEY, sent)
    sent = read(sent)
    assert sent["access_token"] == "test-token" and sent["task_result_enforcement_level"] == "test"
    shown = made["attributes"]
    assert made["type"] == "tasks" and made["id"].startswith("task-")
    assert shown["hmac-key"] is None and shown["enabled"] is True and shown["description"] is None
    assert shown["global-configuration"] == {"enabled": False, "stages": [], "enforcement-level": "advisory"}
    assert made["relationships"]["organization"]["data"] == {"id": "acme", "type": "organizations"}
    make_task(cluster, receiver, "plain")
    assert receiver.got[-1][1]["x-infra-task-signature"] == ""


def test_a_change_of_a_run_task_is_verified_where_it_matters(cluster, receiver):
    made = make_task(cluster, receiver, "changing")
    path = f"tasks/{made['id']}"
    receiver.reply(500)
    cluster.ask("PATCH", path, make("tasks", description="d" * 300, name="changed", **{"hmac-key": None}))
    assert receiver.got == []
    cluster.ask("PATCH", path, make("tasks", enabled=False), status=422)
    assert cluster.ask("GET", path)["data"]["attributes"]["enabled"] is True
    receiver.reply(200)
    cluster.ask("PATCH", path, make("tasks", url=receiver.url + "/new"), node=2)
    assert receiver.got[0][0] == "/new"
    cluster.ask("PATCH", path, make("tasks", **{"hmac-key": KEY}))
    assert receiver.got[1][1]["x-infra-task-signature"] == signature(KEY, receiver.got[1][2])
    cluster.ask("DELETE", path, status=204)
    cluster.ask("DELETE", path, status=404)


@pytest.mark.parametrize("change,pointer", [
    ({"name": Ellipsis}, "name"), ({"name": "a b"}, "name"), ({"url": Ellipsis}, "url"), ({"url": "file:///x"}, "url"),
    ({"category": Ellipsis}, "category"), ({"category": "other"}, "category"), ({"description": "d" * 301}, "description"),
    ({"enabled": "maybe"}, "enabled"), ({"global_configuration": []}, "global-configuration"),
    ({"global_configuration": {"enabled": True, "stages": []}}, "global-configuration"),
    ({"global_configuration": {"stages": ["mid_plan"]}}, "global-configuration"),
    ({"global_configuration": {"enforcement-level": "hard"}}, "global-configuration"),
])
def test_a_run_task_that_is_wrong_is_refused_with_a_pointer(cluster, receiver, change, pointer):
    error = cluster.ask("POST", "organizations/acme/tasks", task(receiver, **change), status=422)
    assert error["source"]["pointer"] == f"/data/attributes/{pointer}" and receiver.got == []


def test_global_run_tasks_keep_their_stages_in_order(cluster, receiver):
    stages = ["post_apply", "pre_plan"]
    made = make_task(cluster, receiver, "global", enabled="true", global_configuration={
        "enabled": True, "stages": stages, "enforcement-level": "mandatory"})
    assert made["attributes"]["global-configuration"] == {"enabled": True, "stages": stages,
                                                          "enforcement-level": "mandatory"}
    assert made["attributes"]["enabled"] is True
    changed = cluster.ask("PATCH", f"tasks/{made['id']}", {"data": {"attributes": {
        "global-configuration": {"enforcement-level": "advisory"}}}})["data"]["attributes"]["global-configuration"]
    assert changed == {"enabled": True, "stages": stages, "enforcement-level": "advisory"}
    make_task(cluster, receiver, "global", status=422)


def test_workspaces_run_tasks_at_their_stages(cluster, receiver, ws):
    made = make_task(cluster, receiver, "attached")
    related = {"task": {"data": {"type": "tasks", "id": made["id"]}}}
    path = f"workspaces/{ws}/tasks"
    use = cluster.ask("POST", path, make("workspace-tasks", related, **{"enforcement-level": "mandatory"}),
                      status=201, node=1)["data"]
    assert use["type"] == "workspace-tasks" and use["id"].startswith("wstask-")
    assert use["attributes"] == {"enforcement-level": "mandatory", "stage": "post_plan", "stages": ["post_plan"]}
    assert use["relationships"] == {"task": {"data": {"type": "tasks", "id": made["id"]}},
                                    "workspace": {"data": {"type": "workspaces", "id": ws}}}
    cluster.ask("POST", path, make("workspace-tasks", related, **{"enforcement-level": "advisory"}), status=422)
    changed = cluster.ask("PATCH", f"{path}/{use['id']}", make("workspace-tasks", stages=["pre_apply", "pre_plan"]))
    assert changed["data"]["attributes"]["stages"] == ["pre_apply", "pre_plan"]
    assert changed["data"]["attributes"]["stage"] == "pre_apply"
    changed = cluster.ask("PATCH", f"{path}/{use['id']}", make("workspace-tasks", stage="pre_plan"))["data"]
    assert changed["attributes"]["stages"] == ["pre_plan"]
    assert changed["attributes"]["enforcement-level"] == "mandatory"
    for bad in ({"stages": ["never"]}, {"stages": []}, {"stage": "x"}, {"enforcement-level": "hard"}):
        cluster.ask("PATCH", f"{path}/{use['id']}", make("workspace-tasks", **bad), status=422)
    cluster.ask("GET", f"workspaces/{cluster.ws}/tasks/{use['id']}", status=404)
    shown = cluster.ask("GET", f"tasks/{made['id']}?include=workspace_tasks,workspace_tasks.workspace", node=2)
    assert shown["data"]["relationships"]["workspace-tasks"]["data"] == [{"id": use["id"], "type": "workspace-tasks"}]
    assert shown["data"]["relationships"]["tasks"] == shown["data"]["relationships"]["workspace-tasks"]
    assert {one["type"] for one in shown["included"]} == {"workspace-tasks", "workspaces"}
    assert cluster.ask("GET", path)["meta"]["pagination"]["total-count"] == 1
    cluster.ask("DELETE", f"tasks/{made['id']}", status=422)
    cluster.ask("DELETE", f"{path}/{use['id']}", status=204)
    cluster.ask("DELETE", f"{path}/{use['id']}", status=404)
    cluster.ask("DELETE", f"tasks/{made['id']}", status=204)
    cluster.ask("POST", path, make("workspace-tasks", related, **{"enforcement-level": "advisory"}), status=404)
    cluster.ask("POST", path, make("workspace-tasks", **{"enforcement-level": "advisory"}), status=422)


def test_run_tasks_need_their_right(cluster, receiver):
    made = make_task(cluster, receiver, "guarded")["id"]
    make_task(cluster, receiver, "x", status=404, who="rita")
    make_task(cluster, receiver, "x", status=404, who="nina")
    cluster.ask("PATCH", f"tasks/{made}", make("tasks", name="y"), status=404, who="rita")
    cluster.ask("DELETE", f"tasks/{made}", status=404, who="rita")
    cluster.ask("GET", f"tasks/{made}", who="rita")
    cluster.ask("GET", f"tasks/{made}", status=404, who="nina")
    cluster.ask("GET", "organizations/acme/tasks?include=workspace_tasks", who="rita")
    cluster.ask("GET", "organizations/acme/tasks?include=workspaces", status=400)
