"""Certificates of DR secondaries: renewed in time, and mended after they expired. The clocks of the
nodes are set ahead, as both sides judge certificates by them."""

import datetime

import pytest

from activation import become_primary, status
from test_dr_fencing import One, await_words, follow, follow_again
from test_dr_pair import await_equal, seen

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


def at(days):
    return {"LD_PRELOAD": FAKETIME, "FAKETIME": f"+{days}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def set_clock(cluster, days):
    cluster.node.stop()
    cluster.node.start(env=at(days))
    cluster.await_until(lambda: seen(cluster.node))


def expires(cluster):
    """When the certificate ends, in days from now on."""
    told = seen(cluster.node).get("certificate_expires")
    if not told:
        return None
    end = datetime.datetime.fromisoformat(told.replace("Z", "+00:00"))
    return (end - datetime.datetime.now(datetime.timezone.utc)).days


@pytest.fixture(scope="module")
def pair():
    with One() as a, One() as b:
        become_primary(a)
        follow(a, b, "b")
        yield a, b


def test_a_certificate_is_renewed_at_half_its_life(pair):
    a, b = pair
    assert 88 <= expires(b) <= 90
    for cluster in pair:
        set_clock(cluster, 50)
    b.await_until(lambda: (expires(b) or 0) >= 138)
    b.await_until(lambda: seen(b.node)["connection_state"] == "ready")
    a.await_up()
    assert a.node.call("PUT", "/v1/kv/after", {"x": "1"}).status == 204
    await_equal(a, b)
    # the old certificate has ended by now: only the new one leads to the primary
    for cluster in (a, b):
        set_clock(cluster, 93)
    b.await_until(lambda: seen(b.node).get("connection_state") == "ready")
    assert a.node.call("PUT", "/v1/kv/later", {"x": "1"}).status == 204
    await_equal(a, b)


def test_an_expired_certificate_is_told_and_a_token_mends_it(pair):
    a, b = pair
    b.node.stop()
    set_clock(a, 250)
    b.node.start(env=at(250))
    await_words(b, "certificate of this secondary has expired", "update-primary with a new token")
    assert status(b.node)["connection_state"] == "transient_failure"
    follow_again(b, a, a.recovery_keys)
    await_equal(a, b)
    assert expires(b) >= 338
