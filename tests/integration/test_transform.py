"""The transform engine on three nodes: what one node encodes, every node decodes."""

import pytest

from cluster import STEADY, Cluster

TWEAK = "ASNFZ4mrzQ=="
CARD = "4111-1111-1111-1111"


class TransformCluster(Cluster):
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


CLUSTER = TransformCluster


def write(node, path, body, status=204, error=None):
    answer = node.call("POST", path, body)
    assert answer.status == status, (path, answer.status, answer.body)
    if error is not None:
        assert error in answer.json["errors"][0], (path, answer.body)
    return answer


def configure(node):
    t = "/v1/transform/"
    write(node, t + "role/payments", {"transformations": "card,ssn,card-mask,generated,internal,greek,binary"})
    write(node, t + "role/one", {"transformations": ["card-mask"]})
    write(node, t + "role/left+out", {"transformations": ["card", "gone"]})
    for name, body in {
        "card": {"template": "builtin/creditcardnumber"},
        "ssn": {"template": "ssn"},
        "generated": {"template": "builtin/creditcardnumber", "tweak_source": "generated"},
        "internal": {"template": "builtin/creditcardnumber", "tweak_source": "internal"},
        "greek": {"template": "greek", "fpe_algorithm": "ff1", "tweak_source": "internal"},
        "binary": {"template": "binary", "fpe_algorithm": "ff1"},
    }.items():
        warned = 204 if "fpe_algorithm" in body else 200  # ff3-1 warns
        write(node, f"{t}transformations/fpe/{name}", {**body, "allowed_roles": "pay*,one"}, warned)
    write(node, t + "transformations/masking/card-mask",
          {"template": "builtin/creditcardnumber", "masking_character": "#x", "allowed_roles": ["*"]})
    write(node, t + "template/ssn", {
        "type": "regex", "pattern": r"(\d{3})[-/](?<middle>\d{2})[-/](\d{4})", "alphabet": "builtin/numeric",
        "encode_format": "$1-$middle-$3",
        "decode_formats": {"last-four": "$3", "swapped": "${3}_${1}", "dollar": "$$$2"}})
    write(node, t + "alphabet/greek", {"alphabet": "αβγδεζηθικλμνξοπρστυφχψω"})
    write(node, t + "template/greek", {"type": "regex", "pattern": "([α-ω]+)-([α-ω]*)", "alphabet": "greek"})
    write(node, t + "template/binary", {"type": "regex", "pattern": "([01]+)", "alphabet": "bits"})
    write(node, t + "alphabet/bits", {"alphabet": "01"})


def encode(node, role="payments", status=200, **body):
    return write(node, f"/v1/transform/encode/{role}", body, status).data


def decode(node, role="payments", status=200, **body):
    return write(node, f"/v1/transform/decode/{role}", body, status).data


@pytest.mark.parametrize("name,value,fields", [
    ("card", CARD, {"tweak": TWEAK}),
    ("card", "4111 1111 1111 1111", {"tweak": TWEAK + "\r\n"}),
    ("card", "3782-822463-10005", {"tweak": TWEAK}),
    ("ssn", "123-45-6789", {"tweak": TWEAK}),
    ("internal", "4111111111111111", {}),
    ("greek", "αβγδω-ωψχφ", {}),
    ("greek", "αβγδωψχφαβγδωψχφ-", {}),
    ("binary", "01" * 1000, {"tweak": TWEAK}),
    ("binary", "1" * 20, {"tweak": "AA=="}),
])
def test_a_value_is_encoded_equally_by_every_node_and_decoded_by_every_node(cluster, name, value, fields):
    coded = {encode(node, transformation=name, value=value, **fields)["encoded_value"] for node in cluster.nodes}
    assert len(coded) == 1
    (one,) = coded
    assert one != value and len(one) == len(value)
    assert [c for c in one if c in "- "] == [c for c in value if c in "- "]
    for node in cluster.nodes:
        assert decode(node, transformation=name, value=one, **fields) == {"decoded_value": value}


