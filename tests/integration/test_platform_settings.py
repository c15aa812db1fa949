"""What site administrators set: the six singletons, mail and SMS by real servers, signing keys, lists."""

import base64

import pytest

from platform_cluster import PlatformCluster, make

CLUSTER = PlatformCluster
SINGLETONS = {"general": "general-settings", "cost-estimation": "cost-estimation-settings", "saml": "saml-settings",
              "smtp": "smtp-settings", "sms": "sms-settings", "customization": "customization-settings"}


def change(cluster, path, status=200, node=0, **attributes):
    body = {"data": {"attributes": {name.replace("_", "-"): value for name, value in attributes.items()}}}
    answer = cluster.ask("PATCH", f"admin/{path}", body, status=status, node=node)
    return answer["data"]["attributes"] if status == 200 else answer


def shown(cluster, path, node=0):
    return cluster.ask("GET", f"admin/{path}", node=node)["data"]["attributes"]


@pytest.mark.parametrize("name,path", [*SINGLETONS.items(), ("twilio", "twilio-settings")])
def test_settings_have_their_type_and_id_and_are_for_site_administrators(cluster, name, path):
    for node in range(3):
        data = cluster.ask("GET", f"admin/{path}", node=node)["data"]
        assert (data["id"], data["type"]) == (name, path)
    for who, status in (("olga", 404), ("nina", 404), ("", 401)):
        cluster.ask("GET", f"admin/{path}", who=who, status=status)
        cluster.ask("PATCH", f"admin/{path}", {"data": {"attributes": {}}}, who=who, status=status)
    admin = cluster.make_user(f"admin-{name}", admin=True)[1]
    cluster.ask("GET", f"admin/{path}", who=admin)


def test_general_settings_have_their_presets_and_merge(cluster):
    before = shown(cluster, "general-settings")
    assert before["limit-user-organization-creation"] is True and before["api-rate-limit"] == 30
    assert before["api-rate-limiting-enabled"] is True and before["default-remote-state-access"] is True
    assert before["send-passing-statuses-for-untriggered-speculative-plans"] is False
    assert before["allow-speculative-plans-on-pull-requests-from-forks"] is False
    after = change(cluster, "general-settings", api_rate_limit=100, plan_timeout="90s", node=1)
    assert after["api-rate-limit"] == 100 and after["terraform-build-worker-plan-timeout"] == "90s"
    assert shown(cluster, "general-settings", node=2) == after
    change(cluster, "general-settings", default_remote_state_access=False)
    ws = cluster.ask("POST", "organizations/acme/workspaces", make("workspaces", name="remote"), status=201)["data"]
    assert ws["attributes"]["global-remote-state"] is False
    change(cluster, "general-settings", api_rate_limit=30, plan_timeout="2h", default_remote_state_access=True)
    assert shown(cluster, "general-settings") == before


A = {"cloud-a-access-key-id": "id", "cloud-a-secret-key": "secret-0123456789abcdef"}
C = {f"cloud-c-{name}": "x" for name in ("client-id", "client-secret", "subscription-id", "tenant-id")}


