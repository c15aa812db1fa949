"""Tokenization with the internal store on three nodes: what one node records, every node decodes."""

import base64
import concurrent.futures
import threading
import time
import urllib.parse

import pytest

import token_form
import trail
from cluster import STEADY, Cluster
from test_transform import write

T = "/v1/transform/"
CARD = "4111-1111-1111-1111"
NO_TOKEN = "value: no valid token of the transformation"
FAR, FARTHER = "2040-01-01T00:00:00Z", "2041-01-01T00:00:00.25Z"


class TokenCluster(Cluster):
    def __init__(self):
        super().__init__(config=STEADY)

    def __enter__(self):
        made = super().__enter__()
        try:
            made.await_feature_level()
            write(made.nodes[0], "/v1/sys/mounts/transform", {"type": "transform"})
            configure(made.nodes[0])
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return made


CLUSTER = TokenCluster


def configure(node):
    for name, body in {
        "plain": {},
        "same": {"convergent": True},
        "short": {"convergent": True, "max_ttl": "1h"},
        "open": {"mapping_mode": "exportable"},
        "open-same": {"mapping_mode": "exportable", "convergent": True},
        "kept": {}, "rotated": {}, "turned": {"convergent": True}, "copied": {"convergent": True},
    }.items():
        write(node, f"{T}transformations/tokenization/{name}", {**body, "allowed_roles": "*"})
        write(node, f"{T}role/{name}", {"transformations": name})
    write(node, T + "transformations/masking/mask",
          {"template": "builtin/creditcardnumber", "allowed_roles": "*"})
    write(node, T + "role/all", {"transformations": "plain,same,open,mask"})


def encode(node, role, value=CARD, **body):
    return write(node, f"{T}encode/{role}", {"value": value, **body}, 200).data["encoded_value"]


def ask(node, call, role, value, status=200, **body):
    return write(node, f"{T}{call}/{role}", {"value": value, **body}, status).data


def decode(node, role, token):
    return ask(node, "decode", role, token)["decoded_value"]


def delete(node, path, status=204, **query):
    answer = node.call("DELETE", f"{T}{path}?{urllib.parse.urlencode(query)}")
    assert answer.status == status, answer.body
    return answer


def test_a_token_made_by_any_node_decodes_on_every_node(cluster):
    for role, length in [("plain", 16), ("same", 32), ("open", 16), ("open-same", 32)]:
        made = {encode(node, role) for node in cluster.nodes}
        assert len(made) == (1 if "same" in role else 3)
        for token in made:
            token_id, version, end, _ = token_form.parts(token)
            assert (len(token_id), version, end) == (length, 0 if "same" in role else 1, (0, 0))
            for node in cluster.nodes:
                assert decode(node, role, token) == CARD
                assert ask(node, "validate", role, token) == {"valid": True}
                assert ask(node, "tokenized", role, CARD) == {"tokenized": True}
                assert ask(node, "tokenized", role, CARD + "x") == {"tokenized": False}
                assert ask(node, "metadata", role, token) == {"metadata": {}}


def test_a_value_of_any_characters_and_64_kib_comes_back(cluster):
    for value in ["a'; DROP TABLE x; --%_\\", "😀" * 1000, "x" * 65536, "\n\r\t\x01"]:
        assert decode(cluster.nodes[1], "plain", encode(cluster.nodes[2], "plain", value)) == value
    write(cluster.nodes[1], T + "encode/plain", {"value": "x" * 65537}, 400, "value: longer than 65536 bytes")


def test_metadata_and_the_end_are_kept_with_the_token(cluster):
    node = cluster.nodes[1]
    for metadata, shown in [("a=1,b=x=y", {"a": "1", "b": "x=y"}), ({"k": "v,=w"}, {"k": "v,=w"}), ("", {}),
                            (["Organization=o", "Purpose=p,Type=t"],
                             {"Organization": "o", "Purpose": "p", "Type": "t"}), ("a=1,a=2", {"a": "2"})]:
        token = encode(node, "plain", metadata=metadata, expiration=FARTHER)
        assert ask(node, "metadata", "plain", token) == {"metadata": shown, "expiration_time": FARTHER}
        assert token_form.parts(token)[2] == (2240611200, 250000000)


def test_equal_values_and_ends_have_one_token_and_its_metadata_are_the_latest(cluster):
    first, second, _ = cluster.nodes
    token = encode(first, "same", "converges", metadata="a=1", expiration=FAR)
    assert encode(second, "same", "converges", expiration=FAR) == token
    assert ask(second, "metadata", "same", token)["metadata"] == {"a": "1"}
    assert encode(second, "same", "converges", metadata="b=2", expiration=FAR) == token
    assert ask(first, "metadata", "same", token) == {"metadata": {"b": "2"}, "expiration_time": FAR}
    assert encode(first, "same", "converges") != token
    assert encode(first, "same", "converges", expiration=FARTHER) != token