def test_formats_write_encoded_and_decoded_values(cluster):
    node = cluster.nodes[1]
    fields = {"transformation": "ssn", "tweak": TWEAK}
    one = encode(node, value="123/45/6789", **fields)["encoded_value"]
    assert one == encode(node, value="123-45-6789", **fields)["encoded_value"]
    for path, value in {"": "123-45-6789", "/last-four": "6789", "/swapped": "6789_123", "/dollar": "$45"}.items():
        assert decode(node, "payments" + path, value=one, **fields) == {"decoded_value": value}
    write(node, "/v1/transform/decode/payments/none", {"value": one, **fields}, 400, "no format \"none\"")


def test_a_generated_tweak_is_given_and_needed(cluster):
    node = cluster.nodes[2]
    made = encode(node, transformation="generated", value=CARD)
    other = encode(node, transformation="generated", value=CARD)
    assert made["tweak"] != other["tweak"] and made["encoded_value"] != other["encoded_value"]
    again = decode(cluster.nodes[0], transformation="generated", value=made["encoded_value"], tweak=made["tweak"])
    assert again == {"decoded_value": CARD}
    wrong = decode(node, transformation="generated", value=made["encoded_value"], tweak=other["tweak"])
    assert wrong["decoded_value"] != CARD and len(wrong["decoded_value"]) == len(CARD)


def test_masking_hides_every_character_of_the_groups(cluster):
    for node in cluster.nodes:
        assert encode(node, "one", value=CARD) == {"encoded_value": "####-####-####-####"}
    write(node, "/v1/transform/decode/one", {"value": CARD}, 400, "masking cannot be decoded")


@pytest.mark.parametrize("role,body,error", [
    ("unknown", {"value": CARD}, "role \"unknown\" does not exist"),
    ("payments", {"value": CARD}, "transformation: the field is required"),
    ("payments", {"value": CARD, "transformation": "other"}, "transformation: \"other\" is not of the role"),
    ("left+out", {"value": CARD, "transformation": "card"}, "does not allow the role"),
    ("left+out", {"value": CARD, "transformation": "gone"}, "transformation \"gone\" does not exist"),
    ("payments", {"transformation": "card", "tweak": TWEAK}, "value: the field is required"),
    ("payments", {"value": "", "transformation": "card", "tweak": TWEAK}, "value: the field is required"),
    ("payments", {"value": "x" + CARD, "transformation": "card", "tweak": TWEAK}, "value: it does not match"),
    ("payments", {"value": CARD + "\n", "transformation": "card", "tweak": TWEAK}, "value: it does not match"),
    ("payments", {"value": CARD, "transformation": "card"}, "tweak: the field is required"),
    ("payments", {"value": CARD, "transformation": "card", "tweak": "AAAAAAAA"}, "7 bytes are expected, 6 were given"),
    ("payments", {"value": CARD, "transformation": "card", "tweak": "AAAAAAAAAAA="}, "7 bytes are expected, 8 were given"),
    ("payments", {"value": CARD, "transformation": "card", "tweak": "!"}, "tweak: base64 is expected"),
    ("payments", {"value": CARD, "transformation": "internal", "tweak": TWEAK}, "tweak: it is not accepted"),
    ("payments", {"value": "αβγς-α", "transformation": "greek"}, "value: the character at byte 7 is not in the alphabet"),
    ("payments", {"value": "αβ-γδ", "transformation": "greek"}, "the groups have 4 characters, 5 to "),
    ("payments", {"value": "1" * 19, "transformation": "binary", "tweak": TWEAK}, "19 characters, 20 to 2048 are"),
    ("payments", {"value": "1" * 2049, "transformation": "binary", "tweak": TWEAK}, "2049 characters, 20 to 2048 are"),
    ("payments", {"batch_input": []}, "batch_input: a list with items"),
    ("payments", {"batch_input": {}}, "batch_input: a list with items"),
    ("payments", {"batch_input": [{}] * 1001}, "batch_input: 1000 items at most, 1001 were given"),
])
def test_a_bad_request_names_the_field(cluster, role, body, error):
    for node in cluster.nodes[:2]:
        write(node, f"/v1/transform/encode/{role}", body, 400, error)


