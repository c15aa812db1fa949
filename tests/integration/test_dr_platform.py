"""The platform on a pair of clusters: a secondary refuses every path, and serves all after its promotion."""

import pytest

from activation import become_primary, operation_token
from cluster import Recoverable
from platform_cluster import PlatformCluster
from test_dr_pair import await_equal, follow, promote
from test_platform_state import OUTPUTS, get, state, store, workspace


class Site(PlatformCluster, Recoverable):
    pass


class Other(Site):
    furnished = False


@pytest.fixture
def pair():
    with Site(1) as primary, Other(1) as secondary:
        yield primary, secondary


def test_a_secondary_refuses_and_serves_the_states_after_its_promotion(pair):
    primary, secondary = pair
    become_primary(primary)
    ws = workspace(primary, "paired")
    raw = state(outputs=OUTPUTS, padding=2 << 20)
    store(primary, ws, raw)
    follow(primary, secondary)
    await_equal(primary, secondary)
    node = secondary.nodes[0]
    for path in ("/api/v2/ping", "/api/v2/account/details", "/.well-known/jwks", "/.well-known/terraform.json"):
        answer = node.call("GET", path, token="", headers={"Authorization": f"Bearer {primary.token}"})
        assert answer.status == 400, (path, answer.status, answer.body)
        assert "path disabled" in answer.json["errors"][0]["detail"]
    token = operation_token(secondary.nodes, primary.recovery_keys)
    primary.nodes[0].kill()
    promote(node, token)
    secondary.token, secondary.users = primary.token, primary.users
    secondary.await_up()
    current = secondary.ask("GET", f"workspaces/{ws}/current-state-version", who="olga")["data"]
    assert get(secondary, current["attributes"]["hosted-state-download-url"]).body == raw
    store(secondary, ws, state(serial=2), serial=2)