def test_the_end_is_capped_and_a_relative_end_of_a_convergent_token_warns(cluster):
    node = cluster.nodes[1]
    for body, warned in [({}, 1), ({"ttl": "10m"}, 1), ({"ttl": "2h"}, 2), ({"expiration": FAR}, 2)]:
        answer = write(node, T + "encode/short", {"value": CARD, **body}, 200)
        warnings = answer.json["warnings"]
        assert len(warnings) == warned and "relative to now" in warnings[-1]
        assert warned == 1 or "later than max_ttl of transformation \"short\"" in warnings[0]
        end = token_form.parts(answer.data["encoded_value"])[2]
        assert time.time() < end[0] < time.time() + 3700
    assert write(node, T + "encode/plain", {"value": CARD, "ttl": 60}, 200).json["warnings"] is None
    items = [{"value": str(n), "ttl": "2h"} for n in range(20)]
    answer = write(node, T + "encode/short", {"batch_input": items}, 200)
    assert len(answer.json["warnings"]) == 2


@pytest.mark.parametrize("role,body,error", [
    ("plain", {}, "value: the field is required"),
    ("plain", {"value": CARD, "ttl": -1}, "ttl: "),
    ("plain", {"value": CARD, "ttl": "x"}, "ttl: "),
    ("plain", {"value": CARD, "ttl": 5, "expiration": FAR}, "ttl: it cannot be given together with expiration"),
    ("plain", {"value": CARD, "expiration": "tomorrow"}, "expiration: a time as "),
    ("plain", {"value": CARD, "expiration": "2020-01-01T00:00:00Z"}, "expiration: the time has passed"),
    ("plain", {"value": CARD, "metadata": "a"}, "metadata: \"name=value"),
    ("plain", {"value": CARD, "metadata": "=b"}, "metadata: a name is empty"),
    ("plain", {"value": CARD, "metadata": 5}, "metadata: a text, a list or an object"),
    ("plain", {"value": CARD, "metadata": {"a": 5}}, "metadata: the values are texts"),
    ("plain", {"value": CARD, "metadata": "a=" + "x" * 1048576}, "metadata: more than 16384 bytes"),
    ("plain", {"value": CARD, "metadata": {str(n): "" for n in range(101)}}, "metadata: 100 names at most"),
    ("all", {"value": CARD}, "transformation: the field is required"),
])
def test_a_bad_encode_names_the_field(cluster, role, body, error):
    for node in cluster.nodes[:2]:
        write(node, f"{T}encode/{role}", body, 400, error)


def altered(token):
    return token[:-1] + ("2" if token[-1] != "2" else "3")


def test_what_is_no_token_gets_one_text(cluster):
    node = cluster.nodes[2]
    token, other = encode(node, "plain"), encode(node, "same")
    forged = token_form.token(bytes(32), bytes(16), bytes(16), 1)
    wrong = [altered(token), token[:-1], token + "1", "1" + token, forged, other, "x", "0OIl", "1" * 10000, "é",
             "Q4tYgFXHxULheDazU3B6edDC55UC1cYtz5xJh3BWp7wApctgkdDevj", encode(node, "open")]
    for text in wrong:
        write(node, T + "decode/plain", {"value": text}, 400, NO_TOKEN)
        write(node, T + "metadata/plain", {"value": text}, 400, NO_TOKEN)
        assert ask(node, "validate", "plain", text) == {"valid": False}
    write(node, T + "decode/plain/x", {"value": token}, 400, "decode_format: tokenization has no formats")
    write(node, T + "decode/same", {"value": token}, 400, NO_TOKEN)
    write(node, "/v1/sys/mounts/other", {"type": "transform"})
    write(node, "/v1/other/transformations/tokenization/plain", {"allowed_roles": "*"})
    write(node, "/v1/other/role/plain", {"transformations": "plain"})
    write(node, "/v1/other/decode/plain", {"value": token}, 400, NO_TOKEN)


def test_an_expired_token_is_refused_and_tidied(cluster):
    node = cluster.nodes[1]
    token = encode(node, "same", "brief", ttl=1)
    assert token_form.parts(token)[2] > (time.time() - 60, 0)
    cluster.await_until(lambda: ask(node, "validate", "same", token) == {"valid": False})
    for other in cluster.nodes:
        cluster.await_until(lambda: other.call("POST", T + "decode/same", {"value": token}).status == 400)
        assert ask(other, "tokenized", "same", "brief") == {"tokenized": False}
    write(node, T + "decode/same", {"value": token}, 400, "value: the token has expired")
    assert ask(node, "tokens", "same", "brief", expiration="any") == {"tokens": []}
    delete(node, "tokens/same", token=token)