def test_a_batch_keeps_order_and_references_and_gives_every_result(cluster):
    items = [{"value": CARD, "transformation": "card", "tweak": TWEAK, "reference": "a"},
             {"value": "x", "transformation": "card", "tweak": TWEAK, "reference": "b"},
             "no object",
             {"value": CARD, "transformation": "card-mask"}]
    for node in cluster.nodes:
        answer = node.call("POST", "/v1/transform/encode/payments", {"value": "ignored", "batch_input": items})
        assert answer.status == 400
        assert answer.json["errors"] == ["batch_input: 2 of 4 items failed: see batch_results"]
        results = answer.data["batch_results"]
        assert results[0]["reference"] == "a" and len(results) == 4
        assert results[1] == {"error": "value: it does not match the pattern of the template", "reference": "b"}
        assert results[2] == {"error": "an object is expected"}
        assert results[3] == {"encoded_value": "####-####-####-####"}
    one = {**items[0], "value": results[0]["encoded_value"]}
    back = decode(node, batch_input=[one, one])["batch_results"]
    assert back == [{"decoded_value": CARD, "encoded_value": CARD, "reference": "a"}] * 2
    assert encode(node, batch_input=items, partial_failure_response_code=207, status=207)["batch_results"] == results
    wrapped = node.call("POST", "/v1/transform/encode/payments", {"batch_input": items},
                        headers={"X-Vault-Wrap-TTL": "60"})
    assert wrapped.status == 200 and wrapped.json.get("data") is None, wrapped.body
    opened = node.call("POST", "/v1/sys/wrapping/unwrap", {}, token=wrapped.json["wrap_info"]["token"])
    assert opened.status == 200 and opened.data["batch_results"] == results
    for code in (204, 205, 304):
        write(node, "/v1/transform/encode/payments", {"batch_input": items, "partial_failure_response_code": code},
              400, "partial_failure_response_code")


def test_a_rule_about_parameters_judges_each_item(cluster):
    node = cluster.nodes[0]
    rules = 'path "transform/encode/*" { capabilities = ["update"] denied_parameters = { transformation = [] } }'
    write(node, "/v1/sys/policies/acl/no-choice", {"policy": rules})
    token = node.call("POST", "/v1/auth/token/create", {"policies": ["no-choice"]}).json["auth"]["client_token"]
    item = {"value": CARD, "transformation": "card-mask"}
    for body, status in [({"value": CARD}, 200), (item, 403), ({"batch_input": [{"value": CARD}]}, 200),
                         ({"batch_input": [{"value": CARD}, item]}, 403)]:
        assert node.call("POST", "/v1/transform/encode/one", body, token=token).status == status