@pytest.mark.parametrize("path,attributes,pointer", [
    ("general-settings", {"api-rate-limit": 29}, "api-rate-limit"),
    ("general-settings", {"api-rate-limit": "many"}, "api-rate-limit"),
    ("general-settings", {"plan-timeout": "soon"}, "plan-timeout"),
    ("general-settings", {"limit-user-organization-creation": 1}, "limit-user-organization-creation"),
    ("cost-estimation-settings", {"enabled": True}, "enabled"),
    ("cost-estimation-settings", {"enabled": True, "cloud-a-access-key-id": "x"}, "enabled"),
    ("cost-estimation-settings", {"enabled": True, **{k: v for k, v in C.items() if "tenant" not in k}}, "enabled"),
    ("saml-settings", {"enabled": True}, "idp-cert"),
    ("saml-settings", {"enabled": True, "idp-cert": "c", "slo-endpoint-url": "http://x/", "sso-endpoint-url":
                       "https://x/"}, "slo-endpoint-url"),
    ("saml-settings", {"sso-api-token-session-timeout": 0}, "sso-api-token-session-timeout"),
    ("saml-settings", {"signature-digest-method": "MD5"}, "signature-digest-method"),
    ("saml-settings", {"provider-type": "x"}, "provider-type"),
    ("smtp-settings", {"auth": "magic"}, "auth"), ("smtp-settings", {"port": 0}, "port"),
    ("smtp-settings", {"port": 65536}, "port"), ("smtp-settings", {"enabled": True}, "host"),
    ("smtp-settings", {"enabled": True, "host": "h"}, "sender"),
    ("smtp-settings", {"enabled": True, "host": "h", "sender": "a@b.example", "auth": "plain"}, "username"),
    ("smtp-settings", {"sender": "a@b\r\nX: y"}, "sender"), ("smtp-settings", {"host": "a b"}, "host"),
    ("smtp-settings", {"test-email-address": "a\r\n@b"}, "test-email-address"),
    ("sms-settings", {"enabled": True}, "account-sid"), ("sms-settings", {"from-number": "x"}, "from-number"),
    ("customization-settings", {"footer": 5}, "footer"),
])
def test_settings_that_are_wrong_are_refused_and_nothing_is_stored(cluster, path, attributes, pointer):
    before = shown(cluster, path)
    error = cluster.ask("PATCH", f"admin/{path}", {"data": {"attributes": attributes}}, status=422, node=1)
    assert error["source"]["pointer"] == f"/data/attributes/{pointer}"
    assert shown(cluster, path) == before


def test_cost_estimation_takes_and_shows_both_spellings(cluster):
    change(cluster, "cost-estimation-settings", enabled=True, **A)
    after = shown(cluster, "cost-estimation-settings", node=2)
    assert after["aws-secret-key"] == after["cloud-a-secret-key"] == A["cloud-a-secret-key"]
    change(cluster, "cost-estimation-settings", **{"aws-access-key-id": "", "gcp-credentials": '{"k":1}'})
    assert shown(cluster, "cost-estimation-settings")["cloud-b-credentials"] == '{"k":1}'
    change(cluster, "cost-estimation-settings", enabled=False)


def test_saml_keeps_the_certificate_before_until_it_is_revoked(cluster):
    urls = {"slo-endpoint-url": "https://idp.example/slo", "sso-endpoint-url": "https://idp.example/sso"}
    first = change(cluster, "saml-settings", enabled=True, idp_cert="testCert", **urls,
                   private_key="private-0123456789abcdef")
    assert first["old-idp-cert"] is None and first["private-key"] is None
    assert first["acs-consumer-url"].endswith("/users/saml/auth") and first["attr-username"] == "Username"
    assert first["metadata-url"].endswith("/users/saml/metadata")
    assert first["sso-api-token-session-timeout"] == 1209600 and first["site-admin-role"] == "site-admins"
    second = change(cluster, "saml-settings", idp_cert="newCert", site_admin_role="", node=1)
    assert second["old-idp-cert"] == "testCert" and second["site-admin-role"] == ""
    revoked = cluster.ask("POST", "admin/saml-settings/actions/revoke-old-certificate", node=2)["data"]
    assert revoked["attributes"]["old-idp-cert"] is None and revoked["attributes"]["idp-cert"] == "newCert"
    change(cluster, "saml-settings", enabled=False)


def smtp(cluster, **more):
    return {"enabled": True, "host": "127.0.0.1", "port": cluster.mailbox.port, "sender": "from@acme.example", **more}


def test_a_test_mail_is_sent_before_smtp_settings_are_stored(cluster):
    box = cluster.mailbox
    box.reset(auth=True)
    after = change(cluster, "smtp-settings", **smtp(cluster, auth="plain", username="u",
                                                    password="pass-0123456789abcdef",
                                                    test_email_address="to@acme.example"), node=1)
    (mail,) = box.mails
    assert mail["to"] == ["RCPT TO:<to@acme.example>"] and "From: from@acme.example" in mail["text"]
    name, secret = base64.b64decode(mail["auth"].split()[-1]).decode().split("\0")[1:]
    assert (name, secret) == ("u", "pass-0123456789abcdef")
    assert after["password"] is None and "test-email-address" not in after
    box.reset(auth=True)
    change(cluster, "smtp-settings", auth="login", test_email_address="to@acme.example")
    login = box.mails[0]["auth"].split()
    assert login[1] == "LOGIN" and base64.b64decode(login[-1]) == b"pass-0123456789abcdef"
    box.reset()
    change(cluster, "smtp-settings", **smtp(cluster, auth="none"))
    change(cluster, "smtp-settings", enabled=False, host="bogus.invalid", test_email_address="to@acme.example")
    assert box.mails == []


