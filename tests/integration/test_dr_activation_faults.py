"""Activation of a DR secondary while nodes end and replies are lost: the same token still works."""

import threading

import pytest

from activation import (
    Relay, api, await_mode, become_primary, call, enable, error, make_token, status, unwrap,
    wrapped,
)
from cluster import Recoverable
from test_dr_activation import Single


@pytest.fixture
def primary():
    with Recoverable() as made:
        become_primary(made)
        yield made


@pytest.fixture
def secondary():
    with Single() as made:
        made.await_feature_level()
        yield made


def once(bundle):
    """The API of the primary: the token can be unwrapped once."""
    replies = [wrapped(bundle)]

    def reply(path, body):
        return replies.pop() if replies else (400, {}, b'{"errors":["wrapping token is not valid"]}')

    return api(reply)


def test_the_primarys_active_node_ends_between_the_steps(primary, secondary):
    token = make_token(primary, "x")
    bundle = unwrap(primary.nodes[0], token)

    def reply(path, body):
        primary.active().kill()
        return wrapped(bundle)

    with api(reply) as (url, asked):
        told = enable(secondary.nodes[0], token, primary, primary_api_addr=url)
    assert told.status == 200 and len(asked) == 1, told.body
    await_mode(secondary, "secondary")
    assert status(secondary.nodes[0])["secondary_id"] == "x"


def test_a_lost_reply_does_not_burn_the_token(primary, secondary):
    node, token = secondary.nodes[0], make_token(primary, "x")
    bundle = unwrap(primary.nodes[0], token)
    with Relay(primary.standbys()[0], losses=2) as relay:
        bundle |= {"known_primary_cluster_addrs": [], "primary_cluster_addr": relay.address}
        with once(bundle) as (url, asked):
            told = enable(node, token, primary, primary_api_addr=url)
        assert told.status == 200, told.body
        assert len(relay.asked) == 3 and len(asked) == 1
        assert len({body["public_key"] for body in relay.asked}) == 1
    await_mode(secondary, "secondary")


def test_the_secondarys_active_node_ends_between_the_steps(primary):
    token = make_token(primary, "x")
    bundle = unwrap(primary.nodes[0], token)
    with Recoverable() as b, Relay(primary.nodes[0], opened=False) as relay:
        b.await_feature_level()
        bundle |= {"known_primary_cluster_addrs": [], "primary_cluster_addr": relay.address}
        with once(bundle) as (url, asked):
            told = []
            first = threading.Thread(target=lambda: told.append(
                enable(b.standbys()[0], token, primary, primary_api_addr=url)))
            first.start()
            assert relay.knocked.wait(60)
            b.active().kill()
            first.join(60)
            assert told[0].status >= 500, told[0].body
            live = [n for n in b.nodes if n.alive]
            b.await_health({200, 473}, live)
            assert all(status(n) == {"mode": "disabled"} for n in live)
            relay.open.set()
            again = enable(b.active(), token, primary, primary_api_addr=url)
            assert again.status == 200, again.body
            assert len(asked) == 2 and len({body["public_key"] for body in relay.asked}) == 1
        await_mode(b, "secondary")


def test_another_token_replaces_one_that_is_under_way(primary, secondary):
    """The first step of the first token is done; its second step can never be."""
    node, first = secondary.nodes[0], make_token(primary, "first")
    bundle = unwrap(primary.nodes[0], first)
    bundle |= {"known_primary_cluster_addrs": [], "primary_cluster_addr": "127.0.0.1:1"}
    with once(bundle) as (url, _):
        error(enable(node, first, primary, primary_api_addr=url), 502, "127.0.0.1")
        told = enable(node, make_token(primary, "second"), primary)
        assert told.status == 200, told.body
    await_mode(secondary, "secondary")
    assert status(node)["secondary_id"] == "second"


def test_two_requests_with_one_token_activate_once(primary):
    token = make_token(primary, "x")
    with Recoverable() as b:
        b.await_feature_level()
        told = [None] * 3

        def ask(i):
            told[i] = enable(b.nodes[i], token, primary)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        codes = [answer.status for answer in told]
        assert 200 in codes and all(code in (200, 400, 500, 503) for code in codes), codes
        await_mode(b, "secondary")
        assert all(status(n)["secondary_id"] == "x" for n in b.nodes)
    again = primary.nodes[0].call("POST", "/v1/sys/replication/dr/primary/secondary-token",
                                  {"id": "x"})
    error(again, 400, "activated already")
    call(primary.nodes[0], "PUT", "/v1/kv/still", {"x": "1"}, status=204)