@pytest.mark.parametrize("path,body,error", [
    ("role/builtin/x", {}, "built in"),
    ("role/a:b", {}, "name: 1 to 128"),
    ("role/x", {"transformations": ["a/b"]}, "transformations: \"a/b\" is no name"),
    ("alphabet/builtin/numeric", {"alphabet": "01"}, "built in"),
    ("alphabet/x", {}, "alphabet: the field is required"),
    ("alphabet/x", {"alphabet": "0"}, "2 to 65536 code points are expected, 1 were given"),
    ("alphabet/x", {"alphabet": "0121"}, "\"1\" (U+0031) occurs more than once"),
    ("template/x", {"pattern": "(a)"}, "type: \"regex\" is expected"),
    ("template/x", {"type": "luhn", "pattern": "(a)"}, "type: \"regex\" is expected"),
    ("template/x", {"type": "regex"}, "pattern: the field is required"),
    ("template/x", {"type": "regex", "pattern": "(a)\\1"}, "pattern: invalid escape sequence: \\1, at byte 4"),
    ("template/x", {"type": "regex", "pattern": "(?=a)"}, "pattern: look-around is not supported, at byte 1"),
    ("template/x", {"type": "regex", "pattern": "((a)b)"}, "pattern: a capture group lies inside another one"),
    ("template/x", {"type": "regex", "pattern": r"(?:(\d{4})-?){4}"}, "pattern: a capture group is repeated"),
    ("template/x", {"type": "regex", "pattern": "(a{1000}){1000}"}, "pattern: "),
    ("template/x", {"type": "regex", "pattern": "(a)", "alphabet": "a/b"}, "alphabet: \"a/b\" is no name"),
    ("transformations/fpe/x", {}, "template: the field is required"),
    ("transformations/fpe/x", {"template": "t", "tweak_source": "none"}, "tweak_source: supplied, generated"),
    ("transformations/fpe/x", {"template": "t", "fpe_algorithm": "ff2"}, "fpe_algorithm: ff3-1 or ff1"),
    ("transformations/masking/x", {"template": "t", "masking_character": ""}, "masking_character: one character"),
    ("transformations/masking/card", {}, "type: it is fpe and cannot be changed"),
    ("transformations/fpe/card", {"fpe_algorithm": "ff1"}, "fpe_algorithm: it is ff3-1 and cannot be changed"),
    ("transformation/x", {"template": "t"}, "type: the field is required"),
    ("transformation/x", {"type": "luhn"}, "type: fpe, masking or tokenization is expected"),
    ("transformation/card", {"type": "tokenization"}, "type: it is fpe and cannot be changed"),
])
def test_a_bad_configuration_names_the_field(cluster, path, body, error):
    write(cluster.nodes[2], f"/v1/transform/{path}", body, 400, error)


def test_the_configuration_is_read_listed_and_guarded(cluster):
    node, t = cluster.nodes[1], "/v1/transform/"
    assert node.call("GET", t + "transformation/card").data == {
        "allowed_roles": ["pay*", "one"], "fpe_algorithm": "ff3-1", "max_tweak_len": 7,
        "templates": ["builtin/creditcardnumber"], "tweak_source": "supplied", "type": "fpe"}
    assert node.call("GET", t + "transformation/card-mask").data["masking_character"] == "#"
    assert node.call("GET", t + "alphabet/builtin/numeric").data == {"alphabet": "0123456789"}
    assert node.call("GET", t + "template/ssn").data["decode_formats"]["dollar"] == "$$$2"
    assert "card" in node.call("LIST", t + "transformation").data["keys"]
    write(node, t + "transformation/card", {"masking_character": "ignored"})  # the deprecated write
    assert node.call("GET", t + "role/one").data == {"transformations": ["card-mask"]}
    assert node.call("LIST", t + "role").data["keys"] == ["left+out", "one", "payments"]
    assert node.call("LIST", t + "role?filter=*e*").data["keys"] == ["left+out", "one", "payments"]
    assert node.call("LIST", t + "role?filter=pay*").data["keys"] == ["payments"]
    assert "builtin/creditcardnumber" in node.call("LIST", t + "template").data["keys"]
    for path in ["role/none", "transformation/none", "template/none", "alphabet/none"]:
        answer = node.call("GET", t + path)
        assert (answer.status, answer.json["errors"]) == (404, [])
        assert node.call("DELETE", t + path).status == 204
    for path, user in {"transformation/card": "role \"", "template/ssn": "transformation \"ssn\"",
                       "alphabet/greek": "template \"greek\""}.items():
        answer = node.call("DELETE", t + path)
        assert answer.status == 400 and f"is in use by {user}" in answer.json["errors"][0]