@pytest.mark.parametrize("refuse,status", [
    ({"AUTH": "535 no"}, 401), ({"AUTH": "530 first"}, 401), ({"MAIL": "554 no"}, 500), ({"RCPT": "550 unknown"}, 500),
    ({"DATA": "554 no"}, 500), ({"CONNECT": "554 away"}, 500), ({"CONNECT": "stall"}, 504)])
def test_a_failed_test_mail_stores_nothing(cluster, refuse, status):
    cluster.mailbox.reset(auth=True, **refuse)
    before = shown(cluster, "smtp-settings")
    body = {"data": {"attributes": smtp(cluster, auth="plain", username="other", password="wrong-0123456789abcd",
                                        **{"test-email-address": "to@acme.example"})}}
    error = cluster.ask("PATCH", "admin/smtp-settings", body, status=status)
    assert "wrong" not in error["detail"]
    assert shown(cluster, "smtp-settings") == before and cluster.mailbox.mails == []


def test_a_mail_server_that_is_gone_or_private_is_a_server_error(cluster):
    cluster.mailbox.reset()
    for host in ("127.0.0.2", "10.0.0.1"):
        body = {"data": {"attributes": smtp(cluster, host=host, **{"test-email-address": "to@acme.example"})}}
        assert "refuse the address" in cluster.ask("PATCH", "admin/smtp-settings", body, status=500)["detail"]
    body["data"]["attributes"].update(host="127.0.0.1", port=1)
    cluster.ask("PATCH", "admin/smtp-settings", body, status=500)


@pytest.mark.parametrize("method,path", [("POST", "sms-settings"), ("PATCH", "twilio-settings")])
def test_a_test_sms_is_sent_by_the_provider(cluster, method, path):
    receiver = cluster.receiver
    receiver.reply(201, b"{}")
    change(cluster, path, enabled=False)
    number = {"data": {"attributes": {"test-number": "+15550199"}}}
    cluster.ask(method, f"admin/{path}/verify", number, status=400)
    after = change(cluster, path, enabled=True, account_sid="AC1", auth_token="sms-0123456789abcdef",
                   from_number="+15550100")
    assert after["auth-token"] is None
    cluster.ask(method, f"admin/{path}/verify", {}, status=400)
    assert receiver.got == []
    answer = cluster.answer(method, f"admin/{path}/verify", number, node=2)
    assert answer.status == 200 and answer.body == b""
    ((at, headers, body),) = receiver.got
    assert at == "/2010-04-01/Accounts/AC1/Messages.json"
    assert body.startswith(b"To=%2B15550199&From=%2B15550100&Body=")
    assert base64.b64decode(headers["authorization"].split()[1]) == b"AC1:sms-0123456789abcdef"
    receiver.reply(401, b"no")
    cluster.ask(method, f"admin/{path}/verify", number, status=400)
    cluster.ask(method, f"admin/{path}/verify", number, status=404, who="olga")


def test_customization_round_trips_html(cluster):
    text = '<b>&"ü"</b>'
    change(cluster, "customization-settings", footer=text, login_help=text, support_email_address="h@acme.example")
    answer = cluster.answer("GET", "admin/customization-settings", node=1)
    assert answer.json["data"]["attributes"]["footer"] == text and b"<b>" not in answer.body
    assert b"\\u003cb\\u003e" in answer.body


def keys(cluster, node):
    return cluster.answer("GET", "/.well-known/jwks", who="", node=node).json["keys"]