def test_tokens_of_a_value_are_found_by_their_ends(cluster):
    node, value = cluster.nodes[1], "found"
    never, far, farther = encode(node, "same", value), encode(node, "same", value, expiration=FAR), \
        encode(node, "same", value, expiration=FARTHER)
    for body, found in [({}, [never]), ({"expiration": "any"}, [never, far, farther]), ({"expiration": FAR}, [far]),
                        ({"min_expiration": FAR, "max_expiration": FARTHER}, [far, farther]),
                        ({"min_expiration": "2040-01-01T00:00:00.001Z", "max_expiration": FARTHER}, [farther]),
                        ({"expiration": "2039-01-01T00:00:00Z"}, [])]:
        assert ask(cluster.nodes[2], "tokens", "same", value, **body) == {"tokens": found}, body
    for body, error in [({"expiration": FAR, "min_expiration": FAR}, "expiration: it cannot be given together"),
                        ({"min_expiration": FAR}, "min_expiration: max_expiration is required"),
                        ({"min_expiration": FARTHER, "max_expiration": FAR}, "max_expiration: it lies before"),
                        ({"expiration": "x"}, "expiration: a time as")]:
        write(node, T + "tokens/same", {"value": value, **body}, 400, error)
    write(node, T + "tokens/plain", {"value": value}, 400, "transformation: the tokens of a value can only be found")
    write(node, T + "tokens/open", {"value": value}, 400, "transformation: the tokens of a value can only be found")
    delete(node, "tokenized/same", value=value, expiration=FAR)
    assert ask(node, "tokens", "same", value, expiration="any") == {"tokens": [never, farther]}
    delete(node, "tokenized/same", value=value, expiration="any")
    assert ask(node, "tokens", "same", value, expiration="any") == {"tokens": []}
    assert encode(node, "same", value, expiration=FAR) == far and decode(node, "same", far) == value


def test_a_look_up_finds_a_thousand_tokens_and_says_that_there_are_more(cluster):
    node, value = cluster.nodes[1], "many"
    ends = [f"2040-01-01T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}Z" for n in range(1005)]
    for at in range(0, 1005, 201):
        items = [{"value": value, "expiration": end} for end in ends[at:at + 201]]
        write(node, T + "encode/same", {"batch_input": items}, 200)
    answer = write(node, T + "tokens/same", {"value": value, "expiration": "any"}, 200)
    assert len(set(answer.data["tokens"])) == 1000 and "more tokens than the 1000" in answer.json["warnings"][0]
    answer = write(node, T + "tokens/same", {"batch_input": [{"value": value, "expiration": "any"}] * 2}, 200)
    assert [len(r["tokens"]) for r in answer.data["batch_results"]] == [1000, 0] and len(answer.json["warnings"]) == 1
    rest = ask(node, "tokens", "same", value, min_expiration=ends[1000], max_expiration=FARTHER)["tokens"]
    assert [token_form.parts(token)[2][0] - 2208988800 for token in rest] == list(range(1000, 1005))
    assert "more tokens" in delete(node, "tokenized/same", 200, value=value, expiration="any").json["warnings"][0]
    delete(node, "tokenized/same", value=value, expiration="any")
    assert ask(node, "tokenized", "same", value) == {"tokenized": False}


def test_a_deleted_token_is_gone_and_deletion_is_idempotent(cluster):
    node = cluster.nodes[1]
    for role in ["plain", "same"]:
        token = encode(node, role, "deleted", metadata="a=1", ttl="1h")
        for _ in range(2):
            delete(cluster.nodes[2], f"tokens/{role}", token=token)
        write(node, f"{T}decode/{role}", {"value": token}, 400, NO_TOKEN)
        assert ask(node, "tokenized", role, "deleted") == {"tokenized": False}
    assert "token: the field is required" in delete(node, "tokens/plain", 400).json["errors"][0]
    assert NO_TOKEN in delete(node, "tokens/plain", 400, token="x").json["errors"][0]
    assert "can only be found" in delete(node, "tokenized/plain", 400, value="x").json["errors"][0]
    tokens = [encode(node, "plain", "batch") for _ in range(2)]
    batch = '[{"token":"%s","reference":"a"},{"token":"%s"},{"token":"x","reference":"c"}]' % tuple(tokens)
    answer = delete(node, "tokens/plain", 400, batch_input=batch)
    assert answer.data["batch_results"] == [{"reference": "a"}, {}, {"error": NO_TOKEN, "reference": "c"}]
    assert ask(node, "tokenized", "plain", "batch") == {"tokenized": False}
    assert "batch_input: " in delete(node, "tokens/plain", 400, batch_input="[").json["errors"][0]


