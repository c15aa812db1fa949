"""The known answers of tests/unit/api/token_vectors.txt by an implementation of its own: what the unit
tests find in the server's code, these find in a second one."""

import pytest

import token_form
from cluster import TOP

ROWS = token_form.vectors(TOP / "tests/unit/api/token_vectors.txt")
KEY, SCOPE = map(bytes.fromhex, ROWS["key"][0])


def test_derived_keys():
    for label, key in ROWS["derive"]:
        assert token_form.derive(KEY, SCOPE, label.encode()).hex() == key


def test_tokens_and_their_parts():
    for token_id, version, expire_ms, text in ROWS["token"]:
        made = token_form.token(KEY, SCOPE, bytes.fromhex(token_id), int(version), int(expire_ms))
        found, found_version, (s, ns), _ = token_form.parts(text)
        assert made == text and found.hex() == token_id and found_version == int(version)
        assert s * 1000 + ns // 1000000 == int(expire_ms)


def test_look_up_keys_fingerprints_and_ids():
    for token_id, key in ROWS["lookup"]:
        assert token_form.lookup(KEY, SCOPE, bytes.fromhex(token_id)).hex() == key
    for value, key in ROWS["fingerprint"]:
        assert token_form.fingerprint(KEY, SCOPE, bytes.fromhex(value)).hex() == key
    for value, expire_ms, key in ROWS["convergent"]:
        assert token_form.convergent_id(KEY, SCOPE, bytes.fromhex(value), int(expire_ms)).hex() == key


@pytest.mark.parametrize("text,token_id,version,s,ns,mac", ROWS["sample"])
def test_tokens_that_upstreams_users_published(text, token_id, version, s, ns, mac):
    assert token_form.parts(text) == (bytes.fromhex(token_id), int(version), (int(s), int(ns)), bytes.fromhex(mac))
    assert len(bytes.fromhex(token_id)) == 16 and len(bytes.fromhex(mac)) == 12