def test_an_unused_object_is_deleted_with_its_key(cluster):
    node, t = cluster.nodes[0], "/v1/transform/"
    made = {"template": "t", "fpe_algorithm": "ff1", "deletion_allowed": False, "allowed_roles": ["*"]}
    write(node, t + "transformations/fpe/short", made)
    write(node, t + "template/t", {"type": "regex", "pattern": "(\\d+)", "alphabet": "builtin/numeric"})
    write(node, t + "role/short", {"transformations": ["short"]})
    first = encode(node, "short", value="123456", tweak=TWEAK)
    write(node, t + "transformations/fpe/short", {"deletion_allowed": True})
    assert encode(node, "short", value="123456", tweak=TWEAK) == first  # an update keeps the key
    assert node.call("DELETE", t + "transformation/short").status == 400
    write(node, t + "role/short", {"transformations": []})
    for path in ["transformation/short", "template/t", "role/short"]:
        assert node.call("DELETE", t + path).status == 204
        assert node.call("GET", t + path).status == 404


def test_a_change_that_orphans_values_warns(cluster):
    node, t = cluster.nodes[0], "/v1/transform/"
    write(node, t + "alphabet/w", {"alphabet": "01"})
    assert "no longer decode" in write(node, t + "alphabet/w", {"alphabet": "10"}, 200).json["warnings"][0]
    body = {"type": "regex", "pattern": "(\\d+)-(\\d+)", "encode_format": "$1", "decode_formats": {"x": "$3"}}
    warnings = write(node, t + "template/w", body, 200).json["warnings"]
    assert "group 2 is missing" in warnings[0] and "no group \"3\"" in warnings[1]
    assert "may not decode" in " ".join(write(node, t + "template/w", {"pattern": "(\\d+)"}, 200).json["warnings"])
    body = {"template": "builtin/creditcardnumber", "fpe_algorithm": "ff1", "allowed_roles": "*"}
    write(node, t + "transformations/fpe/changes", body)
    write(node, t + "transformations/fpe/changes", {"tweak_source": "generated"})  # both need the tweak
    for change, warning in (({"tweak_source": "internal"}, "tweak_source changed: values that were encoded with generated"),
                            ({"tweak_source": "supplied"}, "tweak_source changed: values that were encoded with internal"),
                            ({"template": "w"}, "template changed: values that were encoded with the former")):
        assert warning in write(node, t + "transformations/fpe/changes", change, 200).json["warnings"][0]
        write(node, t + "transformations/fpe/changes", change)


def test_a_moved_mount_keeps_its_keys(cluster):
    node = cluster.nodes[0]
    write(node, "/v1/sys/mounts/second", {"type": "transform"})
    write(node, "/v1/second/transformations/fpe/card",
          {"template": "builtin/creditcardnumber", "allowed_roles": "*", "tweak_source": "internal"}, 200)
    write(node, "/v1/second/role/r", {"transformations": "card"})
    coded = node.call("POST", "/v1/second/encode/r", {"value": CARD}).data
    answer = node.call("POST", "/v1/sys/remount", {"from": "second", "to": "third"})
    assert answer.status in (200, 204)
    for other in cluster.nodes:
        assert other.call("POST", "/v1/third/encode/r", {"value": CARD}).data == coded
    assert node.call("DELETE", "/v1/sys/mounts/third").status == 204


def test_a_long_value_against_a_large_pattern_is_refused(cluster):
    node, t = cluster.nodes[1], "/v1/transform/"
    write(node, t + "template/greedy", {"type": "regex", "pattern": "(.*)(.{1,900})"})
    write(node, t + "transformations/masking/greedy", {"template": "greedy", "allowed_roles": "greedy"})
    write(node, t + "role/greedy", {"transformations": "greedy"})
    for other in cluster.nodes:
        assert encode(other, "greedy", value="a" * 1000)["encoded_value"] == "*" * 1000
        write(other, t + "encode/greedy", {"value": "a" * 65536}, 400, "value: too long for the pattern")
        results = encode(other, "greedy", 400, batch_input=[{"value": "a" * 1000}] * 4)["batch_results"]
        assert ["error" in result for result in results] == [False, False, True, True]
        cards = encode(other, role="one", batch_input=[{"value": CARD}] * 1000)["batch_results"]
        assert {card["encoded_value"] for card in cards} == {"####-####-####-####"}