def test_a_batch_keeps_order_references_and_repeated_tokens(cluster):
    node = cluster.nodes[2]
    items = [{"value": f"item {n}", "reference": f"r{n}"} for n in range(100)]
    results = write(node, T + "encode/plain", {"batch_input": items}, 200).data["batch_results"]
    assert [r["reference"] for r in results] == [i["reference"] for i in items]
    tokens = [r["encoded_value"] for r in results]
    back = [{"value": t, "reference": "x"} for t in [*tokens, tokens[0], tokens[0]]]
    for other in cluster.nodes:
        got = write(other, T + "decode/plain", {"batch_input": back}, 200).data["batch_results"]
        assert [g["decoded_value"] for g in got] == [*(i["value"] for i in items), "item 0", "item 0"]
        assert got[-1]["reference"] == "x" and got[-1]["encoded_value"] == "item 0"
    mixed = [{"value": "x", "reference": "a"}, {"reference": "b"}, {"value": tokens[1]}, "no object"]
    for call, good in [("validate", {"valid": True}), ("metadata", {"metadata": {}}), ("tokenized", {"tokenized": False}),
                       ("decode", {"decoded_value": "item 1", "encoded_value": "item 1"})]:
        answer = write(node, f"{T}{call}/plain", {"batch_input": mixed}, 400)
        got = answer.data["batch_results"]
        assert got[1] == {"error": "value: the field is required", "reference": "b"}
        assert got[2] == good and got[3] == {"error": "an object is expected"}
        assert got[0]["reference"] == "a"
    twice = write(node, T + "encode/same", {"batch_input": [{"value": "twice", "metadata": "a=1"},
                                                            {"value": "twice", "metadata": "a=2"}]}, 200)
    one, two = twice.data["batch_results"]
    assert one == two and ask(node, "metadata", "same", one["encoded_value"])["metadata"] == {"a": "2"}
    got = write(node, T + "tokens/same", {"batch_input": [{"value": "twice", "reference": "t"}]}, 200).data
    assert got["batch_results"] == [{"reference": "t", "tokens": [one["encoded_value"]]}]
    roles = [{"value": CARD, "transformation": name} for name in ["plain", "mask", "same"]]
    got = write(node, T + "encode/all", {"batch_input": roles}, 200).data["batch_results"]
    assert got[1]["encoded_value"] == "****-****-****-****" and decode(node, "same", got[2]["encoded_value"]) == CARD


def test_the_operations_of_tokenization_refuse_other_types(cluster):
    node = cluster.nodes[0]
    for call in ["validate", "tokenized", "tokens", "metadata"]:
        write(node, f"{T}{call}/all", {"value": CARD, "transformation": "mask"}, 400, "tokenization is needed")
        write(node, f"{T}{call}/none", {"value": CARD}, 400, "role \"none\" does not exist")
        write(node, f"{T}{call}/same", {}, 400, "value: the field is required")


def test_the_configuration_is_read_listed_guarded_and_immutable(cluster):
    node, path = cluster.nodes[1], T + "transformations/tokenization/"
    shown = {"allowed_roles": ["*"], "convergent": True, "mapping_mode": "default", "max_ttl": 3600,
             "stores": ["builtin/internal"], "templates": ["builtin/any"], "type": "tokenization"}
    assert node.call("GET", T + "transformation/short").data == shown
    assert node.call("GET", path + "short").data == shown
    assert node.call("GET", path + "mask").status == 404
    assert "short" in node.call("LIST", T + "transformations/tokenization").data["keys"]
    assert "mask" not in node.call("LIST", T + "transformations/tokenization").data["keys"]
    for body, error in [({"mapping_mode": "other"}, "mapping_mode: \"default\" or"),
                        ({"mapping_mode": "exportable"}, "mapping_mode: it is default and cannot"),
                        ({"convergent": False}, "convergent: it is true and cannot"),
                        ({"stores": ["pg"]}, "stores: the store \"pg\" does not exist"),
                        ({"stores": []}, "stores: at least one"),
                        ({"stores": "builtin/internal,builtin/internal"}, "is given twice"),
                        ({"max_ttl": -1}, "max_ttl: "), ({"max_ttl": "x"}, "max_ttl: ")]:
        write(node, path + "short", body, 400, error)
    write(node, path + "mask", {}, 400, "type: it is masking and cannot be changed")
    write(node, path + "builtin/x", {}, 400, "built in")
    assert node.call("DELETE", path + "mask").status == 400
    assert node.call("DELETE", path + "short").status == 400  # a role uses it
    write(node, path + "gone", {"max_ttl": "2h", "allowed_roles": "gone", "deletion_allowed": False})
    write(node, path + "gone", {"max_ttl": 0})
    write(node, T + "transformation/gone", {"template": "ignored"})
    write(node, T + "role/gone", {"transformations": "gone"})
    token = encode(node, "gone")
    write(node, T + "role/gone", {"transformations": []})
    assert "deletion_allowed" in node.call("DELETE", path + "gone").json["errors"][0]
    write(node, path + "gone", {"deletion_allowed": True})
    assert node.call("DELETE", path + "gone").status == 204
    assert node.call("DELETE", path + "gone").status == 204
    assert node.call("GET", T + "tokenization/keys/gone").status == 404
    write(node, path + "gone", {"allowed_roles": "gone"})
    write(node, T + "role/gone", {"transformations": "gone"})
    write(node, T + "decode/gone", {"value": token}, 400, NO_TOKEN)


def keys(node, name):
    return node.call("GET", f"{T}tokenization/keys/{name}").data