def test_signing_keys_rotate_by_one_and_trim_to_one(cluster):
    cluster.await_until(lambda: len(keys(cluster, 0)) >= 1)
    cluster.ask("POST", "admin/oidc-settings/actions/trim-key", status=204)
    (first,) = keys(cluster, 1)
    assert first["kty"] == "RSA" and first["alg"] == "RS256" and first["use"] == "sig" and first["e"] == "AQAB"
    assert len(base64.urlsafe_b64decode(first["n"] + "==")) == 256
    cluster.ask("POST", "admin/oidc-settings/actions/rotate-key", status=204, node=1)
    for node in range(3):
        newest, older = keys(cluster, node)
        assert older == first and newest["kid"] != first["kid"]
    cluster.ask("POST", "admin/oidc-settings/actions/trim-key", status=204, node=2)
    assert keys(cluster, 0) == [newest]
    for who, status in (("olga", 404), ("", 401)):
        cluster.ask("POST", "admin/oidc-settings/actions/rotate-key", who=who, status=status)
        cluster.ask("POST", "admin/oidc-settings/actions/trim-key", who=who, status=status)
    about = cluster.answer("GET", "/.well-known/openid-configuration", who="", node=2).json
    assert about["issuer"].startswith("https://") and about["jwks_uri"] == about["issuer"] + "/.well-known/jwks"
    assert about["id_token_signing_alg_values_supported"] == ["RS256"]


def test_administrators_list_everything(cluster):
    orgs = cluster.ask("GET", "admin/organizations?include=owners&q=acm", node=1)
    assert [one["id"] for one in orgs["data"]] == ["acme"]
    assert [one["attributes"]["username"] for one in orgs["included"]] == ["olga"]
    cluster.ask("PATCH", "admin/organizations/acme", make("organizations", **{"workspace-limit": 7}))
    assert cluster.ask("GET", "admin/organizations/acme")["data"]["attributes"]["workspace-limit"] == 7
    users = cluster.ask("GET", "admin/users?q=olga")["data"]
    assert [one["attributes"]["username"] for one in users] == ["olga"]
    workspaces = cluster.ask("GET", "admin/workspaces?q=prod")["data"]
    assert [one["id"] for one in workspaces] == [cluster.ws]
    cluster.ask("GET", f"admin/workspaces/{cluster.ws}")
    for path in ("organizations", "organizations/acme", "users", "workspaces", f"workspaces/{cluster.ws}",
                 "terraform-versions"):
        cluster.ask("GET", f"admin/{path}", who="olga", status=404)
    made = cluster.ask("POST", "admin/terraform-versions", make("terraform-versions", version="1.11.4", sha="0" * 64),
                       status=201)["data"]["id"]
    cluster.ask("POST", "admin/terraform-versions", make("terraform-versions", version="1.11.4"), status=422)
    cluster.ask("PATCH", f"admin/terraform-versions/{made}", make("terraform-versions", beta=True))
    assert cluster.ask("GET", f"admin/terraform-versions/{made}")["data"]["attributes"]["beta"] is True
    cluster.ask("DELETE", f"admin/terraform-versions/{made}", status=204)
    user = cluster.users["nina"][0]
    cluster.ask("POST", f"admin/users/{user}/actions/grant_admin")
    cluster.ask("GET", "admin/users", who="nina")
    cluster.ask("POST", f"admin/users/{user}/actions/revoke_admin")
    cluster.ask("GET", "admin/users", who="nina", status=404)
    cluster.ask("POST", f"admin/users/{user}/actions/disable_two_factor", status=400)
    cluster.ask("DELETE", f"admin/users/{cluster.users['olga'][0]}", status=422)


def test_the_account_of_a_user_may_change_its_name_and_not_its_rights(cluster):
    changed = cluster.ask("PATCH", "account/update", make("users", username="wim2", **{"is-site-admin": True}),
                          who="wim")["data"]["attributes"]
    assert changed["username"] == "wim2" and changed["is-site-admin"] is False
    cluster.ask("PATCH", "account/update", make("users", username="olga"), who="wim", status=422)
    cluster.ask("GET", f"users/{cluster.users['olga'][0]}", who="wim")
    cluster.ask("GET", f"users/{cluster.users['nina'][0]}", who="wim", status=404)