def large_alphabet(first):
    return "".join(chr(first + i) for i in range(65536))


def test_the_alphabets_of_a_request_are_shared_and_bounded(cluster):
    node, t = cluster.active(), "/v1/transform/"
    names = [f"wide{i}" for i in range(12)]
    for i in range(6):  # six alphabets; the second six transformations share the first one
        write(node, f"{t}alphabet/wide{i}", {"alphabet": large_alphabet(0x10000 + 7 * i)})
    for i, name in enumerate(names):
        alphabet = f"wide{i if i < 6 else 0}"
        write(node, f"{t}template/{name}", {"type": "regex", "pattern": "(.{2,})", "alphabet": alphabet})
        write(node, f"{t}transformations/fpe/{name}", {
            "template": name, "tweak_source": "internal", "fpe_algorithm": "ff1", "allowed_roles": "wide"})
    write(node, t + "role/wide", {"transformations": names})
    value = "".join(chr(0x10100 + i) for i in range(4))
    batch = lambda chosen: [{"value": value, "transformation": name} for name in chosen]
    for other in cluster.nodes:
        shared = encode(other, "wide", batch_input=batch(names[:1] + names[6:]))["batch_results"]
        assert len({result["encoded_value"] for result in shared}) == 7  # each has a key of its own
        results = encode(other, "wide", 400, batch_input=batch(names[:6]))["batch_results"]
        assert ["error" in result for result in results] == [False] * 4 + [True] * 2
        assert "too many symbols in their alphabets" in results[4]["error"]


@pytest.mark.parametrize("pattern,alphabet,fields,warning", [
    (r"(\d{4})-(\d{4})", "builtin/numeric", {}, None),
    (r"(\d{4})-(\d{4})", "builtin/numeric", {"encode_format": "$1-$2"}, None),
    (r"(\d{4})-?(\d{4})", "builtin/numeric", {"encode_format": "$1$2"}, None),
    (r"(\d{4})-(\d{4})", "builtin/numeric", {"encode_format": "$2-$1"}, "another order"),
    (r"(\d{4})-(\d{4})", "builtin/numeric", {"encode_format": "$1-$2-$2"}, "repeats groups"),
    (r"(\d{4})-(\d{4})", "builtin/numeric", {"encode_format": "$1/$2"}, "may not match the pattern again"),
    (r"([1-5]{8})", "builtin/numeric", {}, "may not match the pattern again"),
    (r"([1-9]\d{7})", "builtin/numeric", {}, "may not match the pattern again"),
    (r"x([a-f]{8})y", "builtin/alphalower", {}, "may not match the pattern again"),
])
def test_a_template_whose_values_would_not_decode_warns(cluster, pattern, alphabet, fields, warning):
    node, t = cluster.nodes[2], "/v1/transform/"
    body = {"type": "regex", "pattern": pattern, "alphabet": alphabet, **fields}
    node.call("DELETE", t + "template/lossy")
    answer = node.call("POST", t + "template/lossy", body)
    assert answer.status == (200 if warning else 204), answer.body
    assert not warning or warning in answer.json["warnings"][0]


def test_an_encoded_value_that_does_not_decode_comes_with_a_warning(cluster):
    node, t = cluster.nodes[0], "/v1/transform/"
    write(node, t + "alphabet/later", {"alphabet": "0123456789"})
    # the alphabet's letters are added when the template was judged already
    write(node, t + "template/later", {"type": "regex", "pattern": r"no-(\d{12})", "alphabet": "later"})
    write(node, t + "transformations/fpe/later", {
        "template": "later", "fpe_algorithm": "ff1", "tweak_source": "internal", "allowed_roles": "later"})
    write(node, t + "role/later", {"transformations": "later"})
    assert not write(node, t + "encode/later", {"value": "no-000000000000"}, 200).json["warnings"]
    write(node, t + "alphabet/later", {"alphabet": "0123456789" + "abcdefghijklmnopqrstuvwxyz" + "ABCDEFGH"}, 200)
    for other in cluster.nodes:
        body = {"batch_input": [{"value": "no-000000000000"}, {"value": "no-111111111111"}]}
        warnings = write(other, t + "encode/later", body, 200).json["warnings"]
        assert len(warnings) == 1 and "cannot be decoded" in warnings[0]