def test_no_version_of_a_key_is_lost_by_rotations(cluster):
    path, tokens = T + "tokenization/keys/rotated", []
    for n in range(5):
        tokens.append(encode(cluster.nodes[n % 3], "rotated", f"value {n}"))
        write(cluster.nodes[n % 3], path + "/rotate", {})
    assert [token_form.parts(t)[1] for t in tokens] == [1, 2, 3, 4, 5]
    for node in cluster.nodes:
        for n, token in enumerate(tokens):
            assert decode(node, "rotated", token) == f"value {n}"
    assert keys(node, "rotated") == {"auto_rotate_period": 0, "latest_version": 6, "min_available_version": 0,
                                     "min_decryption_version": 1, "name": "rotated"}
    assert "rotated" in node.call("LIST", T + "tokenization/keys").data["keys"]
    write(node, path + "/config", {"min_decryption_version": 3})
    write(node, T + "decode/rotated", {"value": tokens[1]}, 400, "min_decryption_version forbids version 2")
    assert ask(node, "validate", "rotated", tokens[1]) == {"valid": False}
    for body, error in [({"min_available_version": 4}, "min_available_version: 3 at most"),
                        ({"min_available_version": 0}, "min_available_version: 1 at least"),
                        ({}, "min_available_version: ")]:
        write(node, path + "/trim", body, 400, error)
    write(node, path + "/trim", {"min_available_version": 3})
    write(node, path + "/trim", {"min_available_version": 3})
    write(node, path + "/trim", {"min_available_version": 2}, 400, "min_available_version: 3 at least")
    for body, error in [({"min_decryption_version": 2}, "min_decryption_version: 3 to 6"),
                        ({"min_decryption_version": 7}, "min_decryption_version: 3 to 6"),
                        ({"auto_rotate_period": "59m"}, "auto_rotate_period: 1h or more"),
                        ({"auto_rotate_period": "x"}, "auto_rotate_period")]:
        write(node, path + "/config", body, 400, error)
    write(node, T + "decode/rotated", {"value": tokens[1]}, 400, "value: version 2 of the key was trimmed")
    assert [decode(node, "rotated", t) for t in tokens[2:]] == ["value 2", "value 3", "value 4"]
    write(node, path + "/config", {"auto_rotate_period": "4320h"})
    assert keys(cluster.nodes[0], "rotated")["auto_rotate_period"] == 4320 * 3600
    write(node, path + "/config", {"auto_rotate_period": 0})
    for name in ["none", "mask"]:
        assert node.call("GET", f"{T}tokenization/keys/{name}").status == 404
        write(node, f"{T}tokenization/keys/{name}/rotate", {}, 400, f"no transformation \"{name}\" by tokenization")


def test_a_convergent_token_outlives_rotations_and_its_row_is_written_anew_when_its_key_is_gone(cluster):
    node, path = cluster.nodes[1], T + "tokenization/keys/turned"
    token = encode(node, "turned", metadata="a=1")
    write(node, path + "/rotate", {})
    assert encode(cluster.nodes[2], "turned") == token and decode(node, "turned", token) == CARD
    assert ask(node, "metadata", "turned", token)["metadata"] == {"a": "1"}
    write(node, path + "/config", {"min_decryption_version": 2})
    write(node, path + "/trim", {"min_available_version": 2})
    write(node, T + "decode/turned", {"value": token}, 400, "value: version 1 of the key was trimmed")
    assert encode(cluster.nodes[0], "turned") == token
    assert decode(node, "turned", token) == CARD


def pages(node, call, name, limit):
    values, body = [], {"limit": limit}
    while True:
        data = write(node, f"{T}transformations/tokenization/{call}/{name}", body, 200).data
        assert len(data["values"]) <= limit
        values += data["values"]
        if "continuation" not in data:
            return values
        body["continuation"] = data["continuation"]


