"""The construction of tokens a second time, from the README of src/api/transform alone."""

import base64
import hashlib
import hmac
import struct
import subprocess
import tempfile

DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def base58(data):
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = DIGITS[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def unbase58(text):
    number = 0
    for c in text:
        number = number * 58 + DIGITS.index(c)
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def varint(n):
    out = b""
    while n >= 0x80:
        out, n = out + bytes([n & 0x7f | 0x80]), n >> 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n) if n else b""


def block(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def message(data):
    """The fields of a message, {number: value}; a field that comes twice is an error."""
    fields, at = {}, 0

    def next_varint():
        nonlocal at
        n = shift = 0
        while True:
            n |= (data[at] & 0x7f) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                return n

    while at < len(data):
        key = next_varint()
        value = next_varint()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        assert key & 7 in (0, 2) and key >> 3 not in fields and at <= len(data)
        fields[key >> 3] = value
    return fields


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def hkdf(salt, secret, info):
    return mac(mac(salt, secret), info + b"\x01")


def derive(key, scope, label):
    return hkdf(scope, key, b"holdfast token " + label)


def header(token_id, key_version=0, expire_ms=0):
    out = block(1, token_id) + number(2, key_version)
    if expire_ms:
        out += block(3, number(1, expire_ms // 1000) + number(2, expire_ms % 1000 * 1000000))
    return out


def token(key, scope, token_id, key_version=0, expire_ms=0):
    head = header(token_id, key_version, expire_ms)
    signed = block(1, head) + block(2, mac(derive(key, scope, b"mac"), head)[:12])
    return base58(number(1, 1) + block(2, signed))


def parts(text):
    """What a token says: id, key version, (seconds, nanoseconds) of its end, mac."""
    outer = message(unbase58(text))
    assert outer[1] == 1 and set(outer) == {1, 2}
    signed = message(outer[2])
    head = message(signed[1])
    end = message(head[3]) if 3 in head else {}
    return head[1], head.get(2, 0), (end.get(1, 0), end.get(2, 0)), signed[2]


def convergent_id(fixed, scope, value, expire_ms):
    text = struct.pack("<Q", len(value)) + value + struct.pack("<Q", expire_ms)
    return mac(derive(fixed, scope, b"convergent"), text)


def lookup(key, scope, token_id):
    return mac(derive(key, scope, b"lookup"), token_id)


def fingerprint(fixed, scope, value):
    return mac(derive(fixed, scope, b"fingerprint"), value)


def data_key(key, token_id):
    return hkdf(token_id, key, b"holdfast token data")


def aad(scope, lookup_key, expire_ms, part):
    return scope + lookup_key + struct.pack("<Q", expire_ms) + part


def vectors(path):
    """Known answers: lines of words, by their first word."""
    rows = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            kind, *words = line.split()
            rows.setdefault(kind, []).append(words)
    return rows


def openssl(*words, data, keys=""):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(keys)
        file.flush()
        words = [file.name if word == "KEY" else word for word in words]
        return subprocess.run(["openssl", *words], check=True, capture_output=True, input=data).stdout


def bring(public_pem, key, hash_name="SHA256"):
    """A key that a client brings, as the field `ciphertext`."""
    mine = bytes(range(100, 132))
    sealed = openssl("pkeyutl", "-encrypt", "-pubin", "-inkey", "KEY", "-pkeyopt", "rsa_padding_mode:oaep",
                     "-pkeyopt", f"rsa_oaep_md:{hash_name}", "-pkeyopt", f"rsa_mgf1_md:{hash_name}",
                     data=mine, keys=public_pem)
    wrapped = openssl("enc", "-e", "-id-aes256-wrap-pad", "-K", mine.hex(), "-iv", "A65959A6", data=key)
    return base64.b64encode(sealed + wrapped).decode()