@pytest.mark.parametrize("capability", ["create", "update"])
def test_either_capability_to_write_permits_encode_and_decode(cluster, capability):
    token = cluster.limited(f"""
        path "transform/encode/payments" {{ capabilities = ["{capability}"] }}
        path "transform/decode/payments" {{ capabilities = ["{capability}"] }}
        path "transform/decode/payments/last-four" {{ capabilities = ["{capability}"] }}
        path "transform/encode/one" {{ capabilities = ["read", "list"] }}""")
    for node in cluster.nodes:
        body = {"value": "123-45-6789", "transformation": "ssn", "tweak": TWEAK}
        made = node.call("POST", "/v1/transform/encode/payments", body, token=token)
        assert made.status == 200, made.body
        body["value"] = made.data["encoded_value"]
        for path, value in (("payments", "123-45-6789"), ("payments/last-four", "6789")):
            back = node.call("POST", f"/v1/transform/decode/{path}", body, token=token)
            assert back.status == 200 and back.data["decoded_value"] == value, back.body
        assert node.call("POST", "/v1/transform/encode/one", {"value": CARD}, token=token).status == 403
        assert node.call("POST", "/v1/transform/decode/payments/dollar", body, token=token).status == 403


def test_the_document_has_the_replies_and_the_formats_of_decode(cluster):
    paths = cluster.nodes[0].call("GET", "/v1/sys/internal/specs/openapi").json["paths"]
    found = {path: item for path, item in paths.items() if "/encode/" in path or "/decode/" in path}
    assert any(path.endswith("/decode/{role}/{format}") for path in found), list(found)
    for path, item in found.items():
        assert {"200", "default"} <= set(item["post"]["responses"]), path


def test_a_refused_write_tells_nothing_about_the_name_and_null_is_absent(cluster):
    token = cluster.limited('path "transform/other/*" { capabilities = ["update"] }')
    for node in cluster.nodes:
        for path in ("alphabet/builtin/x", "template/builtin/x", "role/a/b", "transformations/fpe/card", "role/payments"):
            answer = node.call("POST", f"/v1/transform/{path}", {"alphabet": "ab"}, token=token)
            assert answer.status == 403, answer.body
            assert answer.json["errors"] == ["1 error occurred:\n\t* permission denied\n\n"], (path, answer.body)
        body = {"value": CARD, "transformation": None, "tweak": None, "reference": None, "batch_input": None,
                "partial_failure_response_code": None}
        assert encode(node, "one", **body)["encoded_value"] == "####-####-####-####"


def test_a_role_has_each_transformation_once_and_built_in_names_exist(cluster):
    node, t = cluster.nodes[1], "/v1/transform/"
    write(node, t + "role/once", {"transformations": ["card-mask", "card-mask", "card-mask"]})
    assert node.call("GET", t + "role/once").data == {"transformations": ["card-mask"]}
    assert encode(node, "once", value=CARD)["encoded_value"] == "####-####-####-####"
    for name in ("builtin/any", "builtin/none"):
        for kind in ("fpe", "masking"):
            write(node, f"{t}transformations/{kind}/none", {"template": name}, 400, "no such built-in template")
    write(node, t + "template/none", {"type": "regex", "pattern": "(x)", "alphabet": "builtin/none"}, 400, "alphabet")
    write(node, t + "encode/payments", {"value": CARD, "transformation": "card", "tweak": "ASNFZ4mrz-8="}, 400, "tweak")