def test_a_snapshot_is_complete_and_can_be_restored(cluster):
    node, path = cluster.nodes[1], T + "transformations/tokenization/"
    tokens = {encode(node, "copied", f"value {n}", metadata=f"n={n}"): f"value {n}" for n in range(25)}
    ended = encode(node, "copied", "value 25", expiration=FAR)
    part = write(node, path + "snapshot/copied", {"limit": 5}, 200).data
    encode(node, "copied", "made during the snapshot")
    values = part["values"] + [v for v in pages(node, "snapshot", "copied", 7)]
    assert len(set(values)) == 27 and len(pages(node, "snapshot", "copied", 27)) == 27
    write(node, path + "snapshot/copied", {"continuation": part["continuation"] + "1"}, 400, "continuation: it is of no")
    write(node, path + "snapshot/same", {"continuation": part["continuation"]}, 400, "continuation: it is of no")
    for limit in [0, -1, 10001]:
        write(node, path + "snapshot/copied", {"limit": limit}, 400, "limit: 1 to 10000")
    for name in ["none", "mask"]:
        for call, body in [("snapshot", {}), ("restore", {"values": ["x"]}), ("export-decoded", {})]:
            write(node, f"{path}{call}/{name}", body, 400, f"no transformation \"{name}\" by tokenization")
    for token in [*tokens, ended]:
        delete(node, "tokens/copied", token=token)
    for round_ in [values[::2], values[::-1], values]:
        write(node, path + "restore/copied", {"values": round_})
    for token, value in tokens.items():
        assert decode(cluster.nodes[2], "copied", token) == value
    assert ask(node, "tokens", "copied", "value 25", expiration="any") == {"tokens": [ended]}
    assert ask(node, "metadata", "copied", next(iter(tokens)))["metadata"] == {"n": "0"}
    raw = base64.b64decode(values[0])
    for text, error in [("!", "number 1 is no value"), (base64.b64encode(raw[:50]).decode(), "number 1 is no value"),
                        (base64.b64encode(raw[:-1] + bytes([raw[-1] ^ 1])).decode(), "or was altered")]:
        write(node, path + "restore/copied", {"values": [text]}, 400, error)
    write(node, path + "restore/same", {"values": values[:1]}, 400, "is of another transformation, or was altered")
    write(node, path + "restore/open", {"values": values[:1]}, 400, "is of another mapping_mode")
    write(node, path + "restore/copied", {"values": []}, 400, "values: 1 to 1000")
    write(node, path + "restore/copied", {}, 400, "values")


def test_an_export_shows_values_and_tokens_where_that_is_allowed(cluster):
    node, path = cluster.nodes[2], T + "transformations/tokenization/export-decoded/"
    for role in ["open", "open-same"]:
        made = {encode(node, role, f"é {n}"): f"é {n}" for n in range(5)}
        ended = encode(node, role, "ends", expiration=FAR)
        write(node, f"{T}tokenization/keys/{role}/rotate", {})
        got = pages(node, "export-decoded", role, 2)
        found = {value["token"]: base64.b64decode(value["plaintext"]).decode() for value in got}
        assert made.items() <= found.items() and found[ended] == "ends"
        assert [v.get("expiration_time") for v in got if v["token"] == ended] == [FAR]
        assert all(decode(node, role, token) == value for token, value in found.items())
    write(node, path + "plain", {}, 400, "mapping_mode: it is default")
    rules = 'path "transform/transformations/tokenization/*" { capabilities = ["create", "update", "read"] }'
    token = token_of(node, "export", rules)
    assert node.call("POST", path + "open", {}, token=token).status == 403  # sudo is needed
    assert node.call("POST", T + "transformations/tokenization/snapshot/open", {}, token=token).status == 200


def token_of(node, name, rules):
    write(node, f"/v1/sys/policies/acl/{name}", {"policy": rules})
    return node.call("POST", "/v1/auth/token/create", {"policies": [name]}).json["auth"]["client_token"]


def test_each_path_has_a_right_of_its_own(cluster):
    node, standby = cluster.nodes[0], cluster.standbys()[0]
    token = token_of(node, "encoder", 'path "transform/encode/plain" { capabilities = ["update"] }')
    made = node.call("POST", T + "encode/plain", {"value": CARD}, token=token)
    assert made.status == 200
    for asked in (node, standby):
        for call in ["decode", "validate", "metadata", "tokenized", "tokens"]:
            body = {"value": made.data["encoded_value"]}
            assert asked.call("POST", f"{T}{call}/plain", body, token=token).status == 403
        assert asked.call("DELETE", T + "tokens/plain?token=" + made.data["encoded_value"], token=token).status == 403
        for path in ["keys/plain/rotate", "keys/plain/config", "keys/plain/trim"]:
            assert asked.call("POST", T + "tokenization/" + path, {}, token=token).status == 403
    assert decode(node, "plain", made.data["encoded_value"]) == CARD


def test_a_moved_mount_keeps_its_tokens(cluster):
    node = cluster.nodes[0]
    write(node, "/v1/sys/mounts/second", {"type": "transform"})
    write(node, "/v1/second/transformations/tokenization/x", {"allowed_roles": "*"})
    write(node, "/v1/second/role/x", {"transformations": "x"})
    token = node.call("POST", "/v1/second/encode/x", {"value": CARD, "ttl": "1h"}).data["encoded_value"]
    assert node.call("POST", "/v1/sys/remount", {"from": "second", "to": "third"}).status in (200, 204)
    for other in cluster.nodes:
        assert other.call("POST", "/v1/third/decode/x", {"value": token}).data == {"decoded_value": CARD}
    assert node.call("DELETE", "/v1/sys/mounts/third").status == 204


def test_no_value_and_no_token_is_in_the_audit_log(cluster):
    node, secret = cluster.nodes[1], "never in clear"
    token = encode(node, "open-same", secret, metadata="where=hidden place", expiration=FAR)
    decode(node, "open-same", token)
    for call, value in [("validate", token), ("metadata", token), ("tokenized", secret), ("tokens", secret)]:
        write(node, f"{T}{call}/open-same", {"batch_input": [{"value": value}]}, 200)
    write(node, T + "encode/open-same", {"batch_input": [{"value": secret, "metadata": {"where": "hidden place"}}]}, 200)
    found = {value["token"] for value in pages(node, "export-decoded", "open-same", 100)}
    assert token in found
    delete(node, "tokenized/open-same", value=secret)
    delete(node, "tokens/open-same", token=token)
    cluster.await_until(lambda: any(b"transform/tokens/open-same" in text for text in audited(cluster)))
    plain = base64.b64encode(secret.encode())
    for text in audited(cluster):
        for word in [secret.encode(), token.encode(), urllib.parse.quote_plus(secret).encode(), plain, b"hidden place"]:
            assert word not in text, word


def audited(cluster):
    return [file.read_bytes() for file in cluster.dir.glob(f"*/{trail.FILE}")]


def test_keys_that_clients_bring_make_transformations(cluster):
    node, path = cluster.nodes[1], T + "transformations/tokenization/"
    early = write(node, path + "early/import", {"ciphertext": base64.b64encode(bytes(552)).decode()}, 400)
    assert "read wrapping_key first" in early.json["errors"][0]
    public = node.call("GET", T + "wrapping_key").data["public_key"]
    assert public.startswith("-----BEGIN PUBLIC KEY-----")
    for other in cluster.nodes:
        assert other.call("GET", T + "wrapping_key").data == {"public_key": public}
    keys_brought = [bytes([n]) * 32 for n in range(1, 6)]
    given = {"allowed_roles": "*", "mapping_mode": "exportable", "max_ttl": "48h"}
    write(node, path + "brought/import", {**given, "ciphertext": token_form.bring(public, keys_brought[0])})
    write(node, path + "brought/import", {**given, "ciphertext": token_form.bring(public, keys_brought[0])}, 400, "exists")
    assert node.call("GET", path + "brought").data["max_ttl"] == 172800
    write(node, T + "role/brought", {"transformations": "brought"})
    tokens = [encode(node, "brought", "value 0")]
    for n, hash_name in enumerate(["SHA1", "SHA224", "SHA384", "SHA512"], 1):
        body = {"ciphertext": token_form.bring(public, keys_brought[n], hash_name), "hash_function": hash_name}
        write(cluster.nodes[n % 3], path + "brought/import_version", body)
        tokens.append(encode(node, "brought", f"value {n}"))
    assert [token_form.parts(token)[1] for token in tokens] == [1, 2, 3, 4, 5]
    assert [decode(cluster.nodes[2], "brought", token) for token in tokens] == [f"value {n}" for n in range(5)]
    assert keys(node, "brought")["imported_key"] is True and keys(node, "brought")["latest_version"] == 5
    write(node, T + "tokenization/keys/brought/rotate", {}, 400, "allow_rotation: it is false")
    write(node, T + "tokenization/keys/brought/config", {"auto_rotate_period": "1h"}, 400, "allow_rotation is false")
    write(node, path + "plain/import_version", {"ciphertext": token_form.bring(public, bytes(32))}, 400, "made by the server")
    write(node, path + "none/import_version", {"ciphertext": token_form.bring(public, bytes(32))}, 400, "no transformation")
    free = {"ciphertext": token_form.bring(public, bytes(32)), "allow_rotation": True, "allowed_roles": "*"}
    write(node, path + "free/import", free)
    write(node, path + "free/import_version", {"ciphertext": token_form.bring(public, bytes(32))})
    write(node, T + "tokenization/keys/free/rotate", {})
    write(node, path + "free/import_version", free, 400, "or the server has rotated it since")
    assert "imported_key" not in keys(node, "free") and keys(node, "free")["latest_version"] == 3


def test_a_bad_import_changes_nothing(cluster):
    node, path = cluster.nodes[2], T + "transformations/tokenization/"
    public = node.call("GET", T + "wrapping_key").data["public_key"]
    good = token_form.bring(public, bytes(32))
    raw = base64.b64decode(good)
    for body, error in [({}, "ciphertext"), ({"ciphertext": "!"}, "ciphertext: base64 of 552 bytes"),
                        ({"ciphertext": good[:-4]}, "ciphertext: base64 of 552 bytes"),
                        ({"ciphertext": token_form.bring(public, bytes(16))}, "ciphertext: base64 of 552 bytes"),
                        ({"ciphertext": good, "hash_function": "SHA512"}, "ciphertext: it was not made with"),
                        ({"ciphertext": good, "hash_function": "MD5"}, "hash_function: SHA1, SHA224"),
                        ({"ciphertext": base64.b64encode(raw[:-1] + bytes([raw[-1] ^ 1])).decode()}, "it was not made"),
                        ({"ciphertext": base64.b64encode(bytes([raw[0] ^ 1]) + raw[1:]).decode()}, "it was not made with"),
                        ({"ciphertext": token_form.bring(public, bytes(31))}, "it was not made with"),
                        ({"ciphertext": good, "convergent": True}, "convergent: keys that are brought"),
                        ({"ciphertext": good, "stores": "pg"}, "stores: the store \"pg\" does not exist")]:
        write(node, path + "bad/import", body, 400, error)
        assert node.call("GET", path + "bad").status == 404
    token = token_of(node, "importer", f'path "transform/transformations/tokenization/a/import" {{ capabilities = ["update"] }}')
    assert node.call("POST", path + "b/import", {"ciphertext": good}, token=token).status == 403
    assert node.call("POST", path + "a/import", {"ciphertext": good}, token=token).status == 204
    assert node.call("GET", T + "wrapping_key", token=token).status == 403


def test_an_fpe_key_that_is_brought_encodes_as_the_standard_says(cluster):
    node = cluster.nodes[1]
    public = node.call("GET", T + "wrapping_key").data["public_key"]
    key = bytes.fromhex("EF2FBC57E2EEF6A5E599BA2CAEE9265625450F3B48C3EDF6CC72261FDA4CE280")  # of test_transform_value.c
    body = {"ciphertext": token_form.bring(public, key), "template": "builtin/socialsecuritynumber",
            "allowed_roles": "*", "tweak_source": "supplied"}
    write(node, T + "transformations/fpe/brought-ssn/import", body, 200)  # ff3-1 warns
    write(node, T + "transformations/fpe/brought-ssn/import", body, 400, "exists")
    write(node, T + "transformations/fpe/brought-x/import", {**body, "template": ""}, 400, "template: the field is required")
    write(node, T + "role/brought-ssn", {"transformations": "brought-ssn"})
    for other in cluster.nodes:
        got = ask(other, "encode", "brought-ssn", "123-45-6789", tweak="ASNFZ4mrzQ==")
        assert got == {"encoded_value": "201-80-6320"}


def test_every_token_made_during_rotations_decodes_and_equal_encodes_at_all_nodes_make_one_row(cluster):
    write(cluster.nodes[0], f"{T}transformations/tokenization/busy", {"allowed_roles": "*"})
    write(cluster.nodes[0], f"{T}transformations/tokenization/busy-same", {"allowed_roles": "*", "convergent": True})
    write(cluster.nodes[0], f"{T}role/busy", {"transformations": "busy,busy-same"})

    def work(n):
        node = cluster.nodes[n % 3]
        if n % 10 == 0:
            for name in ["busy", "busy-same"]:
                write(node, f"{T}tokenization/keys/{name}/rotate", {})
        same = encode(node, "busy", f"equal {n % 4}", transformation="busy-same", expiration=FAR)
        return encode(node, "busy", f"value {n}", transformation="busy"), same

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        made = list(pool.map(work, range(60)))
    for node in cluster.nodes:
        items = [{"value": token, "transformation": "busy"} for token, _ in made]
        results = write(node, T + "decode/busy", {"batch_input": items}, 200).data["batch_results"]
        assert [r["decoded_value"] for r in results] == [f"value {n}" for n in range(60)]
        for n in range(4):
            (same,) = {made[k][1] for k in range(n, 60, 4)}
            assert ask(node, "decode", "busy", same, transformation="busy-same") == {"decoded_value": f"equal {n}"}
            found = ask(node, "tokens", "busy", f"equal {n}", transformation="busy-same", expiration="any")
            assert found == {"tokens": [same]}
    assert len({token for token, _ in made}) == 60
    assert len(pages(cluster.nodes[1], "snapshot", "busy-same", 100)) == 4
    assert keys(cluster.nodes[2], "busy")["latest_version"] == 7


def test_every_acknowledged_token_decodes_on_every_node_after_the_active_node_was_killed(cluster):
    active, made, stop = cluster.active(), [], threading.Event()

    def work(node):
        n = 0
        while not stop.is_set():
            value, n = f"{node.name} {n}", n + 1
            answer = node.call("POST", T + "encode/kept", {"value": value})
            if answer.status == 200:
                made.append((answer.data["encoded_value"], value))
            else:
                assert answer.status >= 500, answer.body

    def acknowledged(count):
        assert not any(thread.done() for thread in threads)
        return len(made) >= count

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        threads = [pool.submit(work, node) for node in cluster.standbys() * 2]
        try:
            cluster.await_until(lambda: acknowledged(20))
            active.kill()
            before = len(made)
            cluster.await_until(lambda: acknowledged(before + 20))
        finally:
            stop.set()
    for thread in threads:
        thread.result()
    active.start()
    cluster.await_up()
    for node in cluster.nodes:
        for at in range(0, len(made), 500):
            part = made[at:at + 500]
            items = [{"value": token} for token, _ in part]
            results = write(node, T + "decode/kept", {"batch_input": items}, 200).data["batch_results"]
            assert [r["decoded_value"] for r in results] == [value for _, value in part]
